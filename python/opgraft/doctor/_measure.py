# SPDX-License-Identifier: Apache-2.0
"""Times what a script compiled, after it ended: each entry is called again
with the arguments of its last call that compiled something.

Regions are bracketed by replacing the globals through which compiled frames
call them, and put back afterwards; so nothing is measured, and nothing is
paid, while the script itself runs.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _openxla
from ._events import Writer
from ._record import Entry, Recorder

BLOCK_NS = 2_000_000  # of two steps that are compared, one block at least
STEP_NS = 10_000_000  # of a step as it is said to be: caches are warm in most
BUDGET_S = 12.0  # for all of it
FIXED = 250_000  # additions: some ms, so that a scheduler comes in between
FEWEST_FIXED = 5  # times, before they say how busy the machine is
THREADS = "/proc/self/task"  # of this process, on Linux
RETRIES = 16  # of a block that waits for a processor
RETRIES_S = 0.25  # for all of them


def wrapper_of(entry: Entry) -> Callable[..., Any]:
    """The function that torch.compile returned for this entry."""
    for found in gc.get_referrers(entry.code):
        if not isinstance(found, types.FunctionType) or not found.__closure__:
            continue
        cells = dict(zip(found.__code__.co_freevars, found.__closure__))
        with contextlib.suppress(KeyError, ValueError):
            if (cells["fn"].cell_contents == entry.fn
                    and cells["self"].cell_contents is entry.context):
                return found
    return entry.context(entry.fn)  # it is gone: an equal one


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What the model prints was printed once."""
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
        yield


class Step:
    """One call of an entry, and its backward where it has one."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.compiled = wrapper_of(entry)
        self.forward_ns = 0

    def run(self) -> Any:
        return self._called(self.compiled)

    def eager(self) -> Any:
        """To be called where the stance is force_eager."""
        return self._called(self.entry.fn)

    def _called(self, fn: Callable[..., Any]) -> Any:
        entry = self.entry
        begin = time.perf_counter_ns()
        with torch.set_grad_enabled(entry.grad):
            result = fn(*entry.args, **entry.kwargs)
            self.forward_ns = time.perf_counter_ns() - begin
            if entry.grad:
                _backward(result)
        _openxla.settle()
        return result


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order."""
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    found = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif hasattr(leaf, "__dict__"):
            found += [v for v in vars(leaf).values()
                      if isinstance(v, torch.Tensor)]
    return found


def _backward(result: Any) -> None:
    ends = [t for t in tensors_of(result)
            if t.requires_grad and t.is_floating_point()]
    if ends:
        torch.autograd.backward(ends, [torch.ones_like(t) for t in ends])


def _time(call: Callable[[], Any], repeat: int) -> int:
    begin = time.perf_counter_ns()
    for _ in range(repeat):
        call()
    return (time.perf_counter_ns() - begin) // repeat


