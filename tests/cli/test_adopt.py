# SPDX-License-Identifier: Apache-2.0
"""`opgraft adopt`: libraries of the system by a file, and what is wrong with it."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(m) is None for m in ("opgraft", "torch")),
    reason="opgraft's package or torch is not installed",
)

SPEC = """\
- library: libz.so.1
  namespace: zlib
  operators:
    crc32:
      prototype: unsigned long crc32(unsigned long crc, const unsigned char *data, unsigned size)
      call: 0, x.data, x.numel
      returns: out
      shape: "x[*N] -> []"
      dtype: "x: u8 -> i64"
- library: libm.so.6
  namespace: libm
  operators:
    erf: {prototype: double erf(double x), call: "x[i]", returns: "out[i]", shape: "x[*N] -> [*N]"}
"""


@pytest.mark.full
def test_says_what_it_made_and_checks_it(program):
    program.write("system.yaml", SPEC)
    text = program.ok("adopt", "system.yaml")
    assert ("zlib::crc32(Tensor x) -> Tensor\n  shape x[*N] -> []\n"
            "  calls C, without Python") in text
    assert "libm::erf(Tensor x) -> Tensor" in text
    told = json.loads(program.ok("adopt", "system.yaml", "--check", "--json",
                                 "--seed", "3"))
    assert [o["op"] for o in told["operators"]] == ["crc32", "erf"]
    assert [o["shape"] for o in told["operators"]] == [
        "x[*N] -> []", "x[*N] -> [*N]"]
    # That no gradient is declared is worth a note.
    assert not any(f for r in told["checks"] for f in r["findings"]
                   if not f["is_note"])
    assert all(re.match(r"[1-9]\d* calls", r["operators"][0]["tried"])
               for r in told["checks"])


def test_a_call_that_reads_too_far_is_found(program):
    program.write("wrong.yaml", SPEC.replace("x.numel", "x.numel + 1"))
    done = program.run("adopt", "wrong.yaml", "--check")
    assert done.returncode == 1, done.stderr
    assert ("crc32: 1 finding" in done.stdout and
            "out_of_bounds_read: x: the kernel reads byte 0" in done.stdout)


@pytest.mark.parametrize("old, new, text", [
    ("crc32(unsigned", "crc23(unsigned",
     r"wrong.yaml:5: .*libz.so.1 exports no crc23; `nm -D libz.so.1` lists"),
    ("libz.so.1", "libzz.so.1", r"wrong.yaml:1: libzz.so.1: cannot open"),
    (", unsigned size)", ")", r"wrong.yaml:5: crc32: call has 3 arguments, "
                              r"crc32 takes 2: unsigned long crc32\("),
    ("      returns: out\n", "", r"wrong.yaml:5: .*say what it is: returns="),
])
def test_what_is_wrong_is_said_with_file_and_line(program, old, new, text):
    wrong = SPEC.replace(old, new, 1)
    assert wrong != SPEC
    program.write("wrong.yaml", wrong)
    assert re.search(text, program.fails(2, "adopt", "wrong.yaml"))


def test_files_and_options_that_are_wrong(program):
    assert "nothere.yaml: no such file" in program.fails(2, "adopt", "nothere.yaml")
    program.write("system.yaml", SPEC)
    assert "--host is 'jax', expected torch" in program.fails(
        2, "adopt", "system.yaml", "--host", "jax")
