// SPDX-License-Identifier: Apache-2.0
// Drives one fuzzer: mutates inputs, keeps those that reach new code.
//
//   NAME [--seconds N] [--seed N] [--grow] [--slowest FILE] CORPUS_FOLDER
//   NAME FILE...            runs just these inputs
//
// A fuzzer is a file of this folder that defines LLVMFuzzerTestOneInput, so it
// also links with libFuzzer; it may define LLVMFuzzerCustomMutator, and return
// -1 for an input that it refuses, which is then not kept. The corpus is the
// folder's files; a file `dict` in it holds one token a line, which mutations
// insert. --grow writes each input that reached new code into the folder.
// Seconds are the processor's, so that a busy machine fuzzes as much. An input
// that crashes, blocks, or takes ten of them is written to ./crash-NAME; the
// one that took longest goes into --slowest's file, its time into the last
// line.
//
// Coverage comes from -fsanitize-coverage=trace-pc in the code under test
// (OPGRAFT_SANITIZE=address); without it, mutation is blind.

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
// What is too large to allocate gives NULL, as it does without the sanitizer.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}
#endif

enum {
  EDGE_COUNT = 1 << 16,
  INPUT_MAX = 1 << 14,
  CORPUS_MAX = 1 << 14,
  HANG_SECONDS = 10,  // of processor time: a busy machine is not a hang
  TICK_SECONDS = 10,
  IDLE_TICKS = 12,  // in a row without work: an input that blocks
  READER_US = 100000,
  READER_BYTE_US = 20,
};

typedef struct input {
  uint8_t *bytes;
  size_t size;
  int64_t us;  // that it took
} input;

typedef struct corpus {
  input *items;
  size_t count;
} corpus;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed) __attribute__((weak));
__attribute__((visibility("default"))) void __sanitizer_cov_trace_pc(void);
const char *__ubsan_default_options(void);
extern const int fuzz_is_reader __attribute__((weak));
void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

static uint8_t edges_now[EDGE_COUNT];
static uint8_t edges_ever[EDGE_COUNT];
static uintptr_t edge_before;
static uint64_t random_state;
static const char *fuzzer_name;
static const uint8_t *current_bytes;
static size_t current_size;
static volatile int64_t used_at_tick;
static volatile int idle_ticks;
static uint64_t accepted;
static int64_t current_us;
static int64_t slowest_us;
static const char *slowest_path;
static corpus inputs;
static corpus tokens;

__attribute__((no_sanitize("address", "undefined"))) void
__sanitizer_cov_trace_pc(void) {
  const uintptr_t here = (uintptr_t)__builtin_return_address(0);
  uint8_t *edge = &edges_now[(here ^ edge_before) % EDGE_COUNT];
  if (*edge < UINT8_MAX) ++*edge;
  edge_before = here >> 1;
}

// UBSan does not call the death callback, but lets its signal be caught.
__attribute__((visibility("default"))) const char *__ubsan_default_options(
    void) {
  return "abort_on_error=1:print_stacktrace=1";
}

// xorshift64*, Vigna 2016.
static uint64_t random_next(void) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 0x2545f4914f6cdd1dULL;
}

static size_t random_below(size_t limit) {
  return limit == 0 ? 0 : (size_t)(random_next() % limit);
}

static void write_crash(void) {
  char path[256];
  snprintf(path, sizeof path, "crash-%s", fuzzer_name);
  const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0) return;
  if (write(file, current_bytes, current_size) == (ssize_t)current_size)
    fprintf(stderr, "the input is in %s\n", path);
  close(file);
}

static void on_signal(int number) {
  const bool is_late = number == SIGALRM || number == SIGPROF;
  fprintf(stderr, "%s: %s\n", fuzzer_name,
          is_late ? "an input takes too long" : strsignal(number));
  write_crash();
  signal(is_late ? SIGABRT : number, SIG_DFL);
  raise(is_late ? SIGABRT : number);
}

