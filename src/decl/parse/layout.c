// SPDX-License-Identifier: Apache-2.0
// The strides string, and the argument of a derived in-place form.

#include "decl/parse/parser.h"

#include "decl/parse/names.h"

static og_status parse_stride_word(og_parser *parser, og_stride_rule *out) {
  static const struct {
    const char *name;
    og_stride_rule rule;
  } rows[] = {{"contiguous", OG_STRIDES_CONTIGUOUS},
              {"any", OG_STRIDES_ANY},
              {"last", OG_STRIDES_LAST}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (!og_reader_take_word(&parser->reader, rows[i].name)) continue;
    *out = rows[i].rule;
    return OG_OK;
  }
  return og_read_wanted(&parser->reader,
                        "contiguous, any or last, for all or as in \"x: any\"");
}

static og_status parse_named(og_parser *parser) {
  uint64_t named = 0;
  do {
    const og_token name = parser->reader.token;
    int32_t tensor;
    OG_TRY(og_parse_tensor(parser, &tensor));
    if (named >> tensor & 1u)
      return og_read_error_token(&parser->reader, name, "%s has two entries",
                                 og_tensor_param(parser->decl, tensor)->name);
    named |= (uint64_t)1 << tensor;
    OG_TRY(og_reader_expect(&parser->reader, ':',
                            "':' and contiguous, any or last"));
    OG_TRY(parse_stride_word(parser, &parser->decl->strides[tensor]));
  } while (og_reader_take(&parser->reader, ','));
  return og_reader_expect_end(&parser->reader, "',' or the end");
}

static og_status parse_text(og_parser *parser) {
  og_decl *decl = parser->decl;
  og_stride_rule rule = OG_STRIDES_CONTIGUOUS;
  if (og_reader_peek(&parser->reader).mark == ':') return parse_named(parser);
  OG_TRY(parse_stride_word(parser, &rule));
  for (int32_t t = 0; t < decl->tensor_count; ++t) decl->strides[t] = rule;
  return og_reader_expect_end(&parser->reader, "the end");
}

og_status og_parse_strides(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  decl->strides = og_arena_array(&decl->arena, (size_t)decl->tensor_count,
                                 sizeof(og_stride_rule));
  if (decl->strides == NULL)
    return og_error_set(error, OG_MEMORY, decl->name, "strides",
                        "%s: strides: out of memory", decl->name);
  if (decl->record->strides != NULL) {
    OG_TRY(
        og_parser_init(&parser, decl, "strides", decl->record->strides, error));
    OG_TRY(parse_text(&parser));
  }
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    const og_shape_rule *rule = &decl->shapes[i];
    if (rule->kind != OG_SHAPE_LIKE ||
        decl->strides[rule->like_tensor] == OG_STRIDES_ANY)
      continue;
    const char *name = og_tensor_param(decl, rule->like_tensor)->name;
    return og_error_set(error, OG_INVALID, decl->name, "strides",
                        "%s: strides: a result is like %s, which may then have "
                        "any strides; expected \"%s: any\"",
                        decl->name, name, name);
  }
  return OG_OK;
}

og_status og_parse_inplace(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  int32_t tensor;
  if (decl->record->inplace == NULL) return OG_OK;
  OG_TRY(
      og_parser_init(&parser, decl, "inplace", decl->record->inplace, error));
  const og_token name = parser.reader.token;
  OG_TRY(og_parse_tensor(&parser, &tensor));
  OG_TRY(og_reader_expect_end(&parser.reader, "the end: one argument"));
  const og_param *param = og_tensor_param(decl, tensor);
  if (param->is_list || param->is_optional || decl->mutated_count > 0)
    return og_read_error_token(&parser.reader, name,
                               "%s; expected a plain tensor argument of an "
                               "operator that mutates none",
                               param->is_list       ? "the argument is a list"
                               : param->is_optional ? "the argument is optional"
                                                    : "an argument is mutated "
                                                      "already");
  if (decl->fresh_count == 0 || decl->results[0].is_list ||
      decl->results[0].fresh_index != 0)
    return og_read_error_token(&parser.reader, name,
                               "the operator has no first result that the "
                               "argument could take; expected -> Tensor");
  decl->inplace_param = decl->tensor_params[tensor];
  return OG_OK;
}
