# SPDX-License-Identifier: Apache-2.0
"""An operator inside an Inductor graph: one C call into a planned buffer.

Inductor's own road for a custom operator goes through Python and the
dispatcher, some 2 µs a node. A lowering to ExternKernelOut calls the unguarded
builtin with out=, and Inductor plans that buffer like its own; an operator with
several results is called without out= and allocates them itself.
"""

from __future__ import annotations

import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable, Iterator

from .._base.hooks import when_imported
from .._base.log import say, say_once
from .._base.rules import Description
from .operators import Operator

INTO = "aoti_torch_opgraft_into_"  # hosts/aoti/names.c
MOST_OPTIONALS = 3  # each choice of absent tensors is a builtin of its own
# Part of the key of torch.compile's caches: the code that Inductor emitted fits
# only what these files register.
LOWERING = "-".join(
    f"{zlib.crc32(Path(__file__).with_name(name).read_bytes()):08x}"
    for name in ("signatures.py", "inductor.py", "aten.py"))


def can_lower(d: Description) -> bool:
    """Plain, row-major results that nothing aliases."""
    t = d.tables
    optionals = [p for p in d.params
                 if p["tensor"] is not None and p["optional"]]
    return (
        len(d.results) == len(d.fresh) > 0
        and not any(r["list"] for r in d.results)
        and not d.mutated
        and not d.is_data_dependent
        and not any(p["list"] for p in d.params if p["tensor"] is not None)
        and all(s["kind"] == "items" for s in t["shapes"])
        and not {"random", "side_effect"} & set(t["flags"])
        and any(p["tensor"] is not None and not p["optional"]
                for p in d.params)
        and len(optionals) <= MOST_OPTIONALS
    )


Order = tuple[int, ...]


def orders(d: Description) -> Iterator[tuple[int, Order]]:
    """For each set of absent optional tensors, as bits: the parameters in the
    order in which ExternKernelOut passes them. That order is given tensors,
    then the other arguments; what is absent comes last and is left out."""
    tensors = [i for i, p in enumerate(d.params) if p["tensor"] is not None]
    others = [i for i, p in enumerate(d.params) if p["tensor"] is None]
    optionals = [i for i in tensors if d.params[i]["optional"]]
    for bits in range(1 << len(optionals)):
        absent = [i for k, i in enumerate(optionals) if bits >> k & 1]
        given = [i for i in tensors if i not in absent]
        yield bits, tuple(given + others + absent)


def register(
    d: Description,
    op: Operator,
    extern_name: str,
    raw: Callable[[Order], Callable[..., Any]],
    has_tagged_out: bool,
    undo: list[Callable[[], None]],
) -> None:
    """Of an operator that can be lowered, or has a tagged .out form, which
    cpp_wrapper is told of too. `raw(order)` is an unguarded builtin with the
    parameters in that order. The builtins are there before any lowering runs:
    code that comes from a cache calls them by name.
    """

    def tell_kernels() -> None:
        from torch._inductor.select_algorithm import extern_kernels

        names = [f"{extern_name}_{bits}" for bits, _ in orders(d)]
        for name, (_, order) in zip(names, orders(d)):
            setattr(extern_kernels, name, raw(order))

        def forget() -> None:
            for name in names:
                delattr(extern_kernels, name)

        undo.append(forget)

    def tell_lowering() -> None:
        try:
            _lower(d, op.overload, extern_name, undo)
        except (ImportError, AttributeError, TypeError) as error:
            say_once(
                "Inductor of this torch lacks what our lowering needs "
                f"({error}); operators go its normal road"
            )

    lowers = can_lower(d)
    if lowers:
        when_imported("torch._inductor.select_algorithm", tell_kernels, undo)
    if lowers or has_tagged_out:
        when_imported("torch._inductor.lowering", tell_lowering, undo)


