// SPDX-License-Identifier: Apache-2.0
// The embedder's header: load a module, describe its operators, call them.
//
// Every fallible function returns an og_status and, where it takes one, fills
// an opgraft_error that the caller owns. Nothing prints, exits or uses
// thread-local state. Functions may be called from any thread at any time
// unless a comment says otherwise; an opgraft_frame belongs to one thread.
//
// A struct that begins with struct_size may be of another age than the library
// (docs/abi.md). Whoever owns its memory sets struct_size to its sizeof. The
// library reads what the caller fills up to that size, and takes the rest for
// zero, which is the default: OG_INVALID for a size that cannot be right,
// OG_VERSION where a byte or flag that it does not know is set. It writes what
// it fills up to that size. Other structs are fixed: changing one changes
// OG_ABI_VERSION.

#ifndef OPGRAFT_OPGRAFT_H
#define OPGRAFT_OPGRAFT_H

#include <opgraft/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPGRAFT_API OG_EXPORT

// What went wrong: found, expected, where, and what to do. `begin` and `end`
// are byte offsets into the declaration string that the text is about, else -1.
typedef struct opgraft_error {
  og_status code;
  int32_t begin;
  int32_t end;
  int32_t reserved;
  char op[64];
  char argument[64];
  char text[880];
} opgraft_error;

// The library's ABI version. Its shape never changes.
OPGRAFT_API uint32_t opgraft_abi_version(void);
// A code's text, never NULL.
OPGRAFT_API const char *opgraft_status_text(og_status code);

// --- Modules -----------------------------------------------------------------

typedef struct opgraft_module opgraft_module;
typedef struct opgraft_op opgraft_op;

// Writes a sum of what is mapped of a module's file into its seal (og_seal), as
// `opgraft build` does when it has linked it: it is an error then to load the
// file with other bytes. Nothing is written where there is no seal.
OPGRAFT_API og_status opgraft_module_seal(const char *path,
                                          opgraft_error *error);
// Loads a shared object, parses every declaration, and returns one
// reference. The file's bytes are copied first, so that it may be rebuilt in
// place while it is loaded; a file with the same content as a loaded module
// gives that module again. Errors name the file, the operator and the
// character of the declaration.
OPGRAFT_API og_status opgraft_module_load(const char *path,
                                          opgraft_module **out_module,
                                          opgraft_error *error);
// Wraps a record that is linked into the process. The record outlives it.
OPGRAFT_API og_status opgraft_module_wrap(const og_module *record,
                                          opgraft_module **out_module,
                                          opgraft_error *error);

// One node of a plan, whose calls differ only in where its tensors lie. What
// the node's state follows from the call is set once, here.
typedef struct opgraft_prepare_call opgraft_prepare_call;
struct opgraft_prepare_call {
  uint32_t struct_size;
  uint32_t reserved;
  // Inferred. Its tensors have no memory yet and byte_offset 0; they and all
  // else that it points to stay where they are for as long as the state.
  const og_call *call;
  void *state;  // zeroed, 16-byte aligned
  // Has *where be the tensor's first element whenever `run` is called. `tensor`
  // is one of the call's.
  og_status (*follow)(const opgraft_prepare_call *prepare, void **where,
                      const og_tensor *tensor);
  void *host;  // the library's own
};

// A kernel that is made ready for a plan's node. `prepare` fails through
// og_fail(prepare->call, ...). `run` then takes the kernel's place; it fills
// the error's text, which may be NULL. Arguments have the strides that the
// declaration accepts; there is no parallel_for. Copied.
typedef struct opgraft_prepared {
  uint32_t struct_size;
  uint32_t reserved;
  size_t state_bytes;
  og_status (*prepare)(const opgraft_prepare_call *prepare);
  og_status (*run)(void *state, opgraft_error *error);
} opgraft_prepared;

// A module that the embedder makes at run time: declarations, and kernels that
// call something which only the embedder knows.
typedef struct opgraft_made {
  uint32_t struct_size;
  uint32_t reserved;
  const og_module *record;  // with all that it points to, outlives the module
  // By operator: what its kernels find in call->derived. May hold NULLs.
  const void *const *derived;
  const char
      *key;  // hashed, for opgraft_module_hash: equal contents, equal key
  // Called once, after the last reference is gone, by whichever thread
  // released it; NULL: nothing to do.
  void (*release)(void *owner);
  void *owner;
  // By operator: how its kernel is made ready for a plan. NULL, or an entry
  // that is NULL: plans call the kernel.
  const opgraft_prepared *const *prepared;
} opgraft_made;

