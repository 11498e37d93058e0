# SPDX-License-Identifier: Apache-2.0
"""AOTInductor: packages whose code calls the module's C functions."""

from __future__ import annotations

import pathlib
import subprocess
import zipfile
from typing import Any

import pytest

import build

torch = pytest.importorskip(
    "torch", reason="PyTorch is not in this environment")

import opgraft.aoti  # noqa: E402

LIBTORCH = pathlib.Path(torch.__file__).parent / "lib/libtorch.so"


@pytest.fixture(scope="module")
def scale(modules: pathlib.Path) -> Any:
    return opgraft.aoti.load(modules / "scale.so")


@pytest.fixture(scope="module")
def kinds(modules: pathlib.Path) -> Any:
    return opgraft.aoti.load(modules / "kinds.so")


def package(model: Any, args: tuple[Any, ...], path: pathlib.Path,
            configs: dict[str, Any], dynamic: Any = None) -> Any:
    exported = torch.export.export(model, args, dynamic_shapes=dynamic)
    return torch._inductor.aoti_compile_and_package(
        exported, package_path=str(path), inductor_configs=configs)


def parts(path: pathlib.Path, suffix: str) -> list[bytes]:
    with zipfile.ZipFile(path) as archive:
        return [archive.read(n) for n in archive.namelist()
                if n.endswith(suffix)]


class Scaled(torch.nn.Module):
    def forward(self, x: Any, weight: Any) -> Any:
        return torch.relu(torch.ops.scale.scale(x * 2, weight)) + 1


@pytest.fixture(scope="module")
def packaged(scale: Any, tmp_path_factory: pytest.TempPathFactory
             ) -> pathlib.Path:
    path = tmp_path_factory.mktemp("aoti") / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=4096)
    package(Scaled(), (torch.randn(3, 4), torch.randn(4)), path,
            scale.configs(), ({0: batch}, None))
    return path


def test_a_package(packaged: pathlib.Path) -> None:
    code = b"".join(parts(packaged, ".wrapper.cpp")).decode()
    assert "CHECK(aoti_torch_opgraft_into_scale(" in code
    run = torch._inductor.aoti_load_package(str(packaged))
    for rows in (1, 3, 100):
        x, weight = torch.randn(rows, 4), torch.randn(4)
        assert torch.equal(run(x, weight), Scaled()(x, weight))


def test_a_package_in_plain_c(packaged: pathlib.Path, modules: pathlib.Path,
                              tmp_path: pathlib.Path) -> None:
    (model,) = parts(packaged, ".so")
    (tmp_path / "model.so").write_bytes(model)
    program = tmp_path / "run"
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror",
         str(build.ROOT / "examples/aoti/run.c"), "-o", str(program), "-ldl"],
        check=True)
    done = subprocess.run(
        [str(program), str(LIBTORCH), str(modules / "scale.so"),
         str(tmp_path / "model.so")], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "3 41 601 8001",
        "3 41 601 8001 11 121 1401 16001 19 201 2201 24001"], done.stderr


class Kinds(torch.nn.Module):
    """Writes, optional tensors, lists, several results, types, other
    arguments."""

    def forward(self, cache: Any, rows: Any, x: Any, bias: Any, half: Any
                ) -> Any:
        ops = torch.ops.kinds
        ops.put_rows_(cache, rows, 3)
        least, most = ops.spread(x)
        return (cache * 1, least, most, ops.maybe(x, None, bias),
                ops.maybe(x, bias), ops.total([x, x * 2, x]),
                ops.affine(half, half, 0.25), ops.refuse(x, 3),
                ops.tilt(x, 0.5), ops.twice(torch.ones(3, dtype=torch.int64)))


def test_kinds_of_arguments(kinds: Any, tmp_path: pathlib.Path) -> None:
    assert set(kinds.missing) == {"digest"}
    assert "passes a Scalar as a double" in kinds.missing["digest"]

    def arguments() -> tuple[Any, ...]:
        torch.manual_seed(3)
        return (torch.randn(8, 7), torch.randn(2, 7), torch.randn(2, 3, 5),
                torch.randn(5), torch.randn(9).bfloat16())

    path = tmp_path / "kinds.pt2"
    package(Kinds(), arguments(), path, kinds.configs())
    code = b"".join(parts(path, ".wrapper.cpp")).decode()
    for name in ("spread", "maybe", "total"):
        assert f"CHECK(aoti_torch_cpu_{name}(" in code, name
    # A formula is a loop of Inductor's own.
    assert "CHECK(aoti_torch_opgraft_into_tilt(" not in code
    for name in ("affine", "refuse", "twice"):  # one planned result
        assert f"CHECK(aoti_torch_opgraft_into_{name}(" in code, name
    run = torch._inductor.aoti_load_package(str(path))
    ours, theirs = arguments(), arguments()
    for a, b in zip(run(*ours), Kinds()(*theirs)):
        assert a.dtype == b.dtype and torch.equal(a, b)
    assert torch.equal(ours[0], theirs[0])


