// Variables: reading, assigning, counting, scattering. Functions that take a
// `ref` take the output of RefVariable; those that take a `resource`, that of
// VarHandle. See train/layers/variable.h for what models use.
#pragma once

#include <string>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Variables that edges carry by reference.
struct VariableOptions {
  std::string container;
  std::string shared_name;  // the name of the node, if empty
};
Output RefVariable(const Scope& s, DType dtype, const PartialShape& shape, VariableOptions options = {});
Output TemporaryVariable(const Scope& s, DType dtype, const PartialShape& shape, absl::string_view var_name);
Output DestroyTemporaryVariable(const Scope& s, Output ref, absl::string_view var_name);

// Of either form.
Output IsVariableInitialized(const Scope& s, Output ref_or_resource);
Output CountUpTo(const Scope& s, Output ref_or_resource, int64_t limit);

struct AssignOptions {
  bool validate_shape = true;
  bool use_locking = true;
};
struct UpdateOptions {
  bool use_locking = false;
};
Output Assign(const Scope& s, Output ref, Output value, AssignOptions options = {});
Output AssignAdd(const Scope& s, Output ref, Output value, UpdateOptions options = {});
Output AssignSub(const Scope& s, Output ref, Output value, UpdateOptions options = {});

// variable[indices[i, ...], ...] op= updates[i, ..., ...], for either form.
Output ScatterUpdate(const Scope& s, Output variable, Output indices, Output updates, AssignOptions options = {});
Output ScatterAdd(const Scope& s, Output variable, Output indices, Output updates, UpdateOptions options = {});
Output ScatterSub(const Scope& s, Output variable, Output indices, Output updates, UpdateOptions options = {});
Output ScatterMul(const Scope& s, Output variable, Output indices, Output updates, UpdateOptions options = {});
Output ScatterDiv(const Scope& s, Output variable, Output indices, Output updates, UpdateOptions options = {});
Output ScatterMin(const Scope& s, Output variable, Output indices, Output updates, UpdateOptions options = {});
Output ScatterMax(const Scope& s, Output variable, Output indices, Output updates, UpdateOptions options = {});

// Variables that handles name.
Output VarHandle(const Scope& s, DType dtype, const PartialShape& shape, VariableOptions options = {});
Output ReadVariable(const Scope& s, Output resource, DType dtype);
Output AssignVariable(const Scope& s, Output resource, Output value);
Output AssignAddVariable(const Scope& s, Output resource, Output value);
Output AssignSubVariable(const Scope& s, Output resource, Output value);
Output VariableShape(const Scope& s, Output resource, DType out_type = kInt32);
Output DestroyResource(const Scope& s, Output resource, bool ignore_lookup_error = true);
// Rows of a variable.
Output ResourceGather(const Scope& s, Output resource, Output indices, DType dtype);

}  // namespace thalweg
