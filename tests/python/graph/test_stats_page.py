# SPDX-License-Identifier: Apache-2.0
"""opgraft.stats(f).html(): every graph and reason, escaped, without scripts."""

from __future__ import annotations

import html.parser

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


def test_a_page_of_a_model() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x @ x.T + torch.eye(4)).sin()

    torch._dynamo.reset()
    c = torch.compile(f, backend="opgraft")
    c(torch.randn(4, 4))
    stats = opgraft.stats(c)
    assert stats.fallbacks
    page = Reader(stats.html())
    assert page.open == [] and "script" not in page.tags
    for graph in stats.graphs:
        assert graph["name"] in page.text
    for fallback in stats.fallbacks:
        assert fallback["operator"] in page.text
        assert fallback["reason"] in page.text
        assert f"{fallback['file']}:{fallback['line']}" in page.text
    assert stats._repr_html_() in stats.html()


def test_without_a_graph() -> None:
    torch._dynamo.reset()
    c = torch.compile(lambda x: x + 1, backend="opgraft")
    assert "no graph" in Reader(opgraft.stats(c).html()).text
