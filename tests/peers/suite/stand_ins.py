# SPDX-License-Identifier: Apache-2.0
"""A backend under test where PyTorch's test files compile by Inductor.

The files' functions and inputs run as they are. Questions about Inductor's
generated code, kernels and counters are answered with whatever they expect.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from dataclasses import dataclass
from typing import Any, Callable, Iterator
from unittest import mock

import torch
import torch._dynamo.backends.registry as registry
import torch._inductor.metrics
import torch.utils._pytree as pytree
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.inductor_utils import clone_preserve_strides_offset

# Backends by name that a folder's files use where any backend would do.
ALSO = {"dynamo": ("eager", "aot_eager", "aot_eager_decomp_partition")}
ALSO["functorch"] = ALSO["dynamo"]
real_compile = torch.compile
backends: dict[str, Any] = {}
installed = contextlib.ExitStack()


@dataclass
class Chosen:
    backend: str = "opgraft"
    mode: str = "max-autotune"
    dynamic: bool = False
    graphs: int = 0  # compiled so far


chosen = Chosen()


@contextlib.contextmanager
def baseline(name: str) -> Iterator[None]:
    with mock.patch.object(chosen, "backend", name):
        yield


def linear_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(a, b.t().contiguous())


def with_linear(gm: Any, inputs: Any) -> Any:
    """aot_eager, with matrix products by torch's own kernel of linear layers:
    torch does not promise the bits that differ from eager then."""
    def graph_change(graph: Any, _: Any) -> Any:
        for node in graph.graph.find_nodes(
                op="call_function", target=torch.ops.aten.mm.default):
            node.target = linear_product
        graph.recompile()
        return make_boxed_func(graph.forward)

    return aot_autograd(fw_compiler=graph_change)(gm, inputs)


def compiler(gm: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """What stands for compile_fx: the chosen backend, on Dynamo's graph."""
    chosen.graphs += 1
    known = {"mode": chosen.mode} if chosen.backend == "opgraft" else {}
    return backends[chosen.backend](gm, inputs, **known)


def compile(model: Any = None, *, backend: Any = None, mode: Any = None,
            options: Any = None, **others: Any) -> Any:
    """torch.compile: a mode and options of Inductor's are not ours."""
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if caller.startswith("torch.") and not caller.startswith("torch.testing"):
        # torch.cond, say, which compiles for itself.
        return real_compile(model, backend=backends.get(backend, backend),
                            mode=mode, options=options, **others)
    if model is None:
        return functools.partial(compile, backend=backend, mode=mode,
                                 options=options, **others)
    if backend is None or (isinstance(backend, str) and
                           registry._COMPILER_FNS.get(backend) is compiler):
        return real_compile(model, backend=compiler, **others)
    return real_compile(model, backend=backend, mode=mode, options=options,
                        **others)


