# SPDX-License-Identifier: Apache-2.0
"""A loaded module: its operators as Python functions and as torch.ops."""

from __future__ import annotations

import functools
import gc
import keyword
import os
import weakref
from typing import Any, Callable, Iterator

import torch

from .. import _C
from .._base import host, locks
from .._base.log import say, say_once
from .._base.rules import Description, arrange, infer
from . import (
    about,
    aten,
    batch,
    dispatcher,
    dynamo,
    forward,
    generate,
    grad,
    inductor,
    operators,
    sharding,
    signatures,
    withdrawn,
    writes,
)
from .operators import Operator

VERSION = "0.1.0"
_REPR_MAX = 200  # characters of the names in a module's repr

# Under locks.registry.
_by_hash: dict[str, "Module"] = {}
_by_path: dict[str, "Module"] = {}


def load(path: str | os.PathLike[str]) -> "Module":
    """Loads a module that a C file with OG_MODULE was built to.

    The same content gives the same Module. A file that changed since it was
    loaded from this path replaces what it registered: new calls, and models
    compiled from now on, reach the new kernels. A file that is older than the C
    file beside it is loaded with a RuntimeWarning.

    OSError where the path is not a module, RuntimeError where a declaration is
    wrong; each says what to build or mend.

    `opgraft inspect softcap.so --stub > softcap.pyi` tells editors and type
    checkers what it has: `cast("Softcap", opgraft.load("softcap.so"))`.

        >>> softcap = opgraft.load("softcap.so")
        >>> softcap.softcap(torch.tensor([-100.0, 0.0, 100.0]), 30.0)
        tensor([-29.9237,   0.0000,  29.9237])
        >>> opgraft.load("none.so")
        Traceback (most recent call last):
        OSError: ...none.so: could not open: No such file or directory; build it: ...
    """
    host.prepare()
    where = os.path.realpath(os.fspath(path))
    about.stale_warn(where)
    with locks.registry:
        module = _load(where, may_withdraw=False)
    if module is None:
        with locks.between_compiles():
            module = _load(where, may_withdraw=True)
    assert module is not None
    return module


def _load(where: str, may_withdraw: bool) -> "Module | None":
    """The module; None where another must be withdrawn first and may not be."""
    try:
        handle = _C.module_load(where)
    except OSError as error:
        if os.path.exists(where) and not where.endswith(".c"):
            raise
        raise OSError(f"{error}; build it: {about.how_to_build(where)}"
                      ) from None
    name, digest, texts = _C.module_info(handle)
    known = _by_hash.get(digest)
    if known is not None:
        _by_path[where] = known
        return known
    old = _by_path.get(where)
    if old is not None:
        if not may_withdraw:
            return None
        say(f"{where} changed: {name} is registered anew")
        old._withdraw()
    return _new_module(handle, where, name, digest, texts)


def _new_module(handle: Any, *described: Any,
                kind: "type[Module] | None" = None) -> Any:
    # What registering makes stays alive, and with torch there a full
    # collection takes 80 ms: it may come after.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (kind or Module)(handle, *described)
    finally:
        if was_enabled:
            gc.enable()


def modules() -> "list[Module]":
    """Those whose operators are registered now."""
    with locks.registry:
        return [m for m in _by_hash.values() if m._live is not None]


def _load_operator(path: str, digest: str, name: str, kind: str) -> Any:
    """What a pickled operator calls: the module must still be what it was."""
    module = load(path)
    if module.hash != digest:
        raise RuntimeError(
            f"{path} has changed since {name} was pickled: found content "
            f"{module.hash[:12]}, expected {digest[:12]}"
        )
    return module._states[kind, name]


def _tag_caches() -> None:
    """Keys every cache of torch.compile by what is loaded.

    Those caches know operators by name, so that a kernel or rule that was
    edited would be served what was compiled for its predecessor.
    """
    import torch.compiler.config as config

    own = ",".join([VERSION, inductor.LOWERING, *sorted(h[:16] for h in _by_hash)])
    theirs = [p for p in config.cache_key_tag.split(";")
              if p and not p.startswith("opgraft=")]
    config.cache_key_tag = ";".join([*theirs, f"opgraft={own}"])


