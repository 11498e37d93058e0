# SPDX-License-Identifier: Apache-2.0
"""Formulas: operators without a kernel, from C and from Python."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import formula_grow
import numpy as np
import pytest
import torch

import opgraft

ROOT = Path(__file__).resolve().parents[3]
NORM = {"schema": "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        "shape": "x[*N, D], weight[D] -> [*N, D]",
        "row": "s = row_sum(x * x); y = x / sqrt(s / width + eps) * weight"}
CAP = {"schema": "softcap(Tensor x, float cap=30.0) -> Tensor",
       "row": "y = cap * tanh(x / cap)"}
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def c_text(*declarations: dict[str, str]) -> str:
    entries = "".join(
        "    {" + ", ".join(f'.{key} = "{text}"' for key, text in d.items())
        + "},\n" for d in declarations)
    return ("#include <opgraft/op.h>\n\nstatic const og_op ops[] = {\n"
            f"{entries}}};\nOG_MODULE(formulas_in_c, ops)\n")


def norm_of(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6
            ) -> torch.Tensor:
    wide = x.double()
    scale = (wide * wide).mean(-1, keepdim=True).add(eps).sqrt()
    return wide / scale * w.double()


def cap_of(x: torch.Tensor, cap: float = 30.0) -> torch.Tensor:
    return cap * torch.tanh(x.double() / cap)


def units(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference, in units in the last place of the float64 result
    rounded to the type."""
    rounded = exact.to(found.dtype).double()
    info = torch.finfo(found.dtype)
    _, exponent = torch.frexp(rounded)
    ulp = info.eps * torch.exp2((exponent - 1).double())
    ulp = ulp.clamp_min(info.smallest_normal * info.eps)
    return float(((found.double() - rounded).abs() / ulp).max())


@pytest.fixture(scope="module")
def norm() -> Callable[..., Any]:
    return opgraft.define(**NORM)


@pytest.fixture(scope="module")
def softcap() -> Callable[..., Any]:
    return opgraft.define(**CAP)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [1, 7, 128, 4097])
def test_values_are_within_two_units(norm: Any, softcap: Any, dtype: torch.dtype,
                                     width: int) -> None:
    x = (torch.randn(5, 3, width) * 40).to(dtype)
    w = torch.randn(width).to(dtype)
    bound = 2 if dtype != torch.float64 else 8
    assert units(norm(x, w), norm_of(x, w)) <= bound
    assert units(softcap(x), cap_of(x)) <= bound
    assert units(softcap(x, 2.5), cap_of(x, 2.5)) <= bound


@pytest.mark.parametrize("dtype", TYPES[:2])
def test_it_computes_what_the_kernel_does(norm: Any, ops: Any,
                                          dtype: torch.dtype) -> None:
    x, w = torch.randn(64, 768).to(dtype), torch.randn(768).to(dtype)
    exact = norm_of(x, w)
    found, kernel = norm(x, w), ops.rms_norm(x, w, 1e-6)
    print(f"{dtype}: {units(found, exact):.0f} units by the formula, "
          f"{units(kernel, exact):.0f} by the kernel")
    assert units(found, exact) <= max(2, units(kernel, exact))


def test_an_operator_file_needs_no_kernel(write_module: Any, norm: Any,
                                          softcap: Any) -> None:
    m = opgraft.load(write_module(c_text(NORM, CAP)))
    x, w = torch.randn(9, 33), torch.randn(33)
    assert torch.equal(m.rms_norm(x, w), norm(x, w))
    assert torch.equal(m.softcap(x), softcap(x))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("dtype", TYPES)
def test_compiled_is_eager(norm: Any, softcap: Any, mode: str,
                           dtype: torch.dtype) -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return softcap(norm(x, w), 2.0)

    torch._dynamo.reset()
    x, w = torch.randn(6, 96).to(dtype), torch.randn(96).to(dtype)
    options = {"mode": mode, "fallback": "error"}
    compiled = torch.compile(model, backend="opgraft", fullgraph=True,
                             options=options)
    found, eager = compiled(x, w), model(x, w)
    if mode == "max-autotune" and dtype.itemsize == 2:
        # One program, which does not round between the two.
        exact = cap_of(norm_of(x, w), 2.0)
        assert units(found, exact) <= min(2, units(eager, exact))
    else:
        assert torch.equal(found, eager)


