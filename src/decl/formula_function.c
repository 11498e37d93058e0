// SPDX-License-Identifier: Apache-2.0
// What is in the cache of a declaration stays as it is until that goes.

#include "decl/formula_function.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "loop/lower.h"

// The encoder is the engine's: libopgraft alone interprets, to the same bits.
#define ENGINES __attribute__((weak, visibility("hidden")))
ENGINES og_loop_code *og_loop_code_create(void);
ENGINES bool og_loop_code_seal(og_loop_code *code);
ENGINES void og_loop_code_destroy(og_loop_code *code);
#undef ENGINES

typedef og_formula_function function;

struct og_formula_cache {
  pthread_mutex_t lock;  // of those who add
  _Atomic(function *) first;
};

og_status og_formula_cache_create(struct og_formula *formula, og_arena *arena) {
  formula->cache = og_arena_alloc(arena, sizeof *formula->cache);
  if (formula->cache == NULL) return OG_MEMORY;
  pthread_mutex_init(&formula->cache->lock, NULL);
  atomic_init(&formula->cache->first, NULL);
  return OG_OK;
}

static void function_destroy(function *fn) {
  og_loop_destroy(fn->loop);
  if (fn->code != NULL) og_loop_code_destroy(fn->code);
  og_arena_destroy(&fn->arena);
  og_free(fn);
}

void og_formula_destroy(const struct og_formula *formula) {
  if (formula->cache == NULL) return;
  function *fn = atomic_load(&formula->cache->first);
  while (fn != NULL) {
    function *next = fn->next;
    function_destroy(fn);
    fn = next;
  }
  pthread_mutex_destroy(&formula->cache->lock);
}

// Of inputs other than tensors.
static uint32_t numbers_of(const struct og_formula *formula) {
  uint32_t numbers = 0;
  for (int32_t i = 0; i < formula->input_count; ++i)
    if (!formula->inputs[i].is_tensor) numbers |= 1u << i;
  return numbers;
}

static void compiled_find(const struct og_formula *f, function *fn) {
  og_loop_info info;
  og_loop_describe(fn->loop, &info);
  if (info.code != NULL || f->codes == NULL) return;
  const uint64_t digest = og_loop_digest(og_loop_lowered_of(fn->loop));
  for (uint32_t k = 0; k < f->codes->count; ++k)
    if (f->codes->codes[k].digest == digest)
      fn->compiled = f->codes->codes[k].run;
}

static og_status loop_make(const struct og_formula *formula, function *fn,
                           opgraft_error *error) {
  const int32_t inputs = fn->program.input_count;
  og_text text = {0};
  og_loop_write(&fn->program, &text);
  const og_loop_spec spec = {.text = text.data,
                             .inputs = fn->operands,
                             .outputs = fn->operands + inputs,
                             .input_count = inputs,
                             .output_count = fn->program.output_count,
                             .number_inputs = numbers_of(formula),
                             .math = OG_LOOP_MATH_FAST,
                             .isa = og_isa_used(),
                             .nontemporal = fn->nontemporal,
                             .prefetch = fn->prefetch};
  if (og_loop_code_create != NULL) fn->code = og_loop_code_create();
  og_status status =
      text.failed || (fn->code == NULL && og_loop_code_create != NULL)
          ? og_error_set(error, OG_MEMORY, NULL, NULL, "out of memory")
          : og_loop_create(&spec, fn->code, &fn->loop, error);
  // Where that fails it is the module's code, or interpreted.
  if (status == OG_OK && fn->code != NULL) og_loop_code_seal(fn->code);
  if (status == OG_OK) compiled_find(formula, fn);
  og_text_reset(&text);
  return status;
}

static og_status function_create(const struct og_formula *formula,
                                 const function *key, function **out,
                                 opgraft_error *error) {
  bool is_row[OG_LOOP_INPUTS_MAX];
  og_dtype types[OG_LOOP_INPUTS_MAX];
  function *fn = *out = og_alloc_zeroed(1, sizeof *fn);
  if (fn == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL, "out of memory");
  fn->class = key->class;
  fn->given = key->given;
  fn->nontemporal = key->nontemporal;
  fn->prefetch = key->prefetch;
  memcpy(fn->operands, key->operands, sizeof fn->operands);
  for (int32_t i = 0; i < formula->input_count; ++i) {
    is_row[i] = fn->operands[i].form == OG_LOOP_ROW;
    types[i] = fn->operands[i].dtype;
  }
  const og_formula_choice choice = {
      .given = fn->given,
      .is_row_input = is_row,
      .types = types,
      .row_sums =
          og_formula_row_sums(formula, fn->operands + formula->input_count)};
  og_status status =
      og_formula_program(formula, &choice, &fn->arena, &fn->program)
          ? OG_OK
          : og_error_set(error, OG_MEMORY, NULL, NULL, "out of memory");
  if (status == OG_OK && fn->class == OG_CLASS_F32)
    status = loop_make(formula, fn, error);
  if (status != OG_OK) function_destroy(fn);
  return status;
}

static bool function_is(const function *fn, const function *key,
                        int32_t operands) {
  if (fn->class != key->class || fn->given != key->given ||
      fn->nontemporal != key->nontemporal || fn->prefetch != key->prefetch)
    return false;
  for (int32_t i = 0; i < operands; ++i)
    if (fn->operands[i].form != key->operands[i].form ||
        !og_dtype_equal(fn->operands[i].dtype, key->operands[i].dtype))
      return false;
  return true;
}

static function *function_find(const struct og_formula *f,
                               const function *key) {
  function *fn = atomic_load_explicit(&f->cache->first, memory_order_acquire);
  while (fn != NULL && !function_is(fn, key, f->input_count + f->output_count))
    fn = fn->next;
  return fn;
}

og_status og_formula_function_get(const struct og_formula *f,
                                  const function *key, const function **out,
                                  opgraft_error *error) {
  struct og_formula_cache *cache = f->cache;
  function *fn = function_find(f, key);
  og_status status = OG_OK;
  if (fn == NULL) {
    pthread_mutex_lock(&cache->lock);
    fn = function_find(f, key);
    if (fn == NULL) {
      status = function_create(f, key, &fn, error);
      if (status == OG_OK) {
        fn->next = atomic_load(&cache->first);
        atomic_store_explicit(&cache->first, fn, memory_order_release);
      }
    }
    pthread_mutex_unlock(&cache->lock);
  }
  *out = fn;
  return status;
}
