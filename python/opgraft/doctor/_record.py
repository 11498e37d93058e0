# SPDX-License-Identifier: Apache-2.0
"""What hooks see, as events. A Recorder knows nothing of where hooks sit."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import threading
import time
import traceback
import types
from collections.abc import Iterator
from typing import Any

from . import _guards, _places
from ._events import Writer
from ._places import Place, Site, absolute

_EVAL_FRAME = "torch/_dynamo/eval_frame.py"


@dataclasses.dataclass
class Entry:
    """A callable that was compiled, with the arguments of its last call that
    compiled something."""

    id: int
    fn: Any
    context: Any
    code: types.CodeType  # of the wrapper that torch.compile returned
    place: Place
    caller: Place | None = None  # the line that called it last
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    grad: bool = True
    is_captured: bool = False  # some graph is its
    is_explained: bool = False  # some cause is its
    skip_reason: str = ""


@dataclasses.dataclass
class Break:
    """A break, held until its frame ends: only then is it known whether it
    splits the frame or leaves all of it eager."""

    site: Site
    line: int  # of the frame itself
    title: str
    text: str
    id: str
    stage: str  # "" where the frame's end says it


@dataclasses.dataclass
class Frame:
    """One attempt at compiling one Python frame."""

    id: int
    code: types.CodeType
    entry: int
    begin_ns: int
    counted: bool
    after: int = 0
    restart_ns: int = 0
    backend_ns: int = 0
    compile_id: str = ""
    error: BaseException | None = None
    is_raised: bool = False  # the error went on to the caller
    called_at: Place | None = None  # your line that called it
    failed_at: Site | None = None  # the operator that a backend refused
    guarded_at: Site | None = None  # what a failed guard is about
    breaks: list[Break] = dataclasses.field(default_factory=list)
    # Graphs of its attempts, and the lines that speak of them: Dynamo may
    # begin again after a backend ran, and then only the last attempt counts.
    graphs: list[tuple[Any, int]] = dataclasses.field(default_factory=list)
    held: list[tuple[int, str, dict[str, Any]]] = dataclasses.field(
        default_factory=list)
    causes: set[tuple[Any, ...]] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Region:
    """A compiled graph, and the global through which frames call it."""

    id: int
    scope: dict[str, Any]
    name: str
    ops: int
    entry: int


class Recorder:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._local = threading.local()
        self._lock = threading.Lock()
        self._counts = {"frame": 0, "graph": 0}
        self._broken: dict[tuple[str, str, int], int] = {}
        self._break_sites: dict[int, Site] = {}  # by frame
        # By what is guarded, and whose it is: one cause that makes several
        # frames compile again, or reaches the limit, is one root.
        self._guard_sites: dict[tuple[str, str], Site] = {}
        self._graph_of: dict[str, int] = {}  # compile id -> graph
        self._seen_sources: set[tuple[str, int]] = set()
        self._edited: set[str] = set()  # files, since they were imported
        self.entries: list[Entry] = []
        self.regions: dict[int, Region] = {}
        self.lowering = 0  # the graph that a backend lowers at its first call
        # The operators that stayed with PyTorch, in the order of the graphs.
        self.left_out: list[tuple[int, Place, str]] = []
        self.hooks_ns = 0
        self.compile_ns = 0
        self.is_paused = False
        self.again = 0  # frames that were compiled while steps were timed

    # --- Bookkeeping ---------------------------------------------------------

    @contextlib.contextmanager
    def cost(self) -> Iterator[None]:
        """What runs inside is our own time, not the compiler's; that it
        fails is for the report to say, and not the script's affair."""
        begin = time.perf_counter_ns()
        try:
            yield
        except Exception as error:
            self.note(f"a hook failed: {type(error).__name__}: {error}")
        finally:
            self.hooks_ns += time.perf_counter_ns() - begin

    def _next(self, what: str) -> int:
        with self._lock:
            self._counts[what] += 1
            return self._counts[what]

    def _stack(self) -> list[Frame]:
        if not hasattr(self._local, "frames"):
            self._local.frames = []
        return self._local.frames

    @property
    def frame(self) -> Frame | None:
        stack = self._stack()
        return stack[-1] if stack else None

    def write_to(self, writer: Any) -> None:
        self._writer = writer

    def note(self, text: str) -> None:
        self._writer.line("note", text=text)

    # --- Frames --------------------------------------------------------------

    def frame_begin(
        self, frame: Any, caller: Any, counted: bool = True
    ) -> Frame:
        code = frame.f_code
        made = Frame(self._next("frame"), code, 0, 0, counted)
        with self.cost():
            entry = self._entry(caller)
            made.entry = entry.id if entry else 0
            line = _places.resumed_at(code.co_name)
            if line:
                made.after = self._broken.get(_key(code, line), 0)
            made.called_at = self._called_at(caller)
            self._look_for_edits(code)
        self._stack().append(made)
        made.begin_ns = time.perf_counter_ns()
        return made

    def _look_for_edits(self, code: types.CodeType) -> None:
        file = code.co_filename
        if file not in self._edited and _places.is_edited(code):
            self._edited.add(file)
            self.note(f"{absolute(file)} was edited after it was imported: "
                      "lines of it are those of the old text")

    def frame_end(self, made: Frame, outcome: str, reason: str) -> None:
        self._stack().remove(made)
        ns = time.perf_counter_ns() - made.begin_ns
        if not self._stack():
            self.compile_ns += ns
        if made.error is not None and not made.breaks:
            self.broke(made.error, made)
        is_between = False
        if made.breaks and self._is_consequence(made):
            made.causes.clear()
            is_between = True
        else:
            self._breaks_end(made, outcome)
        self._graphs_end(made)
        place = _places.definition(made.code)
        entry = self._entry_at(made.entry)
        if entry is not None and outcome == "skipped":
            entry.skip_reason = reason
        self._writer.line(
            "frame", id=made.id, entry=made.entry, name=place.function,
            file=absolute(place.file), line=place.line, compile=made.compile_id,
            outcome=outcome, reason=reason, after=made.after,
            counted=made.counted, ns=ns, restart_ns=made.restart_ns,
            backend_ns=made.backend_ns, between=is_between,
        )

    def frame_untried(self, code: types.CodeType, caller: Any,
                      reason: str) -> None:
        """A frame that never came to Dynamo's counters."""
        entry = self._entry(caller)
        if entry is None or not is_wrapper(caller):
            return  # below the entry: a library's frame in a gap
        entry.skip_reason = reason
        place = _places.definition(code)
        id = self._next("frame")
        if reason.startswith(MODE_IS_ACTIVE):
            self._mode_is_active(entry, id, reason)
        self._writer.line(
            "frame", id=id, entry=entry.id,
            name=place.function, file=absolute(place.file), line=place.line,
            outcome="skipped", reason=reason,
        )

    def _mode_is_active(self, entry: Entry, frame: int, reason: str) -> None:
        """Nothing is compiled under a dispatch mode, however often the function
        is compiled without one: at the `with` that enters it, else the call."""
        from torch.utils._python_dispatch import (
            _get_current_dispatch_mode_stack,
        )

        names = [type(m).__name__.lstrip("_")
                 for m in _get_current_dispatch_mode_stack()]
        called = entry.caller or entry.place
        place = _places.with_around(called, names) or called
        self.cause("skip", Site(place, None, _places.owner(place.file)),
                   title=f"a dispatch mode is active: {', '.join(names)}",
                   text=reason, frame=frame, entry=entry.id)

    def _called_at(self, caller: Any) -> Place | None:
        """Your line, below the entry, from which a frame is called."""
        end = caller
        while end is not None and not is_wrapper(end):
            end = end.f_back
        place = _places.calling(caller, end) if end is not None else None
        if place and _places.owner(place.file) == _places.YOURS:
            return place
        return None

    # --- Entries -------------------------------------------------------------

    def _entry(self, caller: Any) -> Entry | None:
        """The outermost compiled callable on the stack, with its arguments."""
        found = None
        frame = caller
        while frame is not None:
            if is_wrapper(frame):
                found = frame
            frame = frame.f_back
        if found is None:
            return None
        values = found.f_locals
        fn, context = values.get("fn"), values.get("self")
        if fn is None or context is None:
            return None
        for entry in self.entries:
            if entry.context is context and entry.fn == fn:
                break
        else:
            entry = self._entry_add(fn, context, found)
        entry.caller = _places.calling(found.f_back)
        entry.args = values.get("args", ())
        entry.kwargs = values.get("kwargs", {})
        import torch

        entry.grad = torch.is_grad_enabled()
        return entry

    def _entry_at(self, id: int) -> Entry | None:
        return self.entries[id - 1] if id else None

    def _entry_add(self, fn: Any, context: Any, wrapper: Any) -> Entry:
        place = _callable_place(fn)
        entry = Entry(len(self.entries) + 1, fn, context, wrapper.f_code, place)
        self.entries.append(entry)
        self._writer.line(
            "entry", id=entry.id, name=place.function, file=absolute(place.file),
            line=place.line, owner=_places.owner(place.file),
            backend=backend_name(context.callback),
        )
        return entry

    def raised(self, error: BaseException) -> None:
        """What ended the script, where compiling made it an error."""
        text = str(error)
        if not self.entries or not _AUTOGRAD.search(text):
            return
        stack = _places.places(traceback.extract_tb(error.__traceback__))
        if any(e.is_explained for e in self.entries):
            return  # Dynamo said why already
        self.cause("autograd", _places.site_of(stack),
                   title=text.split("\n")[0], text=text,
                   entry=self.entries[-1].id)

    def finish(self) -> None:
        """Entries of which nothing was captured, and nothing said why."""
        for entry in self.entries:
            if entry.is_captured or entry.is_explained:
                continue
            reason = entry.skip_reason or "Dynamo never saw a frame of it"
            self.cause(
                "skip",
                Site(entry.place, None, _places.owner(entry.place.file)),
                title="nothing of this function is compiled", text=reason,
                entry=entry.id,
            )

    # --- Causes --------------------------------------------------------------

    def cause(
        self, stage: str, site: Site | None, *, title: str, text: str = "",
        id: str = "", frame: int = 0, graph: int = 0, entry: int = 0,
        guard: str = "", op: str = "",
    ) -> Place:
        of = self._entry_at(entry)
        if of is not None:
            of.is_explained = True
        site = site or Site(Place("", 0, ""), None, _places.YOURS)
        if of is not None and of.caller and _is_not_yours(site):
            site = Site(of.caller, site.place, site.owner)
        place, at, owner = site
        self._graph_line(
            graph, "cause", frame=frame, entry=entry, stage=stage,
            id=id, title=title, text=text, file=absolute(place.file),
            line=place.line, function=place.function, code=_places.code(place),
            owner=owner,
            at_file=absolute(at.file) if at else "", at_line=at.line if at else 0,
            guard=guard, op=op,
        )
        self._source(place)
        return place

    def _source(self, place: Place) -> None:
        """The lines around a site, for the reports that show them."""
        if (place.file, place.line) in self._seen_sources:
            return
        self._seen_sources.add((place.file, place.line))
        for line in range(max(1, place.line - 4), place.line + 5):
            text = _places.linecache.getline(place.file, line)
            if text:
                self._writer.line("source", file=absolute(place.file), line=line,
                                  text=text.rstrip("\n"))

    def _is_consequence(self, made: Frame) -> bool:
        """A frame that Dynamo tried only because a frame above it is split
        already: a generator, code of PyTorch's or Python's own, or of what
        PyTorch is built on."""
        entry = self._entry_at(made.entry)
        if entry is None or not entry.is_explained:
            return False
        return bool(made.code.co_flags & _GENERATORS) or _places.is_machinery(
            made.code.co_filename)

    def broke(self, error: BaseException, frame: Frame | None = None) -> None:
        """Dynamo stopped tracing at `error`."""
        made = frame or self.frame
        if made is None:
            return
        made.restart_ns = time.perf_counter_ns() - made.begin_ns
        stack = _places.places(getattr(error, "real_stack", None) or [])
        site = _places.site_of(stack) or made.failed_at
        if site is None:
            place = _places.definition(made.code)
            site = Site(place, None, _places.owner(place.file))
        if site.owner != _places.YOURS and made.called_at is not None:
            site = Site(made.called_at, site.at or site.place, site.owner)
        title, text = _title_and_text(error)
        id = _registry_id(title) or _registry_id(
            getattr(error, "gb_type", None) or "")
        if made.code.co_flags & _ASYNC and title == _NO_BYTECODE:
            title = "a coroutine is compiled, and Dynamo cannot trace `await`"
        stage = _stage(error, title)
        if stage == "recompile" and made.guarded_at is not None:
            site = made.guarded_at  # the limit that its guards have reached
        key = (site.place.file, site.place.line, id)
        if key in made.causes:
            return
        made.causes.add(key)
        made.breaks.append(Break(site, stack[0].line if stack else 0, title,
                                 text, id, stage))

    def broke_in_log(self, stack: list[Place], title: str, id: str) -> None:
        """A break that only the log tells of."""
        made = self.frame
        site = _places.site_of(stack)
        if made is None or site is None:
            self.cause("dynamo", site, title=title, id=id)
            return
        key = (site.place.file, site.place.line, id)
        if key not in made.causes:
            made.causes.add(key)
            made.breaks.append(Break(site, stack[0].line, title, title, id, ""))

    def recompiled_in_log(self, reasons: list[str]) -> None:
        if self.frame is not None:
            self._recompile(self.frame.code, reasons)

    def _breaks_end(self, made: Frame, outcome: str) -> None:
        is_whole = outcome != "compiled" and not made.is_raised
        for held in made.breaks:
            self._broken[_key(made.code, held.line)] = made.id
            self._break_sites[made.id] = held.site
            self.cause(held.stage or ("skip" if is_whole else "dynamo"),
                       held.site, title=held.title, text=held.text, id=held.id,
                       frame=made.id, entry=made.entry)

    def recompiled(self, frame: Any, reasons: list[str]) -> None:
        self._recompile(frame.f_code, reasons, frame.f_locals.get("self"))

    def _recompile(self, code: types.CodeType, reasons: list[str],
                   owner: Any = None) -> None:
        made = self.frame
        if made is not None and self._is_first(made):
            return
        reason = reasons[0] if reasons else ""
        guard = _guards.plain(reason)
        site = self._recompile_site(made, reason, code, owner)
        if made is not None:
            made.causes.add(("recompile",))
            made.guarded_at = site
        means = _guards.meaning(guard)
        self.cause(
            "recompile", site, title=f"guard failed: {guard or 'not known'}"
            + (f" ({means})" if means else ""),
            text="\n".join(reasons), guard=guard,
            frame=made.id if made else 0, entry=made.entry if made else 0,
        )

    def _is_first(self, made: Frame) -> bool:
        """Several functions are entered through one frame of PyTorch's, which
        is then compiled for each: that is not a recompile."""
        entry = self._entry_at(made.entry)
        return entry is not None and not entry.is_captured and _places.owner(
            made.code.co_filename) == _places.PYTORCH

    def _recompile_site(self, made: Frame | None, reason: str,
                        code: types.CodeType, owner: Any) -> Site:
        """Where the guarded value is read first; where a break made it, the
        break."""
        before = self._break_sites.get(made.after) if made else None
        if before is not None and _FROM_BREAK.search(reason):
            return before
        place = _places.definition(code)
        about = _guards.subject(_guards.plain(reason))
        whose = type(owner).__qualname__ if about.startswith(
            "self.") else place.function
        return self._guard_sites.setdefault(
            (about, f"{code.co_filename}:{whose}"), _guard_site(reason, code)
            or Site(place, None, _places.owner(place.file)))

    # --- Graphs --------------------------------------------------------------

    def graph(self, gm: Any, scope: dict[str, Any], name: str, backend: str,
              ops: int, boundary_bytes: int, ns: int, id: int) -> None:
        made = self.frame
        if made is not None:
            made.backend_ns += ns
            entry = self._entry_at(made.entry)
            if entry is not None and ops:
                entry.is_captured = True
        self.regions[id] = Region(id, scope, name, ops,
                                  made.entry if made else 0)
        self._graph_line(id, "graph", id=id, frame=made.id if made else 0,
                         ops=ops, boundary_bytes=boundary_bytes, ns=ns,
                         backend=backend)

    def graph_failed(self, gm: Any, error: BaseException) -> None:
        """The backend raised: the site of the operator that it names."""
        text = str(error)
        named = [n for n in gm.graph.nodes if n.op == "call_function"
                 and "." in str(n.target) and str(n.target) in text]
        if named and self.frame is not None:
            self.frame.failed_at = _places.site_of(_places.places_of_text(
                named[0].meta.get("stack_trace") or ""))

    def graph_begin(self, compile_id: str, attempt: Any) -> int:
        """A new graph's id. `attempt` names one analysis of a frame."""
        id = self._next("graph")
        self._graph_of[compile_id] = id
        if self.frame is not None:
            self.frame.compile_id = compile_id
            self.frame.graphs.append((attempt, id))
        return id

    def _graph_line(self, graph: int, kind: str, /, **fields: Any) -> None:
        """A line that stands only where its graph does. 0: it always does."""
        if kind != "graph":
            fields["graph"] = graph
        made = self.frame
        if made is not None and any(id == graph for _, id in made.graphs):
            made.held.append((graph, kind, fields))
        else:
            self._writer.line(kind, **fields)

    def _graphs_end(self, made: Frame) -> None:
        """The frame's last attempt runs; the time that the backend
        took for others stays in the sum."""
        last = made.graphs[-1][0] if made.graphs else None
        stand = {id for attempt, id in made.graphs if attempt is last}
        lost = sum(fields["ns"] for id, kind, fields in made.held
                   if kind == "graph" and id not in stand)
        for id, kind, fields in made.held:
            if id not in stand:
                continue
            if kind == "graph":
                fields["ns"] += lost
                lost = 0
            self._writer.line(kind, **fields)
        made.graphs.clear()
        made.held.clear()

    def graph_of(self, compile_id: str) -> int:
        return self._graph_of.get(compile_id, 0)

    def lowered(self, graph: int, kind: str, nodes: int, kernels: int,
                externs: int, ns: int = 0) -> None:
        self._graph_line(graph, "lower", kind=kind, nodes=nodes,
                         kernels=kernels, externs=externs, ns=ns)

    def fell_back(self, graph: int, op: str, stack_trace: str, title: str,
                  text: str) -> None:
        place = self.cause("backend", _places.site_of(_places.places_of_text(
            stack_trace)), title=title, text=text, op=op, graph=graph)
        self.left_out.append((graph, place, op))

    def refused(self, graph: int, title: str, text: str) -> None:
        """The backend refuses a mode: at the line that its reason names, else
        of the whole function that is being compiled."""
        site = _places.site_of(_places.places_of_text(text))
        if site is None and self.frame is not None:
            place = _places.definition(self.frame.code)
            site = Site(place, None, _places.owner(place.file))
        self.cause("backend", site, title=title, text=text, op="CUDA graphs",
                   graph=graph)


