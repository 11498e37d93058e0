# SPDX-License-Identifier: Apache-2.0
"""Attention in the shape of FlashInfer's wrappers: change one import.

Constructors, `plan` and `run` take FlashInfer's parameters. Those that mean
nothing on a CPU (workspaces, backends, graph buffers, non_blocking, PDL) are
accepted and have no effect; the float workspace may be empty. One that would
change the result and is not supported raises NotImplementedError. The type
comes from q at `run`; where `plan` names one, q must have it.

LSE is in base 2, as FlashInfer's. One difference: ALiBi's distance is counted
from the query's place among the keys, aligned at the last of both as a causal
mask is, where FlashInfer counts from the query's index in its request. Without
a soft cap that moves a row's LSE by slope * (kv_len - qo_len) and nothing else;
with one, ours is the paper's.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import ops


def _refuse(where: str, **given: Any) -> None:
    """Raises for parameters that would change the result."""
    for name, value in given.items():
        if value is None or (not isinstance(value, torch.Tensor) and not value):
            continue
        raise NotImplementedError(
            f"{where}: {name} is not supported; leave it out"
        )


def _refuse_variants(where: str, arguments: tuple[Any, ...]) -> None:
    if arguments:
        raise NotImplementedError(
            f"{where}: arguments of JIT variants are not supported; leave "
            "them out"
        )


def _dtype(value: Any) -> torch.dtype | None:
    if isinstance(value, str):
        return getattr(torch, value)
    return value


def _scale_of(value: Any, where: str, name: str) -> float:
    if value is None:
        return 1.0
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise NotImplementedError(
                f"{where}: {name} has {value.numel()} values, expected one"
            )
        return float(value)
    return float(value)


def _layout(kv_layout: str) -> bool:
    """Whether heads stand before tokens."""
    if kv_layout not in ("NHD", "HND"):
        raise ValueError(f'kv_layout is "{kv_layout}", expected "NHD" or "HND"')
    return kv_layout == "HND"


def _pack_mask(
    custom_mask: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    indptr = torch.zeros(lengths.numel() + 1, dtype=torch.int32)
    torch.cumsum(lengths, 0, out=indptr[1:])
    packed, _ = ops.segment_packbits(
        custom_mask.reshape(-1), indptr, bitorder="little"
    )
    return packed


# Arguments of `plan` that would change the result.
_REFUSED = (
    "prefix_len_ptr",
    "token_pos_in_items_ptr",
    "token_pos_in_items_len",
    "max_item_len_ptr",
)


class _Wrapper:
    """What the three wrappers share."""

    run: Callable[..., Any]

    def __init__(self, kv_layout: str, use_cuda_graph: bool) -> None:
        self._heads_first = _layout(kv_layout)
        self._keep_buffer = use_cuda_graph
        self._buffer: torch.Tensor | None = None
        self._plan: ops.Plan | None = None
        self._types: tuple[torch.dtype | None, ...] = (None, None, None)
        self._settings: dict[str, Any] = {}
        self._mask: torch.Tensor | None = None
        self._window = -1
        self._sm_scale = 1.0
        self.is_cuda_graph_enabled = use_cuda_graph

    def reset_workspace_buffer(self, *buffers: Any) -> None:
        """Accepted: nothing is kept in workspaces."""

    def _plan_batch(
        self,
        given: dict[str, Any],
        kv_indptr: torch.Tensor,
        qo_indptr: torch.Tensor | None,
        causal: bool,
        **pages: Any,
    ) -> None:
        """`given`: the arguments of `plan` by name."""
        window_left, sm_scale, rope_scale, rope_theta = (
            given[name]
            for name in ("window_left", "sm_scale", "rope_scale", "rope_theta")
        )
        head_dim = given["head_dim_qk"]
        self._window = -1 if window_left is None else window_left
        plan = ops.plan_attention(
            kv_indptr,
            qo_indptr,
            given["num_qo_heads"],
            given["num_kv_heads"],
            head_dim,
            given["head_dim_vo"],
            causal=causal,
            window_left=self._window,
            fixed_split=(
                -1 if given["disable_split_kv"] else given["fixed_split_size"] or 0
            ),
            heads_first=self._heads_first,
            **pages,
        )
        if self._keep_buffer:
            # A graph that was captured reads the plan from where it was.
            if self._buffer is None or self._buffer.numel() < plan.plan.numel():
                self._buffer = torch.zeros(
                    2 * plan.plan.numel(), dtype=torch.uint8
                )
            self._buffer[: plan.plan.numel()].copy_(plan.plan)
            plan = plan._replace(plan=self._buffer)
        self._plan = plan
        self._types = tuple(
            _dtype(given[f"{name}_data_type"]) for name in ("q", "kv", "o")
        )
        self._sm_scale = head_dim ** -0.5 if sm_scale is None else float(sm_scale)
        self._settings = dict(
            logits_soft_cap=float(given["logits_soft_cap"] or 0.0),
            pos_encoding_mode=given["pos_encoding_mode"],
            rope_scale=1.0 if rope_scale is None else float(rope_scale),
            rope_theta=1e4 if rope_theta is None else float(rope_theta),
            split_bytes=plan.split_bytes,
        )

    def _plan_prefill(
        self,
        given: dict[str, Any],
        kv_indptr: torch.Tensor,
        keys: Callable[[], torch.Tensor],
        **pages: Any,
    ) -> None:
        """`keys`: how many each request has."""
        _refuse(
            type(self).__name__ + ".plan",
            **{name: given[name] for name in _REFUSED},
        )
        qo_indptr, self._mask = given["qo_indptr"], given["packed_custom_mask"]
        if given["custom_mask"] is not None and self._mask is None:
            self._mask = _pack_mask(
                given["custom_mask"], torch.diff(qo_indptr) * keys()
            )
        causal = given["causal"] and self._mask is None
        self._plan_batch(given, kv_indptr, qo_indptr, causal, **pages)

    @property
    def imbalance(self) -> float:
        """The longest thread's work over the mean, by the plan's model."""
        return self._planned().imbalance

    def _planned(self) -> ops.Plan:
        if self._plan is None:
            raise RuntimeError("run before plan: call plan first")
        return self._plan

    def _check_types(self, q: torch.Tensor, k: torch.Tensor) -> None:
        for name, tensor, wanted in (
            ("q", q, self._types[0]),
            ("k", k, self._types[1]),
            ("out", q, self._types[2]),
        ):
            if wanted is not None and tensor.dtype != wanted:
                raise ValueError(
                    f"{name} is {tensor.dtype} here, but plan named {wanted}"
                )

    def _run(
        self,
        module: str,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *rest: torch.Tensor | None,
        scales: tuple[Any, Any, Any, Any],
        out: torch.Tensor | None,
        lse: torch.Tensor | None,
        return_lse: bool,
        window_left: int | None,
    ) -> Any:
        plan = self._planned()
        self._check_types(q, k)
        where = type(self).__name__ + ".run"
        if window_left is not None and window_left != self._window:
            raise ValueError(
                f"{where}: window_left is {window_left} here, but "
                f"{self._window} in plan"
            )
        names = ("q_scale", "k_scale", "v_scale", "o_scale")
        q_scale, k_scale, v_scale, o_scale = (
            _scale_of(s, where, n) for s, n in zip(scales, names, strict=True)
        )
        settings = dict(
            self._settings, sm_scale=self._sm_scale * q_scale * k_scale
        )
        if out is None and lse is None:
            call = getattr(ops._modules[module], module)
            result, log_sum = call(plan.plan, q, k, v, *rest, **settings)
        else:
            if out is None:
                out = q.new_empty(*q.shape[:2], v.shape[-1])
            if lse is None:
                lse = q.new_empty(q.shape[:2], dtype=torch.float32)
            space = getattr(torch.ops, ops._modules[module].namespace)
            getattr(space, module).out(
                plan.plan, q, k, v, *rest, **settings, out=out, lse=lse
            )
            result, log_sum = out, lse
        if v_scale != o_scale:
            result.mul_(v_scale / o_scale)
        return (result, log_sum) if return_lse else result

    def run_return_lse(self, *args: Any, **kwargs: Any) -> Any:
        """`run` with `return_lse=True`."""
        return self.run(*args, return_lse=True, **kwargs)

    def _cache_pair(self, cache: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values as [page, token, head, size], whatever the layout."""
        if isinstance(cache, torch.Tensor):
            k, v = cache[:, 0], cache[:, 1]
        else:
            k, v = cache
        if self._heads_first:
            k, v = k.transpose(1, 2), v.transpose(1, 2)
        return k, v


