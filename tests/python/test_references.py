# SPDX-License-Identifier: Apache-2.0
"""A declaration's reference as ATen operators, where no kernel of ours runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
import torch

import opgraft
from opgraft._load import aten

FOLDER = Path(__file__).parent
# Schema, shape, types, reference, what it is in torch, sizes.
KNOWN: list[tuple[str, str, str, str, Callable[..., Any],
                  list[tuple[int, ...]]]] = [
    ("norm(Tensor x, Tensor w, float eps=1e-3) -> Tensor",
     "x[*N, D], w[D] -> [*N, D]", "x: f32, w: x -> x",
     "x * rsqrt(mean(x * x, D) + eps) * w",
     lambda x, w: x * (x.square().mean(-1, True) + 1e-3).rsqrt() * w,
     [(2, 3, 5), (5,)]),
    ("product(Tensor x, Tensor w, Tensor? b=None) -> Tensor",
     "x[*N, I], w[I, O], b?[O] -> [O, *N]", "x: f64, w: x, b: x -> x",
     "sum(x * w, I) + b", lambda x, w, b=0: (x @ w + b).movedim(-1, 0),
     [(2, 3, 5), (5, 4), (4,)]),
    ("without(Tensor x, Tensor? b=None) -> Tensor",
     "x[N, O], b?[O] -> [N]", "x: f32, b: x -> x", "sum(x, O) + sum(b, O)",
     lambda x: x.sum(-1), [(3, 4)]),
    ("causal(Tensor x) -> Tensor", "x[*N, L, S] -> [*N, L, S]", "x: f32 -> x",
     "select(index(S) <= index(L), exp(x), 0) / "
     "sum(select(index(S) <= index(L), exp(x), 0), S)",
     lambda x: (x + torch.full(x.shape[-2:], -torch.inf).triu(1)).softmax(-1),
     [(2, 5, 5)]),
    ("ends(Tensor x) -> (Tensor, Tensor, Tensor)",
     "x[A, B, C] -> [B], [C, A], []", "x: f32 -> x, x, x",
     "amax(x, A, C); amin(x, B); prod(x, A, B, C) * A",
     lambda x: (x.amax((0, 2)), x.amin(1).T, x.prod() * x.shape[0]),
     [(2, 3, 4)]),
    ("diagonal(Tensor x) -> Tensor", "x[N, N] -> [N]", "x: f32 -> x", "x * N",
     lambda x: x.diagonal() * x.shape[0], [(4, 4)]),
    ("same(Tensor x) -> Tensor", "x[*N] -> [*N]", "x: f32 -> x", "x",
     lambda x: x.clone(), [(3, 2)]),
    ("integers(Tensor x) -> (Tensor, Tensor)", "x[N, D] -> [N], [N, D]",
     "x: i32 -> i64, f32", "sum(x * x, D); exp(x)",
     lambda x: (x.square().sum(-1), x.exp()), [(3, 4)]),
    ("narrow(Tensor x, Tensor y) -> Tensor", "x[*N, D], y[*N] -> [*N, D]",
     "x: bf16, y: f32 -> x", "max(x, y, 0) - min(x, half)",
     lambda x, y: (x.float().maximum(y[..., None]).relu()
                   - x.float().clamp(max=0.5)).bfloat16(), [(2, 3, 4), (2, 3)]),
]
SOURCE = """#include <opgraft/op.h>
static og_status none(const og_call *call) { (void)call; return OG_OK; }
static const og_kernel kernels[] = {{.device = OG_CPU, .run = none}};
static const og_op ops[] = {
%s
};
OG_MODULE(references, ops)
"""


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory,
               build: Callable[..., Path]) -> Any:
    path = tmp_path_factory.mktemp("references") / "references.c"
    path.write_text(SOURCE % "\n".join(
        f'{{.schema = "{schema}", .shape = "{shape}", .dtype = "{dtype}", '
        f'.reference = "{text}", .kernels = OG_KERNELS(kernels)}},'
        for schema, shape, dtype, text, _, _ in KNOWN))
    return opgraft.load(build(path))


@pytest.mark.parametrize("known", KNOWN, ids=lambda k: k[0].split("(")[0])
def test_known(references: Any, known: Any) -> None:
    schema, _, dtype, _, torchs, sizes = known
    name = schema.partition("(")[0]
    d = references._descriptions[name]
    plain = aten.reference(d, None)
    assert plain is not None and torch._C._dispatch_has_kernel_for_dispatch_key(
        f"references::{name}", "CompositeExplicitAutograd")
    torch.manual_seed(1)
    types = [rule["allowed"][0] for rule in d.tables["types"]]
    args = [torch.randint(-3, 4, s, dtype=torch.int32) if "i32" in types
            else torch.randn(s).to(getattr(torch, {
                "f32": "float", "f64": "double", "bf16": "bfloat16"}[t]))
            for s, t in zip(sizes, types, strict=False)]
    for given in ([a.clone() for a in args],
                  [a.mT.contiguous().mT if a.dim() > 1 else a for a in args]):
        found, wanted = plain(*given), torchs(*given)
        torch.testing.assert_close(found, wanted)
        for y in found if isinstance(found, tuple) else (found,):
            assert y.is_contiguous()
            assert not any(torch._C._is_alias_of(y, a) for a in given)


ON_OTHER = """
import sys, torch, opgraft, other_device
from other_device import Other, counts
other_device.register()
m = opgraft.load(sys.argv[1])
x, w = torch.randn(2, 3, 5), torch.randn(5)
y = m.norm(Other(x), Other(w))
assert y.device.type == "other"
torch.testing.assert_close(y.own, m.norm(x, w), rtol=1e-5, atol=1e-5)
assert counts["aten::rsqrt"] == counts["aten::mean"] == 1, counts
assert m.twice(Other(w)).own.equal(2 * w)  # the device's own fallback
assert counts["with_reference::twice"] == 1
"""


def test_a_device_that_opgraft_does_not_drive(
    build: Callable[..., Path]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_OTHER, build("tests/python/references.c")],
        cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
