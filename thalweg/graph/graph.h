// Graph: nodes and the edges between them. Pure data: it knows signatures,
// types and shapes, not devices or threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/dtype.h"
#include "thalweg/tensor/shape.h"

namespace thalweg {

class Graph;
class Node;
class Scope;

// A handle to output `index` of a node: what model code passes around. A value;
// valid as long as the graph. A default one stands for "none": it has no type,
// no known shape and no name.
struct Output {
  Node* node = nullptr;
  int index = 0;

  Output() = default;
  // A node stands for its first output. Nothing but a node does: a literal 0 is a
  // number, not a pointer.
  template <typename T>
  requires std::is_same_v<T, Node*> Output(T node, int index = 0) : node(node), index(index) {}  // NOLINT

  explicit operator bool() const { return node != nullptr; }
  DType dtype() const;
  const PartialShape& shape() const;
  std::string name() const;  // "node:index"
  friend bool operator==(const Output& a, const Output& b) { return a.node == b.node && a.index == b.index; }
  template <typename H>
  friend H AbslHashValue(H h, const Output& o) {
    return H::combine(std::move(h), o.node, o.index);
  }
};

// One operation. Owned by its Graph. Handed out as a pointer, compared by it.
class Node {
 public:
  int id() const { return id_; }  // dense, in order of creation
  const std::string& name() const { return def_.name(); }
  const std::string& op() const { return def_.op(); }
  // Attributes (defaults filled in) and the requested device. Its list of
  // inputs is empty: the edges below are the truth.
  const tensorflow::NodeDef& def() const { return def_; }
  tensorflow::NodeDef& mutable_def() { return def_; }
  // nullptr if the op type is not known here: only steps that need it fail.
  const OpSchema* schema() const { return schema_; }
  const std::string& device() const { return def_.device(); }
  void set_device(std::string device) { def_.set_device(std::move(device)); }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(output_types_.size()); }
  const Output& input(int i) const { return inputs_[i]; }
  const std::vector<Output>& inputs() const { return inputs_; }
  const std::vector<Node*>& control_inputs() const { return control_inputs_; }
  DType input_type(int i) const { return input_types_[i]; }
  DType output_type(int i) const { return output_types_[i]; }
  const std::vector<DType>& input_types() const { return input_types_; }
  const std::vector<DType>& output_types() const { return output_types_; }
  const PartialShape& output_shape(int i) const { return output_shapes_[i]; }
  bool is_stateful() const { return schema_ == nullptr || schema_->def.is_stateful(); }

  Output out(int i = 0) { return Output(this, i); }

  // For passes that rewrite a graph. REQUIRES: types fit.
  void set_input(int i, Output source) { inputs_[i] = source; }
  void AddControlInput(Node* node);
  void set_control_inputs(std::vector<Node*> nodes) { control_inputs_ = std::move(nodes); }
  void set_output_shape(int i, PartialShape shape) { output_shapes_[i] = std::move(shape); }

 private:
  friend class Graph;
  Node() = default;

  int id_ = 0;
  tensorflow::NodeDef def_;
  const OpSchema* schema_ = nullptr;
  std::vector<Output> inputs_;
  std::vector<Node*> control_inputs_;
  std::vector<DType> input_types_;
  std::vector<DType> output_types_;
  std::vector<PartialShape> output_shapes_;
};

// Owns its nodes. Not thread-safe. Movable; handles stay valid.
class Graph {
 public:
  Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  // Where building starts: see scope.h.
  Scope root();
  // The first error of building through a Scope.
  const absl::Status& build_status() const { return *build_status_; }

  // Adds one node. `def` needs no inputs; its attributes are completed with
  // defaults and checked, types are checked along every edge, shapes inferred.
  // Nothing is added if there is an error.
  absl::StatusOr<Node*> AddNode(tensorflow::NodeDef def, std::vector<Output> inputs, std::vector<Node*> control_inputs);

  // Adds all nodes of `def` or, if there is an error, none: a name that is
  // there already, an input that is nowhere, types that do not fit, a cycle
  // that is no loop. Unknown op types are kept.
  absl::Status Import(const tensorflow::GraphDef& def);

