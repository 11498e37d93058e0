# SPDX-License-Identifier: Apache-2.0
"""opgraft pack: the same bits with packed weights in the file and without; who
runs the file maps them, and shares them with others."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import og_file
import pytest
from conftest import Program

K, N = 96, 200
MLP = """\
graph mlp(%x: f32[s0, {k}]) {{
  constant %w: f32[{k}, {n}] = @0
  constant %b: f32[{n}] = @1
  constant %v: f32[{k}, {n}] = @2
  %h: f32[s0, {n}] = addmm(%b, %x, %w)
  %g: f32[s0, {n}] = gelu(%h)
  %t: f32[{n}, {k}]{{1, {n}}} = view(%v)
  %y: f32[s0, {k}] = matmul(%g, %t)
  return %y
}}
"""


def mlp(seed: int, k: int = K, n: int = N) -> bytes:
    random = np.random.default_rng(seed)
    shapes = ((k, n), (n,), (k, n))
    return og_file.write(MLP.format(k=k, n=n), [
        random.standard_normal(s, dtype=np.float32) for s in shapes])


@pytest.fixture
def files(program: Program) -> Program:
    (program.folder / "m.og").write_bytes(mlp(1))
    x = np.random.default_rng(9).standard_normal((7, K), dtype=np.float32)
    np.save(program.folder / "x.npy", x)
    return program


def result(program: Program, name: str, **env: str) -> bytes:
    program.ok("run", name, "--in", "x.npy", "--out", "y.npy", env=env)
    return (program.folder / "y.npy").read_bytes()


def stats(program: Program, name: str, **env: str) -> dict[str, int]:
    said = program.ok("run", name, "--in", "x.npy", "--json", env=env)
    return json.loads(said)["stats"]


def test_the_bits_are_the_same(files: Program) -> None:
    files.ok("pack", "m.og", "s0=7", "--out", "p.og")
    plain, packed = stats(files, "m.og"), stats(files, "p.og")
    assert plain["packed_bytes"] > 0 and plain["mapped_bytes"] == 0
    assert packed["mapped_bytes"] == plain["packed_bytes"]
    assert packed["packed_bytes"] == 0
    for isa in ("scalar", "avx2", "avx512"):
        wanted = result(files, "m.og", OPGRAFT_ISA=isa)
        assert result(files, "p.og", OPGRAFT_ISA=isa) == wanted
        assert stats(files, "p.og", OPGRAFT_ISA=isa)["packed_bytes"] == 0
    for mode in ("reduce-overhead", "max-autotune"):
        for name in ("m", "p"):
            files.ok("run", f"{name}.og", "--in", "x.npy", "--mode", mode,
                     "--out", f"{name}.npy")
        assert (files.folder / "m.npy").read_bytes() == (
            files.folder / "p.npy").read_bytes()


def test_the_file_is_as_documented(files: Program) -> None:
    files.ok("pack", "m.og", "s0=7", "--out", "p.og")
    plain = og_file.read((files.folder / "m.og").read_bytes())
    packed = og_file.read((files.folder / "p.og").read_bytes())
    assert (packed.text, packed.data) == (plain.text, plain.data)
    at, seen = 0, 0
    for line in packed.table.splitlines():
        found = re.fullmatch(
            r"# packed f32-panels16 of (\d+): (\d+) x (\d+), strides (\d+) "
            r"(\d+), (\d+) bytes", line)
        assert found, line
        offset, n, k, n_stride, k_stride, size = map(int, found.groups())
        at += -at % 64
        weights = np.frombuffer(packed.data[offset:], np.float32)
        wanted = np.zeros((-(-n // 16) * 16, -(-k // 2) * 2), np.float32)
        wanted[:n, :k] = np.lib.stride_tricks.as_strided(
            weights, (n, k), (n_stride * 4, k_stride * 4))
        panels = wanted.reshape(-1, 16, wanted.shape[1]).transpose(0, 2, 1)
        assert packed.packed[at:at + size] == panels.tobytes()
        at, seen = at + size, seen + 1
    assert (at, seen) == (len(packed.packed), 2)


def test_packing_twice_changes_nothing(files: Program) -> None:
    path = files.folder / "m.og"
    before = path.stat().st_size
    note = files.run("pack", "m.og", "s0=7").stderr
    assert re.search(r"m\.og: packed weights of \d+ bytes", note)
    once = path.read_bytes()
    assert len(once) > before
    files.ok("pack", "m.og", "s0=3")
    assert path.read_bytes() == once


def test_a_changed_weight_is_another_file(files: Program) -> None:
    files.ok("pack", "m.og", "s0=7")
    first = result(files, "m.og")
    (files.folder / "m.og").write_bytes(mlp(2))
    plain = result(files, "m.og")
    files.ok("pack", "m.og", "s0=7")
    assert result(files, "m.og") == plain != first


# 700 KB of weights, so that blocks of what is read and what is not are apart.
def test_what_is_not_read_may_be_anything(files: Program) -> None:
    (files.folder / "m.og").write_bytes(mlp(3, n=920))
    files.ok("pack", "m.og", "s0=7", "--out", "p.og")
    wanted = result(files, "p.og")
    whole = (files.folder / "p.og").read_bytes()
    parts = og_file.read(whole)
    for at, is_read in ((parts.data_at + 100_000, False),
                        (parts.packed_at + 100_000, True)):
        altered = bytearray(whole)
        altered[at] ^= 1
        (files.folder / "p.og").write_bytes(altered)
        if is_read:
            said = files.fails(2, "run", "p.og", "--in", "x.npy")
            assert "p.og: the file was altered" in said
        else:
            assert result(files, "p.og") == wanted
    altered = bytearray((files.folder / "m.og").read_bytes())
    altered[parts.data_at + 100_000] ^= 1
    (files.folder / "m.og").write_bytes(altered)
    for words in (("run", "m.og", "--in", "x.npy"),
                  ("run", "m.og", "--in", "x.npy", "--plain"),
                  ("pack", "m.og", "s0=7")):
        assert "m.og: the file was altered" in files.fails(2, *words)
    assert (files.folder / "m.og").read_bytes() == altered


def test_rows_of_a_table_are_checked_as_they_are_read(files: Program) -> None:
    table = np.arange(4000 * 64, dtype=np.float32).reshape(4000, 64)
    text = """graph g(%i: i64[s0]) {
  constant %w: f32[4000, 64] = @0
  %y: f32[s0, 64] = embedding(%w, %i)
  return %y
}
"""
    file = bytearray(og_file.write(text, [table]))
    at = og_file.read(bytes(file)).data_at
    file[at + 3000 * 256] ^= 1
    (files.folder / "m.og").write_bytes(file)
    for i, row in enumerate((3, 2000, 3999)):
        np.save(files.folder / f"{i}.npy", np.array([row, 5, row]))
        files.ok("run", "m.og", "--in", f"{i}.npy", "--out", "y.npy")
        found = np.load(files.folder / "y.npy")
        assert np.array_equal(found, table[[row, 5, row]])
    np.save(files.folder / "3.npy", np.array([5, 3000]))
    assert "m.og: the file was altered" in files.fails(
        2, "run", "m.og", "--in", "3.npy")
    assert "m.og: the file was altered" in files.fails(
        2, "run", "m.og", "--in", "0.npy", "--plain")


def test_an_unknown_layout_is_said(files: Program) -> None:
    files.ok("pack", "m.og", "s0=7", "--out", "p.og")
    file = (files.folder / "p.og").read_bytes()
    parts = og_file.read(file)
    other = parts.table.replace("f32-panels16", "f32-panels99").encode()
    covered = bytearray(file[58:parts.data_at])
    at = covered.index(parts.table.encode())
    covered[at:at + len(other)] = other
    (files.folder / "p.og").write_bytes(
        file[:42] + f"{og_file.checksum(covered):016x}".encode() + covered
        + file[parts.data_at:])
    done = files.run("run", "p.og", "--in", "x.npy", "--out", "y.npy")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert ("p.og: 2 packed weights are of a layout that this opgraft does not "
            "know: packed anew") in done.stderr
    assert (files.folder / "y.npy").read_bytes() == result(files, "m.og")


# --- What goes wrong ----------------------------------------------------------


def test_wrong_words_are_errors(files: Program) -> None:
    files.write("t.og", "graph g(%x: f32[2]) {\n  return %x\n}\n")
    assert "s0" in files.fails(2, "pack", "m.og")
    assert "expected a size" in files.fails(2, "pack", "m.og", "7")
    assert "a graph file is missing" in files.fails(2, "pack")
    assert "--mode is 'fast'" in files.fails(2, "pack", "m.og", "--mode", "fast")
    assert "--mode is 'fast'" in files.fails(
        2, "run", "m.og", "--in", "x.npy", "--mode", "fast")
    assert "is not of a graph file" in files.fails(2, "pack", "t.og")


def is_whole(program: Program, before: bytes) -> bool:
    names = {p.name for p in program.folder.iterdir()}
    return ((program.folder / "m.og").read_bytes() == before
            and not any(n.startswith("m.og.") for n in names))


def test_a_full_disk_leaves_the_old_file(files: Program) -> None:
    before = (files.folder / "m.og").read_bytes()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run([files.path, "pack", "m.og", "s0=7"],
                          cwd=files.folder, preexec_fn=limit, text=True,
                          capture_output=True)
    assert done.returncode == 2, done
    assert "m.og: could not be written: File too large" in done.stderr
    assert is_whole(files, before)


def test_a_place_that_takes_no_file(files: Program) -> None:
    before = (files.folder / "m.og").read_bytes()
    assert "there is no folder x.npy/" in files.fails(
        2, "pack", "m.og", "s0=7", "--out", "x.npy/p.og")
    assert "could not be written" in files.fails(
        2, "pack", "m.og", "s0=7", "--out", "/proc/p.og")
    assert is_whole(files, before)


def test_many_writers_leave_one_whole_file(files: Program) -> None:
    before = (files.folder / "m.og").read_bytes()
    wanted = result(files, "m.og")
    writers = [subprocess.Popen([files.path, "pack", "m.og", "s0=7"],
                                cwd=files.folder, stderr=subprocess.DEVNULL)
               for _ in range(6)]
    while any(w.poll() is None for w in writers):
        assert result(files, "m.og") == wanted  # the old one or a new one
    assert [w.returncode for w in writers] == [0] * 6
    after = (files.folder / "m.og").read_bytes()
    assert og_file.read(after).table and len(after) > len(before)
    assert is_whole(files, after)


# --- Memory -------------------------------------------------------------------


def kilobytes(pid: int, name: str) -> dict[str, int]:
    """Rss, Pss and Anonymous of what is mapped of the file; Anonymous of all
    of the process as "private"."""
    found: dict[str, int] = {"private": 0}
    is_it = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_it = line.endswith("/" + name)
        elif (m := re.match(r"(Rss|Pss|Anonymous): +(\d+)", line)):
            if is_it:
                found[m[1]] = found.get(m[1], 0) + int(m[2])
            if m[1] == "Anonymous":
                found["private"] += int(m[2])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_share_the_weights(files: Program) -> None:
    k, n = 512, 4096
    (files.folder / "m.og").write_bytes(mlp(4, k, n))
    np.save(files.folder / "x.npy", np.ones((2, k), np.float32))
    files.ok("pack", "m.og", "s0=2", "--out", "p.og")
    bytes_ = stats(files, "p.og")["mapped_bytes"]
    assert bytes_ >= 2 * k * n * 4

    def running(name: str) -> list[dict[str, int]]:
        processes = [subprocess.Popen(
            [files.path, "run", name, "--in", "x.npy", "--repeat", "1000000",
             "--threads", "1", "--out", f"{i}.npy"], cwd=files.folder)
            for i in range(2)]
        try:
            ends = time.monotonic() + 60
            while not all((files.folder / f"{i}.npy").exists()
                          for i in range(2)):
                assert time.monotonic() < ends
                time.sleep(0.05)
            return [kilobytes(p.pid, name) for p in processes]
        finally:
            for i, p in enumerate(processes):
                p.kill()
                p.wait()
                (files.folder / f"{i}.npy").unlink(missing_ok=True)

    for told in running("p.og"):
        # The packed forms alone are there, once for both, and nothing of the
        # file is the process's own.
        assert bytes_ / 1024 <= told["Rss"] <= 1.1 * bytes_ / 1024 + 512
        assert told["Pss"] <= 0.6 * told["Rss"]
        assert told["Anonymous"] == 0
        assert told["private"] < bytes_ / 1024 / 2
    for told in running("m.og"):
        assert told["private"] > bytes_ / 1024
