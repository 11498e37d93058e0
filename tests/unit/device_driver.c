// SPDX-License-Identifier: Apache-2.0
// Drivers that break their contract: each gives an error that names function
// and wish, leaves nothing open, and never crashes.

#include <opgraft/driver.h>

#include "device_fake.h"
#include "test.h"

// --- Tables that are not taken -----------------------------------------------

#define BREAK(name, statement) \
  static void break_##name(og_device_driver *d) { statement; }
BREAK(no_size, d->struct_size = 0)
BREAK(small_size, d->struct_size = 40)
BREAK(huge_size, d->struct_size = 1u << 30)
BREAK(no_version, d->abi_version = 0)
BREAK(new_version, d->abi_version = 9)
BREAK(no_name, d->name = NULL)
BREAK(empty_name, d->name = "")
BREAK(odd_name, d->name = "My NPU")
BREAK(digit_name, d->name = "acme2")
BREAK(long_name, d->name = "abcdefghijklmnopqrstuvwxyzabcdef")
BREAK(cpu_type, d->device_type = OG_CPU)
BREAK(flags, d->flags = 4)
BREAK(no_open, d->open = NULL)
BREAK(no_allocate, d->memory_allocate = NULL)
BREAK(no_synchronize, d->stream_synchronize = NULL)
BREAK(no_copy, d->copy_on_device = NULL)

static og_status bad_event_create(void *state, int32_t device, void **out_event,
                                  og_device_error *error) {
  (void)state, (void)device, (void)out_event, (void)error;
  return OG_OK;
}
BREAK(half_events, d->event_create = bad_event_create)

static og_status bad_capture(void *state, void *stream,
                             og_device_error *error) {
  (void)state, (void)stream, (void)error;
  return OG_OK;
}
BREAK(half_capture, d->capture_begin = bad_capture)

// --- Functions that fail while it is opened ----------------------------------

static og_status open_without_reason(const og_device_host *host,
                                     void **out_state, og_device_error *error) {
  (void)host, (void)out_state, (void)error;
  return OG_IO;
}
BREAK(open, d->open = open_without_reason)

static og_status open_with_wild_text(const og_device_host *host,
                                     void **out_state, og_device_error *error) {
  (void)host, (void)out_state;
  memset(error->text, 'x', sizeof error->text);
  return OG_BUSY;
}
BREAK(open_text, d->open = open_with_wild_text)

static og_status open_with_wild_code(const og_device_host *host,
                                     void **out_state, og_device_error *error) {
  (void)host, (void)out_state, (void)error;
  return -77;
}
BREAK(open_code, d->open = open_with_wild_code)

static og_status count_of(int32_t count, int32_t *out_count) {
  *out_count = count;
  return OG_OK;
}
static og_status count_none(void *state, int32_t *out_count,
                            og_device_error *error) {
  (void)state, (void)error;
  return count_of(0, out_count);
}
static og_status count_wild(void *state, int32_t *out_count,
                            og_device_error *error) {
  (void)state, (void)error;
  return count_of(-5, out_count);
}
static og_status count_fails(void *state, int32_t *out_count,
                             og_device_error *error) {
  (void)state;
  *out_count = 1 << 30;
  snprintf(error->text, sizeof error->text, "the bus is gone");
  return OG_DEVICE;
}
BREAK(count_none, d->device_count = count_none)
BREAK(count_wild, d->device_count = count_wild)
BREAK(count_fails, d->device_count = count_fails)

static og_status align_odd(void *state, int32_t device,
                           og_device_properties *out_properties,
                           og_device_error *error) {
  (void)state, (void)device, (void)error;
  out_properties->alignment = 48;
  return OG_OK;
}
static og_status align_none(void *state, int32_t device,
                            og_device_properties *out_properties,
                            og_device_error *error) {
  (void)state, (void)device, (void)out_properties, (void)error;
  return OG_OK;
}
BREAK(align_odd, d->properties = align_odd)
BREAK(align_none, d->properties = align_none)

