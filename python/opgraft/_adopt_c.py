# SPDX-License-Identifier: Apache-2.0
"""C symbols: prototypes, libraries, and what C makes of both."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from dataclasses import dataclass
from typing import Any

from . import _C, _adopt_ctypes
from ._adopt_map import Names, parts
from ._rules import Description

HAS_FFI: bool = _C.HAS_FFI
_LONG = 8 * ctypes.sizeof(ctypes.c_long)
_TYPES = {
    "void": "void", "float": "f32", "double": "f64", "char": "i8",
    "signed char": "i8", "unsigned char": "u8", "short": "i16",
    "unsigned short": "u16", "int": "i32", "unsigned": "u32",
    "unsigned int": "u32", "long": f"i{_LONG}", "unsigned long": f"u{_LONG}",
    "long long": "i64", "unsigned long long": "u64", "int8_t": "i8",
    "int16_t": "i16", "int32_t": "i32", "int64_t": "i64", "uint8_t": "u8",
    "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "size_t": "u64",
    "ssize_t": "i64", "ptrdiff_t": "i64", "intptr_t": "i64",
    "uintptr_t": "u64", "bool": "u8", "_Bool": "u8",
}
# What an element of a pointer's type may be in a tensor.
_ELEMENTS = {"i8": "i8|bool", "u8": "u8|bool"}


@dataclass
class Parameter:
    type: str  # "f32", ..., "ptr"
    element: str | None  # of a pointer: its element; None: void
    is_const: bool
    name: str
    text: str


@dataclass
class Prototype:
    name: str
    result: str
    parameters: list[Parameter]
    text: str


def looks_like_one(text: str) -> bool:
    return "(" in text and re.match(r"\s*[A-Za-z_]\w*[\s*]+[A-Za-z_]", text
                                    ) is not None


def parse(text: str) -> Prototype:
    match = re.fullmatch(r"\s*(.+?[\s*])\s*(\w+)\s*\((.*)\)\s*;?\s*", text, re.S)
    if match is None:
        raise ValueError(
            f"{text!r} is no C prototype, wanted one such as "
            '"void silu(float *out, const float *x, int64_t n)"'
        )
    result, name, inside = match[1], match[2], match[3].strip()
    listed = [] if inside in ("", "void") else [
        _parameter(p.strip(), name) for p in inside.split(",")]
    kind = _type(result, f"{name}: its result")
    if kind.type == "ptr":
        raise ValueError(f"{name}: returns a pointer, which nobody would own")
    return Prototype(name, kind.type, listed, text.strip())


def _parameter(text: str, function: str) -> Parameter:
    if "[" in text:
        text = re.sub(r"(\w+)\s*\[[^\]]*\]", r"*\1", text)
    if "(" in text or text == "...":
        raise ValueError(
            f"{function}: parameter {text!r}: functions and variable arguments "
            "cannot be passed"
        )
    words = re.fullmatch(r"(.*?[\s*])(\w+)", text, re.S)
    name = ""
    if words is not None and not _is_type_word(words[2]):
        text_type, name = words[1], words[2]
    else:
        text_type = text
    found = _type(text_type, f"{function}: parameter {text!r}")
    found.name, found.text = name, text
    return found


def _is_type_word(word: str) -> bool:
    return any(word in t.split() for t in _TYPES) or word in (
        "const", "restrict")


def _type(text: str, what: str) -> Parameter:
    stars = text.count("*")
    base = re.sub(r"\b(const|restrict|volatile|struct|extern|static|inline)\b",
                  " ", text.replace("*", " "))
    base = " ".join(base.split())
    is_const = re.search(r"\bconst\b", text.partition("*")[0]) is not None
    if base == "DLTensor" and stars == 1:
        return Parameter("ptr", "DLTensor", is_const, "", text)
    if base not in _TYPES:
        raise ValueError(
            f"{what} has the type {base!r}, wanted a type of C or stdint.h "
            f"({', '.join(t for t in _TYPES if ' ' not in t)}); write a typedef "
            "as what it stands for"
        )
    kind = _TYPES[base]
    if stars == 0:
        return Parameter(kind, None, is_const, "", text)
    element = None if kind == "void" or stars > 1 else kind
    return Parameter("ptr", element, is_const, "", text)


# --- Libraries --------------------------------------------------------------------


class Library:
    """A shared library, mapped for as long as an operator calls it or someone
    holds this."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.capsule = _C.library_open(path)

    def address(self, name: str) -> int:
        found = _C.library_find(self.capsule, name)
        if found is None:
            raise AttributeError(
                f"{self.path} exports no {name}; `nm -D {self.path}` lists "
                "what it has"
            )
        return found


