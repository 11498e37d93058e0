# SPDX-License-Identifier: Apache-2.0
"""The site that `make docs` builds: every link leads somewhere, nothing is
fetched from elsewhere, pages work without JavaScript and on a phone."""

from __future__ import annotations

import html.parser
import pathlib
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "docs"
# Pages that Sphinx makes, which only search and overview need.
MADE = {"search.html", "genindex.html"}

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="no site: make docs")


class Page(html.parser.HTMLParser):
    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []  # by showing the page
        self.ids: set[str] = set()
        self.metas: list[dict[str, str | None]] = []
        self.images_without_alt = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag: str,
                        attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "meta":
            self.metas.append(given)
        if tag == "img" and not given.get("alt"):
            self.images_without_alt += 1
        for name in ("src", "data") + (("href",) if tag == "link" else ()):
            if given.get(name):
                self.fetched.append(str(given[name]))


@pytest.fixture(scope="module")
def pages() -> dict[pathlib.Path, Page]:
    return {path: Page(path) for path in sorted(SITE.rglob("*.html"))
            if path.name not in MADE and "_static" not in path.parts}


def target(page: pathlib.Path, link: str) -> tuple[pathlib.Path, str]:
    parts = urllib.parse.urlsplit(link)
    path = (page.parent / urllib.parse.unquote(parts.path)).resolve() \
        if parts.path else page
    return path, urllib.parse.unquote(parts.fragment)


def test_links_lead_somewhere(pages: dict[pathlib.Path, Page]) -> None:
    wrong, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            if urllib.parse.urlsplit(link).scheme:
                continue
            to, fragment = target(path, link)
            count += 1
            if not to.exists() or (
                    fragment and to in pages
                    and fragment not in pages[to].ids):
                wrong.append(f"{path.relative_to(SITE)}: {link}")
    assert count > 1000
    assert wrong == []


def test_nothing_comes_from_elsewhere(pages: dict[pathlib.Path, Page]) -> None:
    for path, page in pages.items():
        for name in page.fetched:
            assert not urllib.parse.urlsplit(name).netloc, (path, name)
            if not name.startswith("data:"):
                assert target(path, name)[0].exists() \
                    or name.startswith("#"), (path, name)


def test_every_page_is_reached_without_scripts(
        pages: dict[pathlib.Path, Page]) -> None:
    """By links of the start page alone, which stand in the HTML itself."""
    start = SITE / "index.html"
    reached, todo = {start}, [start]
    while todo:
        page = todo.pop()
        for link in pages[page].links:
            if not urllib.parse.urlsplit(link).scheme:
                to = target(page, link)[0]
                if to in pages and to not in reached:
                    reached.add(to)
                    todo.append(to)
    assert set(pages) - reached == set()


def test_pages_fit_a_phone(pages: dict[pathlib.Path, Page]) -> None:
    for path, page in pages.items():
        viewport = [m for m in page.metas if m.get("name") == "viewport"]
        assert viewport and "width=device-width" in str(
            viewport[0]["content"]), path
        assert page.images_without_alt == 0, path


def test_the_five_parts_are_in_order(pages: dict[pathlib.Path, Page]) -> None:
    text = (SITE / "index.html").read_text()
    places = [text.index(f'caption-text">{part}<') for part in (
        "Start", "Guides", "Reference", "Understand", "Contribute")]
    assert places == sorted(places)
