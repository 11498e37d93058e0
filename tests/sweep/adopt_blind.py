# SPDX-License-Identifier: Apache-2.0
"""Fifty-two callables of a stranger, adopted as docs/adopt.md tells.

The cases (tests/sweep/blind) were written from that page alone, before
anything was run: a callable, its adoption, arguments of two sizes, and
what is right by the plain callable or by numpy or torch written apart.

    python tests/sweep/adopt_blind.py [--jobs 2] [NAME ...]
    python tests/sweep/adopt_blind.py --plain     # without opgraft

Each case runs in a process of its own. A line says ``right``, ``wrong``,
``error`` or ``skipped``. A run of all cases writes
docs/results/adopt_blind.json, the first run's score beside its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/sweep"))

from blind import native_c, native_j, python_a, python_b, python_c  # noqa: E402
from blind.common import Case, rng  # noqa: E402

CASES: list[Case] = [
    *python_a.CASES,
    *python_b.CASES,
    *python_c.CASES,
    *native_c.CASES,
    *native_j.CASES,
]
# relative and absolute; what is not floating is equal
CLOSE = {
    torch.float64: 1e-8,
    torch.complex128: 1e-8,
    torch.float32: 2e-5,
    torch.bfloat16: 2e-2,
    torch.float16: 2e-3,
}
# The first run, of the frozen set on the adoption that its author had read of:
# what was not right, and why.
FIRST_RIGHT = 49
FIRST_MISSED = {
    "haar": "error: the gradient's sizes (D // 2) do not tell the argument's",
    "unpad": "error: views of an argument that requires grad were refused",
    "cloud": "error: types of a prototype with several results went unused",
}
RIGHT_LEAST = 44
SMOKE = ("levenshtein", "rotary", "merge", "leaky")
MEASURED = ["hosts/torch", "python/opgraft", "src/decl", "src/call",
            "tests/sweep/adopt_blind.py", "tests/sweep/blind"]
MARK = "adopt_blind_row: "
LIMIT_S = 120


class Wrong(Exception):
    """An adopted operator gave something else than is right."""


def flat(value: Any) -> list[Any]:
    """The results of a call, one after the other."""
    if value is None:
        return []
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def tensor_of(value: Any) -> torch.Tensor:
    """A number, an array or a tensor as a tensor."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    return torch.as_tensor(value)


def compare(what: str, got: Any, want: Any, *, loose: bool = False) -> None:
    """Hold results against what is right; ``loose`` lets types differ."""
    one, two = flat(got), flat(want)
    if len(one) != len(two):
        raise Wrong(f"{what}: {len(one)} results, expected {len(two)}")
    for i, (g, w) in enumerate(zip(one, two, strict=True)):
        if w is None or (g is None) != (w is None):
            if g is not w:
                raise Wrong(f"{what}[{i}]: {g!r}, expected {w!r}")
            continue
        a, b = tensor_of(g), tensor_of(w)
        if not loose and not isinstance(g, torch.Tensor):
            raise Wrong(f"{what}[{i}]: a {type(g).__name__}, no tensor")
        if loose:
            a = a.to(b.dtype)
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Wrong(
                f"{what}[{i}]: {a.dtype} {tuple(a.shape)},"
                f" expected {b.dtype} {tuple(b.shape)}"
            )
        near = CLOSE.get(b.dtype, 0.0)
        if not torch.allclose(a, b, rtol=near, atol=near, equal_nan=True):
            if b.is_floating_point():
                far = (a - b).abs().max().item()
                raise Wrong(f"{what}[{i}]: off by {far:.3g}")
            n = int((a != b).sum())
            raise Wrong(f"{what}[{i}]: {n} of {b.numel()} elements differ")


