# SPDX-License-Identifier: Apache-2.0
"""A test file over PyTorch's databases of inputs: op_db in every type, with
gradients and in place, module_db and optim_db, compiled beside eager.

A sample that aot_eager has right and we do not fails by us; one that aot_eager
fails too is torch's, and the whole test needs an excuse for it.
"""

from __future__ import annotations

import contextlib
import copy
import os
import warnings
from typing import Any, Callable, Iterable, Iterator

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.common_utils import TestCase
from torch.utils import _pytree as pytree

from .stand_ins import baseline, chosen, tensors

warnings.filterwarnings("ignore")
SAMPLES = int(os.environ.get("OPGRAFT_SUITE_SAMPLES", "6"))
# Nobody promises their values: another draw, memory as it was.
RANDOM = ("empty", "bernoulli", "multinomial", "normal", "rand", "uniform",
          "exponential", "cauchy", "geometric", "dropout", "rrelu",
          "fractional_max_pool", "new_empty", "log_normal", "resize",
          "svd_lowrank", "pca_lowrank")
TOLERANCES = {
    torch.float32: (2e-4, 1e-4), torch.complex64: (2e-4, 1e-4),
    torch.bfloat16: (5e-2, 4e-2), torch.float16: (1e-2, 5e-3),
    torch.complex32: (1e-2, 5e-3)}


class FailedByUs(AssertionError):
    """aot_eager has it right."""


class Refused(Exception):
    """Eager does not run it."""


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Refused from error


def clone(tree: Any) -> Any:
    return pytree.tree_map_only(
        torch.Tensor, lambda x: x.detach().clone().requires_grad_(
            x.requires_grad), tree)


def spread(items: Iterable[Any], most: int) -> list[tuple[int, Any]]:
    every = list(enumerate(items))
    step = max(1.0, len(every) / most)
    return [every[int(i * step)] for i in range(min(most, len(every)))]


def gradients(results: Any, inputs: Any) -> Any:
    outputs, leaves = tensors(results, True), tensors(inputs, True)
    if not outputs or not leaves:
        return None
    torch.manual_seed(3)
    return torch.autograd.grad(
        outputs, leaves, [torch.randn_like(o) for o in outputs],
        allow_unused=True)


def layouts(tree: Any) -> list[Any]:
    return [[s for n, s in zip(x.shape, x.stride()) if n > 1]
            for x in tensors(tree)
            if x.layout == torch.strided and x.numel() > 0]


