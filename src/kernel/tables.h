// SPDX-License-Identifier: Apache-2.0
// The tables of each instruction set, for the getters that choose one.

#ifndef OG_KERNEL_TABLES_H
#define OG_KERNEL_TABLES_H

#include "kernel/kernel.h"

extern const og_row_kernels og_rows_scalar;
extern const og_attention_kernels og_attention_scalar;
extern const og_gemm_kernels og_gemm_scalar;
#if defined(__x86_64__)
extern const og_row_kernels og_rows_avx2;
extern const og_row_kernels og_rows_avx512;
extern const og_row_kernels og_rows_avx512_bf16;
extern const og_attention_kernels og_attention_avx2;
extern const og_gemm_kernels og_gemm_avx2;
extern const og_attention_kernels og_attention_avx512;
extern const og_gemm_kernels og_gemm_avx512;
extern const og_attention_kernels og_attention_avx512_bf16;
extern const og_gemm_kernels og_gemm_avx512_bf16;
#endif

#endif  // OG_KERNEL_TABLES_H
