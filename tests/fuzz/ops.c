// SPDX-License-Identifier: Apache-2.0
// Any bytes as a call of an operator of ops/: a sampled call that its
// declaration allows, in which arguments other than tensors become extreme,
// and a few elements too. Each tensor has a block of its own, so that
// AddressSanitizer sees an access beyond it.
//
// A call is refused with a status or runs. The kernel writes no argument that
// the schema does not name as mutated. With FUZZ_SHOW in the environment each
// call is printed before it runs.

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/call.h"
#include "check/run/array.h"
#include "check/run/fill.h"
#include "check/sample/describe.h"
#include "check/sample/draw.h"
#include "check/sample/sample.h"
#include "check/sample/types.h"
#include "check/sample/valid.h"
#include "check/sample/value.h"
#include "decl/types.h"
#include "fuzz/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  OPS_MAX = 128,
  TYPES_MAX = 16,
  THREADS_MAX = 3,
  BYTES_MAX = 64 << 20,  // of results, and of the workspace
  EDITS_MAX = 3,
};

#define X(module, file) #module,
static const char *const module_names[] = {
#include "ops/ops.def"
};
#undef X
enum { MODULES = sizeof module_names / sizeof *module_names };

static const opgraft_op *ops[OPS_MAX];
static int32_t op_count;

static void require(bool holds, const char *op, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", op, what);
  abort();
}

// The record of a module; the file is not read and hashed as load does, which
// takes a second for one with sanitizers.
static const og_module *record_of(const char *path) {
  const og_module *(*query)(uint32_t max_abi);
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = object != NULL ? dlsym(object, "opgraft_module") : NULL;
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  memcpy(&query, &symbol, sizeof query);
  return query(OG_ABI_VERSION);
}

static void modules_load(void) {
  for (int32_t m = 0; m < MODULES; ++m) {
    char path[512];
    opgraft_error error;
    opgraft_module *module;
    snprintf(path, sizeof path, "%s/%s.so", FUZZ_OPS_DIR, module_names[m]);
    if (opgraft_module_wrap(record_of(path), &module, &error) != OG_OK) {
      fprintf(stderr, "%s\n", error.text);
      exit(2);
    }
    for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
      require(op_count < OPS_MAX, path, "more operators than OPS_MAX");
      ops[op_count++] = opgraft_module_op(module, i);
    }
  }
}

// --- Bytes to decisions

static double take_float(bytes *in) {
  static const double edges[] = {
      0,          1,       NAN,     INFINITY, DBL_MAX, DBL_MIN,
      0x1p-1074,  FLT_MAX, FLT_MIN, 0x1p-149, 0x1p31,  0x1p63,
      0x1p63 * 2, 65520,   0x1p128, 1e-30,
  };
  const double edge = edges[take(in, sizeof edges / sizeof *edges)];
  return take(in, 2) == 0 ? edge : -edge;
}

// --- Extreme arguments

static og_dtype take_dtype(bytes *in) {
  return og_dtype_at((int32_t)take(in, (uint32_t)og_dtype_table_count()));
}

static const char *take_word(bytes *in, const og_param *param) {
  static const char long_word[] =
      "a word that is longer than any text that has room for it, since those "
      "who quote what they were given may forget how much room there is: "
      "NONE ROPE_LLAMA ALIBI big little none mean sum tanh e 2 10 and so on, "
      "and so on, until there are more than two hundred and fifty-six bytes.";
  static const char *const words[] = {"",     "NONE", "ROPE_LLAMA", "ALIBI",
                                      "e",    "2",    "big",        "little",
                                      "none", "relu", "\xff\n%s%n", long_word};
  const uint32_t kind = take(in, 16);
  const char *own = param->default_value.s;
  if (kind >= sizeof words / sizeof *words)
    return param->has_default && param->type == OG_TYPE_STR ? own : "none";
  return words[kind];
}

static og_attr take_scalar(bytes *in) {
  switch (take(in, 4)) {
    case 0:
      return (og_attr){.kind = OG_ATTR_FLOAT, .f = take_float(in)};
    case 1:
      return (og_attr){.kind = OG_ATTR_BOOL, .i = take(in, 2)};
    case 2:
      return (og_attr){
          .kind = OG_ATTR_COMPLEX, .f = take_float(in), .imag = take_float(in)};
    default:
      return (og_attr){.kind = OG_ATTR_INT, .i = take_int(in)};
  }
}

static og_attr take_attr(bytes *in, const og_param *param) {
  const char *word;
  switch (param->type) {
    case OG_TYPE_FLOAT:
      return (og_attr){.kind = OG_ATTR_FLOAT, .f = take_float(in)};
    case OG_TYPE_BOOL:
      return (og_attr){.kind = OG_ATTR_BOOL, .i = take(in, 2)};
    case OG_TYPE_SCALAR:
      return take_scalar(in);
    case OG_TYPE_SCALAR_TYPE:
      return (og_attr){.kind = OG_ATTR_DTYPE, .dtype = take_dtype(in)};
    case OG_TYPE_DEVICE:
      return (og_attr){.kind = OG_ATTR_DEVICE, .device = {OG_CPU, 0}};
    case OG_TYPE_STR:
      word = take_word(in, param);
      return (og_attr){
          .kind = OG_ATTR_STR, .s = word, .count = (int64_t)strlen(word)};
    default:
      return (og_attr){.kind = OG_ATTR_INT, .i = take_int(in)};
  }
}