class Database(TestCase):
    def close(self, found: Any, wanted: Any, dtype: torch.dtype, what: str,
              values: bool = True, layout: bool = True) -> None:
        rtol, atol = TOLERANCES.get(dtype, (None, None))
        if values:
            self.assertEqual(found, wanted, rtol=rtol, atol=atol,
                             equal_nan=True, msg=lambda m: f"{what}: {m}")
        for a, b in zip(tensors(found), tensors(wanted), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), (
                f"{what}: {a.dtype} {a.shape}, eager {b.dtype} {b.shape}")
        assert not layout or layouts(found) == layouts(wanted), (
            f"{what}: strides {layouts(found)}, eager {layouts(wanted)}")

    def every(self, cases: Iterable[tuple[str, Callable[[], None]]]) -> None:
        """Each case once; where one fails, once more by aot_eager."""
        ran, theirs = 0, []
        for name, case in cases:
            try:
                torch._dynamo.reset()
                case()
            except Refused:
                continue
            except Exception as error:
                if chosen.backend != "opgraft":
                    raise
                try:
                    torch._dynamo.reset()
                    with baseline("aot_eager"):
                        case()
                except Exception as other:
                    theirs.append(f"{name}: {other}")
                else:
                    raise FailedByUs(f"{name}: {type(error).__name__}: {error}"
                                     ) from error
            ran += 1
        if theirs:
            raise AssertionError("; ".join(theirs))
        if not ran:
            self.skipTest("eager runs none")

    def operator_check(self, info: Any, dtype: torch.dtype, f: Any,
                       with_gradients: bool, sample: Any) -> None:
        def call(x: Any, args: Any, kwargs: Any) -> Any:
            return f(x, *args, **kwargs)

        mine, theirs = (clone((sample.input, sample.args, sample.kwargs))
                        for _ in range(2))
        with eagerly():
            torch.manual_seed(0)
            wanted = call(*theirs)
        torch.manual_seed(0)
        found = torch.compile(call, dynamic=chosen.dynamic)(*mine)
        values = not is_random(info)
        self.close(found, wanted, dtype, "outputs", values)
        self.close(mine, theirs, dtype, "inputs after", values)
        if not with_gradients:
            return
        with eagerly():
            expected = gradients(sample.output_process_fn_grad(wanted), theirs)
        self.close(gradients(sample.output_process_fn_grad(found), mine),
                   expected, dtype, "gradients", values, layout=False)

    def operator(self, info: Any, dtype: torch.dtype, f: Any, is_in_place: bool
                 ) -> None:
        has_gradients = (not is_in_place and info.supports_autograd
                         and dtype in info.supported_backward_dtypes("cpu"))
        made = spread(info.sample_inputs(
            "cpu", dtype, requires_grad=has_gradients), SAMPLES)
        self.every((f"sample {n}: {s.summary()[:300]}",
                    lambda s=s: self.operator_check(
                        info, dtype, f, has_gradients, s)) for n, s in made)

    def module_check(self, info: Any, training: bool, item: Any) -> None:
        given = item.constructor_input
        torch.manual_seed(0)
        eager = info.module_cls(*given.args, **given.kwargs).train(training)
        other = copy.deepcopy(eager)
        theirs, mine = (clone((item.forward_input.args,
                               item.forward_input.kwargs)) for _ in range(2))
        run = torch.compile(other, dynamic=chosen.dynamic)
        for step in range(2):
            with eagerly():
                torch.manual_seed(1)
                wanted = eager(*theirs[0], **theirs[1])
            torch.manual_seed(1)
            found = run(*mine[0], **mine[1])
            what = f"step {step}: "
            self.close(found, wanted, torch.float32, what + "outputs")
            self.close(gradients(found, (list(other.parameters()), mine)),
                       gradients(wanted, (list(eager.parameters()), theirs)),
                       torch.float32, what + "gradients", layout=False)
            self.close(other.state_dict(), eager.state_dict(), torch.float32,
                       what + "state")

    def module(self, info: Any, training: bool) -> None:
        made = info.module_inputs_func(info, device="cpu", dtype=torch.float32,
                                       requires_grad=True, training=training)
        self.every((f"input {n}: {i.desc}",
                    lambda i=i: self.module_check(info, training, i))
                   for n, i in spread(made, 8) if i.forward_input is not None)

    def optimizer_check(self, info: Any, given: Any) -> None:
        is_muon = "Muon" in info.optim_cls.__name__
        shapes = ((10, 8), *(() if is_muon else ((17,), (), (1, 3, 5))))
        torch.manual_seed(0)
        theirs = [torch.randn(s, requires_grad=True) for s in shapes]
        mine = clone(theirs)
        with eagerly():
            eager, other = (info.optim_cls(p, **copy.deepcopy(given.kwargs))
                            for p in (theirs, mine))
        run = torch.compile(other.step, dynamic=chosen.dynamic)
        for step in range(4):
            torch.manual_seed(step)
            for p, q in zip(theirs, mine):
                p.grad = torch.randn_like(p)
                q.grad = p.grad.clone()

            def closures(of: Any) -> Any:
                return ([lambda: sum(p.square().sum() for p in of)]
                        if info.step_requires_closure else [])

            with eagerly():
                eager.step(*closures(theirs))
            run(*closures(mine))
            self.close(mine, theirs, torch.float32, f"step {step}")
            self.close(other.state_dict()["state"], eager.state_dict()["state"],
                       torch.float32, f"state {step}")


class Operators(Database):
    pass


class InPlace(Database):
    pass


class Modules(Database):
    pass


class Optimizers(Database):
    pass


def is_random(info: Any) -> bool:
    return info.name.split(".")[-1].startswith(RANDOM) or any(
        word in info.name for word in ("dropout", "_like", "alpha_drop"))


def in_place(info: Any) -> Any:
    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        return info.inplace_variant(x, *args, **kwargs)

    return run


def operators_fill() -> None:
    for info in op_db:
        name = info.formatted_name.replace(".", "_")
        for dtype in sorted(info.dtypes, key=str):
            title = f"test_{name}_{str(dtype).removeprefix('torch.')}"
            setattr(Operators, title, lambda self, i=info, d=dtype:
                    self.operator(i, d, i.op, False))
            if info.inplace_variant is not None:
                setattr(InPlace, title, lambda self, i=info, d=dtype:
                        self.operator(i, d, in_place(i), True))


def modules_fill() -> None:
    for info in module_db:
        for training in (True, False):
            title = f"{info.name.replace('.', '_')}_{training=}"
            setattr(Modules, "test_" + title.replace("=", "_"),
                    lambda self, i=info, t=training: self.module(i, t))


def optimizers_fill() -> None:
    for info in optim_db:
        for n, given in enumerate(info.optim_inputs_func(device="cpu")):
            for how in ("for", "foreach", "fused"):
                if how != "for" and how not in info.supported_impls:
                    continue
                made = copy.deepcopy(given)
                if how != "for":
                    made.kwargs[how] = True
                elif "foreach" in info.supported_impls:
                    made.kwargs["foreach"] = False
                setattr(Optimizers, f"test_{info.optim_cls.__name__}_{n}_{how}",
                        lambda self, i=info, g=made: self.every(
                            [("steps", lambda: self.optimizer_check(i, g))]))


operators_fill()
modules_fill()
optimizers_fill()
