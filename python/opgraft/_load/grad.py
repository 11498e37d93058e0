# SPDX-License-Identifier: Apache-2.0
"""Autograd from the gradient map: which operator, called with what, for whom."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.autograd import forward_ad as _forward_ad

from .._base.rules import Description
from . import dispatcher, generate, sharding
from . import forward as forward_mode
from .operators import Operator


def _missing(d: Description) -> Callable[..., Any]:
    def backward(*_: Any) -> Any:
        raise RuntimeError(
            f"{d.name}: has no gradient; declare .backward in its C file, or "
            "backward= where it is adopted; \"none\" where the gradient is zero"
        )

    return backward


def check_write(
    name: str, other: str, d: Description, written: list[int],
    values: list[Any],
) -> None:
    """Raises where the call in place `name` would lose a gradient: what it
    writes passes none on. `other` is the form that does not write."""
    for i, p in enumerate(d.params):
        if p["tensor"] is None or not _requires_grad(values[i]):
            continue
        if i in written:
            raise RuntimeError(
                f"{name}: {p['name']} requires grad and is written in place; "
                f"use {other}, or torch.no_grad()"
            )
        if has_operator(d):
            raise RuntimeError(
                f"{name}: {p['name']} requires grad, and what is written in "
                f"place passes no gradient on; use {other}, or torch.no_grad()"
            )
        if d.tables["grad"]["kind"] == "missing":
            raise RuntimeError(
                f"{name}: {p['name']} requires grad, and the operator has no "
                "gradient; call it under torch.no_grad(), or declare .backward "
                "in its C file, or backward= where it is adopted; \"none\" "
                "where the gradient is zero"
            )


def register_write(
    d: Description, name: str, other: str, op: Operator,
    library: torch.library.Library,
) -> None:
    """check_write before each call of a mutating operator that torch.ops has."""
    below = torch._C._after_autograd_keyset

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            check_write(name, other, d, d.mutated, d.bind(args, kwargs))
        return op.redispatch(keys & below, *args, **kwargs)

    dispatcher.impl(library, name, kernel, "Autograd", with_keyset=True)


def _requires_grad(value: Any) -> bool:
    each = value if isinstance(value, (list, tuple)) else [value]
    return any(t is not None and t.requires_grad for t in each)


def _needs(ctx: Any, param: int) -> bool:
    """Whether an argument's gradient is asked for."""
    entries = ctx.needs_input_grad
    need = param < len(entries) and entries[param]
    return any(need) if isinstance(need, (list, tuple)) else bool(need)


class Map:
    """The gradient map's parts as source text."""

    def __init__(self, d: Description) -> None:
        self.d = d
        grad = d.tables["grad"]
        self.sources = grad["args"] or []
        self.targets: list[int] = grad["targets"] or []
        self.saved_params = [
            s["param"] for s in self.sources if s["source"] == "param"
        ]
        self.saved_results = [
            s["result"] for s in self.sources if s["source"] == "result"
        ]

    def is_tensor(self, param: int) -> bool:
        return self.d.params[param]["tensor"] is not None

    def saved(self, results: str) -> list[tuple[str, str, bool]]:
        """Each tensor or list that backward needs: its name there, what it is
        in forward, whether it is a list."""
        d = self.d
        rows = [(generate.variable(d, p), generate.variable(d, p),
                 bool(d.params[p]["list"]))
                for p in self.saved_params if self.is_tensor(p)]
        rows += [(f"_result_{r}",
                  results if len(d.results) == 1 else f"{results}[{r}]",
                  bool(d.results[r]["list"])) for r in self.saved_results]
        return rows

    def idle_lists(self) -> list[int]:
        """Tensor lists that get no gradient: autograd wants a None for each."""
        return [i for i, p in enumerate(self.d.params)
                if p["list"] and self.is_tensor(i) and i not in self.targets]

    def save(self, results: str) -> list[str]:
        """Statements of forward: what backward needs, and nothing else."""
        d, lines = self.d, []
        rows = self.saved(results)
        if rows:
            parts = [f"*{value}" if is_list else value
                     for _, value, is_list in rows]
            lines.append(f"ctx.save_for_backward({', '.join(parts)})")
        lines += [f"ctx._len_{name} = len({value})"
                  for name, value, is_list in rows if is_list]
        lines += [f"ctx._value_{p} = {generate.variable(d, p)}"
                  for p in self.saved_params if not self.is_tensor(p)]
        for p in self.idle_lists():
            lines.append(f"ctx._count_{p} = len({generate.variable(d, p)})")
        for p in self.targets:
            if d.params[p]["optional"]:
                name = generate.variable(d, p)
                lines.append(f"ctx._given_{p} = {name} is not None")
        return lines

    def load(self) -> list[str]:
        rows = self.saved("")
        if not rows:
            return []
        if not any(is_list for _, _, is_list in rows):
            names = ", ".join(name for name, _, _ in rows)
            return [f"{names}, = ctx.saved_tensors"]
        return ["_saved = iter(ctx.saved_tensors)"] + [
            f"{name} = [next(_saved) for _ in range(ctx._len_{name})]"
            if is_list else f"{name} = next(_saved)"
            for name, _, is_list in rows
        ]

    def call(self) -> str:
        parts = []
        for s in self.sources:
            if s["source"] == "grad":
                parts.append(f"_grad_{s['result']}")
            elif s["source"] == "result":
                parts.append(f"_result_{s['result']}")
            elif s["source"] == "needs":
                parts.append(f"_needs(ctx, {s['param']})")
            elif not self.is_tensor(s["param"]):
                parts.append(f"ctx._value_{s['param']}")
            else:
                parts.append(generate.variable(self.d, s["param"]))
        return f"_backward({', '.join(parts)})"

    def returns(self) -> str:
        """One entry for each parameter, in order."""
        entries = []
        for i, p in enumerate(self.d.params):
            if i in self.idle_lists():
                entries.append(f"[None] * ctx._count_{i}")
                continue
            if i not in self.targets:
                entries.append("None")
                continue
            gradient = f"_out_{self.targets.index(i)}"
            if p["optional"]:
                gradient = f"({gradient} if ctx._given_{i} else None)"
            entries.append(gradient)
        return ", ".join(entries)


