#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to be there: import, loading a module of 50 operators, size.

Import and load are timed in fresh processes, each beside its own limit.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402

from call import compile_c  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
COUNT = 50

HEAD = """#include <opgraft/op.h>
static og_status run(const og_call *call) {
  const int64_t count = call->dim[0] * call->dim[1];
  for (int64_t i = 0; i < count; ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}
static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = run}};
static const og_op ops[] = {
"""
OPERATOR = """    {.schema = "op%d(Tensor x, Tensor? bias=None, float eps=1e-6, "
               "int[] sizes=[1, 2]) -> Tensor",
     .shape = "x[*N, D], bias?[D] -> [*N, D]", .where = "D > 0",
     .dtype = "x: f32, bias: x -> x", .backward = "none",
     .kernels = OG_KERNELS(kernels)},
"""

TIME = """
import sys, time, torch
begin = time.perf_counter()
import opgraft
loaded = time.perf_counter()
m = opgraft.load(sys.argv[1])
end = time.perf_counter()
assert not any(n.startswith("torch._dynamo") for n in sys.modules)
print((loaded - begin) * 1e3, (end - loaded) * 1e3)
"""


def library_bytes(folder: Path) -> int | None:
    """The stripped libopgraft of the installed package: what loads, calls and
    checks operators."""
    import opgraft

    package = Path(opgraft.__file__).parent
    found = next(package.rglob("libopgraft.so"), None)
    if found is None or shutil.which("strip") is None:
        return None
    copy = folder / "stripped.so"
    subprocess.run(["strip", "-o", str(copy), str(found)], check=True)
    return copy.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="one process, to see that it runs")
    options = parser.parse_args()
    goals = harness.Goals("load")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "fifty.c"
        source.write_text(HEAD + "".join(OPERATOR % i for i in range(COUNT))
                          + "};\nOG_MODULE(bench_fifty, ops)\n")
        compile_c(source, folder / "fifty.so")
        rows = []
        for _ in range(1 if options.smoke else 9):
            out = subprocess.run(
                [sys.executable, "-c", TIME, str(folder / "fifty.so")],
                check=True, capture_output=True, text=True).stdout
            rows.append([float(v) for v in out.split()])
        size = library_bytes(folder)
    imports = sorted(r[0] for r in rows)
    loads = sorted(r[1] for r in rows)
    print("fresh processes (ms: min / median)")
    print(f"  import opgraft, torch there   {imports[0]:8.1f} / "
          f"{imports[len(rows) // 2]:8.1f}")
    print(f"  load of {COUNT} operators          {loads[0]:8.1f} / "
          f"{loads[len(rows) // 2]:8.1f}")
    goals.add("import opgraft beyond torch", imports[0], 30, unit=" ms")
    goals.add(f"load of {COUNT} operators", loads[0], 20, unit=" ms")
    if size is None:
        goals.absent("core library, stripped", "not installed, or no strip")
    else:
        goals.add("core library, stripped", size / 1024, 400, unit=" KiB")
    if not options.smoke:
        goals.write([*(ROOT / "python/opgraft").rglob("*.py"),
                     *(ROOT / "src/module").iterdir(),
                     *(ROOT / "src/decl").iterdir()])


if __name__ == "__main__":
    main()
