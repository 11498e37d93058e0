// SPDX-License-Identifier: Apache-2.0
// Modules: load, version check, lifetime, unload.
//
// Invariants: the registry holds every module that has references, each once;
// reference counts change under its lock; a module's operators, and the
// object they point into, live until its count is zero and no device has a
// kernel of it any more.

#include "module/module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/isa_check.h"
#include "base/sized.h"
#include "decl/decl.h"
#include "decl/describe.h"
#include "decl/formula.h"
#include "decl/formula_grad.h"
#include "decl/parse/backward.h"
#include "loop/call.h"
#include "module/elf.h"
#include "module/object.h"

struct opgraft_module {
  struct opgraft_module *next;
  int64_t references;
  void *object;  // dlopen's handle; NULL for a record of the process
  void (*release)(void *owner);  // of a made record; NULL: none
  void *owner;
  char *name;
  char hash[65];
  char float_env[128];  // what its constructors changed
  opgraft_op *ops;
  int32_t op_count;
  int32_t given_count;  // those of the record; the others are derived
};

typedef const og_module *(*query_fn)(uint32_t max_abi);
typedef void (*wait_fn)(const opgraft_module *module);

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct opgraft_module *registry;
static _Atomic(wait_fn) wait_for_devices;  // NULL: no driver was ever loaded

// --- One module's memory -----------------------------------------------------

static void module_free(struct opgraft_module *module) {
  for (int32_t i = 0; i < module->op_count; ++i) {
    og_decl_destroy(module->ops[i].decl);
    og_free(module->ops[i].kernel_available);
  }
  og_free(module->ops);
  og_free(module->name);
  if (module->object != NULL) og_object_close(module->object);
  if (module->release != NULL) module->release(module->owner);
  og_free(module);
}

void og_module_set_wait(wait_fn wait) { atomic_store(&wait_for_devices, wait); }

// Of a module that calls could use.
static void module_end(struct opgraft_module *module) {
  const wait_fn wait = atomic_load(&wait_for_devices);
  if (wait != NULL) wait(module);
  module_free(module);
}

static og_status out_of_memory(opgraft_error *error, const char *what) {
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "%s: not enough memory to load the module", what);
}

// Which kernels the machine can run. An instruction set that this library does
// not know is one that it cannot vouch for.
static og_status op_prepare(opgraft_op *op, opgraft_error *error) {
  const og_decl *decl = op->decl;
  op->derived = decl->formula;
  op->kernel_available =
      og_alloc_zeroed((size_t)decl->kernel_count + 1, sizeof(bool));
  if (op->kernel_available == NULL) return out_of_memory(error, decl->name);
  for (int32_t k = 0; k < decl->kernel_count; ++k) {
    const og_isa isa = og_isa_parse(decl->kernels[k].isa);
    op->kernel_available[k] = isa <= og_isa_used();
    if (isa == OG_ISA_UNKNOWN)
      return og_error_set(
          error, OG_INVALID, decl->name, NULL,
          "%s: kernel %d: isa is '%s', expected avx2, avx512, avx512_bf16, "
          "amx_bf16 or nothing",
          decl->name, (int)k, decl->kernels[k].isa);
  }
  // An argument that only has another one's type may be an absent optional.
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    if (decl->types[t].variable >= 0 && decl->types[t].same_as < 0)
      op->variable_tensor[decl->types[t].variable] = t;
  return OG_OK;
}

