# SPDX-License-Identifier: Apache-2.0
"""nn.TransformerEncoderLayer and nn.MultiheadAttention, which call one kernel
for a whole layer in inference, are made of operators that fuse."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import torch

import opgraft

MODES = ("reduce-overhead", "max-autotune")


def same(model: Any, args: tuple[Any, ...], mode: str, **kwargs: Any) -> None:
    with torch.no_grad():
        wanted = model(*args, **kwargs)
        torch._dynamo.reset()
        call = torch.compile(model, backend="opgraft",
                             options={"mode": mode, "tune_s": 0})
        found = call(*args, **kwargs)
    torch.testing.assert_close(found, wanted, equal_nan=True)
    told = json.loads(opgraft.stats(call).json())
    assert told["fallbacks"] == [] and told["native"] == told["nodes"] > 4


def masks(batch: int, length: int) -> dict[str, dict[str, Any]]:
    causal = torch.ones(length, length).triu(1).bool()
    padding = torch.zeros(batch, length).bool()
    padding[0, length // 2:] = True
    nobody = padding.clone()
    nobody[-1] = True
    return {
        "none": {}, "nobody": {"src_key_padding_mask": nobody},
        "padding": {"src_key_padding_mask": padding},
        "causal": {"src_mask": causal},
        "both": {"src_mask": causal, "src_key_padding_mask": padding}}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mask", masks(1, 2))
def test_encoder_layers(mask: str, mode: str) -> None:
    torch.manual_seed(0)
    for first, act in itertools.product((False, True), ("relu", "gelu")):
        model = torch.nn.TransformerEncoderLayer(
            24, 3, 40, activation=act, norm_first=first,
            batch_first=True).eval()
        for parameter in model.parameters():  # biases and norms too
            torch.nn.init.normal_(parameter, 0.3, 0.2)
        same(model, (torch.randn(2, 7, 24),), mode, **masks(2, 7)[mask])


@pytest.mark.parametrize("mode", MODES)
def test_attention_with_weights(mode: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(24, 3, batch_first=True).eval()
    x, m = torch.randn(2, 5, 24), masks(2, 5)
    padding = m["padding"]["src_key_padding_mask"]
    causal = m["causal"]["src_mask"]
    for need, average in ((False, True), (True, True), (True, False)):
        told = {"need_weights": need, "average_attn_weights": average}
        same(model, (x, x, x), mode, **told)
        same(model, (x, x, x), mode, key_padding_mask=padding, **told)
        same(model, (x, x, x), mode, attn_mask=causal, **told)


def test_a_stack_of_layers() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(
        layer, 3, enable_nested_tensor=False).eval()
    same(model, (torch.randn(3, 6, 16),), "max-autotune")


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_of_transposed_rows_is_one_product(bias: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(12, 20, bias=bias)
    x = torch.randn(3, 5, 12)
    for transposed in (x.transpose(0, 1), x[:, :0].transpose(0, 1), x[:1]):
        torch._dynamo.reset()
        call = torch.compile(model, backend="opgraft")
        found, wanted = call(transposed), model(transposed)
        torch.testing.assert_close(found, wanted)
        assert found.stride() == wanted.stride()
        grads = [torch.autograd.grad(y.square().sum(), model.parameters())
                 for y in (found, wanted)]
        torch.testing.assert_close(*grads)
        assert "f32[3,12,20]" not in opgraft.stats(call).rules()
