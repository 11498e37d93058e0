# SPDX-License-Identifier: Apache-2.0
"""opgraft.transformers: generate compiled once with growing and static caches,
beside transformers' own attention in eager mode."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

from torch._dynamo.utils import counters  # noqa: E402

import opgraft  # noqa: E402
import opgraft.transformers as ours  # noqa: E402

BASE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "vocab_size": 128, "max_position_embeddings": 256, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": None, "use_cache": True}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "window": ("MistralConfig", {"sliding_window": 6}),
    "soft cap": ("Gemma2Config", {"sliding_window": 6,
                                  "attn_logit_softcapping": 2.0}),
    "sinks": ("GptOssConfig", {"sliding_window": 6, "num_local_experts": 2,
                               "num_experts_per_tok": 1}),
}


def model_of(name: str) -> Any:
    kind, own = MODELS[name]
    torch.manual_seed(1)
    config = getattr(transformers, kind)(**(BASE | own))
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:  # logits far apart: equal tokens say much
                parameter.normal_(0, 1.5 / parameter.shape[-1] ** 0.5)
            else:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def prompts(length: int, padding: int = 0, batch: int = 1) -> dict[str, Any]:
    """Of a batch the first prompt is shorter by `padding`, at its left."""
    torch.manual_seed(length)
    tokens = torch.randint(3, 128, (batch, length))
    mask = torch.ones_like(tokens)
    tokens[0, :padding], mask[0, :padding] = 0, 0
    return {"input_ids": tokens, "attention_mask": mask}


def generated(model: Any, cache: str, asked: dict[str, Any]
              ) -> tuple[torch.Tensor, torch.Tensor]:
    static = {"cache_implementation": "static"} if cache == "static" else {}
    out = model.generate(**asked, max_new_tokens=6, do_sample=False,
                         output_logits=True, return_dict_in_generate=True,
                         **static)
    return out.sequences, torch.stack(out.logits)


def graphs() -> int:
    return int(counters["stats"]["unique_graphs"])


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    counters.clear()


@pytest.mark.parametrize("name", MODELS)
def test_attention(name: str) -> None:
    """Without the compiler, a batch of which one prompt is padded."""
    asked = prompts(11, padding=4, batch=3)
    model = model_of(name)
    tokens, logits = generated(model, "growing", asked)
    model.set_attn_implementation("opgraft")
    found = generated(model, "growing", asked)
    torch.testing.assert_close(found[1], logits, atol=1e-4, rtol=1e-4)
    assert torch.equal(found[0], tokens)


@pytest.mark.parametrize("name, cache, padding", [
    ("llama", "growing", 0),
    pytest.param("soft cap", "static", 0, marks=pytest.mark.full),
    pytest.param("window", "growing", 3, marks=pytest.mark.full)])
def test_generate(name: str, cache: str, padding: int) -> None:
    """Prompts of other lengths: what was compiled for the first serves all."""
    asked = [prompts(n, padding) for n in (9, 14, 12)]
    eager = model_of(name)
    expected = [generated(eager, cache, a) for a in asked]
    compiled = ours.compile(model_of(name))
    counts = []
    for a, (tokens, logits) in zip(asked, expected):
        found = generated(compiled, cache, a)
        torch.testing.assert_close(found[1], logits, atol=1e-4, rtol=1e-4)
        assert torch.equal(found[0], tokens)
        counts.append(graphs())
    print(name, cache, "graphs", counts)
    assert counts == [2, 2, 2]
    assert sum(counters["graph_break"].values()) == 0
    for graph in opgraft.stats(compiled).graphs:
        assert graph["nodes"] == graph["native"] > 20, graph["fallbacks"]


def test_training_runs_pytorchs() -> None:
    model = model_of("llama").train()
    asked = prompts(7)["input_ids"]
    expected = model(asked, labels=asked).loss
    model.set_attn_implementation("opgraft")
    found = model(asked, labels=asked).loss
    torch.testing.assert_close(found, expected)
    found.backward()
    assert model.lm_head.weight.grad.abs().max() > 0
    capped = model_of("soft cap").train()
    capped.set_attn_implementation("opgraft")
    with pytest.raises(NotImplementedError, match="choose attn_impl.*eager"):
        capped(asked)


def test_what_is_no_model() -> None:
    with pytest.raises(TypeError, match="is a Linear, expected a PreTrained"):
        ours.compile(torch.nn.Linear(2, 2))


def test_an_old_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", None)
    with pytest.raises(ImportError, match="AttentionMaskInterface is missing: "
                       "pip install 'transformers>=4.53'"):
        importlib.reload(ours)
