#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages that the site's reference has beside those of docs/.

    tools/api_docs.py --build BUILD --out FOLDER

FOLDER gets a copy of docs/, and in its reference/: a page for each public C
header, from its comments; one for Python, from docstrings; one for the program,
from its help; one with the error codes and the findings of check. Its examples/
has a page with the files of each example.
"""

from __future__ import annotations

import argparse
import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from typing import Iterator

import api_examples

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADERS = ROOT / "include" / "opgraft"
PACKAGE = ROOT / "python" / "opgraft"
# Public modules of the package, and files that only the program starts.
MODULES = ("", "ops", "flashinfer", "jax", "onnx", "aoti", "tensorflow",
           "gguf", "transformers", "doctor", "doctor.pytest_plugin")
PROGRAM_PARTS = ("check_reference", "check_torch", "distributed", "info",
                 "timeline",
                 "__main__", "doctor.__main__")
SECTION = re.compile(r"// --- (.*?) -*$")
NO_ENTRY = re.compile(r"#(?:ifdef|ifndef|if|endif|else|undef|include)\b"
                      r"|extern \"C\"|}\s*$")
EXAMPLES = ROOT / "examples"
LANGUAGES = {".c": "c", ".py": "python", ".yaml": "yaml", ".toml": "toml",
             ".txt": "cmake", ".md": "text"}
# Links to files that the site lacks: their names stay. Examples have pages.
OF_REPOSITORY = re.compile(
    r"\[([^]]+)\]\((?:\.\./)*((?:results|tests)/?[^)]*)\)")
OF_EXAMPLES = re.compile(r"\]\((?:\.\./)*examples/(\w+)[^)]*\)")
MACRO_ROW = re.compile(
    r'X\(\s*(\w+),\s*("?\w+"?),\s*((?:"(?:[^"\\]|\\.)*"[\s\\]*)+)\)')


def escape(text: str) -> str:
    """Plain prose as Markdown; what stands in backticks stays."""
    return "".join(part if i % 2 else re.sub(r"([\\*_<>\[\]|~#{}$^])", r"\\\1",
                                             part)
                   for i, part in enumerate(re.split(r"(`[^`]*`)", text)))


def comment_prose(lines: list[str]) -> str:
    """A comment's lines as Markdown; indented ones, outside lists, as code."""
    out: list[str] = []
    is_code = is_list = False
    for line in [*lines, ""]:
        is_list = line.startswith("- ") or is_list and line.startswith(" ")
        if line.startswith(" ") and not is_list:
            out += [] if is_code else ["", "```text"]
            is_code = True
            out.append(line)
            continue
        out += ["```", ""] if is_code else []
        is_code = False
        out.append(escape(line))
    return "\n".join(out).rstrip()


# --- C: a header is comments, and the declarations behind each.


@dataclass
class Entry:
    comment: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        return declared("\n".join(self.code))


@dataclass
class Header:
    title: str
    about: list[str]
    # Section titles and entries, in the order of the file.
    parts: list[str | Entry] = field(default_factory=list)


def functions(entry: Entry) -> list[str]:
    """The functions among an entry's names: exported and inline ones."""
    code = "\n".join(entry.code)
    return [name for name in entry.names()
            if name.islower() and re.search(rf"^(?!typedef|#)[\w *\n]*?\b{name}\(", code, re.M)]


