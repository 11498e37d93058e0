# SPDX-License-Identifier: Apache-2.0
"""Random row programs (tests/tools/loop_cases.c) against NumPy: the same bits.

A program's text is read as Python's and computed in arrays of float32, so
nothing of src/loop or src/scalar takes part. Functions are libm's, of single
precision, as the tool's are; the rest is NumPy's.
"""

from __future__ import annotations

import ast
import ctypes
import ctypes.util
import functools
import json
import os
import pathlib
import subprocess
from typing import IO, Any, Callable, Iterator

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16,
         "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
         "u8": np.uint8, "bool": np.uint8}
CONSTANTS = {"half": 0.5, "sqrt_half": 0.5 ** 0.5, "gelu_cubic": 0.044715}
PARTIALS = 32
SUM_RUN = 4096  # elements that partial sums take
PROGRAMS = 20_000

Array = np.ndarray[Any, Any]


class NoOneAnswer(Exception):
    """What a NaN is asked for has no one answer: its sign, or a power of it,
    which is 1 for a quiet one and NaN for a signalling one."""


# --- Primitives ---------------------------------------------------------------


@functools.cache
def libm(name: str, operands: int) -> Callable[..., Array]:
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), f"{name}f")
    function.restype = ctypes.c_float
    function.argtypes = [ctypes.c_float] * operands

    def run(*arrays: Array) -> Array:
        same = np.broadcast_arrays(*arrays)
        columns = [x.ravel().tolist() for x in same]
        return np.array([function(*row) for row in zip(*columns)],
                        np.float32).reshape(same[0].shape)

    return run


