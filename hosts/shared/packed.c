// SPDX-License-Identifier: Apache-2.0
// Calls as words.

#include "shared/packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static og_status wrong(const og_own_op *op, const char *what,
                       opgraft_error *error) {
  return og_own_fail(op, OG_INVALID, error, "attribute call: %s", what);
}

// --- Tensor arguments --------------------------------------------------------

static int flag_is_wrong(int64_t flag) { return flag != 0 && flag != 1; }

static og_status list_count(og_packed *node, og_words *words,
                            opgraft_error *error) {
  const int64_t count = og_words_next(words);
  if (count < 0 || count > OG_HOST_ENTRIES_MAX)
    return wrong(node->op, "a list has more entries than a call may have",
                 error);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t flag = og_words_next(words);
    if (flag_is_wrong(flag))
      return wrong(node->op, "an entry is neither given nor absent", error);
    node->input_count += (int32_t)flag;
  }
  return OG_OK;
}

static og_status given_read(og_packed *node, og_words *words,
                            opgraft_error *error) {
  const int64_t begin = words->used;
  for (int32_t t = 0; t < node->op->info.tensor_count; ++t) {
    const uint32_t flags = node->op->tensor_params[t]->flags;
    if ((flags & OPGRAFT_PARAM_LIST) != 0) {
      OG_HOST_TRY(list_count(node, words, error));
      continue;
    }
    const int64_t flag = og_words_next(words);
    if (flag_is_wrong(flag))
      return wrong(node->op, "an argument is neither given nor absent", error);
    node->input_count += (int32_t)flag;
  }
  if (words->is_short) return og_words_short(words, node->op, error);
  node->given = words->word + begin;
  node->given_count = words->used - begin;
  return OG_OK;
}

og_status og_packed_inputs(const og_packed *node, og_host_call *call,
                           og_packed_input_fn input, void *state,
                           opgraft_error *error) {
  const int64_t *word = node->given;
  int32_t index = 0;
  for (int32_t t = 0; t < node->op->info.tensor_count; ++t) {
    const uint32_t flags = node->op->tensor_params[t]->flags;
    const int is_list = (flags & OPGRAFT_PARAM_LIST) != 0;
    const int64_t count = is_list ? *word++ : 1;
    for (int64_t i = 0; i < count; ++i) {
      og_status status = OG_OK;
      if (*word++ != 0)
        status = input(state, t, index++, is_list, error);
      else if (is_list)
        status = og_host_entry(call, t, NULL, error);
      if (status != OG_OK) return status;
    }
  }
  return OG_OK;
}

// --- Other arguments ---------------------------------------------------------

// NULL, and the words are short, where they end within the text, its length is
// negative, or it has no end of its own.
static const char *text_read(og_words *words, int64_t *out_count) {
  const int64_t count = og_words_next(words);
  const int64_t *word = og_words_take(words, count < 0 ? -1 : count / 8 + 1);
  const char *text = (const char *)word;
  *out_count = count;
  if (text == NULL || text[count] == '\0') return text;
  words->is_short = 1;
  return NULL;
}

static og_status texts_read(og_packed *node, int32_t a, og_words *words,
                            opgraft_error *error) {
  const int64_t count = og_words_next(words);
  if (count < 0 || count > words->count)
    return wrong(node->op, "a list of texts is longer than the call", error);
  const char **texts = calloc((size_t)count + 1, sizeof *texts);
  if (texts == NULL) return wrong(node->op, "out of memory", error);
  node->texts[a] = texts;
  for (int64_t i = 0; i < count; ++i) {
    int64_t bytes;
    texts[i] = text_read(words, &bytes);
  }
  node->attr[a].count = count;
  node->attr[a].strs = texts;
  return OG_OK;
}

static og_status attr_read(og_packed *node, int32_t a, og_words *words,
                           opgraft_error *error) {
  og_attr *out = &node->attr[a];
  *out = (og_attr){.kind = (int32_t)og_words_next(words)};
  switch (out->kind) {
    case OG_ATTR_NONE:
      return OG_OK;
    case OG_ATTR_INT:
    case OG_ATTR_BOOL:
      out->i = og_words_next(words);
      return OG_OK;
    case OG_ATTR_FLOAT:
      out->f = og_words_double(words);
      return OG_OK;
    case OG_ATTR_COMPLEX:
      out->f = og_words_double(words);
      out->imag = og_words_double(words);
      return OG_OK;
    case OG_ATTR_DTYPE:
      out->dtype.code = (uint8_t)og_words_next(words);
      out->dtype.bits = (uint8_t)og_words_next(words);
      out->dtype.lanes = 1;
      return OG_OK;
    case OG_ATTR_STR:
      out->s = text_read(words, &out->count);
      return OG_OK;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
    case OG_ATTR_FLOATS:
      out->count = og_words_next(words);
      out->ints = og_words_take(words, out->count);
      return OG_OK;
    case OG_ATTR_STRS:
      return texts_read(node, a, words, error);
    default:
      return wrong(node->op, "an argument has no such kind", error);
  }
}

og_status og_packed_read(og_packed *node, const og_own_op *op, og_words *words,
                         opgraft_error *error) {
  *node = (og_packed){.op = op};
  OG_HOST_TRY(given_read(node, words, error));
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    OG_HOST_TRY(attr_read(node, a, words, error));
  return words->is_short ? og_words_short(words, op, error) : OG_OK;
}

void og_packed_reset(og_packed *node) {
  for (int32_t a = 0; a < OPGRAFT_ATTR_MAX; ++a) free(node->texts[a]);
}

// --- Results of a call -------------------------------------------------------

typedef struct query {
  og_words words;
  og_host_call call;
} query;

static og_status input_give(void *state, int32_t t, int32_t index, int is_list,
                            opgraft_error *error) {
  (void)index;
  query *q = state;
  const og_tensor tensor = og_words_tensor(&q->words);
  if (is_list) return og_host_entry(&q->call, t, &tensor, error);
  og_host_input(&q->call, t, &tensor);
  return OG_OK;
}

static og_status query_infer(query *q, og_packed *node, const og_own_op *op,
                             opgraft_error *error) {
  OG_HOST_TRY(og_packed_read(node, op, &q->words, error));
  OG_HOST_TRY(og_packed_inputs(node, &q->call, input_give, q, error));
  if (q->words.is_short) return og_words_short(&q->words, op, error);
  for (int32_t a = 0; a < op->info.attr_count; ++a)
    q->call.frame.attr[a] = node->attr[a];
  return og_host_infer(&q->call, error);
}

int64_t og_packed_infer(int32_t op, const int64_t *words, int64_t count,
                        int64_t *out, int64_t out_size, char *text,
                        size_t size) {
  const og_own *own = og_own_get();
  if (op < 0 || op >= own->op_count) {
    snprintf(text, size, "%s: there is no operator %d",
             own->error.code == OG_OK ? own->name : "the module", (int)op);
    return -1;
  }
  query q = {.words = {.word = words, .count = count}};
  og_packed node;
  opgraft_error error = {.code = OG_OK};
  int64_t used = -1;
  og_host_begin(&q.call, &own->ops[op]);
  if (query_infer(&q, &node, &own->ops[op], &error) == OG_OK)
    used = og_words_results(&q.call, out, out_size);
  else
    snprintf(text, size, "%s", error.text);
  og_host_end(&q.call);
  og_packed_reset(&node);
  return used;
}
