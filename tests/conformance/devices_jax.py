# SPDX-License-Identifier: Apache-2.0
"""Calls on four devices of this CPU, by how their arguments are sharded: the
distance to one device's results, how these are sharded, and the collectives of
the compiled program.

    devices_jax.py MODULE    one JSON object; MODULE is built from divided.c

Each program on a mesh whose axes the partitioner sees, and, as "NAME, typed",
on one whose axes are part of types.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Callable

DEVICES = "--xla_force_host_platform_device_count=4"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import (  # noqa: E402
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
)

import opgraft.jax  # noqa: E402

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute",
               "reduce-scatter")
Function = Callable[..., Any]
Case = tuple[Function, list[Any]]


def drawn(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def cases(m: Any, mesh: Mesh, is_typed: bool) -> dict[str, Case]:
    def put(value: Any, *spec: Any) -> Any:
        return jax.device_put(value, NamedSharding(mesh, PartitionSpec(*spec)))

    x, w, b = drawn(8, 16), drawn(12, 16), drawn(12)
    rows = NamedSharding(mesh, PartitionSpec("data"))

    def shared_inside(x: Any) -> Any:
        # Inside a program parts may be uneven; outside of one, not.
        inside = isinstance(x, jax.core.Tracer)
        return m.softmax(jax.lax.with_sharding_constraint(x, rows)
                         if inside else x)

    found: dict[str, Case] = {
        "rows": (m.affine, [put(x, "data"), w, b]),
        "rows by both": (m.affine, [put(x, ("data", "model")), w, b]),
        "columns": (m.affine, [x, put(w, "model"), put(b, "model")]),
        "rows and columns": (
            m.affine, [put(x, "data"), put(w, "model"), put(b, "model")]),
        "contraction": (
            m.affine, [put(x, None, "model"), put(w, None, "model"), b]),
        "rows and contraction": (
            m.affine, [put(x, "data", "model"), put(w, None, "model"), b]),
        "no bias": (m.affine, [put(x, "data"), put(w, "model")]),
        "softmax of rows": (m.softmax, [put(x, "data")]),
        "softmax of a cut row": (m.softmax, [put(x, "data", "model")]),
        "three dims": (m.softmax, [put(drawn(4, 6, 5), "data", "model")]),
        "a batch": (jax.vmap(m.softmax), [put(drawn(4, 8, 6), None, "data")]),
        "largest, rows cut": (m.largest, [put(x, "data")]),
        "largest, columns cut": (m.largest, [put(x, None, "data")]),
        "largest, both cut": (m.largest, [put(x, "data", "model")]),
        "written": (m.add_into, [put(x, "data", "model"), x]),
        "heads in groups": (m.grouped, [put(drawn(3, 8, 5), None, "model"),
                                        put(drawn(3, 4, 5), None, "model")]),
        "as many heads": (m.grouped, [put(drawn(3, 4, 5), None, "model"),
                                      drawn(3, 4, 5)]),
        "one group": (m.grouped, [put(drawn(3, 8, 5), None, "model"),
                                  drawn(3, 1, 5)]),
        "one behind the other": (
            lambda *a: m.softmax(m.affine(*a)), [put(x, "data"), w, b]),
        "gradient": (
            jax.grad(lambda x, w: jnp.sin(m.scaled(x, w)).sum(), (0, 1)),
            [put(x, "data"), drawn(16)]),
    }
    if not is_typed:
        found |= {
            "inside shard_map": (
                jax.shard_map(m.softmax, mesh=mesh, in_specs=PartitionSpec("data"),
                              out_specs=PartitionSpec("data")),
                [put(x, "data")]),
            "uneven parts": (shared_inside, [drawn(7, 5)]),
        }
    return found


def look(function: Function, args: list[Any]) -> dict[str, Any]:
    jitted = jax.jit(function)
    text = jitted.lower(*args).compile().as_text()
    found = jax.tree.leaves(jitted(*args))
    wanted = jax.tree.leaves(function(*[jnp.asarray(np.asarray(a))
                                        for a in args]))
    counts = {name: len(re.findall(rf"\b{name}(?:-start)?\(", text))
              for name in COLLECTIVES}
    return {
        "distance": max(float(np.abs(np.asarray(f) - np.asarray(w)).max())
                        for f, w in zip(found, wanted)),
        "specs": [list(f.sharding.spec) for f in found],
        "collectives": {name: n for name, n in counts.items() if n},
    }


def main() -> None:
    m = opgraft.jax.load(sys.argv[1])
    assert jax.device_count() == 4
    found = {}
    for kind, ending in (AxisType.Auto, ""), (AxisType.Explicit, ", typed"):
        mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"),
                    axis_types=(kind, kind))
        for name, case in cases(m, mesh, bool(ending)).items():
            found[name + ending] = look(*case)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
