# SPDX-License-Identifier: Apache-2.0
"""A device's driver as a device of torch: `opgraft.load_device`."""
