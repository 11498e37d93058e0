# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, on a desk and on a phone. Chromium measures it
from a page around it, so that nothing but the program is needed."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opgraft.doctor._run import program

ROOT = Path(__file__).resolve().parents[3]
SEEDS = sorted((ROOT / "tests/fuzz/corpus/events").glob("seed-*"))
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PHONE, DESK = 360, 1280
AROUND = """<!doctype html><meta charset="utf-8">
<iframe id="page" width="{width}" height="800" srcdoc="{page}"></iframe>
<pre id="found"></pre><script>
addEventListener("load", () => {{
  const page = document.getElementById("page").contentDocument;
  const all = [...page.body.querySelectorAll("*")];
  document.getElementById("found").textContent = JSON.stringify({{
    width: page.documentElement.scrollWidth,
    height: page.documentElement.scrollHeight,
    text: page.body.innerText,
    scripts: page.scripts.length,
    ran: window.hostile === undefined &&
         document.getElementById("page").contentWindow.hostile === undefined,
    small: all.filter(e => e.childNodes.length && e.innerText &&
      parseFloat(getComputedStyle(e).fontSize) < 10).length,
  }});
}});</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser is here")


def measured(page: str, width: int, folder: Path) -> dict[str, Any]:
    around = folder / "around.html"
    around.write_text(AROUND.format(width=width, page=html.escape(page)),
                      encoding="utf-8")
    done = subprocess.run(
        [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={folder}/profile", "--virtual-time-budget=5000",
         "--dump-dom", around.as_uri()], capture_output=True, timeout=600)
    found = re.search(rb'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert found and found[1], done.stderr[-2000:]
    return json.loads(html.unescape(found[1].decode()))


@pytest.mark.full
@pytest.mark.parametrize("events", SEEDS, ids=lambda p: p.name)
def test_page(events: Path, tmp_path: Path) -> None:
    page = subprocess.run([program(), "report", str(events), "--html", "-"],
                          capture_output=True, text=True).stdout
    for width in (PHONE, DESK):
        found = measured(page, width, tmp_path)
        assert found["width"] <= width, "it scrolls sideways"
        assert found["height"] > 200
        assert "opgraft doctor" in found["text"]
        assert found["scripts"] == 0 and found["ran"]
        assert found["small"] == 0
