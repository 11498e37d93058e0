# SPDX-License-Identifier: Apache-2.0
"""How modules live: names, reload, unload, fork, copies, pickles, errors."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import pytest
import torch

import opgraft

SOURCE = """
#include <opgraft/op.h>
static og_status run(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] * %s;
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = run}};
static const og_op ops[] = {{
    .schema = "%s(Tensor x) -> Tensor", .shape = "%s", .dtype = "x: f32 -> x",
    .backward = "none", .kernels = OG_KERNELS(kernels)}};
OG_MODULE(%s, ops)
"""


def source(factor="2", name="times", shape="x[*N] -> [*N]", module="life"):
    return SOURCE % (factor, name, shape, module)


def test_same_file_is_the_same_module(write_module):
    path = write_module(source(module="life_same"))
    assert opgraft.load(path) is opgraft.load(str(path))


def test_reload_reaches_the_new_kernel(write_module):
    x = torch.ones(2)
    old = opgraft.load(write_module(source("2", module="life_reload")))
    held = old.times
    assert held(x).tolist() == [2, 2]
    new = opgraft.load(write_module(source("3", module="life_reload")))
    assert new is not old
    assert new.times(x).tolist() == [3, 3]
    assert torch.ops.life_reload.times(x).tolist() == [3, 3]
    assert held(x).tolist() == [2, 2]


def test_reload_with_another_schema(write_module):
    x = torch.ones(2)
    opgraft.load(write_module(source(module="life_schema")))
    text = source(module="life_schema").replace(
        "times(Tensor x)", "times(Tensor x, int n=1)")
    m = opgraft.load(write_module(text))
    assert m.times(x, 5).tolist() == [2, 2]
    assert "int n=1" in str(torch.ops.life_schema.times.default._schema)


NEEDED = """
import sys, torch, opgraft
m, x = opgraft.load(sys.argv[1]), torch.ones(2)
space = vars(torch.ops.life_needed)
assert m.times(x).tolist() == [2, 2] and "times" not in space
with torch.autocast("cpu"):  # the slow path
    assert m.times(x).tolist() == [2, 2]
made = space["times"]
assert torch.ops.life_needed.times is made
with torch.autocast("cpu"):
    assert m.times(x).tolist() == [2, 2]
