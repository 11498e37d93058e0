// SPDX-License-Identifier: Apache-2.0
// A growing byte string, UTF-8, JSON escapes, dtype names, SHA-256.

#ifndef OG_BASE_TEXT_H
#define OG_BASE_TEXT_H

#include <opgraft/op.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

// Zeroed is empty. Once memory was short `failed` stays set and further text
// is dropped; the owner asks once, at the end. data is NUL-terminated or NULL.
typedef struct og_text {
  char *data;
  size_t length;
  size_t capacity;
  bool failed;
} og_text;

void og_text_add(og_text *text, const char *string);
void og_text_add_n(og_text *text, const char *bytes, size_t length);
void og_text_addf(og_text *text, const char *format, ...) OG_PRINTF(2, 3);
// A JSON string with quotes: what is not plain is escaped, and bytes that are
// not UTF-8 become U+FFFD.
void og_text_add_json(og_text *text, const char *string);
// The shortest digits that read back as the same value, with a point or an
// exponent; "inf", "-inf", "nan". Does not depend on the locale.
void og_text_add_double(og_text *text, double value);
// "%.*f", whatever the locale.
void og_text_add_fixed(og_text *text, double value, int digits);
void og_text_reset(og_text *text);
// Copies what fits with a NUL behind it, resets the text, and returns its whole
// length; 0 where memory was short.
size_t og_text_give(og_text *text, char *buffer, size_t size);

// The whole of `text` as a decimal number; false if it is not one.
bool og_double_parse(const char *text, size_t length, double *out);
// A whole decimal integer with an optional minus sign; false otherwise, and
// where it does not fit.
bool og_i64_parse(const char *text, size_t length, int64_t *out);

// The character of UTF-8 at `s`: its length in bytes, 0 where there is none
// (overlong forms, surrogates), and its code point.
size_t og_utf8_read(const char *s, uint32_t *out_code);
// No control character, and none that reorders or hides text.
bool og_is_plain(uint32_t code);

// "cpu", "cuda", "rocm", "ext"; NULL for a code that has no name.
const char *og_device_name(int32_t type);
// The same, and "device type 7" in `buffer` for a code that has no name.
enum { OG_DEVICE_TEXT = 24 };
const char *og_device_text(int32_t type, char buffer[OG_DEVICE_TEXT]);
// False for a name that og_device_name does not give.
bool og_device_parse(const char *name, size_t length, int32_t *out_type);
static const og_device og_cpu = {OG_CPU, 0};
// The CPU is one device, whatever its id.
static inline bool og_device_equal(og_device a, og_device b) {
  return a.type == b.type && (a.id == b.id || a.type == OG_CPU);
}

// "f32", "bf16", "i64", "bool", ...; "?" for a type that has no name.
const char *og_dtype_name(og_dtype dtype);
// Both spellings ("f32", "float32"); false if there is no such type.
bool og_dtype_parse(const char *name, size_t length, og_dtype *out);
static inline bool og_dtype_equal(og_dtype a, og_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
static inline bool og_dtype_is_float(og_dtype dtype) {
  return dtype.code == OG_CODE_FLOAT || dtype.code == OG_CODE_BFLOAT;
}
static inline bool og_dtype_is_f32(og_dtype dtype) {
  return dtype.code == OG_CODE_FLOAT && dtype.bits == 32 && dtype.lanes == 1;
}
static inline size_t og_dtype_bytes(og_dtype dtype) {
  return ((size_t)dtype.bits * dtype.lanes + 7) / 8;
}

// SHA-256 (FIPS 180-4) as 64 hexadecimal digits and a NUL.
void og_sha256_hex(const void *data, size_t size_bytes, char out_hex[65]);

// "[2, 3]", cut where it does not fit into `size`.
void og_dims_text(const int64_t *dims, int64_t rank, char *buffer, size_t size);

#endif  // OG_BASE_TEXT_H
