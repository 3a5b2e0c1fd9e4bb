// What the graph knows of an op type: its signature, how shapes follow from its
// inputs, and its gradient. A signature is written as TensorFlow writes it:
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

// Whether and how an op passes gradients on.
enum class Differentiability {
  kUnknown,  // no gradient was decided: asking for one is an error
  kYes,      // by `gradient`
  kNo,       // its inputs get no gradient, by decision
};

struct OpSchema {
  OpSchema();
  explicit OpSchema(absl::string_view name);
  OpSchema(const OpSchema&);
  OpSchema(OpSchema&&) noexcept;
  OpSchema& operator=(const OpSchema&);
  OpSchema& operator=(OpSchema&&) noexcept;
  ~OpSchema();

  // The parts of a signature. Errors of syntax are kept in `error`.
  OpSchema& Input(absl::string_view spec);  // "a: T", "values: N * T", "ref: Ref(T)", "args: Targs"
  OpSchema& Output(absl::string_view spec);
  OpSchema& Attr(absl::string_view spec);  // "T: {float, double} = DT_FLOAT", "N: int >= 1", "shape: shape"

  tensorflow::OpDef def;
  ShapeFn shape = nullptr;  // nullptr: nothing is known of the outputs
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
  // Where each argument of the OpDef begins in the lists above; one more entry
  // at the end.
  std::vector<int> input_starts;
  std::vector<int> output_starts;
};
absl::StatusOr<NodeTypes> ComputeTypes(const tensorflow::OpDef& op, const tensorflow::NodeDef& node);

// Adds defaults for attributes that are not set.
void AddDefaultAttrs(const tensorflow::OpDef& op, tensorflow::NodeDef& node);

// INVALID_ARGUMENT if an attribute is missing, of a wrong type, not among the
// allowed values or unknown to the op. Attributes that begin with '_' are free.
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
