// SPDX-License-Identifier: Apache-2.0
// Graph: operations and the tensors that flow between them. Pure data: it knows
// signatures, types and shapes, not devices or threads.
//
//   Graph graph;
//   const Scope s = graph.root();               // scope.h: adds operations
//   const Output x = Placeholder(s, kFloat, {-1, 784});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/tensor/dtype.h"
#include "thalweg/tensor/shape.h"

namespace tensorflow {
class FunctionDefLibrary;
class GraphDef;
class NodeDef;
class VersionDef;
}  // namespace tensorflow

namespace thalweg {

class Graph;
class Node;
class Scope;
struct OpSchema;
struct ScopeContext;

// A tensor of a graph: output `index` of a node. Model code passes it around by
// value. It is valid as long as the graph. A default one stands for "none": it has
// no type, no known shape and no name.
//
// The operators of ops/operators.h work on it: `x * w + b`. `==` and `!=` compare
// handles, not elements; for elements use Equal and NotEqual.
struct Output {
  Node* node = nullptr;  // the operation that computes it; borrowed from the graph
  int index = 0;         // which of the node's outputs

  // No tensor.
  Output() = default;
  // A node stands for its first output. Only a Node* converts: a literal 0 is a
  // number, not a pointer.
  template <typename T>
  requires std::is_same_v<T, Node*> Output(T node, int index = 0) : node(node), index(index) {}  // NOLINT

  // True if it is a tensor.
  explicit operator bool() const { return node != nullptr; }
  // The element type; kInvalid if there is none.
  DType dtype() const;
  // The shape as far as it is known before the graph runs.
  const PartialShape& shape() const;
  // "node:index".
  std::string name() const;
  // True if both are the same output of the same node.
  friend bool operator==(const Output& a, const Output& b) { return a.node == b.node && a.index == b.index; }
  // For absl's hash tables.
  template <typename H>
  friend H AbslHashValue(H h, const Output& o) {
    return H::combine(std::move(h), o.node, o.index);
  }
};

// An operation that is run for its effect, such as the initializer of a variable.
// As a fetch of Session::Run it gives no value. Where an Output is wanted, for
// Group or a control dependency, it stands for the node.
struct Operation {
  Node* node = nullptr;  // borrowed from the graph

  // No operation.
  Operation() = default;
  // The node of any of its outputs.
  Operation(Output output) : node(output.node) {}  // NOLINT: implicit by design
  // The node, where an Output is wanted.
  operator Output() const { return Output(node); }  // NOLINT: implicit by design
  // True if it is an operation.
  explicit operator bool() const { return node != nullptr; }
  // True if both are the same node.
  friend bool operator==(const Operation&, const Operation&) = default;
};

// One operation. Owned by its Graph, handed out as a pointer, compared by it.
class Node {
 public:
  ~Node();
  Node& operator=(const Node&) = delete;

  // Dense, in order of creation.
  int id() const { return id_; }
  // The unique name within the graph.
  const std::string& name() const;
  // The op type: "MatMul".
  const std::string& op() const;
  // The requested device; "" leaves it to the placer.
  const std::string& device() const;
  // Requests a device.
  void set_device(std::string device);

  int num_inputs() const { return static_cast<int>(inputs_.size()); }         // number of tensors that it takes
  int num_outputs() const { return static_cast<int>(output_types_.size()); }  // number of tensors that it computes
  const Output& input(int i) const { return inputs_[i]; }                     // where input i comes from
  const std::vector<Output>& inputs() const { return inputs_; }               // all inputs, in order
  // Nodes that run before this one and pass no tensor to it.
  const std::vector<Node*>& control_inputs() const { return control_inputs_; }
  DType input_type(int i) const { return input_types_[i]; }                 // element type of input i
  DType output_type(int i) const { return output_types_[i]; }               // element type of output i
  const std::vector<DType>& input_types() const { return input_types_; }    // element types of all inputs
  const std::vector<DType>& output_types() const { return output_types_; }  // element types of all outputs
  // The shape of output i as far as it is known before the graph runs.
  const PartialShape& output_shape(int i) const { return output_shapes_[i]; }
  // True if it has an effect or a state, so that it is never merged or folded.
  bool is_stateful() const;

  // Output `i` as a handle.
  Output out(int i = 0) { return Output(this, i); }
  // The graph that owns it.
  Graph& graph() const { return *graph_; }

  /// @cond INTERNAL
  // Attributes (defaults filled in) and the requested device. Its list of inputs is
  // empty: the edges are the truth.
  const tensorflow::NodeDef& def() const { return *def_; }
  tensorflow::NodeDef& mutable_def() { return *def_; }
  // nullptr if the op type is not known here: only steps that need it fail.
  const OpSchema* schema() const { return schema_; }
  // The name prefix and devices of the Scope that added it; nullptr: the root's.
  const std::shared_ptr<const ScopeContext>& context() const { return context_; }

  // For passes that rewrite a graph. REQUIRES: types fit.
  void set_input(int i, Output source) { inputs_[i] = source; }
  void AddControlInput(Node* node);
  void set_control_inputs(std::vector<Node*> nodes) { control_inputs_ = std::move(nodes); }
  void set_output_shape(int i, PartialShape shape) { output_shapes_[i] = std::move(shape); }
  /// @endcond