def _backward_source(m: Map) -> str:
    grads = ", ".join(f"_grad_{i}" for i in range(len(m.d.results)))
    outs = ", ".join(f"_out_{i}" for i in range(len(m.targets)))
    lines = [f"def _run(ctx, {grads}):"]
    lines += [f"    {line}" for line in m.load()]
    lines.append(f"    {outs} = {m.call()}")
    lines.append(f"    return {m.returns()}")
    return "\n".join(lines)


def has_operator(d: Description) -> bool:
    """Whether an operator is the gradient: the module's, or one that is derived
    when it is asked for."""
    return d.tables["grad"]["kind"] in ("operator", "derived")


def has_functions(d: Description) -> bool:
    """autograd.Function does not look into lists, so operators that have some
    leave gradients to the slow path."""
    lists = any(p["list"] and p["tensor"] is not None for p in d.params)
    lists = lists or any(r["list"] for r in d.results)
    return has_operator(d) and not lists and not d.mutated


def fast(
    d: Description,
    call: Callable[..., Any],
    backward: Callable[..., Any] | None,
) -> Callable[..., Any]:
    """`apply` of an autograd.Function over the gradient map, for the fast path:
    forward sees the context: a call costs least so."""
    m = Map(d)
    plain = generate.parameters(d, plain=True)
    call_line = f"    _results = _call({generate.arguments(d)})"
    save = [f"    {line}" for line in m.save("_results")]
    source = "\n".join(
        [f"def _forward(ctx, {plain}):", call_line, *save,
         "    return _results", _backward_source(m)]
    )
    scope = {"_call": call, "_backward": backward, "_needs": _needs}

    def made(name: str) -> Any:
        return staticmethod(generate.compile_function(d, name, source, scope))

    quick: Any = type(d.name, (torch.autograd.Function,), {
        "forward": made("_forward"), "backward": made("_run"),
    })
    return quick.apply


def register(
    d: Description,
    name: str,
    op: Operator,
    backward: Callable[..., Any] | None,
    library: torch.library.Library,
    formula: Any = None,
) -> Callable[[], None]:
    """The same for the slow path: the dispatcher's autograd kernel, whose parts
    are made when a call first needs them (that takes a millisecond). `formula`:
    the module of an operator whose derivatives are derived. What comes back
    releases it: torch keeps a Python kernel beyond its library's end."""
    made: list[Callable[..., Any]] = []
    held = [backward, formula]

    below = torch._C._after_autograd_keyset

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        has_tangents = False
        if _forward_ad._current_level >= 0:
            has_tangents = _has_tangents(d, held, (*args, *kwargs.values()))
        if not has_tangents and not torch.is_grad_enabled():  # compiled graphs, half of the time
            return op.redispatch(keys & below, *args, **kwargs)
        if not made:
            made.append(_autograd_kernel(d, op, *_formula(d, held[0]),
                                         formula=held[1]))
        return made[0](keys & below, has_tangents, *args, **kwargs)

    def release() -> None:
        made.clear()
        held.clear()

    dispatcher.impl(library, name, kernel, "Autograd", with_keyset=True)
    return release


def _has_tangents(d: Description, held: list[Any], values: Any) -> bool:
    if len(held) > 1 and held[1] is not None:
        return forward_mode.has_tangents(values)
    _refuse_tangents(d, values)
    return False


def _refuse_tangents(d: Description, args: Any) -> None:
    """Without this a derivative in forward mode would be zero."""
    for value in args:
        if isinstance(value, (list, tuple)):
            _refuse_tangents(d, value)
        elif isinstance(value, torch.Tensor) and (
                _forward_ad.unpack_dual(value).tangent is not None):
            raise forward_mode.refusal(d)


