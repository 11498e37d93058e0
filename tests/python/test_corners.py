# SPDX-License-Identifier: Apache-2.0
"""What few operators have: sizes from a callback, saved lists, fixed types."""

from __future__ import annotations

import pytest
import torch

import opgraft


@pytest.fixture(scope="module")
def corners(build):
    return opgraft.load(build("tests/python/corners.c"))


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_callback_under_compile(corners, backend):
    f = torch.compile(lambda x: corners.repeat_rows(x.t() + 1, 2) * 2,
                      backend=backend, fullgraph=True)
    for rows in (3, 4, 5):  # from the second on, a size that is a symbol
        x = torch.randn(2, rows)
        want = (x.t() + 1).repeat(2, 1) * 2
        torch.testing.assert_close(f(x), want)


def test_callback_has_static_shapes(corners):
    x = torch.randn(2, 3)
    torch.library.opcheck(torch.ops.corners.repeat_rows.default, (x, 3))
    dim = torch.export.Dim("rows", min=2, max=9)

    class Model(torch.nn.Module):
        def forward(self, x):
            return corners.repeat_rows(x, 3)

    program = torch.export.export(Model(), (x,))
    torch.testing.assert_close(program.module()(x), x.repeat(3, 1))
    with pytest.raises(Exception, match="(?i)specialized|constraint"):
        torch.export.export(Model(), (x,), dynamic_shapes=({0: dim},))


def test_callback_refusal_reaches_the_tracer(corners):
    f = torch.compile(lambda x: corners.repeat_rows(x, 2), backend="eager",
                      fullgraph=True)
    with pytest.raises(Exception, match="its callback refused"):
        f(torch.randn(3))


def test_saved_lists_are_saved_tensors(corners):
    xs = [torch.randn(3, requires_grad=True) for _ in range(2)]
    w = torch.randn(3, requires_grad=True)
    seen = []

    def pack(t):
        seen.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = corners.dots(xs, w)
    assert sum(t.data_ptr() in {x.data_ptr() for x in xs} for t in seen) == 2
    got = torch.autograd.grad(y, [*xs, w])
    want = torch.autograd.grad(sum((x * w).sum() for x in xs), [*xs, w])
    torch.testing.assert_close(got, want)
    y = corners.dots(xs, w)
    with torch.no_grad():
        xs[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.backward()


def test_item_size_of_a_list_under_tracing(corners):
    xs, w = [torch.ones(3), torch.ones(3)], torch.ones(3)
    f = torch.compile(lambda: corners.dots(xs, w), backend="aot_eager",
                      fullgraph=True)
    assert f() == 6


def test_one_entry_of_dtypes_for_fixed_types(corners):
    x, index = torch.arange(4.0), torch.tensor([3, 0])
    assert corners.pick(x, index).tolist() == [3, 0]
    with pytest.raises(RuntimeError, match="index is f32 here, expected i64"):
        corners.pick(x, x)


def test_device_default_keeps_its_index(corners):
    schema = str(torch.ops.corners.zeros.default._schema)
    assert "device=cuda:1" in schema
    assert corners.zeros(2, device="cpu").tolist() == [0, 0]


def test_no_tensor_argument_in_every_wrapper(corners):
    def f(n=3):
        return torch.ops.corners.zeros(n, device="cpu") + 1

    assert torch.func.functionalize(f)().tolist() == [1] * 3
    assert torch.compile(f, backend="aot_eager", fullgraph=True)(2).tolist() \
        == [1, 1]
    got = torch.func.vmap(lambda x: x + f())(torch.zeros(2, 3))
    assert got.tolist() == [[1] * 3] * 2
    graph = torch.fx.experimental.proxy_tensor.make_fx(f)(3)
    assert graph(3).tolist() == [1] * 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_side_effects_are_kept_in_order(corners, backend):
    def f(x):
        first = corners.tick(x)
        corners.tick(x)
        return first, corners.tick(x)

    x = torch.ones(2)
    before = corners.tick(x)
    first, last = torch.compile(f, backend=backend, fullgraph=True)(x)
    assert (first - before, last - before) == (1, 3)


def test_tags(corners, basics, build):
    def tags(op):
        return {str(t).removeprefix("Tag.") for t in op.tags}

    own = torch.ops.corners
    assert tags(own.noise.default) == {
        "pt2_compliant_tag", "nondeterministic_seeded", "cudagraph_unsafe",
        "needs_exact_strides"}
    assert tags(own.pick.default) == {"pt2_compliant_tag",
                                      "needs_contiguous_strides"}
    assert tags(torch.ops.basics.positives.default) == {
        "pt2_compliant_tag", "needs_contiguous_strides",
        "dynamic_output_shape"}
    if hasattr(torch.Tag, "out"):
        assert "out" in tags(own.pick.out)
        # Inductor would call it with the tensors before the int.
        opgraft.load(build("tests/ops/index.c"))
        assert "out" not in tags(torch.ops.indexing.index_select.out)
