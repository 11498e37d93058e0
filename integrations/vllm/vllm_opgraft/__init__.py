# SPDX-License-Identifier: Apache-2.0
"""vLLM on CPUs, served by opgraft: installing this package is enough."""


def platform() -> str:
    """Entry point of vllm.platform_plugins: the platform's class by name."""
    return "vllm_opgraft.platform.OpgraftPlatform"
