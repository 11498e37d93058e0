# SPDX-License-Identifier: Apache-2.0
"""Looks at pages in Chromium, without a window. It is driven by the DevTools
protocol through two pipes (--remote-debugging-pipe), so that no library and no
port is needed: each message is JSON and ends with a zero byte.
https://chromedevtools.github.io/devtools-protocol/"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
         "--disable-background-networking", "--remote-debugging-pipe"]
PATIENCE_S = 30
# What is wider than the page, innermost first: a report names it.
MEASURE = """(() => {
  const width = screen.width;
  const inside = e => {
    for (let p = e.parentElement; p; p = p.parentElement)
      if (/auto|scroll|hidden|clip/.test(getComputedStyle(p).overflowX) &&
          p !== document.body && p !== document.documentElement) return true;
    return false;
  };
  const wide = [...document.querySelectorAll("body *")].filter(e =>
    e.getBoundingClientRect().right > width + 1 && !inside(e)).slice(-3)
    .map(e => `${e.tagName.toLowerCase()} "${(e.textContent || "").trim()
      .slice(0, 40)}"`);
  return {scroll: document.documentElement.scrollWidth,
          height: document.documentElement.scrollHeight,
          text: document.body.innerText.trim().length, wide};
})()"""


@dataclass
class Look:
    """What was seen of a page at one width."""
    # A phone shows a page that is too wide as a whole, and innerWidth grows
    # with it: the width that was asked for counts.
    scroll_width: int
    width: int
    height: int
    characters: int
    wide: list[str]  # elements that reach beyond the page
    failed: list[str] = field(default_factory=list)  # requests
    errors: list[str] = field(default_factory=list)  # of scripts, or logged

    def problems(self) -> list[str]:
        found = [f"request failed: {name}" for name in self.failed]
        found += [f"error: {text}" for text in self.errors]
        if self.scroll_width > self.width:
            found.append(f"{self.scroll_width} pixels wide, expected at most "
                         f"{self.width}: {', '.join(self.wide)}")
        if self.characters == 0:
            found.append("it shows no text")
        return found


class Browser:
    """One process and one tab, which goes from page to page."""

    session = ""  # of the tab, once there is one

    def __init__(self, folder: pathlib.Path) -> None:
        theirs_in, self.to = os.pipe()
        self.of, theirs_out = os.pipe()
        words = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder}/profile",
                 "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "-",
             *words], pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.left, self.number = b"", 0
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")
        self.session = self.call("Target.attachToTarget", flatten=True,
                                 targetId=target["targetId"])["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def close(self) -> None:
        os.close(self.to)
        os.close(self.of)
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self.left:
            rest = until - time.monotonic()
            if rest <= 0 or not select.select([self.of], [], [], rest)[0]:
                raise TimeoutError("Chromium does not answer")
            more = os.read(self.of, 1 << 16)
            if not more:
                raise OSError("Chromium ended")
            self.left += more
        one, _, self.left = self.left.partition(b"\0")
        return dict(json.loads(one))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        sent: dict[str, Any] = {"id": self.number, "method": method,
                                "params": params}
        if self.session:
            sent["sessionId"] = self.session
        os.write(self.to, json.dumps(sent).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            said = self.message(until)
            if said.get("id") != self.number:
                self.events.append(said)
            elif "error" in said:
                raise OSError(f"{method}: {said['error']}")
            else:
                return dict(said["result"])

    def wait_for_load(self, loader: str) -> None:
        """Of this navigation: an earlier page's load does not count."""
        def is_load(event: dict[str, Any]) -> bool:
            params = event.get("params", {})
            return (event.get("method") == "Page.lifecycleEvent"
                    and params["name"] == "load"
                    and params["loaderId"] == loader)
        until = time.monotonic() + PATIENCE_S
        while not any(map(is_load, self.events)):
            self.events.append(self.message(until))

    def run(self, script: str) -> Any:
        return self.call("Runtime.evaluate", expression=script,
                         returnByValue=True)["result"].get("value")

    def look(self, url: str, width: int, colours: str = "light") -> Look:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": colours}])
        self.events.clear()
        self.wait_for_load(self.call("Page.navigate", url=url)["loaderId"])
        size = self.run(MEASURE)
        look = Look(size["scroll"], width, size["height"], size["text"],
                    size["wide"])
        for event in self.events:
            note(look, event.get("method", ""), event.get("params", {}))
        return look

    def shot(self, path: pathlib.Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


def note(look: Look, method: str, params: dict[str, Any]) -> None:
    if method == "Network.loadingFailed":
        look.failed.append(f"{params.get('type')} {params['errorText']}")
    elif method == "Network.responseReceived":
        response = params["response"]
        if response["status"] >= 400:
            look.failed.append(f"{response['url']} {response['status']}")
    elif method == "Runtime.exceptionThrown":
        details = params["exceptionDetails"]
        look.errors.append(details.get("exception", {}).get(
            "description", details["text"]))
    elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
        entry = params["entry"]
        look.errors.append(f"{entry['text']} {entry.get('url', '')}")