# Namespaces that torch fills, some of them when a part of it is imported.
_TORCH_SPACES = frozenset("""
    _c10d_functional _c10d_functional_autograd _dtensor _inductor_test _native
    _native_aot _quantized _test aten c10d c10d_functional coor cuda
    debug_mode_ops debugprims export flex_gemm flex_lib fsdp higher_order
    inductor inductor_prims mempool mkl mkldnn mkldnn_prepacked mps onednn onnx
    onnx_symbolic prepacked prim prims profiler quantization quantized
    quantized_decomposed rngprims sparse static_runtime streams symm_mem tr_c10d
""".split())


def _check_name(path: str, name: str) -> None:
    """A module's name is its namespace in torch.ops."""
    if keyword.iskeyword(name):
        why = f"a keyword of Python: torch.ops.{name} cannot be written"
    elif name in _TORCH_SPACES:
        why = f"a namespace of torch's own operators: torch.ops.{name}"
    elif (hasattr(type(torch.ops), name)
          or not isinstance(getattr(torch.ops, name), torch._ops._OpNamespace)):
        why = f"an attribute of torch.ops, where torch.ops.{name} would be lost"
    else:
        return
    raise RuntimeError(
        f"{path}: the module's name is {name!r}, {why}; give OG_MODULE another "
        "name"
    )


class _Live:
    """What a module holds in torch: dropping it takes the operators away."""

    def __init__(self, space: str) -> None:
        self.space = space
        self.library = torch.library.Library(space, "FRAGMENT")
        self.kernels: list[Any] = []
        self.names: list[str] = []
        self.undo: list[Callable[[], None]] = []

    def drop(self) -> None:
        for undo in self.undo:
            undo()
        self.undo.clear()
        self.kernels.clear()
        for name in self.names:
            withdrawn.keep_entry(self.space, name)
        packets = withdrawn.packets(self.space, self.names)
        self.library._destroy()
        withdrawn.redirect(self.space, packets)


