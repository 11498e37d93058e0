# SPDX-License-Identifier: Apache-2.0
"""Prints what doctor says of both scenes: each line that splits the model, why,
and the fix that it proposes. Without times and trials, which `opgraft doctor
SCRIPT` shows."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile

SCENES = ("moe.py", "attention.py")
PROGRAM = pathlib.Path(sys.executable).with_name("opgraft")


def main() -> None:
    for scene in SCENES:
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            subprocess.run([PROGRAM, "doctor", "--no-verify", "--runs", "0",
                            "--json", report, scene], check=True,
                           capture_output=True)
            found = json.loads(report.read_text())
        for root in sorted(found["roots"], key=lambda root: root["line"]):
            print(f"{scene}:{root['line']}: {root['code']}")
            print(f"  {root['stage']}: {root['title']}")
            print(f"  fix: {root['fix']['title']}")


if __name__ == "__main__":
    main()
