# SPDX-License-Identifier: Apache-2.0
"""tools/release.py and tools/stable_abi.py find what they are there to find; the
whole release is built among the slow tests."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import release  # noqa: E402
import stable_abi  # noqa: E402

EXTENSION = """
typedef struct _object PyObject;
PyObject *PyLong_FromLong(long);
PyObject *%s(PyObject *);
PyObject *PyInit_x(void) { return %s(PyLong_FromLong(1)); }
"""


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """What decides the contents of a wheel, small."""
    for name, text in {
        "pyproject.toml": '[project]\nversion = "1.2.0"\n',
        "CMakeLists.txt": "project(opgraft VERSION 1.2.0 LANGUAGES C)\n",
        "CHANGELOG.md": "# Changes\n\n## 1.2.0, not released\n",
        "ops/ops.def": "X(norm, norm)\nX(rope, rope)\n",
        "hosts/hosts.def": 'HOST(torch, "T", 0, 0,\n     "")\nHOST(jax, "J", 1, 0,\n     "")\n',
        "python/opgraft/__init__.py": "",
        "python/opgraft/__pycache__/x.pyc": "",
        "include/opgraft/op.h": "",
        "src/base/a.c": "", "LICENSE": "", "README.md": "",
    }.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


def zipped(path: pathlib.Path, members: dict[str, str],
           day: int = 1) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, day, 0, 0, 0)),
                             text)
    return path


def test_versions_that_differ_are_named(tree: pathlib.Path) -> None:
    assert release.version_problems(tree) == []
    (tree / "CHANGELOG.md").write_text("## 1.1.0\n")
    (tree / "CMakeLists.txt").write_text("")
    assert release.version_problems(tree) == [
        "CMakeLists.txt says nothing, pyproject.toml 1.2.0",
        "CHANGELOG.md says 1.1.0, pyproject.toml 1.2.0"]


def test_versions_of_this_tree_agree() -> None:
    assert release.version_problems(ROOT) == []


def test_a_wheel_holds_the_list_and_no_more(
        tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    expected = release.wheel_expected(tree)
    assert {"opgraft/modules/rope.so", "opgraft/include/opgraft/op.h",
            "opgraft/_C.abi3.so", "opgraft/__init__.py",
            "opgraft/lib/opgraft/hosts/libopgraft_host_jax.a",
            "opgraft-1.2.0.data/scripts/opgraft"} <= expected
    members = dict.fromkeys(expected, "") | {"opgraft-1.2.0.dist-info/RECORD": ""}
    assert release.wheel_problems(zipped(tmp_path / "a.whl", members),
                                  expected) == []
    del members["opgraft/modules/rope.so"]
    members["opgraft/debug.log"] = ""
    assert release.wheel_problems(zipped(tmp_path / "b.whl", members),
                                  expected) == [
        "opgraft/modules/rope.so is missing",
        "opgraft/debug.log is there, and no list has it"]


def test_the_installed_package_is_the_list() -> None:
    """What pip wrote down of the package under test, against this tree's list."""
    spec = importlib.util.find_spec("opgraft")
    assert spec is not None and spec.origin is not None
    package = pathlib.Path(spec.origin).parent
    found = {str(path.relative_to(package.parent))
             for path in package.rglob("*")
             if path.is_file() and "__pycache__" not in path.parts}
    expected = {name for name in release.wheel_expected(ROOT)
                if not name.endswith("scripts/opgraft")}
    assert release.differences(found, expected) == []


