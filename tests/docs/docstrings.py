# SPDX-License-Identifier: Apache-2.0
"""Runs the examples in docstrings of public names, each with names of its own.

`...` stands for any characters, and blanks may differ. The folder that they
run has model.gguf, softcap.c, softcap.so, zlib.yaml, npu_sim.so, and softcap_npu.so, whose
kernels are for that device too.
"""

from __future__ import annotations

import doctest
import io
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import api_docs  # noqa: E402

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
START = ROOT / "docs" / "start.md"
GGUF = ROOT / "tests" / "fuzz" / "corpus" / "gguf" / "0"
# What Dynamo compiled refers to the names of its function for good.
KEPT: list[dict[str, Any]] = []
ZLIB = '''
library: libz.so.1
operators:
  crc32:
    prototype: unsigned long crc32(unsigned long, const unsigned char *, unsigned int)
    call: 0, x.data, x.numel
    returns: out
    shape: "x[*N] -> []"
    dtype: "x: u8 -> i64"
'''


def examples(module: str) -> Iterator[tuple[str, str, int]]:
    """(name, docstring, its line) of each public name of a module."""
    path = api_docs.module_file(module)
    for name in api_docs.public_names(api_docs.ast.parse(path.read_text())):
        node = api_docs.definition(path, name)
        if node is not None:
            yield name, api_docs.ast.get_docstring(node) or "", node.lineno


def run(module: str, name: str, text: str, names: dict[str, Any]) -> str:
    """What went wrong, in doctest's words; empty where all is as said."""
    where = ".".join(x for x in ("opgraft", module, name) if x)
    test = doctest.DocTestParser().get_doctest(text, dict(names), where, where,
                                               0)
    KEPT.append(test.globs)
    said = io.StringIO()
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(
        test, out=said.write, clear_globs=False)
    return said.getvalue()


def folder_fill(folder: pathlib.Path, program: str, hosts: str) -> None:
    """softcap.so is the operator of the Start page."""
    (folder / "zlib.yaml").write_text(ZLIB)
    (folder / "model.gguf").write_bytes(GGUF.read_bytes())
    found = re.search(r"^```c softcap.c\n(.*?)^```$", START.read_text(),
                      re.S | re.M)
    assert found is not None
    (folder / "softcap.c").write_text(found[1])
    # A row for the device behind each of the CPU's.
    (folder / "softcap_npu.c").write_text(re.sub(
        r"\{(\.device = )OG_CPU(, [^}]*)\}", r"{\1OG_CPU\2}, {\1OG_EXT_DEV\2}",
        found[1]).replace("OG_MODULE(softcap,", "OG_MODULE(softcap_npu,"))
    subprocess.run([os.path.abspath(program), "build", "softcap_npu.c"], cwd=folder,
                   check=True, capture_output=True)
    subprocess.run([os.path.abspath(program), "build", "softcap.c", "--hosts", hosts], cwd=folder,
                   check=True, capture_output=True)