def block_ns(steps: list[Step]) -> int:
    """One step of a whole script: a call of each of its functions, from a
    block that is long enough to time. 0 where one cannot be called."""
    total = 0
    for step in steps:
        try:
            with quiet():
                once = max(_time(step.run, 1), 1)
                total += _own_ns(step.run, max(1, min(200, BLOCK_NS // once)))
        except Exception:  # whatever the user's code may raise
            return 0
    return total


def _own_ns(call: Callable[[], Any], repeat: int) -> int:
    """One call, from a block, less what it waited for a processor. A block that
    waited long says little, since a thread may also have spun until another
    one ran: a shorter one is tried, while that takes little time."""
    least = 0
    end = time.monotonic() + RETRIES_S
    for _ in range(RETRIES):
        before = _waits_ns()
        ns = _time(call, repeat)
        waited = max((waits - before.get(thread, 0)
                      for thread, waits in _waits_ns().items()), default=0
                     ) // repeat
        own = ns - waited if waited < ns else ns
        if waited < ns // 4:
            return own
        least = min(least or own, own)
        if time.monotonic() > end:
            break
        repeat = max(1, repeat // 2)
    return least


def _waits_ns() -> dict[str, int]:
    """How long each thread could have run and did not, where the system says
    so: one that works for a call is waited for by that which called."""
    waits = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(THREADS):
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"{THREADS}/{thread}/schedstat", "rb") as file:
                    waits[thread] = int(file.read().split()[1])
    return waits


class Fixed:
    """A fixed piece of work, timed between what is measured. Its least is of
    processor time, since others may take their share of each run of it."""

    def __init__(self) -> None:
        self._ns: list[int] = []
        self._own_ns: list[int] = []

    def run(self) -> None:
        own = time.thread_time_ns()
        self._ns.append(_time(lambda: sum(range(FIXED)), 1))
        self._own_ns.append(time.thread_time_ns() - own)

    def stretch(self) -> float:
        count = len(self._ns)
        if count < FEWEST_FIXED:
            return 0.0
        return sorted(self._ns)[count * 9 // 10] / max(1, min(self._own_ns))


def measure(recorder: Recorder, writer: Writer, runs: int) -> float:
    """Writes the steps, marks and operator counts of every entry; how much
    longer than its processor time a fixed piece of work took meanwhile, 9 times
    of 10 (0: not known)."""
    entries = [e for e in recorder.entries if e.place.file or e.fn]
    fixed = Fixed()
    recorder.is_paused = True
    _openxla.write_compiles(writer)
    try:
        for entry in entries:
            if runs > 0:
                _measure_entry(recorder, writer, entry, runs,
                               BUDGET_S / len(entries), fixed)
    finally:
        recorder.is_paused = False
    if recorder.again:
        recorder.note(f"{recorder.again} frames were compiled again while "
                      "steps were timed: what a call changes, the next one "
                      "finds, and the times are those after that")
    return fixed.stretch()


def _measure_entry(recorder: Recorder, writer: Writer, entry: Entry,
                   runs: int, budget_s: float, fixed: Fixed) -> None:
    step = Step(entry)
    try:
        with quiet():
            for _ in range(2):
                for call, stance in _modes(step).values():
                    with torch.compiler.set_stance(stance):
                        call()
            _steps(writer, step, runs, budget_s / 2, fixed)
            _marks(recorder, writer, step, runs, budget_s / 4)
            _operators(recorder, writer, step)
            for mode, (call, stance) in _modes(step).items():
                with torch.compiler.set_stance(stance):
                    _openxla.write_counts(writer, entry, mode, call)
    except Exception as error:  # whatever the user's code may raise
        recorder.note(
            f"{entry.place.function} could not be called again, so its times "
            f"are missing: {type(error).__name__}: {error}")


def _modes(step: Step) -> dict[str, tuple[Callable[[], Any], str]]:
    """What is timed in turns, and the stance that it wants."""
    return {"eager": (step.eager, "force_eager"),
            "compiled": (step.run, "default")}


def _steps(writer: Writer, step: Step, runs: int, budget_s: float,
           fixed: Fixed) -> None:
    repeat = {}
    for mode, (call, stance) in _modes(step).items():
        with torch.compiler.set_stance(stance):
            once = max(1, min(_own_ns(call, 1) for _ in range(3)))
        repeat[mode] = max(1, min(200, STEP_NS // once))
    end = time.monotonic() + budget_s
    for run in range(1, runs + 1):
        # In turns, so that a slower minute of the machine meets both.
        for mode, (call, stance) in _modes(step).items():
            fixed.run()
            with torch.compiler.set_stance(stance):  # outside of what is timed
                if repeat[mode] > 1:  # what was timed before it left its caches
                    call()
                ns = _own_ns(call, repeat[mode])
            writer.line("step", entry=step.entry.id, run=run, mode=mode, ns=ns)
        if run >= 3 and time.monotonic() > end:
            break


@contextlib.contextmanager
def _bracketed(recorder: Recorder, wrap: Callable[[int, Any], Any]
               ) -> Iterator[None]:
    """Every region's global replaced by wrap(id, function)."""
    kept = []
    for region in recorder.regions.values():
        inner = region.scope.get(region.name)
        if inner is not None:
            kept.append((region, inner))
            region.scope[region.name] = wrap(region.id, inner)
    try:
        yield
    finally:
        for region, inner in kept:
            region.scope[region.name] = inner


def _marks(recorder: Recorder, writer: Writer, step: Step, runs: int,
           budget_s: float) -> None:
    marks: list[tuple[int, int, int]] = []
    now = time.perf_counter_ns

    def wrap(id: int, inner: Any) -> Any:
        def region(*args: Any) -> Any:
            begin = now()
            result = inner(*args)
            marks.append((id, begin, now()))
            return result

        return torch._dynamo.disable(region)

    with _bracketed(recorder, wrap):
        step.run()
        end = now() + int(budget_s * 1e9)
        for run in range(1, runs + 1):
            marks.clear()
            begin = now()
            step.run()
            ns = now() - begin
            for id, since, until in marks:
                writer.line("mark", entry=step.entry.id, run=run, graph=id,
                            begin=since - begin, end=until - begin)
            writer.line("step", entry=step.entry.id, run=run, mode="marked",
                        ns=ns, forward_ns=step.forward_ns)
            if run >= 3 and now() > end:
                break


REGION = "opgraft::region"


def _is_outside(event: Any) -> bool:
    """Whether it is an operator that no compiled code runs: one outside of all
    regions, or one that the Python of a custom or adopted operator calls."""
    if "::" not in event.name or event.name == REGION:
        return False
    around = event.cpu_parent
    while around is not None and "::" not in around.name:
        around = around.cpu_parent  # PyTorch's own marks of compiled frames
    return around is None or _has_python_kernel(around.name)


def _has_python_kernel(name: str) -> bool:
    key = name.replace("::", "/")
    return any(f"{key}/{kind}" in torch.library._impls
               for kind in ("CPU", "CompositeExplicitAutograd"))


def _operators(recorder: Recorder, writer: Writer, step: Step) -> None:
    """How many operators one step runs inside regions and outside them."""
    inside = 0

    def wrap(id: int, inner: Any) -> Any:
        def region(*args: Any) -> Any:
            nonlocal inside
            inside += recorder.regions[id].ops
            with torch.autograd.profiler.record_function(REGION):
                return inner(*args)

        return torch._dynamo.disable(region)

    with _bracketed(recorder, wrap):
        with torch.set_grad_enabled(step.entry.grad):
            step.compiled(*step.entry.args, **step.entry.kwargs)
            inside = 0
            with torch.autograd.profiler.profile() as profile:
                step.compiled(*step.entry.args, **step.entry.kwargs)
                _openxla.settle()
    outside = sum(map(_is_outside, profile.function_events))
    writer.line("ops", entry=step.entry.id, inside=inside, outside=outside)
    _openxla.write_spent(recorder, writer, step.entry, profile.function_events)
