#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes models.txt: which public models the sweep takes, by rule alone.

- timm, torchvision: of each file that registers models, the one with the
  fewest parameters, whole (no block left out), at a small picture where it
  takes one. Left out: quantised models, and timm's `test_` models, which are
  cut short.
- diffusers: every module class whose name holds `Block`.
- torch_geometric: every class of `torch_geometric.nn.conv`.

A class is built and called with what the tables below say for the names of
its parameters. The first arguments with which eager mode runs forward and
backward and stays finite are kept; a class that none of them fits is counted in
a comment of the list, with the last error. opgraft has no part in it.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import multiprocessing
import resource
import sys
import warnings
from collections import defaultdict
from typing import Any, Iterator

if __name__ == "__main__":
    import packages

    packages.install()
    if str(packages.FOLDER) not in sys.path:
        import os

        os.execve(sys.executable, [sys.executable, *sys.argv],
                  packages.environment())

import torch
from entry import BUILDERS, LIST, Entry

LEFT_OUT = "# left out: "
SECONDS = 60  # of processor time, for the trials of one model
PATIENCE = 8  # wall time for each of them
PICTURES = (96, 128, 224, 256)
WIDTH, TOKENS, SIDE, HEADS = 32, 12, 8, 2
# What a constructor's parameter gets, by its name.
INIT: dict[str, Any] = {
    **dict.fromkeys(
        ("in_channels out_channels dim hidden_size in_dim out_dim channels "
         "temb_channels prev_output_channel model_dim input_dim output_dim "
         "embed_dim cross_attention_dim time_dim mid_channels inp_channels "
         "hidden_dim d_model context_dim context_channels embedding_dim "
         "num_channels time_embed_dim c ffn_dim_out kv_input_dim "
         "c_timestep c_cond adaln_dim cond_dim pooled_projection_dim "
         "zq_channels conditioning_embedding_dim source_dim filter_size "
         "hidden_channels base_channels num_features").split(), WIDTH),
    **dict.fromkeys("ffn_dim intermediate_size ff_dim intermediate_dim "
                    "ffn_hidden_size ff_inner_dim time_mix_inner_dim "
                    "fc_dim".split(), 2 * WIDTH),
    **dict.fromkeys("num_attention_heads num_heads heads n_heads n_head nhead "
                    "num_kv_heads n_kv_heads num_key_value_heads "
                    "num_key_value_attention_heads".split(), HEADS),
    **dict.fromkeys(("attention_head_dim", "head_dim", "dim_head"),
                    WIDTH // HEADS),
    **dict.fromkeys("norm_eps eps layer_norm_eps rms_norm_eps "
                    "qk_norm_eps".split(), 1e-5),
    **dict.fromkeys(("dropout", "hidden_dropout", "attention_dropout"), 0.0),
    **dict.fromkeys(("num_res_blocks", "num_layers", "stride", "dilation"), 1),
    "kernel_size": 3, "mlp_ratio": 2.0, "multiple_of": 8, "layer_id": 0,
    "qk_norm": "rms_norm", "use_bias": True, "use_attention": False,
    "ln_elementwise_affine": True, "act_fn": "gelu", "ffn_dim_multiplier": None,
    "num_relations": 3, "K": 2, "k": 2, "edge_dim": 4, "alpha": 0.1,
    "first_aggr": "mean", "num_node_types": 2, "num_edge_types": 3,
    "edge_type_emb_dim": 4, "edge_attr_emb_dim": 4, "space_dimensions": 3,
    "propagate_dimensions": 4, "resolution_idx": 0, "mode": "default",
    "aggregators": ["mean", "max", "std"], "scalers": ["identity"],
    "deg": "int[10]<9", "time_dim_a": WIDTH, "model_dim_a": WIDTH,
    "head_dim_a": WIDTH // HEADS, "ff_dim_a": 2 * WIDTH,
    "spatial_downsample": True, "temporal_downsample": False,
    "use_downsample": True, "use_upsample": True, "spatial_upsample": True,
    "temporal_upsample": False, "ctrl_to_base": None, "dilations": [1, 3, 5],
    "num_groups_out": 8, "cat_dim": WIDTH, "block_num_heads": HEADS,
    "downsample": True, "upsample": True, "qk_norm_eps": 1e-6,
    "audio_dim": WIDTH, "audio_num_attention_heads": HEADS,
    "audio_attention_head_dim": WIDTH // HEADS,
    "audio_cross_attention_dim": WIDTH,
}
# Where a constructor has such a parameter it gets this, required or not: its
# default is the width of a published model.
NARROW = {n: WIDTH for n in ("cross_attention_dim", "temb_channels")}
# Of a parameter that holds a layer: what one of the classes takes.
LAYERS: dict[str, list[str]] = {"nn": [
    f"linear[{WIDTH},{WIDTH}]", f"linear[{2 * WIDTH},{WIDTH}]",
    f"linear[4,{WIDTH * WIDTH}]"]}


def images(batch: int, channels: int = WIDTH, extra: int = 0) -> str:
    return f"float[{batch},{channels},{SIDE + extra},{SIDE + extra}]"


def tokens(batch: int, extra: int = 0) -> str:
    return f"float[{batch},{TOKENS + extra},{WIDTH}]"


# What a forward's parameter gets: for each name, several forms of which one
# fits; a form is a function of the batch and of what is added to a length.
Form = Any
PICTURE: list[Form] = [
    images,
    lambda b, e: tokens(b, e),
    lambda b, e: f"float[{b},{WIDTH},{4 + e},{SIDE},{SIDE}]",
    lambda b, e: f"float[{b},{WIDTH},{16 + 4 * e}]",
]
FORMS: dict[str, list[Form]] = {
    **dict.fromkeys("hidden_states x inputs input_tensor hidden_state "
                    "latents t".split(), [
        lambda b, e: images(b, extra=e), *PICTURE[1:]]),
    "encoder_hidden_states": [lambda b, e: tokens(b, 5)],
    "skip_sample": [lambda b, e: images(b, 3, e)],
    "temb": [lambda b, e: f"float[{b},{WIDTH}]",
             lambda b, e: f"float[{b},{6 * WIDTH}]",
             lambda b, e: f"float[{b},6,{WIDTH}]", lambda b, e: None],
    "time_embed": [lambda b, e: f"float[{b},{WIDTH}]"],
    "res_hidden_states_tuple": [
        lambda b, e: [images(b, extra=e)],
        lambda b, e: [images(b, extra=e)] * 3,
        lambda b, e: [f"float[{b},{WIDTH},{16 + 4 * e}]"]],
    **dict.fromkeys("rotary_emb image_rotary_emb attention_mask attn_mask "
                    "freqs_cis rope rotary_pos_emb encoder_mask "
                    "encoder_attention_mask cross_attention_kwargs".split(),
                    [lambda b, e: None]),
    **dict.fromkeys("adaln_input emb timestep_embed embedded_timestep "
                    "timestep_emb".split(),
                    [lambda b, e: f"float[{b},{WIDTH}]"]),
    "temb_mod": [lambda b, e: f"float[{b},6,{WIDTH}]"],
    "image_only_indicator": [lambda b, e: f"float[{b},1]"],
    "num_frames": [lambda b, e: 1],
    "context": [lambda b, e: tokens(b, 5)],
}
GRAPH: dict[str, list[Form]] = {
    "x": [lambda b, e: f"float[{10 * b + e},{WIDTH}]",
          lambda b, e: f"float[{10 * b + e},4,{WIDTH}]",
          lambda b, e: f"float[4,{10 * b + e},{WIDTH}]"],
    "edge_index": [lambda b, e: f"int[2,{30 * b}]<10"],
    "pos": [lambda b, e: f"float[{10 * b + e},3]"],
    "normal": [lambda b, e: f"float[{10 * b + e},3]"],
    "edge_type": [lambda b, e: f"int[{30 * b}]<3"],
    "node_type": [lambda b, e: f"int[{10 * b + e}]<2"],
    "edge_attr": [lambda b, e: f"float[{30 * b},4]"],
    "pseudo": [lambda b, e: f"float[{30 * b},3]"],
    "edge_weight": [lambda b, e: f"float[{30 * b}]"],
    "pos_edge_index": [lambda b, e: f"int[2,{30 * b}]<10"],
    "neg_edge_index": [lambda b, e: f"int[2,{30 * b}]<10"],
    "hyperedge_index": [lambda b, e: f"int[2,{30 * b}]<10"],
    "x_0": [lambda b, e: f"float[{10 * b + e},{WIDTH}]"],
}
# Batch, and what is added to a length, for each of the three sizes; the second
# set where a model takes one length only.
SIZES = (((2, 0), (3, 0), (2, 4)), ((2, 0), (3, 0), (5, 0)))


def required(function: Any) -> list[str]:
    """Names of the parameters without a default."""
    return [p.name for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.name != "self"
            and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def outputs(tree: Any) -> list[torch.Tensor]:
    flat, _ = torch.utils._pytree.tree_flatten(tree)
    return [x for x in flat if isinstance(x, torch.Tensor)]


def runs(entry: Entry) -> None:
    """Raises where eager mode does not run each size forward, and the first
    one backward in training, with finite results."""
    model = entry.build().eval()
    for size in range(len(entry.sizes)):
        with torch.no_grad():
            found = outputs(model(**entry.arguments(size)))
        if not found or any(x.is_floating_point() and not x.isfinite().all()
                            for x in found):
            raise ValueError("a result is not finite, or there is none")
    given = entry.arguments(0)
    for x in outputs(given):
        x.requires_grad_(x.is_floating_point())
    loss = sum(x.square().mean() for x in outputs(
        model.train()(**given)) if x.requires_grad)
    if not isinstance(loss, torch.Tensor):
        raise ValueError("no result requires a gradient")
    loss.backward()


def first(entries: Iterator[Entry]) -> Entry | str:
    """The first that eager mode runs, else the last error."""
    said = "a parameter has a name that no table holds"
    for entry in entries:
        try:
            runs(entry)
            return entry
        except Exception as error:
            said = f"{type(error).__name__}: {str(error).splitlines()[0]}" \
                if str(error) else type(error).__name__
    return said[:160]


def pictures(library: str, name: str) -> Iterator[Entry]:
    """Of a model of timm or torchvision."""
    for side, given in itertools.product(PICTURES, (False, True)):
        word = "img_size" if library == "timm" else "image_size"
        init = {word: side} if given else {}
        for more in (32, 0):
            shapes = [(2, 0), (3, 0), (2, more) if more else (5, 0)]
            yield Entry(library, name, init, [
                {"x": f"float[{b},3,{side + m},{side + m}]"}
                for b, m in shapes])
    for frames, side in ((16, 112), (16, 224)):
        yield Entry(library, name, {}, [
            {"x": f"float[{b},3,{frames},{side},{side}]"} for b in (1, 2, 3)])
    yield Entry(library, name, {}, [
        {f"image{i}": f"float[{b},3,{s},{s}]" for i in (1, 2)}
        for b, s in ((1, 128), (2, 128), (1, 160))])
    yield Entry(library, name, {}, [
        {"images": [f"float[3,{s},{s + 32}]"] * b}
        for b, s in ((2, 128), (3, 128), (2, 160))])


def classes(library: str, name: str, constructor: Any, forward: Any,
            forms: dict[str, list[Form]]) -> Iterator[Entry]:
    wanted, called = required(constructor), required(forward)
    if not set(wanted) <= set(INIT) | set(LAYERS) or \
            not set(called) <= set(forms):
        return
    optional = [n for n in inspect.signature(forward).parameters
                if n in ("encoder_hidden_states", "temb", "edge_weight",
                         "edge_attr", "edge_type", "pseudo")
                and n in forms and n not in called]
    narrow = {n: w for n, w in NARROW.items()
              if n in inspect.signature(constructor).parameters}
    inits = [{n: INIT[n] for n in wanted if n in INIT} | narrow | dict(layer)
             for layer in itertools.product(*(
                 [(n, x) for x in LAYERS[n]] for n in wanted if n in LAYERS))]
    for extra in ([], *([n] for n in optional), optional):
        names = [*called, *extra]
        for init, sizes, chosen in itertools.product(
                inits, SIZES, itertools.product(*(forms[n] for n in names))):
            yield Entry(library, name, init, [
                {n: form(b, e) for n, form in zip(names, chosen, strict=True)}
                for b, e in sizes])


def smallest(library: str, names: list[str]) -> str:
    """By the number of parameters, then by name."""
    def count(name: str) -> tuple[float, str]:
        try:
            with torch.device("meta"):
                model = BUILDERS[library](name, {})
            return sum(p.numel() for p in model.parameters()), name
        except Exception:
            return float("inf"), name
    return min(map(count, names))[1]


def families(library: str) -> list[tuple[str, list[str]]]:
    """File, and the models that it registers."""
    found: dict[str, list[str]] = defaultdict(list)
    if library == "timm":
        from timm.models import _registry

        for module, names in _registry._module_to_models.items():
            found[module] = [n for n in names if not n.startswith("test_")]
    else:
        import torchvision

        for name in torchvision.models.list_models():
            builder = torchvision.models.get_model_builder(name)
            if "quantiz" not in builder.__module__:
                found[builder.__module__].append(name)
    return sorted((k, sorted(v)) for k, v in found.items() if v)


def module_classes() -> list[tuple[str, Any]]:
    import importlib
    import pkgutil

    import diffusers.models

    found: dict[str, Any] = {}
    for info in pkgutil.walk_packages(diffusers.models.__path__,
                                      "diffusers.models."):
        try:
            module = importlib.import_module(info.name)
        except Exception as error:  # flax's need jax
            print(f"{info.name}: {error}", file=sys.stderr)
            continue
        found |= {f"{info.name}.{n}": c for n, c in vars(module).items()
                  if inspect.isclass(c) and issubclass(c, torch.nn.Module)
                  and c.__module__ == info.name and "Block" in n}
    return sorted(found.items())


def candidates(library: str) -> Iterator[tuple[str, Any]]:
    """What may stand in the list: a name, and the entries to try."""
    if library in ("timm", "torchvision"):
        for _, names in families(library):
            name = smallest(library, names)
            yield name, pictures(library, name)
    elif library == "diffusers":
        for name, made in module_classes():
            yield name, classes(library, name, made.__init__, made.forward,
                                FORMS)
    else:
        import torch_geometric.nn.conv as conv

        for last in sorted(conv.__all__):
            made = getattr(conv, last)
            if inspect.isclass(made) and issubclass(made, torch.nn.Module):
                name = f"torch_geometric.nn.conv.{last}"
                yield name, classes(library, name, made.__init__,
                                    made.forward, GRAPH)


def bounded(entries: Iterator[Entry]) -> Entry | str:
    """In a process of its own: one that crashes or hangs is left out."""
    ours, theirs = multiprocessing.Pipe(False)

    def child() -> None:
        sys.stdout = sys.stderr = open("/dev/null", "w")
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        theirs.send(first(entries))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    theirs.close()
    try:
        said: Entry | str = ours.recv() if ours.poll(PATIENCE * SECONDS) \
            else f"not done in {PATIENCE * SECONDS} s"
    except EOFError:
        said = f"ended by itself, or not done in {SECONDS} s"
    process.kill()
    process.join()
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="*", default=list(BUILDERS),
                        help="writes anew the lines of these alone "
                        f"({', '.join(BUILDERS)})")
    libraries = parser.parse_args().library
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, list[str]] = {library: [] for library in BUILDERS}
    for line in LIST.read_text().splitlines() if LIST.exists() else []:
        library = line.split('"')[3] if line.startswith("{") else \
            line.removeprefix(LEFT_OUT).split(" ")[0]
        if library in found and library not in libraries:
            found[library].append(line)
    for library in libraries:
        for name, entries in candidates(library):
            entry = bounded(entries)
            found[library].append(
                f"{LEFT_OUT}{library} {name}: {entry}"
                if isinstance(entry, str) else entry.line())
            print(found[library][-1], flush=True)
        LIST.write_text(
            "# Written by catalog.py, by its rule; one model a line.\n"
            + "".join(f"{line}\n" for lines in found.values()
                      for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
