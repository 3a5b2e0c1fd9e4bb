// SPDX-License-Identifier: Apache-2.0
// The argument of a shape function: the shapes of a node's inputs, the values of
// constant inputs, and the node's attributes.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

class ShapeContext {
 public:
  explicit ShapeContext(const Node& node) : node_(node), outputs_(node.num_outputs()) {}

  const Node& node() const { return node_; }
  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  const PartialShape& input(int i) const;
  // The value of input i if it is a constant.
  std::optional<Tensor> Constant(int i) const;
  // The shape that input i, a vector of sizes, describes. Uses its value if it is
  // constant and looks through Shape, Pack and ConcatV2; otherwise only the rank is
  // known. Sizes of -1 are unknown dimensions.
  absl::StatusOr<PartialShape> ConstantAsShape(int i) const;
  template <typename T>
  absl::StatusOr<T> Attr(absl::string_view name) const {
    return GetAttr<T>(node_.def(), name);
  }

  void set_output(int i, PartialShape shape) { outputs_[i] = std::move(shape); }
  PartialShape TakeOutput(int i) { return std::move(outputs_[i]); }

  // The shape of input i, merged with a rank. INVALID_ARGUMENT if they contradict.
  absl::StatusOr<PartialShape> WithRank(int i, int rank) const;
  absl::Status RequireScalar(int i) const { return WithRank(i, 0).status(); }

 private:
  const Node& node_;
  std::vector<PartialShape> outputs_;
};

// Shape functions that many ops share.
namespace shapes {
absl::Status Unknown(ShapeContext& c);        // all outputs have unknown shapes
absl::Status Scalar(ShapeContext& c);         // all outputs are scalars
absl::Status Vector(ShapeContext& c);         // all outputs are vectors of unknown length
absl::Status LikeInput0(ShapeContext& c);     // all outputs have the shape of input 0
absl::Status Broadcast(ShapeContext& c);      // output 0 has the broadcast shape of inputs 0 and 1
absl::Status NoOutputs(ShapeContext& c);      // for nodes without outputs; does not check inputs
absl::Status MergeInputs(ShapeContext& c);    // all inputs and the output have the same shape
absl::Status FromShapeAttr(ShapeContext& c);  // output 0 has the shape of attribute "shape"
}  // namespace shapes

// The shape of a op b under NumPy's broadcasting rules. INVALID_ARGUMENT if the shapes
// are not compatible.
absl::StatusOr<PartialShape> BroadcastShape(const PartialShape& a, const PartialShape& b);

}  // namespace thalweg
