// SPDX-License-Identifier: Apache-2.0
// A driver's table: read by its size, and held to what it must have.

#include "device/table.h"

#include <string.h>

#include "base/sized.h"

typedef enum entry_group { REQUIRED, ALONE, EVENTS, CAPTURE } entry_group;

typedef struct entry {
  const char *name;
  entry_group group;
  const char *lost;
  size_t offset;
} entry;

#define ENTRY(name, group, lost) \
  {#name, group, lost, offsetof(og_device_driver, name)},
static const entry entries[] = {
#include "device/entries.def"
};
#undef ENTRY

enum {
  ENTRY_COUNT = sizeof entries / sizeof *entries,
  NAME_MAX_BYTES = 31,
  // The oldest table's last required function.
  OLDEST_BYTES = offsetof(og_device_driver, memory_label),
};

static bool entry_has(const og_device_driver *table, const entry *e) {
  void (*function)(void);
  memcpy(&function, (const char *)table + e->offset, sizeof function);
  return function != NULL;
}

// The first function of the group that is there; NULL for none.
static const entry *group_find(const og_device_driver *table,
                               entry_group group) {
  for (int i = 0; i < ENTRY_COUNT; ++i)
    if (entries[i].group == group && entry_has(table, &entries[i]))
      return &entries[i];
  return NULL;
}

// torch.device takes letters alone: behind them it expects ":0".
static bool name_is_right(const char *name) {
  size_t length = 0;
  if (name == NULL) return false;
  for (; length <= NAME_MAX_BYTES && name[length] != '\0'; ++length)
    if (!(name[length] >= 'a' && name[length] <= 'z')) return false;
  return length > 0 && length <= NAME_MAX_BYTES;
}

static og_status head_check(const og_device_driver *table,
                            opgraft_error *error) {
  if (table->abi_version == 0 || table->abi_version > OG_DEVICE_ABI_VERSION)
    return og_error_set(error, OG_VERSION, NULL, "abi_version",
                        "og_device_driver.abi_version is %u, expected 1 to %u; "
                        "rebuild the driver, or install a newer opgraft",
                        (unsigned)table->abi_version,
                        (unsigned)OG_DEVICE_ABI_VERSION);
  if (!name_is_right(table->name))
    return og_error_set(error, OG_INVALID, NULL, "name",
                        "og_device_driver.name is '%.40s', expected up to %d "
                        "small letters",
                        table->name == NULL ? "" : table->name, NAME_MAX_BYTES);
  if (table->device_type <= OG_CPU)
    return og_error_set(error, OG_INVALID, NULL, "device_type",
                        "%s: og_device_driver.device_type is %d, expected "
                        "DLPack's code of a device that is not the CPU, such "
                        "as OG_EXT_DEV",
                        table->name, (int)table->device_type);
  if ((table->flags & ~OG_DEVICE_RUNS_C) != 0)
    return og_error_set(error, OG_VERSION, NULL, "flags",
                        "%s: og_device_driver.flags is 0x%x, expected 0 or "
                        "0x%x; install a newer opgraft",
                        table->name, (unsigned)table->flags, OG_DEVICE_RUNS_C);
  return OG_OK;
}

static og_status entries_check(const og_device_driver *table,
                               opgraft_error *error) {
  for (int i = 0; i < ENTRY_COUNT; ++i) {
    const entry *e = &entries[i];
    if (e->group == ALONE || entry_has(table, e)) continue;
    if (e->group == REQUIRED)
      return og_error_set(error, OG_INVALID, NULL, e->name,
                          "%s: og_device_driver.%s is NULL, expected a "
                          "function: no driver does without it",
                          table->name, e->name);
    const entry *other = group_find(table, e->group);
    if (other != NULL)
      return og_error_set(error, OG_INVALID, NULL, e->name,
                          "%s: og_device_driver.%s is NULL, expected a "
                          "function: %s is there, and the two go together",
                          table->name, e->name, other->name);
  }
  return OG_OK;
}

// Half a function would be called.
static og_status ends_check(uint32_t size_bytes, opgraft_error *error) {
  if (size_bytes % sizeof(void (*)(void)) == 0) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, "og_device_driver",
                      "og_device_driver.struct_size is %u, which ends within a "
                      "function; expected sizeof(og_device_driver): %zu here",
                      (unsigned)size_bytes, sizeof(og_device_driver));
}

og_status og_device_table_read(const og_device_driver *given,
                               og_device_driver *out_table,
                               opgraft_error *error) {
  uint32_t size_bytes;
  memcpy(&size_bytes, given, sizeof size_bytes);
  OG_TRY(og_size_check("og_device_driver", size_bytes, OLDEST_BYTES,
                       sizeof *out_table, error));
  OG_TRY(ends_check(size_bytes, error));
  OG_TRY(og_copy_sized("og_device_driver", given, out_table, sizeof *out_table,
                       error));
  OG_TRY(head_check(out_table, error));
  return entries_check(out_table, error);
}

bool og_device_table_lacks(const og_device_driver *table, int32_t index,
                           const char **out_name, const char **out_lost) {
  *out_name = *out_lost = NULL;
  for (int i = 0; i < ENTRY_COUNT; ++i) {
    if (entry_has(table, &entries[i]) || index-- > 0) continue;
    *out_name = entries[i].name;
    *out_lost = entries[i].lost;
    return true;
  }
  return false;
}

const char *og_device_entry_lost(const char *name) {
  for (int i = 0; i < ENTRY_COUNT; ++i)
    if (strcmp(entries[i].name, name) == 0) return entries[i].lost;
  return "";
}