static og_status stream_none(void *state, int32_t device, void **out_stream,
                             og_device_error *error) {
  (void)state, (void)device, (void)out_stream, (void)error;
  return OG_OK;
}
// The first device has a stream, the second does not.
static og_status stream_second(void *state, int32_t device, void **out_stream,
                               og_device_error *error) {
  if (device == 0) return fake_stream_create(state, device, out_stream, error);
  snprintf(error->text, sizeof error->text, "no queue is left");
  return OG_MEMORY;
}
BREAK(stream_none, d->stream_create = stream_none)
BREAK(stream_second, d->stream_create = stream_second)

static const struct broken {
  const char *name;
  void (*breaks)(og_device_driver *driver);
  og_status status;
  const char *text;
} broken[] = {
    {"no size", break_no_size, OG_INVALID, "og_device_driver.struct_size is 0"},
    {"small size", break_small_size, OG_INVALID,
     "og_device_driver.struct_size is 40, expected"},
    {"huge size", break_huge_size, OG_INVALID, "struct_size is 1073741824"},
    {"no version", break_no_version, OG_VERSION,
     "abi_version is 0, expected 1 to 1"},
    {"new version", break_new_version, OG_VERSION,
     "abi_version is 9, expected 1 to 1"},
    {"no name", break_no_name, OG_INVALID, "name is '', expected up to 31"},
    {"empty name", break_empty_name, OG_INVALID, "name is '', expected"},
    {"odd name", break_odd_name, OG_INVALID, "name is 'My NPU', expected"},
    {"name with a digit", break_digit_name, OG_INVALID,
     "name is 'acme2', expected up to 31 small letters"},
    {"long name", break_long_name, OG_INVALID, "expected up to 31 small"},
    {"cpu type", break_cpu_type, OG_INVALID,
     "fake: og_device_driver.device_type is 1, expected"},
    {"flags", break_flags, OG_VERSION, "flags is 0x4, expected 0 or 0x1"},
    {"no open", break_no_open, OG_INVALID,
     "og_device_driver.open is NULL, expected a function"},
    {"no allocate", break_no_allocate, OG_INVALID,
     "og_device_driver.memory_allocate is NULL, expected a function"},
    {"no synchronize", break_no_synchronize, OG_INVALID,
     "og_device_driver.stream_synchronize is NULL, expected a function"},
    {"no copy", break_no_copy, OG_INVALID,
     "og_device_driver.copy_on_device is NULL, expected a function"},
    {"half events", break_half_events, OG_INVALID,
     "event_destroy is NULL, expected a function: event_create is there"},
    {"half capture", break_half_capture, OG_INVALID,
     "capture_end is NULL, expected a function: capture_begin is there"},
    {"open fails", break_open, OG_IO,
     "fake: open returned \"could not read or write\" without a reason"},
    {"text without end", break_open_text, OG_BUSY, "fake: open: xxxx"},
    {"wild code", break_open_code, OG_INTERNAL,
     "fake: open returned -77, expected a code of og_status"},
    {"no device", break_count_none, OG_DEVICE,
     "fake: device_count gives 0, expected 1 to 64"},
    {"wild count", break_count_wild, OG_DEVICE, "device_count gives -5"},
    {"count fails", break_count_fails, OG_DEVICE,
     "fake: device_count: the bus is gone"},
    {"odd alignment", break_align_odd, OG_INTERNAL,
     "properties says that device 0 aligns memory to 48, expected a power"},
    {"no alignment", break_align_none, OG_INTERNAL, "aligns memory to 0"},
    {"no stream", break_stream_none, OG_INTERNAL,
     "stream_create returned \"ok\" and wrote no output"},
    {"second stream", break_stream_second, OG_MEMORY,
     "fake: stream_create: no queue is left"},
};

