# SPDX-License-Identifier: Apache-2.0
"""Functions of ctypes, cffi, numba and scipy: the prototype that each tells by
itself, where its code lies, and what keeps it there."""

from __future__ import annotations

import ctypes
import sys
from _ctypes import CFuncPtr
from dataclasses import dataclass, field
from typing import Any

from .libraries import library

Structures = dict[str, Any]  # ctypes.Structure classes by name

_CTYPES = {
    ctypes.c_float: "float", ctypes.c_double: "double",
    ctypes.c_int8: "int8_t", ctypes.c_uint8: "uint8_t",
    ctypes.c_int16: "int16_t", ctypes.c_uint16: "uint16_t",
    ctypes.c_int32: "int32_t", ctypes.c_uint32: "uint32_t",
    ctypes.c_int64: "int64_t", ctypes.c_uint64: "uint64_t",
    ctypes.c_longlong: "int64_t", ctypes.c_ulonglong: "uint64_t",
    ctypes.c_bool: "bool", ctypes.c_char: "char",
    ctypes.c_void_p: "const void *", ctypes.c_char_p: "const char *",
    None: "void",
}
_NUMPY = {"float32": "float", "float64": "double", "bool": "bool"}


@dataclass
class Foreign:
    """A function of another package, as text for c_functions.parse."""

    name: str
    prototype: str
    address: int
    holder: Any
    structures: Structures = field(default_factory=dict)
    user_data: int | None = None  # of a LowLevelCallable


def foreign(fn: Any) -> Foreign | None:
    """None where it is of none of these packages."""
    if isinstance(fn, CFuncPtr):
        return _of_ctypes(fn, getattr(fn, "__name__", "callback"))
    for package, reader in (("scipy", _of_scipy), ("numba", _of_numba),
                            ("_cffi_backend", _of_cffi)):
        if package in sys.modules:
            found = reader(fn)
            if found is not None:
                return found
    return None


# --- ctypes -----------------------------------------------------------------------


def _of_ctypes(fn: Any, name: str) -> Foreign:
    if fn.argtypes is None:
        raise ValueError(
            f"{name}: a ctypes function without argtypes; set argtypes "
            "and restype, or adopt it by prototype="
        )
    structures: Structures = {}
    listed = ", ".join(ctypes_text(t, name, structures) for t in fn.argtypes)
    result = ctypes_text(fn.restype, name, structures)
    return Foreign(name, f"{result} {name}({listed or 'void'})",
                   ctypes_address(fn), fn, structures)


def ctypes_text(kind: Any, name: str, structures: Structures) -> str:
    """A ctypes type in C. ctypes has no const: what is written, the schema
    says."""
    if kind in _CTYPES:
        return _CTYPES[kind]
    if hasattr(kind, "_dtype_"):  # numpy.ctypeslib.ndpointer
        text = str(kind._dtype_)
        return f"const {_NUMPY.get(text, text + '_t')} *"
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
        structures[kind.__name__] = kind
        return kind.__name__
    inner = getattr(kind, "_type_", None)
    if inner in _CTYPES and inner is not None or (
            isinstance(inner, type) and issubclass(inner, ctypes.Structure)):
        return f"const {ctypes_text(inner, name, structures)} *"
    raise ValueError(f"{name}: {kind} has no C type that is known here; "
                     "adopt it by prototype=")


def ctypes_address(fn: Any) -> int:
    return ctypes.cast(fn, ctypes.c_void_p).value or 0


