# SPDX-License-Identifier: Apache-2.0
"""Behaviours of random numbers: seeds, states, generators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from on_npu import same


@pytest.mark.behaviour("rng", "a generator belongs to the device")
@pytest.mark.cxx("at::PrivateUse1HooksInterface::getNewGenerator",
                 raises=NotImplementedError)
def test_generator(npu: Any) -> None:
    """torch.Generator("npu:0") has that device."""
    generator = torch.Generator(device="npu:0")
    assert generator.device == torch.device("npu:0")


@pytest.mark.behaviour("rng", "a device's generator is seeded")
@pytest.mark.cxx("at::PrivateUse1HooksInterface::getNewGenerator",
                 raises=NotImplementedError)
def test_generator_seed(npu: Any) -> None:
    """The same seed gives the same numbers on the device."""
    generator = torch.Generator(device="npu:0")
    numbers = []
    for _ in range(2):
        generator.manual_seed(42)
        assert generator.initial_seed() == 42
        numbers.append(torch.rand(4, device="npu", generator=generator))
    same(numbers[0], numbers[1].cpu())


@pytest.mark.behaviour("rng", "a state that is set repeats the numbers")
def test_state(npu: Any) -> None:
    """set_rng_state(get_rng_state()) gives the same numbers again."""
    state = torch.npu.get_rng_state(0)
    assert state.dtype == torch.uint8
    first = torch.randn(5, device="npu")
    second = torch.randn(5, device="npu")
    assert not torch.equal(first, second)
    torch.npu.set_rng_state(state, 0)
    same(torch.randn(5, device="npu"), first.cpu())


@pytest.mark.behaviour("rng", "states of all devices are read and set")
def test_state_of_all(npu: Any) -> None:
    """The states of all devices repeat the numbers of each."""
    states = torch.npu.get_rng_state_all()
    assert len(states) == 1
    first = torch.randn(5, device="npu")
    torch.npu.set_rng_state_all(states)
    same(torch.randn(5, device="npu"), first.cpu())


@pytest.mark.behaviour("rng", "the seed that was set is told")
def test_initial_seed(npu: Any) -> None:
    """initial_seed gives the seed of manual_seed_all."""
    torch.npu.manual_seed_all(42)
    assert torch.npu.initial_seed() == 42


@pytest.mark.behaviour("rng", "a seed repeats the numbers")
def test_manual_seed(npu: Any) -> None:
    """torch's and the device's seeds give the same numbers each time."""
    numbers = []
    for seed in (torch.npu.manual_seed_all, torch.npu.manual_seed,
                 torch.manual_seed):
        seed(42)
        numbers.append(torch.rand(4, device="npu"))
    torch.npu.manual_seed_all(43)
    assert not torch.equal(torch.rand(4, device="npu"), numbers[0])
    for found in numbers[1:]:
        same(found, numbers[0].cpu())


@pytest.mark.behaviour("rng", "a seed at random differs each time")
def test_seed(npu: Any) -> None:
    """seed_all sets another seed at each call."""
    seeds = set()
    for _ in range(3):
        torch.npu.seed_all()
        seeds.add(torch.npu.initial_seed())
    assert len(seeds) == 3
