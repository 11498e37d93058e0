# SPDX-License-Identifier: Apache-2.0
"""The page of opgraft.timeline: a table, and a canvas that a script draws: boxes
that are narrower than a pixel are one, so that it takes any number of works."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>opgraft timeline</title><style>
:root{color-scheme:light dark;--ink:#1c1e21;--paper:#fff;--soft:#5b616b;
--line:#d5d8de;--copy:#b9770e;--kernel:#2471a3;--host:#7d3c98;--wait:#aab0b8;
--arrow:#c0392b}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#16181c;
--soft:#9aa0aa;--line:#363a42;--copy:#f0b35c;--kernel:#5dade2;--host:#c39bd3;
--wait:#565c66;--arrow:#f1948a}}
*{box-sizing:border-box}
body{margin:0;padding:1rem;font:1rem/1.45 system-ui,sans-serif;
color:var(--ink);background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.3rem;margin:0}
canvas{display:block;width:100%;border:1px solid var(--line);cursor:grab}
button{font:inherit;min-width:2.5rem}.soft{color:var(--soft)}
table{border-collapse:collapse;margin-top:1rem}
td,th{padding:.15rem .4rem;text-align:left;border-top:1px solid var(--line)}
td+td,th{white-space:nowrap}
.bar{width:8rem;height:.8rem;background:var(--line)}
@media(max-width:480px){.bar{display:none}}
.bar i{display:block;height:100%;background:var(--kernel)}
.key i{display:inline-block;width:.8rem;height:.8rem;margin:0 .3rem 0 .8rem}
#tip{position:fixed;display:none;max-width:20rem;padding:.3rem .5rem;
white-space:pre-line;background:var(--paper);border:1px solid var(--ink);
font-size:.85rem;pointer-events:none}
</style></head><body>
"""
_KINDS = {"copy": "copies", "kernel": "kernels", "host": "host functions",
          "wait": "waits for an event"}
_COLOURS = {"host_function": "host", "event_wait": "wait",
            "event_record": "wait", "launch": "kernel", "memory_set": "kernel"}

_TOOLS = """<p><button type="button" id="in" title="zoom in">+</button>
<button type="button" id="out" title="zoom out">&minus;</button>
<button type="button" id="all">all</button>
<span class="soft">wheel: zoom, drag: move<span id="note"></span></span></p>
<canvas id="works" role="img" aria-label="works over simulated time"></canvas>
<div id="tip"></div>
"""

