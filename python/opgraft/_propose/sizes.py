# SPDX-License-Identifier: Apache-2.0
"""The shape rule behind sample calls: which dims are free, which are tied, and
what sizes the results have.

A dim is free where growing it alone and shrinking it alone both work. One of
the two is not enough: a kernel that never looks at `gate`'s size takes a longer
one, and reads beyond a shorter one.
"""

from __future__ import annotations

import itertools
import random
from typing import Any, Callable, Iterable, Mapping

import torch

from .args import Param
from .fit import Row, agrees, evaluate, fit
from .run import Call, Outcome

Var = tuple[str, int, int]  # ("dim", parameter, dim) or ("int", parameter, 0)
Values = dict[Var, int]

SYMBOLS = "NMKDHCFGLPQRSTUVW"
FITTED, HELD = 10, 8
STEPS = (2, 4, 8, 16, 32)
SMALL = 12  # larger samples are tried with smaller sizes
# Of a pack.
_RANKS: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (), (2, 1, 3))
_BROADCASTS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((2, 3), (3,)), ((3, 1), (1, 4)), ((), (2,)), ((5,), (5,)),
               ((2, 3, 4), (3, 1)), ((4,), (3, 1)))


def sized(call: Call) -> str:
    """A call for people: its sizes and numbers."""
    return "(" + ", ".join(
        str(list(v.shape)) if isinstance(v, torch.Tensor) else repr(v)
        for v in call) + ")"