 private:
  friend class Graph;
  friend class Scope;
  explicit Node(Graph* graph);
  Node(const Node& other, Graph* graph);

  int id_ = 0;
  Graph* graph_;
  std::unique_ptr<tensorflow::NodeDef> def_;  // never null
  const OpSchema* schema_ = nullptr;
  std::vector<Output> inputs_;
  std::vector<Node*> control_inputs_;
  std::vector<DType> input_types_;
  std::vector<DType> output_types_;
  std::vector<PartialShape> output_shapes_;
  std::shared_ptr<const ScopeContext> context_;
};

// Owns its nodes. Not thread-safe. Movable; handles to its nodes stay valid, but
// scopes of it do not.
class Graph {
 public:
  // An empty graph.
  Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  // The scope in which building starts: no name prefix, no device.
  Scope root();
  // The first error of building through a Scope. Session::Create returns it, too.
  const absl::Status& build_status() const { return *build_status_; }

  // Adds the nodes of a GraphDef in TensorFlow's binary format or, if there is an
  // error, none. INVALID_ARGUMENT if it cannot be read, a name is already taken, an
  // input does not exist, types do not fit or there is a cycle that is not a loop.
  absl::Status ImportGraphDef(absl::string_view bytes);
  // The graph as a GraphDef that TensorFlow reads, in its binary format.
  std::string SerializeAsGraphDef() const;
  // The graph as a GraphDef in its text format (pbtxt).
  std::string ToString() const;

  // nullptr if there is none.
  Node* FindNode(absl::string_view name) const;
  // From "node" or "node:index". NOT_FOUND, INVALID_ARGUMENT.
  absl::StatusOr<Output> FindOutput(absl::string_view name) const;
  // True if it is a node of this graph.
  bool Owns(const Node& node) const;
  // The number of nodes.
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  // The node of an id below num_nodes().
  Node* node(int id) const { return nodes_[id].get(); }
  // All nodes, by id.
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }

  // Makes random numbers repeatable, as tf.set_random_seed does. Random operations
  // that a Scope adds from now on without seeds of their own get this one and a
  // count of such operations, so that a program which builds the same graph draws
  // the same numbers.
  void set_seed(int64_t seed) { seed_ = seed; }
  // The seed, if one was set.
  const std::optional<int64_t>& seed() const { return seed_; }

  // Named lists of nodes, as TensorFlow's collections: "variables",
  // "trainable_variables", ... A node is in a list at most once.
  void AddToCollection(absl::string_view collection, absl::string_view node);
  // The names in a list; empty if there is no such list.
  const std::vector<std::string>& Collection(absl::string_view name) const;

  /// @cond INTERNAL
  // Adds one node. `def` needs no inputs; its attributes are completed with
  // defaults and checked, types are checked along every edge, shapes inferred.
  // Nothing is added if there is an error.
  absl::StatusOr<Node*> AddNode(tensorflow::NodeDef def, std::vector<Output> inputs, std::vector<Node*> control_inputs);
  // As ImportGraphDef. Unknown op types are kept.
  absl::Status Import(const tensorflow::GraphDef& def);
  // The nodes from id `first` on.
  tensorflow::GraphDef Export(int first = 0) const;

  // A name that no node and no name scope has: `base`, `base_1`, `base_2`, ...
  std::string UniqueName(absl::string_view base);
  // A name as UniqueName() makes it, which is then taken: for name scopes.
  std::string ReserveName(absl::string_view base);

  const tensorflow::FunctionDefLibrary& library() const { return *library_; }
  const tensorflow::VersionDef& versions() const { return *versions_; }
  // INVALID_ARGUMENT if a function differs from a known one of its name.
  absl::Status AddFunctions(const tensorflow::FunctionDefLibrary& library);
  // The schema of a registered op or of a function; nullptr if neither exists.
  const OpSchema* FindSchema(absl::string_view op) const;

  // Keeps only the nodes for which keep[id]; ids are given anew, in order.
  // REQUIRES: no kept node has an input that goes.
  void Retain(const std::vector<bool>& keep);
  // Adds a copy of a node of another graph; its inputs still point there, until
  // the caller sets them. REQUIRES: the name is new here.
  Node* AddCopy(const Node& node);
  // A copy; the node of id i here is the node of id i there.
  Graph Clone() const;
  /// @endcond

 private:
  friend class Scope;
  absl::Status InferShapes(Node* node);
  absl::Status CheckEdges(const Node& node) const;
  absl::Status Link(const tensorflow::GraphDef& def, int first);

  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<std::string, Node*> by_name_;
  absl::flat_hash_map<std::string, int> name_counters_;
  absl::flat_hash_set<std::string> reserved_names_;
  std::unique_ptr<tensorflow::FunctionDefLibrary> library_;  // never null
  absl::flat_hash_map<std::string, std::shared_ptr<const OpSchema>> function_schemas_;
  std::unique_ptr<tensorflow::VersionDef> versions_;  // never null
  absl::flat_hash_map<std::string, std::vector<std::string>> collections_;
  std::optional<int64_t> seed_;
  int64_t num_seeded_ = 0;  // operations whose seeds follow from seed_
  std::shared_ptr<absl::Status> build_status_;
};

/// @cond INTERNAL
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
/// @endcond

}  // namespace thalweg