  // The nodes from id `first` on, as a GraphDef that TensorFlow reads.
  tensorflow::GraphDef Export(int first = 0) const;

  Node* FindNode(absl::string_view name) const;  // nullptr if there is none
  // From "node" or "node:index". NOT_FOUND, INVALID_ARGUMENT.
  absl::StatusOr<Output> FindOutput(absl::string_view name) const;

  // True if it is a node of this graph, and of no other.
  bool Owns(const Node& node) const;

  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  Node* node(int id) const { return nodes_[id].get(); }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }

  // A name that no node and no name scope has: `base`, `base_1`, `base_2`, ...
  std::string UniqueName(absl::string_view base);
  // The same, and nobody else gets it: for name scopes.
  std::string ReserveName(absl::string_view base);

  const tensorflow::FunctionDefLibrary& library() const { return library_; }
  const tensorflow::VersionDef& versions() const { return versions_; }
  // Adds functions; INVALID_ARGUMENT if one differs from a known one of its name.
  absl::Status AddFunctions(const tensorflow::FunctionDefLibrary& library);
  // Of the registry or of a function; nullptr if neither.
  const OpSchema* FindSchema(absl::string_view op) const;

  // As tf.set_random_seed: operations with random numbers that a Scope adds from
  // now on without seeds get this one and, as their own, how many have got one
  // before. A program that builds the same graph then draws the same numbers.
  void set_seed(int64_t seed) { seed_ = seed; }
  const std::optional<int64_t>& seed() const { return seed_; }

  // Lists of names of nodes, as TensorFlow's collections: "variables",
  // "trainable_variables", ... A name is in a list once.
  void AddToCollection(absl::string_view collection, absl::string_view node);
  const std::vector<std::string>& Collection(absl::string_view name) const;  // empty if there is none

  // Keeps only the nodes for which keep[id]; ids are given anew, in order.
  // REQUIRES: no kept node has an input that goes.
  void Retain(const std::vector<bool>& keep);
  // Adds a copy of a node of another graph; its inputs still point there, until
  // the caller sets them. REQUIRES: the name is new here.
  Node* AddCopy(const Node& node);
  // A copy; the node of id i here is the node of id i there.
  Graph Clone() const;

 private:
  friend class Scope;
  absl::Status InferShapes(Node* node);
  absl::Status CheckEdges(const Node& node) const;
  absl::Status Link(const tensorflow::GraphDef& def, int first);

  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<std::string, Node*> by_name_;
  absl::flat_hash_map<std::string, int> name_counters_;
  absl::flat_hash_set<std::string> reserved_names_;
  tensorflow::FunctionDefLibrary library_;
  absl::flat_hash_map<std::string, std::shared_ptr<const OpSchema>> function_schemas_;
  tensorflow::VersionDef versions_;
  absl::flat_hash_map<std::string, std::vector<std::string>> collections_;
  std::optional<int64_t> seed_;
  int64_t num_seeded_ = 0;  // operations whose seeds are from here
  std::shared_ptr<absl::Status> build_status_;
};

// Nodes in an order in which every node comes after its inputs (but for the
// edges from NextIteration to Merge, which close loops). INVALID_ARGUMENT,
// naming a node of it, if there is any other cycle.
absl::StatusOr<std::vector<Node*>> TopologicalOrder(const Graph& graph);

// For each node id, the nodes that use it, by data or control, without order
// or repeats.
std::vector<std::vector<Node*>> Consumers(const Graph& graph);

// The ops of v1 control flow.
bool IsSwitch(const Node& n);         // Switch, RefSwitch
bool IsMerge(const Node& n);          // Merge, RefMerge
bool IsEnter(const Node& n);          // Enter, RefEnter
bool IsExit(const Node& n);           // Exit, RefExit
bool IsNextIteration(const Node& n);  // NextIteration, RefNextIteration
bool IsControlFlow(const Node& n);    // any of them, or LoopCond

}  // namespace thalweg
