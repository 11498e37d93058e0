#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel, installs it in a new environment, and uses it there.

The environment has nothing but the wheel; torch and opgraft are those that run
this script, by a .pth file, so that nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
USE = """
import torch, my_ops
x = torch.linspace(-2, 2, 5, requires_grad=True)
y = my_ops.squared_relu(x)
y.sum().backward()
print("x     ", x.tolist())
print("y     ", y.tolist())
print("dy/dx ", x.grad.tolist())
f = torch.compile(lambda x: my_ops.squared_relu(x) + 1, fullgraph=True,
                  backend="aot_eager")
print("compiled", f(x).tolist())
"""


def run(*words: object) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # The build runs this environment's program opgraft.
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    done = subprocess.run([str(w) for w in words], text=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(done.stdout)
    return done.stdout


def site_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parents[1]


def environment(folder: Path) -> Path:
    """The Python of a new environment with this one's torch and opgraft."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    site = run(python, "-c", "import sysconfig;"
               "print(sysconfig.get_paths()['purelib'])").strip()
    sites = {site_of("torch"), site_of("opgraft")}
    Path(site, "lent.pth").write_text("\n".join(map(str, sites)) + "\n")
    return python


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation",
            "--no-deps", "-w", folder, HERE)
        wheel = next(folder.glob("*.whl"))
        print(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if ".dist-info" not in member:
                    print(f"  {member}")
        python = environment(folder / "env")
        run(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
        # Isolated (-I): the folder that this runs in is not searched.
        print(run(python, "-I", "-c", USE), end="")


if __name__ == "__main__":
    main()
