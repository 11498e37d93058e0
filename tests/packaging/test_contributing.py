# SPDX-License-Identifier: Apache-2.0
"""docs/contributing.md's table: one of each kind is added to a copy of the
tree, built and run, and the files that it took are counted."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Callable

import pytest
from test_install import HOST_C

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = ("docs/results", "tests/fuzz/corpus")

OPERATOR_C = """\
// SPDX-License-Identifier: Apache-2.0
// added: y = 2 x.

#include <opgraft/op.h>

static og_status added_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[0]; ++i) y[i] = 2 * x[i];
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = added_f32},
};
static const og_op ops[] = {{
    .schema = "added(Tensor x) -> Tensor",
    .shape = "x[*N] -> [*N]",
    .dtype = "x: f32 -> x",
    .backward = "added(grad) -> x",
    .kernels = OG_KERNELS(kernels),
}};
OG_MODULE(added, ops)
"""

# neg(neg(x)) is x.
PASS_C = """\
// SPDX-License-Identifier: Apache-2.0
// Double negation. Counts the nodes replaced.

#include "pass/pass.h"
#include "pass/rewrite.h"
#include "pass/uses.h"

static og_status run(opgraft_graph *graph, int32_t *out_changes,
                     opgraft_error *error) {
  og_uses uses;
  og_rewrite rewrite;
  OG_TRY(og_uses_init(&uses, graph, error));
  og_status status = og_rewrite_init(&rewrite, graph, error);
  for (int32_t n = 0; status == OG_OK && n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->op != OG_IR_neg) continue;
    const int32_t born = uses.born[node->in[0]];
    if (born < 0 || graph->nodes[born].op != OG_IR_neg) continue;
    og_rewrite_set(&rewrite, node->out[0], graph->nodes[born].in[0]);
    node->is_removed = true;
    ++*out_changes;
  }
  og_uses_reset(&uses);
  return status == OG_OK ? og_rewrite_apply(&rewrite, error) : status;
}

const og_pass og_pass_added = {
    .name = "added", .needs = OG_FACT_FUNCTIONAL, .run = run};
"""

# The sum of all numbers.
PREPARE_C = """\
// SPDX-License-Identifier: Apache-2.0
// Reference sum of all elements, in double.

#include "exec/step/operands.h"

typedef struct added {
  og_operands io;
  int64_t count;
  double *numbers;
} added;

static og_status run_added(void *state, const og_run *run) {
  const added *s = state;
  double sum = 0;
  (void)run;
  og_get_all(s->io.in[0], s->numbers);
  for (int64_t i = 0; i < s->count; ++i) sum += s->numbers[i];
  og_put_all(s->io.out[0], &sum);
  return OG_OK;
}

og_status og_prepare_added_sum(og_prep *prep) {
  added *s = og_state_begin(prep, sizeof *s, run_added);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_need_float(prep, prep->in[0]));
  OG_TRY(og_need_float(prep, prep->out[0]));
  s->count = og_numel(prep->in[0]);
  s->numbers = og_prep_doubles(prep, s->count);
  return s->numbers != NULL ? OG_OK : og_prep_memory(prep);
}
"""

HOST_CMAKE = """\
add_executable(added_host host.c)
target_link_libraries(added_host PRIVATE opgraft_shared)
"""

GRAPH = """\
graph added(%x: f32[4]) {
  %a: f32[4] = neg(%x)
  %b: f32[4] = neg(%a)
  %y: f32[4] = added_pointwise(%b)
  %s: f32[] = added_sum(%x)
  return %y, %s
}
run 4: -3 0 1 7
"""


class Tree:
    """A copy of the sources, which remembers what was touched."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.touched: set[str] = set()
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
            check=True, capture_output=True, text=True).stdout.splitlines()
        for name in names:
            source = ROOT / name
            if name.startswith(SKIPPED) or not source.is_file():
                continue
            to = folder / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        assert not path.exists(), name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.touched.add(name)

    def insert(self, name: str, line: str, after: str) -> None:
        """A line behind the last one that starts so."""
        path = self.folder / name
        lines = path.read_text().splitlines()
        at = max(i for i, old in enumerate(lines) if old.startswith(after))
        path.write_text("\n".join([*lines[:at + 1], line, *lines[at + 1:]])
                        + "\n")
        self.touched.add(name)


def add_operator(tree: Tree) -> None:
    tree.write("ops/added.c", OPERATOR_C)
    tree.insert("ops/ops.def", "X(added, added)", "X(")


def add_pointwise(tree: Tree) -> None:
    tree.insert("src/graph/ops.def",
                "OG_PW(added_pointwise, 1, 0, RESULT, FLOAT, a / (1 + abs(a)))",
                "OG_PW(signbit, ")
    tree.insert("src/import/aten.def",
                'OG_ATEN("added.default", pointwise, added_pointwise, "0")',
                'OG_ATEN("relu.default", ')


