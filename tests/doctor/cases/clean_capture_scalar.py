# SPDX-License-Identifier: Apache-2.0
"""`.item()` under the flag that captures it."""
import torch

torch._dynamo.config.capture_scalar_outputs = True


@torch.compile(backend="eager")
def scaled(x):
    return x * x.sum().item()


for _ in range(3):
    scaled(torch.ones(4))