def graph_compile(gm: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """What stands for compile_fx_inner: AOTAutograd's graph, of which a
    compiler takes a copy, since it rewrites it."""
    from opgraft._base import host
    from opgraft._graph import backend as engine
    from opgraft._graph import stats

    if not isinstance(gm, torch.fx.GraphModule) or chosen.backend not in (
            "opgraft", "inductor"):
        return gm
    own = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    if chosen.backend == "inductor":
        return torch._inductor.compile_fx.compile_fx_inner(own, inputs)
    host.prepare()
    chosen.graphs += 1
    is_backward = any(n.name.startswith("tangents")
                      for n in own.graph.find_nodes(op="placeholder"))
    return engine.compile_graph(
        own, list(inputs), "backward" if is_backward else "forward",
        engine._read_options(chosen.mode, None), stats.region_begin())


def graph_run(gm: Any, inputs: Any) -> Any:
    """The same for a compiler that returns what takes its arguments apart."""
    run = graph_compile(gm, inputs)
    return run if run is gm else lambda *args: run(list(args))


def graph_keep(gm: Any, inputs: Any, graph_cell: list[Any]) -> Any:
    graph_cell[0] = gm
    return graph_run(gm, inputs)


class Anything(int):
    """A count, a table of counts or a module of them, of Inductor's: equal to
    whatever it is compared with."""

    def _yes(self, *_: Any) -> bool:
        return True

    def _self(self, *_: Any, **__: Any) -> Anything:
        return self

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _yes  # type: ignore[assignment]
    __bool__ = __contains__ = _yes
    __add__ = __sub__ = __call__ = __getitem__ = _self  # type: ignore[assignment]
    __getattr__ = __setattr__ = _self  # type: ignore[assignment]
    __hash__ = int.__hash__

    def __ne__(self, _: Any) -> bool:
        return False


class AnyCode(str):
    """Generated code that holds whatever is looked for."""

    def __contains__(self, _: Any) -> bool:
        return True


def with_code(f: Any, *args: Any, **kwargs: Any) -> Any:
    return f(*args, **kwargs), [AnyCode()]


def only_code(f: Any, *args: Any, **kwargs: Any) -> AnyCode:
    f(*args, **kwargs)
    return AnyCode()


def both_codes(f: Any) -> Any:
    result = f()
    result.sum().backward()
    return result, [AnyCode(), AnyCode()]


def no_indexing(case: Any, f: Any, *args: Any, has_wrapping: Any = None,
                has_assert: Any = False, **kwargs: Any) -> Any:
    return f(*args, **kwargs)


def equal_or_anything(real: Any) -> Any:
    def assert_equal(self: Any, x: Any, y: Any, *args: Any, **kwargs: Any
                     ) -> None:
        if not isinstance(x, Anything) and not isinstance(y, Anything):
            real(self, x, y, *args, **kwargs)

    return assert_equal


def put(owner: Any, name: str, value: Any) -> None:
    installed.enter_context(mock.patch.object(owner, name, value))


def install(folder: str) -> None:
    """Before the import of a test file; `installed.close()` takes all back."""
    registry._lazy_import()
    for name in ("opgraft", "inductor", *ALSO["dynamo"]):
        backends[name] = registry.lookup_backend(name)
    backends["linear"] = with_linear
    put(TestCase, "assertEqual", equal_or_anything(TestCase.assertEqual))
    # Dynamo's and AOTAutograd's graphs as text, of another version.
    put(TestCase, "assertExpectedInline", lambda *args, **kwargs: None)
    if folder not in ALSO:
        put(torch._inductor, "metrics", Anything())
    put(torch, "compile", compile)
    installed.enter_context(mock.patch.dict(registry._COMPILER_FNS, {
        name: compiler for name in ("inductor", *ALSO.get(folder, ()))}))


def install_within(module: Any) -> None:
    """After its import: its helpers that look into Inductor."""
    within: dict[str, Any] = {
        "compile_fx": compiler, "compile_fx_inner": graph_compile,
        "run_and_get_code": with_code, "run_and_get_kernels": with_code,
        "run_and_get_cpp_code": with_code, "run_and_get_triton_code": only_code,
        "run_fw_bw_and_get_code": both_codes, "FileCheck": Anything(),
        "assertGeneratedKernelCountEqual": lambda *args: None,
        "_run_and_assert_no_indirect_indexing": no_indexing,
        "metrics": Anything(), "counters": Anything()}
    if not module.__name__.startswith("inductor."):
        # Their checks of graphs are torch's, and hold with any compiler.
        within = ({"nop": graph_run, "extract_graph": graph_keep}
                  if module.__name__.endswith("aotdispatch") else {})
    for name, value in within.items():
        if hasattr(module, name):
            put(module, name, value)
    for name in ("check_model", "check_model_gpu"):
        if hasattr(module, name):
            put(module, name, check_model)


# --- check_model of test_torchinductor ---------------------------------------


def copied(tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, clone_preserve_strides_offset,
                                tree)


def widened(tree: Any) -> Any:
    """Half types as f32, in which eager is the reference."""
    return pytree.tree_map_only(
        torch.Tensor, lambda x: x.float()
        if x.dtype in (torch.half, torch.bfloat16) else x, tree)


def typed_as(values: Any, like: Any) -> Any:
    flat, spec = pytree.tree_flatten(values)
    return pytree.tree_unflatten([
        v.to(w.dtype) if isinstance(v, torch.Tensor) and isinstance(
            w, torch.Tensor) and v.dtype.is_floating_point else v
        for v, w in zip(flat, pytree.tree_leaves(like))], spec)


def tensors(tree: Any, requires_grad: bool = False) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)
            and (x.requires_grad or not requires_grad)]


def gradients(inputs: Any, outputs: Any, seeds: list[torch.Tensor]
              ) -> list[Any]:
    return list(torch.autograd.grad(
        tensors(outputs, True), tensors(inputs, True), seeds,
        allow_unused=True, retain_graph=True))