def declared(code: str) -> list[str]:
    """The names that a piece of a header declares."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", code, flags=re.S)
    found = re.findall(r"^#define (\w+)", bare, flags=re.M)
    bare = re.sub(r"^#define(?:.*\\\n)*.*$", "", bare, flags=re.M)
    found += re.findall(r"}\s*(\w+)\s*;", bare)
    found += re.findall(r"^typedef (?:struct|union) \w+ (\w+);", bare, re.M)
    found += re.findall(r"^typedef [^;{]*?\(\*(\w+)\)\(", bare, re.M)
    found += re.findall(r"^typedef \w+ (\w+);", bare, re.M)
    found += re.findall(r"^struct (\w+) {", bare, re.M)
    outside = re.sub(r"{[^{}]*(?:{[^{}]*}[^{}]*)*}", "{}", bare)
    found += re.findall(r"^(?!typedef)[A-Za-z][\w *\n]*?\b((?:og|opgraft)_\w+)"
                        r"\(", outside, re.M)
    for body in re.findall(r"^enum \w*\s*{(.*?)}", bare, re.M | re.S):
        found += re.findall(r"\b(O\w+)(?=\s*(?:=[^,]*)?(?:,|\Z|\s*$))", body)
    return list(dict.fromkeys(found))


def declaration_end(lines: list[str], at: int) -> int:
    """The line behind the declaration that begins at `at`."""
    if lines[at].startswith("#"):
        while lines[at].endswith("\\"):
            at += 1
        return at + 1
    depth = 0
    for i in range(at, len(lines)):
        bare = re.sub(r"//.*|\"[^\"]*\"", "", lines[i])
        depth += (bare.count("{") - bare.count("}")
                  + bare.count("(") - bare.count(")"))
        if depth == 0 and bare.rstrip().endswith((";", "}")):
            return i + 1
        if depth == 0 and re.match(r"[A-Z_]+\(.*\)$", bare.rstrip()):
            return i + 1
    return len(lines)


def shown(code: list[str]) -> list[str]:
    """A declaration without the body of an inline function."""
    text = "\n".join(code)
    if code[0].startswith("static inline"):
        text = text[:text.index("{")].rstrip() + ";"
    return text.splitlines()


def read_header(path: pathlib.Path) -> Header:
    lines = path.read_text().splitlines()
    guard = next(i for i, line in enumerate(lines) if line.startswith("#ifndef"))
    about = [line[3:].rstrip() for line in lines[1:guard]
             if line.startswith("//")]
    header = Header(f"opgraft/{path.name}", about)
    entry, at = Entry(), guard + 2
    while at < len(lines):
        line = lines[at]
        section = SECTION.match(line)
        if section or not line or NO_ENTRY.match(line):
            if entry.code:
                header.parts.append(entry)
            entry = Entry() if entry.code or section else entry
            if section:
                header.parts.append(section[1])
            at += 1
        elif line.startswith("//"):
            if entry.code:
                header.parts.append(entry)
                entry = Entry()
            entry.comment.append(line[3:].rstrip())
            at += 1
        else:
            end = declaration_end(lines, at)
            entry.code += shown(lines[at:end])
            at = end
    if entry.code:
        header.parts.append(entry)
    return header


ABOUT_ERRORS = re.compile(r"\bOG_[A-Z]+\b|\b(?:fail|refus|error|status)", re.I)
ABOUT_THREADS = re.compile(r"thread", re.I)
ELSEWHERE = re.compile(r"(as in )(\w+)\.h")
ANY_THREAD = "any, at any time."


def sentences(lines: list[str], about: re.Pattern[str]) -> str:
    """Those of a comment that say something about a thing."""
    prose = " ".join(line for line in lines if line[:1] != " ")
    return " ".join(s for s in re.split(r"(?<=[.;])\s+(?=[A-Z`])", prose)
                    if about.search(s))


def returns_status(entry: Entry) -> list[str]:
    code = "\n".join(entry.code)
    return [name for name in functions(entry)
            if re.search(rf"\bog_status\s+{name}\(", code)]


def rules(header: Header, entry: Entry) -> list[str]:
    """How an entry's functions fail, and who may call them: what its comment
    says, then what the header says of all that is in it."""
    errors = sentences(entry.comment, ABOUT_ERRORS)
    if returns_status(entry):
        errors += " " + sentences(header.about, ABOUT_ERRORS)
    else:
        errors = f"No status is returned. {errors}"
    threads = (sentences(entry.comment, ABOUT_THREADS) + " "
               + sentences(header.about, ABOUT_THREADS))
    return [f"- **{title}:** " + ELSEWHERE.sub(r"\1[\2.h](\2.md)",
                                              escape(said.strip()))
            for title, said in (("Errors", errors), ("Threads", threads))
            if said.strip()]


def example(entry: Entry) -> list[str]:
    """A statement of something that CI runs, for the entry's first functions.
    """
    place, code = api_examples.statement(functions(entry), ".c")
    if not place:
        return []
    said = api_examples.shown(place, "../../")
    return [f"- **Example**, of {said}, which CI runs:", "",
            "  ```c", *(f"  {line}".rstrip() for line in code), "  ```"]


def header_page(header: Header) -> str:
    out = [f"# {header.title}", "", comment_prose(header.about), ""]
    level = "##"
    for part in header.parts:
        if isinstance(part, str):
            out += [f"## {escape(part)}", ""]
            level = "###"
            continue
        names = part.names()
        if names:
            title = ", ".join(f"`{name}`" for name in names[:3])
            out += [f"{level} {title}{', …' if len(names) > 3 else ''}", ""]
        out += ["```c", *part.code, "```", ""]
        if part.comment:
            out += [comment_prose(part.comment), ""]
        if functions(part):
            out += [*rules(header, part), *example(part), ""]
    return "\n".join(out).rstrip() + "\n"


# --- Python: names of __all__, from the files that define them.


def module_file(module: str) -> pathlib.Path:
    path = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def public_names(tree: ast.Module) -> list[str]:
    """`__all__`; without one, what the file defines without underscore."""
    for node in tree.body:
        if (isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "__all__"
                and isinstance(node.value, (ast.List, ast.Tuple))):
            return [str(ast.literal_eval(e)) for e in node.value.elts]
    return [n.name for n in tree.body
            if isinstance(n, (ast.FunctionDef, ast.ClassDef))
            and not n.name.startswith("_")]


def definition(path: pathlib.Path, name: str
               ) -> ast.FunctionDef | ast.ClassDef | None:
    """What defines a name, in this file or in the one it is imported from."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) \
                and node.name == name:
            return node
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and any(
                name in (a.asname, a.name) for a in node.names):
            base = path.parent.joinpath(*(node.module or "").split("."))
            return definition(base / "__init__.py" if base.is_dir()
                              else base.with_suffix(".py"), name)
    return None


