// SPDX-License-Identifier: Apache-2.0
// decl [--json]: reads declarations and calls, prints what is inferred, or the
// error.
//
// A line `schema: f(Tensor x) -> Tensor` begins an operator; `shape:`,
// `where:`, `dtype:`, `backward:`, `workspace:`, `strides:`, `inplace:`,
// `reduce:`, `row:`, `expect:` and `kernel:` (its types; more than one
// may follow) say the rest. Without a kernel line it has one kernel for all
// types. A line `call x=f32[2,3] xs={f32[2] f32[3]} dim=-1 sizes=[2,3]
// mode="sum"` calls the last operator; what is not named has its default. A
// tensor may have strides, f32[2,3]/[1,2], and a device, f32[2]@2.

#include "decl/decl.h"

#include <stdlib.h>
#include <string.h>

#include "decl/describe.h"
#include "decl/infer/infer.h"
#include "decl/parse/backward.h"
#include "tools/tool.h"

enum { OPS_MAX = 8, KERNELS_MAX = 8, CALLS_MAX = 64, LIST_MAX = 8 };

typedef struct operator_text {
  og_op record;
  og_kernel kernels[KERNELS_MAX];
  bool has_kernels;
} operator_text;

typedef struct tensor_store {
  og_tensor tensor;
  int64_t shape[OPGRAFT_RANK_MAX + 1];
  int64_t strides[OPGRAFT_RANK_MAX + 1];
} tensor_store;

typedef struct call_store {
  tensor_store tensors[OPGRAFT_ARG_MAX + LIST_MAX * 4];
  int32_t tensor_count;
  og_tensor *entries[LIST_MAX * 4];
  int32_t entry_count;
  int64_t ints[256];
  int32_t int_count;
} call_store;

static og_status run_nothing(const og_call *call) {
  (void)call;
  return OG_OK;
}

// --- Reading a call ----------------------------------------------------------

static int32_t read_ints(const char **at, int64_t *out, int32_t limit) {
  int32_t count = 0;
  ++*at;  // '['
  while (**at != ']' && **at != '\0') {
    char *end;
    const int64_t value = strtoll(*at, &end, 10);
    if (end == *at) break;
    if (count < limit) out[count++] = value;
    *at = end + (*end == ',');
  }
  if (**at == ']') ++*at;
  return count;
}

static og_tensor *read_tensor(const char **at, call_store *store) {
  tensor_store *t = &store->tensors[store->tensor_count++];
  const size_t name = strcspn(*at, "[");
  memset(t, 0, sizeof *t);
  if (!og_dtype_parse(*at, name, &t->tensor.dtype))
    t->tensor.dtype = (og_dtype){99, 8, 1};
  *at += name;
  t->tensor.ndim = read_ints(at, t->shape, OPGRAFT_RANK_MAX + 1);
  t->tensor.shape = t->shape;
  t->tensor.device.type = OG_CPU;
  if (**at == '/') {
    ++*at;
    read_ints(at, t->strides, OPGRAFT_RANK_MAX + 1);
    t->tensor.strides = t->strides;
  }
  if (**at == '@') {
    char *end;
    t->tensor.device.type = (int32_t)strtol(*at + 1, &end, 10);
    *at = end;
  }
  return &t->tensor;
}

static void read_list(const char **at, call_store *store, og_tensor_list *out) {
  og_tensor **entries = &store->entries[store->entry_count];
  out->tensors = entries;
  out->count = 0;
  ++*at;  // '{'
  while (**at != '}' && **at != '\0' && store->entry_count < LIST_MAX * 4) {
    if (**at == ' ') {
      ++*at;
      continue;
    }
    og_tensor *entry = NULL;
    if (strncmp(*at, "None", 4) == 0)
      *at += 4;
    else
      entry = read_tensor(at, store);
    entries[out->count++] = entry;
    ++store->entry_count;
  }
  if (**at == '}') ++*at;
}

static void read_attr(const char **at, const og_param *param, call_store *store,
                      og_attr *out) {
  const size_t length = strcspn(*at, " ");
  char *end;
  *out = (og_attr){.kind = OG_ATTR_INT};
  if (strncmp(*at, "None", 4) == 0) {
    out->kind = OG_ATTR_NONE;
  } else if (**at == '[') {
    const char *list = *at;
    int64_t *ints = &store->ints[store->int_count];
    out->kind = OG_ATTR_INTS;
    out->count = read_ints(&list, ints, 256 - store->int_count);
    out->ints = ints;
    store->int_count += (int32_t)out->count;
  } else if (param->type == OG_TYPE_SCALAR_TYPE) {
    out->kind = OG_ATTR_DTYPE;
    og_dtype_parse(*at, length, &out->dtype);
  } else if (param->type == OG_TYPE_DEVICE) {
    out->kind = OG_ATTR_DEVICE;
    out->device.type = (int32_t)strtol(*at, &end, 10);
  } else if (param->type == OG_TYPE_BOOL) {
    out->kind = OG_ATTR_BOOL;
    out->i = **at == 'T';
  } else if (memchr(*at, '.', length) != NULL) {
    out->kind = OG_ATTR_FLOAT;
    out->f = strtod(*at, &end);
  } else {
    out->i = strtoll(*at, &end, 10);
  }
  *at += length;
}