def layouts_check(found: Any, wanted: Any, exact_dtype: bool) -> None:
    for a, b in zip(tensors(found), tensors(wanted), strict=True):
        assert a.shape == b.shape, f"shape {a.shape}, eager {b.shape}"
        assert not exact_dtype or a.dtype == b.dtype
        same, _ = torch._prims_common.check_significant_strides(a, b)
        assert same, f"strides {a.stride()}, eager {b.stride()}"


def gradients_check(case: Any, found: tuple[Any, Any], wanted: tuple[Any, Any],
                    in_float: bool, **how: Any) -> None:
    """Of (inputs, outputs), from random unit gradients."""
    seeds = [torch.rand(r.shape, dtype=r.dtype) for r in tensors(
        wanted[1], True)]
    seeds = [s / s.norm() for s in seeds]
    expected = gradients(*wanted, seeds)
    if not any(g is not None for g in expected) and any(
            x.grad_fn is not None for x in tensors(found[0])):
        # AOTAutograd detaches what never gets a gradient.
        case.assertFalse(tensors(found[1], True))
        return
    got = gradients(*found, seeds)
    case.assertEqual(got, typed_as(expected, got) if in_float else expected,
                     msg=lambda m: f"gradients: {m}", **how)


def check_model(
    self: Any, model: Any, example_inputs: Any, kwargs: Any = None, *,
    atol: Any = None, rtol: Any = None, grad_atol: Any = None,
    grad_rtol: Any = None, exact_dtype: bool = True, nopython: bool = True,
    reference_in_float: bool = True, assert_equal: bool = True,
    check_gradient: bool = False, check_has_compiled: bool = True,
    output_process_fn_grad: Callable[[Any], Any] = lambda x: x, **others: Any,
) -> None:
    """Compiled against eager: values, types, gradients, written inputs; then a
    second call with equal inputs, which replays the plan."""
    kwargs = kwargs or {}
    torch._dynamo.reset()
    dtypes: list[Any] = []
    if reference_in_float and exact_dtype:
        torch.manual_seed(0)
        with contextlib.suppress(RuntimeError):  # eager may lack the type
            dtypes = [x.dtype for x in tensors(
                model(*copied(example_inputs), **kwargs))]
    eager_inputs = copied(example_inputs)
    eager, eager_kwargs = model, kwargs
    if reference_in_float:
        narrow = [x.dtype for x in tensors(eager_inputs)]
        eager_inputs = [widened(x) for x in eager_inputs]
        eager_kwargs = widened(kwargs)
        if hasattr(model, "to") and narrow != [
                x.dtype for x in tensors(eager_inputs)]:
            eager = copy.deepcopy(model).to(torch.float)
    second_inputs = copied(example_inputs)
    torch.manual_seed(0)
    wanted = eager(*eager_inputs, **eager_kwargs)

    def check(found: Any, inputs: Any, call: str) -> None:
        assert type(found) is type(wanted), (type(found), type(wanted))
        if dtypes:
            assert [x.dtype for x in tensors(found)] == dtypes, call
        expected = typed_as(wanted, found) if reference_in_float else wanted
        if not assert_equal:
            layouts_check(found, expected, exact_dtype)
            return
        how = {"atol": atol, "rtol": rtol, "equal_nan": True}
        self.assertEqual(found, expected, exact_dtype=exact_dtype,
                         msg=lambda m: f"{call}: outputs: {m}", **how)
        self.assertEqual(list(inputs), list(eager_inputs), exact_dtype=False,
                         msg=lambda m: f"{call}: inputs after: {m}", **how)

    before = chosen.graphs
    run = real_compile(lambda *a, **k: model(*a, **k), backend=compiler,
                       fullgraph=nopython)
    torch.manual_seed(0)
    found = run(*example_inputs, **kwargs)
    assert not check_has_compiled or chosen.graphs > before, "nothing compiled"
    check(found, example_inputs, "call 1")
    if check_gradient:
        gradients_check(
            self, ((example_inputs, kwargs), output_process_fn_grad(found)),
            ((eager_inputs, eager_kwargs), output_process_fn_grad(wanted)),
            reference_in_float, atol=grad_atol or atol, rtol=grad_rtol or rtol,
            equal_nan=True, exact_dtype=exact_dtype)
    elif not kwargs and not any(
            True for _ in getattr(model, "buffers", lambda: ())()) and all(
            type(x) is torch.Tensor and not x.requires_grad
            for x in second_inputs):
        torch.manual_seed(0)
        check(run(*second_inputs), second_inputs, "call 2")
    torch._dynamo.reset()