_libraries: dict[str, tuple[Any, "weakref.ref[Library]"]] = {}


def library(path: Any) -> Library:
    """The library of a path, or of a name that the loader finds."""
    if isinstance(path, Library):
        return path
    if isinstance(path, ctypes.CDLL):
        path = path._name or ""
    where = os.fspath(path)
    stamp = None
    if os.sep in where:
        where = os.path.realpath(where)
        if not os.path.exists(where):
            raise FileNotFoundError(f"{where}: no such library")
        info = os.stat(where)
        stamp = (info.st_ino, info.st_mtime_ns, info.st_size)
    known = _libraries.get(where)
    kept = known[1]() if known is not None else None
    if known is not None and kept is not None:
        if known[0] != stamp:
            raise RuntimeError(
                f"{where} changed since it was loaded, and operators still "
                "call the old one; unadopt them and drop what holds them, "
                "then adopt again"
            )
        return kept
    made = Library(where)
    _libraries[where] = (stamp, weakref.ref(made))
    return made


# --- The declaration and the prototype --------------------------------------------


def payload(
    d: Description, prototype: Prototype, address: int, holder: Any,
    call: str | None, returns: str | None,
) -> tuple[str, Any]:
    """What hosts/torch/adopt_c.c reads."""
    refuse_lists(d)
    texts = parts(call) if call is not None else _by_name(d, prototype)
    _check_count(d.name, prototype, texts)
    names = Names(d, "data")
    arguments = []
    for text, p in zip(texts, prototype.parameters):
        steps = names.program(text)
        _check_argument(d, names, p, text, steps)
        arguments.append((p.type, steps))
    is_each = any(s[0] == "element" for _, steps in arguments for s in steps)
    mode, out, is_each = _result(d, names, prototype, returns, is_each)
    unused = [n for n, i in names.fresh.items() if i not in names.used_outs]
    if unused:
        raise ValueError(
            f"{d.name}: nothing writes result {', '.join(unused)}; pass it in "
            "call, or say returns="
            f'"{unused[0]}" where the function returns it'
        )
    if not HAS_FFI and not _goes_by_register(arguments) and (
            prototype.result != "ptr") and not any(
            step[0] == "dl" for _, steps in arguments for step in steps):
        return _adopt_ctypes.payload(d, _adopt_ctypes.Function(
            d, holder, address, arguments, prototype.result, mode, out,
            is_each))
    return "c", (holder, address, arguments, prototype.result, mode, out,
                 is_each)


def _goes_by_register(arguments: list[Any]) -> bool:
    words, reals = _C.REGISTERS
    count = sum(kind in ("f32", "f64") for kind, _ in arguments)
    return count <= reals and len(arguments) - count <= words


def _check_count(name: str, prototype: Prototype, texts: list[str]) -> None:
    if len(texts) != len(prototype.parameters):
        raise ValueError(
            f"{name}: call has {len(texts)} arguments, {prototype.name} "
            f"takes {len(prototype.parameters)}: {prototype.text}"
        )


def refuse_lists(d: Description) -> None:
    if any(p["list"] for p in d.params if p["tensor"] is not None) or any(
            r["list"] for r in d.results):
        raise ValueError(
            f"{d.name}: a list of tensors has no C form; adopt a Python "
            "function, or write an operator file"
        )
    if d.numbers or d.is_data_dependent:
        raise ValueError(
            f"{d.name}: a result that is an int, or of a size that the kernel "
            "finds, wants an operator file; see docs/authors-guide.md"
        )


def _by_name(d: Description, prototype: Prototype) -> list[str]:
    """Without a mapping, parameters are what they are called."""
    missing = [p.text for p in prototype.parameters if not p.name]
    if missing:
        raise ValueError(
            f"{d.name}: {prototype.name}'s parameter {missing[0]!r} has no "
            'name; say call="out.data, x.data, x.numel"'
        )
    return [p.name for p in prototype.parameters]


