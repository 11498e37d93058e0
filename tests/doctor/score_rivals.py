#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores what PyTorch itself says about the labelled cases.

`torch._dynamo.explain` stands in for torch.compile: the first call of every
compiled function is explained. `TORCH_LOGS=graph_breaks,recompiles` is read
from the logs of an ordinary run. Each case runs in a fresh child process,
forked from one that has imported torch and its compilers. Nothing is in their disfavour: a
line counts wherever a reason names it, an id wherever it stands beside the
line, and a stage is not asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SMOKE = ("item_loss", "loop_item", "recompile_rank", "two_files", "clean_mlp")
TIMEOUT_S = 600  # one case, on a machine that others use too
ID = re.compile(r"gb/gb(\d{4})\.html")
Finding = tuple[set[tuple[str, int]], set[str]]  # the lines and ids it names


def explained(path: Path) -> None:
    """Runs a script in which a compiled function explains itself."""
    import torch
    from torch._dynamo import explain

    def instead(model: Any = None, **_: Any) -> Any:
        if model is None:
            return instead
        target = model.forward if isinstance(model, torch.nn.Module) else model
        told: list[bool] = []

        def call(*args: Any, **kwargs: Any) -> Any:
            if not told:
                told.append(True)
                found = explain(target)(*args, **kwargs)
                print("@@graphs", found.graph_count, found.graph_break_count)
                for reason in found.break_reasons:
                    stack = [(f.filename, f.lineno) for f in reason.user_stack]
                    print("@@reason", json.dumps([stack, reason.reason]))
            return model(*args, **kwargs)

        return call

    torch.compile = instead
    runpy.run_path(str(path), run_name="__main__")


def logged(path: Path) -> None:
    """Runs a script under TORCH_LOGS=graph_breaks,recompiles."""
    import torch

    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    runpy.run_path(str(path), run_name="__main__")


def in_child(run: Callable[[Path], None], path: Path) -> tuple[str, float]:
    """What `run` prints in a process of its own, and how long it took."""
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        begin = time.perf_counter()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            sys.argv, sys.path[0] = [str(path)], str(path.parent)
            signal.alarm(TIMEOUT_S)
            try:
                run(path)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        seconds = time.perf_counter() - begin
        out.seek(0)
        text = out.read()
    if os.WIFSIGNALED(status):
        print(f"{path.stem}: ended by signal {os.WTERMSIG(status)}")
    return text, seconds


def ids_of(text: str) -> set[str]:
    return {f"GB{number}" for number in ID.findall(text)}


def read_explain(text: str) -> list[Finding]:
    found: list[Finding] = []
    for line in re.findall(r"^@@reason (.*)$", text, re.M):
        stack, reason = json.loads(line)
        found.append(({(name, number) for name, number in stack},
                      ids_of(reason)))
    return found


def read_break(part: str) -> Finding:
    """One graph break in the logs: its site and the ends of its stacks."""
    site = re.match(r"(\S+):(\d+)", part)
    lines = {(site[1], int(site[2]))} if site else set()
    stack = part.split("User code traceback:")[-1]
    frames = re.findall(r'File "([^"]+)", line (\d+), in (?!<module>)', stack)
    lines |= {(name, int(number)) for name, number in frames}
    return lines, ids_of(part)


def read_recompile(part: str) -> Finding:
    site = re.match(r"\S+ in (\S+):(\d+)", part)
    lines = {(site[1], int(site[2]))} if site else set()
    lines |= {(name, int(number)) for name, number
              in re.findall(r"# (\S+\.py):(\d+) in ", part)}
    return lines, set()


def read_logs(text: str) -> list[Finding]:
    found = []
    for chunk in re.split(r"\n[VWIE]\d{4} [^\n]*?\] (?=Graph break in user"
                          r"|\[__graph_breaks\] Graph break"
                          r"|\[__recompiles\] Recompiling)", "\n" + text)[1:]:
        body = re.sub(r"^.*?in user code at ", "", chunk, count=1, flags=re.S)
        if "Recompiling function" in chunk.split("\n")[0]:
            found.append(read_recompile(chunk.split("function ", 1)[1]))
        else:
            found.append(read_break(body))
    if "recompile_limit" in text:  # in the default warning
        limit = re.findall(r"function: '[^']*' \(([^:]+):(\d+)\)", text)
        found += [({(name, int(n))}, set()) for name, n in limit]
    if "from user code:" in text:  # under fullgraph=True
        found.append(read_break(text.rsplit("from user code:")[-1]))
        found[-1][1].update(ids_of(text))
    return found


