# SPDX-License-Identifier: Apache-2.0
"""Behaviours of names, methods, printing, DLPack, PyTorch's test classes."""

from __future__ import annotations

import types
import unittest
from typing import Any

import pytest
import torch
from on_npu import same
from torch.nn.utils.rnn import PackedSequence


@pytest.mark.behaviour("misc", "the backend keeps its name")
def test_name(npu: Any) -> None:
    """The name may be set again, and not be changed."""
    assert torch._C._get_privateuse1_backend_name() == "npu"
    torch.utils.rename_privateuse1_backend("npu")
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("dev")
    assert torch._C._get_privateuse1_backend_name() == "npu"


@pytest.mark.behaviour("misc", "the profiler's activity has the device's name")
def test_activity(npu: Any) -> None:
    """ProfilerActivity.NPU is the activity of PrivateUse1."""
    activity = torch.profiler.ProfilerActivity
    assert activity.NPU == activity.PrivateUse1
    assert activity.NPU.name == "NPU"
    assert str(activity.NPU) == "ProfilerActivity.NPU"
    assert repr(activity.NPU) == "<ProfilerActivity.NPU: 5>"


@pytest.mark.behaviour("misc", "the device type has the device's name")
def test_device_type(npu: Any) -> None:
    """DeviceType.NPU is the type of PrivateUse1."""
    kind = torch._C._autograd.DeviceType
    assert kind.NPU == kind.PrivateUse1 and kind.NPU.name == "NPU"
    assert str(kind.NPU) == "DeviceType.NPU"
    assert repr(kind.NPU) == "<DeviceType.NPU: 20>"


@pytest.mark.behaviour("misc", "a second backend module is refused")
def test_registration_again(npu: Any) -> None:
    """A module of an unknown device, or a second one, is an error."""
    module = types.ModuleType("fake")
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        torch._register_device_module("dev", module)
    with pytest.raises(RuntimeError, match="The runtime module of 'npu'"):
        torch._register_device_module("npu", module)
    assert torch.get_device_module("npu") is torch.npu


@pytest.mark.behaviour("misc", "functions of the module are found by name")
def test_module_functions(npu: Any) -> None:
    """PyTorch finds torch.npu's functions, and says which one is missing."""
    find = torch.utils.backend_registration._get_custom_mod_func
    assert find("device_count")() == 1
    for name in ("func_name_", "non_existent_func"):
        with pytest.raises(RuntimeError,
                           match=f"Try to call torch.npu.{name}"):
            find(name)


@pytest.mark.behaviour("misc", "tensors, modules, sequences have the methods")
def test_methods_exist(npu: Any) -> None:
    """Classes have npu and is_npu, which cannot be made twice."""
    for kind in (torch.Tensor, PackedSequence):
        assert hasattr(kind, "npu") and hasattr(kind, "is_npu")
    assert hasattr(torch.nn.Module, "npu")
    with pytest.raises(RuntimeError, match="The custom device module of"):
        torch.utils.generate_methods_for_privateuse1_backend()


@pytest.mark.behaviour("misc", "Tensor.npu takes a device or an index")
def test_tensor_methods(npu: Any) -> None:
    """Each form gives a tensor of npu:0; an index that is not there fails."""
    x = torch.arange(4.0)
    assert not x.is_npu
    for y in (x.npu(), x.npu(0), x.npu(torch.device("npu")),
              x.npu(torch.device("npu:0")), x.npu(non_blocking=True)):
        assert y.is_npu and y.device.index == 0
        same(y, x)
    assert y.npu() is y
    with pytest.raises(RuntimeError, match="no device npu:1"):
        x.npu(1)


@pytest.mark.behaviour("misc", "Module.npu moves parameters and buffers")
def test_module_methods(npu: Any) -> None:
    """Parameters and buffers are on the device, and back on the CPU."""
    module = torch.nn.BatchNorm1d(3)
    assert module.npu() is module
    assert module.weight.is_npu and module.running_mean.is_npu
    assert isinstance(module.weight, torch.nn.Parameter)
    same(module.weight.detach(), torch.ones(3))
    same(module.running_mean, torch.zeros(3))
    assert not module.cpu().weight.is_npu


@pytest.mark.behaviour("misc", "Module.npu keeps the parameters' identity")
def test_module_keeps_its_parameters(npu: Any) -> None:
    """An optimizer made before npu() has the module's parameters after it."""
    module = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    module.npu()
    assert optimizer.param_groups[0]["params"][0] is module.weight


@pytest.mark.behaviour("misc", "swapped parameters keep their identity")
def test_module_swaps_its_parameters(npu: Any) -> None:
    """PyTorch's option to swap tensors keeps an optimizer's parameters."""
    module = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    before = module.weight.detach().clone()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.npu()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert optimizer.param_groups[0]["params"][0] is module.weight
    module(torch.ones(1, 2).npu()).sum().backward()
    optimizer.step()
    same(module.weight.detach(), before - 1)


@pytest.mark.behaviour("misc", "PackedSequence.npu moves the data")
def test_packed_sequence(npu: Any) -> None:
    """The data is on the device, with the same values."""
    data, sizes = torch.rand(5, 3), torch.tensor([1, 1, 1, 1, 1])
    packed = PackedSequence(data, sizes)
    assert not packed.is_npu
    moved = packed.npu()
    assert moved.is_npu and moved.data.is_npu
    same(moved.data, data)
    assert torch.equal(moved.batch_sizes, sizes)


