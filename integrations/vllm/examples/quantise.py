# SPDX-License-Identifier: Apache-2.0
"""Rounds the linear layers of a checkpoint to 4 bits in groups of 128, in the
form of compressed-tensors: python quantise.py FOLDER OUT. Each weight goes to
the nearest code; tools that look at activations, as GPTQ does, lose less."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import torch
from compressed_tensors.compressors.pack_quantized import pack_to_int32
from safetensors.torch import load_file, save_file

GROUP = 128


def rounded(name: str, w: torch.Tensor) -> dict[str, torch.Tensor]:
    groups = w.float().reshape(w.shape[0], -1, GROUP)
    scale = (groups.abs().amax(2, keepdim=True) / 7.5).bfloat16()
    codes = (groups / scale.float()).round().clamp(-8, 7).to(torch.int8)
    return {f"{name}_packed": pack_to_int32(codes.reshape(w.shape), 4),
            f"{name}_scale": scale.squeeze(2).to(w.dtype),
            f"{name}_shape": torch.tensor(w.shape)}


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    shutil.copytree(folder, out, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("*.safetensors*"))
    for file in folder.glob("*.safetensors"):
        tensors: dict[str, torch.Tensor] = {}
        for name, w in load_file(file).items():
            is_linear = name.endswith("_proj.weight")
            tensors |= rounded(name, w) if is_linear else {name: w}
        save_file(tensors, out / file.name, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "quantization_status": "compressed", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
            "num_bits": 4, "type": "int", "symmetric": True,
            "strategy": "group", "group_size": GROUP}}}}
    (out / "config.json").write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