def signature(node: ast.FunctionDef, name: str) -> str:
    args = ast.unparse(node.args)
    args = re.sub(r"^(self|cls)(, )?", "", args)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    whole = f"{name}({args}){returns}"
    if len(whole) <= 76:
        return whole
    parts = [ast.unparse(a) for a in [node.args]][0]
    pieces = split_arguments(re.sub(r"^(self|cls)(, )?", "", parts))
    return f"{name}(\n" + "".join(f"    {p},\n" for p in pieces) \
        + f"){returns}"


def split_arguments(text: str) -> list[str]:
    """At the commas that stand in no bracket or string."""
    out, depth, quote, now = [], 0, "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        depth += (c in "([{") - (c in ")]}") if not quote else 0
        if c == "," and not depth and not quote:
            out.append(now.strip())
            now = ""
        else:
            now += c
    return [*out, now.strip()] if now.strip() else out


def docstring_prose(text: str) -> str:
    """Paragraphs, and indented blocks as code."""
    blocks = re.split(r"\n(?:[ \t]*\n)+", text)
    out, code = [], []
    for block in [*blocks, ""]:
        if block.startswith("    "):
            code.append(textwrap.dedent(block).rstrip())
            continue
        if code:
            out.append("```python\n" + "\n\n".join(code) + "\n```")
            code = []
        first, _, rest = block.partition("\n")
        if rest.startswith("    ") and first:  # a line, its code below it
            lines = block.splitlines()
            prose = [x for x in lines if not x.startswith("    ")]
            out.append(escape("\n".join(prose)))
            out.append("```python\n" + textwrap.dedent("\n".join(
                x for x in lines if x.startswith("    "))) + "\n```")
        elif block:
            out.append(escape(block))
    return "\n\n".join(out)


