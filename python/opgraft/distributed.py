# SPDX-License-Identifier: Apache-2.0
"""How operators share their work between machines.

    python -m opgraft.distributed [--json | --markdown] [FILE.so ...]

prints which dims of each operator DTensor may shard; without a file, those of
the operator library. Loading an operator registers its rules with
torch.distributed.tensor as soon as that is imported; nothing has to be called.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

from ._base import sharding
from ._load.module import Module, load


@dataclass(frozen=True)
class Rule:
    """What DTensor may do with an operator's arguments."""

    operator: str  # "linear.linear_backward"
    cuts: list[str]  # as `.reduce` writes them; a leading pack is there unsaid
    refusal: str | None  # why it takes no DTensor at all
    is_derived: bool = False  # from another operator's formula


def rules(module: Module) -> list[Rule]:
    """The sharding rule of each operator of a module."""
    out = []
    for d in module._descriptions.values():
        why = sharding.refusal(d)
        found = [] if why else [sharding.text(d, c) for c in sharding.cuts(d)]
        out.append(Rule(f"{module.name}.{d.name}", found, why,
                        d.tables["is_derived"]))
    return out


def table(found: list[Rule]) -> str:
    """The rules as Markdown, without those of derived gradients."""
    lines = ["| Operator | Cuts |", "|---|---|"]
    for rule in found:
        if rule.is_derived:
            continue
        cuts = "; ".join(f"`{cut}`" for cut in rule.cuts)
        how = rule.refusal and f"none: {rule.refusal}"
        lines.append(f"| `{rule.operator}` | "
                     f"{how or cuts or 'none: it names no dim'} |")
    return "\n".join(lines)


def sums_bytes(ranks: int, tokens: int, width: int, blocks: int = 1,
               item_bytes: int = 4) -> int:
    """What a rank sends in a training step of blocks that are shared by columns
    and then rows: two sums of the activations in forward and two in backward,
    each 2 (n - 1) / n of the tensor in a ring."""
    one = tokens * width * item_bytes
    return blocks * 4 * 2 * (ranks - 1) * one // ranks


def _modules(paths: list[str]) -> list[Module]:
    if paths:
        return [load(path) for path in paths]
    from . import ops

    return list(ops._modules.values())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m opgraft.distributed",
                                     description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    found = [rule for m in _modules(args.files) for rule in rules(m)]
    if args.json:
        print(json.dumps([asdict(rule) for rule in found]))
        return
    if args.markdown:
        print(table(found))
        return
    width = max((len(rule.operator) for rule in found), default=0)
    for rule in found:
        how = rule.refusal or "; ".join(rule.cuts) or "whole: it names no dim"
        print(f"{rule.operator:{width}}  {how}")


if __name__ == "__main__":
    main()
