# SPDX-License-Identifier: Apache-2.0
"""Small models: results, gradients and training against eager and float64.
tests/sweep/models.py runs every form of every model."""

from __future__ import annotations

import importlib.util

import matrix
import models
import pytest

NAMES = sorted(models.ALL)
# The others take up to a minute each, nearly all of it Dynamo's.
SHORT = {"bert", "gpt2_decode", "llama_with_our_operators", "lstm_cell",
         "mlp_custom_linear", "mlp_dropout", "resnet18", "unet"}
TRAINED = [n for n in NAMES if models.ALL[n].trained]


def have(name: str) -> None:
    needs = models.ALL[name].needs
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")


@pytest.mark.parametrize("name", [
    n if n in SHORT else pytest.param(n, marks=pytest.mark.full)
    for n in NAMES])
def test_small(name: str) -> None:
    have(name)
    matrix.measure(name, "f32", full=False).check()


@pytest.mark.full
@pytest.mark.parametrize("form", ["bf16", "autocast"])
@pytest.mark.parametrize("name", NAMES)
def test_small_types(name: str, form: str) -> None:
    have(name)
    matrix.measure(name, form, full=False).check()


@pytest.mark.full
@pytest.mark.parametrize("name", TRAINED)
def test_training(name: str) -> None:
    have(name)
    found = matrix.Found()
    matrix.train(name, "f32", found)
    found.check()
