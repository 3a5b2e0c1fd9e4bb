// Copies of function bodies in a graph that calls them.
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

// How a call came about: the function it stands in, the one that called that
// one, and so on.
struct Callers {
  std::string function;
  std::shared_ptr<const Callers> outer;
  int depth = 1;
  int gradients = 0;  // how many of them are called for their gradients
};

// Those of what stands in `function`, which is called, or of which the gradient
// is made, in `outer`. UNIMPLEMENTED if it is there already: it calls itself.
// RESOURCE_EXHAUSTED if there are too many.
absl::StatusOr<std::shared_ptr<const Callers>> CallersIn(const std::string& function,
                                                         std::shared_ptr<const Callers> outer,
                                                         bool for_gradient = false);

// An op that stands for calls of functions, which its attributes name.
bool IsCallOp(absl::string_view op);

// A node that calls a function, to be replaced.
struct FunctionCall {
  Node* node = nullptr;
  // In a loop or a branch made of single nodes: its inputs tell in which
  // iteration it is, and whether it is dead.
  bool by_input = false;
  std::shared_ptr<const Callers> callers;  // nullptr: in the graph of a step
};

// Nodes in the order of their coming, each once.
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

// An argument of a body. A guarded one is dead, or late, whenever the body has
// to be.
struct BodyArg {
  Output value;
  bool guarded = false;
};

struct InlinedBody {
  std::vector<Output> results;
  NodeList effects;
  NodeList ends;  // when these are done, so is the body: effects and results
};

// Writes bodies into a graph, and keeps a list of the calls that are in it.
class FunctionInliner {
 public:
  // Nodes with effects are added to `targets`. Both are borrowed. `callers` are
  // those of the graph itself.
  FunctionInliner(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits,
                  std::shared_ptr<const Callers> callers);

  // Finds the calls that the graph has to begin with.
  absl::Status Start();
  // Bodies add the calls in them at the end.
  const std::vector<FunctionCall>& calls() const { return calls_; }
  void AddCall(FunctionCall call) { calls_.push_back(std::move(call)); }
  // A graph that has the functions, those that were added too.
  const Graph& library() const { return scratch_; }
  // A function that was made for a call. REQUIRES: the name is new.
  absl::Status AddFunction(tensorflow::FunctionDef function);
  // RESOURCE_EXHAUSTED if `more` nodes are too many.
  absl::Status CheckSize(int more) const;

  absl::StatusOr<FunctionBody> Instantiate(const tensorflow::NameAttrList& function, const std::string& prefix) const;

  // Adds the nodes of a function that `call` calls, named "call/part/...".
  // Those that nothing else holds back wait for `pivot`, if there is one.
  // `output_types` is empty where the caller takes what there is.
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
  int64_t bytes_ = 0;  // of the bodies
  absl::flat_hash_map<std::string, const tensorflow::FunctionDef*> functions_;
  std::vector<std::unique_ptr<const tensorflow::FunctionDef>> added_;
  Graph scratch_;  // where a body is read before its nodes are copied
  std::vector<FunctionCall> calls_;
};

}  // namespace thalweg
