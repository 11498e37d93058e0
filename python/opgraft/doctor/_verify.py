# SPDX-License-Identifier: Apache-2.0
"""Tries the proposals: each in a child process, compared and timed.

A fix is verified when the script runs as before, its compiled functions give
the same numbers, the root is gone, no other came in its place, and a step takes
no longer, timed in turns. What an edit uncovers is edited too. What is verified
is kept while the next root is tried, so that the last time is that of all fixes
together; a root that is gone with another's fix is verified with it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from . import (
    _adoption,
    _events,
    _opaque,
    _outputs,
    _propose,
    _source,
    _trial,
    _values,
)
from ._propose import Context, Proposal, Root
from ._trial import Outcome

SLOWEST = 5.0  # a trial may take so many times what the first run took
FEWEST_S = 120.0  # of processor time
# Of one root, in each round: the likeliest edits of all roots come first. What
# could not be mended is tried again when something else was.
TRIALS = (2, 12, 12)
DEPTH = 3  # edits that mend one root together, each what the last uncovered
KEPT = 0.5  # of the operators that are compiled must be so afterwards
SLOWER = 1.1  # a step that takes so many times as long is not a remedy

_UNTRIED = "not tried: the time of --budget was used up, a larger one tries more"
_TRIED = ("dynamo", "skip", "recompile", "autograd")


def verify(events: Path, script: str, arguments: list[str], runs: int,
           patch: str | None, budget_s: float) -> int:
    """Appends `fix` lines to an event file; writes the verified ones, all
    together, to `patch`. What was not tried when `budget_s` is over stays
    proposed. 0, or 2 where the file cannot be read."""
    _trial.prepare()
    report = _trial.report_of(events)
    if report is None:
        return 2
    search = Search(events, os.path.abspath(script), arguments, runs,
                    budget_s)
    search.go(report)
    text = _source.diff(search.texts)
    if patch is not None and text:
        Path(patch).write_text(text, encoding="utf-8")
        search.note(f"patch: {patch} has the verified fixes; nothing else was "
                    "changed")
    elif patch is not None:
        search.note(f"patch: no fix was verified, so {patch} is not written")
    return 0


def root_of(found: dict[str, Any]) -> Root:
    """A root of a JSON report; where it lies in a library, there."""
    at = found.get("at")
    where = at if at and found["owner"].startswith("library") else found
    return Root(os.path.expanduser(where["file"]), where["line"],
                found["id"] or "", found["stage"], found["function"],
                found["code"], found["text"],
                (os.path.expanduser(found["file"]), found["line"],
                 os.path.expanduser(at["file"]) if at else "",
                 at["line"] if at else 0), found["hits"])


def site(root: Root) -> tuple[str, ...]:
    """What stays of a root while lines move."""
    return root.file, root.function, root.id, _group(root.stage)


def _group(stage: str) -> str:
    return "dynamo" if stage == "skip" else stage


def _is_recompile(root: Root) -> bool:
    return root.stage == "recompile"


def _is_once(root: Root, left: list[Root]) -> bool:
    """Whether a function that was compiled again and again is so once only:
    the first change of a size or a number makes it dynamic."""
    hits = sum(r.hits for r in left if site(r) == site(root))
    return _is_recompile(root) and hits == 1 < root.hits


def _worth(found: list[dict[str, Any]]) -> list[Root]:
    return [root_of(r) for r in found if r["stage"] in _TRIED]


class Verdict(NamedTuple):
    status: str
    text: str
    uncovered: tuple[Root, ...] = ()  # what came in the root's place
    before_ms: float = 0.0
    after_ms: float = 0.0
    hides_most: bool = False  # of what was compiled


class Search:
    def __init__(self, events: Path, script: str, arguments: list[str],
                 runs: int, budget_s: float) -> None:
        self.events = events
        self.script = script
        self.arguments = arguments
        self.runs = runs
        self.texts: dict[str, str] = {}  # with every fix that is verified
        self.now = Outcome("not run")
        self._budget_s = budget_s
        self._begin = time.monotonic()
        self._patience_s = _trial.ROUNDS_S  # for one comparison of two steps
        self._trials = 0  # for the root at hand
        self._most = 0
        self._seen: dict[str, Any] = {}
        self._around: Any = ({}, {})
        self._values: dict[str, Any] = {}
        self._known: dict[Any, Outcome] = {}  # runs since the last such fix
        self._left: list[Root] = []  # reported, and not mended

    def go(self, report: dict[str, Any]) -> None:
        # A frame that a break leaves eager may make others compile again. Cheap
        # edits that are certain come before those that may use all the time up.
        context = Context(self.script, {}, {})
        self._left = sorted(_worth(report["roots"]), key=lambda r: (
            _is_recompile(r), not _propose.is_certain(r, context)))
        if not self._left:
            return
        self._say(f"{len(self._left)} root causes to mend, in "
                  f"{self._budget_s:.0f} s at most (--budget; --no-verify "
                  "tries nothing); first a run of the script as it is")
        self.now = self._attempt({})
        try:
            if self.now.error == _trial.LATE and self._left_s() <= 0:
                self.note("fixes were not tried: the script alone takes "
                           f"longer than the {self._budget_s:.0f} s of "
                           "--budget")
                return
            if self.now.error != report["run"]["error"] \
                    or not self.now.outputs:
                self.note("fixes were not tried: run again, the script "
                           + (f"ended with {self.now.error}" if self.now.error
                              else "called nothing that is compiled"))
                return
            self._rounds()
        finally:
            self.now.close()

    def _rounds(self) -> None:
        best: dict[Root, tuple[Proposal, Verdict]] = {}
        reached = 0.0
        for self._most, is_last in zip(TRIALS, (False, True, True)):
            before = len(self._left)
            if self._left_s() > 0:
                self._observe([r for r in map(self._moved, self._left) if r])
            for root in list(self._left):
                here = self._moved(root)
                if here is None:  # gone with the one before
                    continue
                self._trials = 0
                tried = self._fix(here, {}, 0, here)
                if tried is None:
                    continue
                if tried[1].text != _UNTRIED or root not in best:
                    best[root] = tried
                if tried[1].status == "verified":
                    reached = tried[1].after_ms
                    self._keep(root, *tried)
            if not self._left or is_last and len(self._left) == before:
                break
        for root in self._left:
            if root in best:
                self._line(root, *best[root])
        if reached > 0:
            self._reachable(reached)

    def _attempt(self, texts: dict[str, str],
                 seen: Path | None = None) -> Outcome:
        timeout = max(FEWEST_S, SLOWEST * self.now.seconds)
        return _trial.attempt(self.script, self.arguments,
                              {**self.texts, **texts}, self.runs, timeout,
                              self._left_s(), seen)

    def _left_s(self) -> float:
        return max(self._budget_s - (time.monotonic() - self._begin), 0)

    def _say(self, text: str) -> None:
        print(f"opgraft doctor: {time.monotonic() - self._begin:.0f} s: "
              f"{text}", file=sys.stderr, flush=True)

    def _observe(self, roots: list[Root]) -> None:
        """What calls near the roots take and give, from one eager run."""
        places = [(r.file, r.line) for r in roots]
        self._say("eager runs, to see what calls take and give")
        self._seen, self._values, self._around = {}, {}, ({}, {})
        with tempfile.TemporaryDirectory() as folder:
            for file, text in _adoption.observed(places, self.texts).items():
                path = Path(folder) / "seen"
                path.unlink(missing_ok=True)
                self._attempt({file: text}, path)
                self._seen[file] = _adoption.read(str(path))
        self._observe_around(places, {})

    def _observe_around(self, places: list[tuple[str, int]],
                        texts: dict[str, str]) -> None:
        """Adds what functions around some lines take and give, and which way
        the choices there go."""
        whole = {**self.texts, **texts}
        with tempfile.TemporaryDirectory() as folder:
            def run(texts: dict[str, str]) -> str:
                path = Path(folder) / "seen"
                path.unlink(missing_ok=True)
                self._attempt({**whole, **texts}, path)
                return str(path)

            candidates, told = _opaque.explored(places, whole, run)
            self._around = ({**self._around[0], **candidates},
                            {**self._around[1], **told})
            choices = _values.observed(places, whole)
            if choices:
                self._values |= _values.read(run(choices))

    def _fix(self, root: Root, texts: dict[str, str], depth: int, first: Root,
             hides: bool = False) -> tuple[Proposal, Verdict] | None:
        """The first edit of `root`, on top of `texts`, that mends `first`,
        with what it uncovers; else what was made of the best one tried.
        `hides`: an edit in `texts` takes a call out of what is compiled."""
        best: tuple[Proposal, Verdict] | None = None
        # What an edit uncovered was not observed yet.
        if depth > 0 and self._left_s() > 0:
            self._observe_around([(root.file, root.line)], texts)
        context = Context(self.script, {**self.texts, **texts}, self._seen,
                          self._around, self._values)
        hides_most = False
        for proposal in _propose.proposals(root, context):
            if hides_most and proposal.is_opaque:
                continue  # one further out hides more
            if self._left_s() <= 0 or self._trials >= self._most:
                return best or (proposal, Verdict("proposed", _UNTRIED))
            self._trials += 1
            self._say(f"trying {os.path.basename(root.file)}:{root.line}: "
                      f"{proposal.title}")
            whole = {**texts, **proposal.texts}
            made = proposal._replace(texts=whole)
            is_call = hides or proposal.class_ == "adopt"
            after, verdict = self._tried(whole, first, is_call)
            hides_most |= proposal.is_opaque and verdict.hides_most
            if verdict.status == "verified":
                self.now.close()
                self.now = after
                return made, verdict
            after.close()
            if verdict.uncovered and depth + 1 < DEPTH:
                deeper = self._fix(verdict.uncovered[0], whole, depth + 1,
                                   first, is_call)
                if deeper is not None and deeper[1].status == "verified":
                    return deeper[0]._replace(
                        title=f"{made.title}; {deeper[0].title}"), deeper[1]
            if best is None:
                best = made, verdict
        return best

    def _tried(self, texts: dict[str, str], root: Root, hides: bool
               ) -> tuple[Outcome, Verdict]:
        """A run with `texts`; that for another root is asked again."""
        key = tuple(sorted(texts.items()))
        after = self._known.get(key)
        if after is not None:
            verdict = self._judge(root, after, hides)
            if verdict.status != "unverified":  # its child has ended
                return after, verdict
        after = self._known[key] = self._attempt(texts)
        return after, self._judge(root, after, hides)

    def _moved(self, root: Root) -> Root | None:
        """The root in the text that other fixes have changed; None where it
        is gone."""
        found = [r for r in _worth(self.now.roots)
                 if site(r) == site(root) and r.code == root.code]
        return min(found, key=lambda r: abs(r.line - root.line)
                   ) if found else None

    def _judge(self, root: Root, after: Outcome, hides: bool) -> Verdict:
        if after.error == _trial.LATE and self._left_s() <= 0:
            return Verdict("proposed", _UNTRIED)
        if after.error and after.error != self.now.error:
            return Verdict("failed", after.error)
        changed = _outputs.difference(self.now.outputs, after.outputs)
        if changed:
            return Verdict("refuted",
                           f"the results are not the same: {changed}")
        left = sorted(_worth(after.roots), key=_is_recompile)
        have = Counter(site(r) for r in left)
        had = Counter(site(r) for r in _worth(self.now.roots))
        if have[site(root)] >= max(had[site(root)], 1) and not _is_once(
                root, left):
            return Verdict("refuted", "the root is still there")
        others = tuple(r for r in left if have[site(r)] > had[site(r)])
        if others:
            return Verdict("refuted", "another came in its place: "
                           f"{others[0].id or others[0].stage} at "
                           f"{os.path.basename(others[0].file)}:"
                           f"{others[0].line}", others)
        if after.report["graphs"]["fx"] == 0:
            return Verdict("refuted", "nothing is compiled any more")
        # Fewer may be all that is left to do, unless they went elsewhere.
        if after.captured < KEPT * self.now.captured and (
                hides or after.outside > self.now.outside):
            return Verdict("refuted", f"of {self.now.captured} operators that "
                           f"are compiled {after.captured} still are",
                           hides_most=True)
        times = f"it is compiled again once, {root.hits} times before" if have[
            site(root)] else "the root is gone"
        return self._timed(after, f"the results are the same, and {times}")

    def _timed(self, after: Outcome, same: str) -> Verdict:
        if after.compiled_ms <= 0 or self.now.compiled_ms <= 0:
            return Verdict("proposed", f"{same}; no step was timed")
        times = _trial.compared_ms(self.now, after, SLOWER,
                                   min(self._patience_s, self._left_s()))
        if times is None and self._left_s() <= 0:
            return Verdict("unverified", f"{same}; time was up before a step "
                           "was timed (--budget)")
        if times is None:
            # A machine that is too noisy now mostly is so for the next one.
            self._patience_s /= 2
            return Verdict("unverified", f"too noisy: {same}, but whether a "
                           "step takes longer could not be told")
        before_ms, after_ms = times
        if after_ms > SLOWER * before_ms:
            return Verdict("refuted", f"{same}, but a step takes longer: "
                           f"{before_ms:.3g} ms became {after_ms:.3g} ms")
        return Verdict("verified", same, (), before_ms, after_ms)

    def _keep(self, root: Root, proposal: Proposal, verdict: Verdict) -> None:
        self._line(root, proposal, verdict)
        self._left.remove(root)
        self.texts |= proposal.texts
        self._known.clear()
        mended = f"gone with the fix of {os.path.basename(root.file)}:" \
                 f"{root.line}"
        for other in list(self._left):
            if self._moved(other) is None:
                self._left.remove(other)
                self._line(other, Proposal(proposal.class_, mended, {}),
                           Verdict("verified", mended, (), verdict.after_ms,
                                   verdict.after_ms))

    # --- Events --------------------------------------------------------------

    def _line(self, root: Root, proposal: Proposal, verdict: Verdict) -> None:
        file, line, at_file, at_line = root.named
        _events.append(
            self.events, "fix", file=file, line=line, at_file=at_file,
            at_line=at_line, id=root.id, class_=proposal.class_,
            title=proposal.title,
            diff=_source.diff(proposal.texts, self.texts),
            status=verdict.status, text=verdict.text,
            before_ms=verdict.before_ms, after_ms=verdict.after_ms)

    def note(self, text: str) -> None:
        _events.append(self.events, "note", text=text)

    def _reachable(self, ms: float) -> None:
        """The counts again, which stand once: the last line holds."""
        lines = self.events.read_bytes().splitlines()
        counts = next(line for line in reversed(lines)
                      if line.startswith(b"counts"))
        with open(self.events, "ab") as file:
            file.write(counts + b"\treachable_ms=" + repr(ms).encode() + b"\n")
