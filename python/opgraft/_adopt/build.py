# SPDX-License-Identifier: Apache-2.0
"""opgraft.adopt: an opaque callable becomes an operator like any other.

The declaration goes through the same parser as an operator file's, and the
callable becomes the kernel; so what torch wants beside it (fake, functional,
in-place and out forms, autograd, vmap) is derived as for every operator.
docs/adopt.md says what may be adopted, and how.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from _ctypes import CFuncPtr
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

from .._base.log import say
from .._base.rules import Description
from .._propose import propose
from . import (
    adopted,
    c_functions,
    foreign,
    gradients,
    libraries,
    torch_ops,
    tvm,
)
from .adopted import Fields
from .maps import expression, result_names, shown
from .origin import Origin, name_of, origin_of
from .results import python_record

FLAGS = {"deterministic": 1, "random": 2, "side_effect": 4,
         "capture_same_shape": 8, "capture_never": 16}
_BATCH = {"loop": 32, "pack": 0}  # OG_BATCH_LOOP


def adopt(
    fn: Any,
    schema: str | None = None,
    shape: str | None = None,
    dtype: str | None = None,
    backward: Any = None,
    name: str | None = None,
    *,
    samples: Sequence[Any] | None = None,
    strict: bool = False,
    where: str | None = None,
    strides: str | None = None,
    inplace: str | None = None,
    library: Any = None,
    prototype: str | None = None,
    call: str | None = None,
    grid: str | None = None,
    returns: str | None = None,
    flags: Sequence[str] = (),
    batch: str = "loop",
    doc: str | None = None,
    expect: str | None = None,
) -> Callable[..., Any]:
    """Makes `fn` an operator, and returns the function to call instead.

    fn: a Python callable; a C prototype ("void f(float *out, const float *x,
        int64_t n)") whose symbol is in `library`; a ctypes function; a
        PyCapsule of a C function, with `prototype`; a TVM-FFI function; or an
        operator of torch.ops, which gets what it lacks.
    schema, shape, dtype, where, strides, inplace, expect: as in an operator file
        (docs/shape-rules.md). A prototype that names its parameters says the
        schema and the types by itself.
    backward: a callable that takes the gradients and then the arguments, or
        (callable, "(grad, x) -> x") to say what it takes and gives; "none"
        where the gradient is zero. Without it, asking for a gradient raises.
    call: what `fn` takes, by names of arguments and results: "x, out",
        "out.data, x.data, x.numel". Python callables get the arguments in
        order and return the results that `call` does not name; for them it
        may hold any expression over arguments and results.
    grid: of a launcher, what stands in fn[grid](...), such an expression.
    returns: what a C function's number is: "out", "status" or "ignored".
    samples: calls that `fn` takes, each a tuple of arguments, a dict by name
        or (tuple, dict). Without a schema or shape rule they are inferred from
        these and from trials in child processes (opgraft.propose); what is not
        certain is a Doubt, whose text can be pasted. With them, the samples
        are held against them.
    batch: what vmap does: "loop" calls `fn` once for each entry of the batch;
        "pack" is your word that the elements of a leading pack (*N) do not
        meet in `fn` nor in its gradient, so that the batch goes in front of
        it, in one call. opgraft.check holds you to it.
    strict: what was inferred is a Doubt in any case: it wants your word.
    name: "operator" or "namespace::operator"; the default is the schema's name
        in a namespace of the callable's module or library.

    RuntimeError where a rule is wrong or does not fit, with its place in the
    text; ValueError for arguments that contradict each other; Doubt.

        >>> cube = opgraft.adopt(lambda x: x * x * x, "cube(Tensor x) -> Tensor",
        ...                      "x[*N] -> [*N]", "x: f32 -> x", name="demo::cube",
        ...                      backward=lambda grad, x: grad * 3 * x * x)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> torch.compile(lambda x: cube(x) + 1, fullgraph=True)(x).sum().backward()
        >>> x.grad
        tensor([ 3., 12.])
    """
    if batch not in _BATCH:
        raise ValueError(f"batch is {batch!r}, expected {' or '.join(_BATCH)}")
    _check_texts(schema=schema, shape=shape, dtype=dtype, where=where,
                 prototype=prototype, call=call, grid=grid,
                 function=fn if isinstance(fn, str) else None)
    if torch_ops.is_operator(fn):
        return torch_ops.complete(fn, shape, dtype, backward, where,
                                     _BATCH[batch])
    target = _target(fn, library, prototype, call, returns, grid)
    if shape is not None and target.prototype is not None:
        schema, dtype = _declared(target, shape, call, returns, schema, dtype)
    if samples is not None:
        schema, shape, dtype, where = _tried(
            fn, target, samples, name, strict, call,
            (schema, shape, dtype, where))
    if schema is None or shape is None:
        raise ValueError(f"{target.name}: expected {_wanted(target)}")
    if target.prototype is None:
        _refuse_numbers(target.name, schema)
    space, schema = _place(target.space, schema, name)
    fields: Fields = {
        "schema": schema, "shape": shape, "dtype": dtype, "where": where,
        "strides": strides, "inplace": inplace, "doc": doc or target.doc,
        "expect": expect, "flags": _flags(flags) | _BATCH[batch],
    }
    operators, key = _operators(fields, target, backward, library)
    m = adopted.make(space, operators, f"{key}{(call, grid, returns)}")
    return m._functions[_function_name(m)]


TEXT_MAX = 8192  # what reads a text may take the square of its length


def _check_texts(**texts: str | None) -> None:
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} is a {type(text).__name__}, expected a "
                            'string (dtype="x: f32 -> x")')
        if text is not None and len(text) > TEXT_MAX:
            raise ValueError(f"{name} has {len(text)} characters, expected at "
                             f"most {TEXT_MAX}")


def _declared(
    target: "Target", shape: str, call: str | None, returns: str | None,
    schema: str | None, dtype: str | None,
) -> tuple[str, str | None]:
    """(schema, dtype), each as it was said, else as the prototype says it."""
    own, types = c_functions.declare(target.prototype, shape, call, returns,
                                  target.name, schema is None,
                                  dtype is not None)
    if dtype is None and types is not None:
        dtype = types if schema is None else _reordered(types, own, schema)
    return schema or own, dtype


def _reordered(types: str, own: str, schema: str) -> str | None:
    """The types of results in the schema's order, which may be another than
    the call's; None where several have other names in the two."""
    arguments, _, arrow = types.partition("->")
    found = [t.strip() for t in arrow.split(",")]
    by_name, wanted = (
        re.findall(r"Tensor\s*(?:\([^)]*\))?\s+(\w+)",
                   text.rpartition("->")[2])
        for text in (own, schema))
    if len(found) < 2:
        return types
    if sorted(by_name) != sorted(wanted):
        return None
    ordered = (found[by_name.index(name)] for name in wanted)
    return f"{arguments}-> {', '.join(ordered)}"


