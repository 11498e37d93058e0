// SPDX-License-Identifier: Apache-2.0
// JSON into a tree, and asking the tree.
//
// Invariants: a tree is at most DEPTH_MAX deep, so reading and destroying it
// may recurse.

#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { DEPTH_MAX = 200 };

typedef struct reader {
  const char *at;
  const char *end;
} reader;

static cli_node *value_read(reader *in, int depth);

static cli_node *node_create(cli_kind kind) {
  cli_node *node = cli_alloc(1, sizeof *node);
  node->kind = kind;
  return node;
}

void cli_node_destroy(cli_node *node) {
  while (node != NULL) {
    cli_node *next = node->next;
    cli_node_destroy(node->first);
    free((void *)(uintptr_t)node->key);
    free((void *)(uintptr_t)node->text);
    free(node);
    node = next;
  }
}

static void space_skip(reader *in) {
  while (in->at < in->end && strchr(" \t\r\n", *in->at) != NULL &&
         *in->at != '\0')
    ++in->at;
}

static bool take(reader *in, char wanted) {
  space_skip(in);
  if (in->at >= in->end || *in->at != wanted) return false;
  ++in->at;
  return true;
}

static int hex_read(reader *in, uint32_t *out_code) {
  *out_code = 0;
  for (int i = 0; i < 4; ++i, ++in->at) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *digit =
        in->at < in->end && *in->at ? strchr(digits, *in->at) : NULL;
    if (digit == NULL) return false;
    *out_code = *out_code * 16 + (uint32_t)((digit - digits) % 16);
  }
  return true;
}

static char *utf8_write(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
    return to;
  }
  if (code >= 0x10000) {
    *to++ = (char)(0xf0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 0x3f));
  } else if (code >= 0x800) {
    *to++ = (char)(0xe0 | code >> 12);
  }
  if (code >= 0x800)
    *to++ = (char)(0x80 | (code >> 6 & 0x3f));
  else
    *to++ = (char)(0xc0 | code >> 6);
  *to++ = (char)(0x80 | (code & 0x3f));
  return to;
}

static char *unicode_read(reader *in, char *to) {
  uint32_t code, low;
  if (!hex_read(in, &code)) return NULL;
  const bool is_high = code >= 0xd800 && code < 0xdc00;
  if (is_high && in->end - in->at >= 6 && in->at[0] == '\\' &&
      in->at[1] == 'u') {
    in->at += 2;
    if (!hex_read(in, &low) || low < 0xdc00 || low > 0xdfff) return NULL;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  if (code == 0 || (code >= 0xd800 && code <= 0xdfff)) code = 0xfffd;
  return utf8_write(to, code);
}

static char *escape_read(reader *in, char *to) {
  static const char from[] = "\"\\/bfnrt";
  static const char into[] = "\"\\/\b\f\n\r\t";
  if (in->at >= in->end || *in->at == '\0') return NULL;
  const char escape = *in->at++;
  if (escape == 'u') return unicode_read(in, to);
  const char *known = strchr(from, escape);
  if (known == NULL) return NULL;
  *to++ = into[known - from];
  return to;
}

// The text of a string whose first quote was taken; NULL if it is not one.
static char *string_read(reader *in) {
  // What an escape stands for is never longer than the escape.
  char *text = cli_alloc((size_t)(in->end - in->at) + 1, 1);
  char *to = text;
  while (to != NULL && in->at < in->end && *in->at != '"') {
    if ((unsigned char)*in->at < 0x20)
      to = NULL;
    else if (*in->at != '\\')
      *to++ = *in->at++;
    else if (++in->at < in->end)
      to = escape_read(in, to);
  }
  if (to == NULL || in->at >= in->end) {
    free(text);
    return NULL;
  }
  ++in->at;
  char *exact = cli_strndup(text, (size_t)(to - text));
  free(text);
  return exact;
}

// Entries up to `close`, whose opening was taken.
static bool entries_read(reader *in, cli_node *parent, char close, int depth) {
  cli_node **link = &parent->first;
  if (take(in, close)) return true;
  do {
    char *key = NULL;
    if (parent->kind == CLI_MAP) {
      if (!take(in, '"') || (key = string_read(in)) == NULL) return false;
      if (!take(in, ':')) {
        free(key);
        return false;
      }
    }
    cli_node *entry = value_read(in, depth + 1);
    if (entry == NULL) {
      free(key);
      return false;
    }
    entry->key = key;
    *link = entry;
    link = &entry->next;
    ++parent->count;
  } while (take(in, ','));
  return take(in, close);
}

static cli_node *word_read(reader *in) {
  static const char ends[] = ",:]} \t\r\n\"[{";
  const char *begin = in->at;
  while (in->at < in->end && *in->at && strchr(ends, *in->at) == NULL) ++in->at;
  char *text = cli_strndup(begin, (size_t)(in->at - begin));
  cli_kind kind = CLI_NULL;
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
    kind = CLI_BOOL;
  } else if (strcmp(text, "null") != 0) {
    char *end;
    kind = CLI_NUMBER;
    strtod(text, &end);
    if (text[0] == '\0' || *end != '\0') {
      free(text);
      return NULL;
    }
  }
  cli_node *node = node_create(kind);
  node->text = text;
  return node;
}

static cli_node *value_read(reader *in, int depth) {
  space_skip(in);
  if (in->at >= in->end || depth > DEPTH_MAX) return NULL;
  const char first = *in->at;
  if (first == '"') {
    ++in->at;
    char *text = string_read(in);
    if (text == NULL) return NULL;
    cli_node *node = node_create(CLI_STRING);
    node->text = text;
    return node;
  }
  if (first != '{' && first != '[') return word_read(in);
  ++in->at;
  cli_node *node = node_create(first == '{' ? CLI_MAP : CLI_LIST);
  if (entries_read(in, node, first == '{' ? '}' : ']', depth)) return node;
  cli_node_destroy(node);
  return NULL;
}

cli_node *cli_json_parse(const char *text, size_t length, size_t *out_offset) {
  reader in = {text, text + length};
  cli_node *node = value_read(&in, 0);
  space_skip(&in);
  if (node != NULL && in.at != in.end) {
    cli_node_destroy(node);
    node = NULL;
  }
  if (out_offset != NULL) *out_offset = (size_t)(in.at - text);
  return node;
}

// --- Asking ------------------------------------------------------------------

const cli_node *cli_node_get(const cli_node *map, const char *key) {
  if (map == NULL || map->kind != CLI_MAP) return NULL;
  for (const cli_node *n = map->first; n != NULL; n = n->next)
    if (strcmp(n->key, key) == 0) return n;
  return NULL;
}

const cli_node *cli_node_at(const cli_node *list, int32_t index) {
  const cli_node *n = list != NULL ? list->first : NULL;
  while (n != NULL && index-- > 0) n = n->next;
  return n;
}

const char *cli_node_text(const cli_node *map, const char *key) {
  const cli_node *entry = cli_node_get(map, key);
  return entry != NULL && entry->kind == CLI_STRING ? entry->text : "";
}

int64_t cli_node_int(const cli_node *map, const char *key, int64_t fallback) {
  const cli_node *entry = cli_node_get(map, key);
  if (entry == NULL || entry->kind != CLI_NUMBER) return fallback;
  return strtoll(entry->text, NULL, 10);
}
