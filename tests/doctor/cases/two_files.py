# SPDX-License-Identifier: Apache-2.0
"""The break lies in another file of the same project."""
import torch
from two_files_lib.blocks import Head

torch.manual_seed(0)
head = torch.compile(Head(), backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        head(torch.ones(2, 4))
