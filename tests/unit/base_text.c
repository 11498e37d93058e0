// SPDX-License-Identifier: Apache-2.0
// Texts, JSON strings, numbers, type names, SHA-256, errors.

#include "base/text.h"

#include <locale.h>
#include <math.h>

#include "unit/test.h"

TEST(grows) {
  og_text text = {0};
  for (int i = 0; i < 100; ++i) og_text_addf(&text, "%d,", i);
  og_text_add_n(&text, "xyz", 2);
  REQUIRE(!text.failed);
  CHECK_EQ(text.length, 10 * 2 + 90 * 3 + 2);
  CHECK_STR(text.data + text.length - 5, "99,xy");
done:
  og_text_reset(&text);
}

TEST(json) {
  static const struct {
    const char *in, *out;
  } rows[] = {
      {"", "\"\""},
      {"a\"b\\c\n\t\x01", "\"a\\\"b\\\\c\\n\\t\\u0001\""},
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
       "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
      {"\x7f\xc2\x9b", "\"\\u007f\\u009b\""},
      {"\xd8\x9c\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8\xef\xbb\xbf",
       "\"\\u061c\\u202e\\u2066\\u2028\\ufeff\""},
      {"\xff\xc3", "\"\\ufffd\\ufffd\""},
      {"\xc0\x80", "\"\\ufffd\\ufffd\""},
      {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
      {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
      {"\xe2\x82", "\"\\ufffd\\ufffd\""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    og_text text = {0};
    og_text_add_json(&text, rows[i].in);
    CHECK_STR(text.failed ? NULL : text.data, rows[i].out);
    og_text_reset(&text);
  }
}

static void check_doubles(void) {
  static const struct {
    double value;
    const char *text;
  } rows[] = {{0, "0.0"},
              {1e-6, "1e-06"},
              {0.1, "0.1"},
              {-2.5, "-2.5"},
              {1e300, "1e+300"},
              {3, "3.0"},
              {1.0 / 3, "0.3333333333333333"},
              {HUGE_VAL, "inf"},
              {-HUGE_VAL, "-inf"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    og_text text = {0};
    double back;
    og_text_add_double(&text, rows[i].value);
    CHECK_STR(text.failed ? NULL : text.data, rows[i].text);
    if (!text.failed) {
      CHECK(og_double_parse(text.data, text.length, &back));
      CHECK(back == rows[i].value);
    }
    og_text_reset(&text);
  }
}

TEST(doubles) { check_doubles(); }

TEST(doubles_with_a_decimal_comma) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",
                                      "fr_FR.UTF-8", "de_DE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (setlocale(LC_NUMERIC, names[i]) != NULL) break;
  check_doubles();
  setlocale(LC_NUMERIC, "C");
}

TEST(not_doubles) {
  double out;
  CHECK(!og_double_parse("", 0, &out));
  CHECK(!og_double_parse("1x", 2, &out));
  CHECK(og_double_parse("1e5xyz", 3, &out) && out == 1e5);
}

TEST(types) {
  static const char *const names[] = {"f16", "bf16", "f32",  "f64", "i8",
                                      "i16", "i32",  "i64",  "u8",  "u16",
                                      "u32", "u64",  "bool", "c64", "c128"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    og_dtype dtype;
    CHECK(og_dtype_parse(names[i], strlen(names[i]), &dtype));
    CHECK_STR(og_dtype_name(dtype), names[i]);
  }
  og_dtype dtype;
  CHECK(og_dtype_parse("bfloat16", 8, &dtype));
  CHECK_STR(og_dtype_name(dtype), "bf16");
  CHECK(!og_dtype_parse("f3", 2, &dtype));
  CHECK(!og_dtype_parse("f322", 4, &dtype));
  CHECK_STR(og_device_name(OG_ROCM), "rocm");
  CHECK(og_device_name(99) == NULL);
  CHECK_STR(og_dtype_name((og_dtype){2, 32, 2}), "?");
  CHECK_EQ(og_dtype_bytes((og_dtype){OG_CODE_COMPLEX, 128, 1}), 16);
  CHECK_EQ(og_dtype_bytes((og_dtype){OG_CODE_INT, 4, 1}), 1);
}

// FIPS 180-4's examples, and the lengths around a block's end, which Python's
// hashlib gave.
TEST(sha256) {
  char hex[65];
  static char text[1000];
  og_sha256_hex("", 0, hex);
  CHECK_STR(hex,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  og_sha256_hex("abc", 3, hex);
  CHECK_STR(hex,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  static const struct {
    size_t size;
    const char *hex;
  } rows[] = {
      {1, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
      {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {57, "f13b2d724659eb3bf47f2dd6af1accc87b81f09f59f2b75e5c0bed6589dfe8c6"},
      {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
      {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
      {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
      {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
      {127, "c57e9278af78fa3cab38667bef4ce29d783787a2f731d4e12200270f0c32320a"},
      {128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
      {1000,
       "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3"},
  };
  memset(text, 'a', sizeof text);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    og_sha256_hex(text, rows[i].size, hex);
    CHECK_STR(hex, rows[i].hex);
  }
}

TEST(errors) {
  opgraft_error error;
  char name[200];
  memset(name, 'n', sizeof name - 1);
  name[199] = '\0';
  CHECK_EQ(og_error_set(NULL, OG_SHAPE, "f", "x", "text"), OG_SHAPE);
  CHECK_EQ(og_error_set(&error, OG_SHAPE, "f", "x", "%s %d", "text", 3),
           OG_SHAPE);
  CHECK_STR(error.text, "text 3");
  CHECK_STR(error.op, "f");
  CHECK_STR(error.argument, "x");
  CHECK_EQ(error.begin, -1);
  // A value may point into the error itself, and long names are cut.
  og_error_at(&error, OG_INVALID, name, NULL, 3, 5, "again: %s", error.text);
  CHECK_STR(error.text, "again: text 3");
  CHECK_EQ(strlen(error.op), 63);
  CHECK_STR(error.argument, "");
  CHECK_EQ(error.begin, 3);
  CHECK_EQ(error.end, 5);
  // A cut leaves whole characters.
  memset(name, 'n', 62);
  memcpy(name + 62, "\xc3\xa9", 3);
  og_error_set(&error, OG_INVALID, name, NULL, "x");
  CHECK_EQ(strlen(error.op), 62);
  CHECK_STR(opgraft_status_text(OG_BUSY), "in use");
  CHECK_STR(opgraft_status_text(99), "unknown status");
}

TEST_MAIN("text", CASE(grows), CASE(json), CASE(doubles),
          CASE_NO_FAULTS(doubles_with_a_decimal_comma),
          CASE_NO_FAULTS(not_doubles), CASE_NO_FAULTS(types),
          CASE_NO_FAULTS(sha256), CASE_NO_FAULTS(errors))
