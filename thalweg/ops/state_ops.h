// SPDX-License-Identifier: Apache-2.0
// Variables: reading, assigning, counting, scattering. Functions that take a `ref` take
// the output of RefVariable; those that take a `resource`, that of VarHandle. Models use
// train/layers/variable.h instead.
#pragma once

#include <cstdint>
#include <string>

#include "thalweg/graph/scope.h"

namespace thalweg {

// The name by which sessions share a variable.
struct VariableOptions {
  std::string container;    // where the resource lives; "" is the default container
  std::string shared_name;  // the name of the node, if empty
};
// A variable that edges carry by reference.
Output RefVariable(const Scope& s, DType dtype, const PartialShape& shape, const VariableOptions& options = {});
// A variable of one step.
Output TemporaryVariable(const Scope& s, DType dtype, const PartialShape& shape, absl::string_view var_name);
// The value of a TemporaryVariable, which it frees.
Output DestroyTemporaryVariable(const Scope& s, Output ref, absl::string_view var_name);

// A bool scalar: true if the variable, of either form, has a value.
Output IsVariableInitialized(const Scope& s, Output ref_or_resource);
// Increments an integer variable, of either form, and gives the value before; the step
// fails with OUT_OF_RANGE at `limit`.
Output CountUpTo(const Scope& s, Output ref_or_resource, int64_t limit);

// The checks and the locking of Assign.
struct AssignOptions {
  bool validate_shape = true;  // the value must have the shape of the variable
  bool use_locking = true;     // other updates wait
};
// The locking of an update of a variable.
struct UpdateOptions {
  bool use_locking = false;  // other updates wait
};
// Sets a variable; gives the variable.
Output Assign(const Scope& s, Output ref, Output value, const AssignOptions& options = {});
// Adds to a variable; gives the variable.
Output AssignAdd(const Scope& s, Output ref, Output value, const UpdateOptions& options = {});
// Subtracts from a variable; gives the variable.
Output AssignSub(const Scope& s, Output ref, Output value, const UpdateOptions& options = {});

// Sets rows of a variable of either form: variable[indices[i, ...], ...] = updates[i, ..., ...].
Output ScatterUpdate(const Scope& s, Output variable, Output indices, Output updates,
                     const AssignOptions& options = {});
// Changes rows of a variable of either form: adds, subtracts, multiplies, divides, or takes
// the minimum or maximum. Rows that repeat count each time:
Output ScatterAdd(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterSub(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterMul(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterDiv(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterMin(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options = {});
Output ScatterMax(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options = {});

// A variable that a handle names.
Output VarHandle(const Scope& s, DType dtype, const PartialShape& shape, const VariableOptions& options = {});
// Its value.
Output ReadVariable(const Scope& s, Output resource, DType dtype);
// Sets it.
Output AssignVariable(const Scope& s, Output resource, Output value);
// Adds to it.
Output AssignAddVariable(const Scope& s, Output resource, Output value);
// Subtracts from it.
Output AssignSubVariable(const Scope& s, Output resource, Output value);
// Its shape, a vector.
Output VariableShape(const Scope& s, Output resource, DType out_type = kInt32);
// Whether DestroyResource needs the resource to exist.
struct DestroyResourceOptions {
  bool ignore_lookup_error = true;  // a resource that does not exist is not an error
};
// Frees a resource of any kind.
Output DestroyResource(const Scope& s, Output resource, const DestroyResourceOptions& options = {});
// Rows of it by number.
Output ResourceGather(const Scope& s, Output resource, Output indices, DType dtype);

}  // namespace thalweg
