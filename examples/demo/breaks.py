#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model's graph breaks of both stages, and one mended.

`opgraft doctor` runs broken.py, names the line that splits Dynamo's graph and
the one that Inductor has no kernel for, tries a fix in a child process, and
keeps it where every result is the same and a step takes no longer.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from common import HERE, opgraft

SCRIPT = "broken.py"
BUDGET_S = 120  # a quiet machine takes a tenth of it


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(HERE / SCRIPT, folder)
        print(f"  opgraft doctor --apply fix.patch {SCRIPT}", flush=True)
        opgraft("doctor", "--json", "report.json", "--apply", "fix.patch",
                "--budget", BUDGET_S, SCRIPT, cwd=folder)
        report = json.loads((folder / "report.json").read_text())
        patch = folder / "fix.patch"
        added = [line for line in patch.read_text().splitlines()
                 if line.startswith("+") and not line.startswith("+++")
                 ] if patch.exists() else []
    roots = report["roots"]
    for root in roots:
        fix = root["fix"]
        print(f"  {SCRIPT}:{root['line']}, {root['stage']}: {root['title']}\n"
              f"      {root['code']}\n    {fix['status']}: {fix['title']}")
        if fix["text"]:
            print(f"      {fix['text']}")
    print(*("    " + line for line in added), sep="\n")
    mended = [r["fix"] for r in roots if r["fix"]["status"] == "verified"]
    found = {root["stage"] for root in roots}
    if not {"dynamo", "backend"} <= found:
        raise SystemExit(f"expected breaks of both stages, found {found}")
    saved = sum(fix["gain_ms"] or 0 for fix in mended) * 1e3
    time = (f"{saved:.0f} us a step less" if saved >= 1 else
            "a step takes as long")
    print(f"graph breaks: {len(roots)} root causes in both stages, "
          + (f"{len(mended)} mended; every result is equal; {time}" if mended
             else "0 mended: the machine is too busy"))


if __name__ == "__main__":
    main()