static void list_edit(bytes *in, og_sample *s, const og_param *param) {
  og_attr *a = &s->attr[param->index];
  if (a->kind == OG_ATTR_STRS || a->kind == OG_ATTR_NONE) return;
  if (take(in, 2) == 0) a->count = take(in, OG_SAMPLE_INTS + 1);
  if (a->count == 0) return;
  const uint32_t i = take(in, (uint32_t)a->count);
  if (a->kind == OG_ATTR_FLOATS)
    s->floats[param->index][i] = take_float(in);
  else
    s->ints[param->index][i] =
        a->kind == OG_ATTR_BOOLS ? (int64_t)take(in, 2) : take_int(in);
}

static void attrs_edit(bytes *in, og_sample *s) {
  const og_decl *decl = s->op->decl;
  if (decl->attr_count == 0) return;
  for (uint32_t n = take(in, EDITS_MAX + 1); n > 0; --n) {
    const uint32_t k = take(in, (uint32_t)decl->attr_count);
    const og_param *param = &decl->params[decl->attr_params[k]];
    if (param->is_optional && take(in, 4) == 0)
      s->attr[k] = (og_attr){.kind = OG_ATTR_NONE};
    else if (param->is_list)
      list_edit(in, s, param);
    else
      s->attr[k] = take_attr(in, param);
  }
}

static void elements_edit(bytes *in, const og_sample *s, og_inputs *inputs) {
  if (s->op->decl->tensor_count == 0) return;
  for (uint32_t n = take(in, EDITS_MAX + 1); n > 0; --n) {
    const uint32_t t = take(in, (uint32_t)s->op->decl->tensor_count);
    const uint32_t e = take(in, OG_SAMPLE_LIST);
    const og_array *a = &inputs->tensor[t][e];
    const int64_t at = (int64_t)take_bits(in, 2);
    if (a->data == NULL || a->count == 0) continue;
    char *element = a->data + (size_t)(at % a->count) * og_dtype_bytes(a->type);
    if (og_is_floating(a->type))
      og_value_set(a->type, element, 0, take_float(in));
    else if (og_is_integral(a->type))
      og_value_set(a->type, element, 0, (double)take_int(in));
  }
}

// --- The call

static og_status serial_for(const og_call *call, int64_t total, int64_t grain,
                            og_task_fn fn, void *state) {
  (void)grain;
  for (int32_t w = call->threads - 1; w >= 0; --w) {
    const int64_t begin = total / call->threads * w;
    const int64_t end =
        w + 1 == call->threads ? total : total / call->threads * (w + 1);
    if (end > begin) fn(state, begin, end, w);
  }
  return OG_OK;
}

// The tensors of one call: the first of each list entry, in fixed storage.
typedef struct tensors {
  og_tensor given[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  int64_t strides[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST][OG_SAMPLE_RANK];
  void *fresh[OG_ARRAYS_MAX];
  int32_t fresh_count;
} tensors;

static void arguments_set(opgraft_frame *frame, tensors *own,
                          const og_sample *s, const og_inputs *inputs) {
  const og_decl *decl = s->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    frame->in[t] = NULL;
    frame->in_list[t] = (og_tensor_list){0};
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      own->entry[t][e] = NULL;
      if (!og_sample_has(s, t, e)) continue;
      og_array_as_tensor(&inputs->tensor[t][e], own->strides[t][e],
                         &own->given[t][e]);
      own->entry[t][e] = &own->given[t][e];
    }
    if (decl->params[decl->tensor_params[t]].is_list && s->is_given[t])
      frame->in_list[t] = (og_tensor_list){s->list_count[t], own->entry[t]};
    else
      frame->in[t] = own->entry[t][0];
  }
  og_sample_attrs(s, frame->attr);
}

// A block of the tensor's size, with bytes that are not zeros; false if there
// are to be too many.
static bool fresh_place(tensors *own, og_tensor *tensor) {
  int64_t size = (int64_t)og_dtype_bytes(tensor->dtype);
  for (int32_t d = 0; d < tensor->ndim; ++d)
    if (tensor->shape[d] < 0 || !og_i64_mul(size, tensor->shape[d], &size))
      return false;
  if (size > BYTES_MAX || own->fresh_count == OG_ARRAYS_MAX) return false;
  void *data = malloc((size_t)size);
  if (data == NULL) abort();
  memset(data, 0x7f, (size_t)size);
  own->fresh[own->fresh_count++] = data;
  tensor->data = data;
  return true;
}

