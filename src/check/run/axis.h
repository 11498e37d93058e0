// SPDX-License-Identifier: Apache-2.0
// Where a plain dim of the declaration lies in the tensors of a call, and the
// tensors with that dim's places in another order.

#ifndef OG_CHECK_RUN_AXIS_H
#define OG_CHECK_RUN_AXIS_H

#include "check/run/array.h"

// How many axes of a tensor of the call an item stands for; OG_ANY_RANK where
// the call alone does not tell.
enum { OG_ANY_RANK = -1 };
int32_t og_item_rank(const og_sample *sample, const og_item *item);

// Whether an expression reads dim `d`.
bool og_expr_names(const og_expr *expr, int32_t d);

// Sets bit i where axis i of a tensor of these items is dim `d`. False where
// that is not known: an item computes a size from the dim, an argument picks
// its place, or packs of unknown rank stand before it.
bool og_axes_of(const og_sample *sample, const og_item *items, int32_t count,
                int32_t rank, int32_t d, uint32_t *out_axes);
// The same for a tensor argument, which has a pattern, and for an output.
bool og_argument_axes(const og_sample *sample, int32_t tensor, int32_t d,
                      uint32_t *out_axes);
bool og_output_axes(const og_sample *sample, const og_outputs *out, int32_t i,
                    int32_t d, uint32_t *out_axes);

// The one axis that a set of axes has; OG_NO_AXIS, or OG_SEVERAL_AXES.
enum { OG_NO_AXIS = -1, OG_SEVERAL_AXES = -2 };
int32_t og_only_axis(uint32_t axes);
// The axis of dim `d` in a tensor argument or an output; OG_SEVERAL_AXES also
// where nothing is known.
int32_t og_argument_axis(const og_sample *sample, int32_t tensor, int32_t d);
int32_t og_output_axis(const og_sample *sample, const og_outputs *out,
                       int32_t i, int32_t d);

// The call with one plain dim of 3000, one that no output names (a kernel sums
// over it) where there is any; false, with the call as it is, where no dim can
// be.
bool og_sample_lengthen(const og_sample *sample, const og_outputs *base,
                        og_sample *out);

enum { OG_ORDER_MAX = 512 };
// Element i of each of the axes moves to order[i]; false if memory is short.
bool og_array_reorder(og_array *array, uint32_t axes, const int32_t *order);
// The places [begin, begin + count) of an axis, as an array of its own; false
// if memory is short.
bool og_array_slice(const og_array *from, int32_t axis, int64_t begin,
                    int64_t count, og_array *out);
// Writes `part` to the places of `to` from `begin` on.
void og_array_place(og_array *to, int32_t axis, int64_t begin,
                    const og_array *part);
// The arguments with the places [begin, begin + count) of dim `d` only; false
// where it has several axes in one of them, or memory is short.
bool og_inputs_slice(const og_sample *sample, const og_inputs *inputs,
                     int32_t d, int64_t begin, int64_t count, og_inputs *out);
// Leaves of each output that names dim `d` its first `count` places.
bool og_outputs_cut(const og_sample *sample, og_outputs *outputs, int32_t d,
                    int64_t count);

#endif  // OG_CHECK_RUN_AXIS_H
