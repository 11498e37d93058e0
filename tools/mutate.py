# SPDX-License-Identifier: Apache-2.0
"""Makes mutants of correct operator files and counts how many check finds.

A mutant is a file with one small change: an index, a bound, a constant, a
comparison, an operator, a missing write, a swapped name in a declaration.
Mutants that act as the original on all sampled calls (no other value, refusal
or fault, with the original as the reference) are left out of the score, as are
those that do not compile. What remains is "value-changing", and check should
find it without seeing the original; it is counted as well how many it finds
with the original as its reference.

    python tools/mutate.py --check build/tests/tools/check_main [--smoke]
    python tools/mutate.py --survivors    only those that were missed last time
    python tools/mutate.py --only ops/linear.c:41    one line's mutants

The first form writes docs/results/mutate.json.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import results

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDED = ROOT / "docs/results/mutate.json"
TIMEOUT_S = 3600  # check ends by itself; this is for one that does not
# The goals: so many mutants that change a value, and per cent of them found,
# alone and with the original as the reference.
MUTANTS_MIN, FOUND_MIN, WITH_REFERENCE_MIN = 200, 90, 95


@dataclasses.dataclass(frozen=True)
class Mutant:
    source: pathlib.Path
    line: int
    kind: str
    before: str
    after: str
    text: str = dataclasses.field(repr=False)

    @property
    def file(self) -> str:
        return str(self.source.relative_to(ROOT))


# --- Mutations ---------------------------------------------------------------

# What is matched in code, and what may stand there instead.
CODE_RULES: list[tuple[str, str, Callable[[re.Match[str]], list[str]]]] = [
    ("index", r"\[(\w+)\]", lambda m: [f"[{m[1]} + 1]", "[0]"]),
    ("index", r"\[(\w+) \* (\w+) \+ (\w+)\]",
     lambda m: [f"[{m[3]} * {m[2]} + {m[1]}]", f"[{m[1]} * {m[2]}]"]),
    ("index", r"\+ (\w+) \* (\w+);", lambda m: [f"+ {m[1]} * {m[2]} + 1;",
                                                f"+ ({m[1]} + 1) * {m[2]};"]),
    ("bound", r"< (\w+);", lambda m: [f"<= {m[1]};", f"< {m[1]} - 1;"]),
    ("bound", r"(int64_t \w+) = 0;", lambda m: [f"{m[1]} = 1;"]),
    ("bound", r"(int64_t \w+) = begin;", lambda m: [f"{m[1]} = begin + 1;"]),
    ("constant", r"\b(\d+\.\d+)(f?)\b",
     lambda m: [f"{float(m[1]) * 1.25 + 0.01:g}".replace("e", "0e")
                if "." not in f"{float(m[1]) * 1.25 + 0.01:g}"
                else f"{float(m[1]) * 1.25 + 0.01:g}{m[2]}"]),
    ("constant", r"(?<=[-+*/] )([123])(?= [-+*/]|\)|;)",
     lambda m: [str(int(m[1]) + 1)]),
    ("constant", r"= 0;", lambda m: ["= 1;"]),
    ("comparison", r" < (?=\w+\))", lambda m: [" >= ", " > "]),
    ("comparison", r" > (?=\S)", lambda m: [" <= ", " < "]),
    ("comparison", r" == ", lambda m: [" != "]),
    ("operator", r" \+ ", lambda m: [" - "]),
    ("operator", r" - ", lambda m: [" + "]),
    ("operator", r" \* (?=[\w(])", lambda m: [" + "]),
    ("operator", r" / ", lambda m: [" * "]),
    ("operator", r" \+= ", lambda m: [" = ", " -= "]),
    ("operator", r"\b(exp|log|tanh|sqrt|sin|cos|fmax|fmin)(f?)\(",
     lambda m: [{"exp": "sinh", "log": "sqrt", "tanh": "sin", "sqrt": "cbrt",
                 "sin": "cos", "cos": "sin", "fmax": "fmin",
                 "fmin": "fmax"}[m[1]] + m[2] + "("]),
    ("missing write", r"^\s+\w+\[[^\]]*\] [-+*]?= [^;]*;$", lambda m: [""]),
    ("missing write", r"^\s+put\w*\([^;]*\);$", lambda m: [""]),
    ("argument", r"call->in\[(\d)\]",
     lambda m: [f"call->in[{int(m[1]) ^ 1}]"]),
    ("argument", r"call->attr\[(\d)\]",
     lambda m: [f"call->attr[{int(m[1]) ^ 1}]"]),
    ("argument", r"call->dim\[(\w+)\]", lambda m: [f"(call->dim[{m[1]}] - 1)"]),
]


def swap_names(match: re.Match[str]) -> list[str]:
    """Swaps neighbours in a backward rule, before and after its arrow."""
    head, inside, targets = match[1], match[2], match[3]
    found = []
    for left in (True, False):
        names = [n.strip() for n in (inside if left else targets).split(",")]
        for i in range(len(names) - 1):
            new = names.copy()
            new[i], new[i + 1] = new[i + 1], new[i]
            text = ", ".join(new)
            found.append(f"{head}({text}) -> {targets}" if left
                         else f"{head}({inside}) -> {text}")
    return found


def swap_dims(match: re.Match[str]) -> list[str]:
    """Changes the sizes of a result in a shape rule."""
    inside = match[1]
    names = [n.strip() for n in inside.split(",")]
    found = [f"-> [{inside} + 1]" if not names[-1].startswith("*")
             else f"-> [{inside}, 1]"]
    for i in range(len(names) - 1):
        new = names.copy()
        new[i], new[i + 1] = new[i + 1], new[i]
        found.append("-> [" + ", ".join(new) + "]")
    if len(names) > 1:
        found.append("-> [" + ", ".join(names[:-1]) + "]")
    return found


STRING_RULES = [
    ("backward", r"(\w+)\(([^()\"]*)\) -> ([\w, ]+)(?=\")", swap_names),
    ("shape", r"-> \[([^\]\"]*)\]", swap_dims),
    ("dtype", r"-> f32(?=\")", lambda m: ["-> f64"]),
    ("dtype", r"-> i64(?=\")", lambda m: ["-> i32"]),
    ("workspace", r"(\.workspace = \")([^\"]+)\"",
     lambda m: [f'{m[1]}({m[2]}) // 2"']),
]


def is_declaration(line: str) -> bool:
    return '"' in line


def mutants_of(path: pathlib.Path) -> Iterator[Mutant]:
    lines = path.read_text().splitlines(keepends=True)
    seen = {"".join(lines)}  # two rules may make the same change
    for number, line in enumerate(lines):
        code = line.split("//")[0]
        if not code.strip() or code.lstrip().startswith(("#", "enum")):
            continue
        if "schema" in code:
            continue
        rules = STRING_RULES if is_declaration(code) else CODE_RULES
        for kind, pattern, change in rules:
            for match in re.finditer(pattern, code.rstrip("\n")):
                for new in change(match):
                    after = line[:match.start()] + new + line[match.end():]
                    text = "".join([*lines[:number], after,
                                    *lines[number + 1:]])
                    if text in seen:
                        continue
                    seen.add(text)
                    yield Mutant(path, number + 1, kind, line.strip(),
                                 after.strip(), text)


def choose(mutants: list[Mutant], count: int, rng: random.Random
           ) -> list[Mutant]:
    """As evenly over files and kinds as they allow."""
    groups: dict[tuple[pathlib.Path, str], list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault((mutant.source, mutant.kind), []).append(mutant)
    for group in groups.values():
        rng.shuffle(group)
    keys = sorted(groups)
    rng.shuffle(keys)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(groups.values()):
        for key in keys:
            if groups[key] and len(chosen) < count:
                chosen.append(groups[key].pop())
    return chosen


def survivors(mutants: list[Mutant], path: pathlib.Path) -> list[Mutant]:
    """Those that the recorded run missed, as far as they are still made."""
    if not path.exists():
        raise SystemExit(f"{path}: there is no recorded run")
    missed = {(r["file"], r["line"], r["before"], r["after"])
              for r in json.loads(path.read_text())["mutant"]
              if r["verdict"] == "missed"}
    found = [m for m in mutants
             if (m.file, m.line, m.before, m.after) in missed]
    print(f"{len(found)} of {len(missed)} recorded survivors are still made",
          file=sys.stderr)
    return found


def only(mutants: list[Mutant], places: list[str]) -> list[Mutant]:
    """Those of FILE:LINE."""
    found = [m for m in mutants if f"{m.file}:{m.line}" in places]
    if not found:
        raise SystemExit(f"no mutant is made at {', '.join(places)}")
    return found


# --- Judging -----------------------------------------------------------------


Said = set[tuple[str, str, str]]  # operator, kind, argument
REFERENCE = ("--probe", "reference", "--reference")  # then a module's name


def differentiated(text: str) -> dict[str, set[str]]:
    """Of a backward operator, those that name it: a wrong gradient is theirs."""
    found: dict[str, set[str]] = {}
    for part in text.split(".schema")[1:]:
        name = re.match(r'[\s="]*(\w+)', part)
        backward = re.search(r'\.backward\s*=\s*"(\w+)\(', part)
        if name and backward:
            found.setdefault(backward[1], set()).add(name[1])
    return found


class Judge:
    def __init__(self, check: str, folder: pathlib.Path, calls: int) -> None:
        self.check = check
        self.folder = folder
        self.calls = calls
        # What operators of the library are linked with, beside the program.
        lib = pathlib.Path(check).resolve().parents[2] / "lib"
        self.libraries = [str(lib / f"lib{name}.a")
                          for name in ("og_op_cuda", "og_op_shared",
                                       "og_kernels")]
        self.libraries += [str(lib / "opgraft/hosts/libopgraft_cuda.a"), "-ldl"]
        self.originals: dict[str, pathlib.Path] = {}
        # What check says of originals, by file and operator: of it alone, and
        # compared with itself.
        self.known: dict[tuple[str, str], Said] = {}
        self.reference_known: dict[str, Said] = {}

    def build(self, source: pathlib.Path, text: str, out: pathlib.Path
              ) -> bool:
        inside = source.parent
        copy = out.with_suffix(".c")
        copy.write_text(text)
        command = ["gcc", "-std=c11", "-O1", "-w", "-shared", "-fPIC",
                   f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}",
                   f"-I{inside}", str(copy), "-o", str(out), "-lm"]
        if inside.name == "ops" and inside.parent == ROOT:
            command[-1:-1] = self.libraries
        # What the head of an example says: opgraft build FILE.c -- FLAGS
        said = re.search(r"^// +opgraft build \S+ -- (.+)$", text, re.M)
        command += said[1].split() if said else []
        return subprocess.run(command, capture_output=True,
                              check=False).returncode == 0

    def run(self, module: pathlib.Path, *flags: str) -> Said | None:
        """The findings; None where the module does not load."""
        command = [self.check, str(module), "--json", "--calls",
                   str(self.calls), *flags]
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return {("", "timeout", "")}
        if done.returncode not in (0, 1):
            return None
        report = json.loads(done.stdout)
        return {(f["op"], f["kind"], f["argument"])
                for op in report["operators"] for f in op["findings"]
                if not f["note"]}

    def prepare(self, source: pathlib.Path) -> bool:
        out = self.folder / f"{source.stem}_{source.parent.name}.so"
        if not self.build(source, source.read_text(), out):
            return False
        said = self.run(out, *REFERENCE, str(out))
        if said is None:
            raise SystemExit(f"{self.check} does not check {source}, which "
                             "is as it should be: is it the right program?")
        self.originals[str(source)] = out
        self.reference_known[str(source)] = said
        return True

    def new_findings(self, source: pathlib.Path, mutant: pathlib.Path,
                     op: str) -> set[str]:
        """Kinds that check finds in one operator, and not in the original's;
        all operators where `op` is empty."""
        flags = ("--op", op) if op else ()
        found = self.run(mutant, *flags) or set()
        if found and (str(source), op) not in self.known:
            self.known[str(source), op] = self.run(
                self.originals[str(source)], *flags) or set()
        return {kind for _, kind, _ in found - self.known.get(
            (str(source), op), set())}

    def judge(self, source: pathlib.Path, mutant: Mutant, number: int
              ) -> dict[str, object]:
        out = self.folder / f"mutant{number}.so"
        result: dict[str, object] = {
            "file": mutant.file, "line": mutant.line, "kind": mutant.kind,
            "before": mutant.before, "after": mutant.after}
        if not self.build(source, mutant.text, out):
            return result | {"verdict": "does not compile"}
        changed_by = self.changes_of(source, out)
        if changed_by is None:
            return result | {"verdict": "found", "by": ["refused at load"],
                             "with_reference": True}
        changes, result["with_reference"] = changed_by
        result["changes"] = sorted({kind for _, kind, _ in changes})
        kinds: set[str] = set()
        changed = {op for op, _, _ in changes}
        for op in self.touched(mutant, changed):
            kinds |= self.new_findings(source, out, op)
        out.unlink()
        if kinds:
            return result | {"verdict": "found", "by": sorted(kinds),
                             "with_reference": True}
        return result | {"verdict": "missed" if changes else "same values"}

    def touched(self, mutant: Mutant, changed: set[str]) -> list[str]:
        """Operators that act otherwise than before, and those whose gradient
        they are; all others have the findings that they had."""
        users = differentiated(mutant.text)
        return sorted(changed.union(*(users.get(op, set())
                                      for op in changed)))

    def changes_of(self, source: pathlib.Path, mutant: pathlib.Path
                   ) -> tuple[Said, bool] | None:
        """How original and mutant differ on sampled calls of either, and
        whether they do on those of the mutant; None where it does not load."""
        original = self.originals[str(source)]
        one = self.run(mutant, *REFERENCE, str(original))
        if one is None:
            return None
        two = self.run(original, *REFERENCE, str(mutant)) or set()
        known = self.reference_known[str(source)]
        return (one | two) ^ known, bool(one - known)


# --- The whole ---------------------------------------------------------------


def show_progress(done: int, total: int, found: int, missed: int) -> None:
    if not sys.stderr.isatty():
        if done % 20 == 0:
            print(f"{done}/{total}, {found} found, {missed} missed",
                  file=sys.stderr, flush=True)
        return
    width = 40
    filled = width * done // max(total, 1)
    bar = "#" * filled + "." * (width - filled)
    end = "\n" if done == total else ""
    print(f"\r[{bar}] {done}/{total}, {found} found, {missed} missed",
          end=end, file=sys.stderr, flush=True)


def default_sources() -> list[pathlib.Path]:
    folders = ["tests/mistakes/right", "tests/ops", "ops"]
    found = [p for f in folders for p in sorted((ROOT / f).glob("*.c"))]
    return found + [p for p in sorted((ROOT / "examples").rglob("*.c"))
                    if "OG_MODULE(" in p.read_text()]


def judge_all(judge: Judge, chosen: list[Mutant], jobs: int) -> list[dict[str, object]]:
    judged: list[dict[str, object]] = []
    counts = {"found": 0, "missed": 0}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(judge.judge, m.source, m, i)
                   for i, m in enumerate(chosen)]
        for future in concurrent.futures.as_completed(waiting):
            result = future.result()
            judged.append(result)
            verdict = str(result["verdict"])
            counts[verdict] = counts.get(verdict, 0) + 1
            show_progress(len(judged), len(chosen), counts["found"],
                          counts["missed"])
    return sorted(judged, key=lambda r: (r["file"], r["line"], r["after"]))


def summary(judged: list[dict[str, object]]) -> dict[str, Any]:
    def count(verdict: str, kind: str | None = None) -> int:
        return sum(r["verdict"] == verdict and kind in (None, r["kind"])
                   for r in judged)

    changing = count("found") + count("missed")
    kinds = sorted({str(r["kind"]) for r in judged})
    return {
        "mutants": len(judged),
        "does_not_compile": count("does not compile"),
        "same_values": count("same values"),
        "value_changing": changing,
        "found": count("found"),
        "found_share": round(count("found") / max(changing, 1), 4),
        "found_with_reference": sum(
            bool(r.get("with_reference")) for r in judged
            if r["verdict"] in ("found", "missed")),
        "other_values": {
            v: sum(r["verdict"] == v and
                   "differs_from_reference" in str(r.get("changes", ""))
                   for r in judged) for v in ("found", "missed")},
        "by_kind": {k: {"found": count("found", k),
                        "missed": count("missed", k)} for k in kinds},
    }


def goal_lines(totals: dict[str, Any]) -> str:
    changing = totals["value_changing"]
    enough = changing >= MUTANTS_MIN
    lines = []
    for what, found, least in (
            ("found", totals["found"], FOUND_MIN),
            ("found with the original as reference",
             totals["found_with_reference"], WITH_REFERENCE_MIN)):
        share = 100 * found / max(changing, 1)
        holds = enough and share >= least
        lines.append(f"goal: mutants that change a value, {what}: {share:.1f} "
                     f"% of {changing} (>= {least} % of >= {MUTANTS_MIN}) "
                     + ("holds" if holds else "falls short"))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--check",
                        default=str(ROOT / "build/tests/tools/check_main"),
                        help="program that checks a module")
    parser.add_argument("--count", type=int, default=260)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--smoke", action="store_true",
                      help="10 mutants, nothing written")
    some.add_argument("--survivors", action="store_true",
                      help="the mutants that docs/results/mutate.json calls "
                           "missed, nothing written")
    some.add_argument("--only", metavar="FILE:LINE", action="append",
                      help="the mutants of one line, nothing written; may be "
                           "repeated")
    args = parser.parse_args()

    files = [f.resolve() for f in args.files] or default_sources()
    count = args.count
    if args.smoke:
        files, count = files[:3], 10
    mutants = [m for f in files for m in mutants_of(f)]
    if args.survivors:
        chosen = survivors(mutants, RECORDED)
    elif args.only:
        chosen = only(mutants, args.only)
    else:
        chosen = choose(mutants, count, random.Random(args.seed))
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(args.check, pathlib.Path(folder), args.calls)
        for source in sorted({m.source for m in chosen}):
            if not judge.prepare(source):
                raise SystemExit(f"{source} does not build")
        judged = judge_all(judge, chosen, args.jobs)
    totals = summary(judged)
    is_part = args.survivors or bool(args.only)
    if not is_part:
        print(json.dumps(totals, indent=2))
        print(goal_lines(totals))
    for result in judged:
        if result["verdict"] == "missed" or is_part:
            by = result.get("by")
            how = f" by {', '.join(by)}" if isinstance(by, list) else ""
            print(f"{result['verdict']}{how}: {result['file']}:"
                  f"{result['line']}: {result['before']}  ->  "
                  f"{result['after']}")
    if not (args.smoke or is_part):
        results.write("mutate", ["src/check", *(f.relative_to(ROOT)
                                               for f in files)],
                      {"seed": args.seed, "calls": args.calls, **totals,
                       "mutant": judged})
    return 0


if __name__ == "__main__":
    sys.exit(main())