def _lower(
    d: Description,
    op: Any,
    extern_name: str,
    undo: list[Callable[[], None]],
) -> None:
    from torch._inductor import ir
    from torch._inductor.lowering import (
        fallback_handler,
        lowerings,
        register_lowering,
    )
    from torch._inductor.virtualized import V

    def one(name: str, inputs: Any, constants: Any, value: Any) -> Any:
        return ir.TensorBox.create(ir.ExternKernelOut(
            _layout(inputs[0], value), inputs,
            constant_args=constants, python_kernel_name=name))

    def several(name: str, inputs: Any, constants: Any, values: Any) -> Any:
        device = inputs[0].get_device()
        made = ir.ExternKernelAlloc(
            ir.MultiOutputLayout(device=device), inputs,
            constant_args=constants, python_kernel_name=name)
        made.outputs = [
            ir.MultiOutput(_layout(inputs[0], value), made, [(tuple, i)])
            for i, value in enumerate(values)
        ]
        return tuple(ir.TensorBox.create(o) for o in made.outputs)

    by_absent = {bits: order for bits, order in orders(d)}
    optionals = [i for i, p in enumerate(d.params)
                 if p["tensor"] is not None and p["optional"]]

    def lowering(*args: Any, **kwargs: Any) -> Any:
        if V.graph.cpp_wrapper:  # its code calls no Python
            if can_lower(d) and _has_into(d, op):
                return _into(d, op, extern_name, d.bind(args, kwargs))
            return _by_dispatcher(op, args, kwargs)
        values = d.bind(args, kwargs)
        if not can_lower(d):
            # By position: Inductor (2.13) calls the .out form with arguments
            # that were given by name twice.
            if any(p["kwonly"] for p in d.params):
                return _by_dispatcher(op, args, kwargs)
            return fallback_handler(op, add_to_fallback_set=False)(*values)
        bits = sum(1 << k for k, i in enumerate(optionals)
                   if values[i] is None)
        inputs, constants = _sorted(d, by_absent[bits], values)
        name = f"extern_kernels.{extern_name}_{bits}"
        value = V.graph.current_node.meta["val"]
        lower = several if isinstance(value, (tuple, list)) else one
        return lower(name, inputs, constants, value)

    register_lowering(op, type_promotion_kind=None)(lowering)
    undo.append(lambda: lowerings.pop(op, None))
    if can_lower(d):
        say(f"{d.name}: lowered into Inductor graphs as a C call")


def _layout(first: Any, value: Any) -> Any:
    """Of a result, on the device of the first input."""
    from torch._inductor import ir

    sizes = [s.node.expr if hasattr(s, "node") else s for s in value.shape]
    return ir.FixedLayout(first.get_device(), value.dtype, sizes, None)


def _sorted(d: Description, order: Order, values: list[Any]
            ) -> tuple[list[Any], list[Any]]:
    """Given tensors, laid out as the rule asks, and the other values."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    def has_dense_rows(box: Any) -> bool:
        """Memory that is laid out already, say a part of a cache."""
        layout = box.maybe_get_layout()
        return (isinstance(layout, ir.FixedLayout) and bool(layout.stride)
                and V.graph.sizevars.statically_known_equals(
                    layout.stride[-1], 1))

    strides = d.tables["strides"]
    inputs, constants = [], []
    for i in order:
        index = d.params[i]["tensor"]
        if index is None:
            constants.append(values[i])
        elif values[i] is not None:
            box = ir.ExternKernel.realize_input(values[i])
            if strides[index] != "any" and not (
                    strides[index] == "last" and has_dense_rows(box)):
                box = ir.ExternKernel.require_contiguous(box)
            inputs.append(box)
    return inputs, constants


def _into(d: Description, op: Any, extern_name: str, values: list[Any]) -> Any:
    """A C function of hosts/aoti that writes a planned buffer."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    inputs, constants = _sorted(d, tuple(range(len(values))), values)
    return ir.TensorBox.create(ir.ExternKernelOut(
        _layout(inputs[0], V.graph.current_node.meta["val"]), inputs,
        constant_args=constants,
        python_kernel_name=f"extern_kernels.{extern_name}_0",
        cpp_kernel_name=INTO + d.base_name, op_overload=op))


def _has_into(d: Description, op: Any) -> bool:
    from torch._inductor import config

    shims = getattr(config.aot_inductor, "custom_ops_to_c_shims", {})
    return any(f" {INTO}{d.base_name}(" in text for text in shims.get(op, ()))


def _by_dispatcher(op: Any, args: Any, kwargs: Any) -> Any:
    """FallbackKernel.create without its turn to the .out form: there
    cpp_wrapper (2.13) calls a C shim that no operator of ours has."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    with V.graph.fake_mode:
        found = ir.FallbackKernel.process_kernel(op, *args, **kwargs)
    if not isinstance(found, tuple):  # 2.14: a ProcessKernelResult
        found = [getattr(found, field.name) for field in fields(found)]
    result, tensors, others, unflatten, bindings = found
    is_one = not isinstance(result, (tuple, list))
    results = [result] if is_one else result
    made = ir.FallbackKernel(
        ir.MultiOutputLayout(device=results[0].device), op, tensors, others,
        unflatten, kwargs=kwargs, unbacked_bindings=bindings)
    made.outputs = [
        ir.MultiOutput(ir.FallbackKernel.tensor_to_layout(r), made,
                       [] if is_one else [(tuple, i)])
        for i, r in enumerate(results)
    ]
    boxes = tuple(ir.TensorBox.create(o) for o in made.outputs)
    return boxes[0] if is_one else boxes
