# SPDX-License-Identifier: Apache-2.0
"""A frozen configuration is passed along with every call."""
import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Config:
    scale: float = 2.0
    width: int = 3


@torch.compile(backend="eager")
def widened(x, config):
    return (x * config.scale).repeat(config.width)


config = Config()
for _ in range(4):
    widened(torch.ones(4), config)
