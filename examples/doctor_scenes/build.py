# SPDX-License-Identifier: Apache-2.0
"""Compiles a Python extension of one C file, once for each text of it."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def extension(name: str, file: str) -> None:
    """Makes `import name` work."""
    source = HERE / file
    text = source.read_bytes() + sys.version.encode()
    folder = Path(tempfile.gettempdir()) / (
        f"{name}-{os.getuid()}-{hashlib.sha256(text).hexdigest()[:16]}")
    folder.mkdir(mode=0o700, exist_ok=True)
    made = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not made.exists():
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise SystemExit(f"{file} wants a C compiler; set CC")
        new = folder / f"{name}-{os.getpid()}.new"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC",
                        f"-I{sysconfig.get_path('include')}", str(source),
                        "-o", str(new)], check=True)
        new.replace(made)
    sys.path.insert(0, str(folder))
