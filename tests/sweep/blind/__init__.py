# SPDX-License-Identifier: Apache-2.0
"""Cases of the blind sweep over docs/adopt.md."""
