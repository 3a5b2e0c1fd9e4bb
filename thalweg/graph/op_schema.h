// SPDX-License-Identifier: Apache-2.0
// The schema of an op type: its signature, shape function and gradient. Signatures use TensorFlow's
// syntax:
//
//   OpSchema("MatMul").Input("a: T").Input("b: T").Output("product: T")
//       .Attr("transpose_a: bool = false").Attr("T: {float, double}")
//
// Kernels are registered together with it; see kernel/op.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {

class ShapeContext;
class GradientContext;

using ShapeFn = absl::Status (*)(ShapeContext&);
using GradientFn = absl::Status (*)(GradientContext&);

// Whether an op is differentiable.
enum class Differentiability {
  kUnknown,  // not decided: requesting a gradient is an error
  kYes,      // OpSchema::gradient computes it
  kNo,       // its inputs get no gradient
};

struct OpSchema {
  OpSchema();
  explicit OpSchema(absl::string_view name);
  OpSchema(const OpSchema&);
  OpSchema(OpSchema&&) noexcept;
  OpSchema& operator=(const OpSchema&);
  OpSchema& operator=(OpSchema&&) noexcept;
  ~OpSchema();

  // The parts of a signature. Syntax errors are kept in `error`.
  OpSchema& Input(absl::string_view spec);  // "a: T", "values: N * T", "ref: Ref(T)", "args: Targs"
  OpSchema& Output(absl::string_view spec);
  OpSchema& Attr(absl::string_view spec);  // "T: {float, double} = DT_FLOAT", "N: int >= 1", "shape: shape"

  tensorflow::OpDef def;
  ShapeFn shape = nullptr;  // nullptr: the outputs have unknown shapes
  GradientFn gradient = nullptr;
  Differentiability differentiability = Differentiability::kUnknown;
  absl::Status error;
};

// nullptr if the op has no such attribute.
const tensorflow::OpDef::AttrDef* FindAttr(const tensorflow::OpDef& def, absl::string_view name);

// The types of a node's inputs and outputs, from its op and attributes.
struct NodeTypes {
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  // The index in the lists above at which each argument of the OpDef begins, and the end.
  std::vector<int> input_starts;
  std::vector<int> output_starts;
};
absl::StatusOr<NodeTypes> ComputeTypes(const tensorflow::OpDef& op, const tensorflow::NodeDef& node);

// Adds defaults for attributes that are not set.
void AddDefaultAttrs(const tensorflow::OpDef& op, tensorflow::NodeDef& node);

// INVALID_ARGUMENT if an attribute is missing, has a wrong type, is not among the allowed values, or is
// unknown to the op. Attributes that begin with '_' are always allowed.
absl::Status CheckAttrs(const tensorflow::OpDef& op, const tensorflow::NodeDef& node);

// All op types. Filled while the program starts, constant afterwards.
class OpRegistry {
 public:
  static OpRegistry& Global();

  // REQUIRES: the name is new and the schema has no error (CHECKed: a
  // programming error).
  void Add(OpSchema schema);
  // nullptr if there is none.
  const OpSchema* Find(absl::string_view name) const;
  // Sorted by name.
  std::vector<const OpSchema*> All() const;

 private:
  absl::flat_hash_map<std::string, std::unique_ptr<const OpSchema>> schemas_;
};

}  // namespace thalweg
