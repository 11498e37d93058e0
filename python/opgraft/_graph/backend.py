# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="opgraft"): the graph engine's way in.

Dynamo's graph goes through AOTAutograd; each graph that comes out is walked by
C, which plans it once and replays it (hosts/torch/walk.c, docs/graph.md).
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping

import torch
import torch.utils._pytree as pytree
from torch.autograd import forward_ad

from .. import _C
from .._base import host
from .._base.log import say
from . import objects, segments, stats, storages, targets
from . import precision as precisions
from .rewrites import partition, rewrite

MODES = ("default", "reduce-overhead", "max-autotune",
         "max-autotune-no-cudagraphs")

# As OPGRAFT_OPTION_* of opgraft/graph.h.
FALLBACK_ERROR, CLONE_ERROR, MAX_AUTOTUNE, MATH_STRICT = 1, 2, 4, 8
CONSTANT_BYTES = 256
# Of a result, as hosts/torch/graph/shown.h has it.
NOT_SHOWN, SHOWN, ROOT, DETACHED, AGAIN = range(5)
FORWARD_MODE = "forward-mode differentiation is on"


@dataclass
class Options:
    """What torch.compile's `options` may hold, with the defaults."""

    mode: str = "default"
    # "error": a node that only the host can run fails the compilation.
    fallback: str = "allow"
    # "error": a mutation that needs a copy fails it.
    clone: str = "allow"
    # A folder: the graph as text after import and after each pass.
    dump: str | None = None
    # Names of passes that do not run.
    disable: tuple[str, ...] = ()
    # Plans kept for different sizes; the least recently used one goes.
    plan_limit: int = 16
    # Independent parts of a graph on separate threads: "auto" (where the first
    # replays show that it pays), "off", or in how many lanes at most.
    lanes: str | int = "auto"
    # A folder: each graph as text, and the inputs of a call that failed.
    repro: str | None = None
    # "all": the inputs of every call, the last one's stay.
    repro_calls: str = "failing"
    # Mode max-autotune: seconds for timing kernels, a graph; 0: none are timed.
    tune_s: float = 5.0
    # "strict": functions in fused loops are libm's, not our vector forms.
    math: str = "fast"
    # Mode max-autotune: "bf16": contractions of f32 round their operands to
    # bf16, and add up in f32; "int8": their weights become int8, with a scale
    # for each column; "int4", "int4/64", "int4/32": int4, with a scale for each
    # 128, 64 or 32 elements of a column; "int8-dynamic" and so on: over these
    # activations are int8 too, by rows. {pattern: one of these}: of the weights
    # with such names, by the first pattern that matches; others stay.
    precision: str | Mapping[str, str] = "f32"
    # A file: which kernel runs which node, as opgraft.stats(f).rules() prints
    # it and docs/graph.md explains.
    choose: str | None = None
    # [16, 32]: sizes planned beforehand, for graphs with one size that varies;
    # {"s77": [16, 32], ...} by symbol for others.
    gears: Any = ()


def _read_options(mode: str | None, options: Mapping[str, Any] | None
                  ) -> Options:
    given = dict(options or {})
    known = list(Options.__dataclass_fields__)
    unknown = [k for k in given if k not in known]
    if unknown:
        raise ValueError(
            f"backend opgraft has no option {unknown[0]!r}; it has "
            f"{', '.join(known)}"
        )
    if mode is not None:
        if given.get("mode", mode) != mode:
            raise ValueError(
                f"two modes: mode={mode!r} and options['mode']="
                f"{given['mode']!r}; give one"
            )
        given["mode"] = mode
    if isinstance(given.get("disable"), str):
        given["disable"] = tuple(
            n.strip() for n in given["disable"].split(","))
    out = Options(**given)
    _choose("mode", out.mode, MODES)
    _choose("fallback", out.fallback, ("allow", "error"))
    _choose("clone", out.clone, ("allow", "error"))
    _choose("math", out.math, ("fast", "strict"))
    if precisions.check("backend opgraft", out.precision) and \
            not out.mode.startswith("max-autotune"):
        raise ValueError(
            f"option precision is {out.precision!r} in mode {out.mode!r}, "
            "expected mode \"max-autotune\": only its kernels have others "
            "than \"f32\"")
    _choose("repro_calls", out.repro_calls, ("failing", "all"))
    if out.repro is None and "repro_calls" in given:
        raise ValueError("option repro_calls needs repro, the folder they go to")
    if not isinstance(out.plan_limit, int) or out.plan_limit < 1:
        raise ValueError(
            f"option plan_limit is {out.plan_limit!r}, expected a number "
            "from 1")
    if out.lanes not in ("auto", "off") and not (
            isinstance(out.lanes, int) and out.lanes >= 1):
        raise ValueError(
            f"option lanes is {out.lanes!r}, expected \"auto\", \"off\" or a "
            "number from 1")
    if not isinstance(out.tune_s, (int, float)) or not 0 <= out.tune_s < 1e6:
        raise ValueError(
            f"option tune_s is {out.tune_s!r}, expected seconds from 0")
    _gears_check(out.gears)
    return out


