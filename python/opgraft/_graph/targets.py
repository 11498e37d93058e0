# SPDX-License-Identifier: Apache-2.0
"""What the C walk over an FX graph asks of Python, once per operator.

`describe` says what a node's target is, `recipe` how the dispatcher is called
for it, `functionalized` what an auto_functionalized_v2 node stands for.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Mapping

import torch
from sympy.printing.str import StrPrinter  # type: ignore[import-untyped]
from torch._ops import HigherOrderOperator, OpOverload

from .. import _C
from . import layouts, transformer
from .meaning import is_kept

# hosts/torch/walk.c has the same numbers.
OPERATOR, GETITEM, SKIP, SIZE, FUNCTIONALIZED, EFFECTS = range(6)
RANDOM, SIDE_EFFECT, MUTATES, NO_WRAP = 1, 2, 4, 8

Description = tuple[int, str, "tuple[int, ...] | None", int]

known: dict[Any, Description] = {}

# Views whose elements are not the bytes of their base: the host runs them.
_LAZY = {"_conj", "_neg_view", "_conj_copy", "view_as_real_copy"}
# Checks that a guard made already, or that only a debugger reads.
_CHECKS = {
    "aten::_assert_tensor_metadata",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
    "aten::_assert_scalar",
}


# All that these do is raise, and the dispatcher's C form loses the exception's
# class (LinAlgError, which callers catch) and text.
_RAISE = {"aten::_linalg_check_errors"}
# Without elements these raise, and their .out forms give infinities.
_OUT_DIFFERS = {"aten.max.default", "aten.min.default"}


# Processes must begin their collectives in one order.
_ORDERED = {"opgraft_distributed::start"}


class NotForTheEngine(NotImplementedError):
    """This graph cannot be expressed; the text says what stands in the way."""


class DependsOnData(NotForTheEngine):
    """A size in it does; it runs in segments (segments.py)."""

    def __init__(self, text: str, node: torch.fx.Node) -> None:
        super().__init__(text)
        self.node = node


def describe(target: Any) -> Description:
    if isinstance(target, OpOverload):
        return _operator(target)
    if isinstance(target, HigherOrderOperator):
        return _higher_order(target)
    if target is operator.getitem:
        return GETITEM, "getitem", None, 0
    if callable(target):
        return SIZE, getattr(target, "__name__", str(target)), None, 0
    raise NotForTheEngine(f"node target {target!r} is not an operator")


def _operator(target: OpOverload) -> Description:
    schema = target._schema
    name = str(target)
    if schema.name in _CHECKS:
        return SKIP, name, None, 0
    if schema.name in ("aten::sym_size", "aten::sym_stride", "aten::sym_numel",
                       "aten::sym_storage_offset", "aten::sym_is_contiguous"):
        return SIZE, name, None, 0
    flags = 0
    if schema.name in _CLAMPS and not is_kept("aten.clamp.default#wraps"):
        flags = NO_WRAP
    if torch.Tag.nondeterministic_seeded in target.tags:
        flags |= RANDOM
    if schema.is_mutable and name != "aten.copy_.default":
        raise NotForTheEngine(f"{name} changes its arguments in the graph")
    if not schema.returns or schema.name in _ORDERED:
        flags |= SIDE_EFFECT
    base = schema.name.split("::")[1]
    views = None if base in _LAZY else _views(schema)
    return OPERATOR, _engine_name(target, name), views, flags


# Their bounds wrap around where a type lacks them; 2.15: they do not.
_CLAMPS = {"aten::clamp", "aten::clamp_min", "aten::clamp_max",
           "aten::hardtanh"}


def _views(schema: Any) -> tuple[int, ...] | None:
    """For each result, 1 + the argument whose storage it shares, or 0."""
    if schema.is_mutable:
        return None
    found = []
    for result in schema.returns:
        info = result.alias_info
        of = 0
        for i, argument in enumerate(schema.arguments):
            theirs = argument.alias_info
            if info is not None and theirs is not None and (
                    info.before_set & theirs.before_set
                    or "*" in info.before_set):
                of = i + 1
                break
        found.append(of)
    return tuple(found) if any(found) else None


def _engine_name(target: OpOverload, name: str) -> str:
    """An operator of a loaded module goes by the module's own name."""
    from .._load.module import modules

    if not is_kept(name):
        return f"{name} of torch {torch.__version__}"
    for module in modules():
        if target.namespace == module.namespace:
            if module.namespace == module.name:
                return name
            # Another module of this name owns it in the engine's table.
            return f"{name} of another module"
    return name