class Module:
    """The operators of one shared object, each an attribute.

    Attributes beside them: `name`, `path`, `hash` (of the file's content),
    `namespace` (in torch.ops: the name, unless another module has it).

    A call that the declaration does not accept raises RuntimeError, with the
    argument, what was found and what is expected.

        >>> m = opgraft.load("softcap.so")
        >>> m
        <opgraft module softcap, 2 functions: softcap, softcap_backward>
        >>> m.name, m.namespace, m.path.endswith("softcap.so"), len(m.hash)
        ('softcap', 'softcap', True, 64)
        >>> m.has_any(["softcap::softcap"]), m.has_any(["aten::add"])
        (True, False)
        >>> m.softcap(torch.ones(2, dtype=torch.float64))
        Traceback (most recent call last):
        RuntimeError: softcap: x is f64 here, expected f32; convert it first
        >>> m.unload()
    """

    def __init__(
        self, handle: Any, path: str, name: str, digest: str, texts: list[str]
    ) -> None:
        self.name = name
        self.path = path
        self.hash = digest
        self._handle: Any = handle
        self._descriptions = {d.name: d for d in map(Description, texts)}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._states: dict[tuple[str, str], Any] = {}
        self._live: _Live | None = None
        self._derived: dict[tuple[str, int], Any] = {}  # _load/derived.py
        self.namespace = self._free_namespace()
        self._announce()

    _derive: Any  # derived.derive

    def _announce(self) -> None:
        """Registers every operator with torch."""
        self._live = _Live(self.namespace)
        try:
            for d in self._ordered():
                _register(self, d)
            sharding.announce(self, self._live.undo)
        except BaseException:
            self._live.drop()
            self._live = None
            raise
        _by_hash[self.hash] = _by_path[self.path] = self
        _tag_caches()

    def _free_namespace(self) -> str:
        """Another file's module of this name keeps its names; this one gets
        its content's hash behind the name."""
        _check_name(self.path, self.name)
        taken = any(
            m._live is not None and m.namespace == self.name
            for m in _by_hash.values()
        )
        if not taken:
            return self.name
        say(f"another module is named {self.name}: operators of {self.path} "
            f"are torch.ops.{self.name}_{self.hash[:8]}")
        return f"{self.name}_{self.hash[:8]}"

    def has_any(self, names: set[str]) -> bool:
        """Whether one of these, "namespace::operator", is its."""
        live = self._live
        return live is not None and any(
            f"{live.space}::{name.partition('.')[0]}" in names
            for name in live.names)

    def _calls_python(self, d: Description) -> bool:
        return False

    def _reduce(self, d: Description, kind: str) -> Any:
        """What an operator pickles as."""
        return (_load_operator, (self.path, self.hash, d.name, kind))

    def _ordered(self) -> list[Description]:
        """Backward operators before those that name them."""
        done: dict[str, Description] = {}

        def visit(d: Description, above: tuple[str, ...]) -> None:
            target = d.tables["grad"]["op"]
            if (target in self._descriptions and target not in above
                    and target not in done):
                visit(self._descriptions[target], (*above, target))
            done.setdefault(d.name, d)

        for d in self._descriptions.values():
            visit(d, (d.name,))
        return list(done.values())

    def __getattr__(self, name: str) -> Any:
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        if self.__dict__.get("_live", True) is None:
            raise AttributeError(f"module {self.name} was unloaded")
        have = ", ".join(sorted(functions))
        raise AttributeError(
            f"module {self.__dict__.get('name')} has no operator {name!r}; "
            f"it has {have}"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        shown = ", ".join(sorted(self._functions))
        if len(shown) > _REPR_MAX:
            shown = f"{shown[:_REPR_MAX].rpartition(', ')[0]}, ..."
        count = len(self._functions)
        return (f"<opgraft module {self.name}, {count} "
                f"function{'s' if count != 1 else ''}: {shown}>")

    def __reduce__(self) -> Any:
        return load, (self.path,)

    def __deepcopy__(self, memo: Any) -> "Module":
        return self

    def _withdraw(self) -> None:
        """Takes the operators out of torch; functions that someone holds keep
        their kernels. In the body of locks.between_compiles."""
        for made in self._derived.values():
            made._withdraw()
        self._derived = {}
        if self._live is not None:
            self._live.drop()
            self._live = None
        if _by_hash.get(self.hash) is self:
            del _by_hash[self.hash]
        for key in [k for k, m in _by_path.items() if m is self]:
            del _by_path[key]
        locks.reset_dynamo()

    def unload(self) -> None:
        """Takes the module out of the process.

        Raises RuntimeError while anything can still call it: a function that
        is held, a compiled graph.
        """
        with locks.between_compiles():
            if self._handle is None:
                return
            was_live = self._live is not None
            self._withdraw()
            self._functions, self._states = {}, {}
            gc.collect()
            try:
                _C.module_unload(self._handle)
            except RuntimeError as error:
                if was_live:
                    self._announce()
                raise RuntimeError(
                    f"module {self.name} can still be called, by a function, "
                    f"a model or a compiled graph that someone holds; drop "
                    f"it, then unload ({error})"
                ) from None
            self._handle = None
            _tag_caches()


# --- Registration -----------------------------------------------------------------


def _new_state(
    m: Module, d: Description, form: signatures.Form, *, raw: bool = False,
    order: tuple[int, ...] | None = None,
    results: tuple[tuple[int, int], ...] | None = None,
) -> Any:
    return _C.op_new(
        m._handle, d.name, form.results if results is None else results,
        form.inplace_param, form.kind == "out", raw, order,
    )


def _user_results(d: Description, form: signatures.Form) -> Any:
    """What the function that the user calls returns."""
    if form.kind == "inplace":
        return ((-1, form.inplace_param),)
    return tuple(
        (-1, r["alias"]) if r["alias"] is not None else (r["fresh"], -1)
        for r in d.results
    )


def _key(d: Description) -> str:
    has_tensor = any(p["tensor"] is not None and not p["optional"]
                     for p in d.params)
    return "CPU" if has_tensor else "CompositeExplicitAutograd"


def _runs_on(d: Description, device: str) -> bool:
    return any(k["device"] == device for k in d.tables["kernels"])


def _device_kernel(
    m: Module, d: Description, form: signatures.Form, key: str
) -> None:
    """The dispatcher's kernel for a device, in Python. A tensor that is only
    read gets the strides that it accepts."""
    assert m._live is not None
    raw = _raw_function(_new_state(m, d, form, raw=True), d, form)
    dense = {p["name"]: i for i, p in enumerate(d.params)
             if p["tensor"] is not None and not p["list"]
             and not p["mutated"] and i != form.inplace_param
             and d.tables["strides"][p["tensor"]] != "any"}

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for name, i in dense.items():
            if i < len(given) and given[i] is not None:
                given[i] = given[i].contiguous()
            elif kwargs.get(name) is not None:
                kwargs[name] = kwargs[name].contiguous()
        return raw(*given, **kwargs)

    dispatcher.impl(m._live.library, form.name, _released(m._live, kernel),
                    key)


def _boxed(m: Module, d: Description, form: signatures.Form, key: str) -> bool:
    """Registers a boxed kernel in C; False where none is left."""
    assert m._live is not None
    kernel = _C.boxed_register(
        _new_state(m, d, form), m._live.space, form.name, key)
    if kernel is None:
        say_once("all boxed kernels are taken: torch.ops reaches further "
                 "operators through Python")
        return False
    m._live.kernels.append(kernel)
    return True


def _kernel(m: Module, d: Description, form: signatures.Form) -> None:
    """The dispatcher's kernel: boxed C, or the unguarded builtin where the
    stable ABI cannot carry an argument, a result is a number, a Python
    callable is behind it, or the process has no boxed kernel left."""
    live = m._live
    assert live is not None
    is_boxed = not (d.numbers or m._calls_python(d)
                    or any(p["type"] == "Scalar" for p in d.params))
    if _key(d) == "CPU" and not d.numbers and not m._calls_python(d):
        if _runs_on(d, "ext"):
            _device_kernel(m, d, form, "PrivateUse1")
        if _runs_on(d, "cuda") and torch.version.cuda:  # ROCm is CUDA too
            if not (is_boxed and _boxed(m, d, form, "CUDA")):
                _device_kernel(m, d, form, "CUDA")
    if is_boxed and _boxed(m, d, form, _key(d)):
        return
    raw = _raw_function(_new_state(m, d, form, raw=True), d, form)
    if m._calls_python(d):
        raw = _as_called_first(raw)
    dispatcher.impl(
        live.library, form.name,
        _released(live, _with_numbers(d, raw) if d.numbers else raw),
        _key(d),
    )


_OUTSIDE = torch._C._dispatch_tls_local_exclude_set()


def _as_called_first(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel with the dispatcher's state as it is outside of a dispatch:
    an adopted callable may differentiate inside (torch.autograd, torch.func),
    and below autograd its gradients would be zero."""
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            return kernel(*args, **kwargs)
        included = torch._C._dispatch_tls_local_include_set()
        with torch._C._ForceDispatchKeyGuard(included, _OUTSIDE):
            return kernel(*args, **kwargs)

    return call


def _released(
    live: _Live, kernel: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel as torch may hold it: torch keeps a Python kernel beyond its
    library's end, and would keep the module with it."""
    slot = [kernel]
    live.undo.append(slot.clear)

    def call(*args: Any, **kwargs: Any) -> Any:
        return slot[0](*args, **kwargs)

    return call


def _with_numbers(
    d: Description, raw: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel's tensors, and the int results that the rules give."""
    def kernel(*args: Any, **kwargs: Any) -> Any:
        made = raw(*args, **kwargs)
        fresh = list(made) if len(d.fresh) > 1 else [made]
        return arrange(d, fresh, d.bind(args, kwargs))

    return kernel


def _raw_function(
    state: Any, d: Description, form: signatures.Form
) -> Callable[..., Any]:
    builtin = _C.op_bind(state, d.base_name, "", None)
    if form.kind != "out":
        return builtin
    names = form.names

    def with_out(*args: Any, **kwargs: Any) -> Any:
        outs = tuple(kwargs.pop(name) for name in names)
        return builtin(*args, out=outs[0] if len(outs) == 1 else outs, **kwargs)

    return with_out


def _fake(
    d: Description, form: signatures.Form,
    check: Callable[[list[Any], list[Any]], None] = lambda values, outs: None,
) -> Callable[..., Any]:
    out_count = len(d.fresh) if form.kind == "out" else 0

    def fake(*args: Any, **kwargs: Any) -> Any:
        if out_count:
            names = [k for k in kwargs if k not in d.by_name]
            outs = [kwargs.pop(k) for k in names]
            values = d.bind(args, kwargs)
            check(values, outs)
            for o, want in zip(outs, infer(d, values)):
                torch._check(
                    len(o.shape) == len(want.shape),
                    lambda: f"{d.name}: out has another rank than the result",
                )
            return outs[0] if form.results else None
        values = d.bind(args, kwargs)
        check(values, [])
        made = infer(d, values)
        if form.kind == "functional":
            made += [_clone_empty(values[p]) for p in d.mutated]
        elif form.kind == "inplace":
            made = []
        elif d.numbers:
            return arrange(d, made, values)
        if not made:
            return None
        return made[0] if len(made) == 1 else tuple(made)

    return fake


def _written_check(
    m: Module, d: Description, form: signatures.Form
) -> Callable[[list[Any], list[Any]], None]:
    """Whether a traced call writes what it must not: (values, outs)."""
    written = {"base": d.mutated, "inplace": [form.inplace_param]}.get(
        form.kind, [])
    if not written and form.kind != "out":
        return lambda values, outs: None
    # torch may hold the fake beyond the module's end.
    owner = weakref.ref(m)

    def state() -> Any:
        m = owner()
        assert m is not None
        return _new_state(m, d, form)

    return lambda values, outs: writes.check(
        state, values, outs, [*outs, *(values[p] for p in written)])


def _clone_empty(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [torch.empty_like(v) for v in value]
    return torch.empty_like(value) if value is not None else None


def _count_writes(
    m: Module, d: Description, form: signatures.Form, op: Operator
) -> None:
    """Version counters, and autograd's word on writing to what it watches."""
    live = m._live
    assert live is not None
    written = d.mutated if form.kind == "base" else [form.inplace_param]
    functional = signatures.functional(d)
    other = functional.name if functional is not None else d.name

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        values = d.bind(args, kwargs)
        if torch.is_grad_enabled():
            grad.check_write(form.name, other, d, written, values)
        for p in written:
            value = values[p]
            each = value if isinstance(value, (list, tuple)) else [value]
            for tensor in each:
                if tensor is not None:
                    host.check_write(tensor)
                    torch.autograd.graph.increment_version(tensor)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return op.redispatch(
                keys & torch._C._after_ADInplaceOrView_keyset, *args, **kwargs
            )

    dispatcher.impl(live.library, form.name, kernel, "ADInplaceOrView",
                    with_keyset=True)


def _count_outs(m: Module, d: Description, form: signatures.Form) -> None:
    """Version counters of the .out form's arguments, and torch's word on a
    gradient through it."""
    assert m._live is not None
    op = _operator(m, form)

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and any(
            isinstance(value, torch.Tensor) and value.requires_grad
            for value in _leaves(args, kwargs)
        ):
            raise RuntimeError(
                f"{d.name}(): functions with out=... arguments don't support "
                "automatic differentiation, but one of the arguments requires "
                "grad."
            )
        for name in form.names:
            host.check_write(kwargs[name])
            torch.autograd.graph.increment_version(kwargs[name])
        with torch._C._AutoDispatchBelowADInplaceOrView():
            return op.redispatch(
                keys & torch._C._after_ADInplaceOrView_keyset, *args, **kwargs
            )

    dispatcher.impl(m._live.library, form.name, kernel, "ADInplaceOrView",
                    with_keyset=True)


def _leaves(args: Any, kwargs: dict[str, Any]) -> Iterator[Any]:
    """Arguments, and the entries of those that are lists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _order(m: Module, form: signatures.Form) -> None:
    """Compilers keep every call of an operator with a side effect, in order."""
    assert m._live is not None
    try:
        from torch._library.effects import EffectType

        m._live.library._register_effectful_op(
            f"{m._live.space}::{form.name}", EffectType.ORDERED)
    except (ImportError, AttributeError) as error:
        say_once("this torch cannot order side effects in compiled graphs "
                 f"({error}): calls may be merged or left out there")


def _autocast(m: Module, d: Description, form: signatures.Form,
              op: Operator) -> None:
    """Under autocast, arguments that must have one type get one: the autocast
    type where the operator takes it, else the widest among them."""
    groups: dict[int, list[int]] = {}
    for i, p in enumerate(d.params):
        if p["tensor"] is None or p["list"] or p["mutated"]:
            continue
        variable = d.tables["types"][p["tensor"]]["variable"]
        if variable is not None:
            groups.setdefault(variable, []).append(i)
    shared = [g for g in groups.values() if len(g) > 1]
    live = m._live
    if not shared or live is None:
        return
    from .._base.rules import NAMES, promote

    def kernel(*args: Any, **kwargs: Any) -> Any:
        values = d.bind(args, kwargs)
        for group in shared:
            given = [values[i] for i in group if values[i] is not None]
            floats = all(t.is_floating_point() for t in given)
            if len({t.dtype for t in given}) < 2 or not floats:
                continue
            wanted = torch.get_autocast_dtype("cpu")
            tensor = d.params[group[0]]["tensor"]
            if NAMES.get(wanted) not in d.tables["types"][tensor]["allowed"]:
                wanted = promote(given)
            for i in group:
                if values[i] is not None:
                    values[i] = values[i].to(wanted)
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return batch._invoke(d, op, values)

    dispatcher.impl(live.library, form.name, kernel, "AutocastCPU")


def _define(m: Module, *forms: signatures.Form | None) -> None:
    """Tells the dispatcher the schemas, all of them before any Python object
    of the operator is made."""
    live = m._live
    assert live is not None
    for form in forms:
        if form is not None:
            dispatcher.define(live.library, form.name, form.schema,
                            tuple(form.tags))
            live.names.append(form.name)


def _infer_fake(m: Module, d: Description, form: signatures.Form) -> None:
    """What the form gives for tensors without data, from the rules."""
    assert m._live is not None
    library = m._live.library
    fake = _fake(d, form, _written_check(m, d, form))
    if form.kind == "out":
        # It makes nothing up, so the kernel of meta tensors does: no entry in
        # torch's registry of fakes, which takes its time at every load.
        dispatcher.impl(library, form.name, fake, "Meta")
        return
    dispatcher.register_fake(library, f"{m.namespace}::{form.name}", fake)


def _operator(m: Module, form: signatures.Form) -> Operator:
    return operators.defined(m.namespace, form.name)


def _functional_kernel(
    m: Module, d: Description, form: signatures.Form, op: Any
) -> None:
    def copy(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [v.clone() for v in value]
        return value.clone() if value is not None else None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        values = d.bind(args, kwargs)
        for p in d.mutated:
            values[p] = copy(values[p])
        made = batch._invoke(d, op, values)
        fresh = list(made) if isinstance(made, tuple) else [made]
        fresh = fresh if d.fresh else []
        out = fresh + [values[p] for p in d.mutated]
        return out[0] if len(out) == 1 else tuple(out)

    assert m._live is not None
    dispatcher.impl(m._live.library, form.name, kernel,
                    "CompositeExplicitAutograd")


def _bind(
    m: Module, d: Description, form: signatures.Form, name: str, op: Operator,
    out_form: signatures.Form | None = None,
) -> Callable[..., Any]:
    """The function that the user calls: the guarded builtin."""
    assert m._live is not None
    state = _new_state(m, d, form, results=_user_results(d, form))
    builtin = _C.op_bind(
        state, name, about.help_text(d, name), m._reduce(d, form.kind))
    stand_in = functools.cache(
        lambda: dynamo.stand_in(
            d, op.overload,
            _operator(m, out_form).overload if out_form else None,
            form.aliases)
    )
    roads: list[Any] = []

    def slow(*args: Any, **kwargs: Any) -> Any:
        # The first call: later ones reach what takes them at once. Where the
        # dispatcher's form returns less than the user's, or there are outs to
        # hand on, that is the stand-in.
        roads[0] = (stand_in() if form.aliases or out_form is not None
                    else op.overload)
        _C.op_roads(state, *roads)
        return roads[0](*args, **kwargs)

    roads += [slow, None]
    if form.kind == "base" and grad.has_functions(d):
        def gradient(*args: Any) -> Any:
            roads[1] = grad.fast(d, builtin, _backward(m, d, builtin))
            _C.op_roads(state, *roads)
            return roads[1](*args)

        roads[1] = gradient
    _C.op_roads(state, *roads)
    m._states[form.kind, d.name] = state
    dynamo.register(builtin, stand_in, m._live.undo)
    return builtin


def _backward(
    m: Module, d: Description, builtin: Callable[..., Any]
) -> Callable[..., Any] | None:
    """The function of the operator that the gradient map names."""
    target = d.tables["grad"]["op"]
    if target is None:
        return None
    if d.tables["grad"]["kind"] == "derived":
        return lambda *args: m._derive(m, d.name, forward.GRADIENT).function(
            *args)
    named = m._descriptions[target]
    if target == d.name:
        return generate.by_position(named, builtin)
    name = _function_name(named)
    if name in m._functions:
        return generate.by_position(named, m._functions[name])
    # Operators that are each other's gradients: known when it is called.
    functions = m._functions
    return generate.by_position(named, lambda *args, **kwargs: functions[name](
        *args, **kwargs))


def _register(m: Module, d: Description) -> None:
    """Everything torch wants to know of one operator."""
    form = signatures.base(d)
    if d.has_callback:
        d.callback = functools.partial(_C.op_infer, _new_state(m, d, form))
    out_form = signatures.out(d, form)
    inplace, functional = signatures.inplace(d), signatures.functional(d)
    _define(m, form, out_form, inplace, functional)
    op = _operator(m, form)
    _infer_fake(m, d, form)
    _kernel(m, d, form)
    if d.mutated:
        _count_writes(m, d, form, op)
    elif "side_effect" in d.tables["flags"]:
        _order(m, form)
    if out_form is not None:
        _infer_fake(m, d, out_form)
        _kernel(m, d, out_form)
        _count_outs(m, d, out_form)
    assert m._live is not None
    if d.numbers:  # the fast path makes tensors only
        m._states["base", d.name] = _new_state(m, d, form)
        builtin = dynamo.stand_in(d, op.overload, None, form.aliases)
    else:
        builtin = _bind(m, d, form, _function_name(d), op, out_form)
    _expose(m, _function_name(d), d, builtin)
    if not d.mutated:
        m._live.undo.append(grad.register(
            d, form.name, op, _backward(m, d, builtin), m._live.library,
            m if d.tables["formula"] else None))
    batch.register(d, form.name, op, m._live.library)
    # `overload` makes torch's operator: else when it is needed.
    decomposed = (aten.register(d, op.overload, m._live.undo) if aten.can(d)
                  else aten.reference(d, op))
    if decomposed is not None and _key(d) == "CPU":  # other devices
        dispatcher.impl(m._live.library, form.name, decomposed,
                        "CompositeExplicitAutograd")
    _autocast(m, d, form, op)
    if inplace is not None:
        _inplace(m, d, inplace)
    if functional is not None:
        _functional(m, d, functional, op, _backward(m, d, builtin))
    inductor.register(
        d, op,
        f"opgraft_{m.namespace}_{d.name.replace('.', '__')}_{m.hash[:8]}",
        lambda order: _C.op_bind(
            _new_state(m, d, form, raw=True, order=order),
            d.base_name, "", None,
        ),
        out_form is not None and bool(out_form.results), m._live.undo,
    )


def _expose(
    m: Module, name: str, d: Description, function: Callable[..., Any]
) -> None:
    if name in m._functions:
        raise RuntimeError(
            f"{m.path}: operator {d.name} and another one would both be "
            f"{m.name}.{name}; rename one"
        )
    m._functions[name] = function


def _function_name(d: Description) -> str:
    return f"{d.base_name}_{d.overload}" if d.overload else d.base_name


def _inplace(m: Module, d: Description, form: signatures.Form) -> None:
    """The in-place form of a functional operator."""
    op = _operator(m, form)
    _infer_fake(m, d, form)
    _kernel(m, d, form)
    _count_writes(m, d, form, op)
    name = form.name.replace(".", "_")
    _expose(m, name, d, _bind(m, d, form, name, op))


def _functional(
    m: Module, d: Description, form: signatures.Form, op: Any,
    backward: Callable[..., Any] | None,
) -> None:
    """The functional form of one that mutates, which has its gradient."""
    _infer_fake(m, d, form)
    _functional_kernel(m, d, form, op)
    assert m._live is not None
    own = _operator(m, form)
    m._live.undo.append(grad.register(
        signatures.functional_description(d), form.name, own,
        backward, m._live.library))
    _expose(m, form.name.replace(".", "_"), d, own.overload)
