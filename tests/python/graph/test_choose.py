# SPDX-License-Identifier: Apache-2.0
"""Which kernel runs which node: said by opgraft.stats, given by `choose`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import opgraft


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 8))


def compiled(f: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", options=options)


def run(f: Any, x: torch.Tensor) -> tuple[torch.Tensor, Any]:
    with torch.no_grad():
        return f(x), opgraft.stats(f)


def lines(stats: Any) -> list[str]:
    return [line for line in stats.rules().splitlines()
            if not line.startswith("#")]


def test_each_node_says_who_runs_it_and_why() -> None:
    stats = run(compiled(model()), torch.randn(32, 64))[1]
    first, middle, last = lines(stats)
    assert first.startswith(
        "addmm f32[128] f32[32,64] f32[64,128] -> f32[32,128]: host  # ")
    assert middle.startswith("gelu f32[32,128] -> f32[32,128]: host  # ")
    assert last.startswith("addmm ")
    assert stats.host_nodes == 3 and stats.fast_nodes == 0


def test_what_was_chosen_is_chosen_again(tmp_path: Path) -> None:
    m, x = model(), torch.randn(32, 64)
    rules = tmp_path / "rules"
    rules.write_text("addmm: fast\ngelu: plain\n")
    y, stats = run(compiled(m, choose=str(rules)), x)
    torch.testing.assert_close(y, m(x))
    assert stats.fast_nodes == 2 and stats.host_nodes == 0
    rules.write_text(stats.rules())
    again, replayed = run(compiled(m, choose=str(rules)), x)
    assert torch.equal(again, y)
    assert lines(replayed) == [
        line.split("  #")[0] + "  # a rule says so" for line in lines(stats)]
    # The first that fits a node counts.
    last = lines(stats)[-1]
    rules.write_text(last.replace(": fast", ": plain") + "\naddmm: fast\n")
    found = lines(run(compiled(m, choose=str(rules)), x)[1])
    assert ": fast" in found[0] and ": plain" in found[-1]


def test_sizes_choose_their_own(tmp_path: Path) -> None:
    f = compiled(lambda x: torch.exp(x) + 1)
    x = torch.randn(4)
    torch._dynamo.mark_dynamic(x, 0)
    run(f, x)
    found = lines(run(f, torch.randn(4096))[1])
    assert [line.split(":")[1].split("#")[0].strip() for line in found
            if line.startswith("exp ")] == ["host", "plain"]


def test_a_kernel_that_does_not_take_the_node(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("matmul: fast\n")
    x = torch.randn(3, 5, dtype=torch.float64)
    y, stats = run(compiled(lambda x: x @ x.T, choose=str(rules)), x)
    torch.testing.assert_close(y, x @ x.T)
    assert lines(stats) == [
        "matmul f64[3,5] f64[5,3] -> f64[3,3]: host  "
        "# no fast kernel takes its types, layouts or limits"]


def test_choices_do_not_change_from_one_compilation_to_the_next() -> None:
    m, x = model(), torch.randn(32, 64, requires_grad=True)

    def once() -> str:
        f = compiled(m)
        f(x).sum().backward()
        return "\n".join(lines(opgraft.stats(f)))

    assert once() == once() != ""


@pytest.mark.parametrize("text, wanted", [
    ("addmm: quick\n", 'line 1: found "quick" behind ":"'),
    ("\nadmm: fast", 'line 2: found "admm", which is not an operator'),
    ("addmm fast", 'expected "operator: plain", fast, packed, winograd, epilogue or host'),
])
def test_rules_that_are_wrong(tmp_path: Path, text: str, wanted: str) -> None:
    rules = tmp_path / "rules"
    rules.write_text(text)
    with pytest.raises(Exception) as raised:
        run(compiled(model(), choose=str(rules)), torch.randn(2, 64))
    assert wanted in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="option choose: .*rules cannot be"):
        run(compiled(model(), choose=str(tmp_path / "rules")),
            torch.randn(2, 64))
