# SPDX-License-Identifier: Apache-2.0
"""Serves mixed requests with vLLM in this process and prints what came, a line
of JSON for each model. Its input: [{"folder": "", "engine": {}, "requests":
[]}]."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.update({
    "VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"),
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
    # A function may be called in other workers' processes.
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"})


def regions() -> list[Any]:
    if "opgraft" not in sys.modules:
        return []
    from opgraft._graph import stats

    return list(stats._regions)


def graphs(worker: Any = None, before: Any = ()) -> list[dict[str, Any]]:
    """Of opgraft's, what ran in this process, and is not in regions `before`."""
    if "opgraft" not in sys.modules:
        return []
    from opgraft._graph import stats

    return [{k: g.get(k) for k in ("name", "nodes", "native", "fallbacks",
                                   "in_python", "replays")}
            for region in regions() if not any(region is b for b in before)
            for g in json.loads(stats.Stats(region.graphs).json())["graphs"]]


def serve(asked: dict[str, Any]) -> dict[str, Any]:
    from vllm import LLM, SamplingParams
    from vllm.platforms import current_platform

    before = regions()
    llm = LLM(model=asked["folder"], skip_tokenizer_init=True, dtype="float32",
              **{"max_model_len": 512, "max_num_seqs": 8,
                 "max_num_batched_tokens": 96, **asked["engine"]})
    prompts = [{"prompt_token_ids": r["tokens"]} for r in asked["requests"]]
    how = [SamplingParams(max_tokens=r["count"], temperature=0, logprobs=8,
                          ignore_eos=True, detokenize=False)
           for r in asked["requests"]]
    found = []
    for out in llm.generate(prompts, how, use_tqdm=False):
        best = out.outputs[0]
        found.append({"tokens": list(best.token_ids), "logprobs": [
            {t: p.logprob for t, p in at.items()} for at in best.logprobs]})
    ran = graphs(before=before)
    if asked["engine"].get("tensor_parallel_size", 1) > 1:
        ran = sum(llm.collective_rpc(graphs), [])  # a process for each rank
    return {"platform": type(current_platform).__name__, "found": found,
            "graphs": ran}


def main() -> None:
    import torch
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.model_executor.layers.quantization import auto_awq, auto_gptq

    # Checkpoints of GPTQ and AWQ are served in 16 bits, where sums are rounded:
    # here they are compared in f32.
    for config in (auto_gptq.AutoGPTQConfig, auto_awq.AutoAWQConfig):
        config.get_supported_act_dtypes = classmethod(  # type: ignore
            lambda cls: [torch.float32])
    for asked in json.load(sys.stdin):
        print(json.dumps(serve(asked)), flush=True)
        cleanup_dist_env_and_memory()


if __name__ == "__main__":
    main()
