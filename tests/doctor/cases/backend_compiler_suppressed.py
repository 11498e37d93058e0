# SPDX-License-Identifier: Apache-2.0
"""The same failure under suppress_errors: the frame runs eagerly."""
import torch

torch._dynamo.config.suppress_errors = True


def picky(graph, inputs):
    for node in graph.graph.nodes:
        if node.target == "cumsum":
            raise NotImplementedError("cumsum is not supported")
    return graph.forward


@torch.compile(backend=picky)
def total(x):
    y = x * 2
    return y.cumsum(0)


for _ in range(3):
    total(torch.ones(4))
