# SPDX-License-Identifier: Apache-2.0
"""Which tensor arguments may carry a batch in front, from the shape rule.

A leading pack is any number of dims, so a batch is one more of them. Imports no
host.
"""

from __future__ import annotations

from typing import Any

from .tables import Description


def _leading_pack(items: list[dict[str, Any]]) -> set[int]:
    """The packs that a pattern starts with: one, or what it broadcasts."""
    if not items:
        return set()
    first = items[0]
    if first["kind"] == "pack":
        return {first["dim"]}
    if first["kind"] == "broadcast":
        return set(first["packs"])
    return set()


def _expressions(node: Any) -> list[list[Any]]:
    """Every instruction in a description's rules."""
    if isinstance(node, dict):
        return [i for v in node.values() for i in _expressions(v)]
    if isinstance(node, list):
        if node and isinstance(node[0], str):
            return [node]
        return [i for v in node for i in _expressions(v)]
    return []


def _computed_from(items: list[dict[str, Any]]) -> set[int]:
    """The packs that items look into."""
    found: set[int] = set()
    for item in items:
        if item["kind"] in ("permute", "drop", "keep", "insert"):
            found.add(item["pack"])
        elif item["kind"] == "broadcast":
            found |= set(item["packs"])
    return found


class Absorb:
    """Which tensor arguments may carry the batch in front, and which may not."""

    def __init__(self, d: Description) -> None:
        t = d.tables
        self.leading: dict[int, set[int]] = {
            p["tensor"]: _leading_pack(p["items"]) for p in t["patterns"]
        }
        results = [_leading_pack(s.get("items", [])) for s in t["shapes"]]
        packs = set().union(*results) if results else set()
        uses = {
            i[1] for i in _expressions([t["shapes"], t["conditions"],
                                        t["patterns"]])
            if i[0] in ("dim", "pack_rank", "pack_at")
        }
        for pattern in t["patterns"]:
            uses |= _computed_from(pattern["items"])
        for rule in t["shapes"]:  # a leading broadcast aligns the batch
            uses |= _computed_from(rule.get("items", [])[1:])
            uses |= _computed_from([i for i in rule.get("items", [])[:1]
                                    if i["kind"] != "broadcast"])
        # A rule that looks into the pack would see the batch.
        lists = any(p["list"] for p in d.params if p["tensor"] is not None)
        plain_results = all(
            s["kind"] == "items" and _leading_pack(s["items"])
            for s in t["shapes"]
        )
        is_possible = (
            bool(packs) and plain_results and not lists and not d.mutated
            and not d.numbers
            and not (packs & uses) and "batch_loop" not in t["flags"]
            and not d.is_data_dependent and "random" not in t["flags"]
        )
        self.packs = packs if is_possible else set()
        self.has_broadcast = any(
            s["items"] and s["items"][0]["kind"] == "broadcast"
            for s in t["shapes"] if s["kind"] == "items"
        )
        self.picks = [
            (item["pick"], p["tensor"])
            for p in t["patterns"] for item in p["items"]
            if item.get("pick") is not None
        ]

    def takes(self, tensor: int) -> bool:
        return bool(self.leading.get(tensor, set()) & self.packs)
