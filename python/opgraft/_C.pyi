# SPDX-License-Identifier: Apache-2.0
# The extension module, for type checkers: hosts/torch says what it holds.
from typing import Any

def __getattr__(name: str) -> Any: ...
