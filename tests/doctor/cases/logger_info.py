# SPDX-License-Identifier: Apache-2.0
"""A logger call in a forward pass."""
import logging

import torch
from torch import nn

logger = logging.getLogger("case")
logger.addHandler(logging.NullHandler())


class Pool(nn.Module):
    def forward(self, x):
        y = x.relu()
        logger.info("pooled to %s", tuple(y.shape))
        return y.mean(-1)


pool = torch.compile(Pool(), backend="eager")
for _ in range(3):
    pool(torch.ones(2, 8))