class BatchPrefillWithRaggedKVCacheWrapper(_Wrapper):
    """Attention of packed requests, keys and values packed alike.

    An object belongs to one thread at a time.

    NotImplementedError or ValueError for a form that is not offered.

        >>> starts = torch.tensor([0, 3, 8])  # two requests, of 3 and 5 tokens
        >>> w = opgraft.flashinfer.BatchPrefillWithRaggedKVCacheWrapper()
        >>> w.plan(starts, starts, 4, 2, 32, causal=True)
        >>> q, k, v = (torch.randn(8, heads, 32) for heads in (4, 2, 2))
        >>> w.run(q, k, v).shape
        torch.Size([8, 4, 32])
    """

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor | None = None,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: torch.Tensor | None = None,
        kv_indptr_buf: torch.Tensor | None = None,
        custom_mask_buf: torch.Tensor | None = None,
        mask_indptr_buf: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: Any = None,
        jit_kwargs: Any = None,
    ) -> None:
        super().__init__(kv_layout, use_cuda_graph)
        _refuse(type(self).__name__, jit_args=jit_args, jit_kwargs=jit_kwargs)

    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        head_dim_vo: int | None = None,
        custom_mask: torch.Tensor | None = None,
        packed_custom_mask: torch.Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: Any = None,
        kv_data_type: Any = None,
        o_data_type: Any = None,
        non_blocking: bool = True,
        prefix_len_ptr: Any = None,
        token_pos_in_items_ptr: Any = None,
        token_pos_in_items_len: int = 0,
        max_item_len_ptr: Any = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        seq_lens: Any = None,
        seq_lens_q: Any = None,
        max_token_per_sequence: Any = None,
        max_sequence_kv: Any = None,
    ) -> None:
        """Balances a batch over workers; calls of `run` reuse it.

        `qo_indptr` and `kv_indptr`, int32 [requests + 1], are the offsets of
        the requests in the rows of queries and of keys.
        """
        self._plan_prefill(locals(), kv_indptr, lambda: torch.diff(kv_indptr))

    begin_forward = plan

    def run(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *args: Any,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        o_scale: Any = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
    ) -> Any:
        """Attention of the planned batch.

        `q` is [tokens, query heads, head_dim_qk], `k` and `v` [tokens, KV
        heads, head_dim]. Returns [tokens, query heads, head_dim_vo]; with
        `return_lse` also the log2 of the sums, f32 [tokens, query heads].
        """
        _refuse_variants(type(self).__name__ + ".run", args)
        if self._heads_first:
            k, v = k.transpose(0, 1), v.transpose(0, 1)
        return self._run(
            "batch_prefill_ragged", q, k, v, self._mask,
            scales=(q_scale, k_scale, v_scale, o_scale), out=out, lse=lse,
            return_lse=return_lse, window_left=window_left,
        )