def _is_not_yours(site: Site) -> bool:
    """Nobody would mend it there: PyTorch's or Python's own code."""
    return site.at is None and site.owner in (_places.PYTORCH, _places.PYTHON)


def _key(code: types.CodeType, line: int) -> tuple[str, str, int]:
    return code.co_filename, _places.base_name(code.co_name), line


def is_wrapper(frame: Any) -> bool:
    code = frame.f_code
    return code.co_name == "compile_wrapper" and \
        code.co_filename.endswith(_EVAL_FRAME)


def _callable_place(fn: Any) -> Place:
    """Where the user's function is defined; of a module, its forward."""
    import torch

    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        fn = owner.forward
    elif isinstance(fn, torch.nn.Module):
        fn = fn.forward
    inner = getattr(fn, "_torchdynamo_orig_callable", fn)
    inner = getattr(inner, "__func__", inner)
    inner = getattr(inner, "__wrapped__", inner)
    code = getattr(inner, "__code__", None)
    if code is None:
        return Place("", 0, getattr(fn, "__name__", type(fn).__name__))
    return _places.definition(code)


def backend_name(compiler: Any) -> str:
    """What torch.compile was asked for: "inductor", or the function's name."""
    fn = compiler
    while hasattr(fn, "_torchdynamo_orig_backend"):
        fn = fn._torchdynamo_orig_backend
    return str(getattr(fn, "compiler_name", None)
               or getattr(fn, "__name__", type(fn).__name__))