static const og_param *find_param(const og_decl *decl, const char *name,
                                  size_t length) {
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (strlen(decl->params[i].name) == length &&
        memcmp(decl->params[i].name, name, length) == 0)
      return &decl->params[i];
  return NULL;
}

static bool read_call(const og_decl *decl, const char *at, call_store *store,
                      opgraft_frame *frame) {
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (decl->params[i].type != OG_TYPE_TENSOR)
      frame->attr[decl->params[i].index] = decl->params[i].default_value;
  while (*(at += strspn(at, " ")) != '\0') {
    const size_t length = strcspn(at, "=");
    const og_param *param = find_param(decl, at, length);
    if (param == NULL || at[length] == '\0') {
      printf("the call has no argument '%.*s'\n", (int)length, at);
      return false;
    }
    at += length + 1;
    if (param->type != OG_TYPE_TENSOR)
      read_attr(&at, param, store, &frame->attr[param->index]);
    else if (*at == '{')
      read_list(&at, store, &frame->in_list[param->index]);
    else if (strncmp(at, "None", 4) == 0)
      at += 4;
    else
      frame->in[param->index] = read_tensor(&at, store);
  }
  return true;
}

// --- Printing ----------------------------------------------------------------

static void print_ints(const int64_t *values, int32_t count) {
  printf("[");
  for (int32_t i = 0; i < count; ++i)
    printf("%s%lld", i > 0 ? ", " : "", (long long)values[i]);
  printf("]");
}

// f32[2, 3], with strides where they are not row-major.
static void print_tensor(const og_tensor *t) {
  int64_t stride = 1;
  bool is_row_major = true;
  for (int32_t k = t->ndim - 1; k >= 0; --k) {
    is_row_major &= t->strides[k] == stride;
    stride *= t->shape[k] > 1 ? t->shape[k] : 1;
  }
  printf(" %s", og_dtype_name(t->dtype));
  print_ints(t->shape, t->ndim);
  if (!is_row_major) {
    printf("/");
    print_ints(t->strides, t->ndim);
  }
  if (t->device.type != OG_CPU) printf("@%d", (int)t->device.type);
}

static void print_list(const og_tensor_list *list) {
  printf(" {");
  for (int64_t i = 0; i < list->count; ++i) print_tensor(list->tensors[i]);
  printf(" }");
}

static bool print_value(const og_decl *decl, const og_expr *expr,
                        const opgraft_frame *frame, const char *name) {
  int64_t value;
  opgraft_error error;
  if (og_expr_eval(decl, expr, frame, 0, &value, &error) != OG_OK) {
    printf("\n%s", error.text);
    return false;
  }
  printf("%s%lld", name, (long long)value);
  return true;
}

static void print_inferred(const og_decl *decl, const opgraft_frame *frame) {
  for (int32_t d = 0; d < decl->dim_count; ++d)
    printf("%s=%lld ", decl->dims[d].name, (long long)frame->dim[d]);
  printf("->");
  for (int32_t i = 0; i < decl->result_count; ++i) {
    const og_result *result = &decl->results[i];
    const int32_t j = decl->mutated_count + result->fresh_index;
    if (result->alias_param >= 0)
      printf(" %s", decl->params[result->alias_param].name);
    else if (result->value_index >= 0)
      print_value(decl, &decl->values[result->value_index], frame, " ");
    else if (result->is_list)
      print_list(&frame->out_list[j]);
    else
      print_tensor(frame->out[j]);
  }
  if (decl->workspace.count > 0)
    print_value(decl, &decl->workspace, frame, ", workspace ");
  printf("\n");
}

static void frame_reset(opgraft_frame *frame) {
  og_frame_block *block = frame->heap;
  while (block != NULL) {
    og_frame_block *next = block->next;
    og_free(block);
    block = next;
  }
}

static void print_error(const opgraft_error *error) {
  printf("%s: %s\n", opgraft_status_text(error->code), error->text);
}

