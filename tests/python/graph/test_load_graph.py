# SPDX-License-Identifier: Apache-2.0
"""opgraft.load_graph: a file's graph as a callable, with packed weights and
without; no Dynamo on the way."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import opgraft
from opgraft import GuardError


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.up = torch.nn.Linear(64, 200)
        self.down = torch.nn.Linear(200, 64)
        self.tower = torch.nn.Conv2d(32, 40, 3, padding=1)

    def forward(self, x: torch.Tensor, image: torch.Tensor
                ) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.down(torch.nn.functional.gelu(self.up(x)))
        return y, self.tower(image).relu()


def inputs(rows: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return torch.randn(rows, 64), torch.randn(1, 32, 9, 9)


def exported(path: Path, **more: Any) -> Path:
    batch = torch.export.Dim("batch", min=2, max=512)
    opgraft.export(Mlp().eval(), inputs(), path,
                   dynamic_shapes=({0: batch}, None), **more)
    return path


def told(call: Any) -> Any:
    return json.loads(call.graph.stats())


def test_packed_or_not_the_bits_are_the_same(tmp_path: Path) -> None:
    plain = opgraft.load_graph(exported(tmp_path / "m.og"))
    packed = opgraft.load_graph(exported(tmp_path / "p.og", packed=True))
    model = Mlp().eval()
    for rows in (5, 2, 130):
        given = inputs(rows)
        with torch.no_grad():
            wanted = model(*given)
        results = packed(*given)
        assert isinstance(results, tuple) and len(results) == 2
        for mine, other, eager in zip(results, plain(*given), wanted):
            assert torch.equal(mine, other)
            torch.testing.assert_close(mine, eager, rtol=2e-5, atol=2e-5)
    assert told(plain)["mapped_bytes"] == 0 < told(plain)["packed_bytes"]
    assert told(packed)["packed_bytes"] == 0 < told(packed)["mapped_bytes"]


class Keyed(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {"logits": x + y, "past": [x * 2, (y - 1, None)], "y": x - y,
                "given": x, "s0": y * 3, "two words": x / 2}


def test_results_have_the_names_of_their_keys(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    opgraft.export(Keyed(), (x, x.exp()), tmp_path / "m.og")
    returned = re.search(r"return (.*)", _inspected(tmp_path / "m.og"))
    assert returned is not None
    assert re.fullmatch(r"%logits, %past_0, %past_1_0, %y_result, %x, %\d+, "
                        "%two_words", returned[1])
    opgraft.export(lambda x: (x + 1, x * 2), (x,), tmp_path / "plain.og")
    assert re.search(r"return %\d+, %\d+\n", _inspected(tmp_path / "plain.og"))


def test_what_export_refuses_says_what_else_there_is() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(Exception, match="data-dependent") as caught:
        opgraft.freeze(branch, (torch.randn(3),))
    if sys.version_info >= (3, 11):
        assert "opgraft doctor" in caught.value.__notes__[0]
    with pytest.raises(Exception, match="constant") as caught:
        opgraft.freeze(lambda x: x + 1, (torch.randn(1, 3),), dynamic_shapes=(
            {0: torch.export.Dim("batch")},))
    if sys.version_info >= (3, 11):
        assert "give 2 or more" in caught.value.__notes__[1]


def _inspected(path: Path) -> str:
    program = os.environ.get("OPGRAFT_PROGRAM") or str(
        Path(sys.executable).with_name("opgraft"))
    return subprocess.run([program, "inspect", path], check=True, text=True,
                          capture_output=True).stdout


def test_export_packs_as_the_program_does(tmp_path: Path) -> None:
    program = os.environ.get("OPGRAFT_PROGRAM") or str(
        Path(sys.executable).with_name("opgraft"))
    packed = exported(tmp_path / "p.og", packed=True).read_bytes()
    path = exported(tmp_path / "m.og")
    text = path.read_bytes().partition(b"\0")[0].decode()
    symbol = text.split("f32[", 1)[1].split(",", 1)[0]
    subprocess.run([program, "pack", str(path), f"{symbol}=5"], check=True)
    assert path.read_bytes() == packed


def test_names_and_guards(tmp_path: Path) -> None:
    call = opgraft.load_graph(exported(tmp_path / "m.og"))
    x, image = inputs()
    first = call(x, image)
    for again in (call(x, image=image), call(image=image, x=x)):
        assert all(map(torch.equal, first, again))
    for wrong, said in (
            (lambda: call(x), "argument image is missing, expected x, image"),
            (lambda: call(x, image, x), "got 3 arguments"),
            (lambda: call(x, other=image), "argument image is missing"),
            (lambda: call(x, image, other=1), "other"),
            (lambda: call(x.double(), image), "f64"),
            (lambda: call(x[:, :5], image), "its size in dim 1 is 5"),
            (lambda: call([1], image), "is <class 'list'>"),
            (lambda: call(x, image.requires_grad_()), "requires grad")):
        with pytest.raises(GuardError, match=said.replace("(", r"\(")):
            wrong()
    with torch.no_grad():
        assert all(map(torch.equal, first, call(x, image)))


def test_one_result_is_no_tuple(tmp_path: Path) -> None:
    path = tmp_path / "m.og"
    opgraft.export(lambda x, n: x * n + 1, (torch.ones(3), 4), path)
    call = opgraft.load_graph(path, mode="reduce-overhead")
    assert torch.equal(call(torch.ones(3)), torch.full((3,), 5.0))


def test_copies_open_the_file_again(tmp_path: Path) -> None:
    call = opgraft.load_graph(exported(tmp_path / "m.og"))
    wanted = call(*inputs())
    for again in (copy.copy(call), pickle.loads(pickle.dumps(call)),
                  copy.deepcopy(call)):
        assert all(map(torch.equal, wanted, again(*inputs())))


def test_threads_may_call_at_once(tmp_path: Path) -> None:
    call = opgraft.load_graph(exported(tmp_path / "m.og", packed=True))
    given = {rows: inputs(rows) for rows in (2, 5, 9)}
    wanted = {rows: opgraft.load_graph(tmp_path / "m.og")(*given[rows])
              for rows in given}
    wrong: list[int] = []

    def work(rows: int) -> None:
        for _ in range(30):
            if not all(map(torch.equal, wanted[rows], call(*given[rows]))):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(r,)) for r in (*given, *given)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def zeta(x: torch.Tensor) -> torch.Tensor:
    return torch.special.zeta(x, x)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        opgraft.load_graph(tmp_path / "none.og")
    (tmp_path / "m.og").write_text("hello")
    with pytest.raises(Exception, match="m.og: "):
        opgraft.load_graph(tmp_path / "m.og")
    with pytest.raises(ValueError, match="mode is 'fast'"):
        opgraft.load_graph(tmp_path / "m.og", mode="fast")
    opgraft.export(zeta, (torch.ones(3),), tmp_path / "m.og")
    with pytest.raises(RuntimeError, match="the engine has no aten.special_zeta"):
        opgraft.load_graph(tmp_path / "m.og")
    # It can be packed: nothing runs.
    opgraft.export(zeta, (torch.ones(3),), tmp_path / "p.og", packed=True)
    assert (tmp_path / "p.og").read_bytes() == (tmp_path / "m.og").read_bytes()
    path = exported(tmp_path / "a.og")
    altered = bytearray(path.read_bytes())
    altered[-64] ^= 1
    path.write_bytes(altered)
    call = opgraft.load_graph(path)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a.og: the file was altered"):
            call(*inputs())


def test_operators_of_modules_are_found_by_name(basics: Any, tmp_path: Path
                                                ) -> None:
    x = torch.randn(3, 16)

    def f(x: torch.Tensor) -> torch.Tensor:
        return basics.scale_add(x, x + 1, 3.0) * 2

    opgraft.export(f, (x,), tmp_path / "m.og")
    call = opgraft.load_graph(tmp_path / "m.og")
    torch.testing.assert_close(call(x), f(x))
    assert told(call)["fallbacks"] == []


ALONE = """
import sys
import torch
before = set(sys.modules)
import opgraft
call = opgraft.load_graph(sys.argv[1])
call(torch.zeros(5, 64), torch.zeros(1, 32, 9, 9))
print(*sorted({m.split(".")[1] for m in set(sys.modules) - before
               if m.startswith("torch._") or m.startswith("torch.export")}))
