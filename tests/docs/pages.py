# SPDX-License-Identifier: Apache-2.0
"""Runs what stands in the fenced blocks of a page, in order.

A block says by its first line what it is: `c NAME` and `python NAME` are files
to write, `sh` commands that succeed, `sh fails` commands of which the last one
fails, `sh install` commands that the test's environment stands for. A `text`
block behind commands has their output, with … for anything. A `toml` or
`cmake` block with a name is a file too.

`Scripts` runs `python …` lines in processes that fork from one which has
imported torch already: each has its own state, none waits for the import.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)(?: ([\w./]+))?\n(.*?)^```$", re.S | re.M)
COMMANDS_TIMEOUT_S = 600
PYTHON_LINE = re.compile(r"^python (.+)$\n?", re.M)
PRELOADED = ["torch", "torch._dynamo", "opgraft"]


@dataclass
class Block:
    language: str
    word: str  # a file's name, "install", "fails" or ""
    text: str


def blocks(page: pathlib.Path) -> list[Block]:
    return [Block(m[1], m[2] or "", m[3])
            for m in BLOCK.finditer(page.read_text())]


def matches(expected: str, found: str) -> bool:
    """Whether output is as the page has it; … stands for any characters."""
    parts = [re.escape(part) for part in expected.strip().split("…")]
    return re.fullmatch(".*?".join(parts), found.strip(), re.S) is not None


def run(commands: str, folder: pathlib.Path,
        tools: pathlib.Path = pathlib.Path(sys.executable).parent
        ) -> subprocess.CompletedProcess[str]:
    """In a shell that ends at the first failure, with a home of its own and the
    programs of `tools` first."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(home),
           "LANG": "C.UTF-8"}
    return subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=env,
                          text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=COMMANDS_TIMEOUT_S)


def script_run(words: list[str], folder: str, output: str) -> None:
    """`python WORDS` in a process of its own."""
    sys.stdout.flush()
    to = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(to, 1)
    os.dup2(to, 2)
    os.chdir(folder)
    os.environ["HOME"] = str(pathlib.Path(folder) / "home")
    sys.path.insert(0, folder)
    is_module = words[0] == "-m"
    sys.argv = words[1:] if is_module else words
    if is_module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


class Scripts:
    """Processes that fork from one which has imported PRELOADED."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)

    def python(self, words: list[str], folder: pathlib.Path
               ) -> tuple[int, str]:
        output = folder / "home" / "output"
        output.parent.mkdir(exist_ok=True)
        output.write_text("")
        process = self.context.Process(
            target=script_run, args=(words, str(folder), str(output)))
        process.start()
        process.join(COMMANDS_TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        return int(process.exitcode or 0), output.read_text()

    def run(self, commands: str, folder: pathlib.Path) -> tuple[int, str]:
        """The lines in order, up to the first that fails."""
        parts = PYTHON_LINE.split(commands)
        said = ""
        for i, part in enumerate(parts):
            if i % 2:
                status, output = self.python(shlex.split(part), folder)
            elif part.strip():
                done = run(part, folder)
                status, output = done.returncode, done.stdout
            else:
                continue
            said += output
            if status:
                return status, said
        return 0, said
