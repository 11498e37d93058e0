#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves requests of any lengths with continuous batches: in one step some
requests read a part of their prompt while others generate.

The same steps run eager and compiled (fullgraph=True), and give equal tokens;
each request's tokens also equal those of plain torch, one request at a time.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from model import Config, Model, alone

from opgraft import ops


@dataclass
class Request:
    prompt: list[int]
    wanted: int  # tokens to generate
    pages: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    done: int = 0  # tokens in the cache

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.found

    @property
    def is_finished(self) -> bool:
        return len(self.found) == self.wanted


class Server:
    """Picks what a step does, and runs it."""

    MOST_ROWS, MOST_REQUESTS = 96, 12

    def __init__(self, model: Model, pages: int,
                 step: Callable[..., torch.Tensor]) -> None:
        self.model, self.step = model, step
        self.caches = model.caches(pages)
        self.free = list(range(pages))
        c = model.c
        self.sizes = (c.heads, c.kv_heads, c.head_size, c.head_size)
        most = int(ops.attention_plan_max(
            self.MOST_REQUESTS, self.MOST_ROWS, pages * c.page_size,
            *self.sizes, page_size=c.page_size, fixed_split=-1,
            threads=torch.get_num_threads()))
        self.plan = torch.empty(most, dtype=torch.uint8)

    def choose(self, waiting: list[Request]) -> list[tuple[Request, int]]:
        """(request, rows) of a step: first those that generate, one row each,
        then parts of prompts until the step is full."""
        left, chosen = self.MOST_ROWS, []
        ready = sorted(waiting, key=lambda r: len(r.tokens) - r.done > 1)
        for request in ready[:self.MOST_REQUESTS]:
            rows = min(len(request.tokens) - request.done, left)
            if rows > 0:
                chosen.append((request, rows))
                left -= rows
        return chosen

    def place(self, request: Request, rows: int) -> list[int]:
        """The cache slots of the request's next rows."""
        size = self.model.c.page_size
        while len(request.pages) * size < request.done + rows:
            request.pages.append(self.free.pop())
        return [request.pages[p // size] * size + p % size
                for p in range(request.done, request.done + rows)]

    def run(self, chosen: list[tuple[Request, int]]) -> None:
        size = self.model.c.page_size
        tokens, positions, slots, pages, last_page = [], [], [], [], []
        q_indptr, page_indptr = [0], [0]
        for request, rows in chosen:
            slots += self.place(request, rows)
            positions += range(request.done, request.done + rows)
            tokens += request.tokens[request.done:request.done + rows]
            request.done += rows
            pages += request.pages
            last_page.append((request.done - 1) % size + 1)
            q_indptr.append(len(tokens))
            page_indptr.append(len(pages))
        indptr = torch.tensor(q_indptr, dtype=torch.int32)
        ops.plan_attention(
            torch.tensor(page_indptr, dtype=torch.int32), indptr, *self.sizes,
            last_page_len=torch.tensor(last_page, dtype=torch.int32),
            page_size=size, causal=True, fixed_split=-1, buffer=self.plan)
        found = self.step(
            torch.tensor(tokens), torch.tensor(positions),
            torch.tensor(slots), indptr[1:].long() - 1, self.plan,
            torch.tensor(pages, dtype=torch.int32), self.caches)
        for (request, _), token in zip(chosen, found.tolist(), strict=True):
            if request.done == len(request.tokens):
                request.found.append(token)
            if request.is_finished:
                self.free += request.pages
                request.pages = []


def requests(count: int, c: Config, seed: int) -> list[Request]:
    """Prompts of Zipf lengths, in any order."""
    rng = random.Random(seed)
    made = [Request([rng.randrange(c.vocabulary)
                     for _ in range(max(1, 160 // (i + 1)))],
                    rng.randint(3, 12)) for i in range(count)]
    rng.shuffle(made)
    return made


def serve(model: Model, step: Callable[..., Any], count: int,
          seed: int) -> tuple[list[Request], int, float]:
    """The finished requests, steps, and seconds; one request arrives a step."""
    arriving, waiting = requests(count, model.c, seed), []
    all_of_them, steps = list(arriving), 0
    server = Server(model, 80, step)
    begin = time.perf_counter()
    while arriving or waiting:
        if arriving:
            waiting.append(arriving.pop())
        server.run(server.choose(waiting))
        waiting = [r for r in waiting if not r.is_finished]
        steps += 1
    return all_of_them, steps, time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--smoke", action="store_true",
                        help="few requests, backend aot_eager")
    options = parser.parse_args()
    if options.smoke:
        options.requests, options.backend = 6, "aot_eager"
    torch.manual_seed(options.seed)
    model = Model(Config())
    compiled = torch.compile(model, backend=options.backend, fullgraph=True,
                             dynamic=True)
    tokens, wrong = {}, 0
    with torch.no_grad():
        for name, step in (("eager", model), ("compiled", compiled)):
            serve(model, step, options.requests, options.seed)  # warm
            found, steps, seconds = serve(
                model, step, options.requests, options.seed)
            tokens[name] = [r.found for r in found]
            total = sum(len(r.tokens) for r in found)
            print(f"{name:<9} {len(found)} requests, {steps} steps, {total} "
                  f"tokens, {total / seconds:.0f} tokens/s")
        for request, own in zip(found, tokens["eager"], strict=True):
            plain = alone(model, torch.tensor(request.prompt), request.wanted)
            wrong += own != plain
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    equal = tokens["eager"] == tokens["compiled"]
    print(f"eager and compiled give {'equal' if equal else 'DIFFERENT'} "
          f"tokens; {wrong} requests differ from plain torch; {graphs} graphs "
          "were compiled")
    return not equal or wrong > 0


if __name__ == "__main__":
    sys.exit(main())
