# SPDX-License-Identifier: Apache-2.0
"""C symbols: prototypes, libraries, and what C makes of both."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from .. import _C
from .._base.counted import counted
from .._base.rules import Description
from . import ctypes_functions, structs
from .foreign import Structures
from .maps import Names, parts, shown

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
    struct: Any = None  # a ctypes.Structure; type is "ptr" or "struct"


@dataclass
class Prototype:
    name: str
    result: str
    parameters: list[Parameter]
    text: str
    user_data: int | None = None  # what `call` names so


def parse(text: str, structures: Structures | None = None) -> Prototype:
    """`structures`: what the prototype names beside the types of C."""
    head, _, rest = text.strip().partition("(")
    match = re.fullmatch(r"(.+[\s*])(\w+)\s*", head, re.S)
    rest = rest.removesuffix(";").rstrip()
    if match is None or not rest.endswith(")"):
        raise ValueError(
            f"{shown(text)} is not a C prototype, expected one such as "
            '"void silu(float *out, const float *x, int64_t n)"'
        )
    result, name, inside = match[1], match[2], rest[:-1].strip()
    listed = [] if inside in ("", "void") else [
        _parameter(p.strip(), name, structures or {})
        for p in inside.split(",")]
    kind = _type(result, f"{name}: its result", structures or {})
    if kind.type in ("ptr", "struct"):
        what = "pointer" if kind.type == "ptr" else "struct"
        raise ValueError(
            f"{name}: returns a {what}, expected a number or nothing; adopt a "
            "Python function that calls it and returns a tensor")
    return Prototype(name, kind.type, listed, text.strip())


def _parameter(
    text: str, function: str, structures: Structures
) -> Parameter:
    if "[" in text:
        text = re.sub(r"(\w+)\s*\[[^\]]*\]", r"*\1", text)
    if "(" in text or text == "...":
        raise ValueError(
            f"{function}: parameter {text!r}: functions and variable arguments "
            "cannot be passed"
        )
    words = re.fullmatch(r"(.*?[\s*])(\w+)", text, re.S)
    name = ""
    if words is not None and not (
            _is_type_word(words[2]) or words[2] in structures):
        text_type, name = words[1], words[2]
    else:
        text_type = text
    found = _type(text_type, f"{function}: parameter {text!r}", structures)
    found.name, found.text = name, text
    return found


def _is_type_word(word: str) -> bool:
    return any(word in t.split() for t in _TYPES) or word in (
        "const", "restrict")


def _type(text: str, what: str, structures: Structures) -> Parameter:
    stars = text.count("*")
    base = re.sub(r"\b(const|restrict|volatile|struct|extern|static|inline)\b",
                  " ", text.replace("*", " "))
    base = " ".join(base.split())
    is_const = re.search(r"\bconst\b", text.partition("*")[0]) is not None
    if base == "DLTensor" and stars == 1:
        return Parameter("ptr", "DLTensor", is_const, "", text)
    if base in structures and stars <= 1:
        return Parameter("ptr" if stars else "struct", None, is_const, "", text,
                         structures[base])
    if base not in _TYPES:
        raise ValueError(
            f"{what} has the type {base!r}, expected a type of C or stdint.h "
            f"({', '.join(t for t in _TYPES if ' ' not in t)}); write a typedef "
            "as what it stands for, and adopt what takes a struct as a "
            "function of ctypes or cffi, which say its fields"
        )
    kind = _TYPES[base]
    if stars == 0:
        return Parameter(kind, None, is_const, "", text)
    element = None if kind == "void" or stars > 1 else kind
    return Parameter("ptr", element, is_const, "", text)


# --- The declaration and the prototype --------------------------------------------


def payload(
    d: Description, prototype: Prototype, address: int, holder: Any,
    call: str | None, returns: str | None,
) -> tuple[str, Any]:
    """What hosts/torch/adopt_c.c reads."""
    refuse_lists(d)
    texts = parts(call) if call is not None else _by_name(d, prototype)
    _check_count(d.name, prototype, texts)
    names = Names(d, "data", prototype.user_data)
    arguments = [(p.type, _argument(d, names, p, text))
                 for text, p in zip(texts, prototype.parameters)]
    has_structs = any(p.struct is not None for p in prototype.parameters)
    is_each = any(s[0] == "element" for steps in _programs(arguments)
                  for s in steps)
    mode, out, is_each = _result(d, names, prototype, returns, is_each)
    unused = [n for n, i in names.fresh.items() if i not in names.used_outs]
    if unused:
        raise ValueError(
            f"{d.name}: nothing writes result {', '.join(unused)}; pass it in "
            "call, or say returns="
            f'"{unused[0]}" where the function returns it'
        )
    if has_structs:
        return ctypes_functions.payload(d, ctypes_functions.Function(
            d, holder, address, arguments, prototype.result, mode, out,
            is_each))
    if not HAS_FFI and not _goes_by_register(arguments) and (
            prototype.result != "ptr") and not any(
            step[0] == "dl" for _, steps in arguments for step in steps):
        ctypes_functions.warn(d, len(arguments))
        return ctypes_functions.payload(d, ctypes_functions.Function(
            d, holder, address, arguments, prototype.result, mode, out,
            is_each))
    return "c", (holder, address, arguments, prototype.result, mode, out,
                 is_each)


def _argument(d: Description, names: Names, p: Parameter, text: str) -> Any:
    """The program of one argument, or the struct that it is."""
    def leaf(kind: str, value: str, where: str) -> tuple[str, Any]:
        field = _type(kind, where, {})
        field.text = where
        steps = names.program(value)
        _check_argument(d, names, field, value, steps)
        return field.type, steps

    if p.struct is not None:
        return structs.read(p.struct, p.type == "ptr", text,
                                  f"{d.name}: call", leaf)
    steps = names.program(text)
    _check_argument(d, names, p, text, steps)
    return steps


def _programs(arguments: list[tuple[str, Any]]) -> list[Any]:
    return [steps for _, value in arguments for _, steps in (
        value.leaves() if isinstance(value, structs.Struct)
        else [(None, value)])]


def _goes_by_register(arguments: list[Any]) -> bool:
    words, reals = _C.REGISTERS
    count = sum(kind in ("f32", "f64") for kind, _ in arguments)
    return count <= reals and len(arguments) - count <= words


def _check_count(name: str, prototype: Prototype, texts: list[str]) -> None:
    if len(texts) != len(prototype.parameters):
        raise ValueError(
            f"{name}: call has {counted(len(texts), 'argument')}, "
            f"{prototype.name} takes {len(prototype.parameters)}: {prototype.text}"
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
            "finds, needs an operator file; see docs/authors-guide.md"
        )


def _by_name(d: Description, prototype: Prototype) -> list[str]:
    """Without a mapping, a parameter's name is its meaning."""
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
    where = f"{d.name}: call: {shown(text)} for {shown(p.text)}"
    is_pointer = len(steps) == 1 and step[0] in (
        "data", "dl", "shape", "strides", "attr_data", "nil", "stream",
        "address")
    attr = next((a["type"] for a in names.attrs.values()
                 if a["attr"] == step[2]), None) if step[0] == "attr" else None
    if len(steps) == 1 and attr is not None:
        is_pointer = attr == "str"
    if is_pointer != (p.type == "ptr"):
        raise ValueError(
            f"{where}: found {'a pointer' if is_pointer else 'a number'}, "
            f"expected {'a pointer' if p.type == 'ptr' else 'a number'}"
        )
    is_real = step[0] == "real" or attr == "float"
    if is_real and len(steps) == 1 and p.type not in ("f32", "f64"):
        raise ValueError(f"{where}: found a float, expected an int")
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
            f"{where}: its type may be {wrong[0]}, expected {p.element} as the "
            f"prototype says; fix dtype: \"{text.split('.')[0]}: "
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
            f"{d.name}: returns is {returns!r}, expected a result "
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
    name: str, is_whole: bool, has_dtype: bool,
) -> tuple[str, str | None]:
    """(schema, dtype) that follow: arguments stand in the shape rule left
    of the arrow, results are the other written ones, the rest are numbers.
    `is_whole`: no schema was said; dtype is None where nothing tells it."""
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
    pointed: list[str] = []  # tensors whose elements it gets
    for text, p in _flat(texts, prototype, name):
        element = p.element if p.element not in (None, "DLTensor") else None
        if text in tensors and p.type != "ptr":
            raise ValueError(
                f"{name}: call: {text!r} for {p.text!r}: found a tensor, "
                f"expected a number: {text}[i] for a call with every element, "
                f"{text}.numel, {text}.size(0), …"
            )
        bare = text.replace("[i]", "")
        for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", bare):
            if word in dims or word in (
                    "len", "NULL", "None", "stream", "user_data"):
                continue
            if re.search(rf"\b{word}\[i\]", text):
                element = p.type
            if word in tensors:
                if element:
                    types.setdefault(word, element)
                elif text in (word, f"{word}.data"):
                    pointed.append(word)
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
    if is_whole and right.strip() and not results:
        raise ValueError(
            f"{name}: the shape rule has a result ({right.strip()}), and "
            "nothing in call is one; pass it by a name that stands nowhere "
            'left of the arrow (out), or say returns="out"')
    count = len(parts(right)) if right.strip() else 0
    if is_whole and count and len(results) > count:
        raise ValueError(
            f"{name}: call writes {', '.join(results)}, and the shape rule has "
            f"{count} result{'s' if count > 1 else ''} ({right.strip()}); name "
            "what is read left of the arrow, and give each result a shape")
    unknown = [n for n, element in results.items() if not element] + [
        n for n in pointed if n not in types]
    if is_whole and not has_dtype and unknown:
        raise ValueError(
            f"{name}: the prototype does not say the type of "
            f"{', '.join(unknown)} (void *, or of no pointer); give dtype=, "
            'e.g. "x: f32 -> f32"')
    outs = [f"Tensor {r}" for r in results]
    back = "Tensor" if list(results) == ["out"] else f"({', '.join(outs)})"
    entries = ", ".join(f"{n}: {_types_text(types[n])}" for n in tensors
                        if n in types)
    arrow = ", ".join(map(_types_text, results.values()))
    return (f"{name}({', '.join(arguments)}) -> {back}",
            None if unknown else f"{entries} -> {arrow}")


def _flat(
    texts: list[str], prototype: Prototype, name: str
) -> list[tuple[str, Parameter]]:
    """Arguments and, of structs, their fields."""
    out: list[tuple[str, Parameter]] = []
    for text, p in zip(texts, prototype.parameters):
        if p.struct is None:
            out.append((text, p))
            continue

        def leaf(kind: str, value: str, where: str) -> tuple[None, None]:
            field = _type(kind, where, {})
            field.text = where
            out.append((value, field))
            return None, None

        structs.read(p.struct, p.type == "ptr", text, f"{name}: call",
                           leaf)
    return out


def _types_text(element: str) -> str:
    return _ELEMENTS.get(element, element).partition("|")[0]


def _lettered(arguments: list[str]) -> list[str]:
    """Each mutated argument its own letter."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    return [a.replace("(a!)", f"({next(letters)}!)") if "(a!)" in a else a
            for a in arguments]
