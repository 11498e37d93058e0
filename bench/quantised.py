#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Linears over quantised weights, the four of TinyLlama's layers: ours by
option `precision`, with activations in 16 bits and in int8, beside OpenVINO
(compressed weights), ONNX Runtime (MatMulNBits), torch's own packed products
and our bf16.

One interleaved run for each format, number of rows and number of threads. The
weights of a stack are more than any cache holds. One row is also held against
plain reading of as many bytes as its weights take, timed in turns with it. No
run begins on a machine whose load is above 3.

Some rivals round activations to int8 as well, by a default or because they have
nothing else: each is asked first, by rows of which small numbers stand beside
large ones. From ROWS_ALIKE rows on, where arithmetic bounds, each is held
against ours that rounds as it does; below, ours with 16 bits against all.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import machine  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402

SHAPES = [(2560, 2048), (2048, 2048), (11264, 2048), (2048, 5632)]  # n, k
LAYERS, GROUP, LOAD_MAX = 2, 128, 3
ROWS, THREADS = [1, 8, 256], [1, 2]
ROWS_ALIKE = 256
BITS = {"int8": 8, "int4": 4}
READ_SHARE = {"int8": 0.85, "int4": 0.80}
LEAD = {"int8": {1: 1.1, 8: 1, 256: 0.95}, "int4": {1: 1.25, 8: 1, 256: 0.95}}
PAUSE_S = 0.012  # a rival's threads spin so long after their work
MEASURED = ["bench/quantised.py", "src/kernel", "src/exec/fast"]
DYNAMIC = "int8 rows"  # ours, with activations in int8
Run = Callable[[], Any]


