# SPDX-License-Identifier: Apache-2.0
"""opgraft.check: the verifier on operators of this process.

What `opgraft check` does with a module's file, for what has none: adopted
operators. The same C code samples the calls, guards the memory and names what
it finds; PyTorch's own tests and the comparison of roads come from
check_torch. Kernels for a device are in a module's file, which the program
`opgraft` checks.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable

from . import _C
from ._adopt import adopted, build, torch_ops
from ._load.module import Module, modules

_BAR = 30  # columns


@dataclass
class Finding:
    """What is wrong; `is_note`: worth knowing, no fault."""

    operator: str
    kind: str
    argument: str
    text: str
    call: str
    fix: str
    is_note: bool = False

    def __str__(self) -> str:
        what = ": ".join(filter(None, (self.kind, self.argument, self.text)))
        lines = [("note " if self.is_note else "") + what]
        lines += [f"  call: {self.operator}({self.call})"] if self.call else []
        lines += [f"  fix:  {self.fix}"] if self.fix else []
        return "\n".join(lines)


@dataclass
class Report:
    """What a check found. True where nothing is wrong; `str` is its text."""

    module: str
    tried: dict[str, str] = field(default_factory=dict)  # by operator
    findings: list[Finding] = field(default_factory=list)
    device: str = ""  # the driver's name; "": the CPU
    skipped: dict[str, str] = field(default_factory=dict)  # why, by operator

    @property
    def faults(self) -> list[Finding]:
        return [f for f in self.findings if not f.is_note]

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        lines = []
        for name, tried in self.tried.items():
            own = [f for f in self.findings if f.operator == name]
            faults = sum(not f.is_note for f in own)
            where = f" on {self.device}" if self.device else ""
            verdict = f"right{where}" if not faults else (
                f"{faults} finding{'s' if faults > 1 else ''}")
            lines.append(f"{name}: {verdict} ({tried})")
            lines += ["  " + line for f in own for line in str(f).split("\n")]
        lines += [f"{name}: skipped: {why}"
                  for name, why in self.skipped.items()]
        return "\n".join(lines)

    def json(self) -> str:
        return json.dumps({
            "module": self.module,
            "operators": [{"op": name, "tried": tried}
                          for name, tried in self.tried.items()],
            "device": self.device,
            "skipped": [{"op": name, "why": why}
                        for name, why in self.skipped.items()],
            "findings": [vars(f) for f in self.findings],
        }, indent=2)


def check(
    function: Callable[..., Any] | Module, *, seed: int = 0, calls: int = 40,
    limit: float = 30.0, torch: bool = True,
    device: str | os.PathLike[str] | None = None,
    device_options: str | None = None,
) -> Report:
    """Tries an adopted operator, a module, that of one of its functions or of a
    formula, or an operator of torch.ops that opgraft.adopt completed, and says
    what is wrong.

    Sampled shapes, types and layouts by its rules, each call in a process of
    its own with guarded memory: undeclared mutation, aliasing, what is read or
    written out of bounds or not at all, state between calls, a wrong gradient
    or batch rule. Equal seeds sample equal calls. `limit` is in seconds, for
    one operator. `torch`: also PyTorch's opcheck and gradcheck, and equal
    values by every road, eager and compiled.

    ValueError for any other function. What is wrong is not raised:
    the report is false.

    `device`: the file of a device driver. The kernels of a module's file for
    its device run there, in its memory, against the CPU's; `device_options`
    are the driver's own words. `torch` is of no account then. RuntimeError
    where the driver does not load, or the module has nothing for its device.

        >>> twice = opgraft.adopt(lambda x: x * 2, "twice(Tensor x) -> Tensor",
        ...                       "x[*N] -> [*N]", "x: f32 -> x",
        ...                       name="demo::twice", backward=lambda grad, x: grad)
        >>> report = opgraft.check(twice, calls=4)
        >>> bool(report), report.faults[0].kind, report.faults[0].argument
        (False, 'wrong_gradient', 'x')

        >>> m = opgraft.load("softcap_npu.so")
        >>> report = opgraft.check(m, calls=4, device="npu_sim.so",
        ...                        device_options="seed=1,races=1")
        >>> bool(report), report.device
        (True, 'npu')
    """
    if device is not None:
        return _on_device(function, os.fspath(device), device_options,
                          seed=seed, calls=calls, limit=limit)
    if device_options is not None:
        raise ValueError("opgraft.check: device_options needs device, a "
                         "driver's file")
    if torch_ops.is_operator(function):
        return _completed(function, seed=seed, calls=calls, limit=limit,
                          torch=torch)
    m = function if isinstance(function, Module) else _module_of(function)
    report = Report(m.name)
    bar = _Bar()
    try:
        _core(m, report, seed, calls, limit, bar)
        if torch:
            _by_torch(m, report, seed, limit)
    finally:
        bar.clear()
    return report


def _module_of(function: Callable[..., Any]) -> Module:
    """That of an adopted operator, or of a module's function."""
    for m in modules():
        if any(own is function for own in m._functions.values()):
            return m
    return adopted.module_of(function)


