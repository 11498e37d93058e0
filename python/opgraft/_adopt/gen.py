# SPDX-License-Identifier: Apache-2.0
"""Reads a YAML file for `opgraft gen` where the program was built without libyaml.

Prints the file's tree as one line of JSON, in which a value is
["map", line, [[key, value], ...]], ["list", line, [value, ...]] or
["text", line, text, quoted].
"""

from __future__ import annotations

import json
import sys

_DEPTH_MAX = 64
_NODES_MAX = 100000
_NAMES_MAX = 1000


class _SpecError(Exception):
    """Text that begins with file:line."""


class _Reader:
    """A tree in which an alias stands for a copy of what it names."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.count = 0

    def _check(self, line: int, depth: int) -> None:
        self.count += 1
        if depth > _DEPTH_MAX:
            raise _SpecError(
                f"{self.path}:{line}: more than {_DEPTH_MAX} levels deep, or an anchor that holds itself"
            )
        if self.count > _NODES_MAX:
            raise _SpecError(f"{self.path}:{line}: more than {_NODES_MAX} values, aliases counted with what they name")

    def tree(self, node, depth: int = 0) -> list:
        import yaml

        line = node.start_mark.line + 1
        self._check(line, depth)
        if isinstance(node, yaml.ScalarNode):
            return ["text", line, node.value, node.style is not None]
        if isinstance(node, yaml.SequenceNode):
            return ["list", line, [self.tree(item, depth + 1) for item in node.value]]
        pairs: list = []
        names: set[str] = set()
        for key, value in node.value:
            key_line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise _SpecError(f"{self.path}:{key_line}: a key is a list or a map, "
                                 "expected a word")
            if len(names) == _NAMES_MAX:
                raise _SpecError(f"{self.path}:{key_line}: more than {_NAMES_MAX} keys in one map")
            if key.value in names:
                raise _SpecError(f"{self.path}:{key_line}: '{key.value}' stands twice in one map; drop one")
            names.add(key.value)
            pairs.append([key.value, self.tree(value, depth + 1)])
        return ["map", line, pairs]


def tree_of_file(path: str) -> list:
    """The tree of a YAML file; raises _SpecError, whose text begins with file:line."""
    try:
        import yaml
    except ImportError:
        raise _SpecError(
            f"{path}: reading YAML needs PyYAML in {sys.executable}: "
            "run `pip install pyyaml`, or build opgraft where libyaml is"
        ) from None
    with open(path, "rb") as file:
        text = file.read()
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise _SpecError(f"{path}:{line}: is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise _SpecError(f"{path}:1: is not YAML: {error}") from None
    except RecursionError:
        raise _SpecError(f"{path}:1: more than {_DEPTH_MAX} levels deep") from None
    if root is None:
        raise _SpecError(f"{path}:1: is empty, expected the specification of "
                         "an operator")
    return _Reader(path).tree(root)


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m opgraft._adopt.gen SPEC.yaml", file=sys.stderr)
        return 2
    try:
        print(json.dumps(tree_of_file(sys.argv[1])))
    except (_SpecError, OSError) as error:
        print(f"opgraft: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
