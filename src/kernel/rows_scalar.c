// SPDX-License-Identifier: Apache-2.0
// Row kernels: portable C.

#include "kernel/tables.h"

#define OG_VEC 0
#define OG_ROWS_TABLE og_rows_scalar
#include "kernel/rows.inc"
