// SPDX-License-Identifier: Apache-2.0
// The kernels' types, and whether every declared combination has a kernel.

#include "decl/parse/parser.h"

#include <stdio.h>

#include "base/sized.h"
#include "base/text.h"
#include "decl/formula.h"
#include "decl/parse/dtype.h"
#include "decl/parse/names.h"
#include "decl/types.h"

enum { COMBINATIONS_MAX = 4096 };

// Copies the records, which may be shorter or longer than ours.
static og_status copy_kernels(og_decl *decl, opgraft_error *error) {
  const og_op *record = decl->record;
  const size_t count = record->kernel_count;
  const size_t size = record->kernel_size;
  const size_t ours = sizeof(og_kernel);
  if (count > 256 || (count > 0 && record->kernels == NULL) ||
      (count > 0 && size < offsetof(og_kernel, run) + sizeof(void *)))
    return og_error_set(error, OG_INVALID, decl->name, "kernels",
                        "%s: kernels: %zu of %zu bytes each; expected "
                        ".kernels = OG_KERNELS(array), up to 256",
                        decl->name, count, size);
  decl->kernels = og_arena_array(&decl->arena, count, ours);
  decl->kernel_types = og_arena_array(&decl->arena, count * OG_VARIABLE_MAX,
                                      sizeof(og_type_set));
  if (decl->kernels == NULL || decl->kernel_types == NULL)
    return og_error_set(error, OG_MEMORY, decl->name, "kernels",
                        "%s: kernels: out of memory", decl->name);
  decl->kernel_count = (int32_t)count;
  for (size_t k = 0; k < count; ++k) {
    const char *from = (const char *)record->kernels + k * size;
    if (og_copy_known(from, size, &decl->kernels[k], ours) != 0)
      return og_error_set(error, OG_VERSION, decl->name, "kernels",
                          "%s: kernels: kernel %zu uses a field that this "
                          "library does not know; update opgraft, or build "
                          "the module against this version",
                          decl->name, k);
    if (decl->kernels[k].run == NULL)
      return og_error_set(error, OG_INVALID, decl->name, "kernels",
                          "%s: kernels: kernel %zu has no .run", decl->name, k);
    if (og_device_name(decl->kernels[k].device) == NULL)
      return og_error_set(error, OG_INVALID, decl->name, "kernels",
                          "%s: kernels: kernel %zu: .device is %d; expected "
                          "OG_CPU, OG_CUDA, OG_ROCM or OG_EXT_DEV",
                          decl->name, k, (int)decl->kernels[k].device);
  }
  return OG_OK;
}

// --- dtypes ------------------------------------------------------------------

static og_status parse_entries(og_parser *parser, og_type_set *entries,
                               int32_t *out_count) {
  *out_count = 0;
  do {
    og_type_set *set = &entries[*out_count];
    *set = 0;
    if (*out_count == OPGRAFT_ARG_MAX)
      return og_read_wanted(&parser->reader, "%d entries or fewer",
                            OPGRAFT_ARG_MAX);
    if (!og_take_type_set(parser, set))
      return og_read_type_wanted(&parser->reader, "");
    OG_TRY(og_parse_more_types(parser, set));
    ++*out_count;
  } while (og_reader_take(&parser->reader, ','));
  return og_reader_expect_end(&parser->reader, "'|', ',' or the end");
}

// One entry for each free type. Entries for every argument that has types of
// its own, also where only one is possible, are taken too; where none is free,
// so is one entry, for the first argument.
static og_status place_entries(const og_parser *parser,
                               const og_type_set *entries, int32_t count,
                               og_type_set *out_sets) {
  const og_decl *decl = parser->decl;
  const bool is_free = decl->type_variable_count > 0;
  const bool by_variable = is_free && count == decl->type_variable_count;
  int32_t at = 0, wanted = 0;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_type_rule *rule = &decl->types[t];
    if (rule->same_as >= 0 || (by_variable && rule->variable < 0)) continue;
    ++wanted;
    if (at == count) continue;
    const og_type_set set = entries[at++];
    if (rule->variable >= 0)
      out_sets[rule->variable] = set;
    else if (!(set & rule->set))
      return og_read_error(&parser->reader, 0, parser->reader.length,
                           "%s has another type in the dtype rule",
                           og_tensor_param(decl, t)->name);
  }
  if (count == wanted || (!is_free && count == 1 && wanted > 0)) return OG_OK;
  if (!is_free)
    return og_read_error(
        &parser->reader, 0, parser->reader.length,
        "found %d type list%s, but no argument's type is free; "
        "leave .dtypes out",
        (int)count, og_plural(count));
  return og_read_error(&parser->reader, 0, parser->reader.length,
                       "found %d type list%s, expected %d: one for each "
                       "argument whose type is free",
                       (int)count, og_plural(count),
                       (int)decl->type_variable_count);
}

