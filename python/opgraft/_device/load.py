# SPDX-License-Identifier: Apache-2.0
"""opgraft.load_device: a driver becomes a device of torch."""

from __future__ import annotations

import os

import torch
from torch.utils import backend_registration

from .. import _C
from .._base import host, locks
from . import (
    accelerator,
    autocast,
    dlpack,
    fallback,
    operators,
    registry,
    state,
    storage,
)
from .backend import Backend
from .state import Device


def load_device(path: str | os.PathLike[str], options: str = "") -> Device:
    """Loads a driver that ends with OG_DEVICE_DRIVER, and registers its device.

    The driver's name is the device's: torch.device("npu:0"), tensor.npu(),
    torch.npu. A process has one; the same file and options give it again.
    `options` are the driver's own.

    OSError where the path is no driver; RuntimeError where a function of the
    driver's table is missing or wrong, or the process has another device.

        >>> device = opgraft.load_device("npu_sim.so", "seed=1")
        >>> torch.ones(2, device="npu").sum()
        tensor(2., device='npu:0')
    """
    host.prepare()
    where = os.path.realpath(os.fspath(path))
    with locks.registry:
        known = state.loaded
        if known is None:
            return _open(where, options)
        if (known.path, known.options) == (where, options):
            return known
    raise RuntimeError(
        f"{where}: torch has room for one such device, and {known.name} is "
        f"{known.path} with options {known.options!r}; start another process")


def _open(where: str, options: str) -> Device:
    device = Device(where, options)
    try:
        return _register(device)
    except BaseException:
        if device.cxx_missing is not None:  # else torch's C++ has the driver
            _C.device_close(device.handle)  # or no other one gets its type
        raise


def _register(device: Device) -> Device:
    if hasattr(torch, device.name):
        raise RuntimeError(
            f"{device.path}: the driver's name is {device.name!r}, and torch "
            f"has torch.{device.name} already; give the driver another name")
    backend = Backend(device)
    _register_backend(device, backend)
    operators.register()
    host.on_copies[device.name] = fallback.run
    autocast.register()
    state.loaded = device
    storage.register(load_device)
    dlpack.register()
    accelerator.register(backend)
    _register_process_group()
    return device


def _register_backend(device: Device, backend: Backend) -> None:
    """With the guard and hooks of the C++ part, else with torch's own."""
    try:
        library = registry.build()
        _C.device_register(device.handle, library)
        device.cxx_missing = None
    except (registry.Missing, OSError, RuntimeError) as error:
        device.cxx_missing = str(error)
        backend_registration._setup_privateuseone_for_python_backend(
            device.name, backend_module=backend,
            hook=backend_registration._DummyPrivateUse1Hook(),
            device_guard=backend_registration._DummyDeviceGuard())
        return
    torch.utils.rename_privateuse1_backend(device.name)
    torch.utils.generate_methods_for_privateuse1_backend()
    torch._register_device_module(device.name, backend)


def _register_process_group() -> None:
    """Only where torch was built with gloo: its classes are missing else."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_gloo_available():
        from . import process_group

        process_group.register()