static int call(const og_decl *decl, const char *text) {
  static opgraft_frame frame;
  static call_store store;
  opgraft_error error = {0};
  memset(&frame, 0, sizeof frame);
  store.tensor_count = store.entry_count = store.int_count = 0;
  frame.call.threads = 4;
  if (!read_call(decl, text, &store, &frame)) return 1;
  const og_status status = og_infer(decl, &frame, &error);
  if (status == OG_OK)
    print_inferred(decl, &frame);
  else
    print_error(&error);
  frame_reset(&frame);
  return 0;
}

// --- The input ---------------------------------------------------------------

typedef struct input {
  operator_text ops[OPS_MAX];
  int32_t op_count;
  struct {
    int32_t op;
    const char *text;
  } calls[CALLS_MAX];
  int32_t call_count;
} input;

static bool read_field(operator_text *op, const char *name, const char *value) {
  struct {
    const char *name;
    const char **field;
  } rows[] = {
      {"schema", &op->record.schema},     {"shape", &op->record.shape},
      {"where", &op->record.where},       {"dtype", &op->record.dtype},
      {"backward", &op->record.backward}, {"workspace", &op->record.workspace},
      {"strides", &op->record.strides},   {"inplace", &op->record.inplace},
      {"reduce", &op->record.reduce},     {"row", &op->record.row},
      {"expect", &op->record.expect},     {"reference", &op->record.reference}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (strcmp(rows[i].name, name) != 0) continue;
    *rows[i].field = value;
    return true;
  }
  if (strcmp(name, "kernel") != 0) return strcmp(name, "no kernel") == 0;
  op->kernels[op->record.kernel_count++] =
      (og_kernel){.device = OG_CPU,
                  .dtypes = value[0] != '\0' ? value : NULL,
                  .run = run_nothing};
  return true;
}

static bool read_line(input *in, char *line) {
  if (line[0] == '\0') return true;
  if (strncmp(line, "call", 4) == 0) {
    in->calls[in->call_count].op = in->op_count - 1;
    in->calls[in->call_count++].text = line + 4;
    return true;
  }
  char *colon = strchr(line, ':');
  if (colon == NULL) return false;
  *colon = '\0';
  const char *value = colon + 1 + strspn(colon + 1, " ");
  if (strcmp(line, "schema") == 0) ++in->op_count;
  return in->op_count > 0 &&
         read_field(&in->ops[in->op_count - 1], line, value);
}

static bool read_input(input *in, char *text) {
  for (char *line = text; line != NULL;) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    if (!read_line(in, line)) {
      printf("cannot read the line '%s'\n", line);
      return false;
    }
    line = next;
  }
  for (int32_t i = 0; i < in->op_count; ++i) {
    operator_text *op = &in->ops[i];
    op->record.kernels = op->kernels;
    op->record.kernel_size = sizeof(og_kernel);
    if (op->record.kernel_count == 0 && op->record.row == NULL)
      read_field(op, "kernel", "");
  }
  return true;
}

static void print_json(const og_decl *decl) {
  og_text text = {0};
  og_decl_describe(decl, &text);
  if (!text.failed) printf("%s\n", text.data);
  og_text_reset(&text);
}

static int report(const input *in, og_decl *const *decls, bool is_json) {
  opgraft_error error = {0};
  if (og_decl_link(decls, in->op_count, &error) != OG_OK) {
    print_error(&error);
    return 1;
  }
  for (int32_t i = 0; i < in->op_count; ++i) {
    if (is_json) print_json(decls[i]);
    for (int32_t c = 0; c < in->call_count; ++c)
      if (in->calls[c].op == i) call(decls[i], in->calls[c].text);
  }
  if (in->call_count == 0 && !is_json) printf("ok\n");
  return 0;
}

static int work(bool is_json) {
  static input in;
  og_decl *decls[OPS_MAX] = {0};
  opgraft_error error = {0};
  int result = 1;
  char *text = tool_read_input(NULL);
  og_status status = OG_OK;
  if (text == NULL || !read_input(&in, text)) goto done;
  for (int32_t i = 0; i < in.op_count && status == OG_OK; ++i)
    status =
        og_decl_create(&in.ops[i].record, sizeof(og_op), &decls[i], &error);
  if (status == OG_OK)
    result = report(&in, decls, is_json);
  else
    print_error(&error);
done:
  for (int32_t i = 0; i < in.op_count; ++i) og_decl_destroy(decls[i]);
  free(text);
  return result;
}

int main(int argc, char **argv) {
  tool_begin();
  return tool_end(work(argc > 1 && strcmp(argv[1], "--json") == 0));
}
