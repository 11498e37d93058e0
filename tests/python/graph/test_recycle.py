# SPDX-License-Identifier: Apache-2.0
"""Memory of large results is used again, and only when nobody holds it."""

from __future__ import annotations

import gc
from typing import Any, Callable

import pytest
import torch

from opgraft import _C
from opgraft._base import host
from opgraft._graph import storages

ROWS, COLUMNS = 512, 1024  # 2 MiB of floats


@pytest.fixture(autouse=True)
def known() -> None:
    host.prepare()
    if not storages.are_read():
        pytest.skip("this torch's storages are not known")


def compiled(f: Callable[..., Any], mode: str = "max-autotune", **more: Any
             ) -> Callable[..., Any]:
    return torch.compile(f, backend="opgraft", fullgraph=True,
                         options={"mode": mode, "tune_s": 0}, **more)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def users(x: torch.Tensor) -> int:
    return int(_C.captured_storage(x)[1])


def held(x: torch.Tensor) -> dict[str, Any]:
    """What may hold a result beside its tensor."""
    return {"detach": x.detach(), "view": x[1:], "numpy": x.numpy(),
            "storage": x.untyped_storage(), "dlpack": x.__dlpack__()}


def test_a_result_that_is_dropped_gives_its_memory_to_the_next() -> None:
    f = compiled(double)
    places = set()
    for i in range(6):
        y = f(torch.full((ROWS, COLUMNS), float(i)))
        assert bool((y == 2 * i).all())
        places.add(y.data_ptr())
        del y
    assert len(places) == 1


@pytest.mark.parametrize("name", sorted(held(torch.zeros(2))))
def test_a_result_that_something_holds_stays(name: str) -> None:
    f = compiled(double)
    y = f(torch.ones(ROWS, COLUMNS))
    place = y.data_ptr()
    holder = held(y)[name]
    del y
    gc.collect()
    for _ in range(3):
        z = f(torch.full((ROWS, COLUMNS), 5.0))
        assert z.data_ptr() != place
        del z
    if name == "storage":
        holder = torch.empty(0).set_(holder)
    elif name == "dlpack":
        holder = torch.from_dlpack(holder)
    assert bool((torch.as_tensor(holder) == 2).all())


def test_results_of_several_calls_stay_apart() -> None:
    f = compiled(double)
    results = [f(torch.full((ROWS, COLUMNS), float(i))) for i in range(5)]
    assert len({y.data_ptr() for y in results}) == 5
    for i, y in enumerate(results):
        assert bool((y == 2 * i).all())


def test_a_resized_storage_is_left() -> None:
    f = compiled(double)
    y = f(torch.ones(ROWS, COLUMNS))
    y.untyped_storage().resize_(0)
    del y
    assert bool((f(torch.ones(ROWS, COLUMNS)) == 2).all())
    y = f(torch.ones(ROWS, COLUMNS))
    y.untyped_storage().resize_(8 * ROWS * COLUMNS)
    del y
    assert bool((f(torch.ones(ROWS, COLUMNS)) == 2).all())


def test_memory_that_another_process_shares_is_left() -> None:
    f = compiled(double)
    y = f(torch.ones(ROWS, COLUMNS))
    y.share_memory_()
    place = y.data_ptr()
    del y
    z = f(torch.full((ROWS, COLUMNS), 5.0))
    assert z.data_ptr() != place and not z.is_shared()


def test_a_copy_on_write_keeps_what_it_saw() -> None:
    f = compiled(double)
    y = f(torch.ones(ROWS, COLUMNS))
    lazy = torch._lazy_clone(y)
    del y
    assert bool((f(torch.full((ROWS, COLUMNS), 5.0)) == 10).all())
    assert bool((lazy == 2).all())


def test_sizes_and_types_that_change() -> None:
    f = compiled(double, dynamic=True)
    for _ in range(2):
        for rows in (ROWS, 2 * ROWS, ROWS + 1):
            for dtype in (torch.float32, torch.float64, torch.int32):
                x = torch.ones(rows, COLUMNS, dtype=dtype)
                y = f(x)
                assert torch.equal(y, x * 2)


def test_results_that_share_memory() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        return y, y.t()[3:]

    g = compiled(f)
    for i in range(4):
        y, part = g(torch.full((ROWS, COLUMNS), float(i)))
        assert bool((part == 2 * i).all()) and bool((y == 2 * i).all())
        if i % 2 == 0:
            del y
        else:
            del part


@pytest.mark.parametrize("keeps", [False, True])
def test_training(keeps: bool) -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    same = torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    same.load_state_dict(model.state_dict())
    f = compiled(model)
    x = torch.randn(16, 512)
    kept, places = [], set()
    for _ in range(4):
        for m, call in ((model, f), (same, same)):
            m.zero_grad(set_to_none=True)
            call(x).square().mean().backward()
            with torch.no_grad():
                for p in m.parameters():
                    assert p.grad is not None
                    p -= 0.1 * p.grad
        grad = model[0].weight.grad
        assert grad is not None
        places.add(grad.data_ptr())
        if keeps:
            kept.append((grad, grad.clone()))
        del grad
    for p, q in zip(model.parameters(), same.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    for grad, copy in kept:
        assert torch.equal(grad, copy)
    assert len(places) == (4 if keeps else 1)


def test_gradients_that_add_up() -> None:
    model = torch.nn.Linear(512, 1024)
    f = compiled(model)
    x = torch.randn(16, 512)
    for i in range(3):
        f(x).sum().backward()
        assert model.weight.grad is not None
        torch.testing.assert_close(
            model.weight.grad, (i + 1) * x.sum(0).expand(1024, 512),
            rtol=1e-4, atol=1e-4)


def test_what_is_kept_goes_with_the_graph_and_with_other_sizes() -> None:
    f = compiled(double)
    y = f(torch.ones(ROWS, COLUMNS))
    assert users(y) == 2
    z = f(torch.ones(ROWS, COLUMNS))
    assert users(y) == 1 and users(z) == 2
    del f
    torch._dynamo.reset()
    gc.collect()
    assert users(z) == 1


@pytest.mark.parametrize("mode, rows", [
    ("reduce-overhead", ROWS), ("max-autotune", 64)])
def test_other_modes_and_small_results_keep_nothing(mode: str, rows: int
                                                    ) -> None:
    f = compiled(double, mode)
    assert users(f(torch.ones(rows, COLUMNS))) == 1


def test_what_a_forward_graph_saves_is_not_kept() -> None:
    model = torch.nn.Linear(COLUMNS, COLUMNS)
    y = compiled(model)(torch.ones(ROWS, COLUMNS))
    assert y.requires_grad and users(y) == 1