static int compare_names(const void *a, const void *b) {
  const og_decl *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static og_status names_check(og_decl *const *decls, int32_t count,
                             opgraft_error *error) {
  const og_decl **sorted = og_alloc_zeroed((size_t)count, sizeof *sorted);
  og_status status = OG_OK;
  if (sorted == NULL) return out_of_memory(error, decls[0]->name);
  for (int32_t i = 0; i < count; ++i) sorted[i] = decls[i];
  qsort(sorted, (size_t)count, sizeof *sorted, compare_names);
  for (int32_t i = 1; i < count && status == OG_OK; ++i)
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      status = og_error_set(
          error, OG_INVALID, sorted[i]->name, "schema",
          "%s: schema: two operators of the module have this name; give one "
          "another name or an overload: %s.other(...)",
          sorted[i]->name, sorted[i]->base_name);
  og_free(sorted);
  return status;
}

static og_status op_parse(struct opgraft_module *module, const og_op *record,
                          uint32_t size, og_decl **decls,
                          opgraft_error *error) {
  opgraft_op *op = &module->ops[module->op_count];
  OG_TRY(og_decl_create(record, size, &op->decl, error));
  op->module = module;
  op->may_set_float_env = true;
  decls[module->op_count++] = op->decl;
  return op_prepare(op, error);
}

// Has the derived gradients of the first `count` operators as further ones. A
// gradient's own is made when it is asked for (opgraft_op_derive).
static void gradients_parse(struct opgraft_module *module, int32_t count,
                            og_decl **decls) {
  for (int32_t i = 0; i < count; ++i) {
    const og_op *gradient = decls[i]->gradient;
    const int32_t before = module->op_count;
    opgraft_error ignored;
    const bool is_made =
        gradient != NULL &&
        op_parse(module, gradient, sizeof *gradient, decls, &ignored) == OG_OK;
    if (is_made) {
      decls[i]->grad.kind = OG_GRAD_OPERATOR;
      decls[before]->is_derived = true;
    }
    if (is_made || gradient == NULL) continue;
    // Too long to be read back: there is none.
    decls[i]->grad = (og_grad){.kind = OG_GRAD_MISSING};
    if (module->op_count > before) {
      opgraft_op *op = &module->ops[--module->op_count];
      og_decl_destroy(op->decl);
      og_free(op->kernel_available);
      memset(op, 0, sizeof *op);
    }
  }
}

static og_status module_parse(struct opgraft_module *module,
                              const og_module *record, bool derives,
                              opgraft_error *error) {
  const size_t most = (size_t)record->op_count * (derives ? 2 : 1);
  module->ops = og_alloc_zeroed(most, sizeof(opgraft_op));
  og_decl **decls = og_alloc_zeroed(most, sizeof(og_decl *));
  og_status status = OG_OK;
  if (module->ops == NULL || decls == NULL)
    status = out_of_memory(error, record->name);
  for (uint32_t i = 0; status == OG_OK && i < record->op_count; ++i) {
    // Records lie op_size apart, which an older or newer module chose.
    const char *at = (const char *)record->ops + (size_t)i * record->op_size;
    status = op_parse(module, (const og_op *)(const void *)at, record->op_size,
                      decls, error);
  }
  const int32_t given = module->op_count;
  if (status == OG_OK && derives) gradients_parse(module, given, decls);
  module->given_count = given;
  if (status == OG_OK) status = names_check(decls, module->op_count, error);
  if (status == OG_OK) status = og_decl_link(decls, module->op_count, error);
  og_free(decls);
  return status;
}

// --- The record --------------------------------------------------------------

static bool is_identifier(const char *name) {
  if (name == NULL || name[0] == '\0' || strlen(name) > 63) return false;
  for (const char *c = name; *c != '\0'; ++c) {
    const bool is_letter =
        (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
    const bool is_digit = *c >= '0' && *c <= '9';
    if (!is_letter && !(is_digit && c != name)) return false;
  }
  return true;
}

// The oldest record's fields, which every module has.
enum { OLDEST_MODULE_BYTES = offsetof(og_module, op_size) + sizeof(uint32_t) };

static og_status record_copy(const char *path, const og_module *from,
                             og_module *record, opgraft_error *error) {
  const uint32_t least_op = (uint32_t)offsetof(og_op, shape);
  og_status status = og_size_check("og_module", from->struct_size,
                                   OLDEST_MODULE_BYTES, sizeof *record, error);
  if (status == OG_OK)
    status = og_copy_sized("og_module", from, record, sizeof *record, error);
  if (status != OG_OK && error != NULL)
    og_error_set(error, status, NULL, "og_module", "%s: %s", path, error->text);
  OG_TRY(status);
  if (record->abi_version == 0 || record->abi_version > OG_ABI_VERSION)
    return og_error_set(
        error, OG_VERSION, NULL, NULL,
        "%s: built for ABI version %u, this opgraft reads "
        "versions up to %u; install a newer opgraft or rebuild the module",
        path, record->abi_version, OG_ABI_VERSION);
  if (!is_identifier(record->name))
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "%s: the module's name is '%s', expected up to 63 "
                        "letters, digits and underscores",
                        path, record->name == NULL ? "" : record->name);
  if (record->ops == NULL || record->op_count == 0 ||
      record->op_count > 65536 || record->op_size <= least_op)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "%s: module %s declares %u operators of %u bytes, "
                        "expected 1 to 65536",
                        path, record->name, record->op_count, record->op_size);
  return OG_OK;
}

