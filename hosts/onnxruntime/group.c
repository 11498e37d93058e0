// SPDX-License-Identifier: Apache-2.0
// Which nodes share a call.
//
// Invariant: `groups` holds, under the mutex, each group that has a node.

#include "onnxruntime/group.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static og_ort_group *groups;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int value_is_equal(const og_attr *a, const og_attr *b) {
  if (a->kind != b->kind || a->count != b->count) return 0;
  size_t each;
  switch (a->kind) {
    case OG_ATTR_STR:
      each = sizeof *a->s;
      break;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
      each = sizeof *a->ints;
      break;
    case OG_ATTR_FLOATS:
      each = sizeof *a->floats;
      break;
    default:
      return memcmp(a, b, sizeof *a) == 0;
  }
  return a->count == 0 || memcmp(a->s, b->s, (size_t)a->count * each) == 0;
}

static int is_of(const og_ort_group *group, const og_own_op *op, uint32_t level,
                 const og_ort_attrs *attrs) {
  int is_equal = group->op == op && group->level == level;
  for (int32_t a = 0; is_equal && a < op->info.attr_count; ++a)
    is_equal = value_is_equal(&group->attrs.attr[a], &attrs->attr[a]);
  return is_equal;
}

static og_ort_group *group_add(const og_own_op *op, uint32_t level,
                               og_ort_attrs *attrs) {
  og_ort_group *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->op = op;
  made->level = level;
  made->attrs = *attrs;
  made->kept = og_host_kept_create(op);
  made->next = groups;
  groups = made;
  return made;
}

og_ort_group *og_ort_group_join(const og_own_op *op, uint32_t level,
                                og_ort_attrs *attrs) {
  pthread_mutex_lock(&mutex);
  og_ort_group *group = groups;
  while (group != NULL && !is_of(group, op, level, attrs)) group = group->next;
  if (group != NULL)
    og_ort_attrs_reset(attrs);
  else
    group = group_add(op, level, attrs);
  if (group != NULL) {
    *attrs = (og_ort_attrs){0};
    ++group->node_count;
  }
  pthread_mutex_unlock(&mutex);
  return group;
}

void og_ort_group_leave(og_ort_group *group) {
  pthread_mutex_lock(&mutex);
  const int is_last = --group->node_count == 0;
  og_ort_group **at = &groups;
  while (is_last && *at != group) at = &(*at)->next;
  if (is_last) *at = group->next;
  pthread_mutex_unlock(&mutex);
  if (!is_last) return;
  og_host_kept_destroy(group->kept);
  og_ort_attrs_reset(&group->attrs);
  free(group);
}
