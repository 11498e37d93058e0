// SPDX-License-Identifier: Apache-2.0
// The verifier: runs the operators of a module on sampled calls and says what
// is wrong with them.
//
// Every call runs in a child process under limits of memory and time, with
// each argument between pages that may not be touched, so that a kernel that
// crashes, hangs or writes where it may not is a finding and nothing worse.
// The process that asks must be able to fork. Any thread may ask; errors are as
// in opgraft.h.

#ifndef OPGRAFT_CHECK_H
#define OPGRAFT_CHECK_H

#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

// What can be found, and what is to be done about it. Names and numbers are
// stable.
#define OPGRAFT_FINDING_LIST(X)                                                \
  X(OUT_OF_BOUNDS_READ, "out_of_bounds_read",                                  \
    "read only the elements that the argument's shape and strides name")       \
  X(OUT_OF_BOUNDS_WRITE, "out_of_bounds_write",                                \
    "write only the elements that the result's shape names, or enlarge the "   \
    "result in the shape rule")                                                \
  X(UNDECLARED_MUTATION, "undeclared_mutation",                                \
    "declare the argument as Tensor(a!), or do not write it")                  \
  X(OUTPUT_NOT_WRITTEN, "output_not_written",                                  \
    "write every element of the result, or make it smaller in the shape rule") \
  X(OUTPUT_READ, "output_read",                                                \
    "a fresh result starts with any content: set it before it is read or "     \
    "added to")                                                                \
  X(OUTPUT_ALIAS, "output_alias",                                              \
    "copy into the memory that the host gave; the tensors of a call are not "  \
    "the kernel's to change")                                                  \
  X(KEPT_POINTER, "kept_pointer",                                              \
    "keep no pointer beyond the call: the memory belongs to the host")         \
  X(RULE_DISAGREES, "rule_disagrees",                                          \
    "make the declaration say what the kernel does")                           \
  X(LAYOUT_DEPENDENT, "layout_dependent",                                      \
    "use the tensor's strides and byte_offset, or ask for contiguous "         \
    "arguments in .strides")                                                   \
  X(ALIGNMENT_ASSUMED, "alignment_assumed",                                    \
    "use unaligned loads: memory is aligned to its element, no more")          \
  X(THREAD_DEPENDENT, "thread_dependent",                                      \
    "make a chunk's result independent of how many threads there are, or do "  \
    "not claim OG_DETERMINISTIC")                                              \
  X(CHUNK_ORDER_DEPENDENT, "chunk_order_dependent",                            \
    "let no chunk of parallel_for use what another one wrote, nor rely on "    \
    "where chunks begin")                                                      \
  X(DATA_RACE, "data_race",                                                    \
    "let each chunk of parallel_for write memory of its own; scratch is "      \
    "chosen by the worker")                                                    \
  X(THREAD_RACE, "thread_race",                                                \
    "keep nothing in static variables: calls may run at once")                 \
  X(NOT_REPEATABLE, "not_repeatable",                                          \
    "make the result a function of the arguments; declare OG_RANDOM or "       \
    "OG_SIDE_EFFECT if it is not one")                                         \
  X(UNINITIALISED, "uninitialised",                                            \
    "set local variables before they are read")                                \
  X(WORKSPACE_UNINITIALISED, "workspace_uninitialised",                        \
    "set the workspace before it is read: it holds any content")               \
  X(WORKSPACE_OVERRUN, "workspace_overrun",                                    \
    "enlarge the workspace rule, or stay within call->workspace_bytes")        \
  X(BOUND_EXCEEDED, "bound_exceeded",                                          \
    "set the found dim once, from 0 to its bound, or raise the bound")         \
  X(WRONG_GRADIENT, "wrong_gradient",                                          \
    "either side may be wrong: fix the backward operator, the order of its "   \
    "arguments and targets, or the operator itself")                           \
  X(GRADIENT_SHAPE, "gradient_shape",                                          \
    "give each gradient the shape and type of its argument")                   \
  X(MISSING_GRADIENT, "missing_gradient",                                      \
    "make the argument a target of .backward, or say \"no_gradient: NAME\" "   \
    "in "                                                                      \
    ".expect")                                                                 \
  X(WRONG_BATCH_RULE, "wrong_batch_rule",                                      \
    "the leading pack must not mix its rows; else set OG_BATCH_LOOP")          \
  X(WRONG_BROADCAST, "wrong_broadcast",                                        \
    "make a broadcast argument act as if it were expanded")                    \
  X(WRONG_VALUES_ACROSS_DTYPES, "wrong_values_across_dtypes",                  \
    "fix the kernel of this type: another type's kernel disagrees; where "     \
    "that is meant, say \"type_dependent: NAME\" in .expect")                  \
  X(WRONG_VALUES_ACROSS_KERNELS, "wrong_values_across_kernels",                \
    "fix the kernel: another one that takes the same call disagrees")          \
  X(WRONG_FORMULA, "wrong_formula", "make the formula and the kernels agree")  \
  X(WRONG_IN_PLACE, "wrong_in_place",                                          \
    "read an element before it is overwritten, or declare no .inplace")        \
  X(DIFFERS_FROM_REFERENCE, "differs_from_reference",                          \
    "make the values those of the reference")                                  \
  X(CRASH, "crash", "handle the call, or refuse it in .where")                 \
  X(TIMEOUT, "timeout", "end every loop; call no operator of your own")        \
  X(MEMORY_LIMIT, "memory_limit",                                              \
    "allocate nothing in a kernel: ask for a workspace")                       \
  X(MEMORY_LEAK, "memory_leak", "allocate nothing in a kernel")                \
  X(BAD_STATUS, "bad_status", "return OG_OK or og_fail(call, code, text)")     \
  X(NEVER_RAN, "never_ran",                                                    \
    "say in the declaration what the kernel takes, so that calls can be "      \
    "sampled")                                                                 \
  X(NOT_SAMPLED, "not_sampled",                                                \
    "make the shape rule and its conditions ones that some call meets")        \
  X(STATIC_SHAPES, "static_shapes",                                            \
    "say the rule in the shape language, so that shapes can be symbolic")      \
  X(NO_GRADIENT, "no_gradient",                                                \
    "declare .backward, or \"none\" where the gradient is zero")               \
  X(NEVER_MUTATED, "never_mutated",                                            \
    "write the argument, drop the (a!) (a host copies what an operator is "    \
    "said to write), or say \"unmutated: NAME\" in .expect")                   \
  X(UNCHECKED_INDEX, "unchecked_index",                                        \
    "refuse an index that is out of range with og_fail")                       \
  X(GRADIENT_UNSURE, "gradient_unsure",                                        \
    "nothing is known of this gradient: test it on values that suit it")       \
  X(REFUSED_CALLS, "refused_calls",                                            \
    "say in .where what the kernel refuses, so that hosts can know")           \
  X(STATIC_DATA, "static_data",                                                \
    "keep nothing in static variables: calls may run at once")                 \
  X(NOT_FINITE, "not_finite",                                                  \
    "give finite arguments finite results: a row that the mask hides whole a " \
    "value, exp() no more than the distance to the largest; or say "           \
    "\"nan: NAME\" in .expect")                                                \
  X(UNUSED_ARGUMENT, "unused_argument",                                        \
    "use the argument, drop it, or say \"unused: NAME\" in .expect")           \
  X(UNUSED_END, "unused_end",                                                  \
    "let the loop begin at the first and end behind the last element, or say " \
    "\"unused_end: NAME\" in .expect")                                         \
  X(WRONG_ORDER, "wrong_order",                                                \
    "write the result's dims in the order in which the shape rule names them") \
  X(MIXED_PACK, "mixed_pack",                                                  \
    "name the dims that meet (x[*N, D]), or set OG_BATCH_LOOP (an adopted "    \
    "callable: leave batch= out)")                                             \
  X(FLOAT_ENVIRONMENT, "float_environment",                                    \
    "put back what the kernel sets before it returns, and build without "      \
    "-ffast-math, which links a constructor that sets flush-to-zero")          \
  X(UNTRUE_EXPECT, "untrue_expect",                                            \
    "take the word out of .expect, or make it true")                           \
  X(SIZE_DEPENDENT, "size_dependent",                                          \
    "fix what a block or a rest of a division leaves out: sizes below and "    \
    "above are right")

