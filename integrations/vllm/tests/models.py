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


def _model(name: str, **given: Any) -> Any:
    import torch
    import transformers

    kind, own = MODELS[name]
    config = getattr(transformers, kind)(**(BASE | own | given))
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
    return model


def write(name: str, folder: pathlib.Path, **given: Any) -> pathlib.Path:
    """A checkpoint as a user has it: config.json and model.safetensors."""
    _model(name, **given).save_pretrained(folder)
    return folder


def write_scaled(name: str, folder: pathlib.Path, k_scale: float,
                 v_scale: float, by_head: bool = False) -> pathlib.Path:
    """A checkpoint that says how keys and values are stored: in e4m3, with
    these scales. `by_head`: each KV head has a scale of its own, and keys and
    values as much larger; what reads them is as much smaller, so that the model
    computes the same numbers, to the bit."""
    import torch
    from safetensors.torch import save_file

    model = _model(name)
    tensors = {k: w.contiguous() for k, w in model.state_dict().items()}
    times = 4.0 ** torch.arange(BASE["num_key_value_heads"] if by_head else 1)
    size = model.config.head_dim
    for i in range(BASE["num_hidden_layers"]):
        at = f"model.layers.{i}.self_attn"
        for own, reader, scale in (("k", "q_proj", k_scale), ("v", "o_proj", v_scale)):
            tensors[f"{at}.{own}_scale"] = scale * times
            if by_head:
                tensors[f"{at}.{own}_proj.weight"] *= times.repeat_interleave(
                    size)[:, None]
                read = tensors[f"{at}.{reader}.weight"]
                less = 1 / times.repeat_interleave(
                    size * BASE["num_attention_heads"] // len(times))
                read *= less[:, None] if own == "k" else less
    model.config.quantization_config = {
        "quant_method": "compressed-tensors", "format": "dense",
        "config_groups": {}, "ignore": [], "kv_cache_scheme": {
            "num_bits": 8, "type": "float",
            "strategy": "attn_head" if by_head else "tensor",
            "symmetric": True, "dynamic": False}}
    model.config.save_pretrained(folder)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


# --- Quantised checkpoints ----------------------------------------------------

# Sizes that groups of 128 divide.
WIDE = {"hidden_size": 256, "intermediate_size": 384, "head_dim": 32,
        "num_attention_heads": 8}
# Kind of checkpoint, bits, and the size of a group: -1 is a row, 0 a matrix.
# AWQ's have zeros, and those of names that end with a z.
FORMATS = {
    "gptq4-128": ("gptq", 4, 128), "gptq4-64": ("gptq", 4, 64),
    "gptq4-32": ("gptq", 4, 32), "gptq4-rows": ("gptq", 4, -1),
    "gptq8-rows": ("gptq", 8, -1), "gptq8-64": ("gptq", 8, 64),
    "awq4-128": ("awq", 4, 128), "awq4-32": ("awq", 4, 32),
    "packed4-64z": ("pack-quantized", 4, 64),
    "packed8-rowsz": ("pack-quantized", 8, -1),
    "packed4-128": ("pack-quantized", 4, 128),
    "packed4-32": ("pack-quantized", 4, 32),
    "packed8-rows": ("pack-quantized", 8, -1),
    "w8a8-rows": ("int-quantized", 8, -1),
    "w8a8-matrix": ("int-quantized", 8, 0)}


def _rounded(w: Any, bits: int, group: int, has_zeros: bool
             ) -> tuple[Any, Any, Any, Any]:
    """Codes [out, in], scales and zeros [out, groups] of w, and what they stand
    for; scales are numbers of bf16, so that no type of a checkpoint rounds
    them."""
    import torch

    most = 2 ** (bits - 1)
    size = {-1: w.shape[1], 0: w.numel()}.get(group, group)
    parts = w.reshape(-1, size)
    least = parts.amin(1, keepdim=True) if has_zeros else -parts.abs().amax(
        1, keepdim=True)
    high = parts.amax(1, keepdim=True) if has_zeros else -least
    scale = ((high - least) / (2 * most - 1)).bfloat16().float()
    zero = (-most - least / scale).round() if has_zeros else 0 * scale
    codes = (parts / scale + zero).round().clamp(-most, most - 1)
    shape = 1 if group == 0 else w.shape[0], -1
    return (codes.reshape(w.shape).to(torch.int8), scale.reshape(shape),
            zero.clamp(-most, most - 1).reshape(shape).to(torch.int8),
            ((codes - zero.clamp(-most, most - 1)) * scale).reshape(w.shape))


def _awq_order(codes: Any) -> Any:
    """[rows, n], in the order in which AWQ has eight in a word."""
    eights = codes.reshape(codes.shape[0], -1, 8)
    return eights[:, :, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(codes.shape)


def _tensors_of(form: str, bits: int, at: str, codes: Any, scales: Any,
                zeros: Any | None) -> dict[str, Any]:
    """Of the matrix `at`, as the format's checkpoints have it."""
    import torch
    from compressed_tensors.compressors.pack_quantized import pack_to_int32

    if form == "int-quantized":
        return {f"{at}.weight": codes,
                f"{at}.weight_scale": scales.reshape(-1, 1)
                if scales.numel() > 1 else scales.reshape(1)}
    if form == "awq":
        return {f"{at}.qweight": pack_to_int32(_awq_order(codes.t()), bits),
                f"{at}.qzeros": pack_to_int32(_awq_order(zeros.t()), bits),
                f"{at}.scales": scales.t().contiguous()}
    packed = pack_to_int32(codes, bits)
    if form == "pack-quantized":
        more = {} if zeros is None else {
            f"{at}.weight_zero_point": pack_to_int32(zeros, bits, 0)
            .contiguous()}
        return more | {
            f"{at}.weight_packed": packed, f"{at}.weight_scale": scales,
            f"{at}.weight_shape": torch.tensor(codes.shape)}
    groups = scales.shape[1]
    none = torch.full((codes.shape[0], groups), -1, dtype=torch.int8)
    return {f"{at}.qweight": packed.t().contiguous(),
            f"{at}.qzeros": pack_to_int32(none, bits, 0).t().contiguous(),
            f"{at}.scales": scales.t().contiguous(),
            f"{at}.g_idx": torch.arange(codes.shape[1], dtype=torch.int32)
            // (codes.shape[1] // groups)}


def _config_of(form: str, bits: int, group: int, has_zeros: bool
               ) -> dict[str, Any]:
    if form == "gptq":
        return {"quant_method": "gptq", "bits": bits, "group_size": group,
                "desc_act": False, "sym": True, "lm_head": False}
    if form == "awq":
        return {"quant_method": "awq", "bits": bits, "group_size": group,
                "zero_point": True, "version": "gemm"}
    kind: dict[str, Any] = {"num_bits": bits, "type": "int",
                            "symmetric": not has_zeros}
    weights = kind | {"strategy": {-1: "channel", 0: "tensor"}.get(
        group, "group"), "group_size": group if group > 0 else None}
    inputs = (kind | {"strategy": "token", "dynamic": True}
              if form == "int-quantized" else None)
    return {"quant_method": "compressed-tensors", "format": form,
            "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": weights,
                "input_activations": inputs}}}


def write_quantised(name: str, form: str, folder: pathlib.Path
                    ) -> tuple[pathlib.Path, pathlib.Path]:
    """The checkpoint, and one of the numbers that it stands for, in f32."""
    from safetensors.torch import save_file

    kind, bits, group = FORMATS[form]
    has_zeros = kind == "awq" or form.endswith("z")
    model = _model(name, **WIDE)
    tensors, plain = {}, model.state_dict()
    for key, w in list(plain.items()):
        if not key.endswith("_proj.weight"):
            tensors[key] = w.contiguous()
            continue
        codes, scales, zeros, plain[key] = _rounded(w, bits, group, has_zeros)
        tensors |= _tensors_of(kind, bits, key.removesuffix(".weight"), codes,
                               scales, zeros if has_zeros else None)
    model.load_state_dict(plain)
    model.save_pretrained(folder / "plain")
    model.config.quantization_config = _config_of(
        kind, bits, group, has_zeros)
    model.config.save_pretrained(folder / form)
    save_file(tensors, folder / form / "model.safetensors",
              metadata={"format": "pt"})
    return folder / form, folder / "plain"
