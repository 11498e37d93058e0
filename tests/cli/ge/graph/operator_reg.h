// SPDX-License-Identifier: Apache-2.0
// The words of GE's header of this name that prototypes use: each prototype is
// kept as a line of JSON.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace ge {

enum DataType {
  DT_FLOAT,
  DT_DOUBLE,
  DT_FLOAT16,
  DT_BF16,
  DT_INT8,
  DT_INT16,
  DT_INT32,
  DT_INT64,
  DT_UINT8,
  DT_UINT16,
  DT_UINT32,
  DT_UINT64,
  DT_BOOL,
  DT_COMPLEX64,
  DT_COMPLEX128,
};

struct TensorType {
  TensorType(std::initializer_list<DataType> types) : types(types) {}
  static TensorType ALL() { return TensorType({}); }
  std::vector<DataType> types;
};

// What an attribute's kind takes as its default.
using Int = long long;
using Float = double;
using Bool = bool;
using String = std::string;
using ListInt = std::vector<Int>;
using ListFloat = std::vector<Float>;
using ListBool = std::vector<bool>;
using ListString = std::vector<String>;

inline std::string json(Int value) { return std::to_string(value); }
inline std::string json(Bool value) { return value ? "true" : "false"; }
inline std::string json(Float value) {
  char text[40];
  snprintf(text, sizeof text, "%.17g", value);
  return text;
}
inline std::string json(const String &value) {
  std::string text = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}
template <typename T>
std::string json(const std::vector<T> &values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i > 0 ? ", " : "") + json(T(values[i]));
  return text + "]";
}

inline std::vector<std::string> &prototypes() {
  static std::vector<std::string> all;
  return all;
}

struct Prototype {
  explicit Prototype(const char *type)
      : text("{\"type\": \"" + std::string(type) + "\", \"entries\": [") {}
  Prototype &tensor(const char *kind, const char *name, const TensorType &t) {
    std::vector<Int> types(t.types.begin(), t.types.end());
    return entry(kind, name, "\"types\": " + json(types));
  }
  Prototype &attr(const char *name, const char *kind) {
    return entry("REQUIRED_ATTR", name,
                 "\"kind\": \"" + std::string(kind) + "\"");
  }
  template <typename T>
  Prototype &attr(const char *name, const char *kind, const T &value) {
    return entry(
        "ATTR", name,
        "\"kind\": \"" + std::string(kind) + "\", \"default\": " + json(value));
  }
  int end(const char *type) {
    text += "], \"end\": \"" + std::string(type) + "\"}";
    prototypes().push_back(text);
    return 0;
  }
  std::string text;
  bool is_first = true;

 private:
  Prototype &entry(const char *what, const char *name,
                   const std::string &rest) {
    text += std::string(is_first ? "" : ", ") + "{\"what\": \"" + what +
            "\", \"name\": \"" + name + "\", " + rest + "}";
    is_first = false;
    return *this;
  }
};

}  // namespace ge

#define REG_OP(type) static const int made_##type = Prototype(#type)
#define INPUT(name, types) tensor("INPUT", #name, types)
#define OPTIONAL_INPUT(name, types) tensor("OPTIONAL_INPUT", #name, types)
#define DYNAMIC_INPUT(name, types) tensor("DYNAMIC_INPUT", #name, types)
#define OUTPUT(name, types) tensor("OUTPUT", #name, types)
#define REQUIRED_ATTR(name, kind) attr(#name, #kind)
#define ATTR(name, kind, ...) attr(#name, #kind, kind(__VA_ARGS__))
#define OP_END_FACTORY_REG(type) end(#type);
