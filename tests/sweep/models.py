#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every model in f32, in bf16 and under autocast: forward and gradients at the
published widths (or small ones), twenty training steps with dropout at small ones.

Figures are distances to float64, eager's being 1; the bound is 2. Each model's
figures are kept in build/ as it ends, so that a run that was stopped goes on
with --resume; a change of what is measured makes them void.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/python/graph"), str(ROOT / "bench"),
                str(ROOT / "tools")]

import each  # noqa: E402
import harness  # noqa: E402
import matrix  # type: ignore[import-not-found]  # noqa: E402
import models  # type: ignore[import-not-found]  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402

KINDS = ("forward", "gradients", "training")
KEPT = ROOT / "build/sweep-models"


def run_form(name: str, form: str, full: bool) -> dict[str, Any]:
    found = matrix.measure(name, form, full)
    if models.ALL[name].trained:
        matrix.train(name, form, found)
    s = opgraft.stats(found.compiled)
    return {
        **found.ratios(),
        "where": {k: getattr(found, k).where for k in KINDS},
        "in_python": s.in_python,
    }


def run_one(name: str, width: str, forms: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for form in forms:
        torch._dynamo.reset()
        try:
            found[form] = run_form(name, form, width == "full")
        except Exception as error:  # the other forms still run
            found[form] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return found


def one(name: str, width: str, forms: tuple[str, ...], resume: bool
        ) -> dict[str, Any]:
    """A model's figures: those kept, or those of a process of its own."""
    found = each.kept(Path(__file__), [name, width, *forms],
                      KEPT / f"{name}-{width}.json",
                      results.hash_of(MEASURED), resume)
    return {form: found for form in forms} if "error" in found else found


def show(name: str, rows: dict[str, Any]) -> None:
    for form, found in rows.items():
        print(f"{name:<26}{form:<10}" + (found.get("error") or "".join(
            f"{found[k]:>11.2f}" for k in KINDS)), flush=True)
        for kind, where in found.get("where", {}).items():
            if not found[kind] <= matrix.FACTOR:
                print(f"  {kind}, {where}", flush=True)


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        each.report(run_one(sys.argv[2], sys.argv[3], sys.argv[4:]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="two small models, to see that it runs")
    parser.add_argument("--width", choices=("full", "small"), default="full")
    parser.add_argument("--model", action="append", choices=list(models.ALL),
                        help="only this one, or these; nothing is written")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--resume", action="store_true",
                        help="keep what an earlier run of the same sources "
                        "has measured")
    options = parser.parse_args()
    width = "small" if options.smoke else options.width
    forms = matrix.FORMS[:1] if options.smoke else matrix.FORMS
    rows: dict[str, Any] = {}
    # Threads that wait need not spin: nothing is timed.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    names = (["mlp_custom_linear", "lstm_cell"] if options.smoke
             else options.model or list(models.ALL))
    print(f"{'model':<26}{'form':<10}" + "".join(f"{k:>11}" for k in KINDS))
    with ThreadPoolExecutor(options.jobs) as pool:
        children = {
            pool.submit(one, name, width, forms, options.resume): name
            for name in names}
        for child in as_completed(children):
            name, found = children[child], child.result()
            show(name, found)
            rows |= {f"{name}, {form}": row for form, row in found.items()}
    goals = harness.Goals("models")
    for kind in KINDS:
        said = {k: r[kind] for k, r in rows.items() if kind in r}
        worst = max(said, key=lambda k: said[k]) if said else "none"
        goals.add(f"{kind}: distance to float64 / eager's, worst ({worst})",
                  said.get(worst, float("nan")), matrix.FACTOR)
    failed = sorted(k for k, r in rows.items() if "error" in r)
    goals.add(f"models that did not run {failed or ''}".strip(),
              len(failed), 0)
    if not options.smoke and not options.model:
        goals.write(MEASURED, {"width": width, "rows": {
            k: rows[k] for name in models.ALL for k in sorted(rows)
            if k.startswith(f"{name}, ")}})
    return int(any(line["verdict"] != "holds" for line in goals.lines))


MEASURED = ["src", "hosts/torch", "python/opgraft", "tests/python/graph",
            "tests/sweep/models.py"]

if __name__ == "__main__":
    sys.exit(main())