static int64_t used_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

// Ten seconds by the clock are over: one that waits for a processor still
// works a little, and one that is stopped hears of one tick only.
static void on_tick(int number) {
  const int64_t now = used_us();
  idle_ticks = now - used_at_tick < 200 ? idle_ticks + 1 : 0;
  used_at_tick = now;
  if (idle_ticks == IDLE_TICKS) on_signal(number);
  alarm(TICK_SECONDS);
}

static void *checked(void *memory) {
  if (memory == NULL) {
    fprintf(stderr, "%s: out of memory\n", fuzzer_name);
    exit(2);
  }
  return memory;
}

static void corpus_add(corpus *set, const uint8_t *bytes, size_t size) {
  if (set->count == CORPUS_MAX) return;
  if (set->items == NULL)
    set->items = (input *)checked(calloc(CORPUS_MAX, sizeof(input)));
  uint8_t *copy = (uint8_t *)checked(malloc(size + 1));
  if (size > 0) memcpy(copy, bytes, size);
  set->items[set->count++] = (input){copy, size, current_us};
}

static void corpus_reset(corpus *set) {
  for (size_t i = 0; i < set->count; ++i) free(set->items[i].bytes);
  free(set->items);
}

// Hit counts fall into classes, so that a loop's every turn is not news.
static uint8_t count_class(uint8_t count) {
  static const uint8_t limits[] = {0, 1, 2, 3, 7, 15, 31, 127, 255};
  uint8_t class_index = 0;
  while (count > limits[class_index]) ++class_index;
  return class_index;
}

// SIGPROF after so many seconds of processor time; 0: never.
static void clock_limit(int seconds) {
  const struct itimerval limit = {.it_value = {.tv_sec = seconds}};
  setitimer(ITIMER_PROF, &limit, NULL);
}

// Beside the time of the slowest input, its bytes where --slowest asks.
static void keep_slowest(int64_t us) {
  if (us <= slowest_us) return;
  slowest_us = us;
  if (slowest_path == NULL) return;
  FILE *file = fopen(slowest_path, "wb");
  if (file == NULL) return;
  fwrite(current_bytes, 1, current_size, file);
  fclose(file);
}

// Runs one input; true if it was accepted and reached an edge, or a count
// class, not seen yet.
static bool run_input(const uint8_t *bytes, size_t size) {
  current_bytes = bytes;
  current_size = size;
  memset(edges_now, 0, sizeof edges_now);
  edge_before = 0;
  clock_limit(HANG_SECONDS);
  idle_ticks = 0;
  alarm(TICK_SECONDS);
  const int64_t begin = used_us();
  const bool is_accepted = LLVMFuzzerTestOneInput(bytes, size) == 0;
  current_us = used_us() - begin;
  keep_slowest(current_us);
  if (&fuzz_is_reader != NULL &&
      current_us > READER_US + READER_BYTE_US * (int64_t)size)
    on_signal(SIGPROF);
  accepted += is_accepted;
  alarm(0);
  clock_limit(0);
  bool is_new = false;
  for (size_t i = 0; i < EDGE_COUNT; ++i) {
    if (edges_now[i] == 0) continue;
    const uint8_t class_bit = (uint8_t)(1u << (count_class(edges_now[i]) - 1));
    is_new |= (edges_ever[i] & class_bit) == 0;
    edges_ever[i] |= class_bit;
  }
  return is_new && is_accepted;
}

static bool read_file(const char *path, input *out) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  out->bytes = (uint8_t *)checked(malloc(INPUT_MAX));
  out->size = fread(out->bytes, 1, INPUT_MAX, file);
  fclose(file);
  return true;
}

static void add_tokens(const input *file) {
  size_t start = 0;
  for (size_t i = 0; i < file->size; ++i) {
    if (file->bytes[i] != '\n') continue;
    if (i > start) corpus_add(&tokens, file->bytes + start, i - start);
    start = i + 1;
  }
}