"""


def test_neither_dynamo_nor_inductor_is_imported(tmp_path: Path) -> None:
    path = exported(tmp_path / "m.og", packed=True)
    out = subprocess.run([sys.executable, "-c", ALONE, str(path)], check=True,
                         text=True, capture_output=True).stdout.split()
    assert not {"_dynamo", "_inductor", "_functorch", "export"} & set(out), out


CHILD = """
import os, re, sys
import opgraft, torch
call = opgraft.load_graph(sys.argv[1])
call(torch.zeros(5, 1024))
print("ready", flush=True)
sys.stdin.readline()
found, name = {}, None
for line in open("/proc/self/smaps"):
    if re.match(r"[0-9a-f]+-", line): name = line.split("/")[-1].strip()
    m = re.match(r"(Rss|Pss): +(\\d+)", line)
    if m and name == os.path.basename(sys.argv[1]):
        found[m[1]] = found.get(m[1], 0) + int(m[2])
print(found["Rss"], found["Pss"], flush=True)
sys.stdin.readline()
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_two_processes_have_one_copy(tmp_path: Path) -> None:
    path = tmp_path / "m.og"
    opgraft.export(torch.nn.Linear(1024, 4096).eval(), (torch.zeros(5, 1024),),
                   path, packed=True)
    children = [subprocess.Popen([sys.executable, "-c", CHILD, str(path)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True) for _ in range(2)]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write("\n")
            child.stdin.flush()
            rss, pss = map(int, child.stdout.readline().split())
            # The packed form, not the weight beside it.
            assert 16384 <= rss < 1.2 * 16384
            assert pss <= 0.6 * rss
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_sizes_keep_the_names_of_dims(tmp_path: Path) -> None:
    def f(x: torch.Tensor, more: dict[str, list[torch.Tensor]],
          *, z: torch.Tensor) -> torch.Tensor:
        return x @ more["y"][0] + z.sum()

    dim = torch.export.Dim
    path = tmp_path / "m.og"
    opgraft.export(
        f, (torch.ones(3, 4), {"y": [torch.ones(4, 6)]}), path,
        {"z": torch.ones(7)}, packed=True, dynamic_shapes={
            "x": {0: dim("rows")}, "more": {"y": [{1: dim("none")}]},
            "z": (dim("tail"),)})
    text = path.read_text(errors="replace")
    assert "%x: f32[rows, 4]" in text and "%z: f32[tail]" in text
    assert "f32[none" not in text and f"{__file__}:" in text
    x, y = torch.rand(2, 4), torch.rand(4, 9)
    call = opgraft.load_graph(path)
    torch.testing.assert_close(call(x, y, torch.ones(5)), x @ y + 5)


def test_a_size_of_data_names_its_line(tmp_path: Path) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sum()

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(NotImplementedError, match=re.escape(
            f"{__file__}:{line}: the size of aten.index.Tensor's result")):
        opgraft.export(f, (torch.randn(4),), tmp_path / "m.og")


def test_a_file_with_an_adopted_operator_says_what_it_needs(
        tmp_path: Path) -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    op = opgraft.adopt(twice, "twice(Tensor x) -> Tensor", "x[*N] -> [*N]",
                       "x: f32 -> x", name="exported::twice")
    with pytest.warns(RuntimeWarning, match=r"exported::twice is adopted from "
                      r".*twice.*, whose code is not in the file"):
        opgraft.export(lambda x: op(x) + 1, (torch.ones(2),), tmp_path / "m.og")
    opgraft.unadopt(op)
