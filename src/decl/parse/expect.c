// SPDX-License-Identifier: Apache-2.0
// The expect string: what check would find, and is meant.

#include "decl/parse/expect.h"

#include <stdio.h>
#include <string.h>

#include "decl/parse/names.h"
#include "decl/parse/parser.h"

// What a word may be said of, as bits.
enum { OF_ARGUMENT = 1, OF_MUTATED = 2, OF_RESULT = 4, OF_OUTPUT = 6 };

static const struct {
  const char *word;
  uint32_t of;
  const char *what;
} rows[OG_EXPECT_COUNT] = {
    [OG_EXPECT_UNUSED] = {"unused", OF_ARGUMENT, "argument"},
    [OG_EXPECT_UNUSED_END] = {"unused_end", OF_ARGUMENT, "argument"},
    [OG_EXPECT_UNMUTATED] = {"unmutated", OF_MUTATED, "mutated argument"},
    [OG_EXPECT_NO_GRADIENT] = {"no_gradient", OF_ARGUMENT | OF_RESULT,
                               "argument or result"},
    [OG_EXPECT_NAN] = {"nan", OF_OUTPUT, "result or mutated argument"},
    [OG_EXPECT_TYPE_DEPENDENT] = {"type_dependent", OF_OUTPUT,
                                  "result or mutated argument"},
};

const char *og_expect_word(og_expect_kind kind) { return rows[kind].word; }

bool og_decl_expects(const og_decl *decl, og_expect_kind kind,
                     const char *name) {
  const size_t length = strcspn(name, "[");
  for (int32_t i = 0; i < decl->expect_count; ++i) {
    const og_expect *e = &decl->expects[i];
    if (e->kind == kind && strlen(e->name) == length &&
        memcmp(e->name, name, length) == 0)
      return true;
  }
  return false;
}

void og_result_name(const og_decl *decl, int32_t result, char *out,
                    size_t size) {
  const char *name = decl->results[result].name;
  if (name[0] != '\0')
    snprintf(out, size, "%s", name);
  else if (decl->fresh_count > 1)
    snprintf(out, size, "result_%d", (int)result);
  else
    snprintf(out, size, "result");
}

// --- Names -------------------------------------------------------------------

// Name `i` that may stand behind a word: arguments, then fresh results; false
// behind the last. *out_fits: it is one that the word may be said of.
static bool name_at(const og_decl *decl, int32_t i, uint32_t of, char *out,
                    size_t size, bool *out_fits) {
  if (i < decl->param_count) {
    snprintf(out, size, "%s", decl->params[i].name);
    *out_fits = (of & OF_ARGUMENT) != 0 ||
                ((of & OF_MUTATED) != 0 && decl->params[i].is_mutated);
    return true;
  }
  i -= decl->param_count;
  if (i >= decl->fresh_count) return false;
  og_result_name(decl, decl->fresh_results[i], out, size);
  *out_fits = (of & OF_RESULT) != 0;
  return true;
}

static og_status refuse_name(const og_parser *parser, og_expect_kind kind) {
  char name[64], known[240] = "";
  bool fits;
  size_t used = 0;
  for (int32_t i = 0;
       name_at(parser->decl, i, rows[kind].of, name, sizeof name, &fits); ++i)
    if (fits && used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                               used > 0 ? ", " : "", name);
  return og_read_error_token(
      &parser->reader, parser->reader.token, "unknown %s '%.*s'; known: %s",
      rows[kind].what, og_token_length(parser->reader.token),
      og_token_text(&parser->reader, parser->reader.token),
      used > 0 ? known : "none");
}

static og_status parse_name(og_parser *parser, og_expect_kind kind) {
  og_decl *decl = parser->decl;
  char name[64];
  bool fits, is_found = false;
  if (parser->reader.token.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader, "a name (%s)", rows[kind].what);
  for (int32_t i = 0;
       !is_found && name_at(decl, i, rows[kind].of, name, sizeof name, &fits);
       ++i)
    is_found = fits && og_token_is(&parser->reader, parser->reader.token, name);
  if (!is_found) return refuse_name(parser, kind);
  if (og_decl_expects(decl, kind, name))
    return og_read_error_token(&parser->reader, parser->reader.token,
                               "%s stands behind %s twice", name,
                               rows[kind].word);
  og_expect *e = &decl->expects[decl->expect_count++];
  e->kind = kind;
  e->name = og_token_copy(parser, parser->reader.token);
  if (e->name == NULL) return og_read_memory(&parser->reader);
  og_reader_advance(&parser->reader);
  return OG_OK;
}

// --- Words -------------------------------------------------------------------

static og_status parse_word(og_parser *parser, og_expect_kind *out_kind) {
  char known[120] = "";
  size_t used = 0;
  for (int32_t k = 0; k < OG_EXPECT_COUNT; ++k) {
    *out_kind = (og_expect_kind)k;
    if (og_reader_take_word(&parser->reader, rows[k].word)) return OG_OK;
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                             k > 0 ? ", " : "", rows[k].word);
  }
  if (parser->reader.token.kind != OG_TOKEN_NAME)
    return og_read_wanted(&parser->reader, "one of %s", known);
  return og_read_error_token(
      &parser->reader, parser->reader.token, "unknown word '%.*s'; known: %s",
      og_token_length(parser->reader.token),
      og_token_text(&parser->reader, parser->reader.token), known);
}

og_status og_parse_expect(og_decl *decl, opgraft_error *error) {
  og_parser parser;
  if (decl->record->expect == NULL) return OG_OK;
  OG_TRY(og_parser_init(&parser, decl, "expect", decl->record->expect, error));
  const size_t names = (size_t)(decl->param_count + decl->fresh_count);
  decl->expects = og_arena_array(&decl->arena, names * OG_EXPECT_COUNT + 1,
                                 sizeof(og_expect));
  if (decl->expects == NULL) return og_read_memory(&parser.reader);
  do {
    og_expect_kind kind;
    OG_TRY(parse_word(&parser, &kind));
    OG_TRY(og_reader_expect(&parser.reader, ':', "':' and names"));
    do OG_TRY(parse_name(&parser, kind));
    while (og_reader_take(&parser.reader, ','));
  } while (og_reader_take(&parser.reader, ';'));
  return og_reader_expect_end(&parser.reader, "',', ';' or the end");
}
