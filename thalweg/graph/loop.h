// The nodes of a loop, for those who build one or add to it: While (while.h) and
// gradients.
//
//   start -> Enter -> Merge -> Switch -> body -> NextIteration -> back to Merge
//                       |        |  `-> Exit -> end
//                   condition -> LoopCond
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "thalweg/graph/frames.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// Describes a loop while it is worked on; the nodes are the graph's. Errors go to
// the scope; after one, outputs are nothing.
class Loop {
 public:
  // A value that goes round.
  struct Variable {
    Output start;            // outside
    Node* merge = nullptr;   // what the condition sees
    Node* branch = nullptr;  // the Switch
    Output next;             // inside
    Output end;              // outside
    Output near;             // whose device it goes round on, if any

    // What the body sees.
    Output value() const { return Output(branch, 1); }
  };

  // A new loop, with the name of the scope, which is its own.
  explicit Loop(const Scope& s);
  // The loop that is a frame of the graph; `parent` is the one around it, or
  // nullptr, and stays where it is. UNIMPLEMENTED if it is not of the form above.
  static absl::StatusOr<Loop> Find(const Scope& s, const Frames& frames, int frame, Loop* parent);

  const std::vector<Variable>& variables() const { return variables_; }
  // Enter nodes of values that stay the same.
  const std::vector<Node*>& constants() const { return constants_; }
  bool IsConstant(const Node* node) const;
  // True if the outputs of the node are values of an iteration.
  bool Contains(const Node* node) const { return inside_.contains(node); }
  // True if the node was added to this loop, or to one inside of it.
  bool HasAdded(const Node* node) const { return added_.contains(node); }

  // Where the condition and the body are built. Operations of these scopes
  // belong to the loop, when Adopt has seen them.
  Scope condition_scope() const;
  Scope body_scope() const;
  // Takes in the nodes from `first` on: what they use from outside enters the
  // loop. Constants stay outside.
  void Adopt(int first);

  // `outside` in every iteration: its value or, `as_ref`, the variable.
  Output Constant(Output outside, bool as_ref = false);
  // A value of the top level, as this loop's Enter nodes can take it.
  Output FromTopLevel(Output value);
  // Adds a variable, and gives its number. Its shape is that in all iterations;
  // it goes round on the device of `near`, if that is given.
  int AddVariable(Output start, const PartialShape& shape, Output near = {});
  // REQUIRES: there is a variable.
  void SetCondition(Output go_on);
  // Closes the circle of a variable; gives its end.
  Output SetNext(int variable, Output next);
  // An operation of each iteration.
  Node* Add(absl::string_view op, std::vector<OpInput> inputs, std::vector<AttrArg> attrs = {}, Output near = {});
  // Says that a node belongs to the iterations.
  void Note(const Node* node);

 private:
  void Branch(Variable& v);
  void Capture(Node* node, const Node* pivot);
  void NoteAdded(const Node* node);

  Scope outside_;  // for Enter nodes: with the control dependencies of the whole
  Scope scope_;
  std::string frame_;
  Loop* parent_ = nullptr;
  std::vector<Variable> variables_;
  std::vector<Node*> constants_;
  absl::flat_hash_map<std::pair<Output, bool>, Output> constant_of_;  // (outside, as_ref) -> inside
  Output condition_;
  Node* pivot_ = nullptr;  // runs in iterations only, not when the loop is over
  absl::flat_hash_set<const Node*> inside_;
  absl::flat_hash_set<const Node*> in_body_;  // those that do not run either when it is over
  absl::flat_hash_set<const Node*> added_;
};

// A number, for counters.
Output Int32Const(const Scope& s, int32_t value);

}  // namespace thalweg
