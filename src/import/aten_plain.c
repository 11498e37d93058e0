// SPDX-License-Identifier: Apache-2.0
// The handlers that need no more than the last column of aten.def.

#include "import/args.h"
#include "import/emit.h"

og_status og_import_pointwise(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  return og_emit(import, import->row->op, args.in, args.in_count, NULL);
}

og_status og_import_plain(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  for (int32_t i = 0; i < args.in_count; ++i)
    if (args.in[i] >= 0 &&
        import->graph->values[args.in[i]].kind == OG_VALUE_LITERAL)
      return og_give_up(import, "a number stands where it takes a tensor");
  return og_emit(import, import->row->op, args.in, args.in_count, args.attrs);
}

// A type that is asked for, and holds less than the operand's, is the operand's
// first: floats lose their fractions before they are added up.
og_status og_import_accumulate(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const og_value x = import->graph->values[args.in[0]];
  const og_dtype to = import->record->results[0].dtype;
  if (x.kind == OG_VALUE_LITERAL || og_dtype_class(to) == OG_CLASS_NONE ||
      og_dtype_class(x.dtype) == OG_CLASS_NONE ||
      og_dtype_equal(og_dtype_promote(x.dtype, to), to))
    return og_import_plain(import);
  OG_TRY(og_emit_new(import, OG_IR_copy, args.in, 1, NULL, to, x.ndim, x.shape,
                     args.in));
  return og_emit(import, import->row->op, args.in, 1, args.attrs);
}

// Integers are counted from whole numbers in whole steps.
og_status og_import_arange(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  for (int32_t i = 0; i < 2; ++i) {
    opgraft_arg *number = &args.attrs[i];
    if (og_dtype_class(import->record->results[0].dtype) == OG_CLASS_I64 &&
        number->kind == OPGRAFT_ARG_FLOAT)
      *number = (opgraft_arg){.kind = OPGRAFT_ARG_INT,
                              .i = og_double_to_int(number->f)};
  }
  return og_emit(import, import->row->op, args.in, 0, args.attrs);
}

// ATen takes classes as i64 or u8.
og_status og_import_nll_loss(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const int32_t target = import->row->op == OG_IR_nll_loss ? 1 : 2;
  const og_dtype dtype = import->graph->values[args.in[target]].dtype;
  if (!(dtype.code == OG_CODE_INT && dtype.bits == 64) &&
      !(dtype.code == OG_CODE_UINT && dtype.bits == 8))
    return og_give_up(import, "its classes are of another type");
  return og_import_plain(import);
}

// ATen refuses integers and bools, whose variance torch's shape function takes.
og_status og_import_variance(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const uint32_t code = import->graph->values[args.in[0]].dtype.code;
  if (code == OG_CODE_INT || code == OG_CODE_UINT || code == OG_CODE_BOOL)
    return og_give_up(import, "it takes tensors of a float type");
  return og_import_plain(import);
}
