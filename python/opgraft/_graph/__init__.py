# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile, and frozen graphs."""
