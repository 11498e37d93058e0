# SPDX-License-Identifier: Apache-2.0
"""A driver as a device of torch: memory, copies, views, the fallback."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
import torch

import opgraft
from opgraft._device import memory


def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    assert found.device.type == "npu"
    torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=0)


def test_first_slice(npu: Any) -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    same(x.npu() + y.npu(), x + y)
    assert npu.stats()["fallbacks"] == {"aten.add.out": 1}


def test_what_it_is(npu: Any) -> None:
    x = torch.zeros(2, device="npu")
    assert str(x.device) == "npu:0"
    assert torch.npu.device_count() == 1 and torch.npu.current_device() == 0
    assert x.is_npu and not torch.zeros(2).is_npu
    assert npu.lacks == {}
    assert "simulated NPU" in repr(npu)
    assert torch.accelerator.current_accelerator() == torch.device("npu")


@pytest.mark.parametrize("dtype", [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
    torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool,
    torch.complex64])
def test_copies_there_and_back(npu: Any, dtype: torch.dtype) -> None:
    x = torch.arange(24).reshape(2, 3, 4).to(dtype)
    for t in (x, x.transpose(0, 2), x[:, 1:, ::2], x[:0], x[1, 1, 1],
              x[:1].expand(4, 3, 4)):
        same(t.npu(), t)
        same(t.npu().clone(), t)
        same(t.to("npu:0").to(torch.float64 if not dtype.is_complex
                              else torch.complex128),
             t.to(torch.float64 if not dtype.is_complex
                  else torch.complex128))
    assert npu.stats()["fallbacks"] == {}


def test_what_torch_only_says_of_values(npu: Any) -> None:
    """Lazy conjugates and negatives, and zeros without memory."""
    x = torch.tensor([1 + 2j, 3 - 1j])
    y = x.npu()
    for f in (torch.conj, torch.neg, torch._neg_view,
              lambda t: t.conj().imag, lambda t: t.conj() + t):
        same(f(y), f(x))
        same(f(y).clone(), f(x))
        same(f(x).npu(), f(x))
    y.conj().copy_(torch.tensor([5j, 1j]))
    same(y, torch.tensor([-5j, -1j]))
    zero = torch._efficientzerotensor(3)
    same(zero.npu(), torch.zeros(3))
    out = torch.ones(3).npu()
    same(out.copy_(zero), torch.zeros(3))


@pytest.mark.parametrize("number", [3, 2.5, True])
def test_numbers_beside_tensors(npu: Any, number: float) -> None:
    for x in (torch.tensor([5, 7]), torch.tensor([5.5, 7.0]),
              torch.tensor([5.5], dtype=torch.float64)):
        for f in (torch.remainder, torch.add, torch.pow, torch.fmod,
                  torch.true_divide, torch.gt):
            found, wanted = f(x.npu(), number), f(x, number)
            assert found.dtype == wanted.dtype
            torch.testing.assert_close(found.cpu(), wanted)


def test_views_share_memory(npu: Any) -> None:
    x = torch.arange(12.0).npu()
    v = x.view(3, 4)
    row, column, window = v[1], v[:, 2], x.unfold(0, 4, 2)
    v.t()[2].fill_(-1)
    want = torch.arange(12.0)
    want.view(3, 4)[:, 2] = -1
    same(x, want)
    same(row, want.view(3, 4)[1])
    same(column, want.view(3, 4)[:, 2])
    same(window, want.unfold(0, 4, 2))
    assert column.data_ptr() == x.data_ptr() + 8
    column.copy_(torch.tensor([7.0, 8.0, 9.0]))
    want.view(3, 4)[:, 2] = torch.tensor([7.0, 8.0, 9.0])
    same(x, want)


@pytest.mark.parametrize("dtype", [
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16,
    torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("number", [2, 0.7, 300, 1j])
def test_numbers_beside_tensors_without_dims(
    npu: Any, dtype: torch.dtype, number: complex
) -> None:
    """They take part in the type no more than on the CPU."""
    if dtype == torch.float16 and isinstance(number, complex):
        pytest.skip("opgraft has no type complex32")
    zero = torch.tensor(1, dtype=dtype)
    one = torch.tensor([True, False])
    for f in (lambda to: torch.where(to(one[0]), to(zero), number),
              lambda to: torch.where(to(one), number, to(zero)),
              lambda to: torch.add(to(zero), number),
              lambda to: to(zero) // number,
              lambda to: torch.pow(number, to(zero))):
        try:
            wanted = f(lambda t: t)
        except (RuntimeError, NotImplementedError) as error:
            with pytest.raises(type(error)):
                f(torch.Tensor.npu)
            continue
        found = f(torch.Tensor.npu)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found.cpu(), wanted)


def test_results_between_those_of_others(npu: Any) -> None:
    """A result writes its own elements, not the bytes between them."""
    x = torch.tensor([[1.0, 5.0], [4.0, 2.0], [3.0, 3.5]])
    buffer = torch.zeros(3, 2).npu()
    torch.aminmax(x.npu(), dim=1, out=(buffer[:, 0], buffer[:, 1]))
    same(buffer, torch.tensor([[1.0, 5.0], [2.0, 4.0], [3.0, 3.5]]))


def test_threads_write_columns_of_one_tensor(npu: Any) -> None:
    buffer = torch.zeros(4, 6).npu()

    def count(column: torch.Tensor) -> None:
        for _ in range(20):
            column.add_(1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(count, [buffer[:, 0:2], buffer[:, 3]]))
    same(buffer, torch.tensor([20.0, 20, 0, 20, 0, 0]).expand(4, 6))


@pytest.mark.parametrize("shape, stride", [
    ((2, 3), (4, 1)), ((3, 2), (0, 5)), ((2, 2, 2), (2, 8, 1)), ((), ()),
    ((1, 4), (9, 2)), ((0, 3), (3, 1)), ((2, 3), (1, 2))])
def test_runs_are_a_tensors_elements(
    shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    flat = torch.zeros(40)
    flat.as_strided(shape, stride).fill_(1)
    length, begins = memory.runs(torch.empty(40).as_strided(shape, stride))
    found = torch.zeros(40)
    for begin in begins:
        found[begin:begin + length] += 1
    assert found.tolist() == flat.tolist()


def test_printing_and_numbers(npu: Any) -> None:
    x = torch.tensor([1.0, 2.5]).npu()
    assert repr(x) == "tensor([1.0000, 2.5000], device='npu:0')"
    assert x[1].item() == 2.5 and x.tolist() == [1.0, 2.5]
    assert bool(x[0] == 1) and torch.equal(x, x.clone())
    with pytest.raises(TypeError):
        x.numpy()


def test_in_place_out_and_resize(npu: Any) -> None:
    x = torch.arange(6.0).npu()
    assert x.add_(1) is x
    x.mul_(x)
    same(x, (torch.arange(6.0) + 1) ** 2)
    out = torch.empty(0, device="npu")
    assert torch.add(x, x, out=out) is out
    same(out, 2 * (torch.arange(6.0) + 1) ** 2)
    x.resize_(8)
    same(x[:6], (torch.arange(6.0) + 1) ** 2)
    first = x[:3]
    first.zero_()
    assert x.cpu()[:3].tolist() == [0, 0, 0]


def test_a_storage_that_is_shared_does_not_grow(npu: Any) -> None:
    x = torch.arange(6.0).npu()
    view = x[1:3]
    x.resize_(4)  # it has room
    for tensor in (x, view):
        with pytest.raises(RuntimeError, match="holds 6 and is shared with"):
            tensor.resize_(100)
    view.fill_(9)
    same(x, torch.tensor([0.0, 9, 9, 3]))
    del view, tensor
    x.resize_(100)
    same(x[:4], torch.tensor([0.0, 9, 9, 3]))


def test_resize_takes_a_memory_format(npu: Any) -> None:
    x, y = torch.empty(0, device="npu"), torch.empty(0)
    for t in (x, y):
        t.resize_((2, 3, 4, 5), memory_format=torch.channels_last)
    assert x.stride() == y.stride()
    with pytest.raises(RuntimeError, match="preserve_format"):
        x.resize_(2, memory_format=torch.preserve_format)


def test_lists_several_results_and_factories(npu: Any) -> None:
    x = torch.tensor([3.0, 1.0, 2.0]).npu()
    values, order = x.sort()
    same(values, torch.tensor([1.0, 2.0, 3.0]))
    same(order, torch.tensor([1, 2, 0]))
    same(torch.cat([x, values]), torch.tensor([3.0, 1, 2, 1, 2, 3]))
    same(torch.arange(5, device="npu"), torch.arange(5))
    same(torch.ones_like(x), torch.ones(3))
    torch._foreach_add_([x, values], 1)
    same(x, torch.tensor([4.0, 2.0, 3.0]))
    same(values, torch.tensor([2.0, 3.0, 4.0]))
    same(x[torch.tensor([True, False, True]).npu()], torch.tensor([4.0, 3.0]))
    torch.npu.manual_seed(5)
    a = torch.rand(4, device="npu")
    torch.manual_seed(5)
    same(a, torch.rand(4))


def test_training_step_is_the_cpus(npu: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.LayerNorm(72), torch.nn.Linear(72, 3))
    twin = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.LayerNorm(72), torch.nn.Linear(72, 3))
    twin.load_state_dict(model.state_dict())
    twin.npu()
    x, y = torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 1])
    for m, device in ((model, "cpu"), (twin, "npu")):
        optimizer = torch.optim.AdamW(m.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(
                m(x.to(device)), y.to(device)).backward()
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert b.device.type == "npu" and b.grad is not None
        torch.testing.assert_close(b.detach().cpu(), a.detach())


def test_compiled_with_aot_eager(npu: Any) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu().sum()

    x, w = torch.randn(4, 3), torch.randn(3, 5)
    a = w.clone().npu().requires_grad_()
    b = w.clone().requires_grad_()
    torch.compile(f, backend="aot_eager", fullgraph=True)(
        x.npu(), a).backward()
    f(x, b).backward()
    torch.testing.assert_close(a.grad.cpu(), b.grad)


def test_memory_is_counted_and_given_back(npu: Any) -> None:
    gc.collect()
    before = npu.stats()["memory"]["live"]
    x = torch.zeros(1000, device="npu")
    v = x[10:]
    assert npu.stats()["memory"]["live"] == before + 1
    held = torch.npu.memory_allocated()
    del x
    assert torch.npu.memory_allocated() == held
    del v
    assert npu.stats()["memory"]["live"] == before
    assert torch.npu.memory_allocated() == held - 4096
    made = npu.stats()["memory"]["driver_allocations"]
    for _ in range(5):
        torch.zeros(1000, device="npu")
    assert npu.stats()["memory"]["driver_allocations"] == made
    assert torch.npu.memory_reserved() >= torch.npu.memory_allocated() + 4096
    torch.npu.empty_cache()
    assert npu.stats()["memory"]["kept_bytes"] == 0
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated()


def test_the_fallback_leaves_nothing_behind(npu: Any) -> None:
    model = torch.nn.Linear(4, 4).npu()
    gc.collect()
    gc.disable()
    try:
        seen = []
        for _ in range(4):
            model.zero_grad()
            model(torch.randn(2, 4).npu()).sum().backward()
            seen.append(npu.stats()["memory"]["live"])
    finally:
        gc.enable()
    assert seen[1:] == seen[:1] * 3


def test_out_of_memory_is_an_error(npu: Any) -> None:
    with pytest.raises(MemoryError, match="no room for"):
        torch.empty(1 << 30, device="npu")
    same(torch.ones(2, device="npu"), torch.ones(2))


def test_save_and_load(npu: Any) -> None:
    x = torch.arange(6.0).npu()
    file = io.BytesIO()
    torch.save({"x": x, "v": x[2:4]}, file)
    file.seek(0)
    back = torch.load(file)
    same(back["x"], torch.arange(6.0))
    back["v"].zero_()
    assert back["x"].tolist() == [0, 1, 0, 0, 4, 5]
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")["x"]
    assert on_cpu.device.type == "cpu" and on_cpu.tolist() == list(range(6))
    file = io.BytesIO()
    torch.save(torch.arange(3), file)
    file.seek(0)
    same(torch.load(file, map_location="npu"), torch.arange(3))


def test_under_a_default_device(npu: Any) -> None:
    file = io.BytesIO()
    torch.save(torch.arange(3.0).npu(), file)
    file.seek(0)
    torch.set_default_device("npu")
    try:
        back, scaled = torch.load(file), torch.arange(3.0) * 2
        whole = torch.where(torch.tensor(True), torch.tensor(2), 1.5)
    finally:
        torch.set_default_device(None)
    same(back, torch.arange(3.0))
    same(scaled, torch.arange(3.0) * 2)
    same(whole, torch.tensor(2.0))


def test_fallback_that_is_forbidden(
    npu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPGRAFT_FALLBACK", "error")
    x = torch.ones(2, 2).npu()
    assert x.t().cpu().tolist() == [[1, 1], [1, 1]]
    with pytest.raises(NotImplementedError, match="aten.*sin.*has no kernel on "
                                                  "npu.*OPGRAFT_FALLBACK"):
        x.sin()
    assert npu.stats()["fallbacks"] == {}


def test_refusals(npu: Any, npu_path: Path) -> None:
    with pytest.raises(RuntimeError, match="there is no device npu:7, expected "
                                           "npu:0 to npu:0"):
        torch.empty(2, device="npu:7")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2).npu() + torch.ones(2)
    with pytest.raises(RuntimeError, match="room for one such device"):
        opgraft.load_device(npu_path, options="seed=2")
    assert opgraft.load_device(npu_path,
                               options="seed=1,delay_us=20,races=1") is npu


def test_a_driver_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="could not open"):
        run_alone(f"opgraft.load_device({str(tmp_path / 'no.so')!r})")


def run_alone(text: str) -> str:
    """In a process of its own; raises what ended it, by type and text."""
    code = ("import opgraft, torch\n"
            "try:\n    " + text.replace("\n", "\n    ") + "\n"
            "except Exception as error:\n"
            "    print('RAISED', type(error).__name__, error)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True,
                          text=True, timeout=120)
    if done.returncode != 0:
        raise ChildProcessError(done.returncode, done.stderr)
    if done.stdout.startswith("RAISED "):
        _, name, said = done.stdout.split(" ", 2)
        raise {"OSError": OSError, "RuntimeError": RuntimeError}[name](said)
    return done.stdout


@pytest.mark.full
def test_a_name_that_torch_has(
    tmp_path: Path, build: Callable[..., Path], npu_path: Path
) -> None:
    folder = Path(__file__).resolve().parents[3] / "devices"
    source = tmp_path / "mps.c"
    source.write_text((folder / "npu_sim.c").read_text().replace(
        '.name = "npu"', '.name = "mps"'))
    others = (str(p) for p in folder.glob("npu_*.c") if p.name != "npu_sim.c")
    path = build(source, (f"-I{folder}", *others, "-pthread"))
    with pytest.raises(RuntimeError, match="'mps', and torch has torch.mps"):
        run_alone(f"opgraft.load_device({str(path)!r})")
    # It is closed: another driver of its type can be loaded.
    text = (f"try:\n    opgraft.load_device({str(path)!r})\n"
            "except RuntimeError:\n    pass\n"
            f"opgraft.load_device({str(npu_path)!r})\n"
            "print(torch.ones(2).npu().tolist())")
    assert run_alone(text) == "[1.0, 1.0]\n"


def test_a_child_of_fork_is_refused(npu_path: Path) -> None:
    text = (f"opgraft.load_device({str(npu_path)!r})\n"
            "import os\n"
            "x = torch.ones(2).npu()\n"
            "child = os.fork()\n"
            "said = []\n"
            "for use in (x.cpu, torch.npu.synchronize, torch.npu.empty_cache,\n"
            "            lambda: torch.empty(2, device='npu'),\n"
            "            lambda: torch.ones(2).npu()) if child == 0 else ():\n"
            "    try:\n        use()\n"
            "    except RuntimeError as error:\n"
            "        said.append('in the process that uses it' in str(error))\n"
            "if child == 0:\n"
            "    del x\n"
            "    os._exit(said != [True] * 5 or not torch.npu._is_in_bad_fork())\n"
            "print(os.waitpid(child, 0)[1], torch.npu._is_in_bad_fork(),\n"
            "      x.tolist())")
    assert run_alone(text) == "0 False [1.0, 1.0]\n"


def test_options_that_are_wrong(npu_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the option is 'speed=9', expected"):
        run_alone(f"opgraft.load_device({str(npu_path)!r}, 'speed=9')")


def test_host_access_ends_the_process_and_says_why(npu_path: Path) -> None:
    text = (f"opgraft.load_device({str(npu_path)!r})\n"
            "import ctypes\n"
            "x = torch.ones(4).npu()\n"
            "print(ctypes.c_float.from_address(x.data_ptr()).value)")
    with pytest.raises(ChildProcessError) as raised:
        run_alone(text)
    status, said = raised.value.args
    assert status == -11
    assert "npu: the host accesses byte 0 of" in said


def test_a_signal_that_was_sent_ends_the_process(npu_path: Path) -> None:
    text = (f"opgraft.load_device({str(npu_path)!r})\n"
            "import os, signal\n"
            "os.kill(os.getpid(), signal.SIGSEGV)\n"
            "print('it goes on')")
    with pytest.raises(ChildProcessError) as raised:
        run_alone(text)
    assert raised.value.args[0] == -11