static og_status module_create(const char *path, const og_module *given,
                               bool derives, struct opgraft_module **out_module,
                               opgraft_error *error) {
  og_module record;
  *out_module = NULL;
  OG_TRY(og_isa_check(error));
  OG_TRY(record_copy(path, given, &record, error));
  struct opgraft_module *module = og_alloc_zeroed(1, sizeof *module);
  if (module == NULL) return out_of_memory(error, path);
  const size_t length = strlen(record.name) + 1;
  module->references = 1;
  module->name = og_alloc(length);
  og_status status = OG_OK;
  if (module->name == NULL)
    status = out_of_memory(error, path);
  else
    memcpy(module->name, record.name, length);
  if (status == OG_OK) status = module_parse(module, &record, derives, error);
  if (status != OG_OK) {
    module_free(module);
    return status;
  }
  *out_module = module;
  return OG_OK;
}

// --- The object --------------------------------------------------------------

static og_status object_query(const char *path, void *object,
                              const og_module **out_record,
                              opgraft_error *error) {
  void *symbol = og_object_find(object, "opgraft_module");
  if (symbol == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "%s: exports no opgraft_module; end the C file with "
                        "OG_MODULE(name, ops)",
                        path);
  query_fn query;
  memcpy(&query, &symbol, sizeof query);
  *out_record = query(OG_ABI_VERSION);
  if (*out_record == NULL)
    return og_error_set(error, OG_VERSION, NULL, NULL,
                        "%s: built for a newer ABI than version %u; install a "
                        "newer opgraft or rebuild the module",
                        path, OG_ABI_VERSION);
  return OG_OK;
}

// --- The registry ------------------------------------------------------------

// With the lock held.
static struct opgraft_module *registry_find(const char *hash) {
  for (struct opgraft_module *m = registry; m != NULL; m = m->next)
    if (m->object != NULL && strcmp(m->hash, hash) == 0) return m;
  return NULL;
}

static void registry_remove(struct opgraft_module *module) {
  struct opgraft_module **at = &registry;
  while (*at != module) at = &(*at)->next;
  *at = module->next;
}

static void registry_add(struct opgraft_module *module) {
  module->next = registry;
  registry = module;
}

// What was compiled for the module's formulas.
static void codes_find(struct opgraft_module *module) {
  og_formula_codes *codes =
      og_object_find(module->object, "opgraft_formula_codes");
  if (codes == NULL || codes->call_size != sizeof(og_loop_call)) return;
  codes->call = og_loop_call_named;
  for (int32_t i = 0; i < module->op_count; ++i)
    if (module->ops[i].decl->formula != NULL)
      module->ops[i].decl->formula->codes = codes;
}

// With the lock held: two threads that load one file get one module.
static og_status load_locked(const char *path, const unsigned char *bytes,
                             size_t size, const char *hash,
                             struct opgraft_module **out_module,
                             opgraft_error *error) {
  *out_module = registry_find(hash);
  if (*out_module != NULL) {
    ++(*out_module)->references;
    return OG_OK;
  }
  void *object = NULL;
  const og_module *record = NULL;
  char changed[sizeof(*out_module)->float_env];
  const og_float_env before = og_float_env_get();
  og_status status = og_object_open(path, bytes, size, &object, error);
  if (status == OG_OK) status = object_query(path, object, &record, error);
  if (status == OG_OK)
    status = module_create(path, record, true, out_module, error);
  og_float_env_name(before, og_float_env_get(), changed, sizeof changed);
  og_float_env_set(before);
  if (status != OG_OK) {
    if (object != NULL) og_object_close(object);
    return status;
  }
  (*out_module)->object = object;
  codes_find(*out_module);
  const bool may_set = og_elf_may_set_float_env(bytes, size);
  for (int32_t i = 0; i < (*out_module)->op_count; ++i)
    (*out_module)->ops[i].may_set_float_env = may_set;
  memcpy((*out_module)->float_env, changed, sizeof changed);
  memcpy((*out_module)->hash, hash, sizeof(*out_module)->hash);
  registry_add(*out_module);
  return OG_OK;
}

