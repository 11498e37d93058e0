# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own checks on a module: `opgraft check --host torch`.

    python -m opgraft.check_torch FILE.so [--json] [--op NAME] [--seed N]
                                  [--limit S]

For sampled calls of each operator: `torch.library.opcheck`, `gradcheck` where
there is an f64 kernel, and equal values by every road: the fast path,
torch.ops, the functional, in-place and .out forms, and compiled. Ends with 0
when clean, 1 with findings, 2 when it could not run, 130 when it was stopped
(SIGINT, SIGTERM), with what was found until then.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import sys
import warnings
from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterator

import torch

from . import _C
from ._base import dtypes, rules
from ._base.rules import Description
from ._load.batch import _invoke
from ._load.module import Module, load

SIZES = (3, 1, 8)
STOPPED = 130  # exit status
OPCHECK: tuple[str, ...] = ("test_schema", "test_autograd_registration",
                           "test_faketensor", "test_aot_dispatch_dynamic")
# A kernel may refuse a call for its values; so often it is drawn again, each
# time from a seed that lies so far from the one before.
DRAWS, REDRAWN = 8, 1000
COMPILED = 3  # calls of an operator that are compiled, the first by Inductor
# Calls of an operator that opcheck traces: every size in two combinations of
# types. The comparison of roads and the core's own verifier look at values in
# each type.
OPCHECKED = 2 * len(SIZES)
TYPES = {dtypes.CODES[own]: dtype for own, dtype in rules.DTYPES.items()}


# Of a call: its text, its values, what it leaves.
Step = Callable[[str, list[Any], list[Any]], None]


def _used_s() -> float:
    """Processor time so far, a compiler's too: a busy machine tries as much
    as an idle one."""
    times = os.times()
    return (times.user + times.system + times.children_user
            + times.children_system)


@dataclass
class Finding:
    operator: str
    kind: str
    text: str
    call: str


def _tensor(item: Any) -> Any:
    if item is None:
        return None
    if isinstance(item, list):
        return [_tensor(i) for i in item]
    code, bits, sizes, data = item
    if not data:
        return torch.empty(sizes, dtype=TYPES[code, bits])
    flat = torch.frombuffer(bytearray(data), dtype=TYPES[code, bits])
    return flat.reshape(sizes).clone()


def _values(d: Description, tensors: list[Any], attrs: list[Any]) -> list[Any]:
    values: list[Any] = []
    for p in d.params:
        if p["tensor"] is not None:
            value = _tensor(tensors[p["tensor"]])
            values.append([] if p["list"] and value is None else value)
        else:
            values.append(attrs[p["attr"]])
    return values


def calls(m: Module, d: Description, seed: int) -> Iterator[
        Iterator[tuple[str, list[Any]]]]:
    """Sampled calls, each as draws of which the first that the kernel takes
    counts: text, and the value of every parameter. Each size with the first
    types, then with the next ones, as far as there are any."""
    state = m._states["base", d.name]

    def sample(size: int, choice: int, at: int) -> Any:
        return _C.sample_call(state, size, choice, seed + at * REDRAWN)

    def draws(size: int, choice: int) -> Iterator[tuple[str, list[Any]]]:
        for at in range(DRAWS):
            if (made := sample(size, choice, at)) is not None:
                text, tensors, attrs = made
                yield text, _values(d, tensors, attrs)

    for choice in range(64):
        if not any(sample(size, choice, 0) for size in SIZES):
            return
        yield from (draws(size, choice) for size in SIZES)


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(v) for v in value]
    return value.clone() if isinstance(value, torch.Tensor) else value


def _flat(value: Any) -> list[torch.Tensor]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _flat(v)]
    return [value]


