// What a shape function sees: the shapes of a node's inputs, the values of
// those that are constants, and its attributes.
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
  // The value of input i if it is a constant of the graph.
  std::optional<Tensor> Constant(int i) const;
  // The shape that input i, a vector of sizes, describes: from its value if
  // constant, through Shape, Pack and ConcatV2 of what is known, else only the
  // rank. Sizes of -1 are unknown dimensions.
  absl::StatusOr<PartialShape> ConstantAsShape(int i) const;
  template <typename T>
  absl::StatusOr<T> Attr(absl::string_view name) const {
    return GetAttr<T>(node_.def(), name);
  }

  void set_output(int i, PartialShape shape) { outputs_[i] = std::move(shape); }
  PartialShape TakeOutput(int i) { return std::move(outputs_[i]); }

  // Merges with what is known of input i; INVALID_ARGUMENT if it contradicts.
  absl::StatusOr<PartialShape> WithRank(int i, int rank) const;
  absl::Status RequireScalar(int i) const { return WithRank(i, 0).status(); }

 private:
  const Node& node_;
  std::vector<PartialShape> outputs_;
};

// Shape functions that many ops share.
namespace shapes {
absl::Status Unknown(ShapeContext& c);        // nothing is known
absl::Status Scalar(ShapeContext& c);         // every output
absl::Status Vector(ShapeContext& c);         // every output
absl::Status LikeInput0(ShapeContext& c);     // every output
absl::Status Broadcast(ShapeContext& c);      // of inputs 0 and 1
absl::Status NoOutputs(ShapeContext& c);      // checks nothing
absl::Status MergeInputs(ShapeContext& c);    // all inputs have one shape, and so has the output
absl::Status FromShapeAttr(ShapeContext& c);  // output 0 has the attr "shape"
}  // namespace shapes

// The shape of a op b under NumPy's rules; INVALID_ARGUMENT if there is none.
absl::StatusOr<PartialShape> BroadcastShape(const PartialShape& a, const PartialShape& b);

}  // namespace thalweg
