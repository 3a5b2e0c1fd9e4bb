// SPDX-License-Identifier: Apache-2.0
// Copies function bodies into the graph that calls them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/frames.h"
#include "thalweg/graph/graph.h"
#include "thalweg/runtime/function_body.h"
#include "thalweg/runtime/functions.h"

namespace thalweg {

// The chain of calls that leads to a node: the function that contains it, the function
// that calls that one, and so on. Used to detect recursion.
struct Callers {
  std::string function;
  std::shared_ptr<const Callers> outer;
  int depth = 1;
  int gradients = 0;  // number of gradient functions in the chain
};

// Extends the chain `outer` by `function`, which is called, or whose gradient is built,
// there. UNIMPLEMENTED if the chain already contains it: the function is recursive.
// RESOURCE_EXHAUSTED if the chain is too long.
absl::StatusOr<std::shared_ptr<const Callers>> CallersIn(const std::string& function,
                                                         std::shared_ptr<const Callers> outer,
                                                         bool for_gradient = false);

// Whether an op calls functions that its attributes name.
bool IsCallOp(absl::string_view op);

// A node that calls a function, to be replaced.
struct FunctionCall {
  Node* node = nullptr;
  // True inside a loop or branch that consists of v1 control flow nodes. The iteration
  // and the deadness of the call then follow from its inputs.
  bool by_input = false;
  std::shared_ptr<const Callers> callers;  // nullptr for a call in the step's graph itself
};

// A set of nodes in insertion order.
class NodeList {
 public:
  void Add(Node* node) {
    if (seen_.insert(node).second) nodes_.push_back(node);
  }
  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  std::vector<Node*> nodes_;
  absl::flat_hash_set<Node*> seen_;
};

// An argument of a body. A guarded argument is dead or delayed whenever the body must
// be, so nodes that depend on it need no other control input.
struct BodyArg {
  Output value;
  bool guarded = false;
};

struct InlinedBody {
  std::vector<Output> results;
  NodeList effects;
  NodeList ends;  // effects and producers of results: when these have run, the body has
};

// Inlines bodies into a graph, and keeps the list of calls that are left in it.
class FunctionInliner {
 public:
  // `graph` and `targets` are borrowed. Nodes with side effects are added to `targets`.
  // `callers` is the call chain of `graph` itself.
  FunctionInliner(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits,
                  std::shared_ptr<const Callers> callers);

  // Finds the calls in the original graph.
  absl::Status Start();
  // The calls; each inlined body appends those that it contains.
  const std::vector<FunctionCall>& calls() const { return calls_; }
  void AddCall(FunctionCall call) { calls_.push_back(std::move(call)); }
  // A graph whose library has all functions, including those of AddFunction().
  const Graph& library() const { return scratch_; }
  // Adds a synthesized function. REQUIRES: the name is new.
  absl::Status AddFunction(tensorflow::FunctionDef function);
  // RESOURCE_EXHAUSTED if `more` additional nodes would exceed the limit.
  absl::Status CheckSize(int more) const;

  absl::StatusOr<FunctionBody> Instantiate(const tensorflow::NameAttrList& function, const std::string& prefix) const;

  // Adds the nodes of a function that `call` calls, named "call/part/...". Nodes that
  // depend on no guarded input get a control input from `pivot`, if it is given. An empty
  // `output_types` accepts any types.
  absl::StatusOr<InlinedBody> Add(const FunctionCall& call, const tensorflow::NameAttrList& function,
                                  absl::string_view part, const std::vector<BodyArg>& args, Node* pivot,
                                  const std::vector<DType>& output_types);

 private:
  using ArgMap = absl::flat_hash_map<const Node*, const BodyArg*>;

  bool IsCall(const Node& node) const;
  absl::StatusOr<std::vector<Node*>> CopyNeeded(const FunctionBody& made, const ArgMap& arg_of);
  absl::StatusOr<InlinedBody> FindEnds(const FunctionBody& made, const Frames& frames,
                                       const std::vector<Node*>& copies);
  absl::StatusOr<Output> Guard(const Node& call, const std::string& name, Output value, Node* pivot);

  Graph& graph_;
  std::vector<std::string>& targets_;
  const InlineLimits limits_;
  const std::shared_ptr<const Callers> callers_;
  int64_t bytes_ = 0;  // size of the bodies so far
  absl::flat_hash_map<std::string, const tensorflow::FunctionDef*> functions_;
  std::vector<std::unique_ptr<const tensorflow::FunctionDef>> added_;
  Graph scratch_;  // a body is imported here before its nodes are copied
  std::vector<FunctionCall> calls_;
};

}  // namespace thalweg