def around(case: Case, op: Callable[..., Any]) -> Callable[..., Any]:
    """The operator with something before and after it."""

    def before(value: Any) -> Any:
        if isinstance(value, list):
            return [before(v) for v in value]
        if isinstance(value, torch.Tensor) and value.dtype != torch.bool:
            return value * 1
        return value

    def after(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [after(v) for v in value]
        if isinstance(value, torch.Tensor) and value.dtype != torch.bool:
            return value + 0
        return value

    def run(*args: Any, **kwargs: Any) -> Any:
        if not case.mutates:  # what is written must be the caller's own
            args = tuple(before(a) for a in args)
        return after(op(*args, **kwargs))

    return run


def learnable(args: Any) -> list[torch.Tensor]:
    """The floating tensors among the arguments, in order."""
    return [
        t
        for t in flat(list(args))
        if isinstance(t, torch.Tensor) and t.is_floating_point()
    ]


def loss_of(results: Any) -> torch.Tensor:
    """One number of all floating results, with uneven weights."""
    total = torch.zeros((), dtype=torch.float64)
    for i, r in enumerate(flat(results)):
        if isinstance(r, torch.Tensor) and r.is_floating_point():
            w = torch.rand(r.shape, generator=rng(i + 50), dtype=torch.float64)
            total = total + (r.double() * w).sum()
        elif isinstance(r, float):
            w = torch.rand((), generator=rng(i + 50), dtype=torch.float64)
            total = total + r * w
    return total


def gradients(op: Callable[..., Any], case: Case, k: int) -> list[Any]:
    """The gradients of a loss to every floating argument."""
    args = case.args(k)
    leaves = learnable(args)
    for t in leaves:
        t.requires_grad_()
    loss_of(op(*args, **case.kwargs(k))).backward()  # type: ignore[no-untyped-call]
    return [t.grad for t in leaves]


def differences(case: Case, k: int) -> list[torch.Tensor]:
    """The same by central differences of the plain callable, in float64."""
    args = case.args(k)
    out = []
    for t in learnable(args):
        assert t.dtype == torch.float64
        grad, step = torch.zeros_like(t), 1e-5
        at, to = t.view(-1), grad.view(-1)
        for i in range(t.numel()):
            ends = []
            for sign in (step, -step):
                at[i] += sign
                ends.append(loss_of(case.plain(*args, **case.kwargs(k))))
                at[i] -= sign
            to[i] = (ends[0] - ends[1]) / (2 * step)
        out.append(grad)
    return out


def right_gradients(case: Case, k: int) -> list[Any]:
    """What the gradients are."""
    if case.grad == "fd":
        return differences(case, k)
    return gradients(case.want, case, k)


def looped(case: Case, args: tuple[Any, ...], dims: Any) -> list[Any]:
    """What torch.vmap has to give: the plain thing in a loop."""
    if not isinstance(dims, tuple):
        dims = (dims,) * len(args)
    count = next(
        a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None
    )
    rows = [
        flat(
            case.want(
                *(
                    a if d is None else a.select(d, i)
                    for a, d in zip(args, dims, strict=True)
                )
            )
        )
        for i in range(count)
    ]
    return [torch.stack(part) for part in zip(*rows, strict=True)]


def right(case: Case, k: int, fn: Callable[..., Any]) -> tuple[Any, Any]:
    """Results and arguments after a call of what is right."""
    args = case.args(k)
    return fn(*args, **case.kwargs(k)), list(args)


def tensors_only(args: list[Any]) -> list[Any]:
    """The tensors of a list of arguments."""
    return [t for t in flat(args) if isinstance(t, torch.Tensor)]


def check_calls(case: Case, what: str, op: Callable[..., Any]) -> None:
    """Both calls: results, and the arguments' contents afterwards."""
    for k in (0, 1):
        want, kept = right(case, k, case.want)
        args = case.args(k)
        got = op(*args, **case.kwargs(k))
        compare(f"{what} call {k}", got, want)
        for i, (g, w) in enumerate(
            zip(tensors_only(list(args)), tensors_only(kept), strict=True)
        ):
            compare(f"{what} call {k}, argument {i} afterwards", g, w)


def run_plain(case: Case) -> None:
    """Hold the plain callable against what is right."""
    first: list[Any] = []
    for k in (0, 1):
        want, kept = right(case, k, case.want)
        got, after = right(case, k, case.plain)
        if not case.custom:
            compare(f"plain call {k}", got, want, loose=True)
        for g, w in zip(tensors_only(after), tensors_only(kept), strict=True):
            compare(f"plain call {k}, arguments afterwards", g, w)
        sizes = [tuple(t.shape) for t in tensors_only(after)]
        if k and sizes == [tuple(t.shape) for t in tensors_only(first)]:
            if sizes:
                raise Wrong("both calls have the same sizes")
        first = after
        if case.grad:
            found = right_gradients(case, k)
            if not any(g is not None and g.abs().sum() > 0 for g in found):
                raise Wrong("every gradient is zero")
    if case.vmap:
        looped(case, *case.vmap())


def run_adopted(case: Case) -> None:
    """Everything that is asked of an adopted operator."""
    import opgraft  # noqa: PLC0415

    if case.custom:
        why = case.custom(opgraft)
        if why:
            raise Wrong(why)
        return
    op = case.adopt(opgraft)
    check_calls(case, "eager", op)
    run = torch.compile(around(case, op), backend="opgraft", fullgraph=True)
    check_calls(case, "compiled", run)
    if case.grad:
        for k in (0, 1):
            want = right_gradients(case, k)
            compare(f"gradient of call {k}", gradients(op, case, k), want)
        torch.compiler.reset()
        run = torch.compile(around(case, op), backend="opgraft", fullgraph=True)
        for k in (0, 1):
            want = right_gradients(case, k)
            got = gradients(run, case, k)
            compare(f"compiled gradient of call {k}", got, want)
    if case.vmap:
        args, dims = case.vmap()
        got = torch.vmap(op, in_dims=dims)(*args)
        compare("vmap", got, looped(case, args, dims))


def run_one(case: Case, plain: bool) -> dict[str, Any]:
    """One case in this process: its row."""
    row = {"name": case.name, "kind": case.kind, "outcome": "right", "why": ""}
    for module in case.needs:
        if importlib.util.find_spec(module) is None:
            return row | {"outcome": "skipped", "why": f"no {module}"}
    torch.manual_seed(0)
    np.random.seed(0)
    try:
        (run_plain if plain else run_adopted)(case)
    except Wrong as e:
        row |= {"outcome": "wrong", "why": str(e)}
    except Exception as e:
        lines = [s for s in str(e).splitlines() if s.strip()] or [""]
        row |= {
            "outcome": "error",
            "why": f"{type(e).__name__}: {lines[0].strip()}",
            "trace": traceback.format_exc(),
        }
    return row


def spawn(case: Case, plain: bool) -> dict[str, Any]:
    """One case in a process of its own."""
    line = [sys.executable, str(Path(__file__).resolve())]
    line += ["--one", case.name, *(["--plain"] if plain else [])]
    row = {"name": case.name, "kind": case.kind, "outcome": "error", "why": ""}
    start = time.monotonic()
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return row | {"why": f"no end in {LIMIT_S} s", "seconds": LIMIT_S}
    for said in done.stdout.splitlines():
        if said.startswith(MARK):
            row = json.loads(said[len(MARK) :])
            break
    else:
        tail = [s for s in done.stderr.splitlines() if s.strip()][-20:]
        row |= {
            "why": f"the process ended with {done.returncode}",
            "trace": "\n".join(tail),
        }
    return row | {"seconds": round(time.monotonic() - start, 1)}


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these cases")
    parser.add_argument("--one", help="this case, in this process")
    parser.add_argument("--plain", action="store_true", help="no opgraft")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="four cases")
    parser.add_argument("--list", action="store_true", help="names and kinds")
    asked = parser.parse_args()
    by_name = {c.name: c for c in CASES}
    assert len(by_name) == len(CASES), "two cases of one name"
    torch.set_num_threads(1)
    if asked.list:
        for c in CASES:
            print(f"{c.name}: {c.kind}")
        return 0
    if asked.one:
        row = run_one(by_name[asked.one], asked.plain)
        print(MARK + json.dumps(row), flush=True)
        return 0
    names = asked.names or (SMOKE if asked.smoke else list(by_name))
    rows = []
    with ThreadPoolExecutor(max(asked.jobs, 1)) as pool:
        todo = [by_name[n] for n in names]
        for row in pool.map(lambda c: spawn(c, asked.plain), todo):
            why = f": {row['why']}" if row["why"] else ""
            print(f"{row['name']}: {row['outcome']}{why}", flush=True)
            rows.append(row)
    return judge(rows, is_whole=len(rows) == len(CASES) and not asked.plain)


def judge(rows: list[dict[str, Any]], is_whole: bool) -> int:
    """The score of all cases is the goal; of a part, that all are right."""
    right, skipped = (sum(r["outcome"] == o for r in rows)
                      for o in ("right", "skipped"))
    print(f"adopt_blind: {right} of {len(rows)} right, {skipped} skipped; "
          f"first run {FIRST_RIGHT} of {len(CASES)}")
    if not is_whole:
        return int(right + skipped < len(rows))
    sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]
    import harness  # noqa: PLC0415

    goals = harness.Goals("adopt_blind")
    goals.add("callables right in the first run", FIRST_RIGHT, RIGHT_LEAST,
              at_most=False)
    goals.add("callables right", right, RIGHT_LEAST, at_most=False)
    goals.write(MEASURED, {
        "first": {"right": FIRST_RIGHT, "missed": FIRST_MISSED},
        "rows": {r["name"]: r["outcome"] for r in rows}})
    return int(right < RIGHT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
