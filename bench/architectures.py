#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Architectures that nobody chose: those of transformers that
tests/doctor/architectures.txt lists, at their usual sizes, and the plain forms
of architectures_own.py, each with one usual batch and length; inference, f32.

`--seed N` draws 30 of them. Each is timed frozen and through torch.compile
beside OpenVINO and ONNX Runtime, as bench/graphs.py does it: a process for
each, blocks in turn. Rows are kept in --out; a run goes on where the one before
ended. `--attribute` needs no quiet machine: it prints who runs the nodes (our
own kernels, our plain ones, the host) with the microseconds of the engine's
own profile, by architecture, and over all of them by class of node.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(Path(__file__).resolve().parent))

import each  # noqa: E402
import graph_worker  # noqa: E402
import graphs  # noqa: E402

LISTED = ROOT / "tests/doctor/architectures.py"

DRAWN = 30
MOST_PARAMETERS = 420e6
CALLS, WARM = 5, 8  # of a profile; those before it, which try lanes
OURS, FROZEN = "opgraft_max", "opgraft_frozen"
RIVALS = ("onnxruntime", "openvino")
MEAN = {OURS: 1.0, FROZEN: 1.1}  # best rival's time / ours
LEAST = 0.7


@functools.cache
def listing() -> Any:
    """tests/doctor/architectures.py, by its path: this file has its name."""
    spec = importlib.util.spec_from_file_location("listed_architectures", LISTED)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- Usual sizes ------------------------------------------------------------------

# What the list's tiny sizes are multiplied with where the defaults are too large.
TIMES = {"head_dim": 8, "kv_channels": 8, "d_kv": 8, "heads": 2, "layers": 3,
         "vocab_size": 64, "position": 8}
WIDTHS = 16  # of all others that are widths
LENGTHS = {"input_ids": 128, "decoder_input_ids": 32, "pixel_values": 224,
           "input_values": 16000}
# What a model asks for.
SHAPES = {"ASTConfig": {"input_values": (1, 1024, 128)},
          "WhisperConfig": {"input_features": (1, 80, 3000)},
          "LxmertConfig": {"visual_feats": (1, 36, 2048),
                           "visual_pos": (1, 36, 4)},
          "PatchTSTConfig": {"past_values": (8, 32, 1)},
          "SwinV2Config": {"pixel_values": (1, 3, 256, 256)},
          "ViltConfig": {"pixel_values": (1, 3, 384, 384)},
          "YolosConfig": {"pixel_values": (1, 3, 512, 864)},
          "OwlViTConfig": {"pixel_values": (1, 3, 768, 768),
                           "input_ids": (1, 16)},
          "CLIPConfig": {"input_ids": (1, 77)},
          "SiglipConfig": {"input_ids": (1, 64)},
          "BigBirdConfig": {"input_ids": (1, 1024)},
          "LongformerConfig": {"input_ids": (1, 512)}}
# What published checkpoints have and defaults have not.
PUBLISHED = {name: {"relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                    "hidden_size": 768, "num_hidden_layers": 6,
                    "num_attention_heads": 12, "intermediate_size": 3072,
                    **more}
             for name, more in (("DebertaConfig", {}), ("DebertaV2Config", {
                 "position_buckets": 256, "share_att_key": True,
                 "norm_rel_ebd": "layer_norm"}))}
# Architectures that the list has not: their defaults.
PIXELS = ("Bit", "Cvt", "EfficientNet", "FocalNet", "Hiera", "Levit",
          "MobileNetV1", "MobileNetV2", "MobileViT", "MobileViTV2", "Pvt",
          "PvtV2", "ViTMSN", "TextNet", "SwiftFormer", "Dinov2WithRegisters")
WORDS = ("SqueezeBert", "Funnel", "XLNet", "Ernie", "Splinter",
         "Data2VecText", "RoCBert", "Xmod")
SOUNDS = ("Wav2Vec2Conformer",)
AS_LISTED = ("InformerConfig", "TimeSeriesTransformerConfig", "ReformerConfig")


def kept_overrides(one: Any) -> dict[str, Any]:
    """Identifiers of tokens, kinds and switches, without sizes."""
    return PUBLISHED.get(one.config) or {
        k: v for k, v in one.overrides.items()
        if isinstance(v, (bool, str)) or v is None or k.endswith("_id")}


