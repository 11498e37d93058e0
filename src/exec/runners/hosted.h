// SPDX-License-Identifier: Apache-2.0
// Nodes that the host runs.

#ifndef OG_EXEC_RUNNERS_HOSTED_H
#define OG_EXEC_RUNNERS_HOSTED_H

#include "exec/step/prep.h"

// The caller's host, which may be of another age; NULL is one of zeros.
og_status og_host_copy(const opgraft_host *from, opgraft_host *out,
                       opgraft_error *error);
// Gives the node to the host; *out_taken says whether it took it. One that the
// host is slow to run stays with the engine where `may_be_slow` is false.
og_status og_prepare_hosted(og_prep *prep, bool may_be_slow, bool *out_taken);
// Whether the host runs the node in this instance, which therefore has no team
// of the engine's: the node may start the host's own threads.
bool og_hosted_needs_threads(const og_instance *instance, const og_node *node);
// The stream that the host's nodes are given from now on.
void og_hosted_set_stream(og_instance *instance, void *stream);
// Frees what the host prepared.
void og_hosted_release(og_instance *instance);

#endif  // OG_EXEC_RUNNERS_HOSTED_H