def _completed(op: Any, **how: Any) -> Report:
    """An operator of torch.ops: what was declared is adopted once more, under
    another name and with the operator as what is called."""
    made = torch_ops.completion(op)
    shadow = build.adopt(
        torch_ops.fresh_only(made), **made.told,
        name=f"{made.namespace}_as_declared::{made.d.base_name}")
    try:
        report = check(shadow, **how)
    finally:
        build.unadopt(shadow)
    report.module = made.namespace
    return report


def _core(
    m: Module, report: Report, seed: int, calls: int, limit: float,
    bar: "_Bar",
) -> None:
    found = json.loads(
        _C.module_check(m._handle, None, seed, calls, limit, bar.set))
    _take(found, report)


def _take(found: dict[str, Any], report: Report) -> None:
    """What the verifier's JSON says, into the report."""
    for op in found["operators"]:
        if "skipped" in op:
            report.skipped[op["op"]] = op["skipped"]
            continue
        report.device = op.get("device", "")
        report.tried[op["op"]] = f"{op['calls']} calls, {op['runs']} runs"
        report.findings += [
            Finding(f["op"], f["kind"], f["argument"], f["text"], f["call"],
                    f["fix"], f["note"])
            for f in op["findings"]
        ]


def _on_device(
    m: Callable[..., Any] | Module, device: str, options: str | None, *,
    seed: int, calls: int, limit: float,
) -> Report:
    """By the program: its processes load the driver, and this one does not."""
    from .doctor import _run

    if not isinstance(m, Module) or not os.path.isfile(m.path):
        raise ValueError(f"opgraft.check: {m!r} has no kernels for a device; "
                         "they are in a module's file: opgraft.load(path)")
    command = [_run.program(), "check", m.path, "--json", "--seed", str(seed),
               "--calls", str(calls), "--limit", str(max(1, math.ceil(limit))),
               "--device", device]
    command += ["--device-options", options] if options else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip() or
                           f"opgraft check ended with {done.returncode}")
    report = Report(m.name)
    _take(json.loads(done.stdout), report)
    return report


def _by_torch(m: Module, report: Report, seed: int, limit: float) -> None:
    from .check_torch import Checker

    for d in m._descriptions.values():
        if any(f.operator == d.name for f in report.faults):
            continue  # follows from a fault that is reported
        checker = Checker(m, d)
        checker.run(seed, time.monotonic() + limit)
        report.tried[d.name] += f", {checker.count} calls in PyTorch"
        report.findings += [
            Finding(f.operator, f.kind, "", f.text, f.call, "")
            for f in checker.findings
        ]


class _Bar:
    """Progress on a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self.is_drawn = False
        self.is_wanted = sys.stderr.isatty()

    def set(self, name: str, done: int, total: int) -> None:
        if not self.is_wanted:
            return
        filled = _BAR * done // max(total, 1)
        sys.stderr.write(f"\r\x1b[K{name} [{'#' * filled:{_BAR}}]")
        sys.stderr.flush()
        self.is_drawn = True

    def clear(self) -> None:
        if self.is_drawn:
            sys.stderr.write("\r\x1b[K")
            self.is_drawn = False
