// SPDX-License-Identifier: Apache-2.0
// The hosts that a module can serve (hosts/hosts.def).

#ifndef OPGRAFT_CLI_HOSTS_H
#define OPGRAFT_CLI_HOSTS_H

#include <opgraft/opgraft.h>
#include <stdbool.h>

typedef struct cli_host {
  const char *name;
  const char *title;
  bool has_adapter;
  bool has_names;
  const char *features;
} cli_host;

enum { CLI_HOSTS_MAX = 16 };

// Those of "torch,jax", in the list's order, ended by NULL; none for NULL.
// Prints what is wrong and returns false.
bool cli_hosts_parse(const char *list,
                     const cli_host *out_hosts[CLI_HOSTS_MAX + 1]);
// The path of libNAME.a, beside the program or beside the headers; the
// caller's, NULL, and what is wrong printed, where it is missing.
char *cli_hosts_library(const char *name);
// The linker's words for a module that serves `hosts`, ended by NULL, each and
// the list the caller's; NULL, and what is wrong printed, where a library is
// missing.
char **cli_hosts_link(const cli_host *const *hosts);
// The first of `hosts` that looks operators up by names of their own, which a
// module has once it is linked with the source of cli_hosts_names; NULL: none.
const cli_host *cli_hosts_named(const cli_host *const *hosts);
// C source of the names by which `hosts` look up the operators of the shared
// object at `path`, the caller's; NULL, and what is wrong printed, where it
// could not be loaded.
char *cli_hosts_names(const char *path, const cli_host *const *hosts);
// Notes what the shared object at `path` lacks in each host of `wanted`; false,
// and what is wrong printed, where it could not be loaded.
bool cli_hosts_note(const char *path, const opgraft_module *module,
                    const cli_host *const *wanted);
// Which hosts the shared object at `path` serves, and what each lacks.
// An exit code.
int cli_hosts_print(const char *path, const opgraft_module *module,
                    bool is_json);

#endif  // OPGRAFT_CLI_HOSTS_H