def power(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    if (np.isnan(a) & (b == 0) | np.isnan(b) & (a == 1)).any():
        raise NoOneAnswer
    return libm("pow", 2)(a, b)


def hypot(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    if (np.isnan(a) & np.isinf(b) | np.isnan(b) & np.isinf(a)).any():
        raise NoOneAnswer
    return libm("hypot", 2)(a, b)


def signs(x: Array) -> Array:
    if np.isnan(x).any():
        raise NoOneAnswer
    return np.signbit(x)


def remainder(a: Array, b: Array) -> Array:
    r = np.fmod(a, b)
    return np.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


def floor_div(a: Array, b: Array) -> Array:
    r = np.fmod(a, b)
    q = (a - r) / b
    q = np.where((r != 0) & ((r < 0) != (b < 0)), q - np.float32(1), q)
    whole = np.floor(q)
    whole = np.where(q - whole > np.float32(0.5), whole + np.float32(1), whole)
    whole = np.where(q == 0, np.copysign(np.float32(0), a / b), whole)
    return np.where(b == 0, a / b, whole)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "abs": np.abs, "fmod": np.fmod,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "sigmoid": lambda x: np.float32(1) / (np.float32(1) + libm("exp", 1)(-x)),
    "trunc_div": lambda a, b: np.trunc(a / b),
    "floor_div": floor_div,
    "remainder": remainder,
    "min": lambda a, b: np.where(np.isnan(a) | (a < b), a, b),
    "max": lambda a, b: np.where(np.isnan(a) | (a > b), a, b),
    "sign_bit": signs,
    "copysign": lambda a, b: np.where(signs(b), -np.abs(a), np.abs(a)),
    "is_inf": np.isinf,
    "select": lambda a, b, c: np.where(a != 0, b, c),
    "fma": libm("fma", 3), "pow": power, "hypot": hypot,
}
OPERATORS: dict[type, Callable[..., Array]] = {
    ast.USub: np.negative, ast.Not: lambda a: a == 0,
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply,
    ast.Div: np.divide, ast.Eq: np.equal, ast.NotEq: np.not_equal,
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.And: lambda a, b: (a != 0) & (b != 0),
    ast.Or: lambda a, b: (a != 0) | (b != 0),
}


# --- Programs -----------------------------------------------------------------


def reduced(kind: str, x: Array, width: int) -> Array:
    """32 partial results, of elements i modulo 32, joined in halves."""
    start, join = {"row_sum": (0.0, np.add),
                   "row_max": (-np.inf, FUNCTIONS["max"]),
                   "row_min": (np.inf, FUNCTIONS["min"])}[kind]
    x = np.broadcast_to(x, (x.shape[0], width))
    padded = np.full((x.shape[0], -(-width // PARTIALS) * PARTIALS), start,
                     np.float32)
    padded[:, :width] = x
    partials = np.full((x.shape[0], PARTIALS), start, np.float32)
    totals = np.zeros_like(partials)
    for at in range(0, padded.shape[1], PARTIALS):
        if (kind == "row_sum" and at > 0 and at % SUM_RUN == 0
                and width - at >= PARTIALS):
            totals, partials = totals + partials, np.zeros_like(partials)
        partials = join(partials, padded[:, at:at + PARTIALS])
    partials = totals + partials if kind == "row_sum" else partials
    while partials.shape[1] > 1:
        half = partials.shape[1] // 2
        partials = join(partials[:, :half], partials[:, half:])
    return partials


def running(kind: str, x: Array, width: int) -> Array:
    """Sums along each row, in double, from one of its ends."""
    whole = np.broadcast_to(x, (x.shape[0], width)).astype(np.float64)
    step = -1 if kind == "row_cumsum_reversed" else 1
    sums = np.cumsum(whole[:, ::step], axis=1)[:, ::step] + 0.0  # from 0 on
    return sums.astype(np.float32)


class Rows:
    """The names of a program, with one row for each of its rows; a value that
    has one element for the row is one column."""

    def __init__(self, rows: int, width: int, inputs: list[Array]) -> None:
        self.rows, self.width = rows, width
        self.names = {f"x{k}": x for k, x in enumerate(inputs)}

    def number(self, value: float) -> Array:
        return np.full((self.rows, 1), value, np.float32)

    def value(self, e: ast.expr) -> Array:
        return self.parts(e).astype(np.float32, copy=False)

    def parts(self, e: ast.expr) -> Array:
        match e:
            case ast.Constant(value=float() | int() as value):
                return self.number(value)
            case ast.Name(id="width"):
                return self.number(self.width)
            case ast.Name(id=name) if name in CONSTANTS:
                return self.number(CONSTANTS[name])
            case ast.Name(id=name):
                return self.names[name]
            case ast.UnaryOp(op=op, operand=a):
                return OPERATORS[type(op)](self.value(a))
            case ast.BinOp(left=a, op=op, right=b):
                return OPERATORS[type(op)](self.value(a), self.value(b))
            case ast.Compare(left=a, ops=[op], comparators=[b]):
                return OPERATORS[type(op)](self.value(a), self.value(b))
            case ast.BoolOp(op=op, values=[a, b]):
                return OPERATORS[type(op)](self.value(a), self.value(b))
            case ast.Call(func=ast.Name(id=name), args=args):
                operands = [self.value(a) for a in args]
                if name.startswith("row_cumsum"):
                    return running(name, operands[0], self.width)
                if name.startswith("row_"):
                    return reduced(name, operands[0], self.width)
                if name == "round_to":
                    return rounded({8: "bf16", 11: "f16"}[
                        int(operands[1].flat[0])], operands[0])
                function = FUNCTIONS.get(name) or libm(name, len(operands))
                return function(*operands)
        raise ValueError(ast.dump(e))

    def run(self, text: str) -> None:
        for statement in ast.parse(text.replace("; ", "\n")).body:
            assert isinstance(statement, ast.Assign)
            name = statement.targets[0]
            assert isinstance(name, ast.Name)
            self.names[name.id] = self.value(statement.value)


# --- Types --------------------------------------------------------------------


def widened(dtype: str, x: Array) -> Array:
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float32)


def rounded(dtype: str, x: Array) -> Array:
    """To a floating-point type and back."""
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = x.view(np.uint32)
        up = (bits + 0x7fff + (bits >> 16 & 1)) & np.uint32(0xffff0000)
        return np.where(np.isnan(x), x, up.view(np.float32))
    return x


def is_right(dtype: str, found: Array, x: Array) -> Array:
    """Integers are compared where a cast of the number has one meaning."""
    if dtype == "bool":
        return found == (x != 0)
    if dtype in ("f32", "f16", "bf16"):
        a, b = widened(dtype, found), rounded(dtype, x)
        return ((a == b) & (np.signbit(a) == np.signbit(b))
                | np.isnan(a) & np.isnan(b))
    has_meaning = np.abs(x) < 100
    whole = np.where(has_meaning, x, 0).astype(np.int32)
    return ~has_meaning | (found == whole.astype(TYPES[dtype]))


# --- Cases --------------------------------------------------------------------


class Case:
    """A program, what it read and what it computed."""

    def __init__(self, line: bytes, pipe: IO[bytes]) -> None:
        said = json.loads(line)
        self.text, self.by = said["text"], said["by"]
        self.rows, self.width = said["rows"], said["width"]
        self.inputs = [self.operand(pipe, *form) for form in said["in"]]
        self.outputs = [self.operand(pipe, *form) for form in said["out"]]

    def operand(self, pipe: IO[bytes], dtype: str, form: str
                ) -> tuple[str, Array]:
        shape = self.rows, 1 if form == "row" else self.width
        count = shape[0] * shape[1] * np.dtype(TYPES[dtype]).itemsize
        data = np.frombuffer(bytearray(pipe.read(count)), TYPES[dtype])
        return dtype, data.reshape(shape)

    def wrong(self) -> str:
        """Where it differs from NumPy; empty if nowhere."""
        rows = Rows(self.rows, self.width,
                    [widened(*operand) for operand in self.inputs])
        rows.run(self.text)
        for k, (dtype, found) in enumerate(self.outputs):
            expected = np.broadcast_to(rows.names[f"y{k}"], found.shape)
            for r, i in np.argwhere(~is_right(dtype, found, expected)):
                return (f"y{k}[{r}, {i}] is {found[r, i]} ({dtype}), by NumPy "
                        f"{expected[r, i]!r}; width {self.width}, {self.text}")
        return ""


def cases(count: int, isa: str | None) -> Iterator[Case]:
    tool = BUILD / "tests" / "tools" / "loop_cases"
    if not tool.exists():
        pytest.skip("the test tools are not built: make build")
    env = dict(os.environ)
    if isa is not None:
        env["OPGRAFT_ISA"] = isa
    with subprocess.Popen([tool, str(count)], env=env,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Case(line, process.stdout)
    assert process.returncode == 0


# The interpreter, and what the set in use is encoded for.
@pytest.mark.full
@pytest.mark.parametrize("isa", ["scalar", None])
def test_row_programs_equal_numpy(isa: str | None) -> None:
    compared = met = 0
    with np.errstate(all="ignore"):
        for case in cases(PROGRAMS, isa):
            met += 1
            assert (case.by == "interpreter") == (isa == "scalar") or not isa
            try:
                assert case.wrong() == ""
                compared += 1
            except NoOneAnswer:
                continue
    print(f"{compared} of {met} programs equal NumPy, by {case.by}")
    assert met == PROGRAMS and compared >= 0.95 * PROGRAMS


def test_one_wrong_bit_is_seen() -> None:
    seen = asked = 0
    with np.errstate(all="ignore"):
        for case in cases(100, None):
            dtype, found = case.outputs[0]
            try:
                if found.size == 0 or dtype not in ("f32", "bf16", "f16") or (
                        case.wrong() or np.isnan(widened(dtype, found)).all()):
                    continue
            except NoOneAnswer:
                continue
            at = np.argwhere(~np.isnan(widened(dtype, found)))[0]
            found.view(np.uint8)[at[0], at[1] * found.itemsize] ^= 1
            asked += 1
            seen += case.wrong().startswith("y0[")
    assert seen == asked > 20