def _check_argument(
    d: Description, names: Names, p: Parameter, text: str, steps: list[Any]
) -> None:
    step = steps[0]
    where = f"{d.name}: call: {text!r} for {p.text!r}"
    is_pointer = len(steps) == 1 and step[0] in (
        "data", "dl", "shape", "strides", "attr_data", "nil", "stream")
    if len(steps) == 1 and step[0] == "attr":
        is_pointer = names.attrs[text.strip()]["type"] == "str"
    if is_pointer != (p.type == "ptr"):
        raise ValueError(
            f"{where}: found {'a pointer' if is_pointer else 'a number'}, "
            f"wanted {'a pointer' if p.type == 'ptr' else 'a number'}"
        )
    is_real = step[0] == "real" or (
        step[0] == "attr"
        and names.attrs.get(text.strip(), {}).get("type") == "float")
    if is_real and len(steps) == 1 and p.type not in ("f32", "f64"):
        raise ValueError(f"{where}: found a float, wanted an int")
    if step[0] != "data":
        return
    is_out, index = step[1], step[2]
    if not is_out and not p.is_const and p.element is not None:
        raise ValueError(
            f"{where}: the pointer is not const, and the schema says that "
            "nobody writes it; declare Tensor(a!), or const in the prototype "
            "where you know that it is only read"
        )
    if p.element is None or p.element == "DLTensor":
        return
    allowed = _types_of(d, is_out, index)
    wanted = _ELEMENTS.get(p.element, p.element).split("|")
    wrong = [t for t in allowed if t not in wanted and not _half(t, p.element)]
    if wrong:
        raise ValueError(
            f"{where}: its type may be {wrong[0]}, wanted {p.element} as the "
            f"prototype says; mend dtype: \"{text.split('.')[0]}: "
            f'{p.element}"'
        )


def _half(name: str, element: str) -> bool:
    """16-bit floats have no name in C: they pass as uint16_t."""
    return name in ("f16", "bf16") and element == "u16"


def _types_of(d: Description, is_out: bool, index: int) -> list[str]:
    types = d.tables["types"]
    if not is_out:
        return types[index]["allowed"]
    if index < len(d.mutated):
        return types[d.params[d.mutated[index]]["tensor"]]["allowed"]
    rule = d.tables["out_types"][index - len(d.mutated)]
    if rule["kind"] == "fixed":
        return [rule["dtype"]]
    if rule["kind"] == "same":
        return types[rule["tensor"]]["allowed"]
    return []


def check_returns(prototype: Prototype, returns: str | None) -> None:
    if prototype.result != "void" and returns is None:
        raise ValueError(
            f"{prototype.name} returns a number; say what it is: "
            'returns="out" (the result), "status" (0 is right) or "ignored"'
        )


def _result(
    d: Description, names: Names, prototype: Prototype, returns: str | None,
    is_each: bool,
) -> tuple[int, int, bool]:
    """(mode, place in out, one call for every element)"""
    if prototype.result == "void":
        if returns is not None:
            raise ValueError(f"{d.name}: {prototype.name} returns nothing, "
                             f"and returns is {returns!r}")
        if is_each:
            raise ValueError(f"{d.name}: {prototype.name} takes elements "
                             "(x[i]), and returns nothing")
        return 0, -1, is_each
    check_returns(prototype, returns)
    assert returns is not None
    if is_each and returns in ("ignored", "status"):
        raise ValueError(
            f"{d.name}: a function that is called for every element (x[i]) "
            'returns the result: returns="out[i]"'
        )
    if returns in ("ignored", "status"):
        return (0 if returns == "ignored" else 1), -1, is_each
    name = returns.removesuffix("[i]")
    if name not in names.fresh:
        raise ValueError(
            f"{d.name}: returns is {returns!r}, wanted a result "
            f"({', '.join(names.fresh)}), \"status\" or \"ignored\""
        )
    fresh = names.fresh[name]
    names.used_outs.add(fresh)
    if is_each != (name != returns):
        raise ValueError(
            f"{d.name}: with elements (x[i]) the result is {name}[i], without "
            f"them it is {name}"
        )
    return 2, len(d.mutated) + fresh, is_each


# --- What the prototype says of the declaration ------------------------------------