#define OPGRAFT_FINDING_ENUM(name, text, fix) OPGRAFT_##name,
enum { OPGRAFT_FINDING_LIST(OPGRAFT_FINDING_ENUM) OPGRAFT_FINDING_COUNT };
#undef OPGRAFT_FINDING_ENUM

// Strings live as long as the callback that they are passed to.
typedef struct opgraft_finding {
  uint32_t struct_size;
  int32_t kind;     // OPGRAFT_OUT_OF_BOUNDS_READ, ...
  int32_t is_note;  // 1: worth knowing, no fault
  int32_t count;    // sampled calls that showed it
  const char *op;
  const char *argument;   // "" where no single one is meant
  const char *text;       // what was found, in a sentence
  const char *call_text;  // the smallest call that shows it
  const char *fix;
  const char *again;  // the command that runs that call again, or ""
} opgraft_finding;

// What was tried on one operator.
typedef struct opgraft_check_operator {
  uint32_t struct_size;
  int32_t finding_count;  // notes not counted
  int32_t note_count;
  int32_t call_count;     // sampled calls
  int32_t run_count;      // kernel runs
  int32_t refused_count;  // sampled calls that the kernel refused
  const char *op;
  const char *dtypes;  // "f32 24, f64 24"
  // "dense 48, strided 20, expanded 9, loose 4, offset 48"
  const char *layouts;
} opgraft_check_operator;

