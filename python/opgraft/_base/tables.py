# SPDX-License-Identifier: Apache-2.0
"""A declaration's tables, as opgraft_op_describe writes them (its fields are
listed on top of src/decl/describe.c). Imports no host."""

from __future__ import annotations

import json
from typing import Any


class Description:
    """An operator's tables, and its arguments by position."""

    def __init__(self, text: str) -> None:
        self.tables: dict[str, Any] = json.loads(text)
        t = self.tables
        self.name: str = t["name"]
        self.base_name: str = t["base_name"]
        self.overload: str = t["overload"]
        self.params: list[dict[str, Any]] = t["params"]
        self.results: list[dict[str, Any]] = t["results"]
        self.fresh = [r for r in self.results if r["fresh"] is not None]
        self.numbers = [r for r in self.results if r["value"] is not None]
        self.mutated = [i for i, p in enumerate(self.params) if p["mutated"]]
        self.is_data_dependent: bool = t["has_data_dependent_result"]
        self.defaults = [self.default_value(p) for p in self.params]
        self.by_name = {p["name"]: i for i, p in enumerate(self.params)}

    @property
    def has_callback(self) -> bool:
        return any(s["kind"] == "callback" for s in self.tables["shapes"])

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The value of every parameter, as a call with these gives it."""
        values = list(args) + self.defaults[len(args):]
        for name, value in kwargs.items():
            values[self.by_name[name]] = value
        return values

    def default_value(self, param: dict[str, Any]) -> Any:
        value = param["default"]
        if not isinstance(value, dict):
            return value
        return float(value["float"]) if "float" in value else self.special(value)

    def special(self, value: dict[str, Any]) -> Any:
        """A default that is a type ({"dtype": "f32"}) or a device, as the host
        has it."""
        return value
