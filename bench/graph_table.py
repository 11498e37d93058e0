# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/graphs.py as goals, a table in text and HTML, a picture."""

from __future__ import annotations

import functools
import html
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

import graph_peers
import harness
import results

Row = dict[str, Any]

OURS, FROZEN, DYNAMOS_PART = "opgraft_max", "opgraft_frozen", "dynamo"
ZERO = "aot_eager"  # a backend that takes no time
TIMED = [n for n, p in graph_peers.ALL.items() if p.is_timed]
RIVALS = [n for n in TIMED if not graph_peers.ALL[n].is_ours
          and graph_peers.ALL[n].ways]


@dataclass(frozen=True)
class Contest:
    """One of ours and whom it is held against."""

    ours: str
    where: str  # "": against all, however they are called
    rivals: tuple[str, ...]


def rivals_by(way: str) -> tuple[str, ...]:
    return tuple(n for n in RIVALS if way in graph_peers.ALL[n].ways)


ALL_WAYS = Contest(OURS, "", tuple(RIVALS))
CONTESTS = (ALL_WAYS, *(Contest(ours, way, rivals_by(way)) for ours, way in (
    (OURS, graph_peers.DYNAMO), (FROZEN, graph_peers.DIRECT))))
INDUCTORS = ("inductor", "inductor_max")
AT_LIMIT = 0.9  # of the limit: nothing is left to win
MEAN_BEST, MEAN_INDUCTOR, MEAN_INDUCTOR_FAST = 1.25, 2.5, 1.6
FAST_SHARE = 0.5  # of FMA peak, by torch's matrix products
LEAST_RATIO = {"resnet18": 0.9}  # of the best peer; 0.95 elsewhere
# By graph: the rival (None: the best peer), and the most of its time.
NAMED = {
    "minilm": (None, 0.75), "llama_decode": (None, 0.9),
    "vit_tiny": (None, 0.8), "custom_block": (None, 0.8),
    "chain_200": ("inductor", 0.2), "mlp_training": ("inductor", 0.6),
    "bert_small_training": ("inductor", 0.8)}
BACKEND_MS = {"minilm": 50.0, "bert_base": 150.0}
COLD, SEEDED, OF_ZERO = 8.0, 4.0, 0.9
ENCODED, FUSED = 0.99, 0.9  # of row programs, of nodes that could be in one
FORMULA = ("limit: the larger of FLOPs of matrix products / FMA peak (bf16: "
           "dot peak where there are dots) and, where they exceed the last "
           "cache, bytes of weights and arguments / read bandwidth")


# --- What a row says ------------------------------------------------------------


def ms(row: Row, peer: str) -> float | None:
    found = row.get(peer, {})
    return found["ms"]["median"] if "ms" in found else None


def is_like(row: Row, peer: str) -> bool:
    """A peer that runs the same graph: custom operators as they are."""
    return not row.get(peer, {}).get("inlined", False)


def best_rival(row: Row, of: Contest = ALL_WAYS) -> tuple[str, float] | None:
    found = [(t, n) for n in of.rivals if (t := ms(row, n)) is not None
             and is_like(row, n)]
    if not found:
        return None
    time, name = min(found)
    return name, time


def ratio(row: Row, of: Contest) -> float | None:
    """The best rival's time / ours."""
    best, ours = best_rival(row, of), ms(row, of.ours)
    return best[1] / ours if best is not None and ours else None


def best_inductor(row: Row) -> float | None:
    return min((t for n in INDUCTORS if (t := ms(row, n)) is not None),
               default=None)