class _PagedWrapper(_Wrapper):
    """Keys and values in pages."""

    _operator: str

    def __init__(self, kv_layout: str, use_cuda_graph: bool) -> None:
        super().__init__(kv_layout, use_cuda_graph)
        self._indices = torch.zeros(0, dtype=torch.int32)

    def _masks(self) -> tuple[torch.Tensor | None, ...]:
        """What the operator takes behind the page table."""
        return ()

    def run(
        self,
        q: torch.Tensor,
        paged_kv_cache: Any,
        *args: Any,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: torch.Tensor | None = None,
    ) -> Any:
        """Attention of the planned batch, keys and values in pages.

        `q` is [tokens, query heads, head_dim_qk]; `paged_kv_cache` is one
        tensor of keys and values or a pair, in the layout that the
        constructor got. Returns as the ragged wrapper does.
        """
        where = type(self).__name__ + ".run"
        _refuse(where, sinks=None if sinks is None else True)
        _refuse_variants(where, args)
        k, v = self._cache_pair(paged_kv_cache)
        return self._run(
            self._operator, q, k, v, self._indices, *self._masks(),
            scales=(q_scale, k_scale, v_scale, None), out=out, lse=lse,
            return_lse=return_lse, window_left=window_left,
        )


class BatchPrefillWithPagedKVCacheWrapper(_PagedWrapper):
    """Attention of packed requests, keys and values in pages of a cache.

    An object belongs to one thread at a time.

    NotImplementedError or ValueError for a form that is not offered.

        >>> starts = torch.tensor([0, 3, 8])
        >>> pages = torch.tensor([0, 1], dtype=torch.int32)  # one for each request
        >>> w = opgraft.flashinfer.BatchPrefillWithPagedKVCacheWrapper()
        >>> w.plan(starts, torch.tensor([0, 1, 2]), pages, torch.tensor([3, 5]),
        ...        4, 2, 32, 16, causal=True)
        >>> cache = torch.randn(2, 2, 16, 2, 32)  # [pages, K and V, 16, heads, dim]
        >>> w.run(torch.randn(8, 4, 32), cache).shape
        torch.Size([8, 4, 32])
    """

    _operator = "batch_prefill_paged"

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor | None = None,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf: torch.Tensor | None = None,
        paged_kv_indptr_buf: torch.Tensor | None = None,
        paged_kv_indices_buf: torch.Tensor | None = None,
        paged_kv_last_page_len_buf: torch.Tensor | None = None,
        custom_mask_buf: torch.Tensor | None = None,
        mask_indptr_buf: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: Any = None,
        jit_kwargs: Any = None,
    ) -> None:
        super().__init__(kv_layout, use_cuda_graph)
        _refuse(type(self).__name__, jit_args=jit_args, jit_kwargs=jit_kwargs)

    def plan(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        head_dim_vo: int | None = None,
        custom_mask: torch.Tensor | None = None,
        packed_custom_mask: torch.Tensor | None = None,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: Any = None,
        kv_data_type: Any = None,
        o_data_type: Any = None,
        non_blocking: bool = True,
        prefix_len_ptr: Any = None,
        token_pos_in_items_ptr: Any = None,
        token_pos_in_items_len: int = 0,
        max_item_len_ptr: Any = None,
        seq_lens: Any = None,
        seq_lens_q: Any = None,
        block_tables: Any = None,
        max_token_per_sequence: Any = None,
        max_sequence_kv: Any = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        """Balances a batch over workers; calls of `run` reuse it.

        `paged_kv_indices` lists the pages of all requests, cut by
        `paged_kv_indptr`, int32 [requests + 1]; the last page of request i
        holds `paged_kv_last_page_len[i]` tokens.
        """
        given = locals()

        def keys() -> torch.Tensor:
            pages = torch.diff(paged_kv_indptr)
            found = (pages - 1) * page_size + paged_kv_last_page_len
            return torch.where(pages > 0, found, 0)

        self._plan_prefill(
            given,
            paged_kv_indptr,
            keys,
            page_size=page_size,
            last_page_len=paged_kv_last_page_len,
        )
        self._indices = paged_kv_indices.to(torch.int32)

    begin_forward = plan

    def _masks(self) -> tuple[torch.Tensor | None, ...]:
        return (self._mask,)


class BatchDecodeWithPagedKVCacheWrapper(_PagedWrapper):
    """Attention of one query for each request, keys and values in pages.

    An object belongs to one thread at a time.

    NotImplementedError or ValueError for a form that is not offered.

        >>> pages = torch.tensor([0, 1], dtype=torch.int32)  # one for each request
        >>> w = opgraft.flashinfer.BatchDecodeWithPagedKVCacheWrapper()
        >>> w.plan(torch.tensor([0, 1, 2]), pages, torch.tensor([3, 5]), 4, 2, 32, 16)
        >>> w.run(torch.randn(2, 4, 32), torch.randn(2, 2, 16, 2, 32)).shape
        torch.Size([2, 4, 32])
    """

    _operator = "batch_decode_paged"

    def __init__(
        self,
        float_workspace_buffer: torch.Tensor | None = None,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: torch.Tensor | None = None,
        paged_kv_indices_buffer: torch.Tensor | None = None,
        paged_kv_last_page_len_buffer: torch.Tensor | None = None,
        backend: str = "auto",
        jit_args: Any = None,
    ) -> None:
        super().__init__(kv_layout, use_cuda_graph)
        _refuse(type(self).__name__, jit_args=jit_args)

    def plan(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        pos_encoding_mode: str = "NONE",
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: Any = None,
        kv_data_type: Any = None,
        o_data_type: Any = None,
        data_type: Any = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
        block_tables: Any = None,
        seq_lens: Any = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
    ) -> None:
        """Balances a batch over workers; calls of `run` reuse it.

        `indices` lists the pages of all requests, cut by `indptr`, int32
        [requests + 1]; the last page of request i holds `last_page_len[i]`
        tokens.
        """
        given = dict(locals(), head_dim_qk=head_dim, head_dim_vo=None)
        for name in ("q_data_type", "kv_data_type"):
            if given[name] is None:
                given[name] = data_type
        self._indices = indices.to(torch.int32)
        self._plan_batch(
            given,
            indptr,
            None,
            False,
            page_size=page_size,
            last_page_len=last_page_len,
        )

    begin_forward = plan