def _tune_ns(options: Options) -> int:
    """As opgraft_host.tune_ns has it. What is timed may differ from one run to
    the next, and so may last bits."""
    if torch.are_deterministic_algorithms_enabled():
        return 0
    return int(options.tune_s * 1e9)


def _lanes(chosen: str | int) -> int:
    """As opgraft_host.lanes has it. In a lane ATen's kernels have one thread,
    which may change their last bits, and lanes begin after a few calls."""
    if chosen == "off" or torch.are_deterministic_algorithms_enabled():
        return 1
    return 0 if chosen == "auto" else int(chosen)


def _rules(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"option choose: {path} cannot be read: {error}") from None


GEARS_MAX = 100


def _gears_check(gears: Any) -> None:
    lists = list(gears.values()) if isinstance(gears, Mapping) else [gears]
    for sizes in lists:
        if not isinstance(sizes, (list, tuple)) or not all(
                isinstance(n, int) and not isinstance(n, bool) and n >= 0
                for n in sizes):
            raise ValueError(
                f"option gears holds {sizes!r}, expected a list of sizes, or a "
                "dict of such lists by symbol")
    count = math.prod(len(set(sizes)) for sizes in lists)
    if count > GEARS_MAX:
        raise ValueError(
            f"option gears asks for {count} plans, at most {GEARS_MAX}")


def _gears_plan(compiled: Any, inputs: list[Any], gears: Any) -> None:
    """Plans the listed sizes of a graph's symbols, every combination."""
    from torch.fx.experimental.symbolic_shapes import free_symbols

    if not gears:
        return
    symbols = sorted({str(s) for x in inputs for s in free_symbols(x)})
    if not symbols:
        return
    by_symbol = (gears if isinstance(gears, Mapping)
                 else {symbols[0]: gears} if len(symbols) == 1 else {})
    if set(by_symbol) != set(symbols):
        say(f"gears name {sorted(by_symbol)}, the graph has {symbols}: "
            "nothing is planned beforehand")
        return
    for sizes in itertools.product(*(
            sorted(set(by_symbol[s])) for s in symbols)):
        compiled.plan(dict(zip(symbols, sizes)))


def _choose(name: str, found: Any, wanted: tuple[str, ...]) -> None:
    if found not in wanted:
        raise ValueError(
            f"backend opgraft: {name} is {found!r}, expected one of "
            f"{', '.join(wanted)}"
        )


@functools.cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    return targets.decompositions()


