# SPDX-License-Identifier: Apache-2.0
"""Where the hooks sit in each minor version of torch.

An adapter is a table: name of the hook, module, attribute, wrapper. All act at
compile time only; none is on the path of a compiled call. A hook whose place
is gone, or that the self-test does not see fire, is named in the report, and
the log parser (_logs.py) stands in for it.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from . import _backends
from ._hook import Hook, Installed
from ._record import MODE_IS_ACTIVE, Recorder, backend_name

# --- Frames -------------------------------------------------------------------


def _convert(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """ConvertFrame.__call__: every frame that Dynamo counts."""

    @functools.wraps(inner)
    def call(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            recorder.again += 1
            return inner(self, frame, *args, **kwargs)
        return _bracket(recorder, inner, self, frame, args, kwargs, True)

    return call


def _convert_whole(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """ConvertFrameAssert.__call__: inside the one above, or alone where the
    whole function must be one graph. Here an error is still to be seen."""

    @functools.wraps(inner)
    def call(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            return inner(self, frame, *args, **kwargs)
        made = recorder.frame
        if made is None or made.code is not frame.f_code or made.error:
            return _bracket(recorder, inner, self, frame, args, kwargs, True)
        try:
            return inner(self, frame, *args, **kwargs)
        except Exception as error:
            made.error = error
            raise

    return call


def _bracket(recorder: Recorder, inner: Callable[..., Any], self: Any,
             frame: Any, args: Any, kwargs: Any, counted: bool) -> Any:
    made = recorder.frame_begin(frame, sys._getframe(2), counted)
    outcome, reason = "failed", ""
    try:
        result = inner(self, frame, *args, **kwargs)
        if getattr(result, "guarded_code", result) is not None:
            outcome = "compiled"
        else:
            reason = getattr(result, "skip_reason", "not said") or ""
            outcome = "failed" if made.error else "skipped"
        return result
    except Exception as error:
        made.error, made.is_raised = made.error or error, True
        raise
    finally:
        with recorder.cost():
            if made.error is not None:
                reason = str(made.error).strip().split("\n")[0]
            recorder.frame_end(made, outcome, reason)


def _catch(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """CatchErrorsWrapper._handle_skip: frames that are turned away before
    Dynamo counts them."""

    @functools.wraps(inner)
    def call(self: Any, result: Any, frame: Any) -> Any:
        if not recorder.is_paused and result.guarded_code is None:
            reason = result.skip_reason or ""
            if not _was_counted(reason):
                with recorder.cost():
                    recorder.frame_untried(frame.f_code, sys._getframe(2),
                                           reason)
        return inner(self, result, frame)

    return call


def _catch_2_9(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """CatchErrorsWrapper.__call__ of a torch that says nothing of a frame that
    it turns away; a dispatch mode that is active is seen here."""

    @functools.wraps(inner)
    def call(self: Any, frame: Any, *args: Any) -> Any:
        from torch.utils._python_dispatch import is_in_torch_dispatch_mode

        if not recorder.is_paused and is_in_torch_dispatch_mode(
                include_infra_modes=False):
            with recorder.cost():
                recorder.frame_untried(frame.f_code, sys._getframe(1),
                                       MODE_IS_ACTIVE)
        return inner(self, frame, *args)

    return call


_UNCOUNTED = ("frame has already started executing", "frame is in the Dynamo",
              "Dynamo tracing is disabled", MODE_IS_ACTIVE,
              "frame is a namedtuple", "__init__ of a traceable wrapper")


def _was_counted(reason: str) -> bool:
    return not reason.startswith(_UNCOUNTED)


# --- Breaks and recompiles ----------------------------------------------------


def _log_break(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """InstructionTranslatorBase.log_graph_break: every break that is taken."""

    @functools.wraps(inner)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        error = kwargs.get("exc", args[2] if len(args) > 2 else None)
        if error is not None and not recorder.is_paused:
            with recorder.cost():
                recorder.broke(error)
        return inner(self, *args, **kwargs)

    return call


class _Said(Exception):
    """A break of which only the text and the stack are told."""

    def __init__(self, text: str, stack: Any) -> None:
        super().__init__(text)
        self.real_stack = stack


def _log_break_2_9(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """log_graph_break, a function that is not given the exception."""

    @functools.wraps(inner)
    def call(code_options: Any, reason: str = "", exc_info: bool = False,
             user_stack: Any = None) -> Any:
        if not recorder.is_paused:
            with recorder.cost():
                stack = torch._guards.TracingContext.extract_stack()
                recorder.broke(_Said(reason, user_stack or stack))
        return inner(code_options, reason, exc_info, user_stack)

    return call


def _recompile(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    @functools.wraps(inner)
    def call(entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        reasons = inner(entries, frame, *args, **kwargs)
        if not recorder.is_paused:
            with recorder.cost():
                recorder.recompiled(frame, list(reasons))
        return reasons

    return call


# --- Graphs -------------------------------------------------------------------


def _call_backend(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """OutputGraph.call_user_compiler: Dynamo's graph goes to the backend."""

    @functools.wraps(inner)
    def call(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            return inner(self, gm, *args, **kwargs)
        id = recorder.graph_begin(str(self.dynamo_compile_id), self)
        ops = border = 0
        with recorder.cost():
            ops = _call_count(gm)
            border = _result_bytes(gm)
        begin = time.perf_counter_ns()
        ours = recorder.hooks_ns
        try:
            return inner(self, gm, *args, **kwargs)
        except Exception as error:
            with recorder.cost():
                recorder.graph_failed(gm, error)
            raise
        finally:
            ns = time.perf_counter_ns() - begin - (recorder.hooks_ns - ours)
            with recorder.cost():
                recorder.graph(gm, self.global_scope, gm.meta["backend_id"],
                               backend_name(self.compiler_fn), ops, border,
                               ns, id)

    return call


def _call_count(gm: Any) -> int:
    return sum(n.op in ("call_function", "call_method", "call_module")
               for n in gm.graph.nodes)


def _result_bytes(gm: Any) -> int:
    """What a break after this graph keeps alive: the bytes of its results."""
    storages: dict[int, int] = {}
    for node in next(n for n in gm.graph.nodes if n.op == "output"
                     ).all_input_nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            key, size = _storage(value)
            storages[key] = max(storages.get(key, 0), size)
    return sum(storages.values())


def _storage(value: torch.Tensor) -> tuple[int, int]:
    """What a tensor lies in, and its bytes: a view keeps all of it alive."""
    try:
        storage = value.untyped_storage()
        return storage._cdata, _number(storage.nbytes())
    except (NotImplementedError, RuntimeError):  # sparse, a subclass
        return id(value), _number(value.numel()) * value.element_size()


def _number(size: Any) -> int:
    """A size, or what a symbolic one was when it was traced."""
    return int(getattr(getattr(size, "node", None), "hint", size) or 0)


_SYMBOLIC = "torch._dynamo.symbolic_convert"
_CONVERT = "torch._dynamo.convert_frame"
_HOOKS_2_13 = (
    Hook("frames", _CONVERT, "ConvertFrame.__call__", _convert),
    Hook("whole frames", _CONVERT, "ConvertFrameAssert.__call__",
         _convert_whole),
    Hook("skips", _CONVERT, "CatchErrorsWrapper._handle_skip", _catch),
    Hook("breaks", _SYMBOLIC, "InstructionTranslatorBase.log_graph_break",
         _log_break),
    Hook("recompiles", _CONVERT, "get_and_maybe_log_recompilation_reasons",
         _recompile),
    Hook("graphs", "torch._dynamo.output_graph",
         "OutputGraph.call_user_compiler", _call_backend),
)
_OLD = {
    "skips": Hook("skips", _CONVERT, "CatchErrorsWrapper.__call__",
                  _catch_2_9),
    "breaks": Hook("breaks", _SYMBOLIC, "log_graph_break", _log_break_2_9),
}
# The self-test has the last word; so it has for a torch that this table lacks.
ADAPTERS = {
    "2.9": tuple(_OLD.get(hook.name, hook) for hook in _HOOKS_2_13),
    **dict.fromkeys(("2.13", "2.14", "2.15"), _HOOKS_2_13),
}
OLDEST, NEWEST = "2.9", "2.15"


def refuse_older() -> None:
    """ImportError on a torch whose failures would be reported wrongly."""
    if tuple(map(int, version().split("."))) < tuple(
            map(int, OLDEST.split("."))):
        raise ImportError(f"opgraft.doctor needs torch {OLDEST} or newer, found "
                          f"{torch.__version__}")


def version() -> str:
    return ".".join(torch.__version__.split(".")[:2])


def install(recorder: Recorder) -> Installed:
    installed = Installed()
    for hook in ADAPTERS.get(version(), ADAPTERS[NEWEST]):
        installed.put(hook, recorder)
    for hook in _backends.HOOKS:
        installed.put_later(hook, recorder)
    return installed
