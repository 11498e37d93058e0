# SPDX-License-Identifier: Apache-2.0
"""The C++ part of a device: registry.cpp, compiled for the torch that is here.

It is compiled once for each torch, compiler and version of opgraft, and kept in
the user's cache. A device works without it; what only C++ reaches of torch is
missing then.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import torch

_SWITCH = "OPGRAFT_DEVICE_CXX"
_PATIENCE_S = 600
_SOURCES = ("registry.cpp", "registry.h", "memory_stats.h")
_HEADERS = ("include/opgraft/opgraft.h", "include/opgraft/op.h")
_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-w")


class Missing(Exception):
    """Why there is no C++ part, and how to get it."""


def build() -> Path:
    """The library of registry.cpp; it is compiled where it is not in the cache.
    Raises Missing where that cannot be done."""
    if os.environ.get(_SWITCH) == "0":
        raise Missing(f"{_SWITCH}=0 turns it off; unset it")
    package = Path(__file__).parents[1]
    inputs = [package / "cxx" / name for name in _SOURCES]
    inputs += [package / name for name in _HEADERS]
    for path in inputs:
        if not path.is_file():
            raise Missing(f"{path} is missing; install opgraft anew")
    command = [*_compiler(), *_flags(package)]
    library = _folder() / f"device-{_key(command, inputs)}.so"
    if not library.is_file():
        _compile(command, inputs[0], library)
    return library


def _compiler() -> list[str]:
    words = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    found = shutil.which(words[0])
    if found is None:
        raise Missing(f"there is no C++ compiler: {words[0]} is not in PATH; "
                      "install g++ or clang++, or name one with CXX")
    return [found, *words[1:]]


def _flags(package: Path) -> list[str]:
    """Those that the torch that is here needs."""
    home = Path(torch.__file__).parent
    if not (home / "include/c10/core/impl/DeviceGuardImplInterface.h").is_file():
        raise Missing(f"torch's headers are not in {home}; install torch's own "
                      "wheel")
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    return [*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
            f"-I{package / 'include'}", f"-I{home / 'include'}",
            f"-L{home / 'lib'}"]


def _folder() -> Path:
    """Of the user's cache, as `opgraft tune` has it."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    home = os.environ.get("HOME", "")
    if os.path.isabs(cache):
        return Path(cache, "opgraft")
    if not os.path.isabs(home):
        raise Missing("neither XDG_CACHE_HOME nor HOME says where the cache is")
    return Path(home, ".cache", "opgraft")


def _key(command: list[str], inputs: list[Path]) -> str:
    """What the library depends on."""
    digest = hashlib.sha256()
    for word in [torch.__version__, str(torch.version.git_version), *command]:
        digest.update(word.encode() + b"\0")
    for path in inputs:
        digest.update(path.read_bytes())
    return f"{torch.__version__}-{digest.hexdigest()[:16]}"


def _compile(command: list[str], source: Path, library: Path) -> None:
    """Whole or not at all: others may compile the same at the same time. A
    failure leaves a log, and is not tried again while that is there."""
    log = library.with_suffix(".log")
    if log.is_file():
        raise _failed(log)
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            part = Path(folder, library.name)
            text = _run([*command, str(source), "-o", str(part), "-lc10",
                         "-ltorch_cpu"])
            if not text:
                part.replace(library)
                return
            wrong = Path(folder, log.name)
            wrong.write_text(text)
            wrong.replace(log)
    except OSError as error:
        raise Missing(f"it cannot be compiled: {error}") from error
    raise _failed(log)


def _run(command: list[str]) -> str:
    """What a failure says; empty where there is none."""
    said = ""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=_PATIENCE_S)
        if done.returncode == 0:
            return ""
        said = f"{done.stdout}status {done.returncode}"
    except subprocess.TimeoutExpired:
        said = f"not done after {_PATIENCE_S} s"
    return f"{shlex.join(command)}\n{said}\n"


def _failed(log: Path) -> Missing:
    reason = (f"the C++ compiler failed, see {log}; delete that file to try "
              f"again, or set {_SWITCH}=0")
    warnings.warn(f"opgraft: a device without its C++ part: {reason}",
                  RuntimeWarning, stacklevel=2)
    return Missing(reason)
