#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README's first commands in a new Debian, as they stand there.

    sudo tools/fresh_root.py [--root DIR] [--bind DIR]... [--only WORDS]

Makes a root with debootstrap (the mirror and release of this machine), clones
the last commit into it, installs what README tells apt to install and runs
each command of its first block of shell; `make demo` once more. Prints seconds
and the size of the clone, and holds both to README's promises. --bind shows the
root a folder of this machine, as one of wheels that PIP_FIND_LINKS names; the
settings of pip are passed on. The root is removed unless --root names it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
USER = "/root/opgraft"
# Seconds of a first run and of a second, None where there is none.
BOUNDS = {"make demo": (240.0, 60.0), "make test": (720.0, None)}


def commands(text: str) -> tuple[str, list[str]]:
    """What apt installs, and the commands of the first block of shell."""
    packages = re.search(r"`(apt-get install [^`]+)`", text)
    block = re.search(r"```sh\n(.*?)```", text, re.S)
    if packages is None or block is None:
        sys.exit("README names no apt-get or has no block of shell")
    return packages[1], re.findall(r"^(\S.*?)(?:\s+#.*)?$", block[1], re.M)


def release() -> list[str]:
    """Debian's name and mirror, as apt knows them."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SUITE) $(REPO_URI)",
         "Created-By: Packages"], check=True, text=True, capture_output=True)
    for suite, uri in (line.split() for line in told.stdout.splitlines()):
        if "-" not in suite:  # neither updates nor security
            return [suite, uri]
    sys.exit("apt-get indextargets names no release")


class Root:
    def __init__(self, folder: pathlib.Path, binds: list[pathlib.Path]) -> None:
        self.folder = folder
        self.binds = binds

    def make(self) -> None:
        suite, mirror = release()
        subprocess.run(["debootstrap", "--variant=minbase",
                        "--include=ca-certificates", suite, self.folder, mirror],
                       check=True, stdout=subprocess.DEVNULL)
        for given in ("/etc/resolv.conf", os.environ.get("PIP_CERT", "")):
            if given:
                to = self.folder / given.lstrip("/")
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(given, to)
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(),
                        self.folder / USER.lstrip("/")], check=True)

    def run(self, command: str) -> float:
        """Its seconds; it sees the root alone, and mounts end with it."""
        mounts = "".join(
            f"mkdir -p {self.folder}{b} && mount --bind {b} {self.folder}{b} && "
            for b in ["/proc", "/dev", *map(str, self.binds)])
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
               **{n: v for n, v in os.environ.items() if n.startswith("PIP_")}}
        begin = time.monotonic()
        status = subprocess.run(
            ["unshare", "--mount", "sh", "-ec",
             f'{mounts} exec chroot {self.folder} sh -ec "cd {USER}; $1"', "sh",
             command], env=env, stdin=subprocess.DEVNULL).returncode
        if status != 0:
            sys.exit(f"{command}: status {status}")
        return time.monotonic() - begin

    def size(self) -> int:
        clone = self.folder / USER.lstrip("/")
        return sum(p.lstat().st_size for p in clone.rglob("*") if p.is_file())


def tried(root: Root, only: str) -> bool:
    """Whether each command ended well and soon enough."""
    packages, block = commands((ROOT / "README.md").read_text())
    rows: list[tuple[str, str, float | None]] = [
        ("", packages.replace("install", "install -y -q", 1), None)]
    for command in block:
        first, second = BOUNDS.get(command, (None, None))
        rows.append(("", command, first))
        if second:
            rows.append((", again", command, second))
    root.run("apt-get update -q")
    root.run("apt-get install -y -q git")
    holds = True
    for again, command, bound in rows:
        if bound and only not in command:
            continue
        seconds = root.run(command)
        told = f"{command}{again} {seconds:.0f} s"
        if bound:
            told = f"goal: {told} (<= {bound:.0f}) " + (
                "holds" if seconds <= bound else "falls short")
            holds = holds and seconds <= bound
        print(f"{told}; {root.size() >> 20} MiB", flush=True)
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, help="made here, and kept")
    parser.add_argument("--bind", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--only", default="", help="commands with these words")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opgraft-root-") as scratch:
        root = Root((args.root or pathlib.Path(scratch) / "root").resolve(),
                    args.bind)
        root.make()
        return 0 if tried(root, args.only) else 1


if __name__ == "__main__":
    sys.exit(main())
