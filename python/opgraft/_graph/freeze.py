# SPDX-License-Identifier: Apache-2.0
"""A model as one graph of fixed guards (freeze), or as a file (export).

torch.export gives the whole model as a graph; its parameters and buffers
become tensors of the graph, and its mutations write-backs at the end.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Callable, Mapping

import torch
import torch.utils._pytree as pytree
from sympy import oo  # type: ignore[import-untyped]
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._sympy.numbers import int_oo

from .. import _C
from .._base import host
from . import backend, dims, rewrites, stats, targets
from . import precision as precisions
from .freeze_call import Arguments, GuardError, Like, Recipe


class _Function(torch.nn.Module):
    """torch.export takes modules only."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function  # export asks for its signature
        # Of other frames than forward's, torch.export keeps no lines.
        keep = getattr(torch.fx.proxy, "_register_stack_trace_anchor", None)
        if keep is not None:
            keep(getattr(function, "__func__", function))


def _apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same layouts, each in storage of its own: torch.export fails on
    arguments that share one where the model writes it, and what a call's
    arguments share is checked at that call."""
    known: set[int] = set()

    def own(tensor: Any) -> Any:
        if type(tensor) is not torch.Tensor or tensor.layout != torch.strided:
            return tensor
        storage = tensor.untyped_storage()._cdata
        if storage not in known:
            known.add(storage)
            return tensor
        return Like(tensor).make()

    return pytree.tree_map(own, (args, kwargs))


def _explain(error: Exception) -> None:
    """What torch.export's error does not say of what was wished here."""
    notes = ["opgraft: freeze and export need the whole model as one graph; "
             "torch.compile(model, backend=\"opgraft\") also runs one that "
             "splits, and `opgraft doctor SCRIPT.py` says what splits it"]
    if "a constant (1)" in str(error):
        notes.append("opgraft: a size of 1 in an example input is a constant "
                     "for torch.export; give 2 or more in each dim that varies")
    if sys.version_info >= (3, 11):
        for note in notes:
            error.add_note(note)


def _shared(module: torch.nn.Module, args: Any, kwargs: Any) -> str | None:
    """What of a call is a DTensor, which torch.export does not take."""
    if "torch.distributed.tensor" not in sys.modules:
        return None
    from torch.distributed.tensor import DTensor

    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(tensor, DTensor):
            return name
    given = pytree.tree_leaves((args, kwargs))
    return "an argument" if any(isinstance(v, DTensor) for v in given) else None


