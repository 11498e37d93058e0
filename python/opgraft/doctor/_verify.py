# SPDX-License-Identifier: Apache-2.0
"""Tries the proposals: each in a child process, compared and timed.

A fix is verified when the script runs as before, its compiled functions give
the same numbers, the root is gone, no other came in its place, and a step was
timed before and after. What is verified is kept while the next root is tried,
so that the last time is that of all fixes together.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from . import _adoption, _events, _outputs, _propose, _source, _trial
from ._propose import Context, Proposal, Root
from ._trial import Outcome

BUDGET_S = 600.0  # for all trials; what is left then stays proposed
SLOWEST = 5.0  # a trial may take so many times what the first run took
FEWEST_S = 120.0  # of processor time
ROUNDS = 3  # roots that a fix uncovers are tried in the next

_TRIED = ("dynamo", "skip", "recompile", "autograd")


def verify(events: Path, script: str, arguments: list[str], runs: int,
           patch: str | None) -> int:
    """Appends `fix` lines to an event file; writes the verified ones, all
    together, to `patch`. 0, or 2 where the file cannot be read."""
    _trial.prepare()
    report = _trial.report_of(events)
    if report is None:
        return 2
    search = Search(events, os.path.abspath(script), arguments, runs)
    search.go(report)
    if patch is not None:
        _write_patch(patch, _source.diff(search.texts))
    return 0


def _write_patch(path: str, text: str) -> None:
    if text:
        Path(path).write_text(text, encoding="utf-8")
        print(f"opgraft doctor: the verified fixes are in {path}; nothing "
              "else was changed", file=sys.stderr)
    else:
        print(f"opgraft doctor: no fix was verified, so {path} is not "
              "written", file=sys.stderr)


def root_of(found: dict[str, Any]) -> Root:
    """A root of a JSON report; where it lies in a library, there."""
    at = found.get("at")
    where = at if at and found["owner"].startswith("library") else found
    return Root(os.path.expanduser(where["file"]), where["line"],
                found["id"] or "", found["stage"], found["function"],
                found["code"], found["text"],
                (os.path.expanduser(found["file"]), found["line"]))


def site(root: Root) -> tuple[str, ...]:
    """What stays of a root while lines move."""
    return root.file, root.function, root.id, _group(root.stage)


def _group(stage: str) -> str:
    return "dynamo" if stage == "skip" else stage


def _worth(found: list[dict[str, Any]]) -> list[Root]:
    return [root_of(r) for r in found if r["stage"] in _TRIED]


class Search:
    def __init__(self, events: Path, script: str, arguments: list[str],
                 runs: int) -> None:
        self.events = events
        self.script = script
        self.arguments = arguments
        self.runs = runs
        self.texts: dict[str, str] = {}  # with every fix that is verified
        self.now = Outcome("not run")
        self._end = time.monotonic() + BUDGET_S
        self._seen: dict[str, Any] = {}
        self._done: set[tuple[str, ...]] = set()

    def go(self, report: dict[str, Any]) -> None:
        first = _worth(report["roots"])
        if not first:
            return
        self.now = self._attempt({})
        if self.now.error != report["run"]["error"] or not self.now.outputs:
            self._note("fixes were not tried: run again, the script "
                       + (f"ended with {self.now.error}" if self.now.error
                          else "called nothing that is compiled"))
            return
        before = self.now.compiled_ms
        known = {(r.file, r.line, r.id) for r in first}
        roots = first
        for _ in range(ROUNDS):
            self._observe(roots)
            for root in roots:
                self._fix(root, (root.file, root.line, root.id) in known)
            roots = [r for r in _worth(self.now.roots)
                     if site(r) not in self._done]
            if not roots:
                break
        if self.texts and self.now.compiled_ms > 0:
            self._reachable(min(before, self.now.compiled_ms))

    def _attempt(self, texts: dict[str, str],
                 seen: Path | None = None) -> Outcome:
        timeout = max(FEWEST_S, SLOWEST * self.now.seconds)
        return _trial.attempt(self.script, self.arguments,
                              {**self.texts, **texts}, self.runs, timeout,
                              seen)

    def _observe(self, roots: list[Root]) -> None:
        """What calls near the roots take and give, from one eager run."""
        texts = _adoption.observed([(r.file, r.line) for r in roots],
                                   self.texts)
        self._seen = {}
        for file, text in texts.items():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "seen"
                self._attempt({file: text}, path)
                self._seen[file] = _adoption.read(str(path))

    def _fix(self, root: Root, is_reported: bool) -> None:
        self._done.add(site(root))
        best: tuple[str, Proposal, str] | None = None
        context = Context(self.script, self.texts, self._seen)
        for proposal in _propose.proposals(self._moved(root), context):
            if time.monotonic() > self._end:
                best = best or ("proposed", proposal, "not tried: time was up")
                break
            _say(f"{os.path.basename(root.file)}:{root.line}: "
                 f"{proposal.title}")
            after = self._attempt(proposal.texts)
            status, text = self._judge(root, after)
            if status == "verified":
                self._keep(root, proposal, after, text, is_reported)
                return
            if best is None:
                best = (status, proposal, text)
        if best is not None and is_reported:
            status, proposal, text = best
            self._line(root, proposal, status, text, 0.0, 0.0)

    def _moved(self, root: Root) -> Root:
        """The root's line in the text that other fixes have changed."""
        for found in _worth(self.now.roots):
            if site(found) == site(root) and found.code == root.code:
                return found
        return root

    def _judge(self, root: Root, after: Outcome) -> tuple[str, str]:
        if after.error and after.error != self.now.error:
            return "failed", after.error
        changed = _outputs.difference(self.now.outputs, after.outputs)
        if changed:
            return "refuted", f"the results are not the same: {changed}"
        left = _worth(after.roots)
        have = Counter(site(r) for r in left)
        had = Counter(site(r) for r in _worth(self.now.roots))
        if have[site(root)] >= max(had[site(root)], 1):
            return "refuted", "the root is still there"
        others = [r for r in left if have[site(r)] > had[site(r)]]
        if others:
            return "refuted", (
                f"another came in its place: {others[0].id or others[0].stage}"
                f" at {os.path.basename(others[0].file)}:{others[0].line}")
        if after.report["graphs"]["fx"] == 0:
            return "refuted", "nothing is compiled any more"
        if after.compiled_ms <= 0 or self.now.compiled_ms <= 0:
            return "proposed", "the results are the same; no step was timed"
        return "verified", "the results are the same, and the root is gone"

    def _keep(self, root: Root, proposal: Proposal, after: Outcome, text: str,
              is_reported: bool) -> None:
        if is_reported:
            self._line(root, proposal, "verified", text, self.now.compiled_ms,
                       after.compiled_ms)
        else:
            self._note(f"fixed with it: {os.path.basename(root.file)}:"
                       f"{root.line}, {proposal.title}")
        self.texts |= proposal.texts
        self.now = after

    # --- Events --------------------------------------------------------------

    def _line(self, root: Root, proposal: Proposal, status: str, text: str,
              before: float, after: float) -> None:
        _events.append(
            self.events, "fix", file=root.named[0], line=root.named[1],
            id=root.id,
            class_=proposal.class_, title=proposal.title,
            diff=_source.diff(proposal.texts, self.texts), status=status,
            text=text, before_ms=before, after_ms=after)

    def _note(self, text: str) -> None:
        _events.append(self.events, "note", text=text)

    def _reachable(self, ms: float) -> None:
        """The counts again, which stand once: the last line holds."""
        lines = self.events.read_bytes().splitlines()
        counts = next(line for line in reversed(lines)
                      if line.startswith(b"counts"))
        with open(self.events, "ab") as file:
            file.write(counts + b"\treachable_ms=" + repr(ms).encode() + b"\n")


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"opgraft doctor: trying {text}", file=sys.stderr)
