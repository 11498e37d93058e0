// SPDX-License-Identifier: Apache-2.0
// What Python asks the module: its declarations, and the results of a call
// whose sizes are numbers. Values travel as 64-bit words:
//
//   call    for each tensor argument: 0 (absent), 1 and a tensor, or for a
//           list its length and such an entry for each; then for each other
//           argument a kind (OG_ATTR_*) and: an int, a bool; the bits of a
//           double (two of a complex number); code and bits of a type; the
//           address and length of a text; a count and as many entries
//   tensor  code, bits, rank, dims
//   result  for each fresh result a tensor, or for a list its length and them

#include <stdio.h>

#include "shared/words.h"

#define API OG_EXPORT

// The words of the results, how many are returned; -1 and why in `text`.
API int64_t opgraft_jax_infer(int32_t op, const int64_t *words, int64_t count,
                              int64_t *out, int64_t out_size, char *text,
                              size_t size);

OG_OWN_EXPORTS(jax)

// --- Words in ----------------------------------------------------------------

static og_status argument_read(og_words *w, og_host_call *call, int32_t t,
                               opgraft_error *error) {
  const int64_t given = og_words_next(w);
  const opgraft_param_info *param = call->op->tensor_params[t];
  if ((param->flags & OPGRAFT_PARAM_LIST) == 0) {
    if (given == 0) return OG_OK;
    const og_tensor tensor = og_words_tensor(w);
    og_host_input(call, t, &tensor);
    return OG_OK;
  }
  for (int64_t i = 0; i < given && !w->is_short; ++i) {
    og_tensor tensor = {0};
    const int64_t is_given = og_words_next(w);
    if (is_given) tensor = og_words_tensor(w);
    const og_status status =
        og_host_entry(call, t, is_given ? &tensor : NULL, error);
    if (status != OG_OK) return status;
  }
  return OG_OK;
}

static const char *text_read(og_words *w) {
  const uintptr_t address = (uintptr_t)og_words_next(w);
  return (const char *)address;  // Python's, for the length of the call
}

static void attr_read(og_words *w, og_attr *out) {
  *out = (og_attr){.kind = (int32_t)og_words_next(w)};
  switch (out->kind) {
    case OG_ATTR_INT:
    case OG_ATTR_BOOL:
      out->i = og_words_next(w);
      break;
    case OG_ATTR_FLOAT:
      out->f = og_words_double(w);
      break;
    case OG_ATTR_COMPLEX:
      out->f = og_words_double(w);
      out->imag = og_words_double(w);
      break;
    case OG_ATTR_DTYPE:
      out->dtype.code = (uint8_t)og_words_next(w);
      out->dtype.bits = (uint8_t)og_words_next(w);
      out->dtype.lanes = 1;
      break;
    case OG_ATTR_STR:
      out->s = text_read(w);
      out->count = og_words_next(w);
      break;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
    case OG_ATTR_FLOATS:
    case OG_ATTR_STRS:  // addresses
      out->count = og_words_next(w);
      out->ints = og_words_take(w, out->count);
      break;
    default:
      break;
  }
}

static og_status call_read(og_words *w, og_host_call *call,
                           opgraft_error *error) {
  for (int32_t t = 0; t < call->op->info.tensor_count; ++t) {
    const og_status status = argument_read(w, call, t, error);
    if (status != OG_OK) return status;
  }
  for (int32_t a = 0; a < call->op->info.attr_count; ++a)
    attr_read(w, &call->frame.attr[a]);
  return w->is_short ? og_words_short(w, call->op, error) : OG_OK;
}

int64_t opgraft_jax_infer(int32_t op, const int64_t *words_in, int64_t count,
                          int64_t *out, int64_t out_size, char *text,
                          size_t size) {
  const og_own *own = og_own_get();
  if (op < 0 || op >= own->op_count) {
    snprintf(text, size, "%s: there is no operator %d",
             own->error.code == OG_OK ? own->name : "the module", (int)op);
    return -1;
  }
  og_words w = {.word = words_in, .count = count};
  og_host_call call;
  opgraft_error error = {.code = OG_OK};
  og_host_begin(&call, &own->ops[op]);
  og_status status = call_read(&w, &call, &error);
  if (status == OG_OK) status = og_host_infer(&call, &error);
  int64_t used = -1;
  if (status == OG_OK) used = og_words_results(&call, out, out_size);
  og_host_end(&call);
  if (status != OG_OK) snprintf(text, size, "%s", error.text);
  return used;
}
