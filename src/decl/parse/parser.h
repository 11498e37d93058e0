// SPDX-License-Identifier: Apache-2.0
// What the parsers of a declaration's strings share: names, and expressions
// over dims. Private to src/decl.

#ifndef OG_DECL_PARSE_PARSER_H
#define OG_DECL_PARSE_PARSER_H

#include "base/reader.h"
#include "decl/decl.h"

// Kinds of dims that a use accepts, as bits of og_dim_kind.
enum {
  OG_USE_SIZE = 1 << OG_DIM_SIZE,
  OG_USE_PACK = 1 << OG_DIM_PACK,
  OG_USE_VARY = 1 << OG_DIM_VARY,
};

// A name used in an expression, checked when all names are known.
typedef struct og_dim_use {
  int32_t dim;
  int32_t wants;    // OG_USE_*
  int32_t pattern;  // the argument pattern that it stands in, -1: a result
  int32_t begin;
  int32_t end;
} og_dim_use;

enum { OG_USES_MAX = 512, OG_ITEMS_MAX = 64 };

// One string of a declaration while it is read. Fields from `is_open` on say
// what its expressions may name.
typedef struct og_parser {
  og_reader reader;
  og_decl *decl;
  bool is_open;         // unknown names become dims (argument patterns)
  bool has_threads;     // `threads` is known (workspace)
  int32_t pattern;      // what uses are recorded for
  int32_t index_begin;  // span of the name of a list result's index, or -1
  int32_t index_end;
  og_dim_use *uses;  // room for OG_USES_MAX; NULL: names are checked at once
  int32_t use_count;
  // The expression that is being read.
  og_instruction code[OG_EXPR_CODE_MAX];
  int32_t code_count;
  int32_t depth;
  bool needs_packs;
} og_parser;

// What a name may have been meant for; a bit each.
enum {
  OG_NAMES_DIMS = 1,
  OG_NAMES_INTS = 2,     // int, SymInt and bool arguments, and lists of them
  OG_NAMES_TENSORS = 4,  // tensor arguments
  OG_NAMES_PARAMS = 8,
  OG_NAMES_RESULTS = 16,
};

static inline bool og_is_int_type(og_type type) {
  return type == OG_TYPE_INT || type == OG_TYPE_SYM_INT || type == OG_TYPE_BOOL;
}

// The field suits no operator of this kind: an error at the whole text.
static inline og_status og_refuse_operator(const og_parser *p,
                                           const char *found,
                                           const char *wanted) {
  return og_read_error(&p->reader, 0, p->reader.length, "%s; expected %s",
                       found, wanted);
}

#define OG_STEP(read) og_status read(og_decl *decl, opgraft_error *error);
#include "decl/parse/steps.def"
#undef OG_STEP

#endif  // OG_DECL_PARSE_PARSER_H