static void broken_try(const struct broken *row) {
  og_device_driver table = fake_driver;
  opgraft_driver *driver = NULL;
  opgraft_error error = {0};
  const int missed = test_now.missed;
  row->breaks(&table);
  const og_status status = opgraft_driver_wrap(&table, NULL, &driver, &error);
  CHECK_EQ(status, row->status);
  CHECK(driver == NULL);
  CHECK(strstr(error.text, row->text) != NULL);
  CHECK_EQ(fake_open_count, 0);
  CHECK(opgraft_driver_find(OG_EXT_DEV) == NULL);
  if (test_now.missed != missed && test_now.fault < 0)
    printf("%s: %s\n", row->name, error.text);
  opgraft_driver_destroy(driver);
}

TEST(broken_tables) {
  fake_open_count = 0;
  for (size_t i = 0; i < sizeof broken / sizeof *broken; ++i)
    broken_try(&broken[i]);
}

TEST(no_table) {
  opgraft_driver *driver;
  opgraft_error error = {0};
  CHECK_EQ(opgraft_driver_wrap(NULL, NULL, &driver, &error), OG_VERSION);
  CHECK(strstr(error.text, "no table for version 1") != NULL);
}

// --- Functions that fail later -----------------------------------------------

static og_status allocate_none(void *state, int32_t device, size_t size_bytes,
                               void **out_address, og_device_error *error) {
  (void)state, (void)device, (void)size_bytes, (void)out_address, (void)error;
  return OG_OK;
}

static char crooked[256];
static int crooked_freed;

static og_status allocate_crooked(void *state, int32_t device,
                                  size_t size_bytes, void **out_address,
                                  og_device_error *error) {
  (void)state, (void)device, (void)size_bytes, (void)error;
  char *aligned = crooked + (64 - (uintptr_t)crooked % 64) % 64;
  *out_address = aligned + 4;
  return OG_OK;
}

static og_status free_crooked(void *state, int32_t device, void *address,
                              og_device_error *error) {
  (void)state, (void)device, (void)address, (void)error;
  ++crooked_freed;
  return OG_OK;
}

static og_status copy_fails(void *state, void *stream, void *to,
                            const void *from, size_t size_bytes,
                            og_device_error *error) {
  (void)state, (void)stream, (void)to, (void)from;
  snprintf(error->text, sizeof error->text, "the link lost %zu bytes",
           size_bytes);
  return OG_IO;
}

static og_status synchronize_hangs(void *state, void *stream,
                                   int64_t timeout_ns, og_device_error *error) {
  (void)state, (void)stream;
  if (timeout_ns < 0) abort();
  snprintf(error->text, sizeof error->text, "3 works are left");
  return OG_BUSY;
}

// Opens the fake driver with one function changed by `breaks`.
static opgraft_driver *open_broken(void (*breaks)(og_device_driver *driver),
                                   og_device_driver *table) {
  opgraft_driver *driver = NULL;
  opgraft_error error = {0};
  *table = fake_driver;
  if (breaks != NULL) breaks(table);
  if (!CHECK_EQ(opgraft_driver_wrap(table, NULL, &driver, &error), OG_OK) &&
      test_now.fault < 0)
    printf("%s\n", error.text);
  return driver;
}

BREAK(allocate_none, d->memory_allocate = allocate_none)
BREAK(allocate_crooked, d->memory_allocate = allocate_crooked;
      d->memory_free = free_crooked)
BREAK(copy, d->copy_to_host = copy_fails)
BREAK(hang, d->stream_synchronize = synchronize_hangs)
BREAK(no_launch, d->launch = NULL)

