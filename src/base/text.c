// SPDX-License-Identifier: Apache-2.0
// A growing byte string, JSON escapes, numbers without a locale, dtype names.

#include "base/text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Room for `extra` more bytes and a NUL.
static bool text_reserve(og_text *text, size_t extra) {
  size_t wanted;
  if (text->failed) return false;
  if (!og_size_add(text->length, extra, &wanted) ||
      !og_size_add(wanted, 1, &wanted)) {
    text->failed = true;
    return false;
  }
  if (wanted <= text->capacity) return true;
  size_t capacity = text->capacity > 0 ? text->capacity : 64;
  while (capacity < wanted)
    if (!og_size_mul(capacity, 2, &capacity)) capacity = wanted;
  char *data = og_realloc(text->data, capacity);
  if (data == NULL) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

void og_text_add_n(og_text *text, const char *bytes, size_t length) {
  if (!text_reserve(text, length)) return;
  if (length > 0) memcpy(text->data + text->length, bytes, length);
  text->length += length;
  text->data[text->length] = '\0';
}

void og_text_add(og_text *text, const char *string) {
  og_text_add_n(text, string, strlen(string));
}

void og_text_addf(og_text *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  va_list again;
  va_copy(again, values);
  const int length = vsnprintf(NULL, 0, format, values);
  va_end(values);
  if (length < 0) {
    text->failed = true;
  } else if (text_reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

// With a point for the locale's.
static void number_add(og_text *text, char *number) {
  const char *point = localeconv()->decimal_point;
  char *found = strstr(number, point);
  if (found != NULL && strcmp(point, ".") != 0) {
    *found = '.';
    memmove(found + 1, found + strlen(point),
            strlen(found + strlen(point)) + 1);
  }
  og_text_add(text, number);
}

void og_text_add_double(og_text *text, double value) {
  char digits[32];
  if (isnan(value) || isinf(value)) {
    og_text_add(text, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return;
  }
  // The shortest of the forms that read back as the same value.
  for (int precision = 15; precision <= 17; ++precision) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (strtod(digits, NULL) == value) break;
  }
  number_add(text, digits);
  if (strpbrk(digits, ".e") == NULL) og_text_add(text, ".0");
}

void og_text_add_fixed(og_text *text, double value, int digits) {
  char number[352];
  snprintf(number, sizeof number, "%.*f", digits, value);
  number_add(text, number);
}

void og_text_reset(og_text *text) {
  og_free(text->data);
  *text = (og_text){0};
}

size_t og_text_give(og_text *text, char *buffer, size_t size) {
  const size_t length = text->failed ? 0 : text->length;
  if (size > 0) {
    const size_t copied = length < size - 1 ? length : size - 1;
    if (copied > 0) memcpy(buffer, text->data, copied);
    buffer[copied] = '\0';
  }
  og_text_reset(text);
  return length;
}

bool og_double_parse(const char *text, size_t length, double *out) {
  const char *point = localeconv()->decimal_point;
  char digits[80];
  size_t used = 0;
  for (size_t i = 0; i < length; ++i) {
    const char *piece = text[i] == '.' ? point : &text[i];
    const size_t size = text[i] == '.' ? strlen(point) : 1;
    if (used + size >= sizeof digits) return false;
    memcpy(digits + used, piece, size);
    used += size;
  }
  digits[used] = '\0';
  char *end;
  *out = strtod(digits, &end);
  return used > 0 && *end == '\0';
}

// --- UTF-8 -------------------------------------------------------------------

size_t og_utf8_read(const char *text, uint32_t *out_code) {
  const unsigned char *s = (const unsigned char *)text;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  *out_code = s[0];
  if (s[0] < 0x80) return 1;
  if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
  const size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  uint32_t code = s[0] & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((s[i] & 0xC0) != 0x80) return 0;
    code = code << 6 | (s[i] & 0x3F);
  }
  if (code < least[length] || code > 0x10FFFF ||
      (code >= 0xD800 && code <= 0xDFFF))
    return 0;
  *out_code = code;
  return length;
}

bool og_is_plain(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  // Line and paragraph separators, and marks that turn or hide what follows.
  if ((code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E))
    return false;
  return !(code >= 0x2060 && code <= 0x206F) && code != 0x061C &&
         code != 0xFEFF;
}

// --- JSON --------------------------------------------------------------------

static void json_escape(og_text *text, uint32_t c) {
  switch (c) {
    case '"':
      og_text_add(text, "\\\"");
      break;
    case '\\':
      og_text_add(text, "\\\\");
      break;
    case '\n':
      og_text_add(text, "\\n");
      break;
    case '\t':
      og_text_add(text, "\\t");
      break;
    default:
      og_text_addf(text, "\\u%04x", (unsigned)c);
  }
}

void og_text_add_json(og_text *text, const char *string) {
  og_text_add_n(text, "\"", 1);
  for (const char *s = string; *s != '\0';) {
    uint32_t code;
    const size_t length = og_utf8_read(s, &code);
    if (length == 0)
      og_text_add(text, "\\ufffd");
    else if (code == '"' || code == '\\' || !og_is_plain(code))
      json_escape(text, code);
    else
      og_text_add_n(text, s, length);
    s += length > 0 ? length : 1;
  }
  og_text_add_n(text, "\"", 1);
}

bool og_i64_parse(const char *text, size_t length, int64_t *out) {
  const bool is_negative = length > 0 && text[0] == '-';
  int64_t number = 0;
  if (length == (size_t)is_negative) return false;
  for (size_t i = is_negative; i < length; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    const int64_t digit = text[i] - '0';
    if (!og_i64_mul(number, 10, &number) ||
        !(is_negative ? og_i64_sub(number, digit, &number)
                      : og_i64_add(number, digit, &number)))
      return false;
  }
  *out = number;
  return true;
}

// --- Devices and types -------------------------------------------------------

static const struct {
  int32_t type;
  const char *name;
} device_names[] = {
    {OG_CPU, "cpu"}, {OG_CUDA, "cuda"}, {OG_ROCM, "rocm"}, {OG_EXT_DEV, "ext"}};
enum { DEVICE_COUNT = sizeof device_names / sizeof *device_names };

const char *og_device_name(int32_t type) {
  for (size_t i = 0; i < DEVICE_COUNT; ++i)
    if (device_names[i].type == type) return device_names[i].name;
  return NULL;
}

const char *og_device_text(int32_t type, char buffer[OG_DEVICE_TEXT]) {
  const char *name = og_device_name(type);
  if (name != NULL) return name;
  snprintf(buffer, OG_DEVICE_TEXT, "device type %d", (int)type);
  return buffer;
}

bool og_device_parse(const char *name, size_t length, int32_t *out_type) {
  for (size_t i = 0; i < DEVICE_COUNT; ++i) {
    if (strlen(device_names[i].name) != length ||
        memcmp(device_names[i].name, name, length) != 0)
      continue;
    *out_type = device_names[i].type;
    return true;
  }
  return false;
}

static const struct {
  const char *name;
  const char *long_name;
  og_dtype dtype;
} dtype_names[] = {
#define DTYPE_ROW(name, long_name, code, bits) \
  {#name, #long_name, {code, bits, 1}},
    OG_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};
enum { DTYPE_COUNT = sizeof dtype_names / sizeof *dtype_names };

const char *og_dtype_name(og_dtype dtype) {
  for (int i = 0; i < DTYPE_COUNT; ++i)
    if (og_dtype_equal(dtype_names[i].dtype, dtype)) return dtype_names[i].name;
  return "?";
}

static bool name_is(const char *name, const char *text, size_t length) {
  return strlen(name) == length && memcmp(name, text, length) == 0;
}

bool og_dtype_parse(const char *name, size_t length, og_dtype *out) {
  for (int i = 0; i < DTYPE_COUNT; ++i) {
    if (!name_is(dtype_names[i].name, name, length) &&
        !name_is(dtype_names[i].long_name, name, length))
      continue;
    *out = dtype_names[i].dtype;
    return true;
  }
  return false;
}

void og_dims_text(const int64_t *dims, int64_t rank, char *buffer,
                  size_t size) {
  size_t used = (size_t)snprintf(buffer, size, "[");
  for (int64_t i = 0; i < rank && used + 24 < size; ++i)
    used += (size_t)snprintf(buffer + used, size - used, "%s%lld",
                             i > 0 ? ", " : "", (long long)dims[i]);
  snprintf(buffer + used, size - used, "]");
}