class Stack(torch.nn.Module):
    """Each linear reads what the one before gave, cut to its width."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.linears = torch.nn.ModuleList(
            torch.nn.Linear(k, n, bias=False)
            for _ in range(layers) for n, k in SHAPES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for linear in self.linears:
            x = linear(x[:, :linear.in_features])
        return x

    def weights(self) -> list[torch.Tensor]:
        return [linear.weight.detach() for linear in self.linears]


def grouped(w: torch.Tensor, bits: int, group: int
            ) -> tuple[torch.Tensor, torch.Tensor]:
    """[n, k / group, group] of integers, and their scales."""
    parts = w.view(w.shape[0], -1, group)
    scale = parts.abs().amax(2) / (2 ** (bits - 1) - 1)
    return (parts / scale[:, :, None]).round().to(torch.int8), scale


# --- Who runs it ----------------------------------------------------------------


def ours(stack: Stack, x: torch.Tensor, precision: str) -> Run:
    torch._dynamo.reset()
    model = stack.bfloat16() if precision == "bf16" else stack.float()
    x = x.to(model.linears[0].weight.dtype)
    more = {} if precision == "bf16" else {"precision": precision}
    f = opgraft.freeze(model, (x,), options={"mode": "max-autotune", **more})
    return lambda: f(x)


def openvino(stack: Stack, x: torch.Tensor, bits: int, threads: int) -> Run:
    import openvino as ov
    from openvino import opset13 as o

    given = o.parameter(list(x.shape), np.float32)
    h, axis = given, o.constant(np.array([1]))
    for w in stack.weights():
        n, k = w.shape
        q, scale = grouped(w, bits, k if bits == 8 else GROUP)
        if bits == 8:
            constant = o.constant(q.view(n, k).numpy())
        else:
            flat = q.view(-1).numpy().astype(np.uint8) & 15
            constant = o.constant(ov.Tensor(flat[0::2] | flat[1::2] << 4,
                                            ov.Shape(list(q.shape)), ov.Type.i4))
            scale = scale[:, :, None]
        c = o.multiply(o.convert(constant, "f16"),
                       o.constant(scale.numpy().astype(np.float16)))
        c = o.convert(o.reshape(c, o.constant(np.array([n, k])), False), "f32")
        if h.get_output_shape(0)[1] != k:
            h = o.slice(h, o.constant(np.array([0])), o.constant(np.array([k])),
                        axis, axis)
        h = o.matmul(h, c, False, True)
    made = ov.Core().compile_model(
        ov.Model([h], [given]), "CPU",
        {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
         "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
    request, rows = made.create_infer_request(), x.numpy()
    return lambda: request.infer([rows])[0]


def onnxruntime(stack: Stack, x: torch.Tensor, bits: int, threads: int) -> Run:
    import onnxruntime as rt
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, h, width = [], [], "x", x.shape[1]

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    for i, w in enumerate(stack.weights()):
        n, k = w.shape
        if width != k:
            words = [constant(f"{word}{i}", np.array([v]))
                     for word, v in (("from", 0), ("to", k), ("axis", 1))]
            nodes.append(helper.make_node("Slice", [h, *words], [f"cut{i}"]))
            h = f"cut{i}"
        q, scale = grouped(w, bits, GROUP)
        whole = (q.to(torch.int16) + 2 ** (bits - 1)).to(torch.uint8).numpy()
        whole = whole if bits == 8 else whole[..., 0::2] | whole[..., 1::2] << 4
        nodes.append(helper.make_node(
            "MatMulNBits", [h, constant(f"b{i}", whole),
                            constant(f"s{i}", scale.reshape(-1).numpy())],
            [f"y{i}"], domain="com.microsoft", K=k, N=n, bits=bits,
            block_size=GROUP, accuracy_level=4))
        h, width = f"y{i}", n
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "stack", [value("x", TensorProto.FLOAT, list(x.shape))],
        [value(h, TensorProto.FLOAT, [x.shape[0], width])], constants)
    model = helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 9
    settings = rt.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    session = rt.InferenceSession(model.SerializeToString(), settings,
                                  providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x.numpy()})[0]


def aten(stack: Stack, x: torch.Tensor, bits: int, threads: int) -> Run:
    packed = []
    for w in stack.weights():
        n, k = w.shape
        q, scale = grouped(w, bits, k if bits == 8 else GROUP)
        if bits == 8:
            packed.append((k, q.view(n, k), scale.view(n).bfloat16()))
            continue
        whole = torch.ops.aten._convert_weight_to_int4pack_for_cpu(
            (q.view(n, k).int() + 8), 1)
        pairs = torch.stack([scale, torch.zeros_like(scale)], 2).transpose(0, 1)
        packed.append((k, whole, pairs.contiguous().bfloat16()))
    given = x.bfloat16()

    def call() -> torch.Tensor:
        h = given
        for k, w, scale in packed:
            h = h[:, :k].contiguous()
            h = (torch.ops.aten._weight_int8pack_mm(h, w, scale) if bits == 8 else
                 torch.ops.aten._weight_int4pack_mm_for_cpu(h, w, GROUP, scale))
        return h

    return call


RIVALS = {"OpenVINO": openvino, "ONNX Runtime": onnxruntime, "torch": aten}


def is_rounding(make: Callable[..., Run], bits: int) -> bool:
    """Whether a rival's activations are int8: beside large numbers, one in each
    group of 32, what small ones add to a product is lost."""
    torch.manual_seed(1)
    stack = Stack(1)
    del stack.linears[1:]
    n, k = SHAPES[0]
    large = torch.zeros(4, k)
    large[:, ::32] = 64
    small = 0.1 * torch.randn(4, k) * (large == 0)
    both, alone = (torch.as_tensor(result).float().view(4, n)
                   for result in (make(stack, x, bits, 1)()
                                  for x in (large + small, large)))
    wanted = small @ stack.weights()[0].T
    return bool((both - alone - wanted).norm() > 0.7 * wanted.norm())


def rounding_of(bits: int) -> dict[str, bool]:
    found = {}
    for name, make in RIVALS.items():
        try:
            found[name] = is_rounding(make, bits)
        except (ImportError, RuntimeError) as error:
            print(f"{name} is left out: {str(error).splitlines()[0]}")
    return found


# --- Measuring ------------------------------------------------------------------


def cases_of(form: str, m: int, threads: int, layers: int,
             rounding: dict[str, bool]) -> dict[str, Any]:
    torch.manual_seed(0)
    stack, x = Stack(layers), torch.randn(m, SHAPES[0][1])
    bits = BITS[form]
    runs: dict[str, Run] = {"opgraft": ours(stack, x, form)}
    for name in rounding:
        runs[name] = RIVALS[name](stack, x, bits, threads)
        runs[name]()
    count = sum(w.numel() for w in stack.weights())
    cases = {name: harness.loop("f()", f=f) for name, f in runs.items()}
    cases["bf16"] = harness.loop("f()", f=ours(stack, x, "bf16"))
    cases[DYNAMIC] = harness.loop("f()", f=ours(stack, x, f"{form}-dynamic"))
    reading = machine.Machine().reading(
        torch.ones(count * bits // 8, dtype=torch.uint8))
    return {**cases, **{name: limit.run for name, limit in reading.items()}}


def row_measure(form: str, m: int, threads: int, rounding: dict[str, bool],
                words: argparse.Namespace, goals: harness.Goals) -> None:
    what = f"{form}, {m} row{'s' * (m > 1)}, {threads} thread{'s' * (threads > 1)}"
    if os.getloadavg()[0] > LOAD_MAX and not words.smoke:
        goals.noisy(what)
        return
    torch.set_num_threads(threads)
    cases = cases_of(form, m, threads, words.layers, rounding)
    try:
        found = harness.measure(cases, blocks=words.blocks, pause_s=PAUSE_S)
    except harness.TooNoisy:
        goals.noisy(what)
        return
    harness.print_table(what, found, 1e6, "ms")
    least = {name: t.least for name, t in found.items()}
    for own, which in (("opgraft", "rival"), (DYNAMIC, "rival with int8 rows")):
        alike = [name for name, rounds in rounding.items()
                 if rounds == (own == DYNAMIC)
                 or own == "opgraft" and m < ROWS_ALIKE]
        if alike:
            best = min(alike, key=lambda name: least[name])
            goals.add(f"{what}: best {which} ({best}) / {own}",
                      least[best] / least[own], LEAD[form][m], at_most=False)
    goals.add(f"{what}: our bf16 / ours", least["bf16"] / least["opgraft"], 1,
              at_most=False)
    if m == 1:
        read = min(least["read_1"], least["read_8"])
        goals.add(f"{what}: reading / ours", read / least["opgraft"],
                  READ_SHARE[form], at_most=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true",
                        help="one layer, few blocks")
    parser.add_argument("--format", action="append", choices=list(BITS))
    parser.add_argument("--rows", action="append", type=int, choices=ROWS)
    parser.add_argument("--threads", action="append", type=int)
    words = parser.parse_args()
    words.layers = 1 if words.smoke else LAYERS
    words.blocks = harness.LEAST_BLOCKS if words.smoke else harness.BLOCKS
    goals = harness.Goals("quantised")
    torch.set_grad_enabled(False)
    for form in words.format or BITS:
        rounding = rounding_of(BITS[form])
        print(f"{form}: activations in int8: "
              f"{' '.join(name for name in rounding if rounding[name]) or 'none'}")
        for threads in words.threads or THREADS[:1 if words.smoke else None]:
            for m in words.rows or ROWS[:1 if words.smoke else None]:
                row_measure(form, m, threads, rounding, words, goals)
    if not (words.smoke or words.format or words.rows or words.threads):
        goals.write(MEASURED)


if __name__ == "__main__":
    main()