def test_layouts_and_dims_that_are_missing() -> None:
    f = opgraft.define(
        "turned(Tensor x, Tensor cos, Tensor scale, Tensor? bias=None) -> "
        "(Tensor out, Tensor top)",
        shape="x[B, T, D], cos[T, D], scale[B, D], bias?[B, 1, D] -> "
              "[B, T, D], [B, T]",
        row="out = x * cos * scale; out = out + bias; top = row_max(out)",
        name="shapes::turned")
    x = torch.randn(4, 8, 3).transpose(0, 2)  # [3, 8, 4]
    cos, scale = torch.randn(4, 8).t(), torch.randn(3, 4)
    bias = torch.randn(3, 1, 8)[..., ::2]
    plain = x * cos * scale[:, None]
    for given in (None, bias):
        expected = plain if given is None else plain + given
        out, top = f(x, cos, scale, given)
        torch.testing.assert_close(out, expected)
        assert torch.equal(top, out.amax(-1))


@pytest.mark.parametrize("dtype", TYPES + [torch.int64])
def test_places(dtype: torch.dtype) -> None:
    """A causal mask, and the first places of the largest and the least."""
    masked = opgraft.define(
        "masked(Tensor x) -> Tensor", name="places::masked",
        shape="x[*N, T, D] -> [*N, T, D]", dtype="x: floating|integral -> x",
        row="select(column <= row, x, 0 - 1)")
    found = opgraft.define(
        "found(Tensor x) -> (Tensor most, Tensor least)", name="places::found",
        shape="x[*N, D] -> [*N], [*N]", dtype="x: floating|integral -> int64, int64",
        row="most = row_argmax(x); least = row_argmin(x)")
    x = torch.randint(-9, 10, (2, 3, 5, 40)).to(dtype)
    x[0, 0, :, 7] = x[0, 0, :, 19] = 11
    if dtype.is_floating_point:
        x[0, 1, 1, 30] = x[0, 1, 1, 33] = float("nan")
    expected = x.masked_fill(torch.ones(5, 40).triu(1).bool(), -1)
    is_compiled = dtype is torch.float32
    for mode in (None, "default", "max-autotune") if is_compiled else (None,):
        torch.testing.assert_close(in_mode(masked, mode)(x), expected, rtol=0,
                                   atol=0, equal_nan=True)
        for y in (x, x.transpose(0, 2), x.transpose(-1, -2)):
            most, least = in_mode(found, mode)(y)
            assert torch.equal(most, first(y, y.max(-1, keepdim=True)[0]))
            assert torch.equal(least, first(y, y.min(-1, keepdim=True)[0]))