class Conjugated(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.ops.limits.product(x.conj(), y)


def test_a_conjugate_is_resolved(modules: pathlib.Path, tmp_path: pathlib.Path
                                 ) -> None:
    m = opgraft.aoti.load(modules / "limits.so")
    assert {"product", "product_backward"} <= set(m.missing)
    assert "an argument may be complex" in m.missing["product"]
    x, y = (torch.randn(5, dtype=torch.complex64) for _ in range(2))
    path = tmp_path / "conjugated.pt2"
    package(Conjugated(), (x, y), path, m.configs())
    run = torch._inductor.aoti_load_package(str(path))
    assert torch.equal(run(x, y), Conjugated()(x, y))


class Refused(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.ops.kinds.refuse(x, 4)


class Pairs(torch.nn.Module):
    def __init__(self, bools: int = 2) -> None:
        super().__init__()
        self.bools = bools

    def forward(self, x: Any) -> Any:
        return torch.ops.kinds.pairs(
            x, [True, False], [False, True] * (self.bools // 2), [2, 3],
            [5, -1], [0.5, 0.25], [1.5, 0.125])


def test_two_lists_of_each_kind(kinds: Any, tmp_path: pathlib.Path) -> None:
    x = torch.randn(3)
    path = tmp_path / "pairs.pt2"
    package(Pairs(), (x,), path, kinds.configs())
    assert b"aoti_torch_cpu_pairs(" in b"".join(parts(path, ".wrapper.cpp"))
    run = torch._inductor.aoti_load_package(str(path))
    assert torch.equal(run(x), Pairs()(x))
    path = tmp_path / "long.pt2"
    package(Pairs(64), (x,), path, kinds.configs())
    run = torch._inductor.aoti_load_package(str(path))
    with pytest.raises(RuntimeError, match="pairs: the lists of a call have "
                                           "more than 64 bools"):
        run(x)


def test_a_refusal_has_its_text(kinds: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "refused.pt2"
    package(Refused(), (torch.randn(3),), path, kinds.configs())
    run = torch._inductor.aoti_load_package(str(path))
    with pytest.raises(RuntimeError, match="refuse: level is above 3"):
        run(torch.randn(3))


class After(torch.nn.Module):
    def forward(self, *xs: Any) -> Any:
        return [torch.ops.unsigned_types.after(x) for x in xs]


def test_unsigned_numbers(tmp_path: pathlib.Path) -> None:
    m = opgraft.aoti.load(build.module(
        build.HERE / "unsigned.c", tmp_path / "unsigned.so", "torch,aoti"))
    xs = tuple(torch.tensor([0, 7, 2 ** (bits - 1)], dtype=dtype)
               for bits, dtype in ((16, torch.uint16), (32, torch.uint32),
                                   (63, torch.uint64)))
    path = tmp_path / "after.pt2"
    package(After(), xs, path, m.configs())
    assert b"CHECK(aoti_torch_opgraft_into_after(" in b"".join(
        parts(path, ".wrapper.cpp"))
    run = torch._inductor.aoti_load_package(str(path))
    for x, y in zip(xs, run(*xs)):
        assert y.dtype == x.dtype
        assert y.tolist() == [v + 1 for v in x.tolist()]


def test_files_that_do_not_serve_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "scale.c").write_text(build.scale_source())
    plain = build.module(tmp_path / "scale.c", tmp_path / "plain.so", "torch")
    with pytest.raises(ImportError, match="does not serve AOTInductor"):
        opgraft.aoti.load(plain)


def test_names_that_libtorch_has(tmp_path: pathlib.Path) -> None:
    text = build.scale_source().replace('"scale(', '"addmm_out(')
    (tmp_path / "named.c").write_text(text)
    path = build.module(tmp_path / "named.c", tmp_path / "named.so", "aoti")
    m = opgraft.aoti.load(path)
    assert "libtorch has a function of its name" in m.missing["addmm_out"]


def test_a_name_of_two_files(scale: Any, tmp_path: pathlib.Path) -> None:
    """Packages call that of the file that was loaded first."""
    source = tmp_path / "other.c"
    source.write_text(build.scale_source().replace("OG_MODULE(scale,",
                                                   "OG_MODULE(other_scale,"))
    m = opgraft.aoti.load(
        build.module(source, tmp_path / "other.so", "torch,aoti"))
    assert scale.path in m.missing["scale"]
    assert "has an operator of its name" in m.missing["scale"]
    assert not m.shims
