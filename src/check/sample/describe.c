// SPDX-License-Identifier: Apache-2.0
// A sample as text.

#include "check/sample/describe.h"

#include "check/sample/sample.h"

static void describe_sizes(const og_dims *sizes, og_text *out) {
  og_text_add(out, "[");
  for (int32_t i = 0; i < sizes->rank; ++i)
    og_text_addf(out, "%s%lld", i > 0 ? ", " : "", (long long)sizes->size[i]);
  og_text_add(out, "]");
}

typedef struct more {
  og_describe_fn write;
  void *state;
} more;

static void describe_tensor(const og_sample *s, int32_t t, bool is_list,
                            const more *m, og_text *out) {
  og_text_addf(out, " %s", og_dtype_name(s->type[t]));
  if (is_list) og_text_add(out, "{");
  for (int32_t e = 0; e < s->list_count[t]; ++e) {
    if (e > 0) og_text_add(out, ", ");
    if (!og_sample_has(s, t, e)) {
      og_text_add(out, "None");
      continue;
    }
    describe_sizes(&s->shape[t][e], out);
    if (m->write != NULL) m->write(m->state, t, e, out);
  }
  if (is_list) og_text_add(out, "}");
}

static void describe_list(const og_sample *s, int32_t k, og_text *out) {
  const og_attr *a = &s->attr[k];
  og_text_add(out, "[");
  for (int64_t i = 0; i < a->count; ++i) {
    if (i > 0) og_text_add(out, ", ");
    if (a->kind == OG_ATTR_FLOATS)
      og_text_addf(out, "%g", s->floats[k][i]);
    else
      og_text_addf(out, "%lld", (long long)s->ints[k][i]);
  }
  og_text_add(out, "]");
}

static void describe_attr(const og_sample *s, int32_t k, og_text *out) {
  const og_attr *a = &s->attr[k];
  switch (a->kind) {
    case OG_ATTR_NONE:
      og_text_add(out, "None");
      break;
    case OG_ATTR_FLOAT:
      og_text_addf(out, "%g", a->f);
      break;
    case OG_ATTR_COMPLEX:
      og_text_addf(out, "%g+%gj", a->f, a->imag);
      break;
    case OG_ATTR_BOOL:
      og_text_add(out, a->i ? "True" : "False");
      break;
    case OG_ATTR_STR:
      og_text_addf(out, "\"%s\"", a->s);
      break;
    case OG_ATTR_DTYPE:
      og_text_add(out, og_dtype_name(a->dtype));
      break;
    case OG_ATTR_DEVICE:
      og_text_add(out, "cpu");
      break;
    case OG_ATTR_INT:
      og_text_addf(out, "%lld", (long long)a->i);
      break;
    default:
      describe_list(s, k, out);
      break;
  }
}

void og_sample_describe(const og_sample *sample, og_text *out) {
  og_sample_describe_with(sample, NULL, NULL, out);
}

void og_sample_describe_with(const og_sample *sample, og_describe_fn write,
                             void *state, og_text *out) {
  const og_decl *decl = sample->op->decl;
  const more m = {write, state};
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    if (p > 0) og_text_add(out, ", ");
    og_text_add(out, param->name);
    if (param->type != OG_TYPE_TENSOR) {
      og_text_add(out, "=");
      describe_attr(sample, param->index, out);
    } else if (!sample->is_given[param->index]) {
      og_text_add(out, "=None");
    } else {
      describe_tensor(sample, param->index, param->is_list, &m, out);
    }
  }
}
