# SPDX-License-Identifier: Apache-2.0
"""A shared object with the TensorFlow adapter (hosts/tensorflow), and its
operators."""

from __future__ import annotations

import os

from .._base import hosted
from .._base.shared import content, unchanged
from ._file import File
from ._operator import Operator


class Module(hosted.Module):
    """A loaded file; its operators are attributes.

    AttributeError for an operator that it lacks.

        >>> m = opgraft.tensorflow.load("softcap.so")
        >>> m.name
        'softcap'
        >>> x = tf.constant([0.0, 1000.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = tf.reduce_sum(m.softcap(x))
        >>> tape.gradient(y, x).numpy().tolist()
        [1.0, 0.0]
    """

    host, title, operator = "tensorflow", "TensorFlow", Operator


def load(path: str | os.PathLike[str]) -> Module:
    """The operators of a shared object that was built with `--hosts
    tensorflow`. A file with the content of a loaded one gives that module
    again.

    ImportError where the file cannot be loaded, or was built without the host.

        >>> m = opgraft.tensorflow.load("softcap.so")
        >>> tf.function(m.softcap)(tf.constant([0.0, 100.0])).numpy().round(2)
        array([ 0.  , 29.92], dtype=float32)
    """
    place = unchanged(path)
    digest = content(place)[1]
    return Module.once(digest, lambda: File(place, digest))
