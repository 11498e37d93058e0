# SPDX-License-Identifier: Apache-2.0
"""vLLM's compilation backend: torch.compile's backend "opgraft" with options.

OPGRAFT_VLLM_OPTIONS, a JSON object, adds to the options or replaces them.
"""

from __future__ import annotations

import json
import os
from typing import Any

from torch._dynamo.backends.registry import lookup_backend

# Each count of tokens in a step has a plan of its own: as many stay as there
# are usual sizes of a batch.
OPTIONS = {"mode": "max-autotune", "plan_limit": 64}


def backend(gm: Any, inputs: Any) -> Any:
    options = OPTIONS | json.loads(os.environ.get("OPGRAFT_VLLM_OPTIONS", "{}"))
    return lookup_backend("opgraft")(gm, inputs, options=options)
