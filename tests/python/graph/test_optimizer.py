# SPDX-License-Identifier: Apache-2.0
"""An optimizer's step as a graph: torch.compile(optimizer.step)."""

import pytest
import torch

import opgraft

STEPS = 6
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd, momentum": (torch.optim.SGD,
                      {"lr": 0.1, "momentum": 0.9, "nesterov": True,
                       "weight_decay": 0.01}),
    "adam, amsgrad": (torch.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-2}),
    "adamw, maximize": (torch.optim.AdamW, {"lr": 1e-2, "maximize": True}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 1e-2, "centered": True}),
    "adagrad": (torch.optim.Adagrad, {"lr": 1e-2}),
    "adadelta": (torch.optim.Adadelta, {}),
}
SHAPES = [(33, 17), (17,), (), (0, 4), (5, 1, 3)]


def stepped(optimizer, settings, dtype, compiled=None):
    """Parameters and optimizer state after equal gradients, and the step."""
    source = torch.Generator().manual_seed(3)
    params = [torch.randn(s, generator=source, dtype=torch.float64).to(dtype)
              for s in SHAPES]
    made = optimizer(params, **settings)

    def step():
        made.step()

    run = step if compiled is None else torch.compile(
        step, backend="opgraft", options={"mode": compiled})
    for _ in range(STEPS):
        for p in params:
            p.grad = torch.randn(p.shape, generator=source,
                                 dtype=torch.float64).to(dtype)
        run()
    state = [v for p in params for v in made.state[p].values()
             if isinstance(v, torch.Tensor)]
    return params + state, run


def worst(found, exact):
    """The largest distance of any tensor, by its largest value."""
    assert len(found) == len(exact)
    return max((float((f.double() - e.double()).abs().max()
                      / e.double().abs().max().clamp_min(1e-30))
                for f, e in zip(found, exact) if e.numel()), default=0.0)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_native_and_as_exact_as_eager_s(name, mode):
    torch._dynamo.reset()
    optimizer, settings = OPTIMIZERS[name]
    exact, _ = stepped(optimizer, settings, torch.float64)
    eager, _ = stepped(optimizer, settings, torch.float32)
    ours, step = stepped(optimizer, settings, torch.float32, mode)
    assert worst(ours, exact) <= 2 * worst(eager, exact) + 1e-7
    stats = opgraft.stats(step)
    assert stats.native == stats.nodes > 0
    # The first step makes the state; every later one replays one plan.
    assert stats.graphs[-1]["replays"] >= STEPS - 2
    assert all(g["plans"] == 1 for g in stats.graphs)
    assert sum(g["clone_bytes"] for g in stats.graphs) == 0


def test_a_rate_in_a_tensor_changes_without_a_recompile():
    torch._dynamo.reset()
    rate = torch.tensor(0.1)
    p = torch.zeros(4, requires_grad=True)
    made = torch.optim.AdamW([p], lr=rate, weight_decay=0)
    step = torch.compile(lambda: made.step(), backend="opgraft",
                         options={"mode": "max-autotune"})
    moved = []
    for r in (0.1, 0.1, 0.05, 0.2):
        rate.fill_(r)
        before = p.detach().clone()
        p.grad = torch.ones(4)
        step()
        moved.append(float((before - p.detach()).mean()))
    assert moved == pytest.approx([0.1, 0.1, 0.05, 0.2], rel=1e-4)
    assert len(opgraft.stats(step).graphs) <= 2  # with and without state
