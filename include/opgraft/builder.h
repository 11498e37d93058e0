// SPDX-License-Identifier: Apache-2.0
// Builds a graph while a host walks its own: which node stands for what, lists
// of arguments and results, operators that write their arguments.
//
//   opgraft_builder_create(graph)
//   each input: opgraft_graph_add_input -> opgraft_builder_set
//   each node:  opgraft_builder_begin -> arguments -> results
//               -> opgraft_builder_end
//   each output: opgraft_builder_add_output
//
// The host numbers its nodes from 0 on. What a node stands for is an
// opgraft_arg: a VALUE, a SIZE, a constant, NONE, or a LIST of these for an
// operator with several results. What a function gets is copied.
//
// A builder belongs to one thread. Errors are as in opgraft.h. OG_INVALID is a
// mistake of the host's, OG_UNSUPPORTED a graph that the engine cannot say. A
// function that fails has done nothing, except opgraft_builder_end.

#ifndef OPGRAFT_BUILDER_H
#define OPGRAFT_BUILDER_H

#include <opgraft/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opgraft_builder opgraft_builder;

// Keeps a reference to the graph, which is not finished yet.
OPGRAFT_API og_status opgraft_builder_create(opgraft_graph *graph,
                                             opgraft_builder **out_builder,
                                             opgraft_error *error);
OPGRAFT_API void opgraft_builder_destroy(opgraft_builder *builder);

// --- What nodes stand for ----------------------------------------------------

// For a node that is not an operator: an input, a constant, arithmetic on
// sizes. Each node is set once.
OPGRAFT_API og_status opgraft_builder_set(opgraft_builder *builder,
                                          int32_t node,
                                          const opgraft_arg *stands_for,
                                          opgraft_error *error);
// `node` stands for an item of what `list` stands for. OG_UNSUPPORTED where
// that is not a list, or has no such item.
OPGRAFT_API og_status opgraft_builder_set_item(opgraft_builder *builder,
                                               int32_t node, int32_t list,
                                               int64_t index,
                                               opgraft_error *error);
// Its list and text are the builder's. OG_INVALID before the node was set.
OPGRAFT_API og_status opgraft_builder_get(const opgraft_builder *builder,
                                          int32_t node,
                                          opgraft_arg *out_stands_for,
                                          opgraft_error *error);
// An output of the graph. OG_UNSUPPORTED where the node stands for something
// else than a tensor, an integer or NONE.
OPGRAFT_API og_status opgraft_builder_add_output(opgraft_builder *builder,
                                                 int32_t node,
                                                 opgraft_error *error);

// --- One operator ------------------------------------------------------------

// `record` says all but arguments and results. With `is_functional` other than
// 0 it is a mutating operator made functional: it writes views of bases, and
// gives new bases. The name is then the mutating operator's.
OPGRAFT_API og_status opgraft_builder_begin(opgraft_builder *builder,
                                            const opgraft_record *record,
                                            int32_t is_functional,
                                            opgraft_error *error);
// Drops the node that was begun; nothing happens where there is none.
OPGRAFT_API void opgraft_builder_drop(opgraft_builder *builder);

// Of a functional operator: what `node` stands for is written, and becomes a
// value of `info`. Bases are numbered from 0 in this order.
OPGRAFT_API og_status opgraft_builder_add_base(opgraft_builder *builder,
                                               int32_t node,
                                               const opgraft_value_info *info,
                                               opgraft_error *error);

// Arguments in the order of the operator's, positional ones first; those of an
// open list without names. `arg` may be a list; its VALUEs are not written.
OPGRAFT_API og_status opgraft_builder_add_arg(opgraft_builder *builder,
                                              const opgraft_arg *arg,
                                              opgraft_error *error);
// What `node` stands for.
OPGRAFT_API og_status opgraft_builder_add_node_arg(opgraft_builder *builder,
                                                   const char *name,
                                                   int32_t node,
                                                   opgraft_error *error);
// The operator writes a view of a base; `view` says what it sees of that, NULL:
// all. OG_DTYPE, OG_DEVICE where the view has another type or device.
OPGRAFT_API og_status opgraft_builder_add_written_arg(
    opgraft_builder *builder, const char *name, int32_t base,
    const opgraft_value_info *view, opgraft_error *error);
// Arguments up to opgraft_builder_close_list are the list's.
OPGRAFT_API og_status opgraft_builder_open_list(opgraft_builder *builder,
                                                const char *name,
                                                opgraft_error *error);
OPGRAFT_API og_status opgraft_builder_close_list(opgraft_builder *builder,
                                                 opgraft_error *error);

// A tensor that the operator returns; `info` NULL: it returns None there.
OPGRAFT_API og_status opgraft_builder_add_result(opgraft_builder *builder,
                                                 const opgraft_value_info *info,
                                                 opgraft_error *error);
// A result that is known without the operator: a size, a constant, NONE.
OPGRAFT_API og_status opgraft_builder_add_known_result(opgraft_builder *builder,
                                                       const opgraft_arg *known,
                                                       opgraft_error *error);
OPGRAFT_API og_status opgraft_builder_open_results(opgraft_builder *builder,
                                                   opgraft_error *error);
OPGRAFT_API og_status opgraft_builder_close_results(opgraft_builder *builder,
                                                    opgraft_error *error);

// Adds the operator to the graph. `node` stands for its result: NONE, the only
// one, or the list of them; that of a functional operator for a list of its
// returns, then the new bases. OG_UNSUPPORTED where the engine cannot say it,
// as where a view's base changes its layout. The node is dropped after an
// error; what the graph got of it then is dead, or a view that nothing reads.
OPGRAFT_API og_status opgraft_builder_end(opgraft_builder *builder,
                                          int32_t node, opgraft_error *error);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_BUILDER_H