# Each row is sorted by start and by end: its works do not overlap.
_SCRIPT = """<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("works"), pen = canvas.getContext("2d");
const tip = document.getElementById("tip"), note = document.getElementById("note");
const ROW = Math.max(6, Math.min(30, Math.floor(12000 / data.rows.length)));
const TOP = 22, ARROWS = 2000, LEAST_NS = 10;
const whole = [data.begin, Math.max(data.end, data.begin + LEAST_NS)];
let from = whole[0], to = whole[1], width = 1, gutter = 0, drag = null;

function time(ns) {
  const units = [[1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]];
  const [size, unit] = units.find(u => Math.abs(ns) >= u[0]) || units[3];
  return +(ns / size).toPrecision(6) + unit;
}
const at = ns => gutter + (ns - from) / (to - from) * (width - gutter);
const ns_at = x => from + (to - from) * (x - gutter) / (width - gutter);
const colour = name =>
  getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// The first work of a row that ends at `ns` or later.
function first(works, ns) {
  let low = 0, high = works.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (works[middle][1] < ns) low = middle + 1; else high = middle;
  }
  return low;
}

function draw_row(works, y, colours) {
  let last = -1, last_kind = -1;
  for (let i = first(works, from); i < works.length; ++i) {
    const [start, end, kind] = works[i];
    if (start > to) break;
    if (start === end) continue;
    const left = Math.max(at(start), gutter), right = Math.min(at(end), width + 1);
    const pixel = Math.floor(right);
    if (pixel === last && kind === last_kind) continue;
    last = pixel;
    last_kind = kind;
    pen.fillStyle = colours[kind];
    const thin = data.kinds[kind] === "wait" ? ROW / 3 : 0;
    pen.fillRect(left, y + 2 + thin, Math.max(right - left - 0.5, 1),
                 ROW - 4 - 2 * thin);
    label(works[i], left, right, y);
  }
}

function label(work, left, right, y) {
  if (right - left < 40 || ROW < 16 || data.kinds[work[2]] === "wait") return;
  pen.save();
  pen.beginPath();
  pen.rect(left, y, right - left - 4, ROW);
  pen.clip();
  pen.fillStyle = colour("paper");
  pen.fillText(data.names[work[3]], left + 4, y + ROW / 2 + 4);
  pen.restore();
}

function draw_axis(height) {
  const least = 80 * (to - from) / (width - gutter);  // so many pixels
  const step = 10 ** Math.floor(Math.log10(least));
  const gap = step * [1, 2, 5, 10].find(times => times * step >= least);
  pen.fillStyle = colour("soft");
  pen.strokeStyle = colour("line");
  for (let ns = Math.ceil(from / gap) * gap; ns <= to; ns += gap) {
    pen.beginPath();
    pen.moveTo(at(ns), TOP - 4);
    pen.lineTo(at(ns), height);
    pen.stroke();
    pen.fillText(time(ns), at(ns) + 3, TOP - 8);
  }
}

function draw_arrows() {
  const shown = data.arrows.filter(a => a[3] >= from && a[1] <= to);
  note.textContent = shown.length > ARROWS
    ? "; zoom in for " + shown.length + " events" : "";
  if (shown.length > ARROWS) return;
  pen.strokeStyle = pen.fillStyle = colour("arrow");
  for (const [row, ns, to_row, to_ns] of shown) {
    const x = at(to_ns), y = TOP + (to_row + 0.5) * ROW;
    pen.beginPath();
    pen.moveTo(at(ns), TOP + (row + 0.5) * ROW);
    pen.lineTo(x, y);
    pen.stroke();
    pen.beginPath();
    pen.arc(x, y, 3, 0, 7);
    pen.fill();
  }
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  const height = TOP + data.rows.length * ROW + 2;
  width = canvas.clientWidth || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = height + "px";
  pen.scale(scale, scale);
  pen.font = "12px system-ui,sans-serif";
  draw_rows_names();
  pen.beginPath();
  pen.rect(gutter, 0, width - gutter, height);
  pen.clip();
  draw_axis(height);
  const colours = data.kinds.map(colour);
  data.rows.forEach((row, r) => draw_row(row.works, TOP + r * ROW, colours));
  draw_arrows();
}

function draw_rows_names() {
  const names = data.rows.map(row => row.label);
  let most = 0;
  for (const name of names) most = Math.max(most, pen.measureText(name).width);
  gutter = ROW < 16 ? 0 : Math.min(most + 12, width / 3);
  pen.fillStyle = colour("ink");
  if (gutter > 0) names.forEach((name, r) =>
    pen.fillText(name, 4, TOP + (r + 0.5) * ROW + 4, gutter - 8));
}

function view(begin, end) {
  const size = Math.min(Math.max(end - begin, LEAST_NS), whole[1] - whole[0]);
  from = Math.min(Math.max(begin, whole[0]), whole[1] - size);
  to = from + size;
  requestAnimationFrame(draw);
}
function zoom(factor, x) {
  const middle = ns_at(Math.max(x, gutter));
  view(middle - (middle - from) * factor, middle + (to - middle) * factor);
}

function work_at(x, y) {
  const row = data.rows[Math.floor((y - TOP) / ROW)];
  if (!row || x < gutter) return null;
  const ns = ns_at(x), near = 2 * (to - from) / width;
  let i = first(row.works, ns - near);
  while (i < row.works.length && row.works[i][0] === row.works[i][1]) ++i;
  const work = row.works[i];
  return work && work[0] <= ns + near ? [row, work] : null;
}
function tell(event) {
  const found = work_at(event.offsetX, event.offsetY);
  tip.style.display = found ? "block" : "none";
  if (!found) return;
  const [row, [start, end, , name, engine, bytes, id, replay]] = found;
  tip.textContent = data.names[name] + "\\n" + row.label +
    (data.names[engine] ? ", " + data.names[engine] : "") +
    "\\nwork " + id + (replay ? " in replay " + replay : "") + ": " +
    time(start) + " to " + time(end) + ", " + time(end - start) +
    (bytes ? "\\n" + bytes.toLocaleString("en") + " bytes" : "");
  tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4)
    + "px";
  tip.style.top = Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4)
    + "px";
}

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX);
}, {passive: false});
canvas.addEventListener("pointerdown", event => {
  drag = {x: event.offsetX, from, to};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointerup", () => { drag = null; });
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
canvas.addEventListener("pointermove", event => {
  if (!drag) return tell(event);
  const moved = (event.offsetX - drag.x) / (width - gutter) *
    (drag.to - drag.from);
  view(drag.from - moved, drag.to - moved);
});
document.getElementById("in").onclick = () => zoom(0.5, width / 2);
document.getElementById("out").onclick = () => zoom(2, width / 2);
document.getElementById("all").onclick = () => view(...whole);
window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
</script>
"""


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def time(ns: int) -> str:
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= size:
            return f"{ns / size:.6g} {unit}"
    return f"{ns} ns"


