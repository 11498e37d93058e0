// SPDX-License-Identifier: Apache-2.0
// Packed contraction: portable C.

#include "kernel/tables.h"

#define OG_VEC 0
#define OG_GEMM_TABLE og_gemm_scalar
#include "kernel/gemm.inc"