@pytest.mark.parametrize("dtype", TYPES + [torch.int64])
@pytest.mark.parametrize("rows", [0, 1, 7, 64, 1000])
def test_sums_over_rows(dtype: torch.dtype, rows: int) -> None:
    """8 rows in pairs, 8 of these, then in order: the bits of any number of
    threads, and of any layout."""
    f = opgraft.define(
        "sums(Tensor x, Tensor g) -> (Tensor w, Tensor all, Tensor top)",
        shape="x[*N, D], g[*N, D] -> [D], [], [*N]", name="sums::sums",
        dtype="x: floating|integral, g: x -> x, x, x",
        row="w = sum_rows(x * g); s = row_sum(x); all = sum_rows(s); "
            "top = row_max(g)")
    x, g = (torch.randint(-8, 9, (rows, 3, 37)).to(dtype) for _ in range(2))
    if dtype.is_floating_point:
        x = x + torch.rand(rows, 3, 37).to(dtype)
    threads, found = torch.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            found.append(f(x, g))
            found.append(f(x.transpose(0, 2).contiguous().transpose(0, 2), g))
    finally:
        torch.set_num_threads(threads)
    w, total, top = found[0]
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))
    wide = torch.float64 if dtype.is_floating_point else dtype
    products = x.to(wide) * g.to(wide)
    eps = torch.finfo(dtype).eps if dtype.is_floating_point else 0
    for sum_, terms in ((w, products), (total, x.to(wide).sum(-1))):
        exact = terms.sum((0, 1))
        bound = eps * exact.abs() + 40 * 2**-24 * (eps != 0) * terms.abs().sum(
            (0, 1))
        assert (sum_.to(wide) - exact).abs().le(bound).all()
    assert torch.equal(top, g.amax(-1))
    if rows == 7:
        assert torch.equal(w, in_mode(f, "max-autotune")(x, g)[0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", [None, "max-autotune"])
def test_an_element_by_its_index(dtype: torch.dtype, mode: str | None) -> None:
    f = opgraft.define(
        "loss(Tensor x, Tensor label) -> (Tensor loss, Tensor all)",
        shape="x[*N, D], label[*N] -> [*N], []", name="picks::loss",
        dtype="x: floating, label: int32|int64 -> x, x",
        row="m = row_max(x); s = row_sum(exp(x - m)); "
            "loss = log(s) + m - pick(x, label); "
            "all = sum_rows(log(s) + m - pick(x, label))")
    x, label = torch.randn(3, 70, 37).to(dtype), torch.randint(37, (3, 70))
    x[0, 0, (label[0, 0] + 1) % 37] = float("-inf")
    exact = torch.nn.functional.cross_entropy(
        x.double().flatten(0, 1), label.flatten(), reduction="none")
    loss, total = in_mode(f, mode)(x, label)
    assert units(loss.flatten(), exact) <= (64 if dtype.itemsize > 2 else 4)
    torch.testing.assert_close(total, exact.sum().to(dtype))
    for wrong in (-1, 37):
        bad = label.clone()
        bad[1, 4] = bad[2, 9] = wrong
        for run in (f, in_mode(f, mode)):
            with pytest.raises(RuntimeError) as error:
                run(x, bad)
            assert "row 74: an index is out of range: pick(x, label)" in str(
                error.value)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [2, 34, 200])
@pytest.mark.parametrize("pairs", [False, True])
def test_parts_of_rows(dtype: torch.dtype, width: int, pairs: bool) -> None:
    """Gated units and rotary forms, in several layouts and in place."""
    split, join = ("pairs", "interleave") if pairs else ("halves", "join")
    glu = opgraft.define(
        "glu(Tensor x) -> Tensor", name=f"{split}::glu",
        shape="x[*N, D] -> [*N, D // 2]",
        row=f"a, b = {split}(x); y = a * max(b, 0)")
    rope = opgraft.define(
        "rope(Tensor x, Tensor c, Tensor s) -> Tensor", name=f"{split}::rope",
        shape="x[*N, T, D], c[T, D // 2], s[T, D // 2] -> [*N, T, D]",
        row=f"a, b = {split}(x); y = {join}(a * c - b * s, b * c + a * s)")
    turn = opgraft.define(
        "turn_(Tensor(a!) x) -> ()", name=f"{split}::turn_", shape="x[*N, D]",
        row=f"a, b = {split}(x); x = {join}(-b, a)", dtype="x: floating")

    def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x[..., ::2], x[..., 1::2]) if pairs else x.chunk(2, -1)

    def whole(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (torch.stack((a, b), -1).flatten(-2) if pairs
                else torch.cat((a, b), -1))

    base = torch.randint(-8, 9, (3, 5, width)).to(dtype)
    cos, sin = (torch.randint(-8, 9, (5, width // 2)).to(dtype)
                for _ in range(2))
    for x in (base, base.transpose(0, 2).contiguous().transpose(0, 2)):
        a, b = parts(x)
        assert torch.equal(glu(x), a * b.relu())
        assert torch.equal(rope(x, cos, sin),
                           whole(a * cos - b * sin, b * cos + a * sin))
        own = x.clone()
        turn(own)
        assert torch.equal(own, whole(-b, a))
    c = in_mode(lambda x: glu(x) + 1, "max-autotune")
    assert torch.equal(c(base), glu(base) + 1)
    if dtype != torch.float64 and width > 2:
        assert opgraft.stats(c).row_programs == 1
        assert (opgraft.stats(c).fused_nodes == 2) is not pairs
    with pytest.raises(RuntimeError, match="a half has"):
        turn(base[..., 1:].clone())


def test_what_it_requires() -> None:
    f = opgraft.define(
        "checked(Tensor x, Tensor? w=None) -> Tensor", name="checks::checked",
        shape="x[*N, D], w?[D] -> [*N, D]",
        row="require(x >= 0, 'x is negative'); y = x + x; "
            "require(w != 0, 'w is 0'); y = y / w")
    for x in (torch.rand(200, 9), torch.rand(200, 9).double()):
        w = torch.rand(9) + 1
        assert torch.equal(f(x), x + x)
        assert torch.equal(f(x, w), (x + x) / w)
        x[130, 3] = x[199, 8] = -1
        with pytest.raises(RuntimeError, match="row 130: x is negative"):
            f(x)
        x[x < 0] = float("nan")
        with pytest.raises(RuntimeError, match="row 130: x is negative"):
            f(x, w)
        w[3] = 0
        with pytest.raises(RuntimeError, match="row 0: w is 0"):
            f(x.nan_to_num(1), w)


def test_the_first_wrong_row_beside_sums() -> None:
    """Sums over rows walk the dims in another order; rows are counted as they
    stand in the space."""
    f = opgraft.define(
        "counted(Tensor x) -> (Tensor a, Tensor b)", name="checks::counted",
        shape="x[A, B, C, D] -> [A, B, C, D], [B, D]",
        row="require(x >= 0, 'x is negative'); a = x + 1; b = sum_rows(x)")
    for sizes in ((4, 5, 3, 2), (1, 70, 2, 3), (70, 1, 1, 9), (3, 1, 40, 1)):
        rows = sizes[0] * sizes[1] * sizes[2]
        for row in (0, 1, rows // 3, rows - 2, rows - 1):
            x = torch.rand(sizes)
            x.view(rows, -1)[row] = -1
            x.view(rows, -1)[rows - 1] = -1
            with pytest.raises(RuntimeError, match=f"row {row}: x is neg"):
                f(x)
            with pytest.raises(RuntimeError, match=f"row {row}: x is neg"):
                f(x.transpose(0, 2).contiguous().transpose(0, 2))


@pytest.mark.parametrize("dtype", TYPES)
def test_arguments_that_it_writes(dtype: torch.dtype) -> None:
    """Reads mean the old value, in every layout."""
    f = opgraft.define(
        "step(Tensor(a!) p, Tensor(b!) m, Tensor g, float lr) -> Tensor",
        shape="p[*N, D], m[*N, D], g[*N, D] -> [*N]", name="writes::step",
        dtype="p: floating, m: p, g: p -> p",
        row="m = m / 2 + g; p = p - lr * (m / 2 + g); y = row_max(p)")
    p, m, g = (torch.randint(-8, 9, (5, 3, 37)).to(dtype) for _ in range(3))
    for turn in (lambda x: x.clone(),
                 lambda x: x.transpose(0, 2).contiguous().transpose(0, 2)):
        own_p, own_m = turn(p), turn(m)
        y = f(own_p, own_m, g, 0.5)
        assert torch.equal(own_m, m / 2 + g)
        assert torch.equal(own_p, p - 0.5 * (m / 2 + g))
        assert torch.equal(y, p.amax(-1))
        own_p, own_m = turn(p), turn(m)
        in_mode(f, "max-autotune")(own_p, own_m, g, 0.5)
        assert torch.equal(own_p, p - 0.5 * (m / 2 + g))
    relu = opgraft.define("relu_(Tensor(a!) x) -> Tensor(a!)", row="max(x, 0)",
                          shape="x[*N]", dtype="x: floating", name="writes::relu")
    own = p.clone()
    assert relu(own) is own and torch.equal(own, p.relu())


def in_mode(f: Any, mode: str | None) -> Any:
    torch._dynamo.reset()
    return f if mode is None else torch.compile(
        lambda *x: f(*x), backend="opgraft", fullgraph=True,
        options={"mode": mode, "fallback": "error"})


def first(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    here = (x == value) | (x != x)
    places = torch.arange(x.shape[-1]).expand_as(x)
    return places.masked_fill(~here, x.shape[-1]).min(-1)[0]


def test_vmap_puts_the_batch_in_front(norm: Any) -> None:
    x, w = torch.randn(5, 3, 8), torch.randn(8)
    assert torch.equal(torch.vmap(norm, in_dims=(0, None))(x, w), norm(x, w))


def test_export_keeps_the_operator(norm: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return norm(x, w)

    x, w = torch.randn(2, 8), torch.randn(8)
    program = torch.export.export(Model(), (x, w))
    assert torch.equal(program.module()(x, w), norm(x, w))


def test_threads_do_not_change_the_bits(norm: Any, softcap: Any) -> None:
    x, w = torch.randn(300, 1031), torch.randn(1031)
    threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 2, 4):
            torch.set_num_threads(n)
            results.append((norm(x, w), softcap(x)))
    finally:
        torch.set_num_threads(threads)
    for a, b in results[1:]:
        assert torch.equal(a, results[0][0]) and torch.equal(b, results[0][1])


# --- Definitions --------------------------------------------------------------


def last_cache_bytes() -> int:
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max([int(size.read_text().strip().rstrip("K")) << 10
                for size in sizes], default=0)


@pytest.mark.parametrize("dtype", TYPES)
def test_results_beyond_the_cache(norm: Any, dtype: torch.dtype) -> None:
    """They pass it, where their rows begin at its lines, and sums beside them
    do not; operands that are so are read ahead."""
    bytes_ = last_cache_bytes()
    if not 0 < bytes_ <= 64 << 20:
        pytest.skip("no last-level cache that a test may exceed")
    width = 2048
    rows = bytes_ // (width * dtype.itemsize) + 16
    both = opgraft.define(
        "beyond(Tensor x) -> (Tensor y, Tensor s, Tensor m)",
        shape="x[N, D] -> [N, D], [D], [N]",
        row="y = x * x + 1; s = sum_rows(x); m = row_max(x)")
    x = torch.randn(rows, width).to(dtype)
    w = torch.randn(width).to(dtype)
    memory = torch.empty(rows * width + 64, dtype=dtype)
    few = slice(rows - 5, rows)
    for first in (0, 1, 32):  # at a line, between elements of it
        out = memory[first:first + rows * width].view(rows, width)
        norm(x, w, out=out)
        assert torch.equal(out[few], norm(x[few], w))
    for call in (both, torch.compile(both, backend="opgraft")):
        y, s, m = call(x)
        assert torch.equal(y[few], both(x[few])[0])
        assert torch.equal(m, x.amax(-1))
        torch.testing.assert_close(s.float(), x.float().sum(0), rtol=1e-2,
                                   atol=1)
    add = torch.compile(lambda x, w: x + w, backend="opgraft",
                        mode="max-autotune")
    assert torch.equal(add(x, w), x + w)


def test_a_taken_name_with_another_text_is_refused(softcap: Any) -> None:
    assert opgraft.define(**CAP) is softcap
    with pytest.raises(ValueError) as caught:
        opgraft.define(CAP["schema"], row="y = x")
    for text in (CAP["row"], "row='y = x'", "formulas::softcap"):
        assert text in str(caught.value)
    other = opgraft.define(CAP["schema"], row="y = x", name="others::softcap")
    assert torch.equal(other(torch.ones(2)), torch.ones(2))


def test_it_pickles_by_its_declaration(tmp_path: Path) -> None:
    f = opgraft.define("twice(Tensor x) -> Tensor", row="2 * x",
                       name="pickled::twice")
    assert pickle.loads(pickle.dumps(f)) is f
    file = tmp_path / "f.pickle"
    file.write_bytes(pickle.dumps(f))
    text = subprocess.run(
        [sys.executable, "-c",
         "import pickle, sys, torch\n"
         "f = pickle.load(open(sys.argv[1], 'rb'))\n"
         "print(f(torch.ones(2)).tolist())", file],
        check=True, capture_output=True, text=True).stdout
    assert text == "[2.0, 2.0]\n"


def test_an_error_shows_its_place() -> None:
    with pytest.raises(RuntimeError) as caught:
        opgraft.define("f(Tensor x) -> Tensor", row="s = x;\ny = s + row_med(x)")
    lines = str(caught.value).split("\n")
    assert lines[0].startswith("f: row: at 15: unknown function 'row_med'")
    assert lines[1:] == ["  y = s + row_med(x)", "          ^"]


def test_the_page_shows_what_is_tested() -> None:
    page = ROOT / "docs" / "formulas.md"
    c, python, derived, session = re.findall(
        r"^```\w*\n(.*?)^```$", page.read_text(), re.S | re.M)
    from opgraft._load.define import _defined

    opgraft.define("softmax(Tensor x) -> Tensor", shape="x[*N, D] -> [*N, D]",
                   row="e = exp(x - row_max(x)); y = e / row_sum(e)",
                   name="page::softmax")
    tables = _defined["page", "softmax"]._descriptions["softmax_gradient"].tables
    assert all(tables[key] in derived for key in ("schema", "row"))
    assert all(f'"{text}"' in c for text in NORM.values())
    shown: dict[str, Any] = {"opgraft": opgraft}
    exec(python, shown)
    x = torch.linspace(-90, 90, 7)
    assert units(shown["softcap"](x), cap_of(x)) <= 2
    with pytest.raises(RuntimeError) as error:
        opgraft.define("f(Tensor x) -> Tensor", row="y = x + z")
    assert f"RuntimeError: {error.value}\n" in session


# --- Random formulas ----------------------------------------------------------

FORMULAS = 60
COMPILED = 3  # of these as C, too
# Instruction set, and how many formulas by which means.
MEANS = (("scalar", FORMULAS, "define"), ("avx2", FORMULAS, "define"),
         ("avx512", FORMULAS, "define"), ("scalar", COMPILED, "c"))


def random_formulas(folder: Path, first: int, counts: tuple[Any, ...] = MEANS
                    ) -> None:
    """The same bits in every instruction set and in C, within bounds of
    float64."""
    processes = [subprocess.Popen(
        [sys.executable, formula_grow.__file__, folder / f"{k}.npz",
         str(first), str(count), how], env={**os.environ, "OPGRAFT_ISA": isa})
        for k, (isa, count, how) in enumerate(counts)]
    assert [process.wait() for process in processes] == [0] * len(counts)
    found = [np.load(folder / f"{k}.npz") for k in range(len(counts))]
    compared = 0
    for seed in range(first, first + counts[0][1]):
        formula = formula_grow.grow(seed)
        for name, (exact, bound) in zip("ytu", formula.exact()):
            key = f"f{seed}{name}"
            own, *others = (f[key] for f in found if key in f)
            for other in others:
                assert np.array_equal(own, other, equal_nan=True), (
                    seed, formula.row)
            with np.errstate(invalid="ignore"):
                difference = np.abs(own.astype(np.float64) - exact)
            is_known = np.isfinite(bound)
            compared += int(is_known.sum())
            assert (difference <= bound)[is_known].all(), (seed, formula.row)
    print(f"{compared} elements of {counts[0][1]} formulas compared with "
          "float64")
    assert compared > 20 * counts[0][1]


@pytest.mark.full
def test_random_formulas(tmp_path: Path) -> None:
    random_formulas(tmp_path, 0)


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_many_random_formulas(tmp_path: Path, first: int, portion: float
                              ) -> None:
    count = max(50, int(500 * portion))
    random_formulas(tmp_path, first, tuple(
        (isa, count, how) for isa, _, how in MEANS))


def test_a_graph_of_many_formulas() -> None:
    steps = [opgraft.define("step(Tensor x) -> Tensor", row=f"y = x + {k}",
                            name=f"many_{k}::step") for k in range(40)]

    def chain(x: torch.Tensor) -> torch.Tensor:
        for step in steps:
            x = step(x)
        return x

    c = torch.compile(chain, backend="opgraft", fullgraph=True)
    assert c(torch.zeros(3)).tolist() == [780.0] * 3


def test_where_compares_floats() -> None:
    op = opgraft.define(
        "cap_between(Tensor x, float cap=30.0) -> Tensor", CAP["row"],
        where="cap >= 0.5 and cap < 100")
    x = torch.ones(4)
    op(x, 0.5)
    said = "expected cap >= 0.5 and cap < 100, but cap is 100"
    with pytest.raises(RuntimeError, match=said):
        op(x, 100.0)
    with pytest.raises(RuntimeError, match="an argument that is NaN"):
        op(x, float("nan"))
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert op(fake, 0.5).shape == x.shape
        for cap in (0.25, float("nan")):
            with pytest.raises(RuntimeError, match="cap >= 0.5|NaN"):
                op(fake, cap)
