// SPDX-License-Identifier: Apache-2.0
// An operator's call that stays inferred, and the attributes it was made with.

#ifndef OG_HOSTS_JAX_KEPT_H
#define OG_HOSTS_JAX_KEPT_H

#include "jax/attrs.h"
#include "shared/kept.h"

enum { OG_JAX_KEPT_BYTES = 512 };

typedef struct og_jax_kept {
  og_host_kept *kept;  // first: see og_host_kept_table
  size_t attrs_used;
  char attrs[OG_JAX_KEPT_BYTES];  // names, types and values, one by one
  og_jax_room room;               // of the call's lists and texts
} og_jax_kept;

// The operator's, for this thread alone until it is given; NULL where another
// has it, or where calls of the operator cannot be kept.
og_jax_kept *og_jax_kept_take(int32_t op);
void og_jax_kept_give(og_jax_kept *kept);

// Behind og_host_infer, before results are set.
void og_jax_kept_keep(og_jax_kept *kept, const xla_attrs *attrs);
// Whether these are the attributes that the kept call has.
int og_jax_kept_matches(og_jax_kept *kept, const xla_attrs *attrs);

#endif  // OG_HOSTS_JAX_KEPT_H
