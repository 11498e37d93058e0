# SPDX-License-Identifier: Apache-2.0
"""Trial calls of an opaque callable, in forked processes.

Tensors end where a page begins that may not be touched, so that a call whose
sizes do not fit together is a crash of the child instead of a wrong answer;
what the child saw comes back as an Outcome.

Invariant: nothing that a trial does reaches the caller's process or memory.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import pickle
import resource
import signal
import warnings
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable

import torch

Call = list[Any]  # the value of every parameter

PAGE = mmap.PAGESIZE
LIMIT_S = 10.0  # for one call
KEPT_BYTES = 1 << 16  # of a result, for comparison
_PROT_NONE, _PROT_READ, _PROT_BOTH = 0, 1, 3
_MAP_PRIVATE_ANONYMOUS = 0x22


@dataclass
class Result:
    shape: tuple[int, ...]
    dtype: torch.dtype
    data: bytes | None  # row-major; None where there is too much of it
    alias: int | None = None  # the parameter whose memory it shares
    is_whole: bool = False  # of that parameter: same elements, same order
    requires_grad: bool = False

    def values(self) -> torch.Tensor | None:
        if self.data is None:
            return None
        if not self.data:
            return torch.empty(self.shape, dtype=self.dtype)
        return torch.frombuffer(bytearray(self.data), dtype=self.dtype).reshape(
            self.shape)


@dataclass
class Outcome:
    call: Call
    error: str | None = None  # it refused
    has_crashed: bool = False
    kind: str = ""  # "none", "one", "several", or what it returned instead
    results: list[Result] = field(default_factory=list)
    # Parameters that it wrote, and what they hold then.
    changed: dict[int, Result] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [r.shape for r in self.results]


# --- In the child ------------------------------------------------------------------


class _Memory:
    """Guarded memory; released when the process ends."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                                   ctypes.c_int, ctypes.c_int, ctypes.c_int,
                                   ctypes.c_long]
        self.libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                                       ctypes.c_int]

    def place(self, tensor: torch.Tensor, is_read_only: bool) -> torch.Tensor:
        count = tensor.numel() * tensor.element_size()
        if count == 0:
            return tensor.detach().clone()
        size = -(-count // PAGE) * PAGE
        begin = self.libc.mmap(None, size + 2 * PAGE, _PROT_NONE,
                               _MAP_PRIVATE_ANONYMOUS, -1, 0)
        if begin in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("no guarded memory")
        page = begin + PAGE
        self.libc.mprotect(page, size, _PROT_BOTH)
        memory = (ctypes.c_char * count).from_address(page + size - count)
        flat = torch.frombuffer(memory, dtype=tensor.dtype)
        flat.copy_(tensor.detach().reshape(-1))
        placed = torch.empty(0, dtype=tensor.dtype).set_(
            flat.untyped_storage(), 0, tensor.shape,
            torch.empty(tensor.shape, device="meta").stride())
        if is_read_only:
            self.libc.mprotect(page, size, _PROT_READ)
        return placed


def _placed(memory: _Memory, value: Any, is_read_only: bool) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_placed(memory, v, is_read_only) for v in value)
    if isinstance(value, torch.Tensor):
        return memory.place(value, is_read_only)
    return value


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    return [value] if isinstance(value, torch.Tensor) else []


def _bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.numel() == 0:
        return 0, 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    begin = tensor.data_ptr()
    return begin, begin + (last + 1) * tensor.element_size()


def _result(tensor: torch.Tensor, values: Call) -> Result:
    count = tensor.numel() * tensor.element_size()
    out = Result(tuple(tensor.shape), tensor.dtype,
                 _bits(tensor) if count <= KEPT_BYTES else None,
                 requires_grad=tensor.requires_grad)
    begin, end = _span(tensor)
    for p, value in enumerate(values):
        for given in tensors_in(value):
            least, most = _span(given)
            if begin < most and least < end:
                out.alias = p
                out.is_whole = (begin, end) == (least, most) and (
                    tensor.shape == given.shape)
    return out


def _described(answer: Any, call: Call, values: Call) -> Outcome:
    out = Outcome([])
    if answer is None:
        out.kind = "none"
    elif isinstance(answer, torch.Tensor):
        out.kind, out.results = "one", [_result(answer, values)]
    elif isinstance(answer, (tuple, list)) and answer and all(
            isinstance(a, torch.Tensor) for a in answer):
        out.kind = "several"
        out.results = [_result(a, values) for a in answer]
    else:
        out.kind = f"a {type(answer).__name__}"
    for p, (before, after) in enumerate(zip(call, values)):
        for b, a in zip(tensors_in(before), tensors_in(after)):
            if _bits(b) != _bits(a):
                out.changed[p] = _result(a, [])
    return out


def _child(
    fn: Callable[..., Any], keywords: list[str | None], calls: list[Call],
    read_only: set[int], pipe: BinaryIO,
) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()  # a crash is an answer here
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    memory = _Memory()
    for call in calls:
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
        values = [_placed(memory, v, p in read_only)
                  for p, v in enumerate(call)]
        try:
            answer = fn(
                *(v for v, k in zip(values, keywords) if k is None),
                **{k: v for v, k in zip(values, keywords) if k is not None})
            seen = _described(answer, call, values)
        except Exception as error:
            seen = Outcome([], f"{type(error).__name__}: {error}"[:300])
        pickle.dump(seen, pipe)
        pipe.flush()


# --- The caller's side --------------------------------------------------------------


def _reason(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"it ended the process with {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGALRM:
        return f"it did not end within {LIMIT_S:g} s"
    return f"it crashed ({signal.Signals(number).name})"


def run(
    fn: Callable[..., Any], keywords: list[str | None], calls: list[Call],
    read_only: set[int] = frozenset(),  # type: ignore[assignment]
) -> list[Outcome]:
    """What each call does. `keywords`: the name by which a parameter is passed,
    None for its place; `read_only`: parameters whose memory may not be
    written."""
    done: list[Outcome] = []
    while len(done) < len(calls):
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                with os.fdopen(write, "wb") as pipe:
                    _child(fn, keywords, calls[len(done):], read_only, pipe)
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            while len(done) < len(calls):
                try:
                    seen = pickle.load(pipe)
                except (EOFError, pickle.UnpicklingError):
                    break
                seen.call = calls[len(done)]
                done.append(seen)
        _, status = os.waitpid(pid, 0)
        if len(done) < len(calls):
            done.append(Outcome(calls[len(done)], _reason(status), True))
    return done