class _Names:
    """Each text once."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self.index.setdefault(text, len(self.index))


def _arrows(rows: list[Any]) -> list[tuple[int, int, int, int]]:
    """From the end of what was waited for to the end of the wait."""
    ends = {work.id: (r, work.end_ns) for r, row in enumerate(rows)
            for work in row.works}
    return [(*ends[wait], r, work.end_ns) for r, row in enumerate(rows)
            for work in row.works for wait in work.waits if ends[wait][0] != r]


def _data(summary: Any) -> str:
    names, kinds = _Names(), list(_KINDS)
    rows = [{"label": row.label, "works": [
        (work.start_ns, work.end_ns,
         kinds.index(_COLOURS.get(work.kind, "copy")), names.of(work.name),
         names.of(work.engine or ""), work.bytes, work.id, work.replay)
        for work in row.works]} for row in summary.rows]
    begin = min(row.works[0].start_ns for row in summary.rows)
    text = json.dumps({
        "begin": begin, "end": begin + summary.makespan_ns, "kinds": kinds,
        "rows": rows, "arrows": _arrows(summary.rows),
        "names": list(names.index)}, separators=(",", ":"))
    return text.replace("<", "\\u003c")  # no tag ends the script


def _table(summary: Any) -> str:
    lines = []
    for row in summary.rows:
        share = 100 * row.busy_ns / max(summary.makespan_ns, 1)
        cells = (escape(row.label), f"{len(row.works):,}", time(row.busy_ns),
                 f"{share:.1f} %",
                 f'<div class="bar"><i style="width:{share:.1f}%"></i></div>')
        lines.append("<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    return ("<table><tr><th>Stream</th><th>Works</th><th>Busy</th>"
            '<th colspan="2">Share</th></tr>' + "\n".join(lines) + "</table>\n")


def page(summary: Any) -> str:
    """A whole document that fetches nothing."""
    head = f"{_HEAD}<h1>Simulated time</h1>\n<p>{escape(str(summary))}.</p>\n"
    if not summary.rows:
        return head + "<p>The trace has no works.</p></body></html>\n"
    key = "".join(f'<i style="background:var(--{kind})"></i>{text}'
                  for kind, text in _KINDS.items())
    return (f'{head}{_TOOLS}<p class="key soft">{key}</p>\n{_table(summary)}'
            '<p class="soft">Overlap is the sum of busy times over the time '
            "from the first start to the last end.</p>\n"
            f'<script type="application/json" id="data">{_data(summary)}'
            f"</script>\n{_SCRIPT}</body></html>\n")
