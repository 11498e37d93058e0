# SPDX-License-Identifier: Apache-2.0
"""A layer called with frozen and with trainable inputs."""
import torch


@torch.compile(backend="aot_eager")
def project(x):
    return (x * 2).sum()


frozen = torch.ones(4)
trained = torch.ones(4, requires_grad=True)
for x in (frozen, trained, frozen, trained):
    project(x)
