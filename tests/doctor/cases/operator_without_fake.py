# SPDX-License-Identifier: Apache-2.0
"""A custom operator that was registered without a fake kernel."""
import torch

library = torch.library.Library("doctor_nofake", "DEF")
library.define("twist(Tensor x) -> Tensor")
library.impl("twist", lambda x: x.flip(-1), "CPU")


@torch.compile(backend="eager")
def layer(x):
    y = x + 1
    return torch.ops.doctor_nofake.twist(y) * 2


for _ in range(3):
    layer(torch.ones(4))
