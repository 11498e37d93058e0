# SPDX-License-Identifier: Apache-2.0
"""All but plain tensors on a quiet thread take the slow path, rightly."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from opgraft import _C
from opgraft._base import host


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(params=["unpublished", "published"])
def guard(request):
    """The guard with and without torch's unpublished words."""
    host.prepare()
    if request.param == "published":
        _C.guard_forget()
    elif not host.self_test():
        pytest.skip("this torch does not pass the self-test")
    yield request.param
    host.self_test()


def test_self_test_passes_on_this_torch():
    host.prepare()
    assert host.self_test(), _C.guard_state()


def test_sizes_of_every_rank(basics, guard):
    """Both sides of the rank up to which a tensor holds its sizes itself, and
    tensors whose sizes moved from one side to the other."""
    made = [torch.randn((2,) * rank) for rank in range(9)]
    made += [x.transpose(0, -1) for x in made[2:]]
    made += [torch.randn((1,) * 7 + (3,)).squeeze_(), torch.randn(6).as_strided_(
        (1, 1, 1, 1, 1, 1, 3), (1, 1, 1, 1, 1, 1, 2))]
    for x in made:
        assert torch.equal(basics.scale_add(x, x, 2.0), 3 * x), x.shape
        out = torch.empty(x.shape)
        assert torch.equal(basics.scale_add(x, x, 2.0, out=out), 3 * x)
        with pytest.raises(RuntimeError, match="out"):
            basics.scale_add(x, x, out=torch.empty(x.shape + (2,)))


def test_lazily_copied_memory_is_copied_before_a_write(basics, guard):
    x = torch.ones(4)
    out = torch._lazy_clone(x)
    basics.scale_add(x, x, 2.0, out=out)
    assert out.tolist() == [3] * 4 and x.tolist() == [1] * 4


def test_none_in_a_list_of_tensors_is_refused(basics, guard):
    x = torch.ones(1)
    assert basics.every_kind(x, None, [x], 1, True, [1], [1.0]).shape == (1,)
    with pytest.raises((RuntimeError, TypeError)):
        basics.every_kind(x, None, [x, None], 1, True, [1], [1.0])


def test_fast_road_is_taken(basics, guard):
    """With no slow path behind it the builtin still answers."""
    state = basics._states["base", "zero_gradient"]
    _C.op_roads(state, None, None)
    try:
        assert basics.zero_gradient(torch.ones(2)).tolist() == [2, 2]
    finally:
        _C.op_roads(state, torch.ops.basics.zero_gradient.default, None)


def test_dispatch_mode(basics, guard):
    x = torch.ones(2)
    with Seen() as seen:
        assert basics.scale_add(x, x).tolist() == [1.5, 1.5]
    assert "basics.scale_add.default" in seen.names


def test_function_mode(basics, guard):
    names = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Mode():
        assert basics.scale_add(x, x).tolist() == [1.5, 1.5]
    assert any("scale_add" in n for n in names)


def test_negative_bit(basics, guard):
    z = torch.tensor([1 + 2j, 3 + 4j])
    one = torch.ones(2)
    for x in (z.conj().imag, torch._neg_view(torch.tensor([2.0, 4.0]))):
        assert basics.scale_add(x, one, 0.0).tolist() == [-2, -4]
        assert basics.scale_add(one, x, 1.0).tolist() == [-1, -3]
    first = z[0].conj().imag
    assert basics.scale_add(first, torch.tensor(0.0), 1.0).item() == -2


def test_conjugate(basics, guard):
    z = torch.tensor([1 + 2j]).conj()
    with pytest.raises(RuntimeError, match="c64"):
        basics.scale_add(z, z)


def test_zero_tensor(basics, guard):
    zero = torch._efficientzerotensor(2)
    assert basics.scale_add(torch.ones(2), zero, 1.0).tolist() == [1, 1]


