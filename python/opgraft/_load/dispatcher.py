# SPDX-License-Identifier: Apache-2.0
"""Registration with torch, without what torch.library looks up at each call.

Library.define makes the operator's Python object and makes it anew for each
overload that follows; Library.impl asks the dispatcher for kernels that an
operator of ours cannot have; register_fake reads its caller's source, which
takes a millisecond. Each function here takes the short way and writes the same
records, or calls torch's own function where their parts moved.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.library import Library

from . import withdrawn


def define(
    library: Library, name: str, schema: str, tags: tuple[Any, ...]
) -> None:
    """Library.define; `name` is the schema's, with overload."""
    space = getattr(torch.ops, library.ns)
    qualified = f"{library.ns}::{name}"
    try:
        short, own, known = (library.m.define, library._op_defs,
                             torch.library._defs)
    except AttributeError:
        short = None
    try:
        if short is None or name.partition(".")[0] in vars(space):
            library.define(schema, tags=tags)
        else:
            short(schema, "", tags)
            own.add(qualified)
            known.add(qualified)
    except (RuntimeError, IndexError) as error:  # IndexError: of a number
        _see_schema(qualified, schema, error)
        raise
    withdrawn.drop_entry(qualified)


def _see_schema(qualified: str, schema: str, error: Exception) -> None:
    """Raises where torch's parser does not take the schema."""
    try:
        torch._C.parse_schema(schema)
    except (RuntimeError, IndexError):
        reason = str(error).strip().partition("\n")[0].rstrip(": ")
        raise RuntimeError(
            f"{qualified}: PyTorch does not take the schema {schema!r} "
            f"({reason}); expected defaults that its schemas have: finite "
            "numbers, no list of str") from None


def impl(
    library: Library, name: str, kernel: Callable[..., Any], key: str, *,
    with_keyset: bool = False,
) -> None:
    """Library.impl for an operator of the library's namespace."""
    try:
        short, own, known = (library.m.impl, library._op_impls,
                             torch.library._impls)
    except AttributeError:
        library.impl(name, kernel, key, with_keyset=with_keyset)
        return
    short(name, key, kernel, with_keyset)
    qualified = f"{library.ns}/{name}/{key}"
    own.add(qualified)
    known.add(qualified)


def register_fake(
    library: Library, qualified: str, fake: Callable[..., Any]
) -> None:
    """torch.library.register_fake. The operator may be another library's, so
    Library.impl looks for kernels that exclude a fake."""
    try:
        from torch._library.simple_registry import singleton

        handle = singleton.find(qualified).fake_impl.register(
            fake, "opgraft", lib=library
        )
        library._registration_handles.append(handle)
    except (ImportError, AttributeError, TypeError):
        torch.library.register_fake(qualified, fake, lib=library)
