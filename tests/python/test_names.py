# SPDX-License-Identifier: Apache-2.0
"""Names of modules and operators that torch or Python has, and more operators
than the host has boxed kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import opgraft
from opgraft._load.module import _TORCH_SPACES, modules

HEAD = """
#include <opgraft/op.h>
static og_status add(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] + 1;
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = add}};
#define OP(name, ...) {.schema = name "(Tensor x) -> Tensor", \\
    .shape = "x[N] -> [N]", .dtype = "x: f32 -> x", .backward = "none", \\
    .kernels = OG_KERNELS(kernels), __VA_ARGS__}
static const og_op ops[] = {
"""
OPERATORS = 2100


def source(name, *operators):
    return HEAD + ",\n".join(operators) + f"}};\nOG_MODULE({name}, ops)\n"


@pytest.mark.parametrize("argument", [
    "float limit=inf", "float limit=-inf", "float limit=nan",
    "str[] names=[]"])
def test_a_default_that_torch_does_not_take_is_named(write_module, argument):
    operator = ('{.schema = "plus_one(Tensor x, %s) -> Tensor", '
                '.shape = "x[N] -> [N]", .dtype = "x: f32 -> x", '
                '.kernels = OG_KERNELS(kernels)}' % argument)
    module = write_module(source("torch_defaults", operator))
    with pytest.raises(RuntimeError) as raised:
        opgraft.load(module)
    text = str(raised.value)
    assert text.startswith("torch_defaults::plus_one: PyTorch does not take")
    assert argument in text and "finite numbers, no list of str" in text


@pytest.mark.parametrize("name,why", [
    ("lambda", "a keyword of Python"), ("None", "a keyword of Python"),
    ("aten", "a namespace of torch's own"), ("prims", "a namespace of torch"),
    ("higher_order", "a namespace of torch's own operators"),
    ("load_library", "an attribute of torch.ops"),
    ("loaded_libraries", "an attribute of torch.ops"),
    ("import_module", "an attribute of torch.ops"),
    ("__class__", "an attribute of torch.ops")])
def test_module_name_that_torch_or_python_has_is_refused(
        write_module, name, why):
    path = write_module(source(name, 'OP("f")'), "named")
    with pytest.raises(RuntimeError, match=f"named.so: the module's name is "
                       f"'{name}', {why}.*give OG_MODULE another name"):
        opgraft.load(path)
    assert not [m for m in modules() if m.name == name]


def test_every_namespace_of_torch_is_known():
    code = """
import torch, torch._inductor, torch._dynamo, torch.export, torch.distributed
import torch.distributed.tensor, torch.ao.quantization, torch._prims
print(*{n.split("::")[0] for n in torch._C._dispatch_get_all_op_names()})
"""
    done = subprocess.run([sys.executable, "-c", code], check=True,
                          capture_output=True, text=True)
    assert set(done.stdout.split()) <= _TORCH_SPACES


def test_two_operators_of_one_name_are_refused(write_module):
    with pytest.raises(RuntimeError, match=r"f: schema: two operators of the "
                       r"module have this name.*f\.other"):
        opgraft.load(write_module(source("twins", 'OP("f")', 'OP("g")',
                                         'OP("f")'), "twins"))
    with pytest.raises(RuntimeError, match=r"f_x and another one would both be"
                       r" clash\.f_x; rename one"):
        opgraft.load(write_module(source("clash", 'OP("f.x")', 'OP("f_x")'),
                                  "clash"))
    assert not hasattr(torch.ops.clash, "f_x")


@pytest.mark.full
def test_two_thousand_functional_operators_in_one_process(write_module):
    """More kernels than the pool of boxed ones: each is right, on both roads
    and compiled, and unloading returns to the pool."""
    path = write_module(source("many", *(
        f'OP("f{i}")' for i in range(OPERATORS))), "many")
    x = torch.ones(3)
    for _ in range(2):
        m = opgraft.load(path)
        for i in (0, 1, OPERATORS // 2, OPERATORS - 2, OPERATORS - 1):
            assert getattr(m, f"f{i}")(x).tolist() == [2, 2, 2]
            op = getattr(torch.ops.many, f"f{i}")
            assert op(x).tolist() == [2, 2, 2]
            assert op.out(x, out=torch.empty(3)).tolist() == [2, 2, 2]
        last = getattr(m, f"f{OPERATORS - 1}")
        f = torch.compile(lambda x, last=last: last(x * 1),
                          backend="aot_eager", fullgraph=True)
        assert f(x).tolist() == [2, 2, 2]
        del f, last, op
        torch._dynamo.reset()
        m.unload()
        del m