def members(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and (
                not item.name.startswith("_") or item.name == "__init__"):
            yield item


def fields(node: ast.ClassDef, source: list[str]) -> list[str]:
    """Annotated fields with the comment behind each."""
    return [line.strip() for item in node.body
            if isinstance(item, ast.AnnAssign)
            and not ast.unparse(item.target).startswith("_")
            for line in source[item.lineno - 1:item.end_lineno]]


def name_entry(module: str, name: str, path: pathlib.Path) -> list[str]:
    full = ".".join(x for x in ("opgraft", module, name) if x)
    node = definition(path, name)
    if node is None:  # a value, such as __version__
        return [f"### `{full}`", ""]
    doc = docstring_prose(ast.get_docstring(node) or "")
    threads = sentences((ast.get_docstring(node) or "").splitlines(),
                        ABOUT_THREADS)
    doc += f"\n\nThreads: {escape(threads or ANY_THREAD)}\n\n"
    doc += api_examples.line([name], ".py", "../")
    if isinstance(node, ast.FunctionDef):
        return [f"### `{full}`", "", "```python", signature(node, full), "```",
                "", doc, ""]
    out = [f"### `{full}`", "", "```python"]
    source = defining_source(path, name)
    init = next((m for m in members(node) if m.name == "__init__"), None)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    out += [f"class {full}" + (f"({bases})" if bases else ""),
            *(f"    {line}" for line in fields(node, source)), "```", "", doc,
            ""]
    for item in members(node):
        if item is init and not ast.get_docstring(item):
            continue
        is_property = any(ast.unparse(d) in ("property", "cached_property",
                                             "functools.cached_property")
                          for d in item.decorator_list)
        said = (f"{item.name}: {ast.unparse(item.returns)}"
                if is_property and item.returns else signature(item, item.name))
        out += [f"#### `{full}.{item.name}`", "", "```python", said, "```", "",
                docstring_prose(ast.get_docstring(item) or ""), ""]
    return out


def defining_source(path: pathlib.Path, name: str) -> list[str]:
    tree = ast.parse(path.read_text())
    if any(isinstance(n, ast.ClassDef) and n.name == name
           for n in ast.walk(tree)):
        return path.read_text().splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and any(
                name in (a.asname, a.name) for a in node.names):
            base = path.parent.joinpath(*(node.module or "").split("."))
            return defining_source(base / "__init__.py" if base.is_dir()
                                   else base.with_suffix(".py"), name)
    return []


def python_page() -> str:
    out = ["# Python", "",
           "Public names of the package. Shapes and types of arguments are in "
           "each entry; errors are Python exceptions, and calls may come from "
           "any thread unless an entry says otherwise.", ""]
    for module in MODULES:
        path = module_file(module)
        tree = ast.parse(path.read_text())
        out += [f"## {'.'.join(x for x in ('opgraft', module) if x)}", "",
                docstring_prose(ast.get_docstring(tree) or ""), ""]
        for name in public_names(tree):
            out += name_entry(module, name, path)
    return "\n".join(out).rstrip() + "\n"


# --- The program, and what it reports.


def program_page(program: pathlib.Path) -> str:
    def said(*words: str) -> str:
        return subprocess.run([program, *words], check=True, text=True,
                              capture_output=True).stdout.rstrip()
    out = ["# The program", "", "```text", said("help"), "```", "",
           "[More of it](../cli.md): outputs, exit status, completion.", ""]
    commands = (ROOT / "cli" / "commands.def").read_text()
    for name in re.findall(r"^COMMAND\((\w+)\)", commands, flags=re.M):
        out += [f"## opgraft {name}", "", "```text", said("help", name), "```",
                ""]
    return "\n".join(out).rstrip() + "\n"


def rows(header: str, macro: str) -> list[tuple[str, str, str]]:
    """The rows of an X-macro: name, number or word, text."""
    text = re.sub(r" *\\\n *", " \n", (HEADERS / header).read_text())
    body = text[text.index(f"#define {macro}"):]
    body = body[:body.index("\n\n")] if "\n\n" in body else body
    return [(name, word.strip('"'), "".join(re.findall(
        r'"((?:[^"\\]|\\.)*)"', said)).replace('\\"', '"'))
        for name, word, said in MACRO_ROW.findall(body)]


def codes_page() -> str:
    out = ["# Errors and findings", "", "## Error codes", "",
           "What a C function returns; Python raises an exception with the "
           "error's text. Codes are never renumbered.", "",
           "| Code | Number | Meaning |", "|---|---|---|"]
    out += [f"| `{name}` | {number} | {escape(text)} |"
            for name, number, text in rows("op.h", "OG_STATUS_LIST")]
    out += ["", "## Findings of check", "",
            "What `opgraft check` reports, and how to repair it. "
            "[check](../check.md) says how each is looked for.", "",
            "| Finding | Repair |", "|---|---|"]
    out += [f"| `{word}` | {escape(text)} |"
            for _, word, text in rows("check.h", "OPGRAFT_FINDING_LIST")]
    return "\n".join(out) + "\n"


# --- Examples.


def cells(notebook: pathlib.Path) -> Iterator[str]:
    for cell in json.loads(notebook.read_text())["cells"]:
        text = "".join(cell["source"]).rstrip()
        yield (text if cell["cell_type"] == "markdown"
               else f"```python\n{text}\n```")


def example_page(folder: pathlib.Path) -> str:
    out = [f"# examples/{folder.name}"]
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".ipynb":
            out += cells(path)
        elif path.suffix in LANGUAGES and "__pycache__" not in path.parts:
            out += [f"## {path.relative_to(folder)}",
                    f"````{LANGUAGES[path.suffix]}\n{path.read_text()}````"]
    return "\n\n".join(out) + "\n"


def example_pages() -> dict[str, str]:
    return {f"{folder.name}.md": example_page(folder)
            for folder in sorted(EXAMPLES.iterdir()) if folder.is_dir()}


# --- All of them.


def pages(program: pathlib.Path) -> dict[str, str]:
    headers = sorted(HEADERS.glob("*.h"))
    found = {f"c/{path.stem}.md": header_page(read_header(path))
             for path in headers}
    found["c.md"] = c_index([read_header(path) for path in headers])
    found["python.md"] = python_page()
    found["program.md"] = program_page(program)
    found["codes.md"] = codes_page()
    return found


def c_index(headers: list[Header]) -> str:
    out = ["# C headers", "", "Each compiles alone, as C11 and as C++17.", "",
           "| Header | |", "|---|---|"]
    for header in headers:
        stem = pathlib.Path(header.title).stem
        about = "".join(f"{x} " for x in header.about).split(". ")[0].strip().rstrip(".")
        out.append(f"| [{header.title}](c/{stem}.md) | {escape(about)} |")
    out += ["", "```{toctree}", ":hidden:", "", *(
        f"c/{pathlib.Path(h.title).stem}" for h in headers), "```"]
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    shutil.copytree(ROOT / "docs", options.out,
                    ignore=shutil.ignore_patterns("results"))
    for page in options.out.rglob("*.md"):
        up = "../" * (len(page.relative_to(options.out).parts) - 1)
        page.write_text(OF_EXAMPLES.sub(rf"]({up}examples/\1.md)",
                        OF_REPOSITORY.sub(r"\1 (`\2`)", page.read_text())))
    gallery = options.out / "gallery.md"
    gallery.write_text(gallery.read_text()
                       + "\n```{toctree}\n:hidden:\n:glob:\n\nexamples/*\n```\n")
    index = options.out / "operators" / "README.md"
    index.write_text(index.read_text()
                     + "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n")
    made = {"reference": pages(options.build / "bin" / "opgraft"),
            "examples": example_pages()}
    for folder, texts in made.items():
        for name, text in texts.items():
            path = options.out / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