def capsule_address(capsule: Any) -> int:
    """A PyCapsule's pointer, whatever the capsule is called."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


# --- numba, scipy -----------------------------------------------------------------


def _of_numba(fn: Any) -> Foreign | None:
    if not isinstance(fn, getattr(sys.modules.get("numba.core.ccallback"),
                                  "CFunc", ())):
        return None
    found = _of_ctypes(fn.ctypes, fn.__name__)
    found.holder = fn
    return found


def _of_scipy(fn: Any) -> Foreign | None:
    """A LowLevelCallable: a function of another kind and what it is given, or a
    capsule that is named as its signature."""
    kind = getattr(sys.modules.get("scipy._lib._ccallback"),
                   "LowLevelCallable", ())
    if not isinstance(fn, kind):
        return None
    if type(fn.function).__name__ == "PyCapsule":
        result, _, rest = fn.signature.partition("(")
        found = Foreign("low_level", f"{result.strip()} low_level({rest}",
                        capsule_address(fn.function), fn)
    else:
        known = foreign(fn.function)
        if known is None:
            raise TypeError(
                f"{fn!r}: its function is a {type(fn.function)}, expected a "
                "ctypes or cffi function or a PyCapsule; adopt its .function")
        found = known
    found.holder = fn
    if fn.user_data is not None:
        found.user_data = _pointer(fn.user_data)
    return found


def _pointer(value: Any) -> int:
    if type(value).__name__ == "PyCapsule":
        return capsule_address(value)
    if _is_cdata(value):
        return _cffi_address(value)
    return ctypes.cast(value, ctypes.c_void_p).value or 0


# --- cffi -------------------------------------------------------------------------


def _is_cdata(value: Any) -> bool:
    backend = sys.modules.get("_cffi_backend")
    return backend is not None and isinstance(value, backend._CDataBase)


def _cffi_address(value: Any) -> int:
    return int(sys.modules["_cffi_backend"].FFI().cast("intptr_t", value))


def _of_cffi(fn: Any) -> Foreign | None:
    """A function pointer (ABI mode, callbacks), or a compiled lib's function."""
    ffi = sys.modules["_cffi_backend"].FFI()
    owner = getattr(fn, "__self__", None)
    name = str(getattr(fn, "__name__", ""))
    name = name if name.isidentifier() else "callback"
    if type(owner).__name__ == "Lib" and callable(fn):
        pointer, holder = ffi.addressof(owner, name), fn
    elif _is_cdata(fn):
        pointer = holder = fn
    else:
        return None
    kind = ffi.typeof(pointer)
    if kind.kind != "function":
        raise TypeError(f"{fn!r} is cffi data of type {kind.cname!r}, expected "
                        "a function")
    address = _cffi_address(pointer)
    symbol, path = _symbol_of(address)
    if path is not None and pointer is fn:
        name, holder = symbol or name, (fn, library(path))
    if kind.ellipsis:
        raise ValueError(f"{name}: takes variable arguments, which cannot be "
                         "passed; adopt a function that calls it")
    structures: Structures = {}
    listed = ", ".join(_cffi_text(ffi, a, name, structures) for a in kind.args)
    return Foreign(name, f"{_cffi_text(ffi, kind.result, name, structures)} "
                   f"{name}({listed or 'void'})", address, holder, structures)


class _Symbol(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _symbol_of(address: int) -> tuple[str | None, str | None]:
    """(name, library) of an address: cffi unmaps a library with its lib
    object, and operators call it for longer."""
    found = _Symbol()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Symbol)]
    if not dladdr(address, ctypes.byref(found)) or not found.file:
        return None, None
    name = found.name.decode() if (
        found.name and found.address == address) else None
    return name, found.file.decode()


def _cffi_text(ffi: Any, kind: Any, name: str, structures: Structures) -> str:
    """A cffi type in C; cffi drops const."""
    if kind.kind in ("void", "primitive"):
        return str(kind.cname)
    if kind.kind == "enum":
        return "int"
    if kind.kind == "struct":
        made = _cffi_structure(ffi, kind, name)
        structures[made.__name__] = made
        return str(made.__name__)
    if kind.kind in ("pointer", "array") and kind.item.kind in (
            "void", "primitive", "struct"):
        return f"const {_cffi_text(ffi, kind.item, name, structures)} *"
    raise ValueError(f"{name}: {kind.cname!r} cannot be passed; expected "
                     "numbers, and pointers to numbers or to a struct")


def _cffi_structure(ffi: Any, kind: Any, name: str) -> Any:
    """The struct as ctypes has it, laid out as cffi says."""
    if kind.fields is None:
        raise ValueError(f"{name}: {kind.cname!r} has no fields that are known; "
                         "give them in ffi.cdef")
    label = kind.cname.removeprefix("struct ")
    made: Any = type(label, (ctypes.Structure,), {"_fields_": [
        (key, _cffi_field(ffi, f.type, f"{name}: {label}.{key}"))
        for key, f in kind.fields]})
    differing = [key for key, f in kind.fields
                 if getattr(made, key).offset != f.offset or f.bitsize >= 0]
    if differing or ctypes.sizeof(made) != ffi.sizeof(kind):
        raise ValueError(
            f"{name}: {kind.cname!r} is packed or has bit fields "
            f"({', '.join(differing)}); adopt a function that fills it")
    return made


def _cffi_field(ffi: Any, kind: Any, name: str) -> Any:
    if kind.kind == "primitive" or kind.kind == "enum":
        size = ffi.sizeof(kind)
        if kind.cname in ("float", "double"):
            return ctypes.c_float if size == 4 else ctypes.c_double
        is_signed = int(ffi.cast(kind, -1)) < 0
        return getattr(ctypes, f"c_{'' if is_signed else 'u'}int{8 * size}")
    if kind.kind == "struct":
        return _cffi_structure(ffi, kind, name)
    if kind.kind == "array":
        return _cffi_field(ffi, kind.item, name) * kind.length
    if kind.kind == "pointer" and kind.item.kind == "primitive":
        return ctypes.POINTER(_cffi_field(ffi, kind.item, name))
    if kind.kind == "pointer" and kind.item.kind == "struct":
        return ctypes.POINTER(_cffi_structure(ffi, kind.item, name))
    return ctypes.c_void_p
