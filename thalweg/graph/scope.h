// Scope: where model code adds operations. It carries a name prefix, a device,
// control dependencies and the first error, so that models read without checks:
//
//   Graph graph;
//   const Scope s = graph.root();
//   Output x = Placeholder(s, kFloat, {-1, 784});
//   Output y = MatMul(s.WithOpName("logits"), x, w);
//   RETURN_IF_ERROR(s.status());
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// One argument of an op: an output, or a list of them.
struct OpInput {
  OpInput(Output output);                // NOLINT: implicit by design
  OpInput(std::vector<Output> outputs);  // NOLINT
  OpInput(const OpInput&);
  OpInput(OpInput&&) noexcept;
  OpInput& operator=(const OpInput&);
  OpInput& operator=(OpInput&&) noexcept;
  ~OpInput();
  std::vector<Output> outputs;
  bool is_list = false;
};

// What TensorFlow makes of the seed of a graph and that of an operation. Both 0
// would mean that there is none.
std::pair<int64_t, int64_t> SeedPair(int64_t graph_seed, int64_t op_seed);

// A value: derived scopes share the graph and its status. After an error,
// everything added is nothing (null handles).
class Scope {
 public:
  // Chooses a device for an operation that is about to be added; "" for none.
  using DeviceFunction = std::function<std::string(const tensorflow::NodeDef&)>;

  explicit Scope(Graph* graph);
  Scope(const Scope&);
  Scope(Scope&&) noexcept;
  Scope& operator=(const Scope&);
  Scope& operator=(Scope&&) noexcept;
  ~Scope();

  Scope SubScope(absl::string_view name) const;  // names get "name/" in front, made unique
  // As inside the name scope of that full name, new or not; "" is the root.
  Scope InScope(absl::string_view full_name) const;
  // What `name` is called in this name scope.
  std::string FullName(absl::string_view name) const { return prefix_ + std::string(name); }
  Scope WithOpName(absl::string_view name) const;  // for the next operation
  // For an operation that the next one takes as an argument: "next/name", if the
  // next has a name.
  Scope Argument(absl::string_view name) const;
  // Nested scopes merge: the inner sets what it names.
  Scope WithDevice(absl::string_view device) const;
  Scope WithDevice(const char* device) const { return WithDevice(absl::string_view(device)); }
  Scope WithDevice(DeviceFunction choose) const;
  Scope WithControlDependencies(const std::vector<Output>& operations) const;
  Scope WithoutControlDependencies() const;
  // Puts operations where `operation` is, whatever the device functions say.
  Scope ColocateWith(Output operation) const;

  Graph& graph() const { return *graph_; }
  const absl::Status& status() const { return *graph_->build_status_; }
  bool ok() const { return status().ok(); }
  // Keeps the first error.
  void Fail(const absl::Status& status) const { graph_->build_status_->Update(status); }

  // Adds an operation; attributes that follow from the inputs (types, counts)
  // need not be given. nullptr after an error.
  Node* Add(absl::string_view op, std::vector<OpInput> inputs = {}, std::vector<AttrArg> attrs = {}) const;

 private:
  absl::StatusOr<Node*> TryAdd(absl::string_view op, const std::vector<OpInput>& inputs,
                               std::vector<AttrArg> attrs) const;
  void SetSeeds(const tensorflow::OpDef& op, tensorflow::NodeDef& def) const;
  absl::StatusOr<std::string> DeviceFor(const tensorflow::NodeDef& def) const;

  Graph* graph_;
  std::string prefix_;  // ends in '/' unless empty
  std::string op_name_;
  std::vector<DeviceFunction> devices_;  // outermost first
  std::vector<Node*> control_;
  std::vector<std::string> colocate_;
};

}  // namespace thalweg
