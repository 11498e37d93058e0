# SPDX-License-Identifier: Apache-2.0
"""torch.autocast on the device: which operators compute in which type.

Source: the lists of <ATen/autocast_mode.h>, which torch's other accelerators
share; it applies them to PrivateUse1 from C++ alone. An operator that is in
none computes in the types of its operands, as in-place and out= forms do.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import state

_LOWER = """
    _convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution
    prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm
    baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell
    _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    _scaled_dot_product_flash_attention scaled_dot_product_attention
""".split()

# dot and vdot are sums; binary_cross_entropy is here as on the CPU.
_FLOAT32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh
    tan pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm
    native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
    nuclear_norm.dim norm.Scalar norm.ScalarOpt_dim cosine_similarity
    poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
    margin_ranking_loss multilabel_margin_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss binary_cross_entropy
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
    upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d
    upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
    upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum
    linalg_vector_norm linalg_matrix_norm linalg_matrix_norm.str_ord
    sum sum.dim_IntList dot vdot
""".split()

_WIDEST = """
    addcdiv addcmul atan2 bilinear cross grid_sampler index_put tensordot
    scatter_add
""".split()

_libraries: list[Any] = []  # torch drops what nobody holds


def supported() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def register() -> None:
    aten = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
    others = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    _libraries.extend([aten, others])
    others.fallback(torch.library.fallthrough_kernel)
    for names, choose in ((_LOWER, _lower), (_FLOAT32, _float32),
                          (_WIDEST, _widest)):
        for name in names:
            aten.impl(name, _casting(name, choose))


Values = list[Any]
Choose = Callable[[Values], torch.dtype]


def _casting(name: str, choose: Choose) -> Any:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            values = [*args, *kwargs.values()]
            # Whoever names the type of the result gets that.
            if any(isinstance(v, torch.dtype) for v in values):
                return op(*args, **kwargs)
            dtype = choose(values)
            return op(*(_cast(a, dtype) for a in args),
                      **{k: _cast(v, dtype) for k, v in kwargs.items()})

    return call


def _is_eligible(value: Any) -> bool:
    return (isinstance(value, torch.Tensor) and value.is_floating_point()
            and value.dtype != torch.float64
            and value.device.type == state.current().name)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cast(v, dtype) for v in value]
    return value.to(dtype) if _is_eligible(value) else value


# --- Types -------------------------------------------------------------------


def _lower(values: Values) -> torch.dtype:
    return torch.get_autocast_dtype(state.current().name)


def _float32(values: Values) -> torch.dtype:
    return torch.float32


def _widest(values: Values) -> torch.dtype:
    lower = _lower(values)
    tensors = [t for v in values
               for t in (v if isinstance(v, (list, tuple)) else [v])]
    is_lower = all(t.dtype == lower for t in tensors if _is_eligible(t))
    return lower if is_lower else torch.float32
