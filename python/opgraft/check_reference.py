# SPDX-License-Identifier: Apache-2.0
"""A Python function as the reference of `opgraft check --reference FILE.py`.

    python -m opgraft.check_reference FILE.py FUNCTION SOCKET

Listens at SOCKET, says "ready", and answers one call a connection until its
standard input ends. A request is a line of JSON, {"op": name, "args": [...]},
and the bytes of its tensors in their order; an answer is a line of JSON,
{"shapes": [...]} or {"why": text}, and the results as float64. FUNCTION may be
"": then each operator has the function of its name, or none.

Floats narrower than float32 reach the function as float32: PyTorch would round
each step of it to the narrow type, and a kernel that sums in float32 is right.
What the file prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import select
import socket
import sys
from types import ModuleType
from typing import Any, Callable

import torch

from ._base.rules import DTYPES


def load_file(path: pathlib.Path) -> ModuleType:
    if not path.is_file():
        raise SystemExit(f"opgraft: check: {path}: there is no such file")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"opgraft: check: {path}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


# --- Values ------------------------------------------------------------------


def read_tensor(value: dict[str, Any], stream: io.BufferedRWPair) -> torch.Tensor:
    dtype = DTYPES[value["dtype"]]
    shape = value["shape"]
    count = 1
    for size in shape:
        count *= size
    data = bytearray(stream.read(count * dtype.itemsize))
    if len(data) != count * dtype.itemsize:
        raise ConnectionError("the request ends early")
    tensor = torch.frombuffer(data, dtype=dtype) if count > 0 else \
        torch.empty(0, dtype=dtype)
    is_narrow = dtype.is_floating_point and dtype.itemsize < 4
    return (tensor.float() if is_narrow else tensor).reshape(shape)


def read_value(value: Any, stream: io.BufferedRWPair) -> Any:
    if isinstance(value, list):
        return [read_value(entry, stream) for entry in value]
    if not isinstance(value, dict):
        return value
    if "shape" in value:
        return read_tensor(value, stream)
    if "type" in value:
        return DTYPES[value["type"]]
    return complex(*value["complex"])


def flatten(value: Any) -> list[torch.Tensor]:
    """The results as float64 tensors, lists and tuples spread out."""
    if isinstance(value, (list, tuple)):
        return [entry for part in value for entry in flatten(part)]
    tensor = torch.as_tensor(value).detach()
    if tensor.is_complex():
        raise TypeError("a complex result cannot be compared")
    tensor = tensor.to("cpu", torch.float64)
    return [tensor.resolve_neg().contiguous()]


# --- Answers -----------------------------------------------------------------


class Answers:
    def __init__(self, module: ModuleType, function: str) -> None:
        self.module = module
        self.function = function
        self.told: set[str] = set()  # operators whose function failed

    def find(self, op: str) -> Callable[..., Any] | None:
        """A file's only function may have another name than the operator."""
        return getattr(self.module, self.function or op.split(".")[0], None)

    def answer(self, connection: socket.socket,
               stream: io.BufferedRWPair) -> None:
        request = json.loads(stream.readline())
        args = [read_value(value, stream) for value in request["args"]]
        if is_gone(connection):
            return
        function = self.find(request["op"])
        if function is None:
            self.write(stream, {"why": "it has no reference"}, [])
            return
        try:
            results = flatten(function(*args))
            data = [result.numpy().tobytes() for result in results]
        except (Exception, SystemExit) as error:  # the author's own code
            why = f"{type(error).__name__}: {error}"
            self.tell(request["op"], why)
            self.write(stream, {"why": why}, [])
            return
        self.write(stream, {"shapes": [list(r.shape) for r in results]}, data)

    def tell(self, op: str, why: str) -> None:
        if op in self.told:
            return
        self.told.add(op)
        print(f"opgraft: check: the reference of {op} failed on a call, which "
              f"is not compared: {why}", file=sys.stderr, flush=True)

    @staticmethod
    def write(stream: io.BufferedRWPair, header: dict[str, Any],
              results: list[bytes]) -> None:
        stream.write(json.dumps(header).encode() + b"\n")
        for result in results:
            stream.write(result)
        stream.flush()


def is_gone(connection: socket.socket) -> bool:
    """Whether who asked has ended, or waits no longer."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def answer_next(listener: socket.socket, answers: Answers) -> None:
    connection, _ = listener.accept()
    try:
        with connection, connection.makefile("rwb") as stream:
            answers.answer(connection, stream)
    except (OSError, json.JSONDecodeError):
        pass  # the child that asked was ended
    except Exception as error:  # noqa: BLE001, later calls are answered
        print(f"opgraft: check: a call could not be read, and is not compared: "
              f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)


def serve(answers: Answers, path: str, ready: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        try:
            listener.listen(16)
            os.write(ready, b"ready\n")
            os.close(ready)
            while sys.stdin not in select.select([listener, sys.stdin], [],
                                                 [])[0]:
                answer_next(listener, answers)
        finally:  # check removes both, unless it was killed
            with contextlib.suppress(OSError):
                os.unlink(path)
                os.rmdir(os.path.dirname(path))


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    ready = os.dup(1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    module = load_file(pathlib.Path(sys.argv[1]).resolve())
    function = sys.argv[2]
    if function and not callable(getattr(module, function, None)):
        print(f"opgraft: check: {sys.argv[1]} has no function {function!r}",
              file=sys.stderr)
        return 2
    serve(Answers(module, function), sys.argv[3], ready)
    return 0


if __name__ == "__main__":
    ended = main()
    sys.stderr.flush()
    os._exit(ended)  # PyTorch takes 0.4 s of the processor to go away
