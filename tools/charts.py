#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a result's goals: a bar for each figure, against the bound that it has
to hold. tools/results.py writes it beside each result.

    tools/charts.py RESULT.json > RESULT.svg
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from html import escape
from typing import Any

WIDTH, BOUND, ROW = 640, 240, 38  # BOUND: how long a bar at its bound is
FIGURE = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?")
STYLE = ("<style>text{font:13px sans-serif;fill:#24292f}.f{font:12px monospace}"
         ".holds{fill:#2da44e}.short{fill:#cf222e}"
         ".b{stroke:#57606a;stroke-dasharray:4 3}"
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}"
         ".b{stroke:#9aa0aa}}</style>")


def bound_of(goal: dict[str, Any]) -> float | None:
    """The number of "<= 0.2 ms"; None where there is no rival."""
    found = FIGURE.search(str(goal.get("bound", "")))
    return float(found[0]) if found else None


def bar(goal: dict[str, Any]) -> tuple[float, str]:
    """(length, class): a bar that reaches beyond the chart is cut there."""
    bound, figure = bound_of(goal), goal.get("figure")
    if figure is None or bound is None or bound <= 0:
        return 0, ""
    length = min(max(float(figure) / bound * BOUND, 2), WIDTH - 16)
    return length, "holds" if goal["verdict"] == "holds" else "short"


def said(goal: dict[str, Any]) -> str:
    figure = goal.get("figure")
    shown = goal["verdict"] if figure is None else f"{figure:.3g}"
    if goal["verdict"] == "limit":
        return f"{shown}, the machine's limit"
    return f"{shown} ({goal['bound']})" if goal.get("bound") else shown


def svg(name: str, result: dict[str, Any]) -> str:
    """Dashed: the bound. Green: the goal holds; red: it falls short."""
    goals = result.get("goals", [])
    height = 34 + ROW * max(1, len(goals)) + 8
    about = f"{name}: figures against their bounds"
    body = [f'<text x="8" y="18">{escape(about)}; '
            f'{escape(str(result.get("processor", "")))}</text>']
    for i, goal in enumerate(goals):
        y = 34 + ROW * i
        length, kind = bar(goal)
        body.append(f'<text x="8" y="{y + 11}">{escape(goal["what"])}</text>')
        if kind:
            body += [f'<rect class="{kind}" x="8" y="{y + 17}" height="12" '
                     f'width="{length:.1f}"/>',
                     f'<path class="b" d="M{8 + BOUND} {y + 14}v18"/>']
        left = min(max(length, BOUND) + 16, WIDTH - 170) if kind else 8
        body.append(f'<text class="f" x="{left:.0f}" y="{y + 28}">'
                    f"{escape(said(goal))}</text>")
    if not goals:
        body.append('<text x="8" y="52">no goals</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
            f'{height}" width="{WIDTH}" role="img"><title>{escape(about)}'
            f"</title>{STYLE}\n" + "\n".join(body) + "\n</svg>\n")


def main(paths: list[str]) -> int:
    if len(paths) != 1:
        raise SystemExit(str(__doc__).strip())
    path = pathlib.Path(paths[0])
    print(svg(path.stem, json.loads(path.read_text())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
