# SPDX-License-Identifier: Apache-2.0
"""vLLM's server on the loopback with many clients, some of which leave or ask
what is refused: answers are those of a run without a server, and nothing that a
request held stays."""

from __future__ import annotations

import asyncio
import os
import pathlib
import random
import socket
import subprocess
import sys
import time
from typing import Any, Iterator

import aiohttp
import models
import pytest
from test_truth import compare, requests, serve

CLIENTS, REQUESTS = 50, 20
LENGTH = 512
START_S = 600
GROWTH_MB = 64


def add_tokenizer(folder: pathlib.Path) -> None:
    import tokenizers
    import transformers

    words = {f"w{i}": i for i in range(models.BASE["vocab_size"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w0"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(
        folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    found = models.write("llama", tmp_path_factory.mktemp("model") / "llama")
    add_tokenizer(found)
    return found


def children(pid: int) -> list[int]:
    found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(p for c in found for p in children(int(c)))]


def memory_mb(pid: int) -> float:
    pages = 0
    for p in children(pid):
        pages += int(pathlib.Path(f"/proc/{p}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2 ** 20


@pytest.fixture(scope="module")
def server(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    log = folder.parent / "server.log"
    with open(log, "w") as to:
        process = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server",
             "--model", str(folder), "--served-model-name", "m", "--host",
             "127.0.0.1", "--port", str(port), "--dtype", "float32",
             "--max-model-len", str(LENGTH), "--max-num-seqs", "8",
             "--max-num-batched-tokens", "96"],
            stdout=to, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1",
                              "VLLM_NO_USAGE_STATS": "1",
                              "HF_HUB_OFFLINE": "1"})
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while asyncio.run(status_of(url)) != 200:
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < until, log.read_text()[-4000:]
            time.sleep(1)
        assert "opgraft serves the model" in log.read_text()
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


async def status_of(url: str) -> int:
    try:
        async with aiohttp.ClientSession() as s, s.get(f"{url}/health") as r:
            return r.status
    except aiohttp.ClientError:
        return 0


def question(r: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": r["tokens"], "max_tokens": r["count"],
            "temperature": 0, "ignore_eos": True, "logprobs": 5,
            "return_token_ids": True, "return_tokens_as_token_ids": True, **more}


async def answer(s: aiohttp.ClientSession, url: str, r: dict[str, Any]
                 ) -> dict[str, Any]:
    async with s.post(f"{url}/v1/completions", json=question(r)) as reply:
        assert reply.status == 200, await reply.text()
        best = (await reply.json())["choices"][0]
    return {"tokens": best["token_ids"], "logprobs": [
        {t.removeprefix("token_id:"): p for t, p in at.items()}
        for at in best["logprobs"]["top_logprobs"]]}


async def leave(s: aiohttp.ClientSession, url: str, r: dict[str, Any]) -> None:
    """Closes the connection after the first part of a long answer."""
    asked = question(r | {"count": 300}, stream=True)
    async with s.post(f"{url}/v1/completions", json=asked) as reply:
        assert reply.status == 200
        await reply.content.readline()


async def refused(s: aiohttp.ClientSession, url: str, at: int) -> None:
    wrong = [{"prompt": [3] * (LENGTH + 1)}, {"max_tokens": -1},
             {"temperature": -1}, {"model": "another"}][at % 4]
    asked = question({"tokens": [3], "count": 1}) | wrong
    async with s.post(f"{url}/v1/completions", json=asked) as reply:
        assert 400 <= reply.status < 500, (wrong, reply.status)
        assert (await reply.json())["error"]["message"]


async def client(url: str, at: int, asked: list[dict[str, Any]]
                 ) -> dict[int, dict[str, Any]]:
    rng, found = random.Random(at), {}
    async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None)) as s:
        for i in range(REQUESTS):
            kind, which = rng.random(), rng.randrange(len(asked))
            if kind < 0.1:
                await leave(s, url, asked[which])
            elif kind < 0.2:
                await refused(s, url, i)
            else:
                found[which] = await answer(s, url, asked[which])
    return found


async def crowd(url: str, asked: list[dict[str, Any]], first: int
                ) -> list[dict[int, dict[str, Any]]]:
    return await asyncio.gather(*(client(url, first + i, asked)
                                  for i in range(CLIENTS)))


async def held(url: str) -> dict[str, float]:
    """What the engine holds: of the cache, and requests."""
    async with aiohttp.ClientSession() as s, s.get(f"{url}/metrics") as reply:
        text = await reply.text()
    names = ("kv_cache_usage_perc", "num_requests_running",
             "num_requests_waiting")
    return {n: float(line.split()[-1]) for line in text.splitlines()
            for n in names if line.startswith(f"vllm:{n}{{")}


def test_a_crowd(server: tuple[str, int], folder: pathlib.Path) -> None:
    url, pid = server
    asked = requests(40, 3)
    offline, = serve([{"folder": str(folder), "engine": {},
                       "requests": asked}], True)
    memory = []
    for turn in range(2):
        for found in asyncio.run(crowd(url, asked, turn * CLIENTS)):
            for which, one in found.items():
                wanted = {"found": [offline["found"][which]]}
                assert len(one["tokens"]) == asked[which]["count"]
                assert compare({"found": [one]}, wanted) < 1e-4
        until = time.monotonic() + 60  # those who left are seen a step later
        while any((state := asyncio.run(held(url))).values()):
            assert time.monotonic() < until, state
            time.sleep(0.5)
        assert len(state) == 3
        memory.append(memory_mb(pid))
    print(f"server: {memory[0]:.0f} MB, then {memory[1]:.0f}")
    assert memory[1] - memory[0] < GROWTH_MB
