# SPDX-License-Identifier: Apache-2.0
"""torch.distributed for tensors of the device: gloo, on copies on the CPU.

It is the default of the device until another back end is registered for it. A
result is written to the device where the work is waited for.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from . import state

_NAME = "opgraft"

# The group's method -> gloo's, with the results as first argument.
_METHODS = {
    "allreduce": "allreduce",
    "allreduce_coalesced": "allreduce_coalesced",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "allgather": "allgather",
    "all_gather_single": "_allgather_base",
    "_allgather_base": "_allgather_base",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_single": "_reduce_scatter_base",
    "_reduce_scatter_base": "_reduce_scatter_base",
    "alltoall": "alltoall",
    "all_to_all_single": "alltoall_base",
    "alltoall_base": "alltoall_base",
    "recv": "recv",
    "recv_anysource": "recv_anysource",
}


class _Defaults(dict[str, str]):
    """torch's map, which keeps whoever registers first, and this back end where
    it has none for the device."""

    def __missing__(self, device: str) -> str:
        if device == state.current().name:
            return _NAME
        raise KeyError(device)


def register() -> None:
    device = state.current().name
    known = dist.Backend.default_device_backend_map
    has_other = device in known
    dist.Backend.register_backend(_NAME, Group, devices=[device, "cpu"])
    if not has_other:
        del known[device]
    dist.Backend.default_device_backend_map = _Defaults(known)


# --- Copies ------------------------------------------------------------------


def _to_cpu(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_to_cpu(v) for v in value]
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def _write_back(to: Any, values: Any) -> None:
    if to is None:
        return
    if isinstance(to, torch.Tensor):
        if to.device != values.device:
            to.detach().copy_(values)
        return
    for each, value in zip(to, values, strict=True):
        _write_back(each, value)


# --- torch's classes ---------------------------------------------------------


class Copied(dist.Work):
    """gloo's work, whose results go to the device."""

    def __init__(self, work: Any, to: Any, values: Any) -> None:
        super().__init__()
        self._work, self._to, self._values = work, to, values
        self._is_written = False

    def wait(self, *timeout: Any) -> bool:
        self._work.wait(*timeout)
        if not self._is_written:
            _write_back(self._to, self._values)
            self._is_written = True
        return True

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def is_success(self) -> bool:
        return self._work.is_success()

    def source_rank(self) -> int:
        return self._work.source_rank()

    _source_rank = source_rank

    def result(self) -> Any:
        return self._to

    def get_future(self) -> Any:
        self.wait()
        future: Any = torch.futures.Future()
        future.set_result(self._to)
        return future


class Group(dist.ProcessGroup):
    """gloo's group, for tensors of the device and of the CPU."""

    def __init__(
        self, store: Any, rank: int, size: int, timeout: Any
    ) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._name = self._description = ""

    def getBackendName(self) -> str:
        return _NAME

    # torch keeps both in the back ends of a group, which this one has not.

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def barrier(self, opts: Any = None) -> Any:
        return self._gloo.barrier()

    def send(self, tensors: Any, rank: int, tag: int) -> Any:
        values = _to_cpu(tensors)
        return Copied(self._gloo.send(values, rank, tag), None, values)


def _method(name: str) -> Any:
    def call(self: Group, to: Any, *others: Any) -> Any:
        values = _to_cpu(to)
        work = getattr(self._gloo, name)(values, *map(_to_cpu, others))
        return Copied(work, to, values)

    return call


for _own, _inner in _METHODS.items():
    setattr(Group, _own, _method(_inner))