def _higher_order(target: HigherOrderOperator) -> Description:
    name = target.name()
    if name == "auto_functionalized_v2":
        return FUNCTIONALIZED, f"higher_order.{name}", None, 0
    if name == "with_effects":
        return EFFECTS, f"higher_order.{name}", None, SIDE_EFFECT
    flags = RANDOM if "rng" in name else 0
    return OPERATOR, f"higher_order.{name}", None, flags


def size_text(size: Any, names: Mapping[Any, Any] = {}) -> str:
    """A symbolic size as the engine reads it: floats with all their digits.
    `names`: symbols, and those to write instead."""
    return str(_FloatPrinter().doprint(size.node.expr.xreplace(names)))


class _FloatPrinter(StrPrinter):
    def _print_Float(self, number: Any) -> str:
        return repr(float(number))


# --- auto_functionalized_v2 ---------------------------------------------------


def out_forms_replace(gm: torch.fx.GraphModule) -> None:
    """Calls of an .out form that AOTAutograd made functional (2.13: such a call
    has no base, what it writes is its result) become calls of the functional
    overload, where that is the same without the outs."""
    for node in gm.graph.nodes:
        if node.target is not torch.ops.higher_order.auto_functionalized_v2:
            continue
        op = node.args[0]
        if torch.Tag.out not in op.tags or node.kwargs.get("_all_bases"):
            continue
        own = [a.name for a in op._schema.arguments if not a.is_out]
        twin = getattr(op.overloadpacket, "default", None)
        if twin is None or own != [a.name for a in twin._schema.arguments]:
            continue
        node.target, node.args = twin, ()
        node.kwargs = {n: v for n, v in node.kwargs.items() if n in own}


def functionalized(node: Any) -> Any:
    """(operator, its name, arguments, bases, result values).

    arguments: (name, object, is written, what) in schema order; what is
    written is (base index, fake view or None for all of it), a list of these,
    or None. None where the engine cannot say it: results that are lists.
    """
    from torch._higher_order_ops.auto_functionalize import (
        get_mutable_args,
        read_view_information_from_args,
    )

    op = node.args[0]
    if not isinstance(op, OpOverload):
        return None
    kwargs = dict(node.kwargs)
    bases = kwargs.pop("_all_bases", ())
    fakes = [b.meta["val"] for b in bases]
    names, types = get_mutable_args(op)
    # Sizes of views are nodes where they vary.
    resolved = dict(torch.fx.node.map_arg(
        kwargs, lambda n: n.meta.get("val")))
    views = read_view_information_from_args(names, types, resolved, bases)
    values = node.meta["val"]
    if not isinstance(values, tuple) or len(values) < len(bases):
        return None
    returns = len(values) - len(bases)
    if any(isinstance(v, (list, tuple)) for v in values[:returns]):
        return None
    def written(view: Any) -> Any:
        if view is None:
            return None
        if isinstance(view, list):
            return [written(v) for v in view]
        fake = _view_of(view, fakes)
        if _same_place(fake, fakes[view.base_index]):
            fake = None
        return view.base_index, fake

    arguments = []
    for argument in op._schema.arguments:
        name = argument.name
        if name in views:
            arguments.append((name, None, True, written(views[name])))
        elif name in resolved:
            arguments.append((name, kwargs[name], False, None))
    return (op, describe_inner(op), tuple(arguments), tuple(bases),
            tuple(values))


def describe_inner(op: OpOverload) -> str:
    return _engine_name(op, str(op))


def _view_of(view: Any, values: list[Any]) -> Any:
    from torch._guards import detect_fake_mode

    mode = detect_fake_mode(values)
    with mode:
        return view.regenerate_view(values)


