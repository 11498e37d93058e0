# SPDX-License-Identifier: Apache-2.0
"""What every part uses: the rules of declarations, the host, the log, locks."""
