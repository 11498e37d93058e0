// SPDX-License-Identifier: Apache-2.0
// XLA's calls. A handler is called with no data of ours, so each operator has
// a function of its own: one of a fixed number that are made here.
//
// Results: the fresh ones, then the new value of each argument that is written.

#include <string.h>

#include "jax/kept.h"
#include "shared/team.h"

#define API OG_EXPORT

// What Python asks for by name.
API void *opgraft_jax_handler(int32_t op);
// Why operator `op` is not offered; NULL where it is.
API const char *opgraft_limit_jax(int32_t op);

static void tensor_set(const xla_buffer *buffer, og_tensor *out) {
  const og_dtype dtype = og_jax_dtype(buffer->type);
  out->data = buffer->data;
  out->device.type = OG_CPU;
  out->device.id = 0;
  out->ndim = (int32_t)buffer->rank;
  memcpy(&out->dtype, &dtype, sizeof dtype);
  out->shape = buffer->dims;
  out->strides = NULL;
  out->byte_offset = 0;
}

static og_tensor tensor_of(const xla_buffer *buffer) {
  og_tensor tensor;
  tensor_set(buffer, &tensor);
  return tensor;
}

static void *fail(const xla_frame *frame, const opgraft_error *error) {
  xla_error_args args = {.struct_size = sizeof args,
                         .message = error->text,
                         .code = XLA_INVALID_ARGUMENT};
  if (error->code == OG_KERNEL || error->code == OG_INTERNAL)
    args.code = XLA_INTERNAL;
  if (error->code == OG_MEMORY) args.code = XLA_RESOURCE_EXHAUSTED;
  return frame->api->error_create(&args);
}

// --- Arguments ---------------------------------------------------------------

// Reads a frame's buffers in order.
typedef struct cursor {
  const xla_frame *frame;
  og_host_call *call;
  opgraft_error *error;
  const int64_t *given;
  int64_t given_count;
  int64_t given_used;
  int64_t arg;
} cursor;

static og_status count_error(const cursor *c, const char *what, int64_t found,
                             int64_t wanted) {
  return og_own_fail(c->call->op, OG_INVALID, c->error,
                     "found %lld %s, expected %lld", (long long)found, what,
                     (long long)wanted);
}

// Counts what is taken behind the end too; args_read compares at the end.
static int64_t given_next(cursor *c) {
  if (c->given == NULL) return 1;
  const int64_t at = c->given_used++;
  return at < c->given_count ? c->given[at] : 0;
}

static const xla_buffer *arg_next(cursor *c) {
  const int64_t at = c->arg++;
  return at < c->frame->args.count ? c->frame->args.buffers[at] : NULL;
}

static og_status list_read(cursor *c, int32_t t) {
  const int64_t count = c->given != NULL ? given_next(c) : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t is_given = given_next(c);
    const xla_buffer *buffer = is_given ? arg_next(c) : NULL;
    og_tensor tensor = {0};
    if (buffer != NULL) tensor = tensor_of(buffer);
    OG_HOST_TRY(
        og_host_entry(c->call, t, buffer != NULL ? &tensor : NULL, c->error));
  }
  return OG_OK;
}

// A mutated argument's new value is the result behind the fresh ones.
static og_status written_find(const cursor *c, const opgraft_param_info *param,
                              const og_tensor *tensor, void **out_data) {
  const int64_t ret =
      c->frame->rets.count - c->call->op->info.mutated_count + param->out;
  if (ret < 0 || ret >= c->frame->rets.count)
    return count_error(
        c, "results", c->frame->rets.count,
        c->call->op->info.fresh_count + c->call->op->info.mutated_count);
  const og_tensor out = tensor_of(c->frame->rets.buffers[ret]);
  if (og_host_bytes(&out) != og_host_bytes(tensor))
    return og_own_fail(
        c->call->op, OG_SHAPE, c->error,
        "result %lld, the new value of %s, has %zu bytes, expected %zu",
        (long long)ret, param->name, og_host_bytes(&out),
        og_host_bytes(tensor));
  *out_data = out.data;
  return OG_OK;
}

static og_status written_read(cursor *c, const opgraft_param_info *param,
                              const xla_buffer *buffer) {
  const og_tensor tensor = tensor_of(buffer);
  void *data = NULL;
  const og_status status = written_find(c, param, &tensor, &data);
  if (status == OG_OK) og_host_written(c->call, param->tensor, &tensor, data);
  return status;
}

static og_status tensor_read(cursor *c, int32_t t) {
  const opgraft_param_info *param = c->call->op->tensor_params[t];
  if ((param->flags & OPGRAFT_PARAM_LIST) != 0) return list_read(c, t);
  if (given_next(c) == 0) return OG_OK;
  const xla_buffer *buffer = arg_next(c);
  if (buffer == NULL) return OG_OK;  // counted at the end
  if (param->out >= 0) return written_read(c, param, buffer);
  tensor_set(buffer, og_host_place(c->call, t));
  og_host_placed(c->call, t);
  return OG_OK;
}