TEST(allocations_that_are_wrong) {
  og_device_driver table;
  opgraft_error error = {0};
  void *address = &error;
  opgraft_driver *driver = open_broken(break_allocate_none, &table);
  REQUIRE(driver != NULL);
  CHECK_EQ(opgraft_driver_allocate(driver, 0, 8, NULL, &address, &error),
           OG_INTERNAL);
  CHECK(strstr(error.text, "memory_allocate returned \"ok\" and wrote no"));
  CHECK(address == NULL);
  opgraft_driver_destroy(driver);
  driver = open_broken(break_allocate_crooked, &table);
  REQUIRE(driver != NULL);
  crooked_freed = 0;
  CHECK_EQ(opgraft_driver_allocate(driver, 0, 8, NULL, &address, &error),
           OG_INTERNAL);
  CHECK(strstr(error.text, "gave an address 4 bytes behind a multiple of 64"));
  CHECK_EQ(crooked_freed, 1);
  CHECK_EQ(opgraft_driver_allocate(driver, 2, 8, NULL, &address, &error),
           OG_DEVICE);
  CHECK(strstr(error.text, "there is no device 2, expected 0 to 1"));
done:
  opgraft_driver_destroy(driver);
}

static int rooms;  // allocations that the driver still has room for

static og_status allocate_rooms(void *state, int32_t device, size_t size_bytes,
                                void **out_address, og_device_error *error) {
  if (rooms-- > 0)
    return fake_allocate(state, device, size_bytes, out_address, error);
  snprintf(error->text, sizeof error->text, "no room");
  return OG_MEMORY;
}
BREAK(rooms, d->memory_allocate = allocate_rooms)

static og_status make_room(void *user, opgraft_error *error) {
  const og_status status = *(const og_status *)user;
  rooms = 1;
  if (status != OG_OK) snprintf(error->text, sizeof error->text, "work failed");
  return status;
}

static void *stream_of_thread(void *user, int32_t device) {
  return device == 1 ? *(void **)user : NULL;
}

TEST(the_current_stream_is_the_default_one_until_it_is_chosen) {
  og_device_driver table;
  int chosen;
  void *stream = &chosen;
  opgraft_driver *driver = open_broken(break_rooms, &table);
  REQUIRE(driver != NULL);
  CHECK(opgraft_driver_current_stream(driver, 0) ==
        opgraft_driver_default_stream(driver, 0));
  opgraft_driver_on_stream(driver, stream_of_thread, &stream);
  CHECK(opgraft_driver_current_stream(driver, 1) == &chosen);
  CHECK(opgraft_driver_current_stream(driver, 0) ==
        opgraft_driver_default_stream(driver, 0));
  CHECK(opgraft_driver_current_stream(driver, 99) == NULL);
done:
  opgraft_driver_destroy(driver);
}

// What others keep is asked for once; why they failed is the error.
TEST(allocations_that_others_have_room_for) {
  og_device_driver table;
  opgraft_error error = {0};
  og_status gives = OG_OK;
  void *address = NULL;
  opgraft_driver *driver = open_broken(break_rooms, &table);
  REQUIRE(driver != NULL);
  rooms = 0;
  CHECK_EQ(opgraft_driver_allocate(driver, 0, 8, NULL, &address, &error),
           OG_MEMORY);
  CHECK_STR(error.text, "fake: memory_allocate: no room");
  opgraft_driver_on_memory(driver, make_room, &gives);
  rooms = 0;
  CHECK_EQ(opgraft_driver_allocate(driver, 0, 8, NULL, &address, &error),
           OG_OK);
  CHECK_EQ(opgraft_driver_free(driver, 0, address, &error), OG_OK);
  gives = OG_KERNEL;
  rooms = 0;
  CHECK_EQ(opgraft_driver_allocate(driver, 0, 8, NULL, &address, &error),
           OG_KERNEL);
  CHECK_STR(error.text, "work failed");
  CHECK(address == NULL);
done:
  opgraft_driver_destroy(driver);
}

