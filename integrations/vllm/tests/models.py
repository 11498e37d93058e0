# SPDX-License-Identifier: Apache-2.0
"""Small models of the families that vLLM serves, with random weights as spread
as trained ones, so that log-probabilities tell right from wrong."""

from __future__ import annotations

import pathlib
from typing import Any

BASE: dict[str, Any] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 512,
    "max_position_embeddings": 1024, "tie_word_embeddings": False,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
# By the name of transformers' configuration class, and what differs.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"head_dim": 32}),
    "llama_tied": ("LlamaConfig", {"head_dim": 32, "tie_word_embeddings": True,
                                   "num_key_value_heads": 6}),
    "qwen2": ("Qwen2Config", {"hidden_size": 192}),
    "qwen3": ("Qwen3Config", {"head_dim": 32}),
    "gemma2": ("Gemma2Config", {
        "head_dim": 32, "sliding_window": 32, "query_pre_attn_scalar": 32,
        "attn_logit_softcapping": 20.0, "final_logit_softcapping": 15.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True}),
    "gemma3": ("Gemma3TextConfig", {
        "head_dim": 32, "sliding_window": 32, "query_pre_attn_scalar": 32,
        "hidden_activation": "gelu_pytorch_tanh", "num_hidden_layers": 6,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "tie_word_embeddings": True}),
    "mistral": ("MistralConfig", {"head_dim": 32, "sliding_window": 48}),
    "phi": ("PhiConfig", {"hidden_size": 192, "num_key_value_heads": 6,
                          "partial_rotary_factor": 0.5}),
    "phi3": ("Phi3Config", {"hidden_size": 192}),
    "mixtral": ("MixtralConfig", {"head_dim": 32, "num_local_experts": 4,
                                  "num_experts_per_tok": 2}),
    "gpt_oss": ("GptOssConfig", {
        "head_dim": 32, "sliding_window": 32, "num_local_experts": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"]}),
}


def write(name: str, folder: pathlib.Path) -> pathlib.Path:
    """A checkpoint as a user has it: config.json and model.safetensors."""
    import torch
    import transformers

    kind, given = MODELS[name]
    config = getattr(transformers, kind)(**(BASE | given))
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() > 1:  # a product keeps the spread of what it reads
                p.normal_(0, 1.2 / p.shape[-1] ** 0.5)
            elif "norm" in key:
                p.normal_(0.2 if "gemma" in name else 1.0, 0.1)
            else:
                p.normal_(0, 0.2)
    model.save_pretrained(folder)
    return folder
