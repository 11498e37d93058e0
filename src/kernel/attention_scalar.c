// SPDX-License-Identifier: Apache-2.0
// Attention kernels: portable C.

#include "kernel/tables.h"

#define OG_VEC 0
#define OG_ATTENTION_TABLE og_attention_scalar
#include "kernel/attention.inc"