class Sizes:
    def __init__(
        self, params: list[Param], samples: list[Call],
        trial: Callable[[list[Call]], list[Outcome]], seed: int,
    ) -> None:
        self.params, self.samples, self.trial = params, samples, trial
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.base = max(samples, key=_extent)
        self.sizes: Values = {}
        self._measure()
        self.classes: list[list[Var]] = []
        self.names: dict[Var, str] = {}
        self.ties: dict[str, str] = {}  # symbol: the expression that it is
        self.steps: dict[Var, int] = {}  # of what changes by multiples only
        self.where = ""
        self.known: list[str] = []
        self.doubts: list[str] = []
        self.fitted = self.held = 0

    def _free(self, count: int) -> list[str]:
        """Names for packs."""
        taken = {p.name for p in self.params}
        return [s for s in (*"BASEXYZ", "P0", "P1", "P2", "P3")
                if s not in taken][:count]

    def _measure(self) -> None:
        self.sizes = {}
        for i, (p, v) in enumerate(zip(self.params, self.base)):
            if isinstance(v, torch.Tensor):
                self.sizes.update({("dim", i, d): n
                                   for d, n in enumerate(v.shape)})
            elif p.kind == "int" and v is not None:
                self.sizes["int", i, 0] = v

    def _tensors(self) -> list[int]:
        return [i for i, v in enumerate(self.base)
                if isinstance(v, torch.Tensor)]

    # --- Calls ---

    def call(self, changed: Values) -> Call:
        sizes = {**self.sizes, **changed}
        shapes = {i: [sizes["dim", i, d] for d in range(self.base[i].dim())]
                  for i in self._tensors()}
        numbers = {v[1]: n for v, n in sizes.items() if v[0] == "int"}
        return self.shaped(shapes, numbers)

    def shaped(
        self, shapes: Mapping[int, Iterable[int]], numbers: dict[int, Any]
    ) -> Call:
        """The base call with other shapes and numbers."""
        whole = {i: tuple(shapes.get(i, self.base[i].shape))
                 for i in self._tensors()}
        least = min((n for s in whole.values() for n in s), default=1)
        return [self._filled(v, whole[i], least, whole) if i in whole
                else numbers.get(i, v) for i, v in enumerate(self.base)]

    def _filled(
        self, like: torch.Tensor, shape: tuple[int, ...], least: int,
        shapes: dict[int, tuple[int, ...]],
    ) -> torch.Tensor:
        """New values of the sample's kind; integers are indices that are in
        range of every dim, or offsets where the sample's are."""
        if any(n < 0 for n in shape):
            raise ValueError("a size below 0")
        if like.is_floating_point() or like.is_complex():
            values = torch.randn(shape, generator=self.generator,
                                 dtype=torch.float32)
            if like.numel() and not like.is_complex() and like.min() >= 0:
                values = values.abs()
            return values.to(like.dtype)
        if like.dtype == torch.bool:
            return torch.rand(shape, generator=self.generator) > 0.5
        most = int(like.max()) if like.numel() else 0
        least_value = int(like.min()) if like.numel() else 0
        whole = like.reshape(-1)
        if (like.dim() == 1 and like.numel() > 1 and int(whole[0]) == 0
                and bool((whole[1:] >= whole[:-1]).all()) and most > 0):
            return self._offsets(most, shape, shapes).to(like.dtype)
        if least_value >= 0:
            most = max(0, min(most, least - 1))
        return torch.randint(min(least_value, most), most + 1, shape,
                             generator=self.generator, dtype=like.dtype)

    def _offsets(
        self, most: int, shape: tuple[int, ...],
        shapes: dict[int, tuple[int, ...]],
    ) -> torch.Tensor:
        """Offsets that end where the sample's did: at a dim's size."""
        end = most
        for i, now in shapes.items():
            for before, after in zip(self.base[i].shape, now):
                if before == most:
                    end = after
        inner = sorted(self.random.randint(0, end)
                       for _ in range(max(0, shape[0] - 2)))
        return torch.tensor([0, *inner, end][:shape[0]])

    def ok(self, moves: list[Values]) -> list[bool]:
        """Which changes of the base call it takes."""
        calls, at = [], []
        for i, m in enumerate(moves):
            if all(n >= 0 or v[0] == "int" for v, n in m.items()):
                calls.append(self.call(m))
                at.append(i)
        out = [False] * len(moves)
        for i, outcome in zip(at, self.trial(calls)):
            out[i] = outcome.ok
        return out

    def _moves(self, some: Iterable[Var], step: int = 1) -> list[Values]:
        """Grown and shrunk, together."""
        some = list(some)
        step = self.steps.get(some[0], step)
        return [{v: self.sizes[v] + 2 * step for v in some},
                {v: self.sizes[v] - step for v in some}]

    def both(self, groups: list[list[Var]], step: int = 1) -> list[bool]:
        found = self.ok([m for g in groups for m in self._moves(g, step)])
        return [found[2 * i] and found[2 * i + 1] for i in range(len(groups))]

    def _by_steps(self, way: list[list[Var]]) -> bool:
        """Whether each class changes by itself, if only by multiples."""
        left = way
        for step in (1, *STEPS):
            fits = self.both(left, step)
            for members, is_right in zip(left, fits):
                if is_right and step > 1:
                    self.steps.update(dict.fromkeys(members, step))
            left = [c for c, is_right in zip(left, fits) if not is_right]
            if not left:
                return True
        return False

    # --- Ties ---

    def _settle(self) -> None:
        """Smaller sizes for large samples, where equal ones stay equal."""
        large = sorted({n for v, n in self.sizes.items()
                        if v[0] == "dim" and n > SMALL})
        if not large:
            return
        smaller = dict(zip(large, itertools.count(SMALL - len(large) + 2)))
        moved = {v: smaller.get(n, n) for v, n in self.sizes.items()}
        call = self.call(moved)
        if self.trial([call])[0].ok:
            self.base = call
            self._measure()

    def _classify(self) -> None:
        by_size: dict[int, list[Var]] = {}
        for v, n in self.sizes.items():
            by_size.setdefault(n, []).append(v)
        groups = list(by_size.values())
        alone = dict(zip(self.sizes, self.both([[v] for v in self.sizes])))
        self.classes = []
        for group in groups:
            free = [v for v in group if alone[v]]
            bound = [v for v in group if not alone[v]]
            self.classes += [[v] for v in free]
            if bound:
                self.classes += self._split(bound)

    def _split(self, bound: list[Var]) -> list[list[Var]]:
        """Dims that cannot change alone, cut into those that change together."""
        if len(bound) == 1:
            return [bound]
        dims = [v for v in bound if v[0] == "dim"]
        ints = [[v] for v in bound if v[0] == "int"]
        ways: list[list[list[Var]]] = []
        for from_end in (True, False):
            cells: dict[int, list[Var]] = {}
            for v in dims:
                rank = self.base[v[1]].dim()
                cells.setdefault(v[2] - (rank if from_end else 0),
                                 []).append(v)
            if len(cells) > 1:
                ways += [list(cells.values()), list(cells.values()) + ints]
        pairs = list(itertools.combinations(bound, 2))
        if len(bound) > 2:
            joined = [list(p) for p, is_tied in
                      zip(pairs, self.both([list(p) for p in pairs]))
                      if is_tied]
            if sorted(v for p in joined for v in p) == sorted(bound):
                ways.append(joined)
        ways += [[bound], [dims, *ints] if ints else []]
        for way in ways:
            if way and sorted(v for c in way for v in c) == sorted(bound) and (
                    self._by_steps(way)):
                return way
        return [[v] for v in bound]

    def _name(self) -> None:
        taken = {p.name for p in self.params}
        letters = iter([s for s in [*SYMBOLS, *(f"D{i}" for i in range(64))]
                        if s not in taken])
        order = {v: i for i, v in enumerate(self.sizes)}
        self.classes.sort(key=lambda c: min(order[v] for v in c))
        for members in self.classes:
            dims = [v for v in members if v[0] == "dim"]
            if dims:
                symbol = next(letters)
                self.names.update(dict.fromkeys(members, symbol))
            else:
                self.names[members[0]] = self.params[members[0][1]].name

    def _value(self, members: list[Var]) -> int:
        return self.sizes[members[0]]

    def _resolve(self) -> None:
        """Classes that cannot change alone: what they follow, or that they
        cannot change at all."""
        steady = dict(zip(map(id, self.classes), self.both(self.classes)))
        stuck = [c for c in self.classes if not steady[id(c)] and not (
            c[0][0] == "dim" and self._by_steps([c]))]
        for members in list(stuck):
            if members[0][0] == "int" and len(members) == 1:
                continue  # a number: _vary tries others
            tie = self._tie(members, stuck)
            if tie is not None:
                self.ties[self.names[members[0]]] = tie
                stuck.remove(members)
        tied = " ".join(self.ties.values())
        for members in stuck:
            name = self.names[members[0]]
            if members[0][0] == "int" and len(members) == 1 or name in tied:
                continue
            grown, shrunk = self.ok(self._moves(members))
            where = self._place(members)
            if not grown and not shrunk:
                self.ties[name] = str(self._value(members))
                self.known.append(f"{where}: other sizes than "
                                  f"{self._value(members)} are refused")
            else:
                self.doubts.append(
                    f"{where}: {'smaller' if grown else 'larger'} sizes than "
                    f"{self._value(members)} are refused; say the condition in "
                    f'where="{name} {">=" if grown else "<="} …"')

    def _place(self, members: list[Var]) -> str:
        return ", ".join(
            f"{self.params[v[1]].name}.shape[{v[2]}]" if v[0] == "dim"
            else self.params[v[1]].name for v in members)

    def _tie(
        self, members: list[Var], stuck: list[list[Var]]
    ) -> str | None:
        """The expression over other classes that a class follows."""
        mine = self._value(members)
        others = [c for c in stuck if c is not members
                  and self.names[c[0]] not in self.ties]
        steps = (2, -1)

        def follows(text: str, moves: list[tuple[list[list[Var]], Any]]) -> bool:
            values = []
            for moved, result in moves:
                for step in steps:
                    now = {v: self.sizes[v] + step for c in moved for v in c}
                    at = {self.names[c[0]]: self._value(c)
                          + (step if c in moved else 0) for c in others}
                    now.update(dict.fromkeys(members, result(at)))
                    values.append(now)
            return all(self.ok(values))

        for c in others:
            n, name = self._value(c), self.names[c[0]]
            if n > 0 and mine % n == 0 and mine > n and follows(
                    name, [([c], lambda at, k=mine // n, a=name: k * at[a])]):
                return f"{mine // n} * {name}"
            if 0 < abs(mine - n) <= 4 and follows(
                    name, [([c], lambda at, k=mine - n, a=name: at[a] + k)]):
                return f"{name} {'+' if mine > n else '-'} {abs(mine - n)}"
        for c, d in itertools.combinations(others, 2):
            a, b = self.names[c[0]], self.names[d[0]]
            for sign, known in (("*", self._value(c) * self._value(d)),
                                ("+", self._value(c) + self._value(d))):
                if known == mine and follows(
                        a, [([c], _pair(a, b, sign)), ([d], _pair(a, b, sign))]):
                    return f"{a} {sign} {b}"
        return None

    # --- Results ---

    def explain(self, count: int, fresh: list[int]) -> str:
        """The shape rule of a call with `count` results, of which `fresh` are
        new; doubts where there is none."""
        self._settle()
        rule = self._by_broadcast(fresh) or self._by_axis(fresh)
        self._others("*" in (rule or "").partition("->")[2])
        if rule is not None:
            return rule
        self._classify()
        self._name()
        self._resolve()
        held = self._vary(fresh)
        items = self._fit(fresh, held)
        self._conditions()
        return self._packed(fresh, items)

    def _by_broadcast(self, fresh: list[int]) -> str | None:
        tensors = self._tensors()
        if len(tensors) < 2 or not fresh or len(tensors) > 4:
            return None
        calls = []
        for first, second in _BROADCASTS:
            shapes = [first if i % 2 == 0 else second
                      for i in range(len(tensors))]
            calls.append(self.shaped(dict(zip(tensors, shapes)), {}))
            shapes.reverse()
            calls.append(self.shaped(dict(zip(tensors, shapes)), {}))
        found = self.trial(calls[:2])
        if not all(self._is_broadcast(o, fresh) for o in found):
            return None
        if not all(self._is_broadcast(o, fresh) for o in self.trial(calls[2:])):
            return None
        self.fitted, self.held = 2, len(calls) - 2
        packs = self._free(len(tensors))
        left = ", ".join(f"{self.params[i].name}[*{p}]"
                         for i, p in zip(tensors, packs))
        one = f"[*broadcast({', '.join(packs)})]"
        self._numbers_alone(fresh)
        return f"{left} -> {', '.join([one] * len(fresh))}"

    def _is_broadcast(self, o: Outcome, fresh: list[int]) -> bool:
        if not o.ok or o.changed or len(o.results) <= max(fresh):
            return False
        wanted = torch.broadcast_shapes(
            *(o.call[i].shape for i in self._tensors()))
        return all(o.results[r].shape == tuple(wanted) for r in fresh)

    def _numbers_alone(self, fresh: list[int]) -> None:
        """Numbers that a rule does not name must not change a shape."""
        for v in [v for v in self.sizes if v[0] == "int"]:
            moved = [o for o in self.trial(
                [self.call(m) for m in self._moves([v])]) if o.ok]
            before = self.trial([self.base])[0].shapes
            if any(o.shapes != before for o in moved):
                self.doubts.append(f"{self.params[v[1]].name} changes a shape "
                                   "in a way that no rule explains")
            elif not moved:
                self._only(v)

    def _others(self, has_list: bool) -> None:
        """What is neither a tensor nor a size must not change shape or type.
        `has_list`: a rule names the lists of ints."""
        before = self._outside(self.trial([self.base])[0])
        for i, p in enumerate(self.params):
            value = self.base[i]
            if p.kind == "int[]" and has_list or p.is_tensor or (
                    p.kind == "int" and value is not None):
                continue
            calls = [self.shaped({}, {i: v}) for v in _variants(p, value)]
            taken = [o for o in self.trial(calls) if o.ok]
            if any(self._outside(o) != before for o in taken):
                self.doubts.append(
                    f"{p.name} changes a result's shape or type; adopt one "
                    "function for each value, or say the rule")
            elif not taken and p.kind not in ("str", "Device"):
                self.doubts.append(
                    f"{p.name}: no other value than {value!r} is taken, so what "
                    "it does is not known; add samples with other values")

    def _outside(self, o: Outcome) -> list[Any]:
        return [(r.shape, r.dtype) for r in o.results]

    def _only(self, v: Var) -> None:
        p = self.params[v[1]]
        tried = sorted({x for x in p.values if x is not None})
        self.doubts.append(
            f"{p.name}: only {', '.join(map(str, tried))} was taken, so what "
            "it does to shapes is not known; add samples with other values")

    def _by_axis(self, fresh: list[int]) -> str | None:
        """One tensor of any rank, and an int that names a dim of it; or a list
        of ints that is the result's shape or its order."""
        tensors = self._tensors()
        if len(tensors) != 1 or len(fresh) != 1:
            return None
        t, name = tensors[0], self.params[tensors[0]].name
        for p in [i for i, q in enumerate(self.params)
                  if q.kind in ("int", "int[]") and self.base[i] is not None]:
            calls, axis = self._axis_calls(t, p)
            found = self.trial(calls)
            forms = [f for f in axis if all(
                o.ok and o.results[fresh[0]].shape == axis[f](
                    tuple(o.call[t].shape), o.call[p]) for o in found)]
            if not forms:
                continue
            self.fitted, self.held = 3, len(calls) - 3
            n = self.params[p].name
            pack = self._free(1)[0]
            text = forms[0].format(pack=pack, arg=n)
            order = ""
            if self.params[p].kind == "int" and not (
                    forms[0] == "*{pack}" and self._takes_any(p)):
                order = f"{n} >= -rank({pack}), {n} < rank({pack})"
            elif "permute" in text:
                order = f"len({n}) == rank({pack})"
            self.where = order
            return f"{name}[*{pack}] -> [{text}]"
        return None

    def _takes_any(self, p: int) -> bool:
        """Whether a number that is not an axis is taken as well."""
        far = [self.shaped({}, {p: n}) for n in (-9, 9)]
        return all(o.ok for o in self.trial(far))

    def _axis_calls(
        self, t: int, p: int
    ) -> tuple[list[Call], dict[str, Callable[..., tuple[int, ...]]]]:
        shapes: list[tuple[int, ...]] = [(5,), (3, 4), (2, 3, 4)]
        if self.params[p].kind == "int":
            calls = [self.shaped({t: s}, {p: d}) for s in shapes
                     for d in range(-len(s), len(s))]
            return calls, {"*{pack}": lambda s, a: s,
                           "*drop({pack}, {arg})": _drop,
                           "*keep({pack}, {arg})": _keep}
        base, given = self.base[t], self.base[p]
        if sorted(given) == list(range(base.dim())):
            calls = [self.shaped({t: s}, {p: list(order)}) for s in shapes
                     for order in itertools.permutations(range(len(s)))]
            return calls, {"*permute({pack}, {arg})": lambda s, a: tuple(
                s[i] for i in a)}
        calls = [self.shaped({}, {p: [self.random.randint(1, 6)
                                      for _ in range(k)]})
                 for k in (1, 2, 3, len(given), len(given))]
        return calls, {"*{arg}": lambda s, a: tuple(a)}

    def _vary(self, fresh: list[int]) -> list[tuple[Row, Outcome]]:
        """Calls in which everything that may change does: first one at a time,
        then all at once."""
        free = [c for c in self.classes
                if self.names[c[0]] not in self.ties]
        for v in [c[0] for c in free if c[0][0] == "int" and len(c) == 1]:
            self._number(v)
        moves: list[Values] = [{}]
        for members in free:
            moves += self._moves(members)
        for _ in range(FITTED + HELD):
            chosen: Values = {}
            for members in free:
                n = self.sizes[members[0]]
                by = self.steps.get(members[0], 1)
                step = by * self.random.randint(-1 if n > by else 0, 4)
                chosen.update(dict.fromkeys(members, n + step))
            moves.append(chosen)
        rows: list[tuple[Row, Call]] = []
        for m in moves:
            row = {self.names[c[0]]: m.get(c[0], self.sizes[c[0]])
                   for c in free}
            for symbol, text in self.ties.items():
                row[symbol] = evaluate(text, row)
            whole = {v: row[self.names[v]] for v in self.sizes}
            rows.append((row, self.call(whole)))
        outcomes = self.trial([c for _, c in rows])
        return [(r, o) for (r, _), o in zip(rows, outcomes) if o.ok]

    def _thinned(self, value: Any) -> Any:
        """Every other element 0."""
        if not isinstance(value, torch.Tensor):
            return value
        flat = value.reshape(-1).clone()
        flat[::2] = 0
        return flat.reshape(value.shape)

    def _number(self, v: Var) -> None:
        """A number beside the sizes: unless another value of it is taken, what
        it does is not known."""
        if not any(self.ok(self._moves([v]))):
            seen = {s[v[1]] for s in self.samples}
            if len(seen) < 2:
                self._only(v)

    def _fit(
        self, fresh: list[int], seen: list[tuple[Row, Outcome]]
    ) -> list[list[str]]:
        """Each result's dims as expressions; fitted to the first, held against
        the others."""
        ranks = {tuple(len(s) for s in o.shapes) for _, o in seen}
        if len(ranks) > 1 or len(seen) < FITTED:
            self.doubts.append(
                "the rank of a result changes from call to call"
                if len(ranks) > 1 else
                f"only {len(seen)} calls of other sizes were taken: too few to "
                "tell a rule; add samples of several sizes")
            return [["?"] for _ in fresh]
        again = self.trial([o.call for _, o in seen[:3]])
        moved = [self.call({}) for _ in range(2)] + [
            [v * 0 if isinstance(v, torch.Tensor) else v for v in self.base],
            [self._thinned(v) for v in self.call({})]]
        same = {tuple(o.shapes) for o in self.trial(moved) if o.ok}
        if len(same) > 1 or any(a.shapes != b.shapes for a, (_, b) in
                                zip(again, seen)):
            self.doubts.append(
                "a result's size depends on values, not on sizes: that needs a "
                "C kernel, which says what it found")
            return [["?"] for _ in fresh]
        cut = len(seen) - HELD
        self.fitted, self.held = cut, HELD
        names = [n for n in dict.fromkeys(self.names.values())
                 if n not in self.ties or not self.ties[n].isdigit()]
        out = []
        for r in fresh:
            out.append([self._item(r, d, names, seen, cut)
                        for d in range(len(seen[0][1].results[r].shape))])
        return out

    def _item(
        self, r: int, d: int, names: list[str],
        seen: list[tuple[Row, Outcome]], cut: int,
    ) -> str:
        rows = [row for row, _ in seen]
        found = [o.results[r].shape[d] for _, o in seen]
        choices = fit(rows[:cut], found[:cut], names)
        right = [c for c in choices if agrees(c, rows[cut:], found[cut:])]
        if not right:
            shown = "; ".join(f"{_row(row)}: {f}"
                              for row, f in list(zip(rows, found))[:4])
            self.doubts.append(f"result {r}, dim {d}: no rule is known that "
                               f"gives it ({shown})")
            return "?"
        if len(right) > 1 and not self._are_same(right):
            self.doubts.append(f"result {r}, dim {d}: {' or '.join(right[:4])}"
                               ", which no call could tell apart")
        return right[0]

    def _are_same(self, texts: list[str]) -> bool:
        """Whether expressions agree on all sizes that the conditions allow."""
        by = {self.names[v]: step for v, step in self.steps.items()}
        names = [n for n in self.names.values()]
        rows: list[Row] = [{n: by.get(n, 1) * self.random.randint(1, 40) for n in names}
                for _ in range(64)]
        first = [evaluate(texts[0], r) for r in rows]
        return all(agrees(t, rows, first) for t in texts[1:])

    # --- The texts ---

    def _conditions(self) -> None:
        """Numbers that must equal a size."""
        said = []
        for v, name in self.names.items():
            own = self.params[v[1]].name
            if v[0] == "int" and name != own:
                said.append(f"{own} == {name}")
        multiples = {self.names[v]: step for v, step in self.steps.items()}
        said += [f"{name} % {step} == 0" for name, step in multiples.items()]
        self.where = ", ".join(said)

    def _symbols(self, t: int) -> list[str]:
        return [self.names["dim", t, d] for d in range(self.base[t].dim())]

    def _pattern(self, t: int, pack: list[str]) -> str:
        symbols = self._symbols(t)
        items = symbols
        if pack and symbols[:len(pack)] == pack:
            items = [f"*{self._free(1)[0]}", *symbols[len(pack):]]
        items = [self.ties.get(s, s) for s in items]
        mark = "?" if self.params[t].is_optional else ""
        return f"{self.params[t].name}{mark}[{', '.join(items)}]"

    def _text(self, items: list[list[str]], pack: list[str]) -> str:
        left = ", ".join(self._pattern(t, pack) for t in self._tensors())
        rules = []
        for dims in items:
            if pack and dims[:len(pack)] == pack:
                dims = [f"*{self._free(1)[0]}", *dims[len(pack):]]
            rules.append(f"[{', '.join(dims)}]")
        return f"{left} -> {', '.join(rules)}".rstrip()

    def _packed(self, fresh: list[int], items: list[list[str]]) -> str:
        """Leading dims of any number, where other numbers of them work."""
        if any("?" in dims for dims in items) or not self._tensors():
            return self._text(items, [])
        symbols = self._symbols(self._tensors()[0])
        for length in range(len(symbols), 0, -1):
            pack = symbols[:length]
            if self._may_pack(pack, items) and self._is_pack(
                    pack, fresh, items):
                return self._text(items, pack)
        return self._text(items, [])

    def _may_pack(self, pack: list[str], items: list[list[str]]) -> bool:
        """Its names stand only at the head of arguments and results."""
        if len(set(pack)) < len(pack) or set(pack) & set(self.ties):
            return False
        if any(s in text for s in pack for text in self.ties.values()):
            return False
        if any(v[0] == "int" and n in pack for v, n in self.names.items()):
            return False
        whole = [self._symbols(t) for t in self._tensors()] + items
        for dims in whole:
            rest = dims[len(pack):] if dims[:len(pack)] == pack else dims
            if any(s in _words(d) for s in pack for d in rest):
                return False
        return True

    def _is_pack(
        self, pack: list[str], fresh: list[int], items: list[list[str]]
    ) -> bool:
        calls = []
        for sizes in _RANKS:
            shapes = {}
            for t in self._tensors():
                symbols = self._symbols(t)
                if symbols[:len(pack)] == pack:
                    shapes[t] = [*sizes, *self.base[t].shape[len(pack):]]
            calls.append(self.shaped(shapes, {}))
        row = {self.names[v]: n for v, n in self.sizes.items()}
        for sizes, o in zip(_RANKS, self.trial(calls)):
            if not o.ok:
                return False
            for r, dims in zip(fresh, items):
                has = dims[:len(pack)] == pack
                rest = [evaluate(d, row)
                        for d in (dims[len(pack):] if has else dims)]
                if o.results[r].shape != (*(sizes if has else ()), *rest):
                    return False
        self.held += len(calls)
        return True


def _variants(p: Param, value: Any) -> list[Any]:
    """Other values of an argument that is not a size."""
    seen = [v for v in p.values if v is not None and v != value]
    if p.is_optional:
        seen.append(None)
    if p.kind == "bool":
        return [not value]
    if p.kind == "float" and value is not None:
        return [*seen, value * 2, value + 1, 0.25]
    if p.kind == "ScalarType":
        return [torch.float32, torch.float64, torch.int64]
    if p.kind == "bool[]":
        return [*seen, [not v for v in value]]
    if p.kind in ("int[]", "float[]") and value is not None:
        grown = [[v + (i == k) for i, v in enumerate(value)]
                 for k in range(len(value))]
        return [*seen, *grown, [*value, *value[-1:]], list(value[:-1])]
    return seen


def _extent(call: Call) -> tuple[int, int, int]:
    """Samples to vary: nothing optional left out, high ranks, distinct
    sizes."""
    tensors = [v for v in call if isinstance(v, torch.Tensor)]
    return (len(tensors), sum(t.dim() for t in tensors),
            len({n for t in tensors for n in t.shape if n > 1}))


def _pair(a: str, b: str, sign: str) -> Callable[[dict[str, int]], int]:
    if sign == "*":
        return lambda at: at[a] * at[b]
    return lambda at: at[a] + at[b]


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " "
                       for c in text).split())


def _row(row: Row) -> str:
    return ", ".join(f"{k}={v}" for k, v in row.items())


def _drop(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    at = axis % len(shape)
    return shape[:at] + shape[at + 1:]


def _keep(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    at = axis % len(shape)
    return (*shape[:at], 1, *shape[at + 1:])
