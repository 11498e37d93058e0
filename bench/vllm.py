#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM served by opgraft (integrations/vllm) beside vLLM's own CPU kernels:
decode at several batches, prefill, first token, start-up and peak memory.

Shapes of TinyLlama 1.1 B and Qwen2 0.5 B, weights as vLLM's dummy loader makes
them; bf16, int8 (compressed-tensors, w8a8) and int4 (compressed-tensors, groups
of 128). Each engine is a process of its own that stays; the two run in turns. A
step of decode is the difference of a long and a short run, over its steps.
Needs an environment with vLLM and the plugin (make vllm makes .venv-vllm).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

BASE = {"bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
        "hidden_act": "silu"}
MODELS: dict[str, dict[str, Any]] = {
    "tinyllama": BASE | {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": 2048, "intermediate_size": 5632, "vocab_size": 32000,
        "num_hidden_layers": 22, "num_attention_heads": 32,
        "num_key_value_heads": 4, "tie_word_embeddings": False},
    "qwen": BASE | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
        "hidden_size": 896, "intermediate_size": 4864, "vocab_size": 151936,
        "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "tie_word_embeddings": True}}
SMALL = {"num_hidden_layers": 2, "vocab_size": 2000}
FORMATS = ["bf16", "int8", "int4"]
WORK = ["decode 1", "decode 8", "decode 32", "prefill 512", "first token"]
# vLLM's time over ours, at least.
GOALS = {"bf16": {"decode 1": 1.1, "decode 8": 1.1, "decode 32": 1.1,
                  "prefill 512": 1.0},
         "int8": dict.fromkeys(WORK[:3], 1.15) | {"prefill 512": 1.0},
         "int4": {"decode 1": 4.0, "decode 8": 2.0, "decode 32": 1.0,
                  "prefill 512": 1.0}}
SHORT, LONG = 4, 20  # tokens of the two runs
PAUSE_S = 0.25  # OpenMP's threads spin so long after their work
MEASURED = ["bench/vllm.py", "integrations/vllm", "src/kernel", "src/exec"]


def config(name: str, form: str, smoke: bool) -> dict[str, Any]:
    found = MODELS[name] | (SMALL if smoke else {})
    if form == "bf16":
        return found
    bits = int(form[3:])
    kind: dict[str, Any] = {"num_bits": bits, "type": "int", "symmetric": True}
    weights = kind | ({"strategy": "channel"} if bits == 8 else
                      {"strategy": "group", "group_size": 128})
    inputs = kind | {"strategy": "token", "dynamic": True} if bits == 8 else None
    return found | {"quantization_config": {
        "quant_method": "compressed-tensors", "ignore": ["lm_head"],
        "quantization_status": "compressed",
        "format": "int-quantized" if bits == 8 else "pack-quantized",
        "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": weights,
            "input_activations": inputs}}}}


# --- An engine, in its own process --------------------------------------------


def seconds(llm: Any, batch: int, length: int, count: int) -> float:
    from vllm import SamplingParams

    how = SamplingParams(max_tokens=count, temperature=0, ignore_eos=True,
                         detokenize=False)
    prompts = [{"prompt_token_ids": [3 + (7 * i + j) % 1900
                                     for j in range(length)]}
               for i in range(batch)]
    begin = time.perf_counter()
    llm.generate(prompts, how, use_tqdm=False)
    return time.perf_counter() - begin


def one(llm: Any, what: str) -> float:
    kind, size = what.split()
    if kind == "decode":
        least = [seconds(llm, int(size), 8, count) for count in (SHORT, LONG)]
        return (least[1] - least[0]) / (LONG - SHORT)
    return seconds(llm, 1, 512 if kind == "prefill" else 8, 1)


def engine(folder: str) -> None:
    """Answers each line of stdin, a kind of work, with its seconds."""
    import resource

    here = Path(__file__).resolve().parent  # where this file is called vllm
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != here]

    begin = time.perf_counter()
    from vllm import LLM
    from vllm.platforms import current_platform

    llm = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True,
              max_model_len=1024, max_num_seqs=32, max_num_batched_tokens=1024,
              enable_prefix_caching=False, disable_log_stats=True)
    print("=", json.dumps({"platform": type(current_platform).__name__,
                           "start": time.perf_counter() - begin}), flush=True)
    for line in sys.stdin:
        found = one(llm, line.strip())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print("=", json.dumps({"seconds": found, "peak": peak}), flush=True)


class Engine:
    def __init__(self, folder: Path, is_ours: bool, threads: int) -> None:
        import harness

        env = os.environ | {
            "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)}
        if not is_ours:
            env["VLLM_PLUGINS"] = ""
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--engine", str(folder)], env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL)
        harness.FOLLOWED.add(self.process.pid)
        self.hello = self._read()
        wanted = "OpgraftPlatform" if is_ours else "CpuPlatform"
        assert self.hello["platform"] == wanted, self.hello
        self.peak = 0.0

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("= "):
                return json.loads(line[2:])
        raise RuntimeError("the engine ended: run it with --engine FOLDER")

    def case(self, what: str) -> Callable[[int], float]:
        def run(count: int) -> float:
            assert self.process.stdin is not None
            total = 0.0
            for _ in range(count):
                self.process.stdin.write(what + "\n")
                self.process.stdin.flush()
                found = self._read()
                total += found["seconds"]
                self.peak = found["peak"]
            return total * 1e9

        return run

    def end(self) -> None:
        import harness

        harness.FOLLOWED.discard(self.process.pid)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# --- Measuring ----------------------------------------------------------------


def compare(name: str, form: str, threads: int, words: argparse.Namespace,
            goals: Any) -> None:
    import harness

    title = f"{name}, {form}, {threads} thread{'s' * (threads > 1)}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(
            json.dumps(config(name, form, words.smoke)))
        both = {"opgraft": Engine(Path(folder), True, threads),
                "vLLM": Engine(Path(folder), False, threads)}
        rows: dict[str, harness.Timing] = {}
        for what in words.work or WORK:
            try:
                found = harness.measure(
                    {who: e.case(what) for who, e in both.items()},
                    blocks=words.blocks, pause_s=PAUSE_S)
            except harness.TooNoisy:
                goals.noisy(f"{title}: {what}")
                continue
            rows |= {f"{what}, {who}": t for who, t in found.items()}
            ratio = found["vLLM"].least / found["opgraft"].least
            if what in GOALS[form]:
                goals.add(f"{title}: {what}, vLLM / ours", ratio,
                          GOALS[form][what], at_most=False)
        for e in both.values():
            e.end()
        harness.print_table(title, rows, 1e6, "ms")
        for who, e in both.items():
            print(f"  {who}: ready after {e.hello['start']:.1f} s, "
                  f"peak {e.peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true",
                        help="two layers, few blocks")
    parser.add_argument("--model", action="append", choices=list(MODELS))
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--work", action="append", choices=WORK)
    parser.add_argument("--threads", action="append", type=int)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if importlib.util.find_spec("vllm_opgraft") is None:
        print("not run: this environment has no vLLM; `make vllm` makes one")
        return
    if words.engine:
        engine(words.engine)
        return
    import harness

    words.blocks = harness.LEAST_BLOCKS
    goals = harness.Goals("vllm")
    for name in words.model or MODELS:
        for form in words.format or FORMATS:
            for threads in words.threads or [1, 2]:
                compare(name, form, threads, words, goals)
    if not (words.smoke or words.model or words.format or words.work
            or words.threads):
        goals.write(MEASURED)


if __name__ == "__main__":
    main()