static bool read_corpus(const char *folder) {
  DIR *dir = opendir(folder);
  if (dir == NULL) return false;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    input file;
    if (!read_file(path, &file)) continue;
    if (strcmp(entry->d_name, "dict") == 0)
      add_tokens(&file);
    else
      corpus_add(&inputs, file.bytes, file.size);
    free(file.bytes);
  }
  closedir(dir);
  return true;
}

static void input_insert(input *work, size_t at, const uint8_t *bytes,
                         size_t size) {
  if (work->size + size > INPUT_MAX) return;
  memmove(work->bytes + at + size, work->bytes + at, work->size - at);
  memcpy(work->bytes + at, bytes, size);
  work->size += size;
}

static void insert_part(input *work, const input *from) {
  if (from->size == 0) return;
  uint8_t part[64];
  const size_t begin = random_below(from->size);
  size_t size = 1 + random_below(from->size - begin);
  if (size > sizeof part) size = sizeof part;
  memcpy(part, from->bytes + begin, size);
  input_insert(work, random_below(work->size + 1), part, size);
}

// A part of up to 16 bytes, again and again.
static void repeat_part(input *work) {
  if (work->size == 0) return;
  uint8_t part[16];
  const size_t begin = random_below(work->size);
  size_t size = 1 + random_below(work->size - begin);
  if (size > sizeof part) size = sizeof part;
  memcpy(part, work->bytes + begin, size);
  for (size_t room = INPUT_MAX - work->size; room >= size; room -= size)
    input_insert(work, begin, part, size);
}

static void mutate_bytes(input *work) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "-1",
                                        "64",
                                        "255",
                                        "65536",
                                        "2147483648",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "1e309",
                                        "9999999999999"};
  const size_t at = random_below(work->size);
  const uint8_t byte = (uint8_t)random_next();
  switch (random_below(tokens.count > 0 ? 9 : 7)) {
    case 0:
      if (work->size > 0) work->bytes[at] ^= (uint8_t)(1u << (byte % 8));
      break;
    case 1:
      if (work->size > 0) work->bytes[at] = byte;
      break;
    case 2:
      input_insert(work, at, &byte, 1);
      break;
    case 3: {  // erase a part
      const size_t size = random_below(work->size - at + 1) % 32;
      memmove(work->bytes + at, work->bytes + at + size,
              work->size - at - size);
      work->size -= size;
      break;
    }
    case 4:
      insert_part(work, work);
      break;
    case 5:
      if (inputs.count > 0)
        insert_part(work, &inputs.items[random_below(inputs.count)]);
      break;
    case 6: {
      const char *number = numbers[byte % (sizeof numbers / sizeof *numbers)];
      input_insert(work, at, (const uint8_t *)number, strlen(number));
      break;
    }
    default: {
      const input *token = &tokens.items[random_below(tokens.count)];
      input_insert(work, at, token->bytes, token->size);
      break;
    }
  }
}

static void mutate(input *work) {
  if (&fuzz_is_reader != NULL && random_below(16) == 0) repeat_part(work);
  if (LLVMFuzzerCustomMutator && random_below(8) > 0)
    work->size = LLVMFuzzerCustomMutator(work->bytes, work->size, INPUT_MAX,
                                         (unsigned int)random_next());
  else
    for (size_t n = 1 + random_below(6); n > 0; --n) mutate_bytes(work);
}

static void save_input(const char *folder, const input *found) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (size_t i = 0; i < found->size; ++i)
    hash = (hash ^ found->bytes[i]) * 1099511628211ULL;
  char path[4096];
  snprintf(path, sizeof path, "%s/%016llx", folder, (unsigned long long)hash);
  FILE *file = fopen(path, "wb");
  if (file == NULL) return;
  fwrite(found->bytes, 1, found->size, file);
  fclose(file);
}