@pytest.mark.parametrize("make", [
    lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,)),
    lambda: torch.ones(2, 2).to_sparse_csr(),
    lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    lambda: torch.ones(2).to_mkldnn(),
    lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
], ids=["sparse", "csr", "nested", "mkldnn", "quantized"])
def test_other_layouts_are_refused(basics, guard, make):
    try:
        x = make()
    except RuntimeError as error:
        pytest.skip(f"this torch cannot make one: {error}")
    with pytest.raises((NotImplementedError, RuntimeError)):
        basics.scale_add(x, x)


def test_meta(basics, guard):
    x = torch.ones(2, 3, device="meta")
    out = basics.scale_add(x, x)
    assert out.device.type == "meta" and out.shape == (2, 3)


def test_subclass(basics, guard):
    class Sub(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Sub)
    out = basics.scale_add(x, x)
    assert type(out) is Sub and out.tolist() == [1.5, 1.5]


def test_wrapper_subclass(basics, guard):
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.ones(2), torch.zeros(2))
    out = basics.scale_add(x, x)
    assert isinstance(out, TwoTensor)
    assert out.a.tolist() == [1.5, 1.5] and out.b.tolist() == [0, 0]


def test_fake(basics, guard):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.empty(4, 5)
        out = basics.scale_add(x, x)
    assert out.shape == (4, 5) and out.fake_mode is mode


@pytest.mark.parametrize("tracing", ["real", "fake", "symbolic"])
def test_make_fx(basics, guard, tracing):
    g = make_fx(lambda a, b: basics.scale_add(a, b, 0.5),
                tracing_mode=tracing)(torch.ones(3), torch.ones(3))
    assert "basics.scale_add.default" in {str(n.target) for n in g.graph.nodes}
    assert torch.equal(g(torch.ones(3), torch.ones(3)), torch.full((3,), 1.5))


def test_jit_trace(basics, guard):
    g = torch.jit.trace(lambda a: basics.scale_add(a, a, 0.5), (torch.ones(3),))
    assert "basics::scale_add" in str(g.graph)


def test_functorch(basics, guard):
    x, y = torch.randn(3, 4), torch.randn(4)
    out = torch.func.vmap(lambda a: basics.scale_add(a, y, 2.0))(x)
    assert torch.equal(out, x + 2 * y)
    g = torch.func.grad(lambda a: basics.scale_add(a, y, 2.0).sum())(x[0])
    assert torch.equal(g, torch.ones(4))
    f = torch.func.functionalize(lambda a: basics.scale_add(a, y, 1.0))
    assert torch.equal(f(y), 2 * y)


def test_functional_wrapper(basics, guard):
    x = torch._to_functional_tensor(torch.ones(2))
    out = basics.scale_add(x, x)
    assert torch._from_functional_tensor(out).tolist() == [1.5, 1.5]


def test_inference_mode(basics, guard):
    with torch.inference_mode():
        x = torch.ones(2)
        out = basics.scale_add(x, x)
        assert out.is_inference() and out.tolist() == [1.5, 1.5]
        basics.scale_add_(x, x.clone())
    assert basics.scale_add(out, out).tolist() == [2.25, 2.25]


def test_requires_grad(basics, guard):
    x = torch.ones(2, requires_grad=True)
    y = torch.ones(2)
    assert basics.scale_add(x, y).requires_grad
    with torch.no_grad():
        assert not basics.scale_add(x, y).requires_grad
    with pytest.raises(RuntimeError, match="leaf|in place"):
        basics.scale_add_(x, y)


def test_undeclared_write_is_counted(basics, guard):
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    z = (w * x).sum()
    basics.add_to_(x, 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_autocast(basics, guard, linear):
    x, w = torch.randn(2, 8), torch.randn(4, 8).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = linear.custom_linear(x, w)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, x.bfloat16() @ w.t(), rtol=0.05, atol=0.05)
    with pytest.raises(RuntimeError, match="weight"):
        linear.custom_linear(x, w)