def test_an_sdist_has_what_a_build_reads(
        tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def packed(name: str, leave_out: str = "", more: str = "") -> pathlib.Path:
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            for path in sorted(tree.rglob("*")):
                relative = str(path.relative_to(tree))
                if path.is_file() and relative != leave_out:
                    archive.add(path, f"opgraft-1.2.0/{relative}")
            if more:
                archive.add(tree / "README.md", f"opgraft-1.2.0/{more}")
        return tmp_path / name
    assert release.sdist_problems(packed("a.tar.gz"), tree) == []
    assert release.sdist_problems(
        packed("b.tar.gz", "src/base/a.c", "tests/x.py"), tree) == [
        "src/base/a.c is missing", "tests/x.py is no part of a build"]


def test_builds_that_differ_are_named(tmp_path: pathlib.Path) -> None:
    one = zipped(tmp_path / "a.whl", {"x": "1", "y": "1"})
    assert release.byte_problems(
        one, zipped(tmp_path / "b.whl", {"x": "1", "y": "1"})) == []
    assert release.byte_problems(
        one, zipped(tmp_path / "c.whl", {"x": "1", "y": "2", "z": ""})) == [
        "y differs from build to build", "z is in one build only"]
    assert release.byte_problems(
        one, zipped(tmp_path / "d.whl", {"x": "1", "y": "1"}, 2)) == [
        "x has another time in each build", "y has another time in each build"]
    assert release.byte_problems(
        one, zipped(tmp_path / "e.whl", {"y": "1", "x": "1"})) == [
        "a.whl: two builds differ in their order"]
    flagged = zipped(tmp_path / "f.whl", {"x": "1"})
    with zipfile.ZipFile(flagged, "a") as archive:
        info = zipfile.ZipInfo("y", (2026, 1, 1, 0, 0, 0))
        info.external_attr = 0o755 << 16
        archive.writestr(info, "1")
    assert release.byte_problems(one, flagged) == [
        "y has the flags 0x1800000 in one build, 0x1ed0000 in the other"]


@pytest.mark.parametrize(("name", "found"), [
    ("PyObject_Repr", []),
    ("PyModule_AddObjectRef", []),  # new in 3.10
    ("PyType_GetName", ["PyType_GetName"]),  # in the stable ABI from 3.11 on
    ("PyUnicode_AsUTF8", ["PyUnicode_AsUTF8"]),  # from 3.13 on
    ("_PyObject_GetDictPtr", ["_PyObject_GetDictPtr"]),  # never
])
def test_symbols_beyond_the_stable_abi(
        tmp_path: pathlib.Path, name: str, found: list[str]) -> None:
    (tmp_path / "x.c").write_text(EXTENSION % (name, name))
    subprocess.run(["cc", "-shared", "-fPIC", "x.c", "-o", "x.so"],
                   cwd=tmp_path, check=True)
    assert stable_abi.imported(tmp_path / "x.so") == {name, "PyLong_FromLong"}
    assert stable_abi.beyond(tmp_path / "x.so") == found
    assert stable_abi.main([str(tmp_path / "x.so")]) == int(bool(found))


def test_a_python_without_torch(tmp_path: pathlib.Path) -> None:
    """What the release runs in each Python but one, here with a path that has
    the package alone."""
    spec = importlib.util.find_spec("opgraft")
    assert spec is not None and spec.origin is not None
    (tmp_path / "opgraft").symlink_to(pathlib.Path(spec.origin).parent)
    done = subprocess.run(
        [sys.executable, "-S", "-c", release.WITHOUT_TORCH, "gate.so"],
        env={"PYTHONPATH": str(tmp_path)}, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_the_extension_stays_within_the_stable_abi() -> None:
    spec = importlib.util.find_spec("opgraft")
    assert spec is not None and spec.origin is not None
    extension = pathlib.Path(spec.origin).with_name("_C.abi3.so")
    assert len(stable_abi.imported(extension)) > 50
    assert stable_abi.beyond(extension) == []


def test_every_python_is_looked_for() -> None:
    found = release.pythons()
    assert list(found) == [f"3.{minor}" for minor in range(10, 15)]
    own = ".".join(map(str, sys.version_info[:2]))
    assert found[own] is not None


@pytest.mark.full
def test_a_release(tmp_path: pathlib.Path) -> None:
    # What a smoke run builds is not optimised and built once, and else the
    # same.
    env, words = dict(os.environ), []
    if env.get("OPGRAFT_SMOKE"):
        env["SKBUILD_CMAKE_DEFINE"] = "CMAKE_C_FLAGS_RELEASE=-O0"
        words.append("--once")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "release.py"), *words, "--out",
         str(tmp_path / "dist")], text=True, capture_output=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name for path in (tmp_path / "dist").iterdir())
    assert [name.split("-")[0] for name in names] == ["opgraft", "opgraft"]
    assert names[0].endswith(".whl") or names[1].endswith(".whl")
    assert "the wheel works: Python 3." in done.stdout


@pytest.mark.skipif(sys.version_info[:2] != (3, 11),
                    reason="the list is compared with Python 3.11's")
def test_the_list_of_names_beside_pythons_own() -> None:
    """As the head of tools/stable_abi.txt says."""
    theirs = set(pytest.importorskip(
        "test.test_stable_abi_ctypes",
        reason="this Python has no tests of its own").SYMBOL_NAMES)
    ours = stable_abi.stable()
    assert ours - theirs == {"PyModule_Create2", "PyModule_FromDefAndSpec2"}
    assert theirs - ours == {
        "PyBuffer_FillContiguousStrides", "PyBuffer_FillInfo",
        "PyBuffer_FromContiguous", "PyBuffer_GetPointer",
        "PyBuffer_IsContiguous", "PyBuffer_Release",
        "PyBuffer_SizeFromFormat", "PyBuffer_ToContiguous",
        "PyErr_GetHandledException", "PyErr_SetHandledException",
        "PyExc_BaseExceptionGroup", "PyMemoryView_FromBuffer",
        "PyObject_CheckBuffer", "PyObject_CopyData", "PyObject_GetBuffer",
        "PyStructSequence_UnnamedField", "PyType_GetName",
        "PyType_GetQualName", "Py_Version"}


def test_a_build_says_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    """The first line of `pip install .`, before the back end starts."""
    monkeypatch.syspath_prepend(str(ROOT / "cmake"))
    import backend

    monkeypatch.setattr(backend._build, "build_wheel",
                        lambda *words, **options: "made.whl")
    monkeypatch.setattr(backend, "TERMINAL", os.devnull)
    assert backend.build_wheel("folder") == "made.whl"
    said = capsys.readouterr().err
    found = re.match(r"opgraft: compiling (\d+) C files, about (\d+) s on \d+ "
                     r"cores?; a wheel of `make wheel` installs in seconds\n$",
                     said)
    assert found is not None and int(found[1]) > 100 and int(found[2]) > 0


def test_a_release_is_made_by_targets_that_exist() -> None:
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(
        (ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    steps = [step["run"] for job in jobs.values() for step in job["steps"]
             if "run" in step]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    called = [word for step in steps if step.startswith("make ")
              for word in step.split()[1:] if "=" not in word]
    assert {"wheel", "test", "docs", "release"} == set(called) <= set(targets)
    for job in jobs.values():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(jobs)