def _refuse_numbers(name: str, schema: str) -> None:
    """Of results: what a callable returns is always a tensor of the schema."""
    found = re.search(r"\b(float|int|bool|str|Scalar|SymInt)\b(?!.*->)",
                      schema.rpartition("->")[2])
    if found is not None:
        raise ValueError(
            f"{name}: its schema has a result of type {found[1]}, expected "
            f"Tensor or Tensor[]; a number is a Tensor of shape []: schema "
            '"… -> Tensor", shape "… -> []", dtype "… -> i64"')


def _operators(
    fields: Fields, target: "Target", backward: Any, library: Any
) -> tuple[list[tuple[Fields, adopted.Payload, Origin]], str]:
    """The operator and, where a callable gives its gradient, that one; with
    what tells their origin."""
    operators = [(fields, target.payload, target.origin)]
    key = target.origin.text
    if backward is not None:
        text, second = gradients.plan(
            adopted.describe([dict(fields)])[0], backward)
        fields["backward"] = text
        if second is not None:
            other = _target(second[0], library, None, None, None,
                            is_gradient=True)
            second[1]["flags"] = fields["flags"] & _BATCH["loop"]
            operators.append((second[1], other.payload, other.origin))
            key += other.origin.text
    return operators, key


def _wanted(target: "Target") -> str:
    """What is missing where nothing says the schema or the shapes."""
    if target.prototype is not None:
        return 'a shape rule, e.g. shape="x[*N] -> [*N]"'
    name = target.name if target.name.isidentifier() else "f"
    return (f'a schema and a shape rule, e.g. schema="{name}(Tensor x) -> '
            'Tensor", shape="x[*N] -> [*N]", or samples=[…] to infer them from')


_Texts = tuple["str | None", "str | None", "str | None", "str | None"]


def _tried(
    fn: Any, target: "Target", samples: Sequence[Any], name: str | None,
    strict: bool, call: str | None, said: _Texts,
) -> _Texts:
    """The rules after trials: inferred, or as said and held against them."""
    if target.prototype is not None:
        raise ValueError(
            f"{target.name}: samples are for callables; its prototype says the "
            "schema, and opgraft.check tries it")
    if said[0] is None or said[1] is None:
        return _inferred(fn, samples, name, strict, said)
    propose.hold(fn, samples, said, call)
    return said


