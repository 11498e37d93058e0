# SPDX-License-Identifier: Apache-2.0
"""The C host's first contact with torch: its functions, and the self-test.

The fast path reads words of torch's that are not published. `prepare` shows
the C side tensors and modes whose answers are known; only where it tells all
of them right does it use those words, else it makes published calls; with
OPGRAFT_GUARD=published it does so in any case.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Callable, Iterator

import torch

from .. import _C
from .log import say

TESTED = "2.13", "2.15"  # the oldest and the newest torch
# Of a device that opgraft drives: what runs operators of the CPU on copies.
on_copies: dict[str, Callable[..., Any]] = {}

_lock = threading.Lock()
_is_ready = False


def prepare() -> None:
    """Sets the C host up, once a process. Raises ImportError on an old torch."""
    global _is_ready
    if _is_ready:
        return
    with _lock:
        if not _is_ready:
            _setup()
            _is_ready = True


def exchange() -> Any:
    """torch's DLPack functions; ImportError on a torch that is too old."""
    found = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if (found is None or not hasattr(torch._C, "_len_torch_dispatch_stack")
            or not hasattr(torch.Tag, "out")):
        raise ImportError(f"opgraft needs torch {TESTED[0]} or newer, found "
                          f"{torch.__version__}")
    return found


def _setup() -> None:
    _C.setup(torch, exchange())
    _C.guard_setup(
        torch.Tensor,
        torch.nn.Parameter,
        torch._C.TensorBase.__dict__["requires_grad"],
        torch._C._len_torch_dispatch_stack,
        torch._C._len_torch_function_stack,
        torch._C._is_tracing,
        _keys_are_plain,
        torch._C._is_any_autocast_enabled,
        torch._C._increment_version,
        vars(torch.autograd.profiler),
        vars(torch.autograd.forward_ad),
        check_write,
    )
    wanted = os.environ.get("OPGRAFT_GUARD", "")
    if wanted not in ("", "published"):
        say(f"OPGRAFT_GUARD is {wanted!r}, expected 'published' or nothing")
    # The samples must differ as they do elsewhere, whatever mode we are in.
    with torch.inference_mode(False), torch.enable_grad(), no_modes():
        is_quick = wanted != "published" and self_test()
    state = "unpublished words" if is_quick else "published calls only"
    say(f"fast path: {state} {_C.guard_state()}")
    say(versions())


def versions() -> str:
    """This torch, and those that the tests ran on."""
    now = tuple(map(int, torch.__version__.split(".")[:2]))
    if now > tuple(map(int, TESTED[1].split("."))):
        return (f"torch {torch.__version__} is newer than the newest that was "
                f"tested, {TESTED[1]}")
    return f"torch {torch.__version__}, tested: {TESTED[0]} to {TESTED[1]}"


@contextlib.contextmanager
def no_modes() -> Iterator[None]:
    """Outside of every mode, as of `with torch.device(...)` around an import."""
    cast = [torch.autocast(device, enabled=False) for device in ("cpu", "cuda")
            if torch.is_autocast_enabled(device)]
    stack = [torch._C._pop_torch_function_stack()
             for _ in range(torch._C._len_torch_function_stack())]
    try:
        with contextlib.ExitStack() as left:
            for off in cast:
                left.enter_context(off)
            # What leaves the modes imports Dynamo, which takes half a second.
            if torch._C._len_torch_dispatch_stack() > 0:
                from torch.utils import _python_dispatch

                left.enter_context(_python_dispatch._disable_current_modes())
            yield
    finally:
        for mode in reversed(stack):
            torch._C._push_on_torch_function_stack(mode)


def check_write(tensor: torch.Tensor) -> None:
    """Raises what torch raises for a write that it forbids on this thread."""
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not "
            "allowed. You can make a clone to get a normal tensor before doing "
            "inplace update. See https://github.com/pytorch/rfcs/pull/17 for "
            "more details."
        )


_plain_keys: set[str] = set()


def _keys_are_plain(tensor: torch.Tensor) -> bool:
    """The published form of guard.c's test of a tensor's dispatch keys."""
    if not _plain_keys:
        with torch.inference_mode(False):
            plain = torch.empty(1)
        _plain_keys.add(str(torch._C._dispatch_keys(plain)))
        with torch.inference_mode():
            _plain_keys.add(str(torch._C._dispatch_keys(torch.empty(1))))
    return str(torch._C._dispatch_keys(tensor)) in _plain_keys


def _samples() -> tuple[tuple[Any, ...], ...]:
    """Tensors of every kind. What they hold does not matter, and a first
    kernel of torch's takes milliseconds: nothing is computed."""
    empty = torch.empty
    complex_two = empty(2, dtype=torch.complex64)
    fresh = (
        empty(2, 3),
        empty(()),
        empty(0, 4, dtype=torch.bfloat16),
        empty(5, dtype=torch.int64),
    )
    plain = (
        empty(6).reshape(2, 3),
        empty((), dtype=torch.int64),
        empty(8)[2:6:2],
        torch.nn.Parameter(empty(2), requires_grad=False),
        complex_two,
        empty(3, dtype=torch.bool).expand(2, 3),
    )
    leaf = empty(2, requires_grad=True)
    gradient = (leaf, leaf.view(1, 2), torch.nn.Parameter(empty(1)))
    with torch.inference_mode():
        inference = (empty(3), empty((), dtype=torch.int64), empty(2, 2).t())
    special = [
        torch._neg_view(empty(3)),
        complex_two.conj(),
        complex_two.conj().imag,
        torch._efficientzerotensor(3),
        empty(3, device="meta"),
        torch._to_functional_tensor(empty(2)),
        torch.sparse_coo_tensor(size=(2,)),
    ]
    return fresh, plain, gradient, inference, tuple(special), _sized()


def _sized() -> tuple[torch.Tensor, ...]:
    """Every type, and ranks on both sides of where a tensor's sizes no longer
    fit into it."""
    names = (
        "float32 bfloat16 float16 float64 int64 int32 int16 int8 uint8 bool"
        " complex64 complex128"
    )
    made = [
        torch.empty((2,) * (rank % 9), dtype=getattr(torch, name))
        for rank, name in enumerate(names.split())
    ]
    # One whose sizes were elsewhere before.
    return (*made, torch.empty((1,) * 7).squeeze_())


def _words_in_modes() -> tuple[tuple[int, int], ...]:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    seen = [_C.guard_learn()]
    with torch.inference_mode():
        seen.append(_C.guard_learn())
    with Mode():
        seen.append(_C.guard_learn())
    with torch.autocast("cpu"):
        seen.append(_C.guard_learn())
    # The transforms' own entry points: torch.func would import Dynamo.
    functorch = torch._C._functorch
    functorch._vmap_increment_nesting(2, "error")
    seen.append(_C.guard_learn())
    functorch._vmap_decrement_nesting()
    functorch._grad_increment_nesting()
    seen.append(_C.guard_learn())
    functorch._grad_decrement_nesting()
    return tuple(seen)


def _function_stack_moves() -> bool:
    from torch.overrides import TorchFunctionMode

    before = _C.guard_state()["function_stack"]
    with TorchFunctionMode():
        inside = _C.guard_state()["function_stack"]
    return before == 0 and inside == 1


def self_test() -> bool:
    """Whether every unpublished word told every sample right."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse and named ones announce beta
        return _C.guard_learn(
            _words_in_modes(), *_samples(), _function_stack_moves()
        )
