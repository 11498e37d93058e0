// SPDX-License-Identifier: Apache-2.0
// Where the program's own things are.

#ifndef OPGRAFT_CLI_PLACES_H
#define OPGRAFT_CLI_PLACES_H

// The folder that holds this program, "" if it cannot be told.
const char *cli_program_folder(void);
// The folder that holds opgraft/op.h, NULL if there is none (printed).
const char *cli_include_folder(void);
// The Python that opgraft's package is installed for: $OPGRAFT_PYTHON, the one
// beside the program, the active environment's, python3 of PATH; NULL if none.
const char *cli_python(void);
// Replaces this process by `python -m module arguments`. Returns only when it
// could not (printed).
int cli_python_exec(const char *module, char *const *arguments, int count);

#endif  // OPGRAFT_CLI_PLACES_H
