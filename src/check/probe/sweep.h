// SPDX-License-Identifier: Apache-2.0
// A relation between calls, tried at many sizes of one dim.
//
// Whether an operator has a relation (a new order of the arguments gives the
// result in that order, twice an argument gives twice the result) nobody says,
// so that neither is wrong. One that holds for some sizes and is broken for
// sizes between them is: a kernel loses the rest of a division, or a block.

#ifndef OG_CHECK_PROBE_SWEEP_H
#define OG_CHECK_PROBE_SWEEP_H

#include "check/run/array.h"
#include "check/run/compare.h"
#include "check/run/trial.h"
#include "check/sample/sample.h"

// What tries at one size show. What lies between counts as neither.
typedef enum og_outcome {
  OG_OUTCOME_UNKNOWN,
  OG_OUTCOME_HELD,   /* all tries agree as sums in another order do, and the
                        results are not the same in each */
  OG_OUTCOME_BROKEN, /* one try is clearly off */
} og_outcome;

enum { OG_FORMS_MAX = 5, OG_SWEEP_SIZES = 57 };

typedef struct og_sweep og_sweep;

// Relations that the same runs show, its forms.
typedef struct og_relation {
  int32_t form_count;
  // By form: "arguments in another order along %s give the same result", where
  // %s is the dim.
  const char *text[OG_FORMS_MAX];
  bool is_of_halves;  // only even sizes have it, and a half of 1 does not count
  // A broken size is so in most tries. Otherwise one of them is enough: what a
  // kernel loses need not show in each.
  bool is_mostly;
  // It holds at every size below the first that is broken, and those are some:
  // one that groups by position has it at multiples of its group only.
  bool is_from_start;
  // Tries the call once; og_sweep_take what it gives. False where it has no
  // meaning.
  bool (*try_call)(og_sweep *sweep, const og_sample *sample, uint64_t seed,
                   og_outcome known[OG_FORMS_MAX]);
} og_relation;

struct og_sweep {
  og_trial *trial;
  const og_relation *relation;
  int32_t dim;
  int32_t tensor;  // an argument, where the relation changes one
  og_outcome at[OG_FORMS_MAX][OG_SWEEP_SIZES];
  og_verdict broken[OG_FORMS_MAX];  // of the last size that was
  int32_t broken_size[OG_FORMS_MAX];
  og_sample broken_sample[OG_FORMS_MAX];
  // Of the size that is tried: what its first try gives, and bits of the
  // results that another try gives otherwise.
  og_outputs first[OG_FORMS_MAX];
  uint64_t varied[OG_FORMS_MAX];
};

// Whether a trial's operator and call are such that relations may be asked for.
bool og_may_sweep(const og_trial *trial);
// A plain dim that has its place in each argument and result that names it, by
// the trial's seed another one in the next call; -1: there is none.
int32_t og_sweep_dim(const og_trial *trial);
// The largest int argument: beyond it, what an operator does by it does not
// come back.
int64_t og_largest_int(const og_sample *sample);
// Tries the sizes of dim `dim` and reports the first form that holds for some
// of them only. `tensor`: the argument that the relation changes, if it does.
void og_sweep_run(og_trial *trial, const og_relation *relation, int32_t dim,
                  int32_t tensor);
// Whether a form of the relation holds at three or more of a few large sizes.
bool og_sweep_holds(og_trial *trial, const og_relation *relation, int32_t dim);

// Takes what one try gives, and what the relation makes of other calls, into
// what is known of the size.
void og_sweep_take(og_sweep *sweep, int32_t form, const og_sample *sample,
                   const og_outputs *found, const og_outputs *wanted,
                   og_outcome known[OG_FORMS_MAX]);

#endif  // OG_CHECK_PROBE_SWEEP_H