// Every call makes a module of its own. Failure: as opgraft_module_wrap,
// OG_INVALID for a member that is missing; release is not called then.
OPGRAFT_API og_status opgraft_module_make(const opgraft_made *made,
                                          opgraft_module **out_module,
                                          opgraft_error *error);

// What opgraft_op_derive derives of an operator that has a formula (og_op.row).
enum {
  OPGRAFT_GRADIENT,  // gradients of results, arguments -> of arguments
  OPGRAFT_TANGENT,   // tangents of arguments, arguments -> of results
};

// A module of one operator, again a formula, which keeps the operator's module.
// Failure: OG_UNSUPPORTED where nothing can be derived, OG_MEMORY.
OPGRAFT_API og_status opgraft_op_derive(const opgraft_op *op, int32_t kind,
                                        opgraft_module **out_module,
                                        opgraft_error *error);
OPGRAFT_API void opgraft_module_retain(opgraft_module *module);
// The last one waits until no stream of a driver (opgraft/driver.h) has work
// for the module's kernels, so it is not called on a thread of the driver's.
// What failed there is reported. Captures are the caller's: their graphs and
// executables are destroyed first.
OPGRAFT_API void opgraft_module_release(opgraft_module *module);
// Releases the caller's reference if it is the last one, else OG_BUSY. Waits as
// opgraft_module_release does.
OPGRAFT_API og_status opgraft_module_unload(opgraft_module *module,
                                            opgraft_error *error);
OPGRAFT_API const char *opgraft_module_name(const opgraft_module *module);
// SHA-256 of the file, 64 hexadecimal digits: a key for caches.
OPGRAFT_API const char *opgraft_module_hash(const opgraft_module *module);
OPGRAFT_API int32_t opgraft_module_op_count(const opgraft_module *module);
// Borrowed; lives as long as the module.
OPGRAFT_API const opgraft_op *opgraft_module_op(const opgraft_module *module,
                                                int32_t index);
// By name with overload ("f", "f.overload"); NULL if there is none.
OPGRAFT_API const opgraft_op *opgraft_module_find_op(
    const opgraft_module *module, const char *name);

// The declaration as JSON: arguments, results, patterns, programs (see
// docs/abi.md; opgraft/info.h has structs). Returns the length without NUL;
// writes at most `size` bytes.
OPGRAFT_API size_t opgraft_op_describe(const opgraft_op *op, char *buffer,
                                       size_t size);
OPGRAFT_API const char *opgraft_op_name(const opgraft_op *op);
OPGRAFT_API const og_op *opgraft_op_record(const opgraft_op *op);

// --- Calls -------------------------------------------------------------------

enum {
  OPGRAFT_ARG_MAX = 32,    // tensor arguments of one operator
  OPGRAFT_ATTR_MAX = 32,   // other arguments
  OPGRAFT_OUT_MAX = 32,    // mutated arguments and fresh results together
  OPGRAFT_DIM_MAX = 64,    // named dims
  OPGRAFT_RANK_MAX = 64,   // dims of one tensor
  OPGRAFT_SIZES_MAX = 512  // sizes and strides of all plain fresh results
};

// One call, on the caller's stack: init, fill `in`, `in_list` and `attr`,
// infer, give each fresh result its memory, run, reset. init sets every field
// that infer reads except `in`, `in_list` and `attr`.
typedef struct opgraft_frame {
  og_call call;
  const opgraft_op *op;
  const og_kernel *kernel;  // chosen by infer
  int32_t fresh_count;      // results that the host allocates
  int32_t sizes_used;
  void *heap;            // what reset frees
  opgraft_error *error;  // where the running kernel's reason goes
  // While a kernel runs: the thread's floating-point environment before it,
  // and the host's call->parallel_for.
  uint64_t float_env;
  og_status (*share_out)(const og_call *call, int64_t total, int64_t grain,
                         og_task_fn fn, void *state);
  const og_tensor *in[OPGRAFT_ARG_MAX];
  og_tensor_list in_list[OPGRAFT_ARG_MAX];
  og_attr attr[OPGRAFT_ATTR_MAX];
  // After infer: dtype, device, ndim, shape and strides are set; data is the
  // host's to set. A list result has `fresh_list` instead, whose tensors'
  // data is the host's to set.
  og_tensor fresh[OPGRAFT_OUT_MAX];
  og_tensor_list fresh_list[OPGRAFT_OUT_MAX];
  og_tensor *out[OPGRAFT_OUT_MAX];
  og_tensor_list out_list[OPGRAFT_OUT_MAX];
  int64_t dim[OPGRAFT_DIM_MAX];
  int64_t sizes[OPGRAFT_SIZES_MAX];
} opgraft_frame;

