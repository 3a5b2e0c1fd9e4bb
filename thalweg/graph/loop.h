// SPDX-License-Identifier: Apache-2.0
// Builds the nodes of a loop, or adds nodes to an existing one. Used by While
// (while.h) and by gradients.
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

// Describes a loop while it is being built. The graph owns the nodes. Errors go to the
// scope; after an error, outputs are null.
class Loop {
 public:
  // A loop variable: a value that each iteration passes to the next.
  struct Variable {
    Output start;            // its initial value, outside of the loop
    Node* merge = nullptr;   // its value in the condition
    Node* branch = nullptr;  // the Switch
    Output next;             // the value for the next iteration, inside the loop
    Output end;              // its final value, outside of the loop
    Output near;             // if set, the loop variable is placed on the device of this output

    // Its value in the body.
    Output value() const { return Output(branch, 1); }
  };

  // A new loop with the name of the scope. The scope must not be used for another loop.
  explicit Loop(const Scope& s);
  // The existing loop of frame `frame`. `parent` is the enclosing loop or nullptr, and
  // must outlive the result. Returns UNIMPLEMENTED if the loop does not have the form
  // above.
  static absl::StatusOr<Loop> Find(const Scope& s, const Frames& frames, int frame, Loop* parent);

  const std::vector<Variable>& variables() const { return variables_; }
  // The Enter nodes of loop invariants.
  const std::vector<Node*>& constants() const { return constants_; }
  bool IsConstant(const Node* node) const;
  // True if the node's outputs are values of an iteration.
  bool Contains(const Node* node) const { return inside_.contains(node); }
  // True if the node was added to this loop, or to one inside of it.
  bool HasAdded(const Node* node) const { return added_.contains(node); }

  // Scopes to build the condition and the body in. Call Adopt() afterwards to make the
  // new operations part of the loop.
  Scope condition_scope() const;
  Scope body_scope() const;
  // Makes all nodes with an id of at least `first` part of the loop. Values that they
  // use from outside get an Enter node. Constants stay outside.
  void Adopt(int first);

  // Makes `outside` available in every iteration, as a value or, with `as_ref`, as a
  // reference to the variable.
  Output Constant(Output outside, bool as_ref = false);
  // Makes a value of the top level available in the frame around this loop, by passing
  // it through the enclosing loops.
  Output FromTopLevel(Output value);
  // Adds a loop variable and returns its index. `shape` must hold in all iterations.
  // If `near` is given, the variable is placed on the device of `near`.
  int AddVariable(Output start, const PartialShape& shape, Output near = {});
  // REQUIRES: there is a variable.
  void SetCondition(Output go_on);
  // Sets the value of a loop variable for the next iteration, and returns its final
  // value.
  Output SetNext(int variable, Output next);
  // Adds an operation that runs in each iteration.
  Node* Add(absl::string_view op, std::vector<OpInput> inputs, std::vector<AttrArg> attrs = {}, Output near = {});
  // Records that a node belongs to the iterations.
  void Note(const Node* node);

 private:
  void Branch(Variable& v);
  void Capture(Node* node, const Node* pivot);
  void NoteAdded(const Node* node);

  Scope outside_;  // for Enter nodes; has the control dependencies of the whole loop
  Scope scope_;
  std::string frame_;
  Loop* parent_ = nullptr;
  std::vector<Variable> variables_;
  std::vector<Node*> constants_;
  absl::flat_hash_map<std::pair<Output, bool>, Output> constant_of_;  // (outside, as_ref) -> inside
  Output condition_;
  Node* pivot_ = nullptr;  // runs in every iteration, but not after the last one; nodes without inputs depend on it
  absl::flat_hash_set<const Node*> inside_;
  absl::flat_hash_set<const Node*> in_body_;  // like the pivot, these do not run after the last iteration
  absl::flat_hash_set<const Node*> added_;
};

// A constant for counters.
Output Int32Const(const Scope& s, int32_t value);

}  // namespace thalweg