def score_root(case: dict[str, Any], root: dict[str, Any],
               found: list[Finding]) -> tuple[bool, bool]:
    """(line found, id found) for one labelled root."""
    name = Path(root.get("file", case["file"])).as_posix()
    wanted = {root["line"], *root.get("also", [])}
    named = [ids for lines, ids in found
             if any(path.endswith(name) and line in wanted
                    for path, line in lines)]
    return bool(named), any(root["id"] in ids for ids in named)


RIVALS = {"explain": (explained, read_explain), "logs": (logged, read_logs)}


def score(case: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"file": case["file"]}
    for rival, (run, read) in RIVALS.items():
        text, seconds = in_child(run, HERE / case["file"])
        found = read(text)
        row[rival] = {
            "roots": [score_root(case, r, found) for r in case["roots"]],
            "findings": len(found), "seconds": round(seconds, 2)}
        negative = re.findall(r"^@@graphs \d+ (-\d+)", text, re.M)
        if rival == "explain" and negative:
            row[rival]["break_count"] = int(negative[0])
    return row


def totals(cases: list[dict[str, Any]],
           rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """stage -> roots, those with an id, and per rival lines and ids."""
    out: dict[str, dict[str, Any]] = {}
    for case, row in zip(cases, rows):
        for i, root in enumerate(case["roots"]):
            for stage in (root["stage"], "all"):
                total = out.setdefault(stage, {
                    "roots": 0, "with_id": 0,
                    **{r: {"lines": 0, "ids": 0} for r in RIVALS}})
                total["roots"] += 1
                total["with_id"] += root["id"] is not None
                for rival in RIVALS:
                    line, name = row[rival]["roots"][i]
                    total[rival]["lines"] += line
                    total[rival]["ids"] += name
    return out


def print_tables(cases: list[dict[str, Any]], rows: list[dict[str, Any]],
                 found: dict[str, dict[str, Any]]) -> None:
    print(f"\n{'stage':<12}{'roots':>6}{'with id':>9}"
          f"{'explain: line / id':>21}{'TORCH_LOGS: line / id':>24}")
    for stage in sorted(found, key=lambda s: (s == "all", s)):
        total = found[stage]
        marks = [f"{total[r]['lines']} / {total[r]['ids']}" for r in RIVALS]
        print(f"{stage:<12}{total['roots']:>6}{total['with_id']:>9}"
              f"{marks[0]:>21}{marks[1]:>24}")
    controls = [row for case, row in zip(cases, rows) if case["clean"]]
    noisy = {r: sum(row[r]["findings"] > 0 for row in controls)
             for r in RIVALS}
    print(f"controls with a finding, of {len(controls)}: "
          f"explain {noisy['explain']}, TORCH_LOGS {noisy['logs']}")
    print("neither gives a cost")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="five cases")
    args = parser.parse_args()
    table = json.loads((HERE / "cases.json").read_text())
    cases = [case for case in table["cases"]
             if not args.smoke or Path(case["file"]).stem in SMOKE]
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # forked children
    import torch
    import torch._dynamo
    import torch._functorch.aot_autograd
    import torch._inductor.compile_fx  # once for all children

    if torch.__version__.split("+")[0] != table["torch"]:
        print(f"torch {torch.__version__} is installed, and the labels are "
              f"of {table['torch']}")
        return 1
    rows = []
    for i, case in enumerate(cases):
        rows.append(score(case))
        marks = [" ".join("LI" if a and b else "L-" if a else "--"
                          for a, b in rows[-1][r]["roots"]) or
                 f"({rows[-1][r]['findings']})" for r in RIVALS]
        print(f"{i + 1:>3}/{len(cases)} {Path(case['file']).stem:<28}"
              f"explain {marks[0]:<12} TORCH_LOGS {marks[1]}", flush=True)
    found = totals(cases, rows)
    print_tables(cases, rows, found)
    if not args.smoke:
        sys.path.insert(0, str(ROOT / "tools"))
        import results

        controls = [row for c, row in zip(cases, rows) if c["clean"]]
        results.write("doctor_rivals", [
            HERE / "cases", HERE / "cases.json", Path(__file__)], {
                "torch": table["torch"], "cases": len(cases),
                "controls": len(controls),
                "controls_with_finding": {
                    r: sum(row[r]["findings"] > 0 for row in controls)
                    for r in RIVALS},
                "stages": found, "rows": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