@pytest.mark.behaviour("misc", "a tensor's type names the device")
@pytest.mark.parametrize("dtype, name", [
    (torch.bool, "Bool"), (torch.float64, "Double"),
    (torch.float32, "Float"), (torch.float16, "Half"), (torch.int32, "Int"),
    (torch.int64, "Long"), (torch.int8, "Char"), (torch.int16, "Short"),
    (torch.uint8, "Byte"), (torch.bfloat16, "BFloat16")])
def test_type(npu: Any, dtype: torch.dtype, name: str) -> None:
    """type() gives torch.npu.NAMETensor, and torch.NAMETensor on the CPU."""
    x = torch.ones(2, dtype=dtype)
    assert x.type() == f"torch.{name}Tensor"
    assert x.npu().type() == f"torch.npu.{name}Tensor"


@pytest.mark.behaviour("misc", "a tensor prints its values and device")
def test_printing(npu: Any) -> None:
    """The printed text has the values, long tensors are shortened."""
    assert str(torch.ones(3).npu()) == "tensor([1., 1., 1.], device='npu:0')"
    x = torch.arange(2000).npu()
    assert str(x) == ("tensor([   0,    1,    2,  ..., 1997, 1998, 1999], "
                      "device='npu:0')")
    assert "requires_grad=True" in str(torch.ones(1, device="npu",
                                                  requires_grad=True))


# --- DLPack ------------------------------------------------------------------


@pytest.mark.behaviour("dlpack", "a DLPack capsule passes a device's tensor")
def test_dlpack_capsule(npu: Any) -> None:
    """A tensor that went through a capsule shares memory and device."""
    x = torch.arange(6.0).reshape(2, 3).npu()
    y = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert y.device == x.device and y.data_ptr() == x.data_ptr()
    y[0, 0] = 9
    same(x, torch.tensor([[9.0, 1, 2], [3, 4, 5]]))
    z = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x.t()))
    assert z.stride() == (1, 3)


@pytest.mark.behaviour("dlpack", "a tensor itself passes by DLPack")
def test_dlpack_protocol(npu: Any) -> None:
    """__dlpack_device__ is kDLExtDev, and from_dlpack shares memory."""
    x = torch.arange(6.0).npu()
    kind, index = x.__dlpack_device__()
    assert (int(kind), index) == (12, 0)
    y = torch.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr()


# --- PyTorch's test classes --------------------------------------------------


def outcomes(template: type, **options: Any) -> dict[str, str]:
    """The tests of a class that torch.testing makes for the device, by name:
    `ran`, or the reason of a skip."""
    from torch.testing._internal import common_device_type

    # It lists the devices when it is imported: maybe before ours was loaded.
    common_device_type.device_type_test_bases = \
        common_device_type.get_device_type_test_bases()
    made: dict[str, Any] = {template.__name__: template}
    common_device_type.instantiate_device_type_tests(
        template, made, only_for=("npu",), **options)
    [kind] = made.values()
    result = unittest.TestResult()
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
    names = [test.id().rpartition(".")[2] for test in suite]
    suite.run(result)
    assert not result.errors and not result.failures, result
    skips = {test.id().rpartition(".")[2]: reason
             for test, reason in result.skipped}
    return {name: skips.get(name, "ran") for name in names}


@pytest.mark.behaviour("misc", "PyTorch's device tests run on the device")
def test_device_type_tests(npu: Any) -> None:
    """instantiate_device_type_tests makes tests for npu; skips are kept."""
    from torch.testing._internal import common_device_type as common
    from torch.testing._internal.common_utils import TestCase

    class TestTemplate(TestCase):
        def test_device(self, device: str) -> None:
            self.assertEqual(device, "npu:0")
            x = torch.testing.make_tensor((2, 2), device=device,
                                          dtype=torch.float32)
            self.assertEqual(x.cpu().npu(), x)

        @common.onlyPRIVATEUSE1
        def test_only_here(self, device: str) -> None:
            self.assertEqual(torch.device(device).type, "npu")

        @common.onlyCPU
        def test_only_cpu(self, device: str) -> None:
            raise AssertionError(device)

        @common.onlyCUDA
        def test_only_cuda(self, device: str) -> None:
            raise AssertionError(device)

        @common.skipPRIVATEUSE1If(True, "not here")
        def test_not_here(self, device: str) -> None:
            raise AssertionError(device)

    assert outcomes(TestTemplate) == {
        "test_device_npu": "ran", "test_only_here_npu": "ran",
        "test_only_cpu_npu": "Only runs on cpu",
        "test_only_cuda_npu": "Only runs on cuda",
        "test_not_here_npu": "not here"}


@pytest.mark.behaviour("misc", "tests of other devices can be asked for")
def test_bypass_of_device_restrictions(npu: Any) -> None:
    """bypass_device_restrictions runs what is marked for other devices."""
    from torch.testing._internal import common_device_type as common
    from torch.testing._internal.common_utils import TestCase

    class TestBypass(TestCase):
        def setUp(self) -> None:
            self.bypass_device_restrictions = True
            super().setUp()

        @common.onlyCUDA
        def test_only_cuda(self, device: str) -> None:
            self.assertEqual(device, "npu:0")

        @common.onlyOn(["cuda"])
        def test_only_on(self, device: str) -> None:
            self.assertEqual(device, "npu:0")

    assert outcomes(TestBypass) == {"test_only_cuda_npu": "ran",
                                    "test_only_on_npu": "ran"}
