# SPDX-License-Identifier: Apache-2.0
"""A declaration proposed from sample calls of an opaque callable.

Argument kinds come from the samples, everything else from trials: calls with
sizes, types and values changed one at a time, in guarded memory of a child
(_propose_run). A dim is free where it can grow and shrink alone; what cannot is
tied to what it must change with. Rules are fitted on some trials and held
against others that were not used, by the declaration's own parser.

Invariant: what no trial showed is a doubt, and a proposal with doubts is never
registered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import torch

from .._adopt import adopted
from .._base.counted import counted
from .._base.rules import DTYPES, NAMES, Description, infer
from . import args as _args
from .run import Call, Outcome, run
from .sizes import Sizes, sized


@dataclass
class Proposal:
    """What an operator may be declared as. `doubts` say what is not known;
    without any, every part was seen in trials. `str` is the call that adopts
    it, to be pasted.

        >>> proposal = opgraft.propose(lambda x: x * 2, [(torch.randn(3, 4),)],
        ...                            name="twice")
        >>> proposal.is_certain, proposal.shape, proposal.doubts
        (True, 'x[*B] -> [*B]', [])
    """

    name: str
    fn: str  # what the callable is called, for the text
    schema: str = ""
    shape: str = ""
    dtype: str = ""
    where: str = ""
    known: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def is_certain(self) -> bool:
        """Whether the trials left no doubt."""
        return not self.doubts

    def __str__(self) -> str:
        fields = [("schema", self.schema), ("shape", self.shape),
                  ("where", self.where), ("dtype", self.dtype)]
        lines = [f"opgraft.adopt({self.fn},"]
        lines += [f'              {k}="{v}",' for k, v in fields if v]
        text = "\n".join(lines)[:-1] + ")"
        return "\n".join([text, *(f"# known: {k}" for k in self.known),
                          *(f"# doubt: {d}" for d in self.doubts)])


class Doubt(ValueError):
    """A declaration that the caller has to confirm; `proposal` holds it.

        >>> try:
        ...     opgraft.adopt(lambda x: x * 2, samples=[(torch.randn(3),)],
        ...                   name="demo::doubled", strict=True)
        ... except opgraft.Doubt as doubt:
        ...     print(doubt.proposal.shape)
        x[*B] -> [*B]
    """

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        why = ("it was inferred, and strict=True needs your word"
               if proposal.is_certain else proposal.doubts[0])
        super().__init__(
            f"{proposal.name}: {why}; look at this, fix it where it is "
            f"wrong, and paste it instead:\n\n{proposal}"
        )


def propose(
    fn: Callable[..., Any], samples: Sequence[Any], name: str | None = None,
    seed: int = 0,
) -> Proposal:
    """What `fn` may be declared as, from sample calls: each a tuple of
    arguments, a dict by name, or (tuple, dict). Values of tensors are made
    anew, like those of the samples; equal seeds make equal ones.

    ValueError without samples. What `fn` raises in every trial arrives here.

        >>> def clamped(x):
        ...     return x.clamp(min=0)
        >>> print(opgraft.propose(clamped, [(torch.randn(3, 4),)]))
        opgraft.adopt(clamped,
                      schema="clamped(Tensor x) -> Tensor",
                      shape="x[*B] -> [*B]",
                      dtype="x: f16|bf16|f32|f64 -> x")
        # known: ...
    """
    made = _Inference(fn, samples, name, seed)
    made.infer()
    return made.out


class _Inference:
    def __init__(
        self, fn: Callable[..., Any], samples: Sequence[Any],
        name: str | None, seed: int,
    ) -> None:
        self.fn = fn
        label = getattr(fn, "__name__", None) or type(fn).__name__
        own = name or (label if label.isidentifier() else "adopted")
        module = getattr(fn, "__module__", None) or ""
        text = label if module in ("__main__", "builtins", "") else (
            f"{module.rpartition('.')[2]}.{label}")
        self.out = Proposal(own, text if label.isidentifier() else "fn")
        self.params = _args.params_of(fn, samples)
        self.keywords = [p.name if p.is_keyword_only else None
                         for p in self.params]
        self.samples: list[Call] = [
            [p.values[i] for p in self.params] for i in range(len(samples))]
        self.seed = seed
        self.seen: list[Outcome] = []  # of every trial that it took

    # --- Trials ---

    def trial(self, calls: list[Call], **more: Any) -> list[Outcome]:
        out = run(self.fn, self.keywords, calls, **more)
        self.seen += [o for o in out if o.ok]
        return out

    def doubt(self, text: str) -> None:
        if text not in self.out.doubts:
            self.out.doubts.append(text)

    # --- The order of things ---

    def infer(self) -> None:
        first = self._samples()
        if self.out.doubts:
            self.out.schema = self._schema(first)
            return
        sizes = Sizes(self.params, self.samples, self.trial, self.seed)
        shape = sizes.explain(len(first.results), self._fresh(first))
        self.out.known += sizes.known
        for doubt in sizes.doubts:
            self.doubt(doubt)
        self.out.shape, self.out.where = shape, sizes.where
        self._changes(sizes.base)
        self._types(sizes.base, first)
        self.out.schema = self._schema(first)
        self._values_tried()
        if not self.out.doubts:
            self._hold_against(sizes)

    def _samples(self) -> Outcome:
        """The samples themselves, each twice in one process."""
        twice = self.trial([s for s in self.samples for _ in range(2)])
        for i, outcome in enumerate(twice):
            if not outcome.ok:
                raise ValueError(
                    f"{self.out.name}: sample {i // 2} is refused: "
                    f"{outcome.error}"
                    + ("; it may read or write more than the tensors hold"
                       if outcome.has_crashed else ""))
        for i in range(0, len(twice), 2):
            if _contents(twice[i]) != _contents(twice[i + 1]):
                self.doubt(
                    "two equal calls gave different results: it keeps state, "
                    "draws random numbers or reads memory that it has not "
                    'set; where it may, adopt it with flags=["random"]')
                break
        first = twice[0]
        if any((o.kind, len(o.results)) != (first.kind, len(first.results))
               for o in twice):
            self.doubt("it returns another number of results from call to call")
        if first.kind not in ("none", "one", "several"):
            self.doubt(f"it returns {first.kind}; an operator returns tensors: "
                       "adopt a function that does")
        if any(p.kind == "Tensor[]" for p in self.params):
            self.doubt("a list of tensors: its pattern has to be said")
        for p in self.params:
            if not p.kind:
                self.doubt(f"{p.name}: is None in every sample, so its kind is "
                           "not known; add a sample that gives it")
        self._aliases(twice)
        return first

    def _aliases(self, outcomes: list[Outcome]) -> None:
        """Results that are arguments: allowed where they are written, whole,
        in every call."""
        changed = {p for o in self.seen for p in o.changed}
        for r in range(len(outcomes[0].results)):
            found = {(o.results[r].alias, o.results[r].is_whole)
                     for o in outcomes}
            if found == {(None, False)}:
                continue
            alias, is_whole = next(f for f in found if f[0] is not None)
            if len(found) == 1 and is_whole and alias in changed:
                continue
            self.doubt(
                f"result {r} shares memory with {self.params[alias or 0].name}, "
                "and an operator returns new memory; adopt a function that "
                "returns a copy")
        if any(r.requires_grad for o in outcomes for r in o.results):
            self.doubt("a result requires grad by itself: it holds a parameter, "
                       "which has to become an argument")

    def _fresh(self, first: Outcome) -> list[int]:
        return [i for i, r in enumerate(first.results) if r.alias is None]

    # --- Mutation ---

    def _changed(self) -> set[int]:
        return {p for o in self.seen for p in o.changed}

    def _changes(self, base: Call) -> None:
        """By hashing in every trial, and by memory that cannot be written."""
        changed = self._changed()
        others = {i for i, p in enumerate(self.params)
                  if p.is_tensor and i not in changed}
        names = ", ".join(self.params[i].name for i in sorted(changed))
        self.out.known.append(
            f"writes {names or 'no argument'}, in "
            f"{counted(len(self.seen), 'call')}")
        if others and not run(self.fn, self.keywords, [base],
                              read_only=others)[0].ok:
            alone = [i for i in sorted(others)
                     if not run(self.fn, self.keywords, [base],
                                read_only={i})[0].ok]
            self.doubt(
                f"{', '.join(self.params[i].name for i in alone or others)}: "
                "is written with what it holds already, or asked to be "
                "writable; declare Tensor(a!) where it is written")

    # --- Types ---

    def _types(self, base: Call, first: Outcome) -> None:
        """Which types do what the samples' do: arguments of one type change it
        together, and the values must stay what they are."""
        wanted = self.trial([base])[0]
        kinds: dict[torch.dtype, list[int]] = {}
        for i, p in enumerate(self.params):
            if p.is_tensor and isinstance(base[i], torch.Tensor):
                kinds.setdefault(base[i].dtype, []).append(i)
        texts: dict[int, str] = {}
        follows: dict[int, int] = {}  # result: the argument whose type it has
        for dtype, members in kinds.items():
            allowed, same = self._allowed(base, wanted, dtype, members)
            texts[members[0]] = "|".join(NAMES[t] for t in allowed)
            texts.update({m: self.params[members[0]].name
                          for m in members[1:]})
            if len(allowed) > 1:
                follows.update(dict.fromkeys(same, members[0]))
        results = []
        for r in self._fresh(first):
            dtype = wanted.results[r].dtype
            if r in follows:
                results.append(self.params[follows[r]].name)
            elif dtype in kinds and "|" not in texts[kinds[dtype][0]]:
                results.append(self.params[kinds[dtype][0]].name)
            else:
                results.append(NAMES[dtype])
        for i, p in enumerate(self.params):
            if p.is_tensor and i not in texts:
                self.doubt(f"{p.name}: no call that was varied gives it")
        entries = ", ".join(f"{self.params[i].name}: {texts[i]}"
                            for i in sorted(texts))
        self.out.dtype = f"{entries} -> {', '.join(results)}".rstrip()

    def _allowed(
        self, base: Call, wanted: Outcome, dtype: torch.dtype,
        members: list[int],
    ) -> tuple[list[torch.dtype], list[int]]:
        """(types that do the same, results that have the arguments' type)"""
        others = [t for t in _args.ALTERNATIVES.get(dtype, ()) if t != dtype]
        calls = [[v.to(t) if i in members else v for i, v in enumerate(base)]
                 for t in others]
        allowed = [dtype]
        same = [r for r, result in enumerate(wanted.results)
                if result.dtype == dtype]
        for t, got in zip(others, run(self.fn, self.keywords, calls)):
            if not got.ok or not _is_near(got, wanted, t):
                continue
            fixed = [r for r, result in enumerate(got.results)
                     if result.dtype == wanted.results[r].dtype]
            kept = [r for r in same if got.results[r].dtype == t]
            if len(kept) + len(fixed) != len(got.results) or kept != same:
                continue  # a rule that is neither: leave the type out
            allowed.append(t)
        return sorted(allowed, key=list(DTYPES.values()).index), same

    # --- The texts ---

    def _schema(self, first: Outcome) -> str:
        changed = self._changed()
        letters = dict(zip(sorted(changed), "abcdefghijklmnop"))
        arguments = []
        has_star = False
        for i, p in enumerate(self.params):
            if p.is_keyword_only and not has_star:
                arguments.append("*")
                has_star = True
            arguments.append(p.text(letters.get(i)))
        results = [
            "Tensor" if r.alias is None or r.alias not in letters
            else f"Tensor({letters[r.alias]}!)" for r in first.results]
        returns = results[0] if len(results) == 1 else (
            f"({', '.join(results)})")
        name = self.out.name.rpartition("::")[2]
        return f"{name}({', '.join(arguments)}) -> {returns}"

    def _values_tried(self) -> None:
        """Arguments other than sizes and tensors: seen at samples' values only."""
        for p in self.params:
            if p.kind == "str":
                words = sorted({repr(v) for v in p.values if v is not None})
                self.out.known.append(
                    f"{p.name}: only {', '.join(words)} tried")

    def _hold_against(self, sizes: Sizes) -> None:
        """The texts, by the declaration's own parser, against every trial."""
        fields = {"schema": self.out.schema, "shape": self.out.shape,
                  "dtype": self.out.dtype, "where": self.out.where or None}
        try:
            d = adopted.describe([fields])[0]
        except RuntimeError as error:
            self.doubt(f"the declaration is not one yet: {error}")
            return
        fresh = self._fresh(self.seen[0])
        right, wider = 0, 0
        for outcome in self.seen:
            try:
                found = _shapes(d, outcome.call)
            except RuntimeError as error:
                if any(outcome.call is s for s in self.samples):
                    self.doubt(f"the rule refuses the sample "
                               f"{sized(outcome.call)}: {error}")
                    return
                wider += 1  # it takes more than the rule promises
                continue
            if found != [outcome.results[r].shape for r in fresh]:
                self.doubt(f"the shape rule says {found} for "
                           f"{sized(outcome.call)}, which gives "
                           f"{outcome.shapes}")
                return
            right += 1
        text = (f"shapes: fitted to {sizes.fitted} calls, held against "
                f"{sizes.held} others, right in all {right}")
        if wider:
            text += f"; it also took {wider} that the rule refuses"
        self.out.known.append(text)


def hold(
    fn: Callable[..., Any], samples: Sequence[Any], texts: Sequence[str | None],
    call: str | None,
) -> None:
    """Holds samples against a declaration that was given: ValueError where a
    call writes what is not declared, or gives other shapes."""
    fields = dict(zip(("schema", "shape", "dtype", "where"), texts))
    d = adopted.describe([fields])[0]
    if call is not None:
        raise ValueError(f"{d.name}: samples want a callable that takes the "
                         "schema's arguments in order, and call= says otherwise")
    params = _args.params_of(fn, samples)
    keywords = [p.name if p.is_keyword_only else None for p in params]
    calls = [[p.values[i] for p in params] for i in range(len(samples))]
    for at, o in enumerate(run(fn, keywords, calls)):
        if not o.ok:
            raise ValueError(f"{d.name}: sample {at} is refused: {o.error}")
        secret = [d.params[p]["name"] for p in o.changed if p not in d.mutated]
        if secret:
            raise ValueError(
                f"{d.name}: sample {at} writes {', '.join(secret)}, which the "
                "schema does not say; declare Tensor(a!)")
        wanted = _shapes(d, o.call)
        found = [r.shape for r in o.results if r.alias is None]
        if found != wanted:
            raise ValueError(f"{d.name}: sample {at} gives {found}, the shape "
                             f"rule says {wanted}")


def _shapes(d: Description, call: Call) -> list[tuple[int, ...]]:
    return [tuple(int(n) for n in t.shape) for t in infer(d, list(call))]


def _contents(o: Outcome) -> Any:
    return ([(r.shape, r.dtype, r.data) for r in o.results],
            {p: (r.shape, r.data) for p, r in o.changed.items()})


_NEAR = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 2e-2,
         torch.bfloat16: 1e-1}


def _is_near(got: Outcome, wanted: Outcome, dtype: torch.dtype) -> bool:
    """Whether a call in another type computes the same."""
    pairs = list(zip(got.results, wanted.results))
    pairs += [(r, wanted.changed[p]) for p, r in got.changed.items()
              if p in wanted.changed]
    if (len(got.results) != len(wanted.results) or not pairs
            or got.changed.keys() != wanted.changed.keys()):
        return False
    for a, b in pairs:
        x, y = a.values(), b.values()
        if a.shape != b.shape or x is None or y is None:
            return False
        bound = _NEAR.get(dtype, 0.0)
        x, y = x.double(), y.double()
        scale = y.abs().max().item() if y.numel() else 1.0
        if not torch.allclose(x, y, rtol=bound, atol=bound * max(scale, 1e-6),
                              equal_nan=True):
            return False
    return True
