# SPDX-License-Identifier: Apache-2.0
"""The libraries of public models, in a folder of their own.

torchvision's wheel is linked to CUDA, which code on a CPU never calls: two
libraries whose functions trap, and the runtime that the wheel carries, let its
own CPU operators load.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIST = HERE / "packages.txt"
FOLDER = HERE.parents[2] / ".build" / "public"
STUBS = FOLDER / "stubs"


def install() -> Path:
    """The folder, with every package of the list."""
    stamp = FOLDER / ".installed"
    key = hashlib.sha256(LIST.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != key:
        words = [line for line in LIST.read_text().splitlines()
                 if line and not line.startswith("#")]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet",
                        "--upgrade", "--no-deps", "--target", str(FOLDER),
                        *words], check=True)
        _stubs()
        stamp.write_text(key)
    return FOLDER


def environment() -> dict[str, str]:
    """Of a process that imports the packages."""
    env = dict(os.environ)
    for name, folder in (("PYTHONPATH", FOLDER), ("LD_LIBRARY_PATH", STUBS)):
        env[name] = os.pathsep.join(
            [str(folder), *filter(None, [env.get(name)])])
    return env


def _stubs() -> None:
    STUBS.mkdir(exist_ok=True)
    runtime = next((FOLDER / "torchvision.libs").glob("libcudart.*"))
    link = STUBS / f"libcudart.so.{runtime.name.rsplit('.', 1)[1]}"
    link.unlink(missing_ok=True)
    link.symlink_to(runtime)
    wanted = subprocess.run(
        ["nm", "-D", "--undefined-only", str(FOLDER / "torchvision/_C.so")],
        check=True, text=True, capture_output=True).stdout
    names = sorted(set(re.findall(r" U (_ZN?K?\w*4cuda\w+)$", wanted, re.M)))
    code = "".join(
        f"char {name}[64];\n" if name.endswith("9allocatorE")
        else f"void {name}(void) {{ __builtin_trap(); }}\n" for name in names)
    for library, text in (("libc10_cuda.so", code), ("libtorch_cuda.so", "")):
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-xc",
                        "-o", str(STUBS / library), "-"],
                       check=True, text=True, input=text)
