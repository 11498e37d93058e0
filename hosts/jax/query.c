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
#include <string.h>

#include "shared/call.h"

#define API OG_EXPORT

// The words of the results, how many are returned; -1 and why in `text`.
API int64_t opgraft_jax_infer(int32_t op, const int64_t *words, int64_t count,
                              int64_t *out, int64_t out_size, char *text,
                              size_t size);

OG_OWN_EXPORTS(jax)

// --- Words in ----------------------------------------------------------------

typedef struct words {
  const int64_t *word;
  int64_t count;
  int64_t used;
  int is_short;  // a word was asked for that is not there
} words;

static int64_t word_next(words *w) {
  if (w->used < w->count) return w->word[w->used++];
  w->is_short = 1;
  return 0;
}

static const int64_t *words_take(words *w, int64_t count) {
  if (count < 0 || count > w->count - w->used) {
    w->is_short = 1;
    return NULL;
  }
  w->used += count;
  return w->word + w->used - count;
}

static og_tensor tensor_read(words *w) {
  og_tensor tensor = {.device = {OG_CPU, 0}};
  tensor.dtype.code = (uint8_t)word_next(w);
  tensor.dtype.bits = (uint8_t)word_next(w);
  tensor.dtype.lanes = 1;
  const int64_t rank = word_next(w);
  const int64_t *dims = words_take(w, rank);
  tensor.ndim = dims != NULL ? (int32_t)rank : 0;
  // A frame reads shapes; the type is DLPack's.
  memcpy(&tensor.shape, &dims, sizeof dims);
  return tensor;
}

static og_status argument_read(words *w, og_host_call *call, int32_t t,
                               opgraft_error *error) {
  const int64_t given = word_next(w);
  const opgraft_param_info *param = call->op->tensor_params[t];
  if ((param->flags & OPGRAFT_PARAM_LIST) == 0) {
    if (given == 0) return OG_OK;
    const og_tensor tensor = tensor_read(w);
    og_host_input(call, t, &tensor);
    return OG_OK;
  }
  for (int64_t i = 0; i < given && !w->is_short; ++i) {
    og_tensor tensor = {0};
    const int64_t is_given = word_next(w);
    if (is_given) tensor = tensor_read(w);
    const og_status status =
        og_host_entry(call, t, is_given ? &tensor : NULL, error);
    if (status != OG_OK) return status;
  }
  return OG_OK;
}

static double double_read(words *w) {
  const int64_t bits = word_next(w);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static const char *text_read(words *w) {
  const uintptr_t address = (uintptr_t)word_next(w);
  return (const char *)address;  // Python's, for the length of the call
}

static void attr_read(words *w, og_attr *out) {
  *out = (og_attr){.kind = (int32_t)word_next(w)};
  switch (out->kind) {
    case OG_ATTR_INT:
    case OG_ATTR_BOOL:
      out->i = word_next(w);
      break;
    case OG_ATTR_FLOAT:
      out->f = double_read(w);
      break;
    case OG_ATTR_COMPLEX:
      out->f = double_read(w);
      out->imag = double_read(w);
      break;
    case OG_ATTR_DTYPE:
      out->dtype.code = (uint8_t)word_next(w);
      out->dtype.bits = (uint8_t)word_next(w);
      out->dtype.lanes = 1;
      break;
    case OG_ATTR_STR:
      out->s = text_read(w);
      out->count = word_next(w);
      break;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
    case OG_ATTR_FLOATS:
    case OG_ATTR_STRS:  // addresses
      out->count = word_next(w);
      out->ints = words_take(w, out->count);
      break;
    default:
      break;
  }
}

static og_status call_read(words *w, og_host_call *call, opgraft_error *error) {
  for (int32_t t = 0; t < call->op->info.tensor_count; ++t) {
    const og_status status = argument_read(w, call, t, error);
    if (status != OG_OK) return status;
  }
  for (int32_t a = 0; a < call->op->info.attr_count; ++a)
    attr_read(w, &call->frame.attr[a]);
  if (!w->is_short) return OG_OK;
  error->code = OG_INTERNAL;
  snprintf(error->text, sizeof error->text, "%s: a call of %lld words is short",
           call->op->info.name, (long long)w->count);
  return OG_INTERNAL;
}

// --- Words out ---------------------------------------------------------------

typedef struct sink {
  int64_t *out;
  int64_t size;
  int64_t used;
} sink;

static void put(sink *s, int64_t word) {
  if (s->used < s->size) s->out[s->used] = word;
  ++s->used;
}

static void tensor_put(sink *s, const og_tensor *tensor) {
  put(s, tensor->dtype.code);
  put(s, tensor->dtype.bits);
  put(s, tensor->ndim);
  for (int32_t i = 0; i < tensor->ndim; ++i) put(s, tensor->shape[i]);
}

static void results_put(sink *s, const og_host_call *call) {
  for (int32_t i = 0; i < call->op->info.fresh_count; ++i) {
    if ((call->op->fresh[i]->flags & OPGRAFT_RESULT_LIST) == 0) {
      tensor_put(s, &call->frame.fresh[i]);
      continue;
    }
    const og_tensor_list *list = &call->frame.fresh_list[i];
    put(s, list->count);
    for (int64_t k = 0; k < list->count; ++k) tensor_put(s, list->tensors[k]);
  }
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
  words w = {.word = words_in, .count = count};
  sink s = {.out = out, .size = out_size};
  og_host_call call;
  opgraft_error error = {.code = OG_OK};
  og_host_begin(&call, &own->ops[op]);
  og_status status = call_read(&w, &call, &error);
  if (status == OG_OK) status = og_host_infer(&call, &error);
  if (status == OG_OK) results_put(&s, &call);
  og_host_end(&call);
  if (status == OG_OK) return s.used;
  snprintf(text, size, "%s", error.text);
  return -1;
}
