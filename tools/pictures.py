#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pictures of README and docs, and README's table of figures.

    tools/pictures.py [--check]

The figures are those of docs/results; the day is that of the file's commit.
With --check nothing is written, and a picture or figure that differs fails.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
from html import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
README = ROOT / "README.md"
TABLE = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.S)
# (result, its goal, what is measured, what it is compared with)
FIGURES = [
    ("call", "new output / pybind11", "one call of a tiny operator",
     "a pybind11 function"),
    ("call", "torch.ops / C++ TORCH_LIBRARY", "the same through `torch.ops`",
     "C++ `TORCH_LIBRARY`"),
    ("call", "forward + backward / C++ autograd::Function",
     "forward and backward", "C++ `autograd::Function`"),
    ("call", "node in an Inductor graph / plain custom operator",
     "its node in an Inductor graph", "`torch.library.custom_op`"),
    *(("graphs", f"2 threads: {graph}: best peer's time / ours",
       f"{what}, max-autotune", "the fastest of all others")
      for graph, what in (
          ("mlp", "a tiny MLP"), ("minilm", "MiniLM"),
          ("bert_base", "BERT-base"), ("gpt2_decode", "GPT-2, decode"),
          ("llama_decode_bf16", "Llama, decode in bf16"),
          ("mobilenet_v3", "MobileNetV3"),
          ("bert_small_training", "BERT-small, a training step"))),
    ("graphs", "Inductor's cold start / our cold one, mean of 16",
     "16 graphs, time to the first result", "Inductor"),
]
GIVEN = ["eager calls", "torch.compile, export", "autograd, torch.func",
         "vmap, autocast", "in-place and out= forms", "JAX, ONNX Runtime",
         "opgraft check"]
STYLE = ('<style>text{font:14px sans-serif;fill:#24292f}.c{font:13px monospace}'
         '.b{fill:#f6f8fa;stroke:#8c959f}.a{stroke:#57606a;fill:none}'
         '.r{fill:#2f81f7}.l{stroke:#cf222e;stroke-dasharray:4 3}'
         '@media(prefers-color-scheme:dark){text{fill:#e6edf3}'
         '.b{fill:#161b22}}</style>')


def svg(width: int, height: int, title: str, body: list[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} '
            f'{height}" width="{width}" role="img"><title>{escape(title)}'
            f'</title>{STYLE}\n' + "\n".join(body) + "\n</svg>\n")


def text(x: int, y: int, said: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{named}>{escape(said)}</text>'


def one_file() -> str:
    """A declaration at the left, and what is derived from it at the right."""
    lines = ['.schema   = "softcap(Tensor x, ...)"',
             '.shape    = "x[*N] -> [*N]"',
             '.backward = "softcap_backward(...)"',
             ".kernels  = one C function"]
    height = 24 * len(GIVEN) + 44
    top = height // 2 - 62
    body = [f'<rect class="b" x="8" y="{top}" width="318" height="124" rx="6"/>',
            text(20, top + 24, "softcap.c, plain C11")]
    body += [text(20, top + 48 + 20 * i, line, "c")
             for i, line in enumerate(lines)]
    for i, said in enumerate(GIVEN):
        y = 32 + 24 * i
        body += [f'<path class="a" d="M326 {height // 2} C400 {height // 2} '
                 f'400 {y - 5} 452 {y - 5}"/>', text(460, y, said)]
    return svg(640, height, "One declaration, and what PyTorch gets from it",
               body)


LAYERS = [
    ("Hosts", ["PyTorch", "JAX, ONNX Runtime", "TVM-FFI, AOTInductor",
               "your C program"]),
    ("Core: C11, libc", ["declarations, calls", "check", "graph engine",
                         "threads, devices"]),
    ("Modules: one C file each", ["your operators", "operator library",
                                  "adopted functions", "device drivers"]),
]


def architecture() -> str:
    """Three rows of boxes; the arrows go from callers to what they call."""
    body = []
    for i, (title, parts) in enumerate(LAYERS):
        y = 12 + 112 * i
        body += [f'<rect class="b" x="8" y="{y}" width="624" height="76" '
                 'rx="6"/>', text(20, y + 24, title)]
        for k, part in enumerate(parts):
            body.append(text(20 + 154 * k, y + 54, part, "c"))
        if i:
            body.append(f'<path class="a" d="M320 {y - 34} V{y - 4} '
                        f'm-6 -8 l6 8 l6 -8"/>')
    says = ["include/opgraft: one frame for each call", "opgraft_module()"]
    body += [text(334, 106 + 112 * i, said, "c")
             for i, said in enumerate(says)]
    return svg(640, 12 + 112 * len(LAYERS) - 24,
               "Hosts call the core, the core calls modules", body)


def figures() -> list[tuple[str, str, float, str, str]]:
    """(what, rival, ratio, processor, day) of each row."""
    found = []
    for name, goal, what, rival in FIGURES:
        path = ROOT / "docs" / "results" / f"{name}.json"
        result = json.loads(path.read_text())
        held = next(g for g in result["goals"] if g["what"] == goal)
        ratio = held["figure"]
        if held["bound"].startswith(">="):  # the other's time / ours
            ratio = 1 / ratio
        day = subprocess.run(
            ["git", "log", "-1", "--format=%cs", "--", str(path)], cwd=ROOT,
            text=True, capture_output=True).stdout.strip()
        found.append((what, rival, ratio, result["processor"], day))
    return found


def chart() -> str:
    rows = figures()
    scale = 240 / max(1.5, *(ratio for _, _, ratio, _, _ in rows))
    line = int(330 + scale)
    body = []
    for i, (what, rival, ratio, _, _) in enumerate(rows):
        y = 24 + 40 * i
        width = max(2, round(ratio * scale))
        body += [text(8, y + 6, what.replace("`", "")),
                 text(8, y + 22, "beside " + rival.replace("`", ""), "c"),
                 f'<rect class="r" x="330" y="{y}" width="{width}" '
                 'height="16"/>',
                 text(338 + max(width, line - 330), y + 13, f"{ratio:.2f}")]
    height = 40 * len(rows) + 20
    body.append(f'<path class="l" d="M{line} 10 V{height - 8}"/>')
    return svg(640, height, "Time as a part of the other's; the line is 1",
               body)


def table() -> str:
    out = ["| Measured | Beside | Ratio of times | Machine | Day |",
           "|---|---|---|---|---|"]
    out += [f"| {what} | {rival} | {ratio:.2f} | {machine} | {day} |"
            for what, rival, ratio, machine, day in figures()]
    return "\n".join(out) + "\n"


def without_days(said: str) -> str:
    return re.sub(r"\| *[\d-]* \|$", "|", said, flags=re.M)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pictures = {"one-file.svg": one_file(), "figures.svg": chart(),
                "architecture.svg": architecture()}
    now = README.read_text()
    then = TABLE.sub(lambda m: m[1] + table() + m[2], now)
    if not options.check:
        PICTURES.mkdir(exist_ok=True)
        for name, content in pictures.items():
            (PICTURES / name).write_text(content)
        README.write_text(then)
        return 0
    stale = [name for name, content in pictures.items()
             if not (PICTURES / name).exists()
             or (PICTURES / name).read_text() != content]
    if without_days(then) != without_days(now):
        stale.append("README.md")
    for name in stale:
        print(f"{name} differs from docs/results or this script; run "
              "tools/pictures.py")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
