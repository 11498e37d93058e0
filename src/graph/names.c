// SPDX-License-Identifier: Apache-2.0
// A table of names.

#include "graph/names.h"

#include <string.h>

static uint32_t name_hash(const char *text, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; ++i)
    hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  return hash;
}

static og_name *slot_find(og_name *slots, uint32_t count, const char *text,
                          size_t length) {
  uint32_t at = name_hash(text, length) & (count - 1);
  while (slots[at].text != NULL && !((size_t)slots[at].length == length &&
                                     memcmp(slots[at].text, text, length) == 0))
    at = (at + 1) & (count - 1);
  return &slots[at];
}

static bool names_grow(og_names *names) {
  const uint32_t count = names->slot_count ? names->slot_count * 2 : 256;
  og_name *slots = og_alloc_zeroed(count, sizeof *slots);
  if (slots == NULL) return false;
  for (uint32_t i = 0; i < names->slot_count; ++i)
    if (names->slots[i].text != NULL)
      *slot_find(slots, count, names->slots[i].text,
                 (size_t)names->slots[i].length) = names->slots[i];
  og_free(names->slots);
  names->slots = slots;
  names->slot_count = count;
  return true;
}

bool og_names_find(const og_names *names, const char *text, size_t length,
                   opgraft_value *out_value) {
  if (names->slot_count == 0) return false;
  const og_name *slot =
      slot_find(names->slots, names->slot_count, text, length);
  if (slot->text != NULL) *out_value = slot->value;
  return slot->text != NULL;
}

bool og_names_add(og_names *names, const char *text, size_t length,
                  opgraft_value value) {
  if ((names->count + 1) * 2 > names->slot_count && !names_grow(names))
    return false;
  *slot_find(names->slots, names->slot_count, text, length) =
      (og_name){text, (int32_t)length, value};
  ++names->count;
  return true;
}

void og_names_reset(og_names *names) {
  og_free(names->slots);
  *names = (og_names){0};
}