def declare(
    prototype: Prototype, shape: str, call: str | None, returns: str | None,
    name: str,
) -> tuple[str, str]:
    """(schema, dtype) that follow: arguments are what the shape rule has left
    of the arrow, results are what else is written, the rest are numbers."""
    check_returns(prototype, returns)
    left, _, right = shape.partition("->")
    shaped = re.findall(r"(\w+)(\??)\s*(?=\[)", left)
    optional = {n for n, mark in shaped if mark}
    tensors = [n for n, _ in shaped]
    dims = set(re.findall(r"[*]?(\w+)", re.sub(r"\w+\??\s*(?=\[)", "", shape)))
    texts = parts(call) if call is not None else [
        p.name for p in prototype.parameters]
    _check_count(name, prototype, texts)
    arguments: list[str] = []
    types: dict[str, str] = {}
    results: dict[str, str] = {}
    seen: set[str] = set()
    for text, p in zip(texts, prototype.parameters):
        element = p.element if p.element not in (None, "DLTensor") else None
        if text in tensors and p.type != "ptr":
            raise ValueError(
                f"{name}: call: {text!r} for {p.text!r}: found a tensor, "
                f"wanted a number: {text}[i] for a call with every element, "
                f"{text}.numel, {text}.size(0), …"
            )
        bare = text.replace("[i]", "")
        for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", bare):
            if word in ("len", "NULL", "None", "stream") or word in dims:
                continue
            if re.search(rf"\b{word}\[i\]", text):
                element = p.type
            if word in tensors:
                if element:
                    types.setdefault(word, element)
                if word not in seen:
                    mark = "(a!)" if p.type == "ptr" and not p.is_const else ""
                    opt = "?" if word in optional else ""
                    arguments.append(f"Tensor{mark}{opt} {word}")
            elif p.type == "ptr" or "." in bare:
                if element:
                    results.setdefault(word, element)
                elif word not in results:
                    results[word] = ""
            elif word not in seen:
                kind = "float" if p.type in ("f32", "f64") else "int"
                arguments.append(f"{kind} {word}")
            seen.add(word)
    arguments = _lettered(arguments)
    if returns not in (None, "ignored", "status"):
        results.setdefault(str(returns).removesuffix("[i]"), prototype.result)
    lone = len(results) == 1
    outs = [("Tensor" if lone else f"Tensor {r}") for r in results]
    back = outs[0] if lone else f"({', '.join(outs)})"
    entries = ", ".join(f"{n}: {_types_text(types[n])}" for n in tensors
                        if n in types)
    arrow = ", ".join(_types_text(t) or "f32" for t in results.values())
    return (f"{name}({', '.join(arguments)}) -> {back}",
            f"{entries} -> {arrow}")


def _types_text(element: str) -> str:
    return _ELEMENTS.get(element, element).partition("|")[0]


def _lettered(arguments: list[str]) -> list[str]:
    """Each mutated argument its own letter."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    return [a.replace("(a!)", f"({next(letters)}!)") if "(a!)" in a else a
            for a in arguments]


# --- Where the address comes from -------------------------------------------------


def capsule_address(capsule: Any) -> int:
    """A PyCapsule's pointer, whatever the capsule is called."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


_CTYPES = {
    ctypes.c_float: "float", ctypes.c_double: "double",
    ctypes.c_int8: "int8_t", ctypes.c_uint8: "uint8_t",
    ctypes.c_int16: "int16_t", ctypes.c_uint16: "uint16_t",
    ctypes.c_int32: "int32_t", ctypes.c_uint32: "uint32_t",
    ctypes.c_int64: "int64_t", ctypes.c_uint64: "uint64_t",
    ctypes.c_bool: "bool", ctypes.c_void_p: "const void *",
    ctypes.c_char_p: "const char *", None: "void",
}


def ctypes_prototype(fn: Any) -> str:
    """The prototype that a ctypes function's argtypes and restype say."""
    name = getattr(fn, "__name__", "callback")  # a Python function's has none
    if fn.argtypes is None:
        raise ValueError(
            f"{name}: a ctypes function without argtypes; set argtypes "
            "and restype, or adopt it by prototype="
        )

    def text(t: Any) -> str:
        if t in _CTYPES:
            return _CTYPES[t]
        if hasattr(t, "_type_") and t._type_ in _CTYPES:
            # ctypes has no const: what is written, the schema says.
            return f"const {_CTYPES[t._type_]} *"
        raise ValueError(f"{name}: {t} has no C type that is known here; "
                         "adopt it by prototype=")

    listed = ", ".join(text(t) for t in fn.argtypes) or "void"
    return f"{text(fn.restype)} {name}({listed})"


def ctypes_address(fn: Any) -> int:
    return ctypes.cast(fn, ctypes.c_void_p).value or 0
