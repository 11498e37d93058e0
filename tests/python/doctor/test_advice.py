# SPDX-License-Identifier: Apache-2.0
"""Each line of advice (src/report/advice.def) beside a script that has its
cause, and the same script as it is after the advice was taken: nothing is left.
"""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path

import pytest
import torch

from opgraft.doctor import _run, _trial

ROOT = Path(__file__).resolve().parents[3]
HEAD = """\
import copy, logging, torch
from torch.utils.flop_counter import FlopCounterMode
config = torch._dynamo.config
log = logging.getLogger("advice")
log.setLevel(logging.CRITICAL)
X = torch.ones(4, 4)
def compiled(f, backend="aot_eager"):
    return torch.compile(f, backend=backend)
"""
COUNTER = """\
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
    def forward(self, x):
        self.n += 1
        return (x + self.n).relu()
m = compiled(M())
for _ in range(4): m(X)
"""
GROWS = """\
def f(x, kept):
    kept.append(x + 1)
    return torch.cat(kept).sum()
kept, c = [], compiled(f)
for _ in range(5): c(X, kept)
"""
HOOK = """\
l = torch.nn.Linear(4, 4)
l.register_full_backward_hook(lambda *_: None)
def f(x): return l(x.sin()).relu()
compiled(f)(X.clone().requires_grad_()).sum().backward()
"""
COUNTED = """\
def f(x): return (x + 1).relu()
c = compiled(f)
with FlopCounterMode(display=False): c(X)
"""
SIZES = """\
def f(x): return (x + 1).relu()
c = torch.compile(f, backend="aot_eager", dynamic=False)
for n in (2, 3, 4): c(torch.ones(n, 4))
"""
WAITS = """\
import asyncio
@torch.compile(backend="eager")
async def f(x):
    await asyncio.sleep(0)
    return x * 2 + 1
try: asyncio.run(f(X))
except Exception: pass
"""
MISSING = """\
def backend(graph, inputs): raise ERROR
try: torch.compile(lambda x: x + 1, backend=backend)(X)
except Exception: pass
"""
TWICE = """\
def f(x): return (x * x).sum()
c, x = compiled(f), X.clone().requires_grad_()
torch.autograd.grad(c(x), x, create_graph=True)[0].sum().backward()
"""
OPAQUE = """\
import zlib
def f(x): return (x + 1) * zlib.crc32(b"a")
compiled(f)(X)
"""
LOGS = "def f(x):\n  log.info('a')\n  return x.relu()\ncompiled(f)(X)\n"
PRINTS = "def f(x):\n  print(x.sum())\n  return x.relu()\ncompiled(f)(X)\n"
# What opgraft.adopt makes of a call, by torch's own means.
OPERATOR = """\
@torch.library.custom_op("advice::NAME", mutates_args=())
def operator(x: torch.Tensor) -> torch.Tensor: return BODY
operator.register_fake(lambda x: torch.empty_like(x))
def f(x): return operator(x + 1) * 2
compiled(f)(X)
"""
# The row's id in advice.def, before, after.
ADVICE = [
    ("GB0124", "def f(x):\n  return x * x.sum().item()\ncompiled(f)(X)\n",
     "def f(x):\n  return x * x.sum()\ncompiled(f)(X)\n"),
    ("GB0033", "def f(x):\n  n = torch.tensor([3]).sum() + x.sum()\n"
     "  return x[: int(torch.equal(x, x))] + 1\ncompiled(f)(X)\n",
     "def f(x):\n  return x[:1] + 1\ncompiled(f)(X)\n"),
    ("GB0036", "def f(x):\n  return x[x > 0].relu()\ncompiled(f)(X)\n",
     "config.capture_dynamic_output_shape_ops = True\n"
     "def f(x):\n  return x[x > 0].relu()\ncompiled(f)(X)\n"),
    ("GB0170", "def f(x):\n  if x.sum() > 0: x = x * 2\n  return x + 1\n"
     "compiled(f)(X)\n",
     "def f(x):\n  return torch.where(x.sum() > 0, x * 2, x) + 1\n"
     "compiled(f)(X)\n"),
    ("GB4198", "def f(x):\n  return x + copy.deepcopy(x)\ncompiled(f)(X)\n",
     "def f(x):\n  return x + x.clone()\ncompiled(f)(X)\n"),
    ("GB0055", "class Size:\n  def __index__(self): return 3\n"
     "def f(x, n):\n  return (x * 2).sum() + torch.zeros(n)\n"
     "compiled(f)(X, Size())\n",
     "def f(x, n):\n  return (x * 2).sum() + torch.zeros(n)\n"
     "compiled(f)(X, 3)\n"),
    ("GB0007", OPAQUE, OPERATOR.replace("NAME", "sum").replace(
        "BODY", "x * __import__('zlib').crc32(b'a')")),
    ("GB0098", "@torch.compiler.disable\ndef norm(x): return x / x.norm()\n"
     "def f(x): return norm(x + 1) * 2\ncompiled(f)(X)\n",
     OPERATOR.replace("NAME", "norm").replace("BODY", "x / x.norm()")),
    ("GB0082", WAITS, "import asyncio\n@torch.compile(backend='eager')\n"
     "def g(x): return x * 2 + 1\nasync def f(x):\n"
     "  await asyncio.sleep(0)\n  return g(x)\nasyncio.run(f(X))\n"),
    ("GB0291", LOGS,
     "config.ignore_logging_functions.add(logging.Logger.info)\n" + LOGS),
    ("GB0059", PRINTS,
     "config.reorderable_logging_functions.add(print)\n" + PRINTS),
    ("ImportError:", MISSING.replace("ERROR", "ImportError('no name')"),
     "compiled(lambda x: x + 1)(X)\n"),
    ("ModuleNotFoundError:", MISSING.replace(
        "raise ERROR", "import no_such_module"),
     "compiled(lambda x: x + 1)(X)\n"),
    ("dynamo", "def f(x):\n  torch._dynamo.graph_break()\n  return x + 1\n"
     "compiled(f)(X)\n",
     "def f(x):\n  return x + 1\ntorch._dynamo.graph_break()\ncompiled(f)(X)\n"),
    ("skip", "@torch.compile(backend='eager')\ndef f(x):\n"
     "  for i in range(2): yield x[i] * 2 + 1\nlist(f(X))\n",
     "@torch.compile(backend='eager')\ndef g(x): return x * 2 + 1\n"
     "def f(x):\n  for i in range(2): yield g(x[i])\nlist(f(X))\n"),
    ("recompile", "def f(x, s): return x * s\n"
     "c = torch.compile(f, backend='aot_eager', dynamic=False)\n"
     "for s in (1.5, 2.5): c(X, s)\n",
     "def f(x, s): return x * s\nc = compiled(f)\n"
     "for s in (1.5, 2.5): c(X, torch.tensor(s))\n"),
    ("backend", "def f(x): return torch.linalg.qr(x)[0]\ntorch.compile(f)(X)\n",
     "def f(x): return x.mm(x)\ntorch.compile(f)(X)\n"),
    ("autograd", TWICE, TWICE.replace("grad(c(x)", "grad(f(x)")),
    ("GB0083", HOOK, HOOK.replace(
        "l.register_full_backward_hook(lambda *_: None)\n", "").replace(
            "l(x.sin()).relu()", "y(l(x.sin())).relu()").replace(
                "def f", "def y(t):\n    t.register_hook(lambda g: None)\n"
                "    return t\ndef f")),
    ("a dispatch mode is active:", COUNTED,
     COUNTED.replace("with FlopCounterMode(display=False): c(X)",
                     "with FlopCounterMode(display=False): f(X)\nc(X)")),
    ("(a length that changes)", GROWS,
     "def f(x, kept, at):\n"
     "    return kept.index_copy_(0, at, x[None] + 1).sum()\n"
     "kept, c = torch.zeros(5, 4, 4), compiled(f)\n"
     "for i in range(5): c(X, kept, torch.tensor([i]))\n"),
    ("(the size of a tensor changes)", SIZES, SIZES.replace(
        ", dynamic=False", "").replace(
            "c(torch.ones(n, 4))",
            "x = torch.ones(n, 4); torch._dynamo.mark_dynamic(x, 0); c(x)")),
    ("(another one comes each time)",
     "def f(x, g): return g(x + 1)\nc = compiled(f)\n"
     "for _ in range(3): c(X, eval('lambda t: t * 2'))\n",
     "def f(x, g): return g(x + 1)\nc, g = compiled(f), lambda t: t * 2\n"
     "for _ in range(3): c(X, g)\n"),
    ("(an int attribute that changes)", COUNTER,
     COUNTER.replace("self.n = 0", "self.n = torch.zeros(())")),
]


