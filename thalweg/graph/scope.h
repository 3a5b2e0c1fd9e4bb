// SPDX-License-Identifier: Apache-2.0
// Scope: where model code adds operations. It carries a name prefix, a device,
// control dependencies and the first error, so that models read without checks:
//
//   Graph graph;
//   const Scope s = graph.root();
//   Output x = Placeholder(s, kFloat, {-1, 784});
//   Output y = MatMul(s.WithOpName("logits"), x, w);
//   RETURN_IF_ERROR(s.status());
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/attr_arg.h"
#include "thalweg/graph/graph.h"

namespace tensorflow {
class NodeDef;
class OpDef;
}  // namespace tensorflow

namespace thalweg {

// One argument of an op: a tensor, or a list of them.
struct OpInput {
  // One tensor.
  OpInput(Output output);  // NOLINT: implicit by design
  // A value that stands for a tensor, such as a variable.
  template <typename T>
  requires(!std::is_same_v<T, Output> && std::is_convertible_v<const T&, Output>) OpInput(const T& value)  // NOLINT
      : OpInput(static_cast<Output>(value)) {}
  // A list of tensors, for arguments such as "values: N * T".
  OpInput(std::vector<Output> outputs);  // NOLINT: implicit by design
  OpInput(const OpInput&);
  OpInput(OpInput&&) noexcept;
  OpInput& operator=(const OpInput&);
  OpInput& operator=(OpInput&&) noexcept;
  ~OpInput();
  std::vector<Output> outputs;  // one, or the list
  bool is_list = false;         // true if it was made from a list
};

// An operation that is about to be added, as device functions see it. Borrowed:
// valid only during the call.
class NewOperation {
 public:
  /// @cond INTERNAL
  explicit NewOperation(const tensorflow::NodeDef& def) : def_(def) {}
  const tensorflow::NodeDef& def() const { return def_; }
  /// @endcond

  // The name that it will have in the graph.
  const std::string& name() const;
  // The op type: "VariableV2", "MatMul".
  const std::string& op() const;
  // The device that inner scopes request; "" if they request none.
  const std::string& device() const;
  // An attribute. T is int64_t, float, bool, std::string, DType or PartialShape.
  // NOT_FOUND if it has none of that name, INVALID_ARGUMENT if its type is another.
  template <typename T>
  absl::StatusOr<T> Attr(absl::string_view name) const;

 private:
  const tensorflow::NodeDef& def_;
};

// Where operations are added, and how. A value: derived scopes share the graph and
// its status. After an error everything that is added is a null handle, and the
// error is in status().
class Scope {
 public:
  // Chooses a device for an operation that is about to be added; "" for none.
  using DeviceFunction = std::function<std::string(const NewOperation&)>;

  // The root scope of a graph, as Graph::root() gives it.
  explicit Scope(Graph* graph);
  Scope(const Scope&);
  Scope(Scope&&) noexcept;
  Scope& operator=(const Scope&);
  Scope& operator=(Scope&&) noexcept;
  ~Scope();

  // The scope in which operators such as `x * w` add their operation: that of the
  // operand which was added to the graph last, with its name prefix and device.
  // Control dependencies and colocation are left out: the result depends on the
  // operands anyway. If no operand is a tensor, nothing is added.
  static Scope OfOperands(std::initializer_list<Output> operands);

  // Names get "name/" in front, made unique: "layer/", "layer_1/".
  Scope SubScope(absl::string_view name) const;
  // As inside the name scope of that full name, new or not; "" is the root.
  Scope InScope(absl::string_view full_name) const;
  // `name` with the prefix of this scope.
  std::string FullName(absl::string_view name) const;
  // Names the next operation.
  Scope WithOpName(absl::string_view name) const;
  // For an operation that the next one takes as an argument: "next/name", if the
  // next has a name.
  Scope Argument(absl::string_view name) const;
  // Puts operations on a device: "/job:ps/task:0", "/device:CPU:1". Nested scopes
  // merge: the inner one sets the parts that it names.
  Scope WithDevice(absl::string_view device) const;
  // As above.
  Scope WithDevice(const char* device) const { return WithDevice(absl::string_view(device)); }
  // Lets a function choose the device of each operation; see ReplicaDeviceSetter.
  Scope WithDevice(DeviceFunction choose) const;
  // Operations run after all of `operations`.
  Scope WithControlDependencies(const std::vector<Output>& operations) const;
  // Drops the control dependencies of this scope.
  Scope WithoutControlDependencies() const;
  // Puts operations where `operation` is, whatever the device functions say.
  Scope ColocateWith(Output operation) const;

  // REQUIRES: not the scope of no operands (CHECKed).
  Graph& graph() const;
  // The graph's first error.
  const absl::Status& status() const;
  bool ok() const { return status().ok(); }  // true if there is no error
  // Records an error; the first one stays.
  void Fail(const absl::Status& status) const;

  // Adds an operation by the name of its op. Attributes that follow from the inputs
  // (types, counts) need not be given. nullptr after an error.
  Node* Add(absl::string_view op, std::vector<OpInput> inputs = {}, std::vector<AttrArg> attrs = {}) const;

  /// @cond INTERNAL
  // Lets operators on `output` add their operations in this scope, though another one
  // has added it.
  void Adopt(Output output) const;
  /// @endcond

 private:
  absl::StatusOr<Node*> TryAdd(absl::string_view op, const std::vector<OpInput>& inputs,
                               std::vector<AttrArg> attrs) const;
  void SetSeeds(const tensorflow::OpDef& op, tensorflow::NodeDef& def) const;
  absl::StatusOr<std::string> DeviceFor(const tensorflow::NodeDef& def) const;
  const std::string& prefix() const;

  Graph* graph_;                                 // nullptr: the scope of no operands
  std::shared_ptr<const ScopeContext> context_;  // nullptr: the root's
  std::string op_name_;
  std::vector<Node*> control_;
  std::vector<std::string> colocate_;
};

// The seeds that TensorFlow derives from a graph's seed and an operation's. Never
// both 0, which would mean that there is none.
std::pair<int64_t, int64_t> SeedPair(int64_t graph_seed, int64_t op_seed);

}  // namespace thalweg
