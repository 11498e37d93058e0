# SPDX-License-Identifier: Apache-2.0
"""Every operator of some modules, in eager and compiled, on devices: each driver
in a process of its own, forked from this one, which draws the calls and has the
CPU's results.

    python every_operator.py MODULE... -- DRIVER...

The modules' kernels are for the device as well. Prints a line for each driver;
a process that ends otherwise, and a result that differs, is a failure.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

import opgraft
from opgraft import _C

TYPES = {(2, 32): torch.float32, (2, 64): torch.float64, (2, 16): torch.float16,
         (4, 16): torch.bfloat16, (0, 8): torch.int8, (0, 16): torch.int16,
         (0, 32): torch.int32, (0, 64): torch.int64, (1, 8): torch.uint8,
         (5, 64): torch.complex64, (5, 128): torch.complex128,
         (6, 8): torch.bool}
CHOICES, DRAWS, SIZES = 4, 24, (40, 8, 3)

torch.set_num_threads(1)  # no thread is lost in a fork


class Call:
    def __init__(self, module: Any, d: Any, made: Any) -> None:
        _, tensors, attrs = made
        values = [tensor(tensors[p["tensor"]]) if p["tensor"] is not None
                  else attrs[p["attr"]] for p in d.params]
        # A graph that names another device is another device's.
        values = [torch.device("cpu") if isinstance(v, torch.device) else v
                  for v in values]
        self.name, self.written = f"{module.name}.{d.name}", d.mutated
        self.function = getattr(module, d.name.replace(".", "_"))
        self.args = [v for v, p in zip(values, d.params) if not p["kwonly"]]
        self.kwargs = {p["name"]: v for v, p in zip(values, d.params)
                       if p["kwonly"]}

    def run(self, device: str) -> list[torch.Tensor]:
        """The results, and what was written."""
        args, kwargs = moved(self.args, device), moved(self.kwargs, device)
        return flat([self.function(*args, **kwargs),
                     [args[i] for i in self.written]])


def tensor(item: Any) -> Any:
    if item is None:
        return None
    if isinstance(item, list):
        return [tensor(i) for i in item]
    code, bits, sizes, data = item
    kind = TYPES[code, bits]
    return (torch.frombuffer(bytearray(data), dtype=kind).reshape(sizes)
            if data else torch.empty(sizes, dtype=kind))


def moved(value: Any, device: str) -> Any:
    """A copy there."""
    if isinstance(value, list):
        return [moved(v, device) for v in value]
    if isinstance(value, dict):
        return {k: moved(v, device) for k, v in value.items()}
    return (value.to(device, copy=True) if isinstance(value, torch.Tensor)
            else value)


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return [value] if isinstance(value, torch.Tensor) else []


def drawn(path: str) -> list[tuple[Call, list[torch.Tensor]]]:
    """A call of each operator and choice of types that its kernel takes, and
    whose result is the same each time."""
    module = opgraft.load(path)
    found = []
    for d in module._descriptions.values():
        state, before = module._states["base", d.name], len(found)
        for choice in range(CHOICES):
            for seed in range(DRAWS):
                made = _C.sample_call(state, SIZES[seed % 3], choice,
                                       seed * 1000)
                if made is None:
                    continue
                call = Call(module, d, made)
                try:
                    wanted = call.run("cpu")
                except RuntimeError:  # the kernel refuses its values
                    continue
                if alike(wanted, call.run("cpu")):
                    found.append((call, wanted))
                    break
        if len(found) == before:
            print(f"{module.name}.{d.name}: no call was found")
    return found


def compiled(calls: list[Call], device: str) -> list[torch.Tensor]:
    """All of them in one graph, called thrice, so that plans are replayed."""
    def every(inputs: Any) -> Any:
        return [(c.function(*args, **kwargs), [args[i] for i in c.written])
                for c, (args, kwargs) in zip(calls, inputs)]

    torch._dynamo.reset()
    f = torch.compile(every, backend="opgraft", fullgraph=True,
                      options={"mode": "reduce-overhead"})
    for _ in range(3):
        found = f([(moved(c.args, device), moved(c.kwargs, device))
                   for c in calls])
    return flat(found)


def alike(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return all(torch.equal(f.nan_to_num(), w.nan_to_num())
               for f, w in zip(found, wanted, strict=True))


def same(name: str, found: list[torch.Tensor], wanted: list[torch.Tensor]
         ) -> None:
    for f, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(f.cpu(), w, rtol=0, atol=0, equal_nan=True,
                                   msg=lambda text: f"{name}: {text}")


def on_device(driver: str, calls: list[tuple[Call, list[torch.Tensor]]]) -> str:
    device = opgraft.load_device(driver).name
    there = []
    refused = set()
    for call, wanted in calls:
        try:
            same(call.name, call.run(device), wanted)
            there.append((call, wanted))
        except RuntimeError as error:
            if "result's size depends on data" not in str(error):
                raise
            refused.add(call.name)
    found = compiled([c for c, _ in there], device)
    for call, wanted in there:
        same(f"{call.name}, compiled", found[:len(wanted)], wanted)
        found = found[len(wanted):]
    return f"{len(there)} calls, refused {sorted(refused)}"


def main() -> None:
    at = sys.argv.index("--")
    calls = [c for path in sys.argv[1:at] for c in drawn(path)]
    status = 0
    compiled([c for c, _ in calls], "cpu")  # imports what the others use too
    for driver in sys.argv[at + 1:]:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(f"{driver}: {on_device(driver, calls)}", flush=True)
            os._exit(0)
        ended = os.waitpid(child, 0)[1]
        if ended != 0:
            print(f"{driver}: the process ended with {ended:#x}")
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