def _inferred(
    fn: Any, samples: Sequence[Any], name: str | None, strict: bool,
    said: _Texts,
) -> _Texts:
    """(schema, shape, dtype, where), each as it was said, else inferred."""
    found = propose.propose(fn, samples, name)
    schema, shape, dtype, where = said
    found.schema = schema or found.schema
    found.shape, found.dtype = shape or found.shape, dtype or found.dtype
    found.where = where or found.where
    if strict or not found.is_certain:
        raise propose.Doubt(found)
    say(f"inferred:\n{found}")
    return found.schema, found.shape, found.dtype, found.where or None


@dataclass
class Target:
    """What stands behind an operator."""

    name: str
    space: str  # the namespace, unless one is given
    origin: Origin
    payload: Callable[[Description], tuple[str, Any]]
    prototype: Any = None
    doc: str | None = None


def _target(
    fn: Any, library: Any, prototype: str | None, call: str | None,
    returns: str | None, grid: str | None = None, is_gradient: bool = False,
) -> Target:
    if isinstance(fn, str) or prototype is not None:
        return _c_target(fn, library, prototype, call, returns)
    found = foreign.foreign(fn)
    if found is not None:
        return _foreign_target(fn, found, call, returns)
    if tvm.is_function(fn):
        return Target(
            tvm.name_of(fn), "tvm_ffi",
            Origin(f"tvm_ffi:{tvm.name_of(fn)}", fn),
            lambda d: tvm.payload(d, fn, fn.__chandle__(), 0, call))
    if not callable(fn) and grid is None:
        raise TypeError(
            f"{fn!r} cannot be called; expected a callable, a C prototype, a "
            "PyCapsule with prototype=, or a launcher with grid="
        )
    if returns is not None:
        raise ValueError(f"{name_of(fn)}: returns is for C functions")
    return Target(name_of(fn), getattr(fn, "__module__", None) or "adopted",
                  origin_of(fn), lambda d: python_payload(
                      fn, d, call, grid, is_gradient),
                  doc=_doc(fn))


def _c_target(
    fn: Any, library: Any, prototype: str | None, call: str | None,
    returns: str | None,
) -> Target:
    text = prototype if prototype is not None else fn
    found = c_functions.parse(text)
    space, holder = "adopted", fn
    if isinstance(fn, str):
        if library is None:
            raise ValueError(
                f"{found.name}: expected the library that has it: "
                'library="libx.so"'
            )
        holder = libraries.library(library)
        address = holder.address(found.name)
        space = Path(holder.path).name.partition(".")[0]
    elif isinstance(fn, CFuncPtr):
        address = foreign.ctypes_address(fn)
    elif type(fn).__name__ == "PyCapsule":
        address = foreign.capsule_address(fn)
    else:
        known = foreign.foreign(fn)
        if known is None:
            raise TypeError(
                f"{found.name}: {fn!r} has no address; prototype= is for "
                "PyCapsules and functions of ctypes, cffi, numba and scipy")
        address, found.user_data = known.address, known.user_data
    return Target(
        found.name, space,
        Origin(f"{space}:{found.text}", getattr(holder, "path", address)),
        lambda d: c_functions.payload(d, found, address, holder, call, returns),
        found)


def _foreign_target(
    fn: Any, known: foreign.Foreign, call: str | None,
    returns: str | None,
) -> Target:
    found = c_functions.parse(known.prototype, known.structures)
    found.user_data = known.user_data
    return Target(
        found.name, "adopted", Origin(f"adopted:{found.text}", known.address),
        lambda d: c_functions.payload(d, found, known.address, known.holder, call,
                                   returns), found)


def _function_name(m: adopted.AdoptedModule) -> str:
    d = next(iter(m._descriptions.values()))
    return f"{d.base_name}_{d.overload}" if d.overload else d.base_name


def unadopt(function: Callable[..., Any]) -> None:
    """Takes an adopted operator out of torch; `function` itself, where it is
    held, still calls what it called. Of an operator of torch's, takes away
    what adoption added.

    ValueError for what opgraft.adopt did not return.

        >>> half = opgraft.adopt(lambda x: x / 2, "half(Tensor x) -> Tensor",
        ...                      "x[*N] -> [*N]", "x: f32 -> x", name="demo::half")
        >>> opgraft.unadopt(half)
        >>> hasattr(torch.ops.demo, "half")
        False
    """
    if torch_ops.is_operator(function):
        torch_ops.undo(function)
        return
    adopted.module_of(function)._withdraw()


# --- Names ------------------------------------------------------------------------