static og_status args_read(cursor *c) {
  const int32_t count = c->call->op->info.tensor_count;
  if (og_jax_given(&c->frame->attrs, &c->given, &c->given_count) != OG_OK)
    return og_own_fail(c->call->op, OG_INVALID, c->error,
                       "opgraft.given is not an array of i64");
  for (int32_t t = 0; t < count; ++t) {
    OG_HOST_TRY(tensor_read(c, t));
  }
  if (c->given != NULL && c->given_used != c->given_count)
    return count_error(c, "entries of opgraft.given", c->given_count,
                       c->given_used);
  if (c->arg != c->frame->args.count)
    return count_error(c, "buffers", c->frame->args.count, c->arg);
  return OG_OK;
}

// --- Results -----------------------------------------------------------------

static og_status list_place(const cursor *c, og_tensor_list list,
                            int64_t *ret) {
  for (int64_t i = 0; i < list.count; ++i) {
    const og_tensor out = tensor_of(c->frame->rets.buffers[(*ret)++]);
    if (og_host_bytes(&out) != og_host_bytes(list.tensors[i]))
      return count_error(c, "bytes of a list's result",
                         (int64_t)og_host_bytes(&out),
                         (int64_t)og_host_bytes(list.tensors[i]));
    list.tensors[i]->data = out.data;
  }
  return OG_OK;
}

// A result in XLA's memory, which overlaps no argument but one that it takes
// the place of. Else the error of opgraft_frame_set_out.
static og_status result_place(const cursor *c, int32_t i,
                              const xla_buffer *buffer) {
  og_tensor *fresh = &c->call->frame.fresh[i];
  const og_dtype dtype = og_jax_dtype(buffer->type);
  int is_equal = fresh->ndim == buffer->rank &&
                 fresh->dtype.code == dtype.code &&
                 fresh->dtype.bits == dtype.bits;
  for (int32_t k = 0; is_equal && k < fresh->ndim; ++k)
    is_equal = fresh->shape[k] == buffer->dims[k];
  if (!is_equal) {
    const og_tensor out = tensor_of(buffer);
    return opgraft_frame_set_out(&c->call->frame, i, &out, c->error);
  }
  fresh->data = buffer->data;
  return OG_OK;
}

static og_status results_place(const cursor *c) {
  opgraft_frame *frame = &c->call->frame;
  const og_own_op *op = c->call->op;
  const int64_t wanted = og_host_results_count(c->call);
  int64_t ret = 0;
  if (c->frame->rets.count != wanted)
    return count_error(c, "results", c->frame->rets.count, wanted);
  for (int32_t i = 0; i < op->info.fresh_count; ++i) {
    OG_HOST_TRY(og_host_is_list(c->call, i)
                    ? list_place(c, frame->fresh_list[i], &ret)
                    : result_place(c, i, c->frame->rets.buffers[ret++]));
  }
  return OG_OK;
}

// --- The call ----------------------------------------------------------------

static og_status run_inferred(cursor *c) {
  const og_status status = results_place(c);
  return status == OG_OK ? og_host_run(c->call, c->error) : status;
}

static og_status run_all(cursor *c, og_jax_room *room, og_jax_kept *kept) {
  const xla_attrs *attrs = &c->frame->attrs;
  OG_HOST_TRY(args_read(c));
  OG_HOST_TRY(og_jax_attrs(attrs, c->call, room, c->error));
  og_host_share(c->call);
  OG_HOST_TRY(og_host_infer(c->call, c->error));
  if (kept != NULL) og_jax_kept_keep(kept, attrs);
  return run_inferred(c);
}

static og_status run_afresh(cursor *c, const og_own_op *op, og_jax_room *room,
                            og_jax_kept *kept) {
  og_host_begin(c->call, op);
  const og_status status = run_all(c, room, kept);
  og_host_end(c->call);
  return status;
}

// Apart, so that its memory is not on the stack of a call that is kept.
static __attribute__((noinline)) og_status run_apart(cursor *c,
                                                     const og_own_op *op) {
  og_host_call call;
  og_jax_room room;
  c->call = &call;
  return run_afresh(c, op, &room, NULL);
}

// With equal attributes the same tensors are absent.
static int args_match(cursor *c, og_host_kept *kept) {
  for (int32_t t = 0; t < kept->call.op->info.tensor_count; ++t) {
    if (!kept->is_given[t]) continue;
    const xla_buffer *buffer = arg_next(c);
    if (buffer == NULL) return 0;
    const og_tensor tensor = tensor_of(buffer);
    if (!og_host_kept_matches(kept, t, &tensor)) return 0;
  }
  return c->arg == c->frame->args.count;
}

