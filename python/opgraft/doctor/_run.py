# SPDX-License-Identifier: Apache-2.0
"""Runs a script, or a callable, under the hooks."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
import shlex
import shutil
import signal
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from . import _adapter, _backends, _logs, _measure, _selftest
from ._events import Writer
from ._record import Recorder
from ._source import Texts

CANNOT_RUN = 2


def program() -> str:
    """The `opgraft` program: $OPGRAFT_PROGRAM, beside Python, on PATH."""
    wanted = os.environ.get("OPGRAFT_PROGRAM")
    beside = Path(sys.executable).parent / "opgraft"
    found = wanted or (str(beside) if beside.exists() else None) or \
        shutil.which("opgraft")
    if found is None:
        raise SystemExit(
            "opgraft: the program `opgraft` is neither "
            f"beside {sys.executable} nor on PATH; install opgraft, or set "
            "OPGRAFT_PROGRAM")
    return found


def leave_caches_out() -> None:
    """A graph that comes from a cache is not lowered, and so not seen."""
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
    os.environ.setdefault("TORCHINDUCTOR_AUTOGRAD_CACHE", "0")


def choose(backend: str) -> bool:
    """Lets torch.compile use this backend; prints why it cannot."""
    try:
        _adapter.refuse_older()
        _backends.choose(backend)
    except (ImportError, _backends.Missing) as error:
        print(f"opgraft doctor: {error}", file=sys.stderr)
        return False
    return True


@contextlib.contextmanager
def recording(path: str | os.PathLike[str], runs: int, script: str = "",
              arguments: str = "", is_tested: bool = False
              ) -> Iterator[Recorder]:
    """Hooks around the body; then the times; all in the event file `path`.
    The hooks test themselves first, unless a run before did."""
    _adapter.refuse_older()
    leave_caches_out()
    # PyTorch's profiler says on stderr when it begins and ends.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    writer = Writer(path)
    writer.line(
        "run", script=script, arguments=arguments, torch=torch.__version__,
        python=platform.python_version(), adapter=_adapter.version(),
        machine=platform.machine(), home=os.path.expanduser("~"),
        threads=torch.get_num_threads(),
    )
    recorder = Recorder(writer)
    before = _frame_counters()
    installed = _adapter.install(recorder)
    if not is_tested:
        _selftest.run(installed, recorder)
    _logs.stand_in(installed, recorder)
    status, text = "ok", ""
    total = ok = 0
    stretch = 0.0
    try:
        yield recorder
    except SystemExit as error:
        if error.code not in (None, 0):
            status, text = "exit", f"sys.exit({error.code})"
        raise
    except BaseException as error:
        status, text = "raised", f"{type(error).__name__}: {error}"
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end is recorded
            runs = 0
        recorder.raised(error)
        raise
    finally:
        with contextlib.suppress(KeyboardInterrupt):
            recorder.finish()
            total, ok = map(_since, before, _frame_counters())
            stretch = _measure.measure(recorder, writer, runs)
        for name, state in installed.states.items():
            writer.line("hook", name=name, state=state.split(":")[0],
                        text=state)
        installed.remove()
        writer.line("counts", total=total, ok=ok, hooks_ns=recorder.hooks_ns,
                    compile_ns=recorder.compile_ns, stretch=stretch)
        writer.line("end", status=status, text=text)
        writer.close()


def _since(before: int, now: int) -> int:
    """What a counter of the process counted, which the script may have reset."""
    return now - before if now >= before else now


def _frame_counters() -> tuple[int, int]:
    from torch._dynamo.utils import counters

    return counters["frames"]["total"], counters["frames"]["ok"]


def script(path: str, arguments: list[str], events: str, runs: int,
           texts: Texts | None = None, outputs: Any = None) -> int:
    """Runs a script as Python would; 0, or 2 where there is none. What it
    raises is printed and recorded. `texts` stand in for files; `outputs` gets
    what was compiled, and what training left in its modules."""
    if not os.path.isfile(path) and not _CALLABLE.fullmatch(path):
        print(f"opgraft doctor: {path}: there is no such script",
              file=sys.stderr)
        return CANNOT_RUN
    try:
        _adapter.refuse_older()
    except ImportError as error:
        print(f"opgraft doctor: {error}", file=sys.stderr)
        return CANNOT_RUN
    code = None
    if os.path.isfile(path):
        code = _code_of(os.path.abspath(path), texts or {})
        if code is None:
            return CANNOT_RUN
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path)) if os.path.isfile(
        path) else os.getcwd()
    with _survived():
        with recording(events, runs, script=os.path.abspath(path),
                       arguments=shlex.join(arguments),
                       is_tested=outputs is not None) as recorder:
            _run_main(path, code)
            if outputs is not None:
                outputs.entries = recorder.entries
            for entry in recorder.entries if outputs is not None else ():
                module = getattr(entry.fn, "__self__", None)
                if isinstance(module, torch.nn.Module):
                    outputs.add_module(module)
    return 0


# The names that the script defines must live as long as what is timed
# afterwards: compiled frames look globals up in them.
_kept: list[Any] = []


def _code_of(file: str, texts: Texts) -> types.CodeType | None:
    """None where it is not Python; prints why."""
    try:
        return compile(texts.get(file) or Path(file).read_bytes(), file, "exec",
                       dont_inherit=True)
    except (OSError, SyntaxError, ValueError) as error:
        print("".join(traceback.format_exception_only(error))
              + f"opgraft doctor: {file}: is not a Python script that can be run",
              file=sys.stderr)
        return None


_CALLABLE = re.compile(r"[\w.]+:\w+")  # module:function, called with nothing


def _run_main(path: str, code: types.CodeType | None) -> None:
    if code is None:
        module, name = path.split(":")
        _kept.append(getattr(importlib.import_module(module), name)())
        return
    main = types.ModuleType("__main__")
    main.__file__ = os.path.abspath(path)
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    _kept.append(main)
    try:
        exec(code, main.__dict__)
    finally:
        sys.modules["__main__"] = before


@contextlib.contextmanager
def _survived() -> Iterator[None]:
    try:
        yield
    except SystemExit:
        pass
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.excepthook(type(error), error.with_traceback(
            _script_s_own(error.__traceback__)), None)


def _script_s_own(trace: types.TracebackType | None
                  ) -> types.TracebackType | None:
    """As Python prints it: without the frames that called the script."""
    here = os.path.dirname(__file__)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(
            here):
        trace = trace.tb_next
    return trace