// What check tells its caller; each callback may be NULL, and all are called
// from the thread that called opgraft_check.
typedef struct opgraft_check_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *user;
  void (*finding)(void *user, const opgraft_finding *finding);
  void (*operator_done)(void *user, const opgraft_check_operator *done);
  void (*progress)(void *user, const char *op, int32_t done, int32_t total);
  // The report, in the form that the options ask for.
  void (*write)(void *user, const char *text, size_t length);
  // Around each fork, with one of the phases below: a host whose kernels need
  // more than a fork leaves, as an interpreter does, makes it ready here.
  void (*fork)(void *user, int32_t phase);
  // Asked several times a second. Once it answers other than 0 the children
  // are killed, what was found so far is reported, and no more is tried.
  int32_t (*is_stopped)(void *user);
  // Writes the source's line of an instruction of a module, "rms_norm.c:24 in
  // rms_norm_f32", and returns 1; 0 where it knows none.
  int32_t (*locate)(void *user, const void *code, char *out_line, size_t size);
} opgraft_check_sink;

enum {
  OPGRAFT_FORK_BEFORE = 0,
  OPGRAFT_FORK_PARENT = 1,  // also where the fork failed
  OPGRAFT_FORK_CHILD = 2,
};

enum { OPGRAFT_CHECK_TEXT = 0, OPGRAFT_CHECK_JSON = 1 };

// What a reference gives: doubles, row-major. `data` is from malloc.
typedef struct opgraft_reference_array {
  int32_t rank;
  int32_t reserved;
  int64_t size[OPGRAFT_RANK_MAX];
  double *data;
} opgraft_reference_array;

// A call whose results the reference computes. The arguments are dense and
// row-major, as a kernel gets them.
typedef struct opgraft_reference_call {
  uint32_t struct_size;
  int32_t out_max;
  const opgraft_op *op;
  const og_tensor *const *in;
  const og_tensor_list *in_list;
  const og_attr *attr;
  // Filled with the mutated arguments' new values, then the fresh results,
  // lists spread out.
  opgraft_reference_array *out;
} opgraft_reference_call;

// Computes what an operator should give; returns how many results there are, 0
// where it has nothing to say of the call. Called in the children of check, or
// where `is_inline` in this process.
typedef int32_t (*opgraft_reference_fn)(void *state,
                                        const opgraft_reference_call *call);

// Zero means the default, in every field.
typedef struct opgraft_check_options {
  uint32_t struct_size;
  int32_t format;              // OPGRAFT_CHECK_TEXT or OPGRAFT_CHECK_JSON
  uint64_t seed;               // equal seeds sample equal calls
  int32_t calls;               // sampled per operator, 40
  int32_t run_limit_ms;        // processor time of one kernel run, 2000
  int64_t memory_limit_bytes;  // that a child may allocate, 1 GiB
  int32_t operator_limit_ms;   // processor time of an operator's calls, 30000;
                               // by the clock 30 times as much
  int32_t is_verbose;          // the text report lists coverage as well
  const char *op;              // only this operator
  // Operators of the same name and schema whose values are right.
  const opgraft_module *reference;
  const char *probe;  // only this probe beside the plain run: "reference", ...
  // One call again: "17", its number, or "17:3,0,5", with the steps by which a
  // finding made it smaller; a finding's `again` has both.
  const char *call;
  const char *subject;  // the module's file; NULL: no finding has `again`
  int32_t is_inline;    // with `call`: in this process and without limits, for
                        // a debugger; a kernel that crashes ends the process
  int32_t reserved;
  opgraft_reference_fn compute;  // NULL: there is none
  void *compute_state;
  const char *reference_name;  // --reference in `again`; NULL: it has none
  // A device driver's file (opgraft/device.h): kernels for its device run on
  // device 0, in memory of the driver's. NULL: the CPU's kernels are checked.
  const char *device;
  const char *device_options;  // the driver's own words, "seed=3,races=1"
} opgraft_check_options;

// Checks every operator of the module. A child ignores SIGINT, so that a
// keyboard's interrupt of the whole process group is not a finding; on Linux it
// ends with the thread that asked. *out_findings (may be NULL) is the
// number of findings, notes not counted. Fails only where check itself could
// not work: OG_INVALID, OG_MEMORY, OG_UNSUPPORTED, OG_IO.
OPGRAFT_API og_status opgraft_check(const opgraft_module *module,
                                    const opgraft_check_options *options,
                                    const opgraft_check_sink *sink,
                                    int32_t *out_findings,
                                    opgraft_error *error);
// A kind's stable name ("wrong_gradient"), or NULL.
OPGRAFT_API const char *opgraft_finding_name(int32_t kind);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_CHECK_H