def _same_strides(a: Any, b: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import (
        statically_known_true as known_true,
    )

    def same(x: Any, y: Any) -> bool:
        return len(x) == len(y) and all(known_true(p == q)
                                        for p, q in zip(x, y))

    return same(a.shape, b.shape) and same(a.stride(), b.stride())


def _same_place(a: Any, b: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import (
        statically_known_true as known_true,
    )

    return _same_strides(a, b) and known_true(
        a.storage_offset() == b.storage_offset())


# --- The dispatcher -----------------------------------------------------------

# hosts/torch/graph.h has the same numbers.
_TYPES = {
    "Tensor": 0, "int": 1, "SymInt": 1, "float": 2, "bool": 3, "str": 4,
    "ScalarType": 5, "Layout": 6, "MemoryFormat": 7, "Device": 8,
}
_LIST, _OPTIONAL, _ELEMENT_OPTIONAL, _DEFAULT = 1, 2, 4, 8

_recipes: dict[Any, Any] = {}


def recipe(target: Any) -> Any:
    """How C calls this operator through the dispatcher; None: only Python can
    (numbers of any type, generators, results that are not tensors)."""
    if target not in _recipes:
        _recipes[target] = (
            _recipe(target) if isinstance(target, OpOverload) else None
        )
    return _recipes[target]


def _recipe(target: OpOverload) -> Any:
    schema = target._schema
    if schema.name in _RAISE:
        return None
    results = []
    for result in schema.returns:
        text = str(result.type)
        if text not in ("Tensor", "List[Tensor]"):
            return None
        results.append(text != "Tensor")
    if len(set(results)) > 1:
        return None  # torch's C dispatcher (2.13) takes one for the other
    params = [_param(a) for a in schema.arguments]
    if any(p is None for p in params):
        return None
    out = _out_overload(target)
    return _C.recipe_new(
        schema.name, schema.overload_name,
        None if out is None else out._schema.overload_name,
        _inplace_name(target), tuple(params),
        0 if out is None else len(schema.returns), tuple(results))


def _param(argument: Any) -> Any:
    kind, flags, size = argument.real_type, 0, 0
    if isinstance(kind, torch.OptionalType):
        flags |= _OPTIONAL
        kind = kind.getElementType()
    if isinstance(kind, torch.ListType):
        flags |= _LIST
        size = argument.N or 0
        kind = kind.getElementType()
        if isinstance(kind, torch.OptionalType):
            flags |= _ELEMENT_OPTIONAL
            kind = kind.getElementType()
    number = _TYPES.get(str(kind))
    if number is None:
        # A generator that is not given: only its absence to pass on.
        if str(kind) != "Generator" or not flags & _OPTIONAL:
            return None
        number = 0
    default: Any = None
    if argument.has_default_value():
        flags |= _DEFAULT
        default = argument.default_value
        if number == 5 and isinstance(default, int):
            return None
    return argument.name, number, flags, size, default


def _inplace_name(target: OpOverload) -> str | None:
    """The operator that writes this one's first argument and returns it."""
    schema = target._schema
    packet = getattr(getattr(torch.ops, target.namespace),
                     schema.name.split("::")[1] + "_", None)
    other = getattr(packet, schema.overload_name or "default", None)
    if other is None or len(schema.returns) != 1:
        return None
    given = other._schema.arguments
    same = [(a.name, str(a.real_type)) for a in given] == [
        (a.name, str(a.real_type)) for a in schema.arguments]
    first = given[0].alias_info if given else None
    if not same or first is None or not first.is_write:
        return None
    return str(other._schema.name)


def _out_overload(target: OpOverload) -> OpOverload | None:
    """The overload that writes this one's results into given tensors; none
    that was generated, which makes new ones and copies them."""
    schema = target._schema
    if not schema.returns or str(target) in _OUT_DIFFERS or any(
            str(r.type) != "Tensor" for r in schema.returns):
        return None
    packet = target._overloadpacket
    wanted = [(a.name, str(a.real_type)) for a in schema.arguments]
    for name in packet.overloads():
        other = getattr(packet, name)
        if torch.Tag.generated in other.tags:
            continue
        arguments = other._schema.arguments
        outs = [a for a in arguments
                if a.is_out or (a.alias_info is not None
                                and a.alias_info.is_write)]
        plain = [(a.name, str(a.real_type)) for a in arguments if a not in outs]
        if (plain == wanted and len(outs) == len(schema.returns)
                and all(a.kwarg_only for a in outs)
                and len(other._schema.returns) == len(outs)):
            return other
    return None


# --- What is decomposed -------------------------------------------------------


def decompositions(*, is_export: bool = False
                   ) -> dict[Any, Callable[..., Any]]:
    """torch's core table without what the engine has whole.

    An exported program keeps each composite operator that the table lacks;
    under AOTAutograd they are gone before it is asked, and naming them all
    takes longer than a small model's compile.

    An operator with a row in src/import/aten.def stays as it is: one node
    instead of several, and the node's own precision (attention, norms,
    losses and their gradients accumulate as ATen does). The rest of the core
    table is taken, since what it yields is mostly rows again. Kept whole
    beside those are operators whose kernels ATen has in one piece.
    """
    from torch._decomp import (
        _core_aten_decompositions_post_autograd,
        core_aten_decompositions,
    )

    rows = set(_C.graph_rows())
    whole = _whole()
    table = (dict(core_aten_decompositions().items()) if is_export
             else _core_aten_decompositions_post_autograd())
    kept = {
        op: function for op, function in table.items()
        if isinstance(op, OpOverload)
        and str(op).removeprefix("aten.") not in rows
        and op not in whole
    }
    aten = torch.ops.aten
    for op, is_refused in _refused().items():
        if op in kept:
            kept[op] = _unless(is_refused, kept[op])
    return layouts.lay_out(kept | {op: _norm_mixed(op, count) for op, count in (
        (aten._native_batch_norm_legit_functional.default, 1),
        (aten._native_batch_norm_legit_no_training.default, 1),
        (aten._native_batch_norm_legit.no_stats, 1),
        (aten.native_group_norm.default, 1),
        (aten.native_group_norm_backward.default, 2),
        (aten.native_layer_norm.default, 1))} | {
            aten.binary_cross_entropy.default: _loss_of_each,
            aten.bmm.default: _product_with_one,
            aten.pow.Tensor_Scalar: _power_of_bools,
            aten._foreach_pow.Scalar: _powers_of_bools,
            aten._foreach_pow.ScalarList: _powers_of_bools,
            aten._native_multi_head_attention.default:
                transformer.multi_head_attention,
            aten._transformer_encoder_layer_fwd.default:
                transformer.encoder_layer,
            aten.threshold_backward.default: _threshold_mixed})


def _norm_mixed(op: OpOverload, count: int) -> Callable[..., Any]:
    """A norm of bf16 with parameters in f32, as under autocast: the CPU's
    kernels save mean and scale in f32, and their backward wants them so;
    torch's own shape functions say otherwise. The first `count` arguments have
    the type of the first result."""
    def run(*args: Any) -> Any:
        data, rest = args[:count], args[count:]
        types = {p.dtype for p in rest if isinstance(p, torch.Tensor)}
        if len(types) != 1 or data[-1].dtype in types:
            return NotImplemented
        y, *others = op(*(x.to(*types) for x in data), *rest)
        return None if y is None else y.to(data[-1].dtype), *others

    return run


def _product_with_one(a: Any, b: Any) -> Any:
    """A batch of products with one matrix, as nn.Linear of a transposed tensor
    makes it, is one product, whose weights can stay packed."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false as holds

    if not (holds(b.stride(0) == 0) and holds(b.shape[0] > 1)):
        return NotImplemented
    batch, rows, inner = a.shape
    y = torch.mm(a.reshape(batch * rows, inner), b[0])
    return y.view(batch, rows, b.shape[2])


def _power_of_bools(x: Any, exponent: Any) -> Any:
    """Bools to the power of a bool are bools, of which torch's shape function
    makes integers."""
    if x.dtype is not torch.bool or not isinstance(exponent, bool):
        return NotImplemented
    return x.clone() if exponent else torch.ones_like(x)


def _powers_of_bools(tensors: Any, exponents: Any) -> Any:
    each = (exponents if isinstance(exponents, (list, tuple))
            else [exponents] * len(tensors))
    if not any(isinstance(e, bool) for e in each):
        return NotImplemented
    return [torch.ops.aten.pow.Tensor_Scalar(x, e)
            for x, e in zip(tensors, each)]


def _threshold_mixed(grad: Any, x: Any, threshold: Any) -> Any:
    """Its result has the common type; the shape function says the first's."""
    common = torch.result_type(grad, x)
    if grad.dtype == common:
        return NotImplemented
    return torch.ops.aten.threshold_backward(
        grad.to(common), x.to(common), threshold)


def _loss_of_each(x: Any, target: Any, weight: Any = None,
                  reduction: int = 1) -> Any:
    """The kernel refuses what is outside of [0, 1], and its .out form needs a
    result that it can resize where it reduces."""
    if reduction == 0:
        return NotImplemented
    loss = torch.ops.aten.binary_cross_entropy(x, target, weight, 0)
    return loss.mean() if reduction == 1 else loss.sum()


def _unless(is_refused: Callable[..., Any], function: Callable[..., Any]
            ) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if is_refused(*args, **kwargs):
            return NotImplemented
        return function(*args, **kwargs)

    return run


def _refused() -> dict[Any, Callable[..., Any]]:
    """Arguments for which torch's decomposition and the operator differ in
    whether they raise: the operator stays whole, and its own check decides."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false as holds

    def is_bool(x: Any, *args: Any, **kwargs: Any) -> bool:
        return bool(x.dtype is torch.bool)

    def is_empty(grad: Any, x: Any, *args: Any, **kwargs: Any) -> bool:
        return holds(x.numel() == 0)

    def pads(least: int, x: Any, padding: Any) -> bool:
        """What is added is longer than a side, less `least`, or cuts it off."""
        return any(
            holds(before >= size - least) or holds(after >= size - least)
            or holds(size + before + after < 1) or holds(size == 0)
            for size, before, after in zip(
                reversed(x.shape), padding[::2], padding[1::2]))

    def reflects(x: Any, padding: Any) -> bool:
        return pads(0, x, padding)

    def replicates(x: Any, padding: Any) -> bool:
        return pads(-(1 << 62), x, padding)

    aten = torch.ops.aten
    found: dict[Any, Callable[..., Any]] = {
        aten.celu.default: lambda x, alpha=1.0: alpha == 0,
        aten.mvlgamma.default: lambda x, p: p < 1 or is_bool(x),
        aten.isin.Tensor_Tensor: is_bool,
        # As integers its ends may not fit, and bools are not subtracted.
        aten.linspace.default: lambda start, end, steps, dtype=None, **_: (
            isinstance(start, bool) or isinstance(end, bool)
            or dtype is not None and not dtype.is_floating_point),
        aten.mse_loss_backward.default: is_empty,
        aten.huber_loss_backward.default: is_empty,
        aten.smooth_l1_loss_backward.default: is_empty,
        aten.soft_margin_loss_backward.default: is_bool,
        aten.unfold_backward.default: lambda grad, sizes, dim, size, step: (
            not -len(sizes) <= dim < max(len(sizes), 1)),
        aten.upsample_linear1d.default: lambda x, size, *args: (
            holds(size[0] < 1) or holds(x.shape[-1] < 1)),
    }
    for dims in (1, 2, 3):
        reflection, replication, backward = (
            getattr(aten, name).default for name in (
                f"reflection_pad{dims}d", f"replication_pad{dims}d",
                f"reflection_pad{dims}d_backward"))
        found[reflection] = reflects
        found[replication] = replicates
        found[backward] = lambda grad, x, padding: reflects(x, padding)
    return found


def _whole() -> set[Any]:
    aten = torch.ops.aten
    names = [
        # ATen's decomposition of its backward asks for a tensor that the
        # forward does not give.
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        # One kernel in ATen, many nodes as a decomposition.
        "upsample_nearest2d", "upsample_nearest2d_backward",
        "upsample_bilinear2d", "upsample_bilinear2d_backward",
        "upsample_bicubic2d", "grid_sampler_2d", "native_dropout",
        "linalg_vector_norm", "repeat", "_cdist_forward", "_cdist_backward",
        "nll_loss2d_forward", "nll_loss2d_backward", "_embedding_bag",
        "glu", "glu_backward", "logsumexp", "im2col", "col2im",
        "grid_sampler_2d_backward", "native_group_norm_backward", "xlogy",
        # Its decomposition gives 0 where the difference is not a number.
        "smooth_l1_loss_backward",
        # Their kernels refuse values that a decomposition computes with.
        "bernoulli", "max_unpool2d", "max_unpool3d",
    ]
    return {
        getattr(packet, overload)
        for packet in (getattr(aten, n) for n in names if hasattr(aten, n))
        for overload in packet.overloads()
    }