def _title_and_text(error: BaseException) -> tuple[str, str]:
    """The first line, which names the cause: a break in a loop or a context
    manager repeats, first, the message of the break that it hides. Of a
    backend's error it is the second; the first names the backend."""
    from torch._dynamo import exc

    message = str(getattr(error, "msg", None) or error).strip()
    lines = message.split("\n")
    is_wrapped = isinstance(error, exc.BackendCompilerFailed)
    title = lines[1] if is_wrapped and len(lines) > 1 else lines[0]
    return title or type(error).__name__, message


def _registry_id(title: str) -> str:
    if not title:
        return ""
    from torch._dynamo import exc

    return exc._load_gb_type_to_gb_id_map().get(title, "")


def _stage(error: BaseException, title: str) -> str:
    """The stage that an error names itself, or "": the frame's end says it."""
    from torch._dynamo import exc

    if "recompile limit" in title or "cache_size_limit" in title:
        return "recompile"
    if isinstance(error, exc.BackendCompilerFailed):
        text = str(error)
        return "autograd" if _AUTOGRAD.search(text) else "backend"
    return ""


# What the compiled forward and backward refuse to do together.
_AUTOGRAD = re.compile(
    "double backward|donated buffer|inplace operation|backward formula|"
    "register_autograd|saved_tensors_hooks|does not require grad|"
    "derivative for .* is not implemented|Trying to backward")
MODE_IS_ACTIVE = "non-infra torch dispatch mode"
_FROM_BREAK = re.compile(r"\b___stack\d+\b")  # what a break left behind
_GUARD_LINE = re.compile(r"# ([^#\n]+?):(\d+) in ([\w<>]+)")
_NO_BYTECODE = "Missing bytecode handler"
_ASYNC = inspect.CO_ASYNC_GENERATOR | inspect.CO_COROUTINE
_GENERATORS = (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
               | inspect.CO_COROUTINE)


def _guard_site(reason: str, code: types.CodeType) -> Site | None:
    """Where the value that failed its guard is read, if the guard says so.
    It names the end of the path only, so the function's own file is asked."""
    for file, line, function in _GUARD_LINE.findall(reason):
        if code.co_filename.endswith(file):
            place = Place(code.co_filename, int(line),
                          _places.base_name(function))
            return Site(place, None, _places.owner(place.file))
    return None