def widened(overrides: dict[str, Any]) -> dict[str, Any]:
    def of(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return widened(value)
        if isinstance(value, bool) or not isinstance(value, int) or any(
                w in key for w in ("expert", "top", "_id", "_k", "group", "every",
                                   "period", "offset", "index")):
            return value
        times = next((t for w, t in TIMES.items() if w in key), None)
        is_width = any(w in key for w in ("size", "dim", "d_model", "n_embd",
                                          "d_ff", "width", "n_inner"))
        return value * (times or (WIDTHS if is_width else 1))

    return {k: of(k, v) for k, v in overrides.items()}


def config_of(one: Any) -> Any:
    """The default configuration, or the list's own made wider where that has
    too many parameters."""
    import torch
    import transformers

    def make(overrides: dict[str, Any]) -> tuple[Any, float]:
        config = getattr(transformers, one.config)(**overrides)
        with torch.device("meta"):
            model = getattr(transformers, one.model)(config)
        return config, sum(p.numel() for p in model.parameters())

    if one.config not in AS_LISTED:
        try:
            config, count = make(kept_overrides(one))
            if count <= MOST_PARAMETERS:
                return config
        except Exception:  # its defaults make no model
            pass
    return make(one.overrides if one.config in AS_LISTED
                else widened(one.overrides))[0]


def arguments_of(one: Any, config: Any) -> dict[str, Any]:
    import torch

    out = {}
    for word in one.inputs.split():
        name, kind, sizes, bound = listing().INPUT.fullmatch(word).groups()
        shape = [int(size) for size in sizes.split(",")]
        if one.config not in AS_LISTED and name in LENGTHS:
            side = getattr(config, "image_size", None)
            length = side if name == "pixel_values" and isinstance(side, int) \
                else LENGTHS[name]
            shape = [1, 3, length, length] if name == "pixel_values" else \
                [1, *shape[1:-1], length]
        shape = SHAPES.get(one.config, {}).get(name, shape)
        out[name] = torch.randn(shape) if kind == "float" else \
            torch.randint(3, int(bound), shape)
    return out


def listed_build(one: Any) -> Any:
    """A model of transformers, called by place; its first tensor."""
    import torch
    import transformers

    config = config_of(one)
    model = getattr(transformers, one.model)(config)
    config.use_cache = False
    arguments = arguments_of(one, config)

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            found = self.inner(**dict(zip(arguments, args)), return_dict=False)
            while not isinstance(found, torch.Tensor):
                found = found[0]
            return found

    return Called(), tuple(arguments.values())


@functools.cache
def all_listed() -> dict[str, Any]:
    """By the configuration's name."""
    kinds = {"pixel_values=float[1,3,8,8]": PIXELS, "input_ids=int[1,8]<1000":
             WORDS, "input_values=float[1,8]": SOUNDS}
    more = [listing().Architecture(f"{name}Config", f"{name}Model", inputs, {})
            for inputs, few in kinds.items() for name in few]
    return {one.config: one for one in [*listing().listed(), *more]}


def names() -> list[str]:
    import architectures_own

    return [*architectures_own.OWN, *all_listed()]


def graph_add(name: str) -> None:
    """The architecture becomes a graph of graph_set's."""
    import architectures_own
    import graph_set

    def build(_: bool) -> Any:
        model, args = (architectures_own.OWN[name]()
                       if name in architectures_own.OWN else
                       listed_build(all_listed()[name]))
        return graph_set.Built(model.eval(), args, tolerance=1e-3)

    graph_set.ALL[name] = graph_set.Graph(build, False, None)


# --- Who runs the nodes -----------------------------------------------------------

OWN_KERNELS = ("fast", "packed", "winograd", "epilogue", "module")


def side_of(node: dict[str, Any]) -> str:
    by = str(node["by"])
    if by == "plain" and node["operator"] == "fused":
        return "own"
    return "own" if by in OWN_KERNELS else by


def attribute(name: str) -> dict[str, Any]:
    """Rows: side, operator, who, shapes of the node, microseconds."""
    import graph_set
    import torch

    import opgraft

    torch.set_grad_enabled(False)
    graph_add(name)
    built = graph_set.make(name, False)
    frozen = opgraft.freeze(built.model, built.args,
                            options={"mode": "max-autotune", "tune_s": 0,
                                     "lanes": "off"})
    for _ in range(WARM):
        frozen(*built.args)
    frozen.graph.profile(True)
    least: list[float] = []
    before: list[float] = []
    for _ in range(CALLS):  # the least: others use the machine, too
        frozen(*built.args)
        told = json.loads(frozen.graph.profile(True))
        now = [n.get("ns", 0) for n in told["nodes"]]
        took = [b - a for a, b in zip(before or [0.0] * len(now), now)]
        least = [min(p) for p in zip(least, took)] if least else took
        before = now
    types = {v["id"]: v["type"] for v in told["values"]}
    rows = [{"side": side_of(n), "operator": n["operator"],
             "reason": n["reason"], "us": ns / 1e3,
             "shape": f"{' '.join(types.get(i, '') for i in n['reads'][:2])} -> "
                      f"{types.get(n['makes'][0], '') if n['makes'] else ''}"}
            for n, ns in zip(told["nodes"], least) if n["by"] != "view"]
    parameters = sum(p.numel() for p in built.model.parameters())
    return {"rows": rows, "parameters": parameters,
            "arguments": [f"{list(a.shape)}" for a in built.args]}


def attribution_print(name: str, found: dict[str, Any], top: int) -> None:
    if "error" in found:
        print(f"{name}: {found['error']}", flush=True)
        return
    total = sum(r["us"] for r in found["rows"]) or 1.0
    sides = Counter[str]()
    for r in found["rows"]:
        sides[r["side"]] += r["us"]
    print(f"{name}: {found['parameters'] / 1e6:.1f} M parameters, "
          f"{', '.join(found['arguments'])}: {total:.0f} us; "
          + ", ".join(f"{s} {us / total:.0%}" for s, us in sides.most_common()),
          flush=True)
    lost = Counter[tuple[str, str, str]]()
    counts = Counter[tuple[str, str, str]]()
    for r in found["rows"]:
        if r["side"] != "own":
            key = (r["side"], r["operator"], r["shape"])
            lost[key] += r["us"]
            counts[key] += 1
    for key, us in lost.most_common(top):
        print(f"  {us / total:5.1%} {us:8.0f} us {counts[key]:>3} x "
              f"{key[0]:<6} {key[1]} {key[2]}")


def ranking(rows: dict[str, dict[str, Any]]) -> Iterator[tuple[float, str]]:
    """Classes of nodes by their share of the calls, summed over architectures:
    each counts the same, however long its call is."""
    shares, where = Counter[str](), dict[str, set[str]]()
    known = {n: f for n, f in rows.items() if "rows" in f}
    for name, found in known.items():
        total = sum(r["us"] for r in found["rows"]) or 1.0
        for r in found["rows"]:
            if r["side"] != "own":
                key = f"{r['side']:<6} {r['operator']}"
                shares[key] += r["us"] / total / len(known)
                where.setdefault(key, set()).add(name)
    for key, share in shares.most_common():
        yield share, f"{key} ({len(where[key])}: {', '.join(sorted(where[key])[:4])})"


# --- All --------------------------------------------------------------------------


def goals_of(rows: dict[str, Any]) -> Any:
    import graph_table
    import harness

    goals = harness.Goals("architectures")
    ways = {OURS: graph_table.Contest(OURS, "", RIVALS),
            FROZEN: graph_table.Contest(FROZEN, "", RIVALS)}
    for ours, contest in ways.items():
        found = {key: x for key, row in rows.items()
                 if (x := graph_table.ratio(row, contest)) is not None}
        if found:
            goals.add(f"best of {', '.join(RIVALS)} / {ours}, mean of {len(found)}",
                      graph_table.mean(list(found.values())), MEAN[ours],
                      at_most=False)
            worst = min(found, key=lambda k: found[k])
            goals.add(f"the least of these ({worst})", found[worst], LEAST,
                      at_most=False)
    return goals


def read_words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, help="draws 30 of them")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--smoke", action="store_true",
                        help="one small attribution, to see that it runs")
    parser.add_argument("--attribute", action="store_true",
                        help="who runs the nodes, without peers")
    parser.add_argument("--top", type=int, default=8, help="lines of each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--peer", action="append",
                        help="more than the rivals: eager, inductor_max")
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="keeps the rows, and goes on with those there")
    words = parser.parse_args()
    known = names()
    for name in words.only or []:
        if name not in known:
            parser.error(f"there is no architecture {name}; --list prints them")
    words.names = words.only or (["dlrm"] if words.smoke else known)
    if words.seed is not None:
        words.names = random.Random(words.seed).sample(known, DRAWN)
    words.peers = [OURS, FROZEN, *RIVALS, *(words.peer or [])]
    words.no_cold, words.counts, words.again = True, [words.threads], False
    return words


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        if sys.argv[3] != "machine":
            graph_add(sys.argv[2])
        graph_worker.serve(sys.argv[2:], graph_worker.serve_peer)
        return
    if sys.argv[1:2] == ["--one"]:
        each.report(attribute(sys.argv[2]))
        return
    words = read_words()
    if words.list:
        print("\n".join(words.names))
        return
    rows = each.Rows(words.out)
    if words.attribute or words.smoke:
        for name, row in rows.of(words.names, lambda n: each.one(
                Path(__file__), [n], 900)):
            attribution_print(name, row, words.top)
        print("share of a call, mean over all: what our own kernels do not run")
        for share, text in ranking({n: rows[n] for n in words.names}):
            print(f"  {share:6.2%} {text}")
        if words.smoke and "error" in rows[words.names[0]]:
            raise SystemExit("it did not run")
        return
    import graph_table

    keys = {name: f"{name} {words.threads}" for name in words.names}
    for name, key in keys.items():
        if key not in rows:
            rows.keep(key, graphs.row_measure(name, words.threads, words,
                                              Path(__file__).name))
        print(graph_table.line(name, words.threads, rows[key]), flush=True)
    goals_of({k: rows[k] for k in keys.values()})


if __name__ == "__main__":
    main()