OPGRAFT_API void opgraft_frame_init(opgraft_frame *frame, const opgraft_op *op);
// Matches arguments against the declaration (dtype, device, shape, where),
// computes the fresh results, chooses the kernel, sizes the workspace. A
// mutated argument that overlaps itself or another argument is refused
// (tensors whose data is NULL are passed over): OG_INVALID.
OPGRAFT_API og_status opgraft_frame_infer(opgraft_frame *frame,
                                          opgraft_error *error);
// Uses the caller's tensor for fresh result `index`, after checking it: type,
// shape, and that it overlaps neither itself nor an argument nor a result that
// is set. It may be an argument where the declaration says so (`inplace`, or a
// kernel that is the formula `row`).
OPGRAFT_API og_status opgraft_frame_set_out(opgraft_frame *frame, int32_t index,
                                            const og_tensor *tensor,
                                            opgraft_error *error);
// What infer and set_out refuse of memory that is written, by itself: reads
// `in` and `in_list`, and overwrites `fresh`. out[i], which may be NULL, takes
// fresh result i; out may be NULL.
OPGRAFT_API og_status opgraft_frame_check_written(opgraft_frame *frame,
                                                  const og_tensor *const *out,
                                                  opgraft_error *error);
// 1 where an element of one shares a byte with an element of the other, or may
// (strides that take too long to decide); else 0.
OPGRAFT_API int32_t opgraft_tensors_overlap(const og_tensor *a,
                                            const og_tensor *b);
// Runs the kernel. Arguments whose strides the declaration does not accept are
// copied first, mutated ones copied back. A data-dependent result's first dim
// is set to what the kernel found. A kernel of a device is put on call.stream,
// which the host may set, as call.workspace; what it leaves NULL is the
// driver's (opgraft/driver.h), which must then be loaded.
OPGRAFT_API og_status opgraft_frame_run(opgraft_frame *frame,
                                        opgraft_error *error);
OPGRAFT_API void opgraft_frame_reset(opgraft_frame *frame);

// Why kernel `index` of the record does not run the call that infer matched:
// OG_OK if it would, else OG_DEVICE, OG_DTYPE or OG_UNSUPPORTED and the reason
// in `out_reason`. Also to be asked when infer found no kernel at all.
OPGRAFT_API og_status opgraft_frame_explain(const opgraft_frame *frame,
                                            int32_t index,
                                            opgraft_error *out_reason);

// --- Threads and the machine -------------------------------------------------

// Threads for a host that has none of its own.
typedef struct opgraft_team opgraft_team;
// `threads` counts the caller; 0 asks for one per processor.
OPGRAFT_API og_status opgraft_team_create(int32_t threads,
                                          opgraft_team **out_team,
                                          opgraft_error *error);
// No call that uses the team may be running. NULL is allowed.
OPGRAFT_API void opgraft_team_destroy(opgraft_team *team);
OPGRAFT_API int32_t opgraft_team_threads(const opgraft_team *team);
// Between init and infer: the kernel's loops are shared out over the team,
// which outlives the frame. Uses call.host.
OPGRAFT_API void opgraft_frame_set_team(opgraft_frame *frame,
                                        opgraft_team *team);
// The calling thread's floating-point environment, to be put back after code
// that may change it, such as the constructors of a library. Loading a module
// and running a kernel do so by themselves. Writing an equal one costs a read.
OPGRAFT_API uint64_t opgraft_float_env_get(void);
OPGRAFT_API void opgraft_float_env_set(uint64_t env);
// The best instruction set that kernels may use here: "scalar", "avx2",
// "avx512", "avx512_bf16" or "amx_bf16"; OPGRAFT_ISA lowers it. Linux is asked
// once whether the process may use AMX's tiles; where it says no, that set is
// not used.
OPGRAFT_API const char *opgraft_isa(void);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_OPGRAFT_H