def _autograd_kernel(
    d: Description,
    op: Operator,
    gradient: Callable[..., Any],
    setup: Callable[..., Any] | None,
    formula: Any = None,
) -> Callable[..., Any]:
    """torch.library's own autograd kernel, but for one thing: it also runs
    inside the transforms of torch.func, each level of which calls the kernel.
    (torch.library makes an autograd.Function for all levels at once, and that
    refuses a forward that sees its context.)"""
    from torch._functorch.utils import (
        enable_single_level_autograd_function as one_level,
    )
    from torch._functorch.utils import (
        unwrap_dead_wrappers,
    )
    from torch._library import utils
    from torch._library.autograd import supports_tensorlist
    from torch.autograd.function import _SingleLevelFunction

    is_any_required = torch._C._any_requires_grad
    is_transformed = torch._C._are_functorch_transforms_active
    schema, below_autograd = op.overload._schema, torch._C._AutoDispatchBelowAutograd

    def forward(ctx: Any, *rest: Any) -> Any:
        *args, keys, kwargs = rest
        # Gradients are off in a forward; outer levels want theirs.
        on = is_transformed()
        if _forward_ad._current_level >= 0:
            ctx._call = args, kwargs
        with (torch.set_grad_enabled(on), below_autograd(),
              _forward_ad._set_fwd_grad_enabled(on)):
            result = op.redispatch(keys, *args, **kwargs)
            if setup is not None:  # the dispatcher leaves defaults out
                filled, kwargs = utils.fill_defaults(schema, tuple(args), kwargs)
                setup(ctx, filled, result, kwargs)
        return result

    def backward(ctx: Any, *grads: Any) -> Any:
        needs = ctx.needs_input_grad
        try:
            ctx.needs_input_grad = needs[:-2]
            result = gradient(ctx, *sharding.gradients_alike(grads))
        finally:
            ctx.needs_input_grad = needs
        result = result if isinstance(result, tuple) else (result,)
        return *result, None, None

    def jvp(ctx: Any, *tangents: Any) -> Any:
        args, kwargs = ctx._call
        del ctx._call
        return forward_mode.tangents(formula, d, d.bind(args, kwargs),
                                d.bind(tangents[:-2], {}))

    made: Any = type(d.name, (_SingleLevelFunction,), {
        "forward": staticmethod(forward), "backward": staticmethod(backward),
        **({"jvp": staticmethod(jvp)} if formula is not None else {}),
    })
    if any(utils.is_tensorlist_like_type(a.type)
           for a in (*schema.arguments, *schema.returns)):
        made = supports_tensorlist(made)

    def kernel(keys: Any, has_tangents: bool, *args: Any, **kwargs: Any) -> Any:
        if not has_tangents and not is_any_required(*args):
            with below_autograd():
                return op.redispatch(keys, *args, **kwargs)
        if is_transformed():
            with one_level():
                return made.apply(*args, keys, kwargs)
        return made.apply(*unwrap_dead_wrappers(args), keys, kwargs)

    return kernel


def _formula(
    d: Description, backward: Callable[..., Any] | None
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """(backward, setup_context) as torch.library.register_autograd takes."""
    kind = d.tables["grad"]["kind"]
    count = len(d.params)
    if not has_operator(d):
        return (_missing(d) if kind == "missing"
                else lambda *_: tuple([None] * count)), None
    m = Map(d)
    lines = ["def _setup(ctx, inputs, keyword_only_inputs={}, output=None):"]
    positional = [i for i, p in enumerate(d.params) if not p["kwonly"]]
    has_lists = any(p["list"] for p in d.params if p["tensor"] is not None)
    for at, i in enumerate(positional):
        lines.append(f"    {generate.variable(d, i)} = inputs[{at}]")
    for p in d.params:
        if p["kwonly"]:
            lines.append(
                f"    {p['name']} = keyword_only_inputs[{p['name']!r}]"
            )
    lines += [f"    {line}" for line in m.save("output")] + ["    return"]
    source = "\n".join(lines + [_backward_source(m)])
    names = {"_backward": backward, "_needs": _needs}
    setup = generate.compile_function(d, "_setup", source, names)
    run = generate.compile_function(d, "_run", source, names)

    def formula(ctx: Any, *grads: Any) -> Any:
        out = run(ctx, *grads)
        out = out if isinstance(out, tuple) else (out,)
        # As many as were given: where there are lists, autograd (2.13) wants no
        # gradient for an argument that was left at its default.
        count = len(ctx.needs_input_grad)
        kept = tuple([] if at in ctx.empty_lists else out[i]
                     for at, i in enumerate(positional))[:count]
        return kept if len(kept) != 1 else kept[0]

    def setup_any(
        ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None
    ) -> None:
        setup(ctx, inputs, keyword_only_inputs or {}, output)
        # An empty list is one of tensors to autograd (2.13), whatever it is of.
        ctx.empty_lists = [at for at, value in enumerate(inputs)
                           if has_lists and isinstance(value, list) and not value]

    return formula, setup_any