og_status opgraft_module_load(const char *path, opgraft_module **out_module,
                              opgraft_error *error) {
  unsigned char *bytes = NULL;
  size_t size = 0;
  char hash[65];
  *out_module = NULL;
  OG_TRY(og_object_read(path, &bytes, &size, error));
  og_status status = og_elf_check(path, bytes, size, error);
  if (status == OG_OK) {
    og_sha256_hex(bytes, size, hash);
    pthread_mutex_lock(&registry_lock);
    status = load_locked(path, bytes, size, hash, out_module, error);
    pthread_mutex_unlock(&registry_lock);
  }
  og_free(bytes);
  return status;
}

og_status opgraft_module_seal(const char *path, opgraft_error *error) {
  unsigned char *bytes = NULL;
  size_t size = 0, at;
  og_elf_tail tail;
  OG_TRY(og_object_read(path, &bytes, &size, error));
  og_status status = og_elf_check(path, bytes, size, error);
  if (status == OG_OK && (at = og_elf_seal(bytes, size, &tail)) != 0)
    status = og_object_patch(path, at, &tail, sizeof tail, error);
  og_free(bytes);
  return status;
}

static og_status module_wrap(const og_module *record, bool derives,
                             opgraft_module **out_module,
                             opgraft_error *error) {
  OG_TRY(module_create("module", record, derives, out_module, error));
  // No file to hash: the address tells records of one process apart.
  og_sha256_hex(&record, sizeof record, (*out_module)->hash);
  pthread_mutex_lock(&registry_lock);
  registry_add(*out_module);
  pthread_mutex_unlock(&registry_lock);
  return OG_OK;
}

og_status opgraft_module_wrap(const og_module *record,
                              opgraft_module **out_module,
                              opgraft_error *error) {
  return module_wrap(record, true, out_module, error);
}

static og_status prepared_copy(const opgraft_prepared *from, opgraft_op *op,
                               opgraft_error *error) {
  opgraft_prepared *own = &op->prepared;
  OG_TRY(og_copy_sized("opgraft_prepared", from, own, sizeof *own, error));
  if (from == NULL || (own->prepare != NULL && own->run != NULL)) return OG_OK;
  return og_error_set(error, OG_INVALID, op->decl->name, "opgraft_prepared",
                      "%s: opgraft_prepared.%s is NULL, expected a function",
                      op->decl->name, own->prepare == NULL ? "prepare" : "run");
}

static og_status made_fill(struct opgraft_module *module,
                           const opgraft_made *made, opgraft_error *error) {
  og_sha256_hex(made->key, strlen(made->key), module->hash);
  for (int32_t i = 0; i < module->given_count; ++i) {
    opgraft_op *op = &module->ops[i];
    if (made->derived != NULL && made->derived[i] != NULL)
      op->derived = made->derived[i];
    if (made->prepared != NULL)
      OG_TRY(prepared_copy(made->prepared[i], op, error));
  }
  module->release = made->release;
  module->owner = made->owner;
  return OG_OK;
}

og_status opgraft_module_make(const opgraft_made *made,
                              opgraft_module **out_module,
                              opgraft_error *error) {
  opgraft_made own;
  *out_module = NULL;
  OG_TRY(og_copy_sized("opgraft_made", made, &own, sizeof own, error));
  if (own.record == NULL || own.key == NULL)
    return og_error_set(error, OG_INVALID, NULL, "opgraft_made",
                        "opgraft_made.%s is NULL, expected %s",
                        own.record == NULL ? "record" : "key",
                        own.record == NULL ? "a module's record" : "a text");
  OG_TRY(opgraft_module_wrap(own.record, out_module, error));
  const og_status status = made_fill(*out_module, &own, error);
  if (status != OG_OK) {
    opgraft_module_release(*out_module);
    *out_module = NULL;
  }
  return status;
}

// --- Derivatives -------------------------------------------------------------

// A module of one operator, derived from one of another module.
typedef struct derived_module {
  opgraft_module *from;
  og_arena arena;
  og_op op;
  og_module record;
  og_grad map;
} derived_module;

static void derived_release(void *owner) {
  derived_module *d = owner;
  if (d->from != NULL) opgraft_module_release(d->from);
  og_arena_destroy(&d->arena);
  og_free(d);
}

