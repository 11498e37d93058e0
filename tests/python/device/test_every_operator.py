# SPDX-License-Identifier: Apache-2.0
"""Every operator of the test modules, in eager and compiled, on the skeleton of
`opgraft new --device`, on the simulated NPU, and on that with each optional
function or group of functions left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable

import pytest

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
MODULES = ("tests/python/basics.c", "tests/python/corners.c",
           "tests/conformance/kinds.c")
MORE = ("tests/ops/custom_op_db.c", "tests/ops/index.c", "tests/ops/linear.c",
        "tests/ops/pointwise.c", "tests/ops/reduce.c", "tests/ops/shape.c",
        "tests/ops/write.c")


def optional() -> dict[str, list[str]]:
    """The functions of each group that a driver may lack. The simulated NPU's
    host cannot run kernels, so it always has `launch`."""
    found: dict[str, list[str]] = defaultdict(list)
    text = (ROOT / "src/device/entries.def").read_text()
    for name, group in re.findall(r"^ENTRY\((\w+), (\w+),", text, re.M):
        if group != "REQUIRED" and name != "launch":
            found[name if group == "ALONE" else group].append(name)
    return found


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory,
             build: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("new")
    program = Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
    subprocess.run([program / "bin/opgraft", "new", "--device", "acme"],
                   cwd=folder, check=True, capture_output=True)
    return build(folder / "acme/acme.c")


@pytest.fixture(scope="module")
def twin(build: Callable[..., Path]) -> Callable[[str], Path]:
    """A module with its kernels for a device as well."""
    def one(source: str) -> Path:
        own = build(source, (f"-I{ROOT / 'tests/python'}",))
        return build("tests/cli/device/twin.c", (f'-DMODULE="{own}"', "-ldl"))

    return one


@pytest.fixture(scope="module")
def lacking(build: Callable[..., Path], npu_path: Path
            ) -> Callable[[list[str]], Path]:
    def one(names: list[str]) -> Path:
        taken = " ".join(f"table.{name} = NULL;" for name in names)
        return build("tests/python/device/less.c",
                     (f'-DDRIVER="{npu_path}"', f"-DLESS(table)={taken}",
                      "-ldl"))

    return one


def run(modules: list[Path], drivers: list[Path], least: int = 14) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "every_operator.py"), *map(str, modules),
         "--", *map(str, drivers)], capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if " calls, " in line]
    assert len(lines) == len(drivers)
    assert all(int(line.split()[1]) >= least for line in lines)


@pytest.mark.full
def test_on_each_driver(twin: Any, skeleton: Path, npu_path: Path) -> None:
    run([twin(m) for m in MODULES], [skeleton, npu_path])


@pytest.mark.full
def test_without_each_group(twin: Any, lacking: Any) -> None:
    run([twin(MODULES[0])], [lacking(names) for names in optional().values()])


@pytest.mark.full
@pytest.mark.parametrize("module", MORE)
def test_more_operators(twin: Any, skeleton: Path, npu_path: Path, lacking: Any,
                        module: str) -> None:
    run([twin(module)],
        [skeleton, npu_path, *(lacking(n) for n in optional().values())], 1)