def _is_float8(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.dtype in (
        rules.DTYPES["f8e4m3"], rules.DTYPES["f8e5m2"])


def _number(t: torch.Tensor) -> torch.Tensor:
    """To be compared: torch has few functions of float8."""
    return torch.nan_to_num(t.float() if _is_float8(t) else t)


def _equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(
        x == y if isinstance(x, int) else  # of an int result
        x.dtype == y.dtype and x.shape == y.shape
        and torch.equal(_number(x), _number(y))
        for x, y in zip(a, b)
    )


class Checker:
    def __init__(self, m: Module, d: Description) -> None:
        self.m, self.d = m, d
        self.findings: list[Finding] = []
        self.count = 0
        # Random operators and those with a side effect give what they like.
        self.is_repeatable = not {"random", "side_effect"} & set(
            d.tables["flags"])
        space = getattr(torch.ops, m.namespace)
        self.op = getattr(getattr(space, d.base_name), d.overload or "default")
        name = f"{d.base_name}_{d.overload}" if d.overload else d.base_name
        self.function = getattr(m, name)

    def find(self, kind: str, text: str, call: str) -> None:
        known = any(f.kind == kind for f in self.findings)
        if not known:
            self.findings.append(Finding(self.d.name, kind, text, call))

    def state(self, f: Callable[..., Any], values: list[Any]) -> list[Any]:
        """What a call leaves: results, then mutated arguments."""
        own = [_copy(v) for v in values]
        out = _flat(_invoke(self.d, f, own)) if f is not None else []
        if self.d.mutated:
            fresh = len(self.d.fresh)
            if not any(r["list"] for r in self.d.fresh):
                out = out[:fresh]
        return out + [t for p in self.d.mutated for t in _flat(own[p])]

    def roads(
        self, values: list[Any], want: list[Any]
    ) -> Iterator[tuple[str, Callable[..., Any]]]:
        d, m = self.d, self.m
        yield "torch.ops", self.op
        if d.mutated and not d.tables["has_lists"]:
            base = d.base_name
            name = base + "functional" if base.endswith("_") else (
                base + "_functional")
            functional = getattr(m, name)

            def by_functional(*args: Any, **kwargs: Any) -> Any:
                values = d.bind(args, kwargs)
                out = _flat(_invoke(d, functional, values))
                for p, new in zip(d.mutated, out[len(d.fresh):]):
                    values[p].copy_(new)
                return tuple(out[:len(d.fresh)])

            yield "functional form", by_functional
        inplace = d.tables["inplace"]
        if (inplace is not None and not d.mutated
                and values[inplace].dtype == want[0].dtype
                and values[inplace].shape == want[0].shape):
            yield "in-place form", getattr(m, d.base_name + "_")
        packet = getattr(getattr(torch.ops, m.namespace), d.base_name)
        if hasattr(packet, "out") and not d.overload:
            yield "out form", self._out

    def _out(self, *args: Any, **kwargs: Any) -> Any:
        made = _flat(self.function(*args, **kwargs))
        outs = tuple(torch.empty_like(t) for t in made)
        return self.function(*args, **kwargs,
                             out=outs[0] if len(outs) == 1 else outs)

    def compare(self, text: str, values: list[Any], want: list[Any]) -> None:
        if not self.is_repeatable:
            return
        for name, f in self.roads(values, want):
            got = self.state(f, values)
            if name == "in-place form":
                got = got[:1]
            if not _equal(got, want[:len(got)] if name == "in-place form"
                          else want):
                self.find("roads_differ",
                          f"the {name} gives other values than the fast path",
                          text)

    def compiled(self, backend: str, text: str, values: list[Any],
                 want: list[Any]) -> None:
        torch._dynamo.reset()
        f = torch.compile(lambda *a, **k: self.function(*a, **k),
                          backend=backend, fullgraph=True)
        got = self.state(f, values)
        if self.is_repeatable and not _equal(got, want):
            self.find("compiled_differs",
                      f"compiled with {backend} it gives other values than "
                      "eager", text)

    def opcheck(self, text: str, values: list[Any], want: list[Any]) -> None:
        args = tuple(_copy(v) for v, p in zip(values, self.d.params)
                     if not p["kwonly"])
        kwargs = {p["name"]: _copy(v) for v, p in zip(values, self.d.params)
                  if p["kwonly"]}
        if self.d.tables["grad"]["kind"] == "operator":
            for value in _flat(args):
                if isinstance(value, torch.Tensor) and (
                        value.is_floating_point()):
                    value.requires_grad_()
        # The first of its tests compares arguments, the last two runs, which
        # takes a NaN for another; neither knows float8.
        can_compare = self.is_repeatable and not any(
            isinstance(t, torch.Tensor) and (_is_float8(t) or t.isnan().any())
            for t in want)
        tests = OPCHECK if can_compare else OPCHECK[:-1]
        if any(map(_is_float8, _flat([*values, *want]))):
            tests = tests[1:]
        torch.library.opcheck(self.op, args, kwargs, test_utils=tests)

    def gradcheck(self, text: str, values: list[Any], want: list[Any]) -> None:
        targets = self.d.tables["grad"]["targets"] or []
        places = [i for i in targets if isinstance(values[i], torch.Tensor)
                  and values[i].dtype == torch.float64]
        if self.d.tables["grad"]["kind"] != "operator" or not places:
            return

        def f(*tensors: Any) -> Any:
            own = list(values)
            for i, t in zip(places, tensors):
                own[i] = t
            out = _flat(_invoke(self.d, self.function, own))
            return tuple(t for t in out if isinstance(t, torch.Tensor)
                         and t.is_floating_point())

        inputs = tuple(values[i].clone().requires_grad_() for i in places)
        if all(t.numel() for t in inputs):
            torch.autograd.gradcheck(f, inputs)

    def first_taken(self, draws: Iterator[tuple[str, list[Any]]]) -> (
            tuple[str, list[Any], list[Any]] | None):
        """The first call that the kernel takes, and what it leaves."""
        for text, values in draws:
            try:
                return text, values, self.state(self.function, values)
            except RuntimeError:
                continue  # the kernel's own refusal
        return None

    def run(self, seed: int, until: float) -> None:
        steps: list[tuple[str, Step]] = [
            ("roads", self.compare), ("gradcheck", self.gradcheck),
        ]
        for draws in calls(self.m, self.d, seed):
            if _used_s() > until:
                return
            taken = self.first_taken(draws)
            if taken is None:
                continue
            text, values, want = taken
            at = self.count
            self.count += 1
            backends = ["aot_eager", "inductor"] if at == 0 else (
                ["aot_eager"] if at < COMPILED else [])
            tried: list[tuple[str, Step]] = [
                *steps, *((b, functools.partial(self.compiled, b))
                         for b in backends)]
            if self.count <= OPCHECKED:
                tried.append(("opcheck", self.opcheck))
            for name, step in tried:
                try:
                    step(text, values, want)
                except Exception as error:  # a finding, whatever it is
                    line = str(error).strip().splitlines() or [repr(error)]
                    self.find(name, line[0][:300], text)


def _stop_once() -> None:
    """The first signal to stop raises KeyboardInterrupt; the report is then
    printed in peace."""
    def on_signal(number: int, frame: object) -> None:
        for other in (signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, on_signal)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="opgraft check --host torch", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300.0,
                        help="seconds of processor time in all")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        m = load(options.file)
    except (OSError, RuntimeError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    names = [options.op] if options.op else list(m._descriptions)
    if options.op and options.op not in m._descriptions:
        print(f"check: {options.op}: no such operator; there are "
              f"{', '.join(m._descriptions)}", file=sys.stderr)
        return 2
    until = _used_s() + options.limit
    checkers = [Checker(m, m._descriptions[name]) for name in names]
    is_stopped = False
    _stop_once()
    try:
        for at, checker in enumerate(checkers):  # what one leaves, others use
            now = _used_s()
            checker.run(options.seed,
                        now + (until - now) / (len(checkers) - at))
    except KeyboardInterrupt:
        is_stopped = True
    findings = [f for c in checkers for f in c.findings]
    if options.json:
        print(json.dumps({
            "torch": torch.__version__,
            "operators": [{"operator": c.d.name, "calls": c.count}
                          for c in checkers],
            "findings": [asdict(f) for f in findings],
            **({"stopped": True} if is_stopped else {}),
        }), flush=True)
    else:
        for c in checkers:
            verdict = f"{len(c.findings)} findings" if c.findings else (
                "clean" if c.count else "not one call was sampled")
            print(f"{c.d.name}: {verdict} in PyTorch, {c.count} calls")
            for f in c.findings:
                print(f"  {f.kind}: {f.text}\n    {f.call}")
        if is_stopped:
            print("stopped", flush=True)
    return STOPPED if is_stopped else 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