class _Program:
    """An exported program whose parameters are attributes of its graph."""

    def __init__(self, model: Callable[..., Any], args: tuple[Any, ...],
                 kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
                 ) -> None:
        if not isinstance(args, tuple):
            raise TypeError(
                f"args is {type(args).__name__}, expected a tuple of the "
                "model's arguments")
        args, kwargs = _apart(args, dict(kwargs or {}))
        module = model if isinstance(model, torch.nn.Module) \
            else _Function(model)
        shared = _shared(module, args, kwargs)
        if shared is not None:
            raise TypeError(
                f"freeze: {shared} is a DTensor, which torch.export does not "
                "take, expected plain tensors: use torch.compile(model, "
                "backend=\"opgraft\"), which plans what this process has of it")
        with torch.no_grad(), warnings.catch_warnings():
            # torch's own copy of a tree's description.
            warnings.filterwarnings("ignore", message=".*treespec")
            try:
                program = torch.export.export(module, args, kwargs, strict=False,
                                              dynamic_shapes=dynamic_shapes)
            except Exception as error:
                _explain(error)
                raise
            self.program = program.run_decompositions(
                targets.decompositions(is_export=True))
        self.gm = self.program.graph_module
        self.attributes: dict[str, Any] = {}
        self.inputs: list[tuple[Any, Any]] = []  # (spec, placeholder)
        self.mutated: dict[str, Any] = {}
        self.named: dict[str, str] = {}  # attributes, as the model calls them
        self.asked: dict[Any, int] = {}  # their precision (precision.py)
        self.symbols = dims.names(module.forward, self.program, dynamic_shapes)
        rewrites.tokens_drop(self.gm)
        self._own_tensors()
        self._write_back()
        rewrites.overwritten_keep(self.gm)

    def _own(self, target: str) -> Any:
        program = self.program
        found = program.state_dict.get(target)
        return program.constants[target] if found is None else found

    def _own_tensors(self) -> None:
        graph = self.gm.graph
        nodes = [n for n in graph.nodes if n.op == "placeholder"]
        for spec, node in zip(self.program.graph_signature.input_specs, nodes):
            if spec.kind is InputKind.USER_INPUT:
                if not isinstance(node.meta.get("val"),
                                  (torch.Tensor, torch.SymInt)):
                    node.meta["val"] = None  # a constant: only guarded
                self.inputs.append((spec, node))
                self.mutated[node.name] = node
                continue
            if spec.kind is InputKind.TOKEN:
                graph.erase_node(node)
                continue
            value = self._own(spec.target)
            name = node.name
            self.named[spec.target] = name
            setattr(self.gm, name, value)
            with graph.inserting_before(node):
                own = graph.create_node("get_attr", name, name=f"{name}_own")
            own.meta = node.meta
            node.replace_all_uses_with(own)
            graph.erase_node(node)
            self.attributes[name] = (
                value.detach() if isinstance(value, torch.Tensor) else value)
            self.mutated[spec.target] = own

    def _write_back(self) -> None:
        graph = self.gm.graph
        output = next(n for n in reversed(graph.nodes) if n.op == "output")
        kept: list[Any] = []
        names: list[str] = []
        self.outputs: list[Any] = []  # a position among `kept`, or a constant
        said = iter(dims.results(
            self.program, {*self.mutated, *self.named.values()}))
        for spec, value in zip(self.program.graph_signature.output_specs,
                               output.args[0]):
            name = next(said) if spec.kind is OutputKind.USER_OUTPUT else ""
            if spec.kind in (OutputKind.BUFFER_MUTATION,
                             OutputKind.PARAMETER_MUTATION,
                             OutputKind.USER_INPUT_MUTATION):
                to = self.mutated[spec.target]
                with graph.inserting_before(output):
                    copy = graph.call_function(
                        torch.ops.aten.copy_.default, (to, value))
                copy.meta["val"] = to.meta["val"]
            elif spec.kind is OutputKind.TOKEN:
                continue
            elif spec.kind is not OutputKind.USER_OUTPUT:
                raise NotImplementedError(
                    f"the model gives a {spec.kind.name}, expected only "
                    "results")
            elif isinstance(value, torch.fx.Node):
                self.outputs.append((len(kept),))
                kept.append(value)
                names.append(name)
            else:
                self.outputs.append(value)
        output.args = (tuple(kept),)
        output.meta["opgraft_names"] = names  # walk.c gives them to the graph

    def tools(self) -> tuple[Any, ...]:
        for node in self.gm.graph.nodes:
            if node.op == "get_attr" and node.target not in self.attributes:
                self.attributes[node.target] = getattr(self.gm, node.target)
        try:
            tools = list(backend._tools(self.gm, self.asked))
        except targets.DependsOnData as error:
            raise targets.DependsOnData(
                f"{stats.place_of(error.node)}: {error}; torch.compile(model, "
                "backend=\"opgraft\") runs such a model in segments",
                error.node) from None
        tools[7] = self.attributes
        tools[11] = self.size_text
        return tuple(tools)

    def size_text(self, size: Any) -> str:
        return targets.size_text(size, self.symbols)

    # --- What the guards need ------------------------------------------------

    def constants(self) -> tuple[Any, ...]:
        """(value,) for an argument that is one, True for an integer that
        varies, None for a tensor."""
        def one(spec: Any, value: Any) -> Any:
            if isinstance(value, torch.SymInt):
                return True
            return (spec.arg.value,) if value is None else None

        return tuple(one(spec, node.meta["val"]) for spec, node in self.inputs)

    def sizes(self) -> dict[str, int]:
        """Those that vary, as the arguments have them."""
        found: dict[str, int] = {}
        for _, node in self.inputs:
            value = node.meta.get("val")
            given = value.shape if isinstance(value, torch.Tensor) else [value]
            for size in given:
                if isinstance(size, torch.SymInt):
                    found[self.size_text(size)] = size.node.hint
        return found

    def ranges(self) -> list[tuple[int, int, int, int]]:
        from torch.utils._sympy.value_ranges import bound_sympy

        found = []
        for i, (_, node) in enumerate(self.inputs):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            for dim, size in enumerate(value.shape):
                if isinstance(size, int):
                    continue
                range_ = bound_sympy(
                    size.node.expr, self.program.range_constraints)
                found.append((i, dim, _bound(range_.lower, 0),
                              _bound(range_.upper, 2**63 - 1)))
        return found


def _bound(number: Any, otherwise: int) -> int:
    if number in (oo, -oo, int_oo, -int_oo):
        return otherwise
    try:
        return max(-(2**63), min(2**63 - 1, int(number)))
    except (OverflowError, TypeError, ValueError):
        return otherwise


def _named(model: Any) -> str:
    name = getattr(model, "__name__", type(model).__name__)
    kept = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return kept.strip("_0123456789") or "graph"


