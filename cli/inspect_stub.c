// SPDX-License-Identifier: Apache-2.0
// opgraft inspect --stub: a module's operators for editors and type checkers.

#include <ctype.h>
#include <opgraft/info.h>
#include <string.h>

#include "inspect.h"

// What a caller may pass, or gets, for a type of the schema.
static const char *python_type(int32_t type) {
  static const struct {
    int32_t type;
    const char *name;
  } rows[] = {{OPGRAFT_TYPE_TENSOR, "torch.Tensor"},
              {OPGRAFT_TYPE_INT, "int"},
              {OPGRAFT_TYPE_SYM_INT, "int"},
              {OPGRAFT_TYPE_FLOAT, "float"},
              {OPGRAFT_TYPE_BOOL, "bool"},
              {OPGRAFT_TYPE_STR, "str"},
              {OPGRAFT_TYPE_SCALAR, "complex"},  // int and float are, too
              {OPGRAFT_TYPE_SCALAR_TYPE, "torch.dtype"},
              {OPGRAFT_TYPE_DEVICE, "torch.device"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (rows[i].type == type) return rows[i].name;
  return "object";
}

static void param_print(const opgraft_param_info *param) {
  const bool is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  printf(", %s: %s%s", param->name, is_list ? "Sequence[" : "",
         python_type(param->type));
  if (param->flags & OPGRAFT_PARAM_ELEMENT_OPTIONAL) fputs(" | None", stdout);
  if (is_list) putchar(']');
  // int[2] stride=1: one number stands for all.
  if (param->list_size > 0) printf(" | %s", python_type(param->type));
  if (param->flags & OPGRAFT_PARAM_OPTIONAL) fputs(" | None", stdout);
  if (param->flags & OPGRAFT_PARAM_DEFAULT) fputs(" = ...", stdout);
}

static void results_print(const opgraft_op *op) {
  opgraft_result_info result = {.struct_size = sizeof result};
  int32_t count = 0;
  while (opgraft_op_get_result(op, count, &result) == OG_OK) ++count;
  fputs(count == 0 ? "None" : count > 1 ? "tuple[" : "", stdout);
  for (int32_t r = 0; r < count; ++r) {
    opgraft_op_get_result(op, r, &result);
    const bool is_list = (result.flags & OPGRAFT_RESULT_LIST) != 0;
    printf("%s%s%s%s", r > 0 ? ", " : "", is_list ? "list[" : "",
           python_type(result.type), is_list ? "]" : "");
  }
  puts(count > 1 ? "]: ..." : ": ...");
}

static void op_stub(const opgraft_op *op) {
  opgraft_param_info param = {.struct_size = sizeof param};
  bool has_star = false;
  fputs("    def ", stdout);
  for (const char *c = opgraft_op_name(op); *c != '\0'; ++c)
    putchar(*c == '.' ? '_' : *c);  // an overload's name
  fputs("(self", stdout);
  for (int32_t p = 0; opgraft_op_get_param(op, p, &param) == OG_OK; ++p) {
    if ((param.flags & OPGRAFT_PARAM_KEYWORD_ONLY) && !has_star)
      fputs(", *", stdout);
    has_star |= (param.flags & OPGRAFT_PARAM_KEYWORD_ONLY) != 0;
    param_print(&param);
  }
  fputs(") -> ", stdout);
  results_print(op);
}

int cli_stub_print(const opgraft_module *module) {
  const char *name = opgraft_module_name(module);
  const int first = toupper((unsigned char)name[0]);
  printf(
      "# Of `opgraft inspect --stub`: cast(\"%c%s\", "
      "opgraft.load(\"%s.so\")).\nfrom collections.abc import Sequence\n\n"
      "import opgraft\nimport torch\n\n\nclass %c%s(opgraft.Module):\n",
      first, name + 1, name, first, name + 1);
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i)
    op_stub(opgraft_module_op(module, i));
  return CLI_OK;
}