def backend(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *,
    mode: str | None = None, options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The entry that torch.compile looks up by the name "opgraft"."""
    from torch._dynamo.backends.common import aot_autograd

    host.prepare()
    chosen = _read_options(mode, options)
    example_inputs = _as_called(gm, example_inputs)
    region = stats.region_begin()
    asked = precisions.of_dynamo(gm, chosen.precision)

    direct: list[Any] = []

    def compiler(kind: str) -> Callable[..., Any]:
        def compile_one(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            if _is_kept():
                from .cached import CachedGraph

                return CachedGraph(graph, compile_kept, kind, chosen,
                                   _static_inputs(kind, asked))
            compiled = compile_graph(graph, inputs, kind, chosen, region,
                                     _static_inputs(kind, asked))
            if kind == "inference" and _needs_no_wrapper(compiled, gm):
                direct.append(compiled)
            return compiled

        return compile_one

    # Dynamo keeps out of the compiler by this; what it returns is C, which
    # Dynamo cannot trace, so it needs no wrapper of torch's.
    backward = torch._dynamo.disable(compiler("backward"))
    backward._is_wrapped_bw_compiler = True
    wrapped = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=backward,
        inference_compiler=compiler("inference"),
        partition_fn=partition,
        decompositions=_decompositions(),
        keep_inference_input_mutations=True,
    )(gm, example_inputs)
    # Dynamo allocates 32 MiB next, to time its guards.
    _C.memory_settle()
    if len(direct) == 1 and direct[0].argument_count == len(example_inputs):
        return direct[0].flat
    # What torch writes to a file has a type of torch's.
    if _are_merged(example_inputs) and not _is_kept():
        return storages.at_their_places(wrapped, example_inputs)
    return wrapped


def _are_merged(inputs: list[Any]) -> bool:
    """Whether AOTAutograd made one input of several."""
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    return meta is not None and len(meta.input_info) < len(inputs)


def _is_kept() -> bool:
    """Whether torch wants graphs that it can write to a file (aot_compile)."""
    from torch._functorch import config

    return bool(config.bundled_autograd_cache
                or getattr(torch._dynamo.config, "caching_precompile", False))


def compile_kept(gm: torch.fx.GraphModule, kind: str, options: Options,
                 statics: dict[Any, int]) -> Callable[..., Any]:
    """What CachedGraph runs, in the process that loads it too."""
    host.prepare()
    return compile_graph(gm, [], kind, options, stats.region_begin(), statics)


def _as_called(gm: torch.fx.GraphModule, example_inputs: list[Any]
               ) -> list[Any]:
    """Dynamo traces a number of `random` in the default type, and gives it with
    all its digits. What NumPy made, it gives as it is."""
    from torch._dynamo.source import RandomValueSource

    nodes = gm.graph.find_nodes(op="placeholder")
    return [
        x.double() if isinstance(getattr(n.meta.get("grapharg"), "source", None),
                                 RandomValueSource)
        and x.is_floating_point() else x
        for n, x in zip(nodes, example_inputs, strict=True)]


def _needs_no_wrapper(compiled: Any, gm: torch.fx.GraphModule) -> bool:
    """Whether AOTAutograd's wrapper of an inference graph would only hand
    arguments and results through: none is written, none is an alias, all are
    plain tensors, no mode is to be set. Marks of sizes are left to C. `gm`: the
    graph of Dynamo's, in which subclasses are not yet taken apart."""
    from torch._functorch._aot_autograd import runtime_wrappers
    from torch._functorch._aot_autograd.schemas import OutputType

    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    if meta is None or not isinstance(
            compiled, (_C.CompiledGraph, _C.CapturedGraph)):
        return False
    is_plain = (
        not torch._C._is_any_autocast_enabled()
        and not meta.tokens
        and meta.num_intermediate_bases == 0
        and meta.grad_enabled_mutation is None
        and not any(i.mutates_data or i.mutates_metadata
                    or i.mutates_storage_metadata for i in meta.input_info)
        and all(o.output_type is OutputType.non_alias
                and not o.requires_grad
                and issubclass(o.raw_type, (torch.Tensor, int, type(None)))
                for o in meta.output_info)
        and not _has_subclass(gm)
    )
    dynamic = [(i, o.dynamic_dims) for i, o in enumerate(meta.output_info)
               if o.dynamic_dims]
    if not is_plain or not dynamic:
        return is_plain
    mark = getattr(runtime_wrappers, "mark_dynamo_propagated_dynamic_indices",
                   None)
    if mark is None or not isinstance(compiled, _C.CompiledGraph):
        return False
    compiled.mark(tuple((mark, i, dims) for i, dims in dynamic))
    return True


def _has_subclass(gm: torch.fx.GraphModule) -> bool:
    """Whether an input or result of Dynamo's graph is made of other tensors."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    ends = gm.graph.find_nodes(op="placeholder") + [
        r for r in pytree.tree_leaves(gm.graph.output_node().args)
        if isinstance(r, torch.fx.Node)]
    return any(is_traceable_wrapper_subclass(n.meta.get("example_value"))
               for n in ends)


def compile_graph(
    gm: torch.fx.GraphModule, example_inputs: list[Any], kind: str,
    options: Options, region: stats.Region,
    statics: dict[Any, int] | None = None,
) -> Callable[..., Any]:
    """One graph of AOTAutograd's as a boxed callable."""
    if statics is None:
        statics = _static_inputs(kind)
    begun = time.perf_counter_ns()
    name = f"{region.name}_{kind}"
    region.nodes_note(kind, gm.graph)
    rewrite(gm, kind, fuses=options.mode.startswith("max-autotune"))
    apart = objects.take_out(gm)
    if forward_ad._current_level >= 0:
        # Dynamo compiles for each level anew; torch's own nodes have tangents.
        if options.fallback == "error":
            raise NotImplementedError(FORWARD_MODE)
        return apart.around(
            _as_it_came(gm, kind, region, FORWARD_MODE, begun))
    device = cuda_device(gm)
    if device is not None:
        return apart.around(
            _on_cuda(gm, device, kind, options, region, begun))
    try:
        # What was saved for it is nobody else's.
        compiled = graph_new(name, gm, _tools(gm, statics), options,
                             lets_go=kind == "backward",
                             recycles=_recycles(kind, options),
                             weights_stay=kind.startswith("inference"),
                             shown=_shown(gm, kind))
    except targets.DependsOnData:
        return apart.around(_in_segments(
            gm, kind, options, region, "the size of a result depends on data"))
    except NotImplementedError as error:
        if options.fallback == "error":
            raise
        if segments.has_numbers(gm):  # one of them may stand in the way
            return apart.around(
                _in_segments(gm, kind, options, region, str(error)))
        return apart.around(_as_it_came(gm, kind, region, str(error), begun))
    _gears_plan(compiled, example_inputs, options.gears)
    region.add(kind, compiled, None, time.perf_counter_ns() - begun)
    return apart.around(compiled)


def cuda_device(gm: torch.fx.GraphModule) -> torch.device | None:
    """That of the graph's first tensor on CUDA."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for v in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(v, torch.Tensor):
                continue
            # A fake tensor looks for `device` much longer than for this.
            device = getattr(v, "fake_device", None) or v.device
            if device.type == "cuda":
                return device
    return None


def _on_cuda(gm: torch.fx.GraphModule, device: torch.device, kind: str,
             options: Options, region: stats.Region, begun: int
             ) -> Callable[..., Any]:
    """Captured, in the modes that say so; around nodes that cannot be, in
    segments."""
    from . import cuda

    reason = (f"mode {options.mode} does not capture: "
              f"{' and '.join(cuda.CAPTURING)} do")
    if options.mode in cuda.CAPTURING:
        alone = cuda.obstacles(gm, device)
        if alone or segments.runs_alone(gm):
            return _in_segments(gm, kind, options, region,
                                "the size of a result depends on data", alone)
        try:
            captured, read = cuda.compile_whole(
                gm, device, _static_inputs(kind), options.plan_limit,
                f"{region.name}_{kind}")
            region.add(kind, captured, None, time.perf_counter_ns() - begun,
                       read)
            return captured
        except NotImplementedError as error:
            reason = str(error)
    if options.fallback == "error" and options.mode in cuda.CAPTURING:
        raise NotImplementedError(reason)
    return _as_it_came(gm, kind, region, reason, begun)


def _in_segments(gm: torch.fx.GraphModule, kind: str, options: Options,
                 region: stats.Region, reason: str,
                 alone: Mapping[torch.fx.Node, str] | None = None
                 ) -> Callable[..., Any]:
    """A graph with sizes that depend on data, or numbers that the engine has
    no form for. `alone`: further nodes to cut at, and why."""
    def one(part: torch.fx.GraphModule, number: int) -> Callable[..., Any]:
        return compile_graph(part, [], f"{kind}_{number}", options, region)

    begun = time.perf_counter_ns()
    reasons = alone or {}
    compiled = segments.Segments(gm, one, reasons)
    calls = [(n, reasons.get(n, reason)) for n in compiled.calls()]
    if options.fallback == "error" and calls:
        raise NotImplementedError(
            f"{calls[0][0].target} falls back to the host: {calls[0][1]}")
    region.add_calls(kind, compiled, calls, time.perf_counter_ns() - begun)
    return compiled


def graph_new(
    name: str, gm: torch.fx.GraphModule, tools: tuple[Any, ...],
    options: Options, constant_bytes: int = CONSTANT_BYTES,
    lets_go: bool = False, recycles: bool = False, weights_stay: bool = False,
    shown: bytes = b"",
) -> Any:
    """The graph as C runs it; its own tensors up to `constant_bytes` are
    copied into it, others are read where they are at each call. With `lets_go`
    a call drops what it was given as soon as no step reads it any more. With
    `recycles` it keeps the memory of its large results for later calls, which
    use it once nobody else does. With `weights_stay` parameters may stay packed
    from call to call; the engine notices when one is written. `shown`: SHOWN
    for each result that the caller may write and that is not an input, ROOT
    where it is not a view of another, DETACHED where autograd knows nothing of
    it, AGAIN + i where it is result i once more."""
    from .._load.module import VERSION

    dump = repro = None
    if options.dump or options.repro:
        from . import dumps

        dump = dumps.writer(options.dump, name) if options.dump else None
        repro = dumps.folder(options.repro, name) if options.repro else None
    targets.out_forms_replace(gm)
    return _C.graph_compile(
        name,
        list(gm.graph.nodes),
        tools,
        {},
        targets.recipe,
        _resolve,
        torch._C._AutoDispatchBelowADInplaceOrView,
        _flags(options),
        ", ".join(options.disable) or None,
        dump,
        options.plan_limit,
        _lanes(options.lanes),
        None if options.choose is None else _rules(options.choose),
        constant_bytes,
        repro,
        options.repro_calls == "all",
        lets_go,
        recycles,
        weights_stay,
        _tune_ns(options),
        f"torch {torch.__version__}, opgraft {VERSION}",
        shown,
    )


def _shown(gm: torch.fx.GraphModule, kind: str) -> bytes:
    """What autograd saves behind a forward graph's results is not shown. A
    result that comes again is the same tensor, as under aot_eager."""
    if kind.startswith("backward"):
        return b""
    results = gm.graph.output_node().args[0][:gm.meta.get("num_fwd_outputs")]
    first = {r: i for i, r in reversed(list(enumerate(results)))
             if isinstance(r, torch.fx.Node)}
    bases = {base for r in first for base in segments.bases(r)}

    def one(r: Any, at: int) -> int:
        if not isinstance(r, torch.fx.Node) or r.op == "placeholder":
            return NOT_SHOWN
        if at > first[r] and AGAIN + first[r] < 256:
            return AGAIN + first[r]
        if r in bases or not segments.is_view(r):
            return ROOT
        return DETACHED if r.target is torch.ops.aten.detach.default else SHOWN

    return bytes(one(r, at) for at, r in enumerate(results))


def _recycles(kind: str, options: Options) -> bool:
    """What a forward graph saves is freed as the backward graph goes, and
    would be kept beside the gradients."""
    return (options.mode.startswith("max-autotune")
            and not kind.startswith("forward") and storages.are_read())


def _flags(options: Options) -> int:
    return (
        (FALLBACK_ERROR if options.fallback == "error" else 0)
        | (CLONE_ERROR if options.clone == "error" else 0)
        | (MAX_AUTOTUNE if options.mode.startswith("max-autotune") else 0)
        | (MATH_STRICT if options.math == "strict" else 0)
        | (precisions.PRECISIONS[options.precision]
           if isinstance(options.precision, str) else 0))


def _tools(gm: torch.fx.GraphModule, statics: dict[Any, int]
           ) -> tuple[Any, ...]:
    from .._load.module import modules

    names: set[str] = set()
    attributes: dict[str, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            attributes[node.target] = _attribute(gm, node.target)
        elif node.op == "call_function":
            if node.meta.get("unbacked_bindings"):
                raise targets.DependsOnData(
                    f"the size of {node.target}'s result depends on data", node)
            # auto_functionalized has its operator as an argument.
            for op in (node.target, *node.args[:1]):
                if isinstance(op, torch._ops.OpOverload):
                    names.add(op._schema.name)
    return (
        targets.describe, targets.functionalized, torch.fx.Node,
        torch.SymInt, torch.device, torch.Tensor, statics,
        attributes,
        tuple(m._handle for m in modules()
              if m.namespace == m.name and m.has_any(names)),
        targets.known, torch.SymFloat, targets.size_text, objects.Passed,
    )


def _attribute(gm: torch.fx.GraphModule, target: str) -> Any:
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value


def _static_inputs(kind: str, asked: Mapping[int, int] = {}
                   ) -> dict[Any, int]:
    """Positions of parameters and buffers, whose memory rarely moves, and the
    precision that is asked for them."""
    context = torch._guards.TracingContext.try_get()
    if (context is None or context.fw_metadata is None
            or kind not in ("forward", "inference")):
        return {}
    return {i: asked.get(i, 0)
            for i in context.fw_metadata.static_input_indices}


def _as_it_came(gm: torch.fx.GraphModule, kind: str, region: stats.Region,
                reason: str, begun: int) -> Callable[..., Any]:
    """The graph, node by node, in Python: for what the engine has no form."""
    from functorch.compile import make_boxed_func

    say(f"{region.name}_{kind} runs as it came: {reason}")
    compiled: Callable[..., Any] = make_boxed_func(gm.forward)
    region.add(kind, compiled, reason, time.perf_counter_ns() - begun)
    return compiled


def _resolve(tensor: Any) -> Any:
    """A tensor whose memory holds what it shows."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(
            f"an input of a compiled graph is {type(tensor).__name__}, "
            "expected a tensor or an int"
        )
    if (forward_ad._current_level >= 0
            and forward_ad.unpack_dual(tensor).tangent is not None):
        raise RuntimeError(
            "opgraft: an input of a compiled graph has a forward-mode tangent, "
            "which the graph would drop; compile the function inside the dual "
            "level that it is called in")
    return tensor.detach().resolve_conj().resolve_neg()