static og_status written_move(const cursor *c, og_host_kept *kept) {
  const og_own_op *op = c->call->op;
  for (int32_t j = 0; j < op->info.mutated_count; ++j) {
    const int32_t t = op->mutated_tensors[j];
    og_tensor *tensor = &c->call->inputs[t];
    void *data = NULL;
    if (!kept->is_given[t]) continue;
    OG_HOST_TRY(written_find(c, op->tensor_params[t], tensor, &data));
    og_host_written_move(tensor, data);
  }
  return OG_OK;
}

static og_status run_again(cursor *c, og_host_kept *kept) {
  OG_HOST_TRY(written_move(c, kept));
  og_status status = og_host_kept_begin(kept, c->error);
  if (status == OG_OK) status = run_inferred(c);
  og_host_kept_end(kept);
  return status;
}

static og_status run_kept(cursor *c, const og_own_op *op, og_jax_kept *kept) {
  c->call = &kept->kept->call;
  if (og_jax_kept_matches(kept, &c->frame->attrs) && args_match(c, kept->kept))
    return run_again(c, kept->kept);
  c->arg = 0;
  og_host_kept_restart(kept->kept);
  return run_afresh(c, op, &kept->room, kept);
}

static void *run(int32_t op, const xla_frame *frame) {
  const og_own *own = og_own_get();
  if (own->error.code != OG_OK) return fail(frame, &own->error);
  opgraft_error error;
  error.code = OG_OK;
  cursor c = {.frame = frame, .error = &error};
  og_jax_kept *kept = og_jax_kept_take(op);
  og_status status;
  if (kept != NULL) {
    status = run_kept(&c, &own->ops[op], kept);
    og_jax_kept_give(kept);
  } else {
    status = run_apart(&c, &own->ops[op]);
  }
  return status == OG_OK ? NULL : fail(frame, &error);
}

static void *execute(int32_t op, const xla_frame *frame) {
  for (xla_extension *e = frame->extension; e != NULL; e = e->next) {
    if (e->type != XLA_EXTENSION_METADATA) continue;
    xla_metadata *metadata = ((xla_metadata_extension *)(void *)e)->metadata;
    metadata->version.major = XLA_MAJOR;
    metadata->version.minor = XLA_MINOR;
    metadata->traits = 0;
    return NULL;
  }
  return frame->stage == XLA_STAGE_EXECUTE ? run(op, frame) : NULL;
}

// --- A function for each operator --------------------------------------------

typedef void *(*handler)(const xla_frame *frame);
#define FOUR(X, h, a, b, c, d) X(h##a) X(h##b) X(h##c) X(h##d)
#define SIXTEEN(X, h)    \
  FOUR(X, h, 0, 1, 2, 3) \
  FOUR(X, h, 4, 5, 6, 7) \
  FOUR(X, h, 8, 9, a, b) \
  FOUR(X, h, c, d, e, f)
#define ALL(X)    \
  SIXTEEN(X, 0x0) \
  SIXTEEN(X, 0x1) \
  SIXTEEN(X, 0x2) \
  SIXTEEN(X, 0x3) \
  SIXTEEN(X, 0x4) \
  SIXTEEN(X, 0x5) \
  SIXTEEN(X, 0x6) \
  SIXTEEN(X, 0x7) \
  SIXTEEN(X, 0x8) \
  SIXTEEN(X, 0x9) \
  SIXTEEN(X, 0xa) \
  SIXTEEN(X, 0xb) \
  SIXTEEN(X, 0xc) \
  SIXTEEN(X, 0xd) \
  SIXTEEN(X, 0xe) \
  SIXTEEN(X, 0xf)
#define HANDLER(n) \
  static void *handler_##n(const xla_frame *frame) { return execute(n, frame); }
ALL(HANDLER)
#undef HANDLER

static const handler handlers[] = {
#define ENTRY(n) handler_##n,
    ALL(ENTRY)
#undef ENTRY
};

// NULL where the file has no such operator, or more than there are functions.
void *opgraft_jax_handler(int32_t op) {
  void *address = NULL;
  if (op >= 0 && op < og_own_get()->op_count &&
      (size_t)op < sizeof handlers / sizeof *handlers)
    memcpy(&address, &handlers[op], sizeof address);
  return address;
}

const char *opgraft_limit_jax(int32_t op) {
  const og_own *own = og_own_get();
  if (op < 0 || op >= own->op_count) return "there is no such operator";
  if ((size_t)op >= sizeof handlers / sizeof *handlers)
    return "the module has more operators than a file may have for JAX; make "
           "two of it";
  if ((own->ops[op].info.flags & OPGRAFT_OP_DATA_DEPENDENT) != 0)
    return "a result's size depends on values, and JAX has to know it before";
  return og_own_op_limit(&own->ops[op]);
}
