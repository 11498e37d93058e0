// SPDX-License-Identifier: Apache-2.0
// The module's operators as a domain of its name, for ONNX Runtime's
// register_custom_ops_library.
//
// Invariant: a registration lives until the file is unmapped, for sessions hold
// its operators; there is one for each table that ONNX Runtime passes.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "onnxruntime/infer.h"
#include "onnxruntime/inplace.h"
#include "onnxruntime/kernel.h"

#define API OG_EXPORT

API void *RegisterCustomOps(void *options, const ort_api_base *base);
// Why operator `op` is not offered; NULL where it is.
API const char *opgraft_limit_onnxruntime(int32_t op);

OG_OWN_EXPORTS(onnxruntime)

const char *opgraft_limit_onnxruntime(int32_t op) {
  const og_own *module = og_own_get();
  return op < 0 || op >= module->op_count ? "there is no such operator"
                                          : og_ort_op_limit(&module->ops[op]);
}

typedef struct registration {
  struct registration *next;
  ort_api api;
  void *domain;
  og_ort_op *ops;
  int32_t op_count;
} registration;

static registration *registrations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// --- What a custom operator says of itself -----------------------------------

static const og_ort_op *own(const ort_custom_op *op) {
  return (const og_ort_op *)(const void *)op;
}
static const char *name(const ort_custom_op *op) {
  return own(op)->op->info.name;
}
static const char *provider(const ort_custom_op *op) {
  (void)op;
  return "CPUExecutionProvider";
}
static int input_type(const ort_custom_op *op, size_t index) {
  return own(op)->input_types[index];
}
static size_t input_count(const ort_custom_op *op) {
  return (size_t)own(op)->op->info.tensor_count;
}
static int output_type(const ort_custom_op *op, size_t index) {
  return own(op)->output_types[index];
}
static size_t output_count(const ort_custom_op *op) {
  return (size_t)own(op)->output_count;
}
static int input_form(const ort_custom_op *op, size_t index) {
  const uint32_t flags = own(op)->op->tensor_params[index]->flags;
  if ((flags & OPGRAFT_PARAM_LIST) != 0) return ORT_VARIADIC;
  return (flags & OPGRAFT_PARAM_OPTIONAL) != 0 ? ORT_OPTIONAL : ORT_REQUIRED;
}
static int zero_of(const ort_custom_op *op, size_t index) {
  (void)op;
  (void)index;
  return 0;
}
static int zero(const ort_custom_op *op) {
  (void)op;
  return 0;
}
static int one(const ort_custom_op *op) {
  (void)op;
  return 1;
}
static int last_version(const ort_custom_op *op) {
  (void)op;
  return INT32_MAX;
}

// ONNX Runtime reads the type of an absent input while it infers shapes.
static int has_optional(const og_own_op *op) {
  for (int32_t t = 0; t < op->info.tensor_count; ++t)
    if ((op->tensor_params[t]->flags & OPGRAFT_PARAM_OPTIONAL) != 0) return 1;
  return 0;
}

// What a runtime grants.
typedef struct grant {
  ort_api api;
  uint32_t level;  // that operators declare
  int has_shapes;
} grant;

static void custom_fill(og_ort_op *op, const grant *granted) {
  const uint32_t level = granted->level;
  op->api = granted->api;
  op->has_shapes = granted->has_shapes;
  op->custom = (ort_custom_op){
      .version = level,
      .name = name,
      .provider = provider,
      .input_type = input_type,
      .input_count = input_count,
      .output_type = output_type,
      .output_count = output_count,
      .kernel_destroy = og_ort_kernel_destroy,
      .input_form = input_form,
      .output_form = zero_of,
      .input_memory = zero_of,
      .variadic_input_least = one,
      .variadic_input_equal = one,
      .variadic_output_least = one,
      .variadic_output_equal = zero,
      .kernel_create = og_ort_kernel_create,
      .kernel_compute = og_ort_kernel_compute,
      .start_version = one,
      .end_version = last_version,
  };
  if (level >= ORT_LEVEL_INFER && !has_optional(op->op))
    op->custom.infer = og_ort_infer;
  if (level >= ORT_LEVEL_INPLACE) og_ort_inplace_set(op);
}