static bool results_place(opgraft_frame *frame, tensors *own) {
  const og_decl *decl = frame->op->decl;
  for (int32_t i = 0; i < frame->fresh_count; ++i) {
    if (!decl->results[decl->fresh_results[i]].is_list) {
      if (!fresh_place(own, &frame->fresh[i])) return false;
      continue;
    }
    for (int64_t e = 0; e < frame->fresh_list[i].count; ++e)
      if (!fresh_place(own, frame->fresh_list[i].tensors[e])) return false;
  }
  return frame->call.workspace_bytes <= BYTES_MAX;
}

// Any kernel that takes the call, not only the one that this machine prefers.
static void kernel_choose(bytes *in, opgraft_frame *frame) {
  const og_decl *decl = frame->op->decl;
  int32_t types[OG_VARIABLE_MAX];
  og_frame_types(frame, types);
  const int32_t k = (int32_t)take(in, (uint32_t)decl->kernel_count);
  const og_kernel *kernel = &decl->kernels[k];
  if (kernel->device == OG_CPU && frame->op->kernel_available[k] &&
      og_kernel_takes(frame, k, types) &&
      (kernel->supports == NULL || kernel->supports(&frame->call)))
    frame->kernel = kernel;
}

static void unwritten_check(const og_sample *s, const og_inputs *before,
                            const og_inputs *now) {
  const og_decl *decl = s->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const og_array *a = &before->tensor[t][e], *b = &now->tensor[t][e];
      if (a->data == NULL || decl->params[decl->tensor_params[t]].is_mutated)
        continue;
      require(memcmp(a->data, b->data,
                     (size_t)a->count * og_dtype_bytes(a->type)) == 0,
              decl->name, "an argument that is not mutated was written");
    }
}

static void call_show(const og_sample *s) {
  og_text text = {0};
  if (getenv("FUZZ_SHOW") == NULL) return;
  og_sample_describe(s, &text);
  fprintf(stderr, "%s(%s)\n", s->op->decl->name, text.data);
  og_text_reset(&text);
}

static void call_run(bytes *in, const og_sample *s, const og_inputs *before,
                     const og_inputs *inputs) {
  static opgraft_frame frame;
  static tensors own;
  opgraft_error error = {.code = OG_OK};
  own.fresh_count = 0;
  opgraft_frame_init(&frame, s->op);
  arguments_set(&frame, &own, s, inputs);
  frame.call.threads = 1 + (int32_t)take(in, THREADS_MAX);
  frame.call.parallel_for = serial_for;
  og_status status = opgraft_frame_infer(&frame, &error);
  if (status == OG_OK && results_place(&frame, &own)) {
    kernel_choose(in, &frame);
    status = opgraft_frame_run(&frame, &error);
    unwritten_check(s, before, inputs);
  }
  require(status == OG_OK || error.text[0] != '\0', s->op->decl->name,
          "a refusal gives no reason");
  require(status >= OG_OK && status < OG_KERNEL, s->op->decl->name,
          status == OG_OK ? "" : error.text);
  for (int32_t i = 0; i < own.fresh_count; ++i) free(own.fresh[i]);
  opgraft_frame_reset(&frame);
}

static bool sample_take(bytes *in, og_sample *s) {
  static const og_profile profiles[] = {OG_PROFILE_TINY, OG_PROFILE_MIXED,
                                        OG_PROFILE_ZERO, OG_PROFILE_ONES,
                                        OG_PROFILE_EDGE};
  opgraft_error error = {.code = OG_OK};
  int32_t types[TYPES_MAX][OG_VARIABLE_MAX];
  const opgraft_op *op = ops[take(in, (uint32_t)op_count)];
  const og_profile profile =
      profiles[take(in, sizeof profiles / sizeof *profiles)];
  const int32_t count = og_sample_types(op, TYPES_MAX, types);
  require(count > 0, op->decl->name, "no combination of types has a kernel");
  const uint32_t chosen = take(in, (uint32_t)count);
  if (!og_sample_draw(op, profile, types[chosen], take_bits(in, 2), s, &error))
    return false;
  // Half of the edits come before the operator's own `sample` sees the call,
  // which may refuse them.
  if (take(in, 2) == 0) return true;
  og_sample edited = *s;
  attrs_edit(in, &edited);
  if (og_sample_is_valid(&edited, BYTES_MAX / 16, &error)) *s = edited;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static og_sample sample;
  static og_inputs inputs, before;
  bytes in = {data, size};
  if (op_count == 0) modules_load();
  if (!sample_take(&in, &sample) || !og_inputs_fill(&inputs, &sample)) return 0;
  attrs_edit(&in, &sample);
  elements_edit(&in, &sample, &inputs);
  call_show(&sample);
  if (og_inputs_copy(&before, &inputs)) {
    call_run(&in, &sample, &before, &inputs);
    og_inputs_reset(&before);
  }
  og_inputs_reset(&inputs);
  return 0;
}
