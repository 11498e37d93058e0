# SPDX-License-Identifier: Apache-2.0
"""`opgraft check --device`: device kernels, in the memory of a driver."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

SOURCES = pathlib.Path(__file__).with_name("device")
INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"

# Of each wrong kernel: the finding that names its fault.
FOUND = {
    "writes_behind": "out_of_bounds_write: result: the kernel wrote out of bounds: byte 0,",
    "writes_before": "out_of_bounds_write: result: the kernel wrote out of bounds: byte -1,",
    "leaves_last": "output_not_written: result: 1 of 1 element is not written",
    "writes_argument": "undeclared_mutation: x: the kernel wrote the argument",
    "wrong_value": "wrong_values_across_kernels: result: the device's kernel and the CPU's",
    "reads_workspace": "workspace_uninitialised: workspace: the result depends on",
    "overruns_workspace": "workspace_overrun: workspace: the kernel wrote byte 64",
    "reads_behind": "out_of_bounds_read: result: the result depends on what the memory beside",
    "refuses": "rule_disagrees: the device refuses a call that the CPU's kernel takes",
    "keeps_pointer": "kept_pointer: a kernel wrote byte 0 of result after the stream",
    "ends_too_early": "kept_pointer: a kernel wrote byte ",
    "crashes": "crash: a segmentation fault at address 0x10",
    "never_ends": "timeout: the kernel is not done 10000 ms after its launch",
    "says_busy": "never_ran: the kernel refused",
    "knows_address": "not_repeatable: ",
    "shares_scratch": "thread_race: result: with two calls at once on two streams, result ",
    "gathers": "unchecked_index: with an index out of range the kernel touches memory",
    "gathers_last": "unchecked_index: ",
    "gathers_first": "unchecked_index: ",
    "scatters": "unchecked_index: with an index out of range the kernel touches memory",
    "half_gradient": "wrong_gradient: x: along a random direction half_gradient_backward says",
    "ignores_last": "unused_end: x: its last element changed nothing",
}
RIGHT = ("scale", "row_sum", "add_one", "strided", "joined", "joined_backward", "square",
         "square_backward", "gather", "count")
NOTES = "1 note"  # gather has no gradient


def build(source: pathlib.Path, out: pathlib.Path, *flags: str) -> pathlib.Path:
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-O1", "-g", "-fPIC", "-shared",
         "-fvisibility=hidden", f"-I{INCLUDE}", source, "-o", out, "-pthread", *flags],
        check=True)
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device")
    return {name: build(SOURCES / f"{name}.c", folder / f"{name}.so")
            for name in ("right", "wrong", "driver")}


@pytest.fixture(scope="module")
def npu(program_path):
    path = pathlib.Path(program_path).parents[1] / "devices" / "npu_sim.so"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


def finds(program, *words: str | pathlib.Path) -> str:
    done = program.run(*words)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize("options", ["races=1", "seed=3,delay_us=30,races=1"])
def test_right_kernels(program, built, npu, options):
    text = program.ok("check", built["right"], "--calls", "12", "--device", npu,
                      "--device-options", options)
    for name in RIGHT:
        assert f"{name}: right on npu (" in text
    for name in ("host_only", "row_sum_backward"):
        assert f"{name}: skipped: it has no kernel for the device\n" in text
    assert ("\nnot tried on npu, since they need the host's memory or threads: chunks, threads, "
            "first, unused, huge\n") in text
    assert f"{len(RIGHT)} operators, 0 findings, {NOTES}\n" in text


@pytest.mark.parametrize("name", FOUND)
def test_wrong_kernels(program, built, npu, name):
    calls = "3" if name == "never_ends" else "20"
    text = finds(program, "check", built["wrong"], "--op", name, "--calls", calls,
                         "--device", npu, "--device-options", "races=1")
    assert f"  {FOUND[name]}" in text
    assert "1 operator, 1 finding" in text
    # The CPU's kernel is right.
    if name == "wrong_value":
        assert "wrong_values" not in program.run(
            "check", built["wrong"], "--op", name, "--calls", "20").stdout


def test_a_write_into_an_earlier_call(program, built, npu):
    text = finds(program, "check", built["wrong"], "--op", "writes_far", "--calls", "20",
                 "--device", npu)
    assert "  out_of_bounds_write: " in text
    assert "kept_pointer" not in text


def test_a_finding_again(program, built, npu):
    text = finds(program, "check", built["wrong"], "--op", "wrong_value", "--calls", "8",
                         "--device", npu, "--device-options", "races=1")
    again = next(line for line in text.splitlines() if "again:" in line).split()[2:]
    assert again[-4:] == ["--device", str(npu), "--device-options", "races=1"]
    for words in (again, [*again, "--no-fork"]):
        text = finds(program, *words)
        assert f"  {FOUND['wrong_value']}" in text


def test_a_gradient_that_only_the_device_has(program, built, npu):
    assert "half_gradient_backward: right on npu" in program.ok(
        "check", built["wrong"], "--op", "half_gradient_backward", "--calls", "8", "--device", npu)


def test_json(program, built, npu):
    report = json.loads(program.ok("check", built["right"], "--calls", "3", "--json",
                                   "--device", npu))
    assert report["operator_count"] == len(RIGHT)
    assert report["skipped_count"] == 2
    by_name = {op["op"]: op for op in report["operators"]}
    assert by_name["scale"]["device"] == "npu"
    assert by_name["scale"]["right"] and by_name["scale"]["compared"] > 0
    assert by_name["host_only"] == {
        "op": "host_only", "right": False, "findings": [],
        "skipped": "it has no kernel for the device"}


def test_what_cannot_be_checked(program, built, npu):
    right = built["right"]
    assert 'no operator "host_only" with a kernel for npu' in program.fails(
        2, "check", right, "--op", "host_only", "--device", npu)
    assert 'the probe "threads" needs the host\'s memory or threads' in program.fails(
        2, "check", right, "--probe", "threads", "--device", npu)
    assert "--device-options needs --device" in program.fails(
        2, "check", right, "--device-options", "seed=1")


def test_drivers_that_do_not_load(program, built, npu):
    def message(*words: str | pathlib.Path) -> str:
        return program.fails(2, "check", built["right"], "--device", *words)

    bad = program.folder / "bad.so"
    bad.write_text("no driver")
    assert "bad.so: could not be loaded as a shared object: it has no ELF" in message(bad)
    assert "none.so: could not open: No such file" in message("none.so")
    assert "exports no opgraft_device; end the C file with" in message(built["right"])
    assert "the option is 'foo=1', expected seed=N" in message(npu, "--device-options", "foo=1")


@pytest.mark.parametrize(
    ("option", "said"),
    [("crash", "ended its process (signal 6)"), ("spin", "ended its process (signal 27)"),
     ("hang", "it neither ends nor works")])
def test_drivers_that_end_or_hang(program, built, option, said):
    assert said in program.fails(2, "check", built["right"], "--device", built["driver"],
                                 "--device-options", option)


def test_a_driver_without_launch_and_events(program, built):
    tiny = ("--calls", "8", "--device", built["driver"])
    assert f"{len(RIGHT)} operators, 0 findings" in program.ok("check", built["right"], *tiny)
    text = finds(program, "check", built["wrong"], "--op", "writes_behind", *tiny)
    assert f"  {FOUND['writes_behind']}" in text


def test_what_a_driver_reports(program, built):
    text = finds(program, "check", built["right"], "--op", "scale", "--calls", "3", "--device",
                         built["driver"], "--device-options", "report")
    assert "data_race: the driver reports: race: two kernels meet" in text


def test_a_device_that_works_no_more(program, built):
    text = finds(program, "check", built["right"], "--op", "scale", "--calls", "3", "--device",
                         built["driver"], "--device-options", "lost")
    assert "crash: the device works no more: tiny: copy_to_host: the link is down" in text


def test_a_driver_that_does_not_wait(program, built):
    text = finds(program, "check", built["right"], "--op", "scale", "--calls", "3", "--device",
                         built["driver"], "--device-options", "busy")
    assert "crash: the device works no more: tiny: stream_synchronize says OG_BUSY again" in text
    assert "timeout" not in text


def test_a_kernel_that_says_busy(program, built, npu):
    for driver in (npu, built["driver"]):
        text = finds(program, "check", built["wrong"], "--op", "says_busy", "--calls", "3",
                     "--device", driver)
        assert "another call uses the unit" in text
        assert "timeout" not in text


def test_the_call_as_a_driver_passes_it(program, built):
    """The simulator copies a call's arrays; a driver without launch passes the call."""
    text = finds(program, "check", built["wrong"], "--op", "reads_array", "--calls", "8",
                 "--device", built["driver"])
    assert "out_of_bounds_read: " in text
    assert "of the call's array" in text


def modules() -> list[str]:
    folder = pathlib.Path(os.environ.get("OPGRAFT_BUILD", "build")) / "modules"
    return sorted(path.stem for path in folder.glob("*.so"))


@pytest.mark.full
@pytest.mark.parametrize("name", modules() or ["none is built"])
def test_the_operator_library(program, npu, tmp_path, name):
    """Its kernels as those of the simulated NPU, which runs C functions."""
    module = npu.parents[1] / "modules" / f"{name}.so"
    if not module.exists():
        pytest.skip(f"{module} is not built")
    twin = build(SOURCES / "twin.c", tmp_path / f"{name}.so", f'-DMODULE="{module}"', "-ldl")
    done = program.run("check", twin, "--device", npu,
                       "--device-options", "races=1")
    if "has no operator with a kernel for npu" in done.stderr:
        pytest.skip("no call of it reaches a device")
    assert done.returncode == 0, done.stdout + done.stderr