// --- Registration ------------------------------------------------------------

static void *say(ort_api api, og_status code, const char *text) {
  opgraft_error error = {.code = code};
  snprintf(error.text, sizeof error.text, "%s", text);
  return og_ort_fail(api, &error);
}

static void *ops_add(registration *r, const og_own *module,
                     const grant *granted) {
  r->ops = calloc((size_t)module->op_count * OG_ORT_FORMS_MAX, sizeof *r->ops);
  if (r->ops == NULL) return say(r->api, OG_MEMORY, "out of memory");
  void *status = ORT(r->api, create_domain)(module->name, &r->domain);
  for (int32_t i = 0; status == NULL && i < module->op_count; ++i) {
    if (og_ort_op_limit(&module->ops[i]) != NULL) continue;
    og_ort_op *forms = r->ops + r->op_count;
    const int32_t count = og_ort_forms(&module->ops[i], forms);
    for (int32_t f = 0; status == NULL && f < count; ++f) {
      custom_fill(&forms[f], granted);
      status = ORT(r->api, domain_add)(r->domain, &forms[f].custom);
    }
    r->op_count += count;
  }
  return status;
}

// With the lock held.
static void *registration_get(const grant *granted,
                              registration **out_registration) {
  const ort_api api = granted->api;
  registration *r = registrations;
  while (r != NULL && r->api != api) r = r->next;
  *out_registration = r;
  if (r != NULL) return NULL;
  r = calloc(1, sizeof *r);
  if (r == NULL) return say(api, OG_MEMORY, "out of memory");
  r->api = api;
  void *status = ops_add(r, og_own_get(), granted);
  if (status != NULL) {
    if (r->domain != NULL) ORT(api, release_domain)(r->domain);
    free(r->ops);
    free(r);
    return status;
  }
  r->next = registrations;
  registrations = r;
  *out_registration = r;
  return NULL;
}

// A runtime that is too old still has the oldest table, to be told so.
static void *too_old(const ort_api_base *base) {
  char text[160];
  const ort_api oldest = base->get_api(1);
  if (oldest == NULL) return NULL;
  snprintf(text, sizeof text,
           "opgraft operators need ONNX Runtime 1.%d or newer, found %s",
           ORT_LEVEL_LEAST, base->get_version());
  return say(oldest, OG_VERSION, text);
}

// By the version's text: asked for a table that it lacks, a runtime writes to
// standard error.
static int has_shapes(const ort_api_base *base) {
  int major = 0, minor = 0;
  return sscanf(base->get_version(), "%d.%d", &major, &minor) == 2 &&
         (major > 1 || minor >= ORT_LEVEL_SHAPE) &&
         base->get_api(ORT_LEVEL_SHAPE) != NULL;
}

void *RegisterCustomOps(void *options, const ort_api_base *base) {
  grant granted = {.level = ORT_LEVEL_MOST};
  granted.api = base->get_api(granted.level);
  while (granted.api == NULL && granted.level > ORT_LEVEL_LEAST)
    granted.api = base->get_api(--granted.level);
  const ort_api api = granted.api;
  if (api == NULL) return too_old(base);
  granted.has_shapes = has_shapes(base);
  const og_own *module = og_own_get();
  if (module->error.code != OG_OK) return og_ort_fail(api, &module->error);
  registration *r = NULL;
  pthread_mutex_lock(&lock);
  void *status = registration_get(&granted, &r);
  pthread_mutex_unlock(&lock);
  return status != NULL ? status : ORT(api, add_domain)(options, r->domain);
}

__attribute__((destructor)) static void registrations_drop(void) {
  if (og_own_is_called()) return;
  while (registrations != NULL) {
    registration *next = registrations->next;
    free(registrations->ops);
    free(registrations);
    registrations = next;
  }
}