def add_other(tree: Tree) -> None:
    tree.insert("src/graph/ops.def",
                'OG_OP(added_sum, 1, 1, 1, 0, "", added_sum, never)',
                "OG_OP(histogram, ")
    tree.insert("src/import/aten.def",
                'OG_ATEN("added_sum.default", plain, added_sum, "0")',
                'OG_ATEN("histc.default", ')
    tree.write("src/exec/plain/added.c", PREPARE_C)


def add_pass(tree: Tree) -> None:
    tree.write("src/pass/added.c", PASS_C)
    tree.insert("src/pass/passes.def", "OG_PASS(added)", "OG_PASS(noop)")


def add_set(tree: Tree) -> None:
    tree.insert("src/base/isa.def", "OG_ISA(added, ADDED, OG_ANY, true)",
                "OG_ISA(scalar, ")
    scalar = (tree.folder / "src/kernel/vec_scalar.h").read_text()
    tree.write("src/kernel/vec_added.h", scalar)


def add_host(tree: Tree) -> None:
    tree.write("hosts/added/host.c", HOST_C)
    tree.write("hosts/added/CMakeLists.txt", HOST_CMAKE)
    tree.insert("CMakeLists.txt", "add_subdirectory(hosts/added)",
                "include(cmake/ops.cmake)")


KINDS: dict[str, Callable[[Tree], None]] = {
    "an operator of the library": add_operator,
    "a pointwise ATen operator": add_pointwise,
    "another ATen operator": add_other,
    "a pass": add_pass,
    "an instruction set": add_set,
    "a host": add_host,
}


def run(*words: object, given: str = "", **more: str) -> str:
    done = subprocess.run([str(w) for w in words], input=given, text=True,
                          env={**os.environ, **more}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def table() -> dict[str, int]:
    text = (ROOT / "docs/contributing.md").read_text()
    return {name: int(files) for name, files in
            re.findall(r"^\| (an?(?:other)? [^|]+?) \| (\d+) \|", text, re.M)}


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    return {}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory,
          counts: dict[str, int]) -> pathlib.Path:
    """The tree with all of them, built with little optimisation."""
    tree = Tree(tmp_path_factory.mktemp("contributing"))
    for kind, add in KINDS.items():
        tree.touched = set()
        add(tree)
        counts[kind] = len(tree.touched)
    out = tree.folder / "build"
    cmake = pathlib.Path(sys.executable).with_name("cmake")
    run(cmake, "-S", tree.folder, "-B", out, "-DOPGRAFT_BUILD_TESTS=ON",
        "-DOPGRAFT_WERROR=ON", "-DOPGRAFT_BUILD_PYTHON=OFF",
        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1")
    run(cmake, "--build", out, "-j", os.cpu_count() or 1, "--target",
        "opgraft_ops_added", "opgraft_cli", "added_host", "tools_graph_run",
        "unit_isa_choice", "unit_scalar_rows")
    return out


@pytest.mark.full
def test_the_table_counts_what_it_takes(build: pathlib.Path,
                                        counts: dict[str, int]) -> None:
    written = table()
    assert counts.keys() <= written.keys()
    assert counts == {kind: written[kind] for kind in counts}


def test_an_operator_is_checked(build: pathlib.Path) -> None:
    said = run(build / "bin/opgraft", "check", build / "modules/added.so")
    assert "added" in said and "0 findings" in said


def test_operators_and_a_pass_of_graphs(build: pathlib.Path) -> None:
    said = run(build / "tests/tools/graph_run", "--print", given=GRAPH)
    assert "neg" not in said
    assert said.splitlines()[-2:] == ["f32[4] -0.75 0 0.5 0.875", "f32[] 5"]
    run(build / "tests/unit/scalar_rows")


def test_an_instruction_set_is_chosen(build: pathlib.Path) -> None:
    run(build / "tests/unit/isa_choice")
    said = run(build / "bin/opgraft", "info", OPGRAFT_ISA="added")
    assert re.search(r"added \(OPGRAFT_ISA", said)


def test_a_host_loads_a_module(build: pathlib.Path) -> None:
    said = run(build / "bin/added_host", build / "modules/added.so")
    assert said == "added 1\n"


def test_documents_name_files_that_exist() -> None:
    missing = []
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(
                r"`((?:src|hosts|cli|python|ops|tools|tests|bench|cmake|include)"
                r"/[\w/.-]+\.\w+)`", page.read_text()):
            if "NAME" not in name and not (ROOT / name).exists():
                missing.append(f"{page.name}: {name}")
    assert missing == []
