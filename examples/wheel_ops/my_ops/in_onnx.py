# SPDX-License-Identifier: Apache-2.0
"""The operators as nodes of ONNX models: module.node, module.session."""

import opgraft.onnx

from . import PATH

module = opgraft.onnx.load(PATH)