def _doc(fn: Any) -> str | None:
    return inspect.getdoc(fn) if inspect.isroutine(fn) else None


def _place(space: str, schema: str, name: str | None) -> tuple[str, str]:
    """(namespace, schema without one)"""
    head, paren, rest = schema.partition("(")
    given, _, own = head.strip().rpartition("::")
    if name is not None:
        named, _, own = name.rpartition("::")
        given = named or given
    default = re.sub(r"\W", "_", space.rpartition(".")[2]) or "adopted"
    if default.startswith("__") or default == "builtins":
        default = "adopted"
    return given or default, own + paren + rest


def _flags(flags: Sequence[str]) -> int:
    names = [flags] if isinstance(flags, str) else list(flags)
    for flag in names:
        if flag not in FLAGS:
            raise ValueError(
                f"flags has {flag!r}, expected some of {', '.join(FLAGS)}")
    return sum(FLAGS[f] for f in set(names))


# --- Python callables -------------------------------------------------------------


def python_payload(
    fn: Callable[..., Any], d: Description, call: str | None,
    grid: str | None = None, is_gradient: bool = False,
) -> tuple[str, Any]:
    """What hosts/torch/adopt_python.c reads."""
    if d.numbers:
        raise ValueError(
            f"{d.name}: a result that is an int is computed by its rule, so a "
            "callable has none to give; leave it out of the schema"
        )
    if d.is_data_dependent:
        raise ValueError(
            f"{d.name}: a data-dependent result needs a C kernel, which says "
            "what it found; see docs/authors-guide.md"
        )
    if grid is not None or (call is not None and not _is_plain(call)):
        fn, call = _written_out(fn, d, call, grid)
    items, keywords, returns = _items(d, call)
    return python_record(fn, items, keywords, returns, is_gradient)


def _is_plain(call: str) -> bool:
    """Names and name=name only: what C passes without a Python frame."""
    return re.fullmatch(r"\s*(\w+\s*=\s*)?[A-Za-z_]\w*\s*(,\s*(\w+\s*=\s*)?"
                        r"[A-Za-z_]\w*\s*)*,?\s*", call) is not None


def _written_out(
    fn: Any, d: Description, call: str | None, grid: str | None
) -> tuple[Callable[..., Any], str]:
    """(a function that makes the call as it is written, what it takes)"""
    known = [*(p["name"] for p in d.params), *result_names(d)]
    if call is None:
        call = ", ".join(known)
    target = "_fn" if grid is None else f"_fn[{grid}]"
    text = f"{target}({call})"
    tree = expression(text)
    if tree is None:
        raise ValueError(f"{d.name}: call: {shown(text[3:])} is not an "
                         "expression, or nested too deeply")
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    unknown = used - {*known, "_fn", *dir(builtins)}
    if unknown:
        raise ValueError(
            f"{d.name}: call names {', '.join(map(repr, sorted(unknown)))}, "
            f"expected arguments and results ({', '.join(known)})")
    names = ", ".join(n for n in known if n in used)
    try:
        return eval(f"lambda {names}: {text}", {"_fn": fn}), names
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{d.name}: call: {shown(text[3:])} cannot be "
                         f"compiled: {error}") from None


def _items(
    d: Description, call: str | None
) -> tuple[tuple[int, ...], tuple[str, ...], bool]:
    """(what is passed, names of the last ones, whether `fn` returns)"""
    if call is None:
        order = sorted(range(len(d.params)), key=lambda i: d.params[i]["kwonly"])
        names = tuple(p["name"] for p in d.params if p["kwonly"])
        return tuple(order), names, bool(d.fresh)
    fresh = {name: -1 - i for i, name in enumerate(result_names(d))}
    known = {**{p["name"]: i for i, p in enumerate(d.params)}, **fresh}
    items: list[int] = []
    keywords: list[str] = []
    for part in filter(None, (p.strip() for p in call.split(","))):
        keyword, equals, what = part.rpartition("=")
        what, keyword = what.strip(), keyword.strip()
        if what not in known:
            raise ValueError(
                f"{d.name}: call names {what!r}, expected an argument or result "
                f"({', '.join(known)})"
            )
        if keywords and not equals:
            raise ValueError(f"{d.name}: call: {part!r} stands after a keyword")
        items.append(known[what])
        keywords += [keyword] if equals else []
    written = {i for i in items if i < 0}
    if written and len(written) < len(fresh):
        raise ValueError(
            f"{d.name}: call names some results and not others; `fn` writes "
            "all of them or returns all of them"
        )
    return tuple(items), tuple(keywords), bool(d.fresh) and not written
