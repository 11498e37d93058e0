# SPDX-License-Identifier: Apache-2.0
"""The calls in TensorFlow."""

from __future__ import annotations

import functools
import os
import pathlib
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import cases  # noqa: E402
import hosting  # noqa: E402
import tensorflow as tf  # noqa: E402

import opgraft.tensorflow  # noqa: E402

load = functools.cache(opgraft.tensorflow.load)


def call(path: pathlib.Path, case: cases.Case) -> list[Any]:
    try:
        operator = load(path)[case.op]
    except AttributeError as error:
        raise hosting.Missing(str(error)) from None
    out = operator(*case.args, **case.kwargs)
    return [a.numpy() for a in tf.nest.flatten(out) if a is not None]


if __name__ == "__main__":
    hosting.main(call)
