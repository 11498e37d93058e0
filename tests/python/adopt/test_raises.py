# SPDX-License-Identifier: Apache-2.0
"""What an adopted callable raises is raised as it is, with its traceback, on
every road; one that calls itself without end raises RecursionError, as in
torch, and crashes on none."""

from __future__ import annotations

import threading
import traceback

import pytest
import torch

import opgraft


class Own(Exception):
    pass


RULES = dict(schema="act(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
             dtype="x: f32 -> x", name="raises::act")
todo = {"forward": None, "backward": None}


def act(x):
    what = todo["forward"]
    if what is RecursionError:
        return op(x)
    if what is not None:
        raise what("as it is")
    return x * 2


def act_backward(grad, x):
    what = todo["backward"]
    if what is RecursionError:
        todo["forward"] = what
        return op(grad)
    if what is not None:
        raise what("as it is")
    return grad * 2


@pytest.fixture(autouse=True)
def adopted():
    global op
    op = opgraft.adopt(act, **RULES, backward=act_backward)


class Model(torch.nn.Module):
    def forward(self, x):
        return op(x * 3) + 1


def compiled():
    torch._dynamo.reset()
    return torch.compile(Model(), backend="opgraft")


ROADS = {
    "fast": lambda: op,
    "strided": lambda: lambda x: op(x.expand(2, 3).t()),
    "torch.ops": lambda: torch.ops.raises.act,
    "compiled": compiled,
    "frozen": lambda: opgraft.freeze(Model(), (torch.ones(3),)),
}
GRADIENTS = {"fast": lambda: op, "torch.ops": lambda: torch.ops.raises.act,
             "compiled": compiled}


def call(road, x, **kinds):
    """The road's result, made ready while the callable raises nothing."""
    todo.update(forward=None, backward=None)
    model = road()
    if x.requires_grad:
        model(x).sum().backward()
    else:
        model(x)
    try:
        todo.update(kinds)
        y = model(x)
        if x.requires_grad:
            y.sum().backward()
        return y
    finally:
        todo.update(forward=None, backward=None)


def names(error):
    return [f.name for f in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Own])
@pytest.mark.parametrize("road", ROADS)
def test_what_a_callable_raises_is_raised_as_it_is(road, kind):
    with pytest.raises(kind, match="as it is") as raised:
        call(ROADS[road], torch.ones(3), forward=kind)
    assert type(raised.value) is kind
    assert names(raised.value)[-1] == "act"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Own])
@pytest.mark.parametrize("road", GRADIENTS)
def test_what_a_backward_raises_is_raised_as_it_is(road, kind):
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(kind, match="as it is") as raised:
        call(GRADIENTS[road], x, backward=kind)
    assert type(raised.value) is kind
    assert names(raised.value)[-1] == "act_backward"


@pytest.mark.parametrize("stack", [None, 1 << 20, 64 << 20],
                         ids=["main", "small", "large"])
@pytest.mark.parametrize("road", ROADS)
def test_endless_recursion_raises_recursion_error(road, stack):
    run_with(stack, lambda: call(
        ROADS[road], torch.ones(3), forward=RecursionError))


@pytest.mark.parametrize("road", GRADIENTS)
def test_endless_recursion_in_a_backward_raises_recursion_error(road):
    x = torch.ones(3, requires_grad=True)
    run_with(None, lambda: call(GRADIENTS[road], x, backward=RecursionError))


def run_with(stack, function):
    """The function raises RecursionError on a thread with such a stack."""
    found = []

    def run():
        try:
            function()
        except BaseException as error:
            found.append(error)

    if stack is None:
        run()
    else:
        before = threading.stack_size(stack)
        thread = threading.Thread(target=run)
        thread.start()
        threading.stack_size(before)
        thread.join()
    assert [type(e) for e in found] == [RecursionError], found


def test_an_exception_of_one_call_is_not_raised_by_the_next():
    x = torch.ones(3)
    with pytest.raises(Own):
        call(ROADS["compiled"], x, forward=Own)
    frozen = opgraft.freeze(Model(), (x,))
    with pytest.raises(opgraft.GuardError):
        frozen(torch.ones(4))
    assert torch.equal(frozen(x), x * 6 + 1)


def test_a_result_against_the_rules_is_an_error_with_its_place():
    wrong = opgraft.adopt(
        lambda x: x.new_ones(7), schema="wrong(Tensor x) -> Tensor",
        shape="x[*N] -> [*N]", dtype="x: f32 -> x", name="raises::wrong")
    frozen = opgraft.freeze(lambda x: wrong(x) + 1, (torch.ones(3),))
    with pytest.raises(RuntimeError, match="result 0 is f32.7. here"):
        frozen(torch.ones(3))