static void derived_keep(derived_module *d, const opgraft_op *op,
                         opgraft_module *module) {
  og_text key = {0};
  og_text_addf(&key, "%s %s", op->module->hash, d->map.op_name);
  if (!key.failed) og_sha256_hex(key.data, key.length, module->hash);
  og_text_reset(&key);
  d->from = op->module;
  opgraft_module_retain(d->from);
  module->ops[0].decl->derived_by = &d->map;
  module->ops[0].decl->is_derived = true;
  if (op->decl->formula != NULL && module->ops[0].decl->formula != NULL)
    module->ops[0].decl->formula->codes = op->decl->formula->codes;
  module->release = derived_release;
  module->owner = d;
}

og_status opgraft_op_derive(const opgraft_op *op, int32_t kind,
                            opgraft_module **out_module, opgraft_error *error) {
  derived_module *d = og_alloc_zeroed(1, sizeof *d);
  *out_module = NULL;
  if (d == NULL) return out_of_memory(error, op->decl->name);
  if (!og_formula_differentiate(op->decl, (og_formula_derivative)kind,
                                &d->arena, &d->op, &d->map)) {
    derived_release(d);
    return og_error_set(error, OG_UNSUPPORTED, op->decl->name, "row",
                        "%s: nothing can be derived from it", op->decl->name);
  }
  d->record = (og_module){.struct_size = sizeof d->record,
                          .abi_version = OG_ABI_VERSION,
                          .name = op->module->name,
                          .ops = &d->op,
                          .op_count = 1,
                          .op_size = sizeof d->op};
  const og_status status = module_wrap(&d->record, false, out_module, error);
  if (status != OG_OK) {
    derived_release(d);
    return status;
  }
  derived_keep(d, op, *out_module);
  return OG_OK;
}

void opgraft_module_retain(opgraft_module *module) {
  pthread_mutex_lock(&registry_lock);
  ++module->references;
  pthread_mutex_unlock(&registry_lock);
}

void opgraft_module_release(opgraft_module *module) {
  pthread_mutex_lock(&registry_lock);
  const bool is_last = --module->references == 0;
  if (is_last) registry_remove(module);
  pthread_mutex_unlock(&registry_lock);
  if (is_last) module_end(module);
}

og_status opgraft_module_unload(opgraft_module *module, opgraft_error *error) {
  pthread_mutex_lock(&registry_lock);
  const int64_t others = module->references - 1;
  if (others == 0) {
    module->references = 0;
    registry_remove(module);
  }
  pthread_mutex_unlock(&registry_lock);
  if (others == 0) {
    module_end(module);
    return OG_OK;
  }
  return og_error_set(error, OG_BUSY, NULL, NULL,
                      "module %s: %lld other reference%s can still call it; "
                      "release all, then unload",
                      module->name, (long long)others, og_plural(others));
}

const char *og_module_float_env(const opgraft_module *module) {
  return module->float_env;
}

const char *opgraft_module_name(const opgraft_module *module) {
  return module->name;
}

const char *opgraft_module_hash(const opgraft_module *module) {
  return module->hash;
}

int32_t opgraft_module_op_count(const opgraft_module *module) {
  return module->op_count;
}

const opgraft_op *opgraft_module_op(const opgraft_module *module,
                                    int32_t index) {
  return index >= 0 && index < module->op_count ? &module->ops[index] : NULL;
}

const opgraft_op *opgraft_module_find_op(const opgraft_module *module,
                                         const char *name) {
  for (int32_t i = 0; i < module->op_count; ++i)
    if (strcmp(module->ops[i].decl->name, name) == 0) return &module->ops[i];
  return NULL;
}

const char *opgraft_op_name(const opgraft_op *op) { return op->decl->name; }

const og_op *opgraft_op_record(const opgraft_op *op) {
  return op->decl->record;
}

size_t opgraft_op_describe(const opgraft_op *op, char *buffer, size_t size) {
  og_text text = {0};
  og_decl_describe(op->decl, &text);
  const size_t length = text.failed ? 0 : text.length;
  if (size > 0) {
    const size_t kept = length < size ? length : size - 1;
    if (kept > 0) memcpy(buffer, text.data, kept);
    buffer[kept] = '\0';
  }
  og_text_reset(&text);
  return length;
}
