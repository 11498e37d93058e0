// SPDX-License-Identifier: Apache-2.0
// Where an operator's declaration stands in C files: not a parser of C, but of
// designators and the string literals behind them.

#include "declared.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

// Behind blanks and comments.
static const char *skip(const char *at) {
  for (;;) {
    at += strspn(at, " \t\r\n");
    if (at[0] != '/' || (at[1] != '/' && at[1] != '*')) return at;
    const char *end = at[1] == '/' ? strchr(at, '\n') : strstr(at + 2, "*/");
    if (end == NULL) return at + strlen(at);
    at = end + (at[1] == '/' ? 1 : 2);
  }
}

// The designator `.field =` at `at`: what stands behind it, or NULL.
static const char *value_of(const char *at, const char *field) {
  const size_t length = strlen(field);
  if (at[0] != '.' || strncmp(at + 1, field, length) != 0) return NULL;
  at = skip(at + 1 + length);
  return at[0] == '=' && at[1] != '=' ? skip(at + 1) : NULL;
}

// Character `index` of the string that the literals at `at` make together, or
// the quote behind the last; NULL where they do not begin or go on so far.
static const char *literal_at(const char *at, int32_t index) {
  while (*at == '"') {
    for (++at; *at != '"' && *at != '\0' && *at != '\n'; ++at) {
      if (index-- == 0) return at;
      at += at[0] == '\\' && at[1] != '\0';
    }
    if (*at != '"') return NULL;
    const char *next = skip(at + 1);
    if (*next != '"') return index == 0 ? at : NULL;
    at = next;
  }
  return NULL;
}

static bool begins_with_name(const char *literals, const char *op) {
  const size_t length = strlen(op);
  const char *name = literal_at(literals, 0);
  return name != NULL && strncmp(name, op, length) == 0 &&
         !isalnum((unsigned char)name[length]) && name[length] != '_';
}

// What stands behind `.field =` of entry `index` of an array of that name.
static const char *entry_of(const char *text, const char *array, size_t length,
                            long index, const char *field) {
  const char *at = text;
  while (at != NULL && (strncmp(at, array, length) != 0 || at[length] != '['))
    at = *at != '\0' ? at + 1 : NULL;
  if (at == NULL || (at = strchr(at, '{')) == NULL) return NULL;
  for (int depth = 0; *at != '\0' && *at != ';'; ++at) {
    const char *value = depth == 2 && index == -1 ? value_of(at, field) : NULL;
    if (value != NULL) return value;
    depth += (*at == '{') - (*at == '}');
    index -= *at == '{' && depth == 2;
  }
  return NULL;
}

// `kernels[1].dtypes`: in the array that `.kernels = OG_KERNELS(array)` names.
static const char *kernel_field(const char *text, const char *kernels,
                                const char *argument) {
  static const char macro[] = "OG_KERNELS(";
  char *end;
  if (strncmp(argument, "kernels[", 8) != 0) return NULL;
  const long index = strtol(argument + 8, &end, 10);
  if (strncmp(end, "].", 2) != 0 ||
      strncmp(kernels, macro, sizeof macro - 1) != 0)
    return NULL;
  const char *array = skip(kernels + sizeof macro - 1);
  return entry_of(text, array, strcspn(array, " )"), index, end + 2);
}

// Where the error points to in a file's text: the character, where a macro
// makes the string its beginning, else the operator's schema; NULL where that
// is not in the file. A field counts for the operator whose schema stands
// before it.
static const char *find(const char *text, const opgraft_error *error) {
  const char *own = NULL;
  for (const char *at = strchr(text, '.'); at != NULL;
       at = strchr(at + 1, '.')) {
    const char *schema = value_of(at, "schema");
    if (schema != NULL && own != NULL) return own;
    if (schema != NULL &&
        (error->op[0] == '\0' || begins_with_name(schema, error->op)))
      own = schema;
    const char *value = own != NULL ? value_of(at, error->argument) : NULL;
    const char *kernels = own != NULL ? value_of(at, "kernels") : NULL;
    if (kernels != NULL && value == NULL)
      value = kernel_field(text, kernels, error->argument);
    if (value == NULL) continue;
    const char *found = literal_at(value, error->begin);
    return found != NULL ? found : value;
  }
  return own;
}

static int show(const char *path, const char *text, const char *at,
                const char *said) {
  int line = 1;
  const char *begin = text;
  for (const char *c = text; c < at; ++c) {
    if (*c != '\n') continue;
    ++line;
    begin = c + 1;
  }
  const int column = (int)(at - begin);
  return cli_error("%s:%d:%d: %s\n%.*s\n%*s^", path, line, column + 1, said,
                   (int)strcspn(begin, "\n"), begin, column, "");
}

int cli_declared_error(const char *const *sources, int count,
                       const opgraft_error *error) {
  for (int i = 0; i < count; ++i) {
    size_t size;
    char *text = cli_file_read(sources[i], &size);
    const char *at = text != NULL ? find(text, error) : NULL;
    if (at != NULL) show(sources[i], text, at, error->text);
    free(text);
    if (at != NULL) return CLI_FINDINGS;
  }
  cli_library_error(error);
  return CLI_FINDINGS;
}
