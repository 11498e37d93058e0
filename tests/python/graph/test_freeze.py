# SPDX-License-Identifier: Apache-2.0
"""opgraft.freeze, opgraft.export, and the failing calls that are kept."""

from __future__ import annotations

import copy
import itertools
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import opgraft

GuardError = opgraft.GuardError


def find_program() -> str | None:
    build = os.environ.get("OPGRAFT_BUILD")
    places = [pathlib.Path(build) / "bin" / "opgraft"] if build else []
    places.append(pathlib.Path(sys.executable).with_name("opgraft"))
    found = next((p for p in places if p.exists()), None)
    return str(found) if found else shutil.which("opgraft")


def run(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = find_program()
    if program is None:
        pytest.skip("the program is not built: set OPGRAFT_BUILD")
    return subprocess.run([program, "run", *words], cwd=folder, text=True,
                          capture_output=True, timeout=120)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.qkv(x).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norms[0](x + self.out(a.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """BERT's shape: embeddings, post-norm layers, a mask, a pooled output."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 3
                 ) -> None:
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.places = nn.Embedding(32, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.pool = nn.Linear(width, width)
        self.register_buffer("order", torch.arange(32)[None])

    def forward(self, ids: Any, mask: Any) -> Any:
        x = self.words(ids) + self.places(self.order[:, :ids.shape[1]])
        x = self.norm(x)
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pool(x[:, 0]))


def encoder() -> tuple[nn.Module, tuple[Any, ...]]:
    ids = torch.randint(0, 100, (2, 12))
    mask = torch.ones(2, 12)
    mask[1, 7:] = 0
    return Encoder().eval(), (ids, mask)


def add(a: Any, b: Any) -> Any:
    return a * 2 + b


@pytest.fixture
def frozen() -> Any:
    return opgraft.freeze(add, (torch.randn(3, 4), torch.randn(3, 4)))


# --- Values ------------------------------------------------------------------


def test_a_frozen_model_gives_what_the_model_gives() -> None:
    model, args = encoder()
    f = opgraft.freeze(model, args)
    with torch.no_grad():
        for _ in range(2):
            found, wanted = f(*args), model(*args)
            for a, b in zip(found, wanted, strict=True):
                torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
        held = f(*args)[0].clone()
        first = f(*args)[0]
        args[0].random_(0, 100)
        f(*args)
        assert torch.equal(first, held)  # an output stays as it was
        # A parameter that changes in place is the model's own.
        model.pool.bias.add_(1)
        torch.testing.assert_close(f(*args)[1], model(*args)[1])


def test_arguments_and_results_may_be_built_up() -> None:
    def model(x: Any, others: dict[str, Any], *, scale: Any) -> Any:
        return {"y": x * scale + others["b"], "n": 3, "l": [x.sum()]}

    x, b, s = torch.randn(2), torch.randn(2), torch.randn(())
    f = opgraft.freeze(model, (x, {"b": b}), {"scale": s})
    found = f(x, {"b": b}, scale=s)
    assert found["n"] == 3 and torch.equal(found["y"], x * s + b)
    torch.testing.assert_close(found["l"][0], x.sum())
    with pytest.raises(GuardError, match="argument others is built as"):
        f(x, {"c": b}, scale=s)
    one = opgraft.freeze(lambda a: (a + 1,), (x,))
    assert isinstance(one(x), tuple) and torch.equal(one(x)[0], x + 1)
    assert torch.equal(opgraft.freeze(lambda a: a + 1, (x,))(x), x + 1)


def test_buffers_and_arguments_are_written_back() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Any, log: Any) -> Any:
            self.seen.add_(x)
            log.mul_(2)
            return self.seen * 10

    model = Counter()
    f = opgraft.freeze(model, (torch.ones(3), torch.ones(2)))
    model.seen.zero_()
    log = torch.ones(2)
    assert torch.equal(f(torch.ones(3), log), torch.full((3,), 10.0))
    assert torch.equal(f(torch.ones(3), log), torch.full((3,), 20.0))
    assert torch.equal(log, torch.full((2,), 4.0))
    assert torch.equal(model.seen, torch.full((3,), 2.0))


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_the_host_learns_in_any_mode(mode: str) -> None:
    code = (
        "import torch, opgraft\n"
        "from opgraft import _C\n"
        f"with torch.{mode}():\n"
        "    f = opgraft.freeze(lambda a: a + 1, (torch.ones(2),))\n"
        "inside = _C.guard_state()\n"
        "print(inside['keys'] and inside['bump'] and inside['words'])\n"
        "print(f(torch.ones(2)).tolist())\n")
    done = subprocess.run([sys.executable, "-c", code], text=True,
                          capture_output=True, timeout=120)
    assert done.stdout == "True\n[2.0, 2.0]\n", done.stdout + done.stderr


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(16, 32)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        for step in x:
            h, c = self.cell(step, (h, c))
        return h, c


@pytest.mark.parametrize("first, then", list(itertools.permutations(
    [torch.enable_grad, torch.no_grad, torch.inference_mode], 2)))
def test_a_frozen_call_in_one_mode_and_another(first: Any, then: Any) -> None:
    """Nodes that ATen runs keep no tensor of a mode that has ended."""
    x = torch.randn(3, 8, 8)
    f = opgraft.freeze(lambda x: torch.linalg.qr(x)[0].mean(1), (x,))
    for mode in (first, then, first):
        with mode():
            torch.testing.assert_close(f(x), torch.linalg.qr(x)[0].mean(1))


def test_arenas_are_as_small_as_they_can_be() -> None:
    conv = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 1, 1), nn.GroupNorm(4, 32), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).eval()
    states = torch.randn(2, 32), torch.randn(2, 32)
    for model, args in (encoder(), (conv, (torch.randn(2, 3, 32, 32),)),
                        (Recurrent(), (torch.randn(6, 2, 16), *states))):
        f = opgraft.freeze(model, args)
        with torch.no_grad():
            f(*args)
        stats = json.loads(f.graph.stats())
        assert stats["arena_bytes"] <= 1.03 * stats["lower_bound_bytes"]
        assert stats["fallbacks"] == []


# --- Guards ------------------------------------------------------------------


def test_guard_dtype(frozen: Any) -> None:
    with pytest.raises(GuardError, match=r"argument b is f64\[3, 4\], .*f32\[3, 4\]"):
        frozen(torch.randn(3, 4), torch.randn(3, 4).double())


def test_guard_size(frozen: Any) -> None:
    with pytest.raises(GuardError, match=r"argument b is f32\[3, 5\], .*f32\[3, 4\]"):
        frozen(torch.randn(3, 4), torch.randn(3, 5))


def test_guard_rank(frozen: Any) -> None:
    with pytest.raises(GuardError, match=r"argument b is f32\[4\], .*f32\[3, 4\]"):
        frozen(torch.randn(3, 4), torch.randn(4))


def test_guard_stride(frozen: Any) -> None:
    with pytest.raises(GuardError, match=r"argument b has strides \(1, 3\), .*strides \(4, 1\); "
                                         r"pass b.contiguous\(\)"):
        frozen(torch.randn(3, 4), torch.randn(4, 3).t())


def test_guard_device(frozen: Any) -> None:
    with pytest.raises(GuardError, match=r"argument 1 \(b\).*on the CPU"):
        frozen(torch.randn(3, 4), torch.empty(3, 4, device="meta"))


def test_guard_kind(frozen: Any) -> None:
    with pytest.raises(GuardError, match=r"argument 0 \(a\) is <class 'int'>"):
        frozen(1, torch.randn(3, 4))
    with pytest.raises(GuardError, match="expected a plain"):
        frozen(torch.randn(3, 4), torch.randn(3, 4).to_sparse())


def test_guard_count(frozen: Any) -> None:
    with pytest.raises(GuardError, match="missing a required argument: 'b'"):
        frozen(torch.randn(3, 4))


def scaled(x: Any, scale: Any, up: bool = True, *, bias: Any = None) -> Any:
    y = x * scale if up else x
    return y if bias is None else y + bias


def test_keywords_and_defaults_may_be_given_otherwise_than_when_frozen(
) -> None:
    x, scale = torch.randn(3), torch.randn(3)
    f = opgraft.freeze(scaled, (x, scale))
    for found in (f(x, scale), f(x, scale=scale), f(scale=scale, x=x),
                  f(x, scale, True), f(x, scale, bias=None)):
        assert torch.equal(found, x * scale)
    with pytest.raises(GuardError, match="argument up is False, .*default, True"):
        f(x, scale, False)
    with pytest.raises(GuardError, match=r"argument bias is f32\[3\]"):
        f(x, scale, bias=x)
    with pytest.raises(GuardError, match="unexpected keyword argument 'shift'"):
        f(x, scale, shift=x)
    g = opgraft.freeze(scaled, (x,), {"scale": scale, "bias": x})
    assert torch.equal(g(x, scale, True, bias=x), x * scale + x)


def test_errors_name_the_callers_argument() -> None:
    def model(batch: dict[str, Any], masks: list[Any]) -> Any:
        return batch["ids"] * masks[0] + masks[1]

    x = torch.randn(2, 4)
    f = opgraft.freeze(model, ({"ids": x}, [x, x]))
    with pytest.raises(GuardError, match=r"argument masks\[1\] has strides"):
        f({"ids": x}, [x, torch.randn(4, 2).t()])
    with pytest.raises(GuardError, match=r"argument batch\['ids'\] is f64"):
        f({"ids": x.double()}, [x, x])


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.inner(x).relu()


def test_a_frozen_call_is_pickled_and_copied() -> None:
    model, x = Scaled(), torch.randn(3, 4)
    f = opgraft.freeze(model, (x,))
    assert copy.copy(f) is f
    with torch.no_grad():
        for other in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
            torch.testing.assert_close(other(x), model(x))
        # Parameters are copied with the model, once for both.
        twins = copy.deepcopy({"model": model, "frozen": f})
        twins["model"].inner.bias.add_(1)
        torch.testing.assert_close(twins["frozen"](x), twins["model"](x))
        assert not torch.equal(twins["frozen"](x), f(x))
        model.inner = nn.Sequential(model.inner, nn.Tanh())
        with pytest.raises(RuntimeError, match="freezes to another graph"):
            copy.deepcopy(f)


def test_guard_gradient(frozen: Any) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(GuardError, match="requires grad"):
        frozen(x, torch.randn(3, 4))
    with torch.no_grad():
        assert not frozen(x, x).requires_grad


def test_guard_constant() -> None:
    x = torch.randn(3)
    f = opgraft.freeze(lambda a, n, up: a * n if up else a, (x, 3, True))
    assert torch.equal(f(x, 3, True), x * 3)
    with pytest.raises(GuardError, match="is 4, and the graph was frozen for 3"):
        f(x, 4, True)
    with pytest.raises(GuardError, match="is False, and the graph was frozen"):
        f(x, 3, False)


def test_guard_range() -> None:
    n = torch.export.Dim("n", min=2, max=9)
    f = opgraft.freeze(lambda a: a.softmax(0), (torch.randn(5, 4),),
                       dynamic_shapes=({0: n},))
    for size in (2, 9, 2, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(f(x), x.softmax(0))
    for size in (1, 10):
        with pytest.raises(GuardError, match=f"size 0 is {size}, and the graph"):
            f(torch.randn(size, 4))
    with pytest.raises(GuardError, match=r"a is f32\[5, 3\], .* f32\[n, 4\]"):
        f(torch.randn(5, 3))


def test_a_guard_leaves_the_call_usable(frozen: Any) -> None:
    x = torch.randn(3, 4)
    with pytest.raises(GuardError):
        frozen(x, x.double())
    assert torch.equal(frozen(x, x), x * 2 + x)


def test_threads_share_a_frozen_call(frozen: Any) -> None:
    wrong = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            a = torch.randn(3, 4, generator=generator)
            b = torch.randn(3, 4, generator=generator)
            if not torch.equal(frozen(a, b), add(a, b)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- Files -------------------------------------------------------------------


def test_an_exported_encoder_runs_without_torch(tmp_path: pathlib.Path) -> None:
    model, args = encoder()
    opgraft.export(model, args, tmp_path / "m.og")
    for name, value in zip(("ids", "mask"), args, strict=True):
        np.save(tmp_path / f"{name}.npy", value.numpy())
    done = run(tmp_path, "m.og", "--in", "ids.npy", "--in", "mask=mask.npy",
               "--out", "x.npy", "--out", "pooled.npy")
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        x, pooled = model(*args)
        exact = [t.float() for t in model.double()(*args)]
    for name, eager, wanted in (("x", x, exact[0]), ("pooled", pooled, exact[1])):
        found = torch.from_numpy(np.load(tmp_path / f"{name}.npy"))
        off = (found - wanted).abs().max()
        assert off <= 2 * (eager - wanted).abs().max() + 1e-7, (name, off)


def test_a_symbolic_size_is_exported(tmp_path: pathlib.Path) -> None:
    n = torch.export.Dim("n", min=2, max=64)
    opgraft.export(lambda a: a.cumsum(0) @ a.t(), (torch.randn(5, 4),),
                   tmp_path / "m.og", dynamic_shapes=({0: n},))
    for size in (3, 17):
        a = torch.randn(size, 4)
        np.save(tmp_path / "a.npy", a.numpy())
        done = run(tmp_path, "m.og", "--in", "a.npy", "--out", "y.npy")
        assert done.returncode == 0, done.stderr
        found = torch.from_numpy(np.load(tmp_path / "y.npy"))
        torch.testing.assert_close(found, a.cumsum(0) @ a.t())


def test_what_cannot_be_exported_is_said(tmp_path: pathlib.Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x)
            return self.seen * 1

    with pytest.raises((NotImplementedError, RuntimeError)):
        opgraft.export(Counter(), (torch.ones(3),), tmp_path / "m.og")
    assert not (tmp_path / "m.og").exists()
    with pytest.raises(TypeError, match="expected a tuple"):
        opgraft.freeze(add, [torch.ones(1), torch.ones(1)])  # type: ignore[arg-type]


def test_a_failing_call_is_kept(tmp_path: pathlib.Path) -> None:
    def model(x: Any, i: Any) -> Any:
        return (x * 3).index_select(0, i)

    c = torch.compile(model, backend="opgraft",
                      options={"repro": str(tmp_path)})
    x = torch.randn(4)
    assert torch.equal(c(x, torch.tensor([2])), model(x, torch.tensor([2])))
    with pytest.raises(RuntimeError):
        c(x, torch.tensor([9]))
    (folder,) = [p for p in tmp_path.iterdir() if (p / "run.txt").exists()]
    command = (folder / "run.txt").read_text().replace("\\\n", " ").split()
    assert command[:3] == ["opgraft", "run", "--bisect"]
    assert (np.load(folder / "input-1.npy") == 9).all()
    done = run(folder, *command[2:])
    assert done.returncode == 2 and "index" in done.stderr
    np.save(folder / "input-1.npy", np.array([1]))
    done = run(folder, *command[2:])
    assert done.returncode == 0 and "no pass changes" in done.stdout


def test_a_wrong_result_is_traced_to_its_pass(
    tmp_path: pathlib.Path, wrong_pass: str
) -> None:
    """Each call's inputs are kept as they were before it, whatever it wrote,
    so that a pass is found which only changes what the call computes."""
    def model(x: Any, cache: Any, h: Any, n: int) -> Any:
        cache[n] = x[0] * 2 + 1
        return (x.double() @ x.double().t()).sum(), h.t() * 3

    c = torch.compile(model, backend="opgraft", dynamic=True,
                      options={"repro": str(tmp_path), "repro_calls": "all"})
    cache = torch.zeros(4, 3, dtype=torch.bfloat16)
    for n in (1, 2, 3):
        before = cache.clone()
        x = torch.randn(6 + n, 3)
        c(x, cache, torch.randn(5, 2).t(), n)
    (folder,) = tmp_path.iterdir()
    command = (folder / "run.txt").read_text().replace("\\\n", " ").split()
    kept = [np.load(p) for p in sorted(folder.glob("input-*.npy"))]
    assert any(np.array_equal(k, x.numpy()) for k in kept)
    (rows,) = [k for k in kept if k.shape == (4, 3)]
    assert rows.tobytes() == before.view(torch.uint8).numpy().tobytes()
    done = run(folder, *command[2:])
    assert done.returncode == 0 and "no pass changes" in done.stdout, done.stderr
    done = subprocess.run([wrong_pass, *command[1:]], cwd=folder, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("wrong: changes what is written to input ")
    with pytest.raises(Exception, match="repro_calls needs repro"):
        torch.compile(model, backend="opgraft",
                      options={"repro_calls": "all"})(x, cache, x, 1)
