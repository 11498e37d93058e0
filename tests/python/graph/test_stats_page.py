# SPDX-License-Identifier: Apache-2.0
"""opgraft.stats(f) as a page and in notebooks, opgraft.profile(f): every graph,
reason and time. What the page does is in tests/docs/test_site_browser.py."""

from __future__ import annotations

import html.parser
import json
import re
from typing import Any

import pytest
import torch

import opgraft


class Reader(html.parser.HTMLParser):
    """Tags that are open, and the text; an end without a begin fails."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str,
                        attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r"const given = (.*);\n", page)
    assert found is not None
    return json.loads(found[1])


def test_a_page_of_a_model() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x @ x.T + torch.eye(4)).sin()

    torch._dynamo.reset()
    c = torch.compile(f, backend="opgraft")
    c(torch.randn(4, 4))
    stats = opgraft.stats(c)
    assert stats.fallbacks
    part = Reader(stats._repr_html_())
    assert part.open == [] and "script" not in part.tags
    page = data_of(stats.html())
    for graph, shown in zip(stats.graphs, page["graphs"], strict=True):
        assert graph["name"] in part.text and graph["name"] in shown["title"]
        assert len(shown["schedule"]["nodes"]) >= graph["nodes"]
    for fallback in stats.fallbacks:
        place = f"{fallback['file']}:{fallback['line']}"
        assert fallback["reason"] in part.text and place in part.text
        assert any([fallback["operator"], place, fallback["reason"]] in rows
                   for shown in page["graphs"] for _, rows in shown["lists"])


def test_without_a_graph() -> None:
    torch._dynamo.reset()
    c = torch.compile(lambda x: x + 1, backend="opgraft")
    assert "no graph" in opgraft.stats(c)._repr_html_()
    assert data_of(opgraft.stats(c).html())["graphs"] == []


def test_a_profile() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(),
                                torch.nn.Linear(256, 8)).eval()
    x = torch.randn(32, 64)
    torch._dynamo.reset()
    for f in (torch.compile(model, backend="opgraft", mode="max-autotune"),
              opgraft.freeze(model, (x,))):
        p = opgraft.profile(f, x, calls=3)
        products = [n for n in p.nodes if "mm" in n.operator]
        assert len(products) == 2 and all(n.us > 0 for n in p.nodes)
        assert all(n.line > 0 or n.file.startswith("module ")
                   for n in products)
        assert p.call_us > 0 and abs(p.us - sum(n.us for n in p.nodes)) < 1e-6
        assert f"in {len(p.nodes)} nodes" in str(p)
        assert json.loads(p.json())["nodes"] == [vars(n) for n in p.nodes]
        events = json.loads(p.trace())["traceEvents"]
        assert [e["dur"] for e in events] == [n.us for n in p.nodes]
        ends = [e["ts"] + e["dur"] for e in events]
        assert all(b["ts"] >= a - 1e-6 for a, b in zip(ends, events[1:]))
        shown, = data_of(p.html())["graphs"]
        assert sum(n["ns"] for n in shown["schedule"]["nodes"]
                   ) == pytest.approx(1e3 * p.us)
        # Nothing is timed any more, and results are as ever.
        assert torch.equal(f(x), f(x))


def test_profile_refuses() -> None:
    with pytest.raises(TypeError, match="profile: builtin_.* is not compiled"):
        opgraft.profile(len, [])
    with pytest.raises(ValueError, match="calls is 0, expected 1 or more"):
        opgraft.profile(len, [], calls=0)