def read() -> list[tuple[str, str]]:
    """(id, text) of each row of advice.def."""
    text = (ROOT / "src/report/advice.def").read_text()
    rows = re.findall(r'^ADVICE\("([^"]+)", "\w+",\s*((?:"[^"]*"\s*)+)\)',
                      text, re.MULTILINE)
    return [(id, "".join(re.findall(r'"([^"]*)"', parts)))
            for id, parts in rows]


def roots_of(folder: Path, source: str) -> list[dict]:
    script, events = folder / "script.py", folder / "run.events"
    script.write_text(HEAD + source)
    torch._dynamo.reset()
    with contextlib.suppress(RuntimeError), torch._dynamo.config.patch(), \
            _run.recording(events, 0):
        runpy.run_path(str(script))
    report = _trial.report_of(events)
    assert report is not None
    return report["roots"]


@pytest.mark.parametrize("id, before, after", ADVICE, ids=[a[0] for a in ADVICE])
def test_advice_that_is_taken_mends(id: str, before: str, after: str,
                                    tmp_path: Path) -> None:
    advice = dict(read())[id]
    found = roots_of(tmp_path, before)
    assert advice in [r["fix"]["title"] for r in found], found
    left = roots_of(tmp_path, after)
    assert left == [], left


def test_every_row_has_a_script() -> None:
    """But one: tests/peers/openxla.py, which has the device, plants it."""
    assert {id for id, _ in read()} == {a[0] for a in ADVICE} | {
        "a tensor that is not on the XLA device:"}