TEST(work_that_fails_or_hangs) {
  og_device_driver table;
  opgraft_error error = {0};
  char bytes[4];
  opgraft_driver *driver = open_broken(break_copy, &table);
  REQUIRE(driver != NULL);
  void *stream = opgraft_driver_default_stream(driver, 1);
  CHECK(stream != NULL);
  CHECK(opgraft_driver_default_stream(driver, 2) == NULL);
  CHECK_EQ(opgraft_driver_copy(driver, stream, OPGRAFT_COPY_TO_HOST, bytes,
                               "abc", 4, &error),
           OG_IO);
  CHECK_STR(error.text, "fake: copy_to_host: the link lost 4 bytes");
  CHECK_EQ(opgraft_driver_copy(driver, stream, 7, bytes, "abc", 4, &error),
           OG_INVALID);
  CHECK_EQ(opgraft_driver_copy(driver, stream, OPGRAFT_COPY_TO_HOST, bytes,
                               NULL, 4, &error),
           OG_INVALID);
  CHECK_STR(error.text,
            "fake: a copy of 4 bytes has 'from' NULL, expected an address");
  opgraft_driver_destroy(driver);
  driver = open_broken(break_hang, &table);
  REQUIRE(driver != NULL);
  stream = opgraft_driver_default_stream(driver, 0);
  CHECK_EQ(opgraft_driver_stream_synchronize(driver, stream, 1000, &error),
           OG_BUSY);
  CHECK_STR(error.text, "fake: stream_synchronize: 3 works are left");
done:
  opgraft_driver_destroy(driver);
}

static int kernel_runs;

static og_status kernel_run(const og_call *call) {
  (void)call;
  ++kernel_runs;
  return OG_KERNEL;
}

static void count_up(void *user) { ++*(int *)user; }

// What an optional function that is missing costs, and how it is said.
TEST(functions_that_are_missing) {
  og_device_driver table;
  opgraft_error error = {0};
  void *handle;
  const char *name, *lost;
  int32_t missing = 0;
  const og_call call = {.struct_size = sizeof call};
  const og_launch launch = {.struct_size = sizeof launch,
                            .name = "f",
                            .run = kernel_run,
                            .call = &call};
  opgraft_driver *driver = open_broken(break_no_launch, &table);
  REQUIRE(driver != NULL);
  void *stream = opgraft_driver_default_stream(driver, 0);
  CHECK_EQ(opgraft_driver_event_create(driver, 0, &handle, &error),
           OG_UNSUPPORTED);
  CHECK_STR(error.text,
            "fake: the driver has no event_create: all work uses one stream");
  CHECK_EQ(opgraft_driver_capture_begin(driver, stream, &error),
           OG_UNSUPPORTED);
  CHECK_STR(error.text,
            "fake: the driver has no capture_begin: a graph is launched node "
            "by node");
  kernel_runs = 0;
  CHECK_EQ(opgraft_driver_launch(driver, stream, &launch, &error), OG_KERNEL);
  CHECK_EQ(kernel_runs, 1);
  CHECK_STR(error.text,
            "fake: the kernel of f returned \"kernel failed\" without a "
            "reason");
  int calls = 0;
  CHECK_EQ(
      opgraft_driver_host_function(driver, stream, count_up, &calls, &error),
      OG_OK);
  CHECK_EQ(calls, 1);
  while (opgraft_driver_lacks(driver, missing, &name, &lost)) {
    CHECK(name[0] != '\0' && lost[0] != '\0');
    ++missing;
  }
  CHECK_EQ(missing, 18);
done:
  opgraft_driver_destroy(driver);
}

// --- Right ones --------------------------------------------------------------