assert m.times(torch.ones(2, requires_grad=True)).tolist() == [2, 2]
assert torch.func.vmap(m.times)(torch.ones(3, 2)).tolist() == [[2, 2]] * 3
assert torch.ops.life_needed.times is made
"""


def test_torch_makes_an_operator_when_it_is_needed(write_module):
    """In a process without Dynamo, which needs it at once."""
    path = write_module(source(module="life_needed"))
    done = subprocess.run([sys.executable, "-c", NEEDED, str(path)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_threads_that_need_an_operator_first_get_one(write_module):
    """Four threads ask for each of 16 operators at the same time."""
    from opgraft._load.operators import Operator

    names = [f"life_first_{i}" for i in range(16)]
    modules = [opgraft.load(write_module(source(module=n), n)) for n in names]
    wanted = [Operator(n, "times") for n in names]
    start = threading.Barrier(4)
    got, failed = [], []

    def ask():
        try:
            for op, m in zip(wanted, modules, strict=True):
                start.wait()
                got.append((op, op.overload))
                with torch.autocast("cpu"):
                    assert m.times(torch.ones(2)).tolist() == [2, 2]
                x = torch.ones(2, requires_grad=True)
                assert m.times(x).tolist() == [2, 2]
        except BaseException as error:
            failed.append(error)
            start.abort()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed and len(got) == 4 * len(names)
    for op, overload in got:
        assert overload is getattr(torch.ops, op._space).times.default


def test_slow_road_after_the_module_is_gone(write_module):
    """The first call that needs torch's operator comes when there is none, or
    another one of this name."""
    first = opgraft.load(write_module(source("2", module="life_late")))
    held = first.times
    opgraft.load(write_module(source("3", module="life_late")))
    with torch.autocast("cpu"):
        assert held(torch.ones(2)).tolist() == [3, 3]

    def own(x):
        return x * 2

    gone = opgraft.adopt(own, schema="own(Tensor x) -> Tensor",
                         shape="x[*N] -> [*N]", dtype="x: f32 -> x",
                         name="life_gone::own")
    opgraft.unadopt(gone)
    with torch.autocast("cpu"), pytest.raises(
            RuntimeError, match="life_gone::own was unloaded; load its"):
        gone(torch.ones(2))


def test_compiled_code_follows_a_reload(write_module):
    x = torch.ones(2)
    path = write_module(source("2", module="life_compiled"))
    opgraft.load(path)

    def f(t):
        return torch.ops.life_compiled.times(t) + 1

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    assert compiled(x).tolist() == [3, 3]
    opgraft.load(write_module(source("5", module="life_compiled")))
    assert compiled(x).tolist() == [6, 6]


def test_two_modules_of_one_name(write_module):
    x = torch.ones(1)
    a = opgraft.load(write_module(source("2", module="life_twin"), "a"))
    b = opgraft.load(write_module(source("3", module="life_twin"), "b"))
    assert a.times(x).item() == 2 and b.times(x).item() == 3
    assert a.namespace == "life_twin" != b.namespace
    assert getattr(torch.ops, b.namespace).times(x).item() == 3


def test_unload(write_module):
    path = write_module(source(module="life_unload"))
    m = opgraft.load(path)
    f = m.times
    with pytest.raises(RuntimeError, match="can still be called"):
        m.unload()
    assert f(torch.ones(1)).item() == 2
    del f
    m.unload()
    with pytest.raises(AttributeError, match="was unloaded"):
        m.times(torch.ones(1))
    assert not hasattr(torch.ops.life_unload, "times")
    again = opgraft.load(path)
    assert again.times(torch.ones(1)).item() == 2


def test_unload_with_dynamo_present(write_module):
    import torch._dynamo  # noqa: F401

    m = opgraft.load(write_module(source(module="life_unload_dynamo")))
    compiled = torch.compile(lambda t: m.times(t), backend="eager")
    compiled(torch.ones(1))
    del compiled
    torch._dynamo.reset()
    m.unload()


@pytest.mark.full
def test_load_and_unload_from_many_threads(write_module):
    import threading

    paths = [write_module(source(module=f"life_many_{i}"), f"m{i}")
             for i in range(4)]
    wrong = []

    def work(i):
        for _ in range(10):
            m = opgraft.load(paths[i])
            if m.times(torch.ones(1)).item() != 2:
                wrong.append(i)
            m.unload()

    team = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    assert not wrong


class Layer(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.op(x * self.scale)


def test_deepcopy_and_pickle(basics):
    layer = Layer(basics.zero_gradient)
    twin = copy.deepcopy(layer)
    x = torch.ones(3)
    assert torch.equal(twin(x), layer(x))
    again = pickle.loads(pickle.dumps(layer))
    assert torch.equal(again(x), layer(x))
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), layer(x))
    assert pickle.loads(pickle.dumps(basics)) is basics


def _child(path, queue):
    m = opgraft.load(path)
    queue.put(m.row_sums(torch.ones(4000, 8)).sum().item())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(basics, method):
    basics.row_sums(torch.ones(4000, 8))  # the thread pool is warm
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_child, args=(basics.path, queue))
    child.start()
    assert queue.get(timeout=120) == 32000
    child.join()


class Squares(torch.utils.data.Dataset):
    def __init__(self, op):
        self.op = op

    def __len__(self):
        return 16

    def __getitem__(self, i):
        return self.op(torch.full((2,), float(i)))


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(basics, workers):
    loader = torch.utils.data.DataLoader(
        Squares(basics.zero_gradient), batch_size=4, num_workers=workers)
    rows = torch.cat(list(loader))
    assert rows[:, 0].tolist() == [2.0 * i for i in range(16)]


def test_import_and_load_are_light(basics):
    code = (
        "import sys, torch, opgraft\n"
        f"opgraft.load({basics.path!r})\n"
        "print([m for m in sys.modules if m.startswith(('torch._dynamo',"
        "'torch._inductor'))])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True,
                         text=True, check=True).stdout
    assert out == "[]\n"


@pytest.mark.parametrize("make,text", [
    (lambda p: p / "missing.so", "No such file"),
    (lambda p: p, "not a file"),
    (lambda p: _written(p / "text.so", b"hello"), "shared object"),
    (lambda p: _written(p / "empty.so", b""), "shared object"),
])
def test_bad_files(tmp_path, make, text):
    with pytest.raises(OSError, match=text):
        opgraft.load(make(tmp_path))


def _written(path, data):
    path.write_bytes(data)
    return path


def test_library_that_is_no_module(tmp_path, write_module):
    path = write_module("int answer(void); int answer(void) { return 42; }")
    with pytest.raises(RuntimeError, match="exports no opgraft_module"):
        opgraft.load(path)


def test_bad_declaration_names_its_place(write_module):
    path = write_module(source(shape="x[*N -> [*N]", module="life_bad"))
    with pytest.raises(RuntimeError, match="times: shape"):
        opgraft.load(path)


def test_module_for_a_newer_abi(write_module):
    text = source(module="life_newer").replace(
        "OG_MODULE(life_newer, ops)",
        "OG_EXPORT const og_module *opgraft_module(uint32_t max_abi);\n"
        "const og_module *opgraft_module(uint32_t max_abi) {\n"
        "  (void)ops; (void)max_abi; return 0; }")
    with pytest.raises(RuntimeError, match="newer ABI"):
        opgraft.load(write_module(text))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_log_says_what_was_decided(basics):
    code = f"import opgraft; opgraft.load({basics.path!r})"
    env = {**os.environ, "OPGRAFT_LOG": "1"}
    out = subprocess.run([sys.executable, "-c", code], env=env, check=True,
                         capture_output=True, text=True)
    assert "fast path:" in out.stderr
    quiet = subprocess.run([sys.executable, "-c", code], check=True,
                           capture_output=True, text=True)
    assert quiet.stderr == ""


def test_a_mode_around_the_first_load_costs_nothing(basics):
    """The self-test sees torch as it is outside of all modes."""
    code = ("import torch, opgraft\n"
            "from torch._subclasses.fake_tensor import FakeTensorMode\n"
            "with (torch.device('cpu'), torch.inference_mode(), FakeTensorMode(),"
            " torch.autocast('cpu')):\n"
            f"    opgraft.load({basics.path!r})\n"
            "print(len(torch.overrides._get_current_function_mode_stack()))")
    out = subprocess.run([sys.executable, "-c", code], check=True, text=True,
                         env={**os.environ, "OPGRAFT_LOG": "1"},
                         capture_output=True)
    assert "fast path: unpublished words" in out.stderr
    assert out.stdout == "0\n"
