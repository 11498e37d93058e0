// SPDX-License-Identifier: Apache-2.0
// The words of GE's header of this name that prototypes use: each prototype is
// kept as a line of JSON. And those that InferShape functions use: what an
// operator holds is given and read by a test.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
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

// --- InferShape --------------------------------------------------------------

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
constexpr graphStatus GRAPH_SUCCESS = 0;

class Shape {
 public:
  Shape() = default;
  explicit Shape(const std::vector<int64_t> &dims) : dims_(dims) {}
  std::vector<int64_t> GetDims() const { return dims_; }

 private:
  std::vector<int64_t> dims_;
};

class TensorDesc {
 public:
  Shape GetShape() const { return shape_; }
  void SetShape(const Shape &shape) { shape_ = shape; }
  DataType GetDataType() const { return type_; }
  void SetDataType(DataType type) { type_ = type; }

 private:
  Shape shape_;
  DataType type_ = DT_FLOAT;
};

class AscendString {
 public:
  AscendString() = default;
  explicit AscendString(const std::string &text) : text_(text) {}
  const char *GetString() const { return text_.c_str(); }
  size_t GetLength() const { return text_.size(); }

 private:
  std::string text_;
};

class Operator {
 public:
  std::map<std::string, std::vector<TensorDesc>> inputs, outputs;
  std::map<std::string, int64_t> ints;  // and what is true or false
  std::map<std::string, float> floats;
  std::map<std::string, AscendString> strings;
  std::map<std::string, std::vector<int64_t>> int_lists;

  TensorDesc GetInputDescByName(const char *name) const {
    return inputs.at(name).at(0);
  }
  graphStatus TryGetInputDesc(const char *name, TensorDesc &desc) const {
    return found(inputs, name) && (desc = inputs.at(name).at(0), true)
               ? GRAPH_SUCCESS
               : GRAPH_FAILED;
  }
  int32_t GetDynamicInputNum(const char *name) const {
    return found(inputs, name) ? static_cast<int32_t>(inputs.at(name).size())
                               : 0;
  }
  TensorDesc GetDynamicInputDesc(const char *name, uint32_t index) const {
    return inputs.at(name).at(index);
  }
  TensorDesc GetOutputDescByName(const char *) const { return {}; }
  graphStatus UpdateOutputDesc(const char *name, const TensorDesc &desc) {
    outputs[name] = {desc};
    return GRAPH_SUCCESS;
  }
  graphStatus GetAttr(const char *name, int64_t &to) const {
    return get(ints, name, to);
  }
  graphStatus GetAttr(const char *name, bool &to) const {
    return get(ints, name, to);
  }
  graphStatus GetAttr(const char *name, float &to) const {
    return get(floats, name, to);
  }
  graphStatus GetAttr(const char *name, AscendString &to) const {
    return get(strings, name, to);
  }
  graphStatus GetAttr(const char *name, std::vector<int64_t> &to) const {
    return get(int_lists, name, to);
  }
  graphStatus GetAttr(const char *, std::vector<bool> &) const {
    return GRAPH_FAILED;
  }
  graphStatus GetAttr(const char *, std::vector<float> &) const {
    return GRAPH_FAILED;
  }
  graphStatus GetAttr(const char *, std::vector<AscendString> &) const {
    return GRAPH_FAILED;
  }

 private:
  template <typename M>
  static bool found(const M &map, const char *name) {
    return map.find(name) != map.end();
  }
  template <typename M, typename T>
  static graphStatus get(const M &map, const char *name, T &to) {
    if (!found(map, name)) return GRAPH_FAILED;
    to = static_cast<T>(map.at(name));
    return GRAPH_SUCCESS;
  }
};

inline std::map<std::string, graphStatus (*)(Operator &)> &infer_functions() {
  static std::map<std::string, graphStatus (*)(Operator &)> all;
  return all;
}

struct InferRegister {
  InferRegister(const char *type, graphStatus (*function)(Operator &)) {
    infer_functions()[type] = function;
  }
};

}  // namespace ge

#define COMMON_INFER_FUNC_REG(type, function) \
  static const InferRegister infer_of_##type(#type, function)
#define REG_OP(type) static const int made_##type = Prototype(#type)
#define INPUT(name, types) tensor("INPUT", #name, types)
#define OPTIONAL_INPUT(name, types) tensor("OPTIONAL_INPUT", #name, types)
#define DYNAMIC_INPUT(name, types) tensor("DYNAMIC_INPUT", #name, types)
#define OUTPUT(name, types) tensor("OUTPUT", #name, types)
#define REQUIRED_ATTR(name, kind) attr(#name, #kind)
#define ATTR(name, kind, ...) attr(#name, #kind, kind(__VA_ARGS__))
#define OP_END_FACTORY_REG(type) end(#type);