TEST(a_driver_that_is_right) {
  og_device_driver table;
  opgraft_error error = {0};
  opgraft_driver *other = NULL;
  void *address = NULL;
  char bytes[8] = "abcdefg", back[8] = "";
  opgraft_driver *driver = open_broken(NULL, &table);
  REQUIRE(driver != NULL);
  CHECK(opgraft_driver_find(OG_EXT_DEV) == driver);
  CHECK_STR(opgraft_driver_name(driver), "fake");
  CHECK_EQ(opgraft_driver_device_count(driver), 2);
  CHECK_EQ(opgraft_driver_device_type(driver), OG_EXT_DEV);
  CHECK_EQ(opgraft_driver_report_count(driver), 0);
  CHECK_EQ(opgraft_driver_wrap(&table, NULL, &other, &error), OG_BUSY);
  CHECK(strstr(error.text, "the driver fake serves device type 12 already"));
  void *stream = opgraft_driver_default_stream(driver, 0);
  REQUIRE(opgraft_driver_allocate(driver, 0, 8, "x", &address, &error) ==
          OG_OK);
  CHECK_EQ(opgraft_driver_copy(driver, stream, OPGRAFT_COPY_TO_DEVICE, address,
                               bytes, 8, &error),
           OG_OK);
  CHECK_EQ(opgraft_driver_copy(driver, stream, OPGRAFT_COPY_TO_HOST, back,
                               address, 8, &error),
           OG_OK);
  CHECK_STR(back, "abcdefg");
  CHECK_EQ(opgraft_driver_free(driver, 0, address, &error), OG_OK);
  CHECK_EQ(opgraft_driver_allocate(driver, 0, 0, "x", &address, &error), OG_OK);
  CHECK(address == NULL);
  CHECK_EQ(opgraft_driver_free(driver, 0, NULL, &error), OG_OK);
done:
  opgraft_driver_destroy(driver);
  CHECK_EQ(fake_live_count, 0);
}

// A caller of another age, and a device that is not there.
TEST(properties_of_a_device) {
  og_device_driver table;
  opgraft_error error = {0};
  og_device_properties found = {.struct_size = sizeof found};
  og_device_properties older = {.struct_size = 8, .memory_bytes = 77};
  opgraft_driver *driver = open_broken(NULL, &table);
  REQUIRE(driver != NULL);
  CHECK_EQ(opgraft_driver_properties(driver, 1, &found, &error), OG_OK);
  CHECK_EQ(found.alignment, 64);
  CHECK_EQ(opgraft_driver_properties(driver, 1, &older, &error), OG_OK);
  CHECK_EQ(older.alignment, 64);
  CHECK_EQ(older.memory_bytes, 77);
  CHECK_EQ(opgraft_driver_properties(driver, 9, &found, &error), OG_DEVICE);
  found.struct_size = 0;
  CHECK_EQ(opgraft_driver_properties(driver, 0, &found, &error), OG_INVALID);
done:
  opgraft_driver_destroy(driver);
}

TEST(files_that_are_no_drivers) {
  static const struct {
    const char *path, *text;
    og_status status;
  } files[] = {
      {"/nonexistent/npu.so", "could not open", OG_IO},
      {TEST_SOURCE_DIR "/README.md", "README.md", OG_IO},
      {TEST_MODULE_DIR "/check_right.so", "exports no opgraft_device",
       OG_INVALID},
  };
  opgraft_driver *driver;
  opgraft_error error = {0};
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    CHECK_EQ(opgraft_driver_load(files[i].path, NULL, &driver, &error),
             files[i].status);
    CHECK(driver == NULL);
    if (!CHECK(strstr(error.text, files[i].text) != NULL) && test_now.fault < 0)
      printf("%s\n", error.text);
  }
}

TEST_MAIN("device_driver", CASE(broken_tables), CASE(no_table),
          CASE(allocations_that_are_wrong),
          CASE(the_current_stream_is_the_default_one_until_it_is_chosen),
          CASE_NO_FAULTS(allocations_that_others_have_room_for),
          CASE(work_that_fails_or_hangs), CASE(functions_that_are_missing),
          CASE(a_driver_that_is_right), CASE(properties_of_a_device),
          CASE(files_that_are_no_drivers))
