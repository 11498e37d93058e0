#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the models of architectures.txt, tiny and with random weights.

`architectures.py` lists them; `--check` builds each and runs it eagerly. It
needs `pip install transformers` at the version that the list names.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("architectures.txt")
INPUT = re.compile(r"(\w+)=(int|float)\[([\d,]+)\](?:<(\d+))?")
FIRST_TOKEN = 3  # those below are often padding, begin and end


@dataclass(frozen=True)
class Architecture:
    config: str
    model: str
    inputs: str
    overrides: dict[str, Any]

    def build(self, seed: int = 0) -> Any:
        """The model in eval mode; its weights follow from the seed alone."""
        import torch
        import transformers

        torch.manual_seed(seed)
        config = getattr(transformers, self.config)(**self.overrides)
        return getattr(transformers, self.model)(config).eval()

    def arguments(self, seed: int = 0) -> dict[str, Any]:
        """Keyword arguments for one call: float in [0, 1), int below bound."""
        import torch

        torch.manual_seed(seed)
        out = {}
        for word in self.inputs.split():
            match = INPUT.fullmatch(word)
            assert match, word
            shape = [int(size) for size in match[3].split(",")]
            out[match[1]] = torch.rand(shape) if match[2] == "float" else \
                torch.randint(FIRST_TOKEN, int(match[4]), shape)
        return out


def version() -> str:
    found = re.search(r"transformers==(\S+?);", LIST.read_text())
    assert found
    return found[1]


def listed() -> list[Architecture]:
    out = []
    for line in LIST.read_text().splitlines():
        if not line.startswith("#"):
            config, model, inputs, overrides = line.split(" | ")
            out.append(Architecture(config, model, inputs,
                                    json.loads(overrides)))
    return out


def check(one: Architecture) -> str:
    import torch

    begin = time.perf_counter()
    try:
        model = one.build()
        with torch.no_grad():
            model(**one.arguments())
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    count = sum(p.numel() for p in model.parameters())
    return f"{count} parameters, {time.perf_counter() - begin:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true",
                        help="build each and run it")
    args = parser.parse_args()
    failed = 0
    for one in listed():
        said = check(one) if args.check else one.model
        failed += said.startswith("failed")
        print(f"{one.config:<32}{said}", flush=True)
    print(f"{len(listed())} architectures of transformers {version()}"
          + (f", {failed} failed" if args.check else ""))
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
