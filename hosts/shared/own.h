// SPDX-License-Identifier: Apache-2.0
// The module that an adapter is linked into: its declarations, read once.

#ifndef OG_HOSTS_SHARED_OWN_H
#define OG_HOSTS_SHARED_OWN_H

#include <opgraft/info.h>
#include <stdarg.h>

// Returns the code of a call that fails. While nothing is owned only.
#define OG_HOST_TRY(expr)                   \
  do {                                      \
    const og_status og_tried = (expr);      \
    if (og_tried != OG_OK) return og_tried; \
  } while (0)

// One operator's declaration as arrays.
typedef struct og_own_op {
  const opgraft_op *op;
  opgraft_op_info info;
  opgraft_param_info *params;    // by param
  opgraft_tensor_info *tensors;  // by tensor
  opgraft_result_info *results;  // by result
  const opgraft_param_info *tensor_params[OPGRAFT_ARG_MAX];
  const opgraft_param_info *attr_params[OPGRAFT_ATTR_MAX];
  // The tensor argument that each of call->out's mutated ones is.
  int32_t mutated_tensors[OPGRAFT_OUT_MAX];
  // The results that the host allocates, by fresh position.
  const opgraft_result_info *fresh[OPGRAFT_OUT_MAX];
} og_own_op;

typedef struct og_own {
  const char *name;  // the module's
  og_own_op *ops;
  int32_t op_count;
  opgraft_error error;  // code is not OG_OK where a declaration is wrong
} og_own;

// Never NULL; lives as long as the file is mapped.
const og_own *og_own_get(void);

// The error "NAME: TEXT" of an operator; its code.
og_status og_own_fail(const og_own_op *op, og_status code, opgraft_error *error,
                      const char *format, ...)
    __attribute__((format(printf, 4, 5)));
og_status og_own_fail_by(const og_own_op *op, og_status code,
                         opgraft_error *error, const char *format,
                         va_list values);

// A call is between enter and leave. While one is under way the file keeps all
// that it has made: a process may end, and run its destructors, while another
// thread is inside a call.
void og_own_enter(void);
void og_own_leave(void);
int og_own_is_called(void);

// The same for a call that sets a flag instead, which costs less.
typedef struct og_own_busy {
  struct og_own_busy *next;
  int32_t is_set;  // atomic
} og_own_busy;
void og_own_busy_add(og_own_busy *busy);
void og_own_busy_remove(og_own_busy *busy);

// The number of operators; -1 and why in `text` where a declaration is wrong.
int32_t og_own_open(char *text, size_t size);
// The declaration as JSON, as opgraft_op_describe has it; 0 where there is no
// such operator.
size_t og_own_describe(int32_t op, char *text, size_t size);

// What a host's Python reads of the file: opgraft_HOST_open and _describe, as
// the two above, and _name, the module's once _open has not failed.
#define OG_OWN_EXPORTS(host)                                              \
  OG_EXPORT int32_t opgraft_##host##_open(char *text, size_t size);       \
  OG_EXPORT const char *opgraft_##host##_name(void);                      \
  OG_EXPORT size_t opgraft_##host##_describe(int32_t op, char *text,      \
                                             size_t size);                \
  int32_t opgraft_##host##_open(char *text, size_t size) {                \
    return og_own_open(text, size);                                       \
  }                                                                       \
  const char *opgraft_##host##_name(void) { return og_own_get()->name; }  \
  size_t opgraft_##host##_describe(int32_t op, char *text, size_t size) { \
    return og_own_describe(op, text, size);                               \
  }

// "f32"; NULL for a type that no declaration can name.
const char *og_own_dtype_name(og_dtype dtype);
// 0 where no type has the name.
int og_own_dtype_find(const char *name, og_dtype *out_dtype);

// Why no host can offer the operator; NULL where one can.
const char *og_own_call_limit(const og_own_op *op);
// The same of a host whose arguments stay as they are and whose programs have a
// fixed number of results.
const char *og_own_op_limit(const og_own_op *op);

#endif  // OG_HOSTS_SHARED_OWN_H