@functools.cache
def last_cache_bytes() -> float:
    sizes = [0.0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        unit = {"K": 1024.0, "M": 1024.0 ** 2}.get(text[-1:], 0.0)
        sizes.append(float(text[:-1]) * unit if unit else float(text))
    return max(sizes)


def limit_ms(row: Row) -> float | None:
    """What the machine needs at least (FORMULA); None where the graph has no
    matrix products and fits in a cache, or the machine was not measured."""
    eager, machine = row.get("eager", {}), row.get("machine", {})
    if "flops" not in eager or "gflops" not in machine:
        return None
    limit = eager["flops"] / machine["gflops"] / 1e6
    if eager["bytes"] > last_cache_bytes():
        limit = max(limit, eager["bytes"] / machine["gbs"] / 1e6)
    return limit if limit > 0 else None


def limit_share(row: Row, peer: str) -> float | None:
    time, limit = ms(row, peer), limit_ms(row)
    return limit / time if time is not None and limit is not None else None


def mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def split(key: str) -> tuple[str, int]:
    graph, _, threads = key.partition(" ")
    return graph, int(threads)


def counts(rows: dict[str, Row]) -> list[int]:
    """Of threads, the most first."""
    return sorted({split(k)[1] for k in rows}, reverse=True)


def of_threads(rows: dict[str, Row], threads: int) -> dict[str, Row]:
    """By graph, the rows with so many."""
    return {graph: row for key, row in rows.items()
            for graph, count in [split(key)] if count == threads}


def threads_text(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


# --- Goals ----------------------------------------------------------------------


def goals(rows: dict[str, Row]) -> harness.Goals:
    found = harness.Goals("graphs")
    for threads in counts(rows):
        steady_goals(found, of_threads(rows, threads), threads)
    of = of_threads(rows, max(counts(rows), default=0))
    named_goals(found, of)
    loop_goals(found, of)
    compile_goals(found, of)
    return found


def open_rows(rows: dict[str, Row], ours: str) -> dict[str, Row]:
    """Rows with a time of ours that is not at the limit already."""
    return {g: r for g, r in rows.items() if ms(r, ours) is not None
            and (limit_share(r, ours) or 0.0) < AT_LIMIT}


def steady_goals(found: harness.Goals, rows: dict[str, Row], threads: int
                 ) -> None:
    where = threads_text(threads)
    inductor_goals(found, rows, where)
    for contest in CONTESTS:
        best_goals(found, rows, contest,
                   f"{where}, {contest.where}" if contest.where else where)


def best_goals(found: harness.Goals, rows: dict[str, Row], contest: Contest,
               where: str) -> None:
    best = {g: x for g, r in open_rows(rows, contest.ours).items()
            if (x := ratio(r, contest)) is not None}
    ours = "ours, frozen" if contest.ours == FROZEN else "ours"
    if best:
        found.add(f"{where}: best peer's time / {ours}, mean of {len(best)}",
                  mean(list(best.values())), MEAN_BEST, at_most=False)
    if best and contest is ALL_WAYS:
        found.limit(f"{where}: the same mean, without Dynamo's part", mean(
            [x / (1 - (dynamos_share(rows[g]) or 0)) for g, x in best.items()]))
    for graph, x in best.items():
        least = LEAST_RATIO.get(graph, 0.95)
        found.add(f"{where}: {graph}: best peer's time / {ours}", x, least,
                  at_most=False)
        if x < least and contest is ALL_WAYS:
            without_dynamo(found, f"{where}: {graph}: best peer's time / ours",
                           x, rows[graph])


def without_dynamo(found: harness.Goals, what: str, figure: float, row: Row
                   ) -> None:
    """Beside a goal that falls short, what it would be without what Dynamo adds
    to our call, and where that is half of it, without our graph."""
    share = dynamos_share(row)
    if share is None:
        return
    found.limit(f"{what}, without Dynamo's part", figure / (1 - share))
    if share >= 0.5:
        found.limit(f"{what}, Dynamo's part alone", figure / share)


def dynamos_share(row: Row) -> float | None:
    """Of our time, what Dynamo adds."""
    part, ours = ms(row, DYNAMOS_PART), ms(row, OURS)
    return part / ours if part and ours and part < ours else None


def inductor_goals(found: harness.Goals, rows: dict[str, Row], where: str
                   ) -> None:
    for is_fast, bound in ((False, MEAN_INDUCTOR), (True, MEAN_INDUCTOR_FAST)):
        ratios = [t / ms(r, OURS) for r in open_rows(rows, OURS).values()
                  if (t := best_inductor(r)) is not None
                  and products_are_fast(r) == is_fast]
        if ratios:
            how = "at or over" if is_fast else "under"
            found.add(f"{where}: best Inductor's time / ours, mean of "
                      f"{len(ratios)}, torch's products {how} half of peak",
                      mean(ratios), bound, at_most=False)


def products_are_fast(row: Row) -> bool:
    machine = row.get("machine", {})
    return (machine.get("product_gflops", 0.0)
            >= FAST_SHARE * machine.get("gflops", math.inf))


def named_goals(found: harness.Goals, rows: dict[str, Row]) -> None:
    for graph, (rival, most) in NAMED.items():
        row = rows.get(graph)
        time = ms(row, OURS) if row is not None else None
        if row is None or time is None:
            continue
        best = best_rival(row)
        known = ms(row, rival) if rival is not None else best and best[1]
        what = f"{graph}: ours / {rival or 'the best peer'}"
        if not known:
            found.absent(what, row.get(rival or "", {}).get(
                "failed", "no peer ran"))
        else:
            found.add(what, time / known, most)
            share = dynamos_share(row) if time / known > most else None
            if share is not None and rival is None:
                found.limit(f"{what}, without Dynamo's part",
                            time / known * (1 - share))
            elif share is not None:  # the rival's call has such a part too
                found.limit(f"{graph}: Dynamo's part / {rival}",
                            time / known * share)


def ratios_of(rows: dict[str, Row], kind: str) -> list[float]:
    """Inductor's start / ours, cold; ours with empty caches in all cases."""
    return [row["inductor"]["starts"][kind] / row[OURS]["starts"]["cold"]
            for row in rows.values()
            if kind in row.get("inductor", {}).get("starts", {})
            and "cold" in row.get(OURS, {}).get("starts", {})]


def compile_goals(found: harness.Goals, rows: dict[str, Row]) -> None:
    for graph, most in BACKEND_MS.items():
        seconds = rows.get(graph, {}).get(OURS, {}).get("backend_s")
        if seconds is not None:
            found.add(f"{graph}: the backend's time", seconds * 1e3, most,
                      unit=" ms")
    for kind, least in (("cold", COLD), ("seeded", SEEDED)):
        ratios = ratios_of(rows, kind)
        if ratios:
            found.add(f"Inductor's {kind} start / our cold one, mean of "
                      f"{len(ratios)}", mean(ratios), least, at_most=False)
    for graph, row in rows.items():
        zero = row.get(ZERO, {}).get("starts", {}).get("cold")
        ours = row.get(OURS, {}).get("starts", {}).get("cold")
        if zero is not None and ours is not None:
            found.add(f"{graph}: cold start of a backend of 0 s / ours",
                      zero / ours, OF_ZERO, at_most=False)


def loops(rows: dict[str, Row]) -> dict[str, Row]:
    """By key, what became row programs (graph_peers.loops_of)."""
    return {k: r[OURS]["loops"] for k, r in rows.items()
            if "loops" in r.get(OURS, {})}


def loop_goals(found: harness.Goals, rows: dict[str, Row]) -> None:
    counts = loops(rows).values()
    programs = sum(c["programs"] for c in counts)
    fused = sum(c["fused"] for c in counts)
    unfused = sum(sum(c["unfused"].values()) for c in counts)
    if programs:
        found.add(f"of {programs} row programs, those that are machine code",
                  sum(c["encoded"] for c in counts) / programs, ENCODED,
                  at_most=False)
        found.add(f"of {fused + unfused} nodes that a row program could hold, "
                  "those that one does", fused / (fused + unfused), FUSED,
                  at_most=False)


# --- Text -----------------------------------------------------------------------


def time_text(value: float) -> str:
    return f"{value:.4f}" if value < 0.1 else f"{value:.3g}"


def brief(row: Row, peer: str) -> str:
    """The median and its marks."""
    found = row.get(peer)
    if found is None:
        return ""
    if "ms" not in found:
        return "fails"
    mark = "*" if found.get("inlined") else ""
    mark += "^" if found.get("decomposed") else ""
    mark += "~" if found["ms"]["blocks"] == 0 else ""
    return time_text(found["ms"]["median"]) + mark


def cell(row: Row, peer: str) -> str:
    """The same with the spread of the blocks."""
    spread = row.get(peer, {}).get("ms")
    if spread is None:
        return brief(row, peer)
    return (f"{brief(row, peer)} "
            f"[{time_text(spread['least'])}, {time_text(spread['most'])}]")


def line(graph: str, threads: int, row: Row) -> str:
    out = [f"{graph}, {threads} threads (ms: median [least, most] of blocks)"]
    for name in TIMED:
        if name not in row:
            continue
        found = row[name]
        text = found.get("failed") or cell(row, name)
        share = limit_share(row, name) if name != DYNAMOS_PART else None
        more = [f"{share:.0%} of the limit"] if share else []
        more += [f"{kind} {s:.2f} s"
                 for kind, s in found.get("starts", {}).items()]
        if "peak_mb" in found:
            more.append(f"peak {found['peak_mb']:.0f} MB")
        if "error" in found:
            more.append(f"error {found['error']:.0e}")
        out.append(f"  {graph_peers.ALL[name].label:<18} {text}"
                   + (f"  ({', '.join(more)})" if more else ""))
    return "\n".join(out)


def failures(rows: dict[str, Row]) -> Iterator[tuple[str, str]]:
    """Who failed, and why in a line."""
    for key, row in rows.items():
        for name in TIMED:
            if "failed" in row.get(name, {}):
                yield (f"{key} threads, {graph_peers.ALL[name].label}",
                       " ".join(row[name]["failed"].split()))


HEADS = ["graph", *(graph_peers.ALL[n].label for n in TIMED),
         "best / ours", *(f"best / {graph_peers.ALL[c.ours].label}, {c.where}"
                          for c in CONTESTS if c.where),
         "limit, ms", "ours, % of it"]


def heading(threads: int) -> str:
    return f"{threads_text(threads)}, ms a call"


def table(rows: dict[str, Row], threads: int,
          show: Callable[[Row, str], str]) -> Iterator[list[str]]:
    for graph, row in of_threads(rows, threads).items():
        limit, share = limit_ms(row), limit_share(row, OURS)
        yield [graph, *(show(row, n) for n in TIMED),
               *(f"{x:.2f}" if (x := ratio(row, c)) is not None else ""
                 for c in CONTESTS),
               time_text(limit) if limit else "",
               f"{share:.0%}" if share else ""]


def start_table(rows: dict[str, Row]) -> Iterator[list[str]]:
    """Seconds of each start and peak megabytes, by graph and peer."""
    for key, row in rows.items():
        for name, peer in graph_peers.ALL.items():
            starts = row.get(name, {}).get("starts", {})
            if starts:
                yield [*key.split(), peer.label,
                       *(f"{starts[k]:.2f}" if k in starts else ""
                         for k in STARTS),
                       f"{row[name].get('peak_mb', 0):.0f}"]


def loop_table(rows: dict[str, Row]) -> Iterator[list[str]]:
    for graph, c in {split(k)[0]: c for k, c in loops(rows).items()}.items():
        left = {**c["interpreted"], **c["unfused"]}
        yield [graph, str(c["programs"]), str(c["encoded"]), str(c["fused"]),
               str(sum(c["unfused"].values())),
               "; ".join(f"{why}: {n}" for why, n in left.items())]


LOOP_HEADS = ["graph", "row programs", "machine code", "nodes in them",
              "nodes left out", "why"]
STARTS = ("cold", "tuning", "seeded", "warm")
START_HEADS = ["graph", "threads", "peer", *(f"{k}, s" for k in STARTS),
               "peak, MB"]
NOTES = [
    FORMULA + ".",
    "ONNX Runtime, OpenVINO and opgraft frozen are called directly; Inductor, "
    "\"OpenVINO, compile\" and both modes of opgraft through torch.compile, "
    "whose guards each call pays. Eager mode is held against both. best / "
    "ours: the best of all peers / opgraft max.",
    "Dynamo's part: what a call of opgraft max takes around its graph, most of "
    "it guards, which look at objects that the graph's weights have driven out "
    "of the caches. Beside goals that fall short, what is left without it.",
    "*: the graph with PyTorch's operators in place of custom ones, which the "
    "peer refuses; it does not count as a rival there. ^: PyTorch's "
    "decompositions, since the peer has no rule for an operator as it stands. "
    "~: other processes held the cores during every block.",
    "Starts: seconds from the first call of the peer's compiler to the first "
    "result, imports left out. Cold: empty caches, of a backend of 0 s and of "
    "opgraft max the least of several; tuning: of the cold one, "
    "what timed kernels; seeded: the C++ compiler's probe and precompiled "
    "header are there; warm: a second process."]


# --- Pages ----------------------------------------------------------------------


def markdown(rows: dict[str, Row], found: harness.Goals, pictures: str) -> str:
    return "\n".join([
        "# The graph engine beside its rivals", "",
        f"`bench/graphs.py` measured it on {results.processor()}. A figure is "
        "the median of blocks; [another page]"
        f"({pictures}graphs.html) has their spread too.", "",
        f"![Speed relative to the best peer]({pictures}graphs.png)", "",
        *(x for n in counts(rows) for x in (
            f"## {heading(n)}", "", *harness.markdown(HEADS, table(rows, n, brief)))),
        *(f"- {n}" for n in NOTES), "", "## Starts, and memory", "",
        *harness.markdown(START_HEADS, start_table(rows)), "## Loops", "",
        *harness.markdown(LOOP_HEADS, loop_table(rows)),
        "## Goals", "", *harness.markdown(harness.GOAL_HEADS, found.table()),
        *(f"- {who}: `{why}`" for who, why in failures(rows))]).rstrip() + "\n"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The graph engine beside its rivals</title>
<style>
body {{ font: 14px sans-serif; margin: 1em; overflow-wrap: anywhere; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
td, th {{ border: 1px solid #ccc; padding: 2px 6px; text-align: right;
  overflow-wrap: normal; }}
td:first-child, th {{ text-align: left; }}
</style></head><body>
<h1>The graph engine beside its rivals</h1>
<p>bench/graphs.py, on {machine}: median [least, most] of the blocks.</p>
{body}
</body></html>
"""


def page(rows: dict[str, Row]) -> str:
    def as_table(heads: list[str], body: Iterator[list[str]]) -> str:
        return "<div><table><tr>" + "".join(
            f"<th>{html.escape(h)}</th>" for h in heads) + "</tr>\n" + "\n".join(
            "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells)
            + "</tr>" for cells in body) + "</table></div>"

    failed = "".join(f"<li>{html.escape(who)}: {html.escape(why)}</li>"
                     for who, why in failures(rows))
    return PAGE.format(machine=html.escape(results.processor()), body="\n".join([
        *(f"<h2>{heading(n)}</h2>" + as_table(HEADS, table(rows, n, cell))
          for n in counts(rows)),
        *(f"<p>{html.escape(n)}</p>" for n in NOTES),
        as_table(START_HEADS, start_table(rows)),
        as_table(LOOP_HEADS, loop_table(rows)), f"<ul>{failed}</ul>"]))


COLOURS = {"eager": "#b0b0b0", "inductor": "#f2c08a", "inductor_max": "#e08f3c",
           "onnxruntime": "#b7a3d6", "openvino": "#8cc5a2",
           "openvino_compile": "#4f9a72", "opgraft": "#8fb4e3",
           "opgraft_max": "#2f6fc4", "opgraft_frozen": "#123a75"}


def picture(rows: dict[str, Row], path: Path) -> None:
    """The best rival's time over each one's, a group of bars a graph: up from
    1 where it is faster, down where it is slower."""
    try:
        import matplotlib
    except ImportError as error:
        print(f"no picture: {error}")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    shown = [n for n in TIMED if n != DYNAMOS_PART]
    figure, axes = plt.subplots(len(counts(rows)), 1, squeeze=False, figsize=(
        14, 5 * len(counts(rows))), layout="constrained")
    for axis, threads in zip(axes[:, 0], counts(rows)):
        of = {g: r for g, r in of_threads(rows, threads).items()
              if best_rival(r) is not None}
        for i, name in enumerate(shown):
            bars = [(x, best_rival(r)[1] / t) for x, r in enumerate(of.values())
                    if (t := ms(r, name)) is not None]
            axis.bar([x + (i - len(shown) / 2 + 0.5) * 0.09 for x, _ in bars],
                     [y - 1 for _, y in bars], 0.09, bottom=1, color=COLOURS[name],
                     label=graph_peers.ALL[name].label)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_locator(LogLocator(base=2, numticks=20))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(FuncFormatter(
            lambda y, _: f"{y:g}" if y >= 1 else f"1/{1 / y:g}"))
        axis.set_axisbelow(True)
        axis.grid(axis="y", color="#e5e5e5")
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xlim(-0.6, len(of) - 0.4)
        axis.set_xticks(range(len(of)), list(of), rotation=30, ha="right")
        axis.set_ylabel("best peer's time / this one's")
        axis.set_title(f"{threads_text(threads)}: "
                       "up is faster than the best peer")
    axes[0, 0].legend(ncols=3, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write(rows: dict[str, Row], found: harness.Goals, folder: Path,
          pictures: str = "") -> None:
    """graphs.md; graphs.html and graphs.png in its folder `pictures`."""
    (folder / "graphs.md").write_text(markdown(rows, found, pictures))
    (folder / pictures / "graphs.html").write_text(page(rows))
    picture(rows, folder / pictures / "graphs.png")
