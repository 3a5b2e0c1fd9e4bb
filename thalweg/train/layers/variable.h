// SPDX-License-Identifier: Apache-2.0
// Variables of models: a handle to read, update and initialize one, and the lists of
// variables that a graph keeps.
//
//   const Var w = MakeVariable(s, "weights", {784, 10}, {.initializer = initializers::GlorotUniform()});
//   const Output y = MatMul(s, x, w);      // reads it
//   Run(InitializeVariables(s));
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/layers/initializers.h"

namespace thalweg {

// A variable. A handle, valid as long as the graph. It converts to an Output: the variable's
// value. A default one stands for "none".
struct Var {
  Output ref;             // the variable itself, for Assign and the Apply ops
  Output read;            // its value
  Operation initializer;  // assigns the initial value

  // The value.
  operator Output() const { return read; }                        // NOLINT: implicit by design
  explicit operator bool() const { return ref.node != nullptr; }  // false for "none"
  const std::string& name() const;                                // "" for "none"
  DType dtype() const { return RemoveRef(ref.dtype()); }          // element type
  const PartialShape& shape() const { return ref.shape(); }       // as declared
};

// The initial value and type of a variable, and who trains it.
struct VarOptions {
  Initializer initializer = initializers::Default();  // initial value
  DType dtype = kFloat;                               // element type
  bool trainable = true;                              // in TrainableVariables(), which optimizers train by default
  bool local = false;  // belongs to this worker only: not trained, not saved, initialized by every worker
};

// Adds a variable `name`, with its operations `name/read` and `name/Assign`, to the graph and
// its lists. Ignores the scope's control dependencies.
Var MakeVariable(const Scope& s, absl::string_view name, const Shape& shape, const VarOptions& options = {});
// The same with the dimensions in braces; {} is a scalar.
Var MakeVariable(const Scope& s, absl::string_view name, std::initializer_list<int64_t> dims,
                 const VarOptions& options = {});
// Adds a variable with the value, type and shape of `initial_value`.
Var MakeVariable(const Scope& s, absl::string_view name, Output initial_value, bool trainable = true);

// The operations of state_ops.h on a variable of a model:
Output Assign(const Scope& s, const Var& var, Output value, const AssignOptions& options = {});
Output AssignAdd(const Scope& s, const Var& var, Output value, const UpdateOptions& options = {});
Output AssignSub(const Scope& s, const Var& var, Output value, const UpdateOptions& options = {});
Output ScatterUpdate(const Scope& s, const Var& var, Output indices, Output updates, const AssignOptions& options = {});
Output ScatterAdd(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterSub(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterMul(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterDiv(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterMin(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterMax(const Scope& s, const Var& var, Output indices, Output updates, const UpdateOptions& options = {});
Output CountUpTo(const Scope& s, const Var& var, int64_t limit);
Output IsVariableInitialized(const Scope& s, const Var& var);

// The variable of that name that MakeVariable added; empty if there is none.
Var GetVariable(const Graph& graph, absl::string_view name);

// All variables of a graph except local ones, in the order in which they were added.
std::vector<Var> GlobalVariables(const Graph& graph);
// The variables that optimizers train by default.
std::vector<Var> TrainableVariables(const Graph& graph);
// The local variables. They are in neither of the other lists.
std::vector<Var> LocalVariables(const Graph& graph);

// Returns an operation, "init", that initializes all variables added so far except local
// ones.
Output InitializeVariables(const Scope& s);

// The variable that counts steps: an int64 scalar, "global_step", at the root of the graph
// whatever the scope is.
Var GetOrCreateGlobalStep(const Scope& s);
// The same; empty if the graph has none.
Var GetGlobalStep(const Graph& graph);

// Names of the lists in the graph, as TensorFlow calls them:
inline constexpr char kGlobalVariables[] = "variables";
inline constexpr char kTrainableVariables[] = "trainable_variables";
inline constexpr char kLocalVariables[] = "local_variables";
inline constexpr char kGlobalStep[] = "global_step";

// Nodes whose first output is the global step after an update that another task
// makes, as in synchronous training. Steps that run one report its value.
inline constexpr char kGlobalStepUpdates[] = "global_step_updates";

}  // namespace thalweg