def freeze(
    model: Callable[..., Any], args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The model as one graph, called without Dynamo.

    `args`, `kwargs` and `dynamic_shapes` are those of torch.export.export;
    `options` those of torch.compile's backend "opgraft". The result takes what
    the model takes. Its guards (dtypes, ranks, sizes, strides, devices,
    constants, gradients) are checked in C; what does not fit raises
    GuardError. Parameters and buffers are the model's own: a change in place
    is seen, `p.data = ...` is not. No gradient flows.

    What cannot be one graph raises what torch.export raises, or RuntimeError.

        >>> call = opgraft.freeze(lambda x: torch.relu(x) + 1, (torch.randn(4),))
        >>> call(torch.tensor([-1.0, 2.0, 3.0, 4.0]))
        tensor([1., 3., 4., 5.])
    """
    host.prepare()
    chosen = backend._read_options(None, options)
    program = _Program(model, args, kwargs, dynamic_shapes)
    if chosen.mode.startswith("max-autotune"):
        rewrites.losses_split(program.gm)
        rewrites.quantised_take(program.gm, program.attributes)
    asked = precisions.by_weight(
        "freeze", chosen.precision,
        {name: program.attributes[own] for name, own in program.named.items()})
    program.asked = {program.named[name]: one for name, one in asked.items()}
    name = _named(model)
    graph = backend.graph_new(
        name, program.gm, program.tools(), chosen, constant_bytes=0,
        weights_stay=True)
    spec = program.program.call_spec
    arguments = Arguments(
        model.forward if isinstance(model, torch.nn.Module) else model,
        args, dict(kwargs or {}), spec.in_spec,
        [node.meta["val"] for _, node in program.inputs], program.size_text)
    recipe = Recipe(freeze, model, args, kwargs, dynamic_shapes, options,
                    graph)
    is_flat = spec.in_spec == pytree.tree_structure(
        ((0,) * len(program.inputs), {}))
    whole = all(isinstance(o, tuple) for o in program.outputs)
    out_spec = spec.out_spec
    is_single = whole and out_spec == pytree.tree_structure(0)
    is_tuple = whole and out_spec == pytree.tree_structure(
        (0,) * len(program.outputs))

    def unflatten(results: list[Any]) -> Any:
        values = [results[o[0]] if isinstance(o, tuple) else o
                  for o in program.outputs]
        return pytree.tree_unflatten(values, out_spec)

    return _C.frozen_new(
        graph,
        arguments.names,
        program.constants(),
        program.ranges(),
        arguments.flatten,
        None if is_single or is_tuple else unflatten,
        is_single,
        is_flat,
        GuardError,
        torch.is_grad_enabled,
        arguments.explain,
        recipe.reduce,
    )


def export(
    model: Callable[..., Any], args: tuple[Any, ...],
    path: str | os.PathLike[str], kwargs: Mapping[str, Any] | None = None, *,
    dynamic_shapes: Any = None, packed: bool = False, precision: str = "f32",
) -> None:
    """Writes the model, with its parameters, for load_graph and `opgraft run`.

    The arguments are those of torch.export.export. An operator that has no
    row stays in the file by its name: `opgraft run` names those that it
    cannot run, and a warning those that were adopted. A model that writes
    to its own buffers cannot be exported.
    With `packed` the file has the packed forms of weights besides, for runs
    with the sizes of `args` and of this `precision`, as `opgraft pack` adds
    them: it is larger, and its first result comes sooner.

    What cannot be one graph raises what torch.export raises; OSError where the
    file cannot be written.

        >>> opgraft.export(lambda x: torch.relu(x) + 1, (torch.randn(4),), "m.og")
        >>> "relu" in open("m.og", errors="replace").read()
        True
    """
    flags = backend.MAX_AUTOTUNE | precisions.flags("export", precision)
    if precision != "f32" and not packed:
        raise ValueError(f"export: precision is {precision!r} without packed="
                         "True: a file says none but by its packed weights")
    host.prepare()
    program = _Program(model, args, kwargs, dynamic_shapes)
    _say_what_the_file_needs(program.gm)
    _C.graph_export(
        _named(model), list(program.gm.graph.nodes), program.tools(), {},
        targets.recipe, os.fspath(path),
        program.sizes() if packed else None, flags)


def _say_what_the_file_needs(gm: torch.fx.GraphModule) -> None:
    """Warns of adopted operators, whose code no file holds."""
    adopted = sys.modules.get("opgraft._adopt.adopted")
    for name in adopted.names_in(gm) if adopted is not None else ():
        warnings.warn(
            f"export: {name}, whose code is not in the file; it runs where the "
            "same adoption was made before opgraft.load_graph, and `opgraft "
            "run` does not run it", RuntimeWarning, stacklevel=3)
