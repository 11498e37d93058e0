# SPDX-License-Identifier: Apache-2.0
"""Two processes, one of which dies: what the other's compiled collectives say,
each in a group of its own. Started by test_distributed.py.

    RANK=0 WORLD_SIZE=2 python killed.py STORE OUT
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import scenes
import torch
import torch.distributed as dist

TIMEOUT = datetime.timedelta(seconds=5)


def outcome(name: str, group: Any) -> dict[str, Any]:
    def run(x: torch.Tensor) -> torch.Tensor:
        return scenes.eager_of(name, x * 2, group.group_name, 2) + 1

    fast = torch.compile(run, backend="opgraft", fullgraph=True)
    begun = time.monotonic()
    try:
        fast(torch.ones(8, 4))
        return {"error": None, "seconds": time.monotonic() - begun}
    except RuntimeError as error:
        return {"error": str(error), "seconds": time.monotonic() - begun}


def main() -> None:
    store, out = sys.argv[1:3]
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=TIMEOUT,
                            init_method=f"file://{store}")
    groups = [dist.new_group(timeout=TIMEOUT) for _ in scenes.COLLECTIVES]
    for group in groups:
        dist.barrier(group)
    # What a process compiles first takes seconds.
    torch.compile(lambda x: x + 1, backend="opgraft")(torch.ones(2))
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    found = {name: outcome(name, group)
             for name, group in zip(scenes.COLLECTIVES, groups)}
    Path(f"{out}.0").write_text(json.dumps(found))
    os._exit(0)


if __name__ == "__main__":
    main()
