# SPDX-License-Identifier: Apache-2.0
"""The order of locks (docs/design.md): Dynamo's compile lock, then ours.

A compile holds Dynamo's lock and may load modules or list them; to withdraw a
module resets Dynamo, which takes that lock. So whoever withdraws takes
Dynamo's lock before ours, and ours alone serves what withdraws nothing.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import threading
import time
import weakref
from typing import Any, Iterator

registry = threading.RLock()
_state = threading.local()  # .is_reset_ours: this thread may reset Dynamo


def _compile_lock() -> Any:
    frames = sys.modules.get("torch._dynamo.convert_frame")
    return getattr(frames, "compile_lock", None)


@contextlib.contextmanager
def between_compiles() -> Iterator[None]:
    """Nothing is compiled, and nobody else registers, in the body."""
    while True:
        compiling = _compile_lock()
        with compiling or contextlib.nullcontext(), registry:
            if compiling is not _compile_lock():
                continue  # Dynamo was imported meanwhile
            before = getattr(_state, "is_reset_ours", False)
            _state.is_reset_ours = compiling is not None
            try:
                yield
            finally:
                _state.is_reset_ours = before
            break
    if compiling is None and _compile_lock() is not None:
        # Another thread imported Dynamo and may have compiled what was there.
        with between_compiles():
            reset_dynamo()


def reset_dynamo() -> None:
    """Drops compiled code, in the body of `between_compiles`; where Dynamo is
    imported during the body, its end does it."""
    if getattr(_state, "is_reset_ours", False):
        _drop_compiled()


def _drop_compiled() -> None:
    """torch._dynamo.reset() frees what another thread, on its way to the
    compile lock, goes on using; so it is called where this thread is alone,
    and else each compiled code is marked as void, which frees it alone."""
    if len(sys._current_frames()) == 1:
        sys.modules["torch._dynamo"].reset()
        return
    _void_compiled()
    # A thread that has compiled and left the lock enters its code in the
    # cache as soon as it may run.
    time.sleep(2 * sys.getswitchinterval())
    _void_compiled()


def _void_compiled() -> None:
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
    from torch._dynamo import convert_frame
    from torch._dynamo.guards import DeletedGuardManagerWrapper

    seen = convert_frame.input_codes.seen + convert_frame.output_codes.seen
    for code in [c for c in (weak() for weak in seen) if c is not None]:
        for entry in _debug_get_cache_entry_list(code):
            state = getattr(entry.guard_manager, "extra_state", None)
            if state is None:
                continue  # void already
            _outlive(entry.guard_manager)
            void = DeletedGuardManagerWrapper("an opgraft module was withdrawn")
            # Never like a frame's: void entries count for no recompile limit.
            void.id_matched_objs = {"": weakref.ref(_locks_module)}
            state.invalidate(entry, void)


# Guards of void code, each with the time when it may go. A thread that checks
# guards gives up the interpreter lock on the way, with no reference to them: it
# comes back to guards that must still be there.
_void_guards: collections.deque[tuple[float, Any]] = collections.deque()
_GUARD_LIFE_S = 60.0


def _outlive(guards: Any) -> None:
    now = time.monotonic()
    while _void_guards and _void_guards[0][0] < now:
        _void_guards.popleft()
    _void_guards.append((now + _GUARD_LIFE_S, guards))


_locks_module = sys.modules[__name__]