static og_status parse_kernel_types(og_decl *decl, int32_t k,
                                    opgraft_error *error) {
  og_parser parser;
  char field[40];
  int32_t count;
  og_type_set entries[OPGRAFT_ARG_MAX];
  og_type_set *sets = decl->kernel_types + (size_t)k * OG_VARIABLE_MAX;
  og_type_set all = og_types_any;
  if (decl->is_formula_derived) all &= ~og_types_complex;
  if (decl->is_formula_derived && !decl->formula->is_real)
    all &= ~og_types_floating;
  for (int32_t v = 0; v < OG_VARIABLE_MAX; ++v) sets[v] = all;
  const char *text = decl->kernels[k].dtypes;
  if (text == NULL) return OG_OK;
  snprintf(field, sizeof field, "kernels[%d].dtypes", (int)k);
  OG_TRY(og_parser_init(&parser, decl, field, text, error));
  OG_TRY(parse_entries(&parser, entries, &count));
  return place_entries(&parser, entries, count, sets);
}

// --- Coverage ----------------------------------------------------------------

// Without a dtype rule the one type is any that a kernel names.
static void narrow_assumed_type(og_decl *decl) {
  og_type_set set = 0;
  if (decl->record->dtype != NULL || decl->tensor_count == 0) return;
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    set |= decl->kernel_types[(size_t)k * OG_VARIABLE_MAX];
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    decl->types[t].set = set;
    if ((set & (set - 1)) == 0) decl->types[t].variable = -1;
  }
  if ((set & (set - 1)) == 0) decl->type_variable_count = 0;
}

static bool kernel_covers(const og_decl *decl, int32_t k,
                          const og_type_set *wanted) {
  const og_type_set *sets = decl->kernel_types + (size_t)k * OG_VARIABLE_MAX;
  for (int32_t v = 0; v < decl->type_variable_count; ++v)
    if (wanted[v] & ~sets[v]) return false;
  return true;
}

static bool is_covered(const og_decl *decl, const og_type_set *wanted) {
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    if (kernel_covers(decl, k, wanted)) return true;
  return false;
}

static og_status not_covered(const og_decl *decl, const og_type_set *wanted,
                             opgraft_error *error) {
  char text[240] = "";
  size_t used = 0;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_type_rule *rule = &decl->types[t];
    int32_t type = 0;
    if (rule->same_as >= 0 || rule->variable < 0) continue;
    while (!(wanted[rule->variable] >> type & 1u)) ++type;
    const int wrote = snprintf(
        text + used, sizeof text - used, "%s%s: %s", used > 0 ? ", " : "",
        og_tensor_param(decl, t)->name, og_dtype_name(og_dtype_at(type)));
    if (wrote > 0 && (size_t)wrote < sizeof text - used) used += (size_t)wrote;
  }
  return og_error_set(error, OG_INVALID, decl->name, "dtype",
                      "%s: dtype: %s is declared, but no kernel takes it; add "
                      "a kernel, or leave the type out",
                      decl->name, text);
}

// The next choice of one type for each variable, as an odometer; false after
// the last.
static bool next_choice(const og_decl *decl, const og_type_set *declared,
                        og_type_set *choice) {
  for (int32_t v = 0; v < decl->type_variable_count; ++v) {
    og_type_set next = choice[v] << 1;
    while (next <= declared[v] && !(next & declared[v])) next <<= 1;
    if (next <= declared[v]) {
      choice[v] = next;
      return true;
    }
    choice[v] = declared[v] & (~declared[v] + 1);
  }
  return false;
}

static og_status check_coverage(const og_decl *decl, opgraft_error *error) {
  og_type_set declared[OG_VARIABLE_MAX] = {0};
  og_type_set choice[OG_VARIABLE_MAX] = {0};
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_type_rule *rule = &decl->types[t];
    if (rule->variable >= 0) declared[rule->variable] = rule->set;
  }
  if (is_covered(decl, declared)) return OG_OK;
  for (int32_t v = 0; v < decl->type_variable_count; ++v)
    choice[v] = declared[v] & (~declared[v] + 1);
  for (int32_t n = 0; n < COMBINATIONS_MAX; ++n) {
    if (!is_covered(decl, choice)) return not_covered(decl, choice, error);
    if (!next_choice(decl, declared, choice)) return OG_OK;
  }
  return og_error_set(error, OG_INVALID, decl->name, "dtype",
                      "%s: dtype: more than %d combinations of types; expected "
                      "fewer, or a kernel that takes them all",
                      decl->name, COMBINATIONS_MAX);
}

og_status og_parse_kernels(og_decl *decl, opgraft_error *error) {
  OG_TRY(copy_kernels(decl, error));
  if (decl->kernel_count == 0)
    return og_error_set(error, OG_INVALID, decl->name, "kernels",
                        "%s: kernels: none; expected .kernels = "
                        "OG_KERNELS(array), or a formula (.row)",
                        decl->name);
  for (int32_t k = 0; k < decl->kernel_count; ++k)
    OG_TRY(parse_kernel_types(decl, k, error));
  narrow_assumed_type(decl);
  return check_coverage(decl, error);
}