// Of two that are drawn the quicker: the kin of slow ones would take most of
// the time.
static const input *input_draw(void) {
  const input *one = &inputs.items[random_below(inputs.count)];
  const input *other = &inputs.items[random_below(inputs.count)];
  return one->us <= other->us ? one : other;
}

static uint64_t fuzz(const char *folder, long seconds, bool grow) {
  uint64_t runs = 0;
  for (size_t i = 0; i < inputs.count; ++i, ++runs) {
    run_input(inputs.items[i].bytes, inputs.items[i].size);
    inputs.items[i].us = current_us;
  }
  if (inputs.count == 0) corpus_add(&inputs, (const uint8_t *)"", 0);
  input work = {.bytes = (uint8_t *)checked(malloc(INPUT_MAX))};
  for (const int64_t end = used_us() + seconds * INT64_C(1000000);
       used_us() < end; ++runs) {
    const input *from = input_draw();
    memcpy(work.bytes, from->bytes, from->size);
    work.size = from->size;
    mutate(&work);
    // An exact copy, so that a read past the end is seen.
    uint8_t *exact = (uint8_t *)checked(malloc(work.size + (work.size == 0)));
    memcpy(exact, work.bytes, work.size);
    const bool is_new = run_input(exact, work.size);
    free(exact);
    if (!is_new) continue;
    corpus_add(&inputs, work.bytes, work.size);
    if (grow) save_input(folder, &work);
  }
  free(work.bytes);
  return runs;
}

static size_t edge_count(void) {
  size_t count = 0;
  for (size_t i = 0; i < EDGE_COUNT; ++i) count += edges_ever[i] != 0;
  return count;
}

static int run_files(char **paths, int count) {
  for (int i = 0; i < count; ++i) {
    input file;
    if (!read_file(paths[i], &file)) {
      fprintf(stderr, "%s: cannot read %s\n", fuzzer_name, paths[i]);
      return 2;
    }
    run_input(file.bytes, file.size);
    free(file.bytes);
  }
  printf("%s: %d inputs ran\n", fuzzer_name, count);
  return 0;
}

int main(int argc, char **argv) {
  const char *slash = strrchr(argv[0], '/');
  fuzzer_name = slash ? slash + 1 : argv[0];
  random_state = 0x9e3779b97f4a7c15ULL;
  long seconds = 10;
  bool grow = false;
  int i = 1;
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; ++i) {
    if (strcmp(argv[i], "--grow") == 0)
      grow = true;
    else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
      seconds = strtol(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--slowest") == 0 && i + 1 < argc)
      slowest_path = argv[++i];
    else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
      random_state ^= strtoull(argv[++i], NULL, 10) * 0xbf58476d1ce4e5b9ULL;
  }
  if (i == argc) {
    fprintf(stderr, "%s [--seconds N] [--seed N] [--grow] CORPUS\n", argv[0]);
    return 2;
  }
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(write_crash);
  } else {
    signal(SIGSEGV, on_signal);
    signal(SIGFPE, on_signal);
  }
  signal(SIGABRT, on_signal);
  signal(SIGALRM, on_tick);
  signal(SIGPROF, on_signal);
  struct stat info;
  if (stat(argv[i], &info) == 0 && S_ISREG(info.st_mode))
    return run_files(argv + i, argc - i);
  if (!read_corpus(argv[i])) {
    fprintf(stderr, "%s: no corpus %s\n", fuzzer_name, argv[i]);
    return 2;
  }
  const uint64_t runs = fuzz(argv[i], seconds, grow);
  printf(
      "%s: %llu inputs, %llu accepted, %zu kept, %zu edges, %.1f ms at most, "
      "seed corpus %s\n",
      fuzzer_name, (unsigned long long)runs, (unsigned long long)accepted,
      inputs.count, edge_count(), (double)slowest_us / 1000, argv[i]);
  corpus_reset(&inputs);
  corpus_reset(&tokens);
  return 0;
}
