// SPDX-License-Identifier: Apache-2.0
// Shared by ops that change variables: finding the variable that an input
// means, locking several at once, and where to write.
#pragma once

#include <array>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/variable.h"

namespace thalweg {

// A variable that handles name (VarHandleOp). As in TensorFlow, it is not the
// one of the same name that ref edges carry.
class ResourceVariable final : public Variable {
 public:
  using Variable::Variable;
};

// A variable, kept alive where an edge does not.
struct HeldVariable {
  Variable* variable = nullptr;
  std::shared_ptr<Variable> owner;
  Variable* operator->() const { return variable; }
  Variable& operator*() const { return *variable; }
};

// The variable of input i: that of a ref edge, or the one that a handle names.
// NOT_FOUND if there is none of that name; INVALID_ARGUMENT if the handle
// belongs to another device.
absl::StatusOr<HeldVariable> FindVariable(KernelContext& context, int i);

// The handle in input i.
absl::StatusOr<ResourceHandle> HandleOf(KernelContext& context, int i);

// FAILED_PRECONDITION ("Attempting to use uninitialized value v") unless
// `value`, of `variable`, is one.
absl::Status CheckInitialized(const Variable& variable, const Tensor& value);

// Holds the locks of the variables of inputs [0, n), taken in order of address
// so that two updates never wait for each other.
class LockedVariables {
 public:
  static constexpr int kMax = 4;

  LockedVariables() = default;
  ~LockedVariables();
  LockedVariables(const LockedVariables&) = delete;
  LockedVariables& operator=(const LockedVariables&) = delete;

  // Finds, locks, and checks that all are initialized. Called once.
  // REQUIRES: n <= kMax.
  absl::Status Lock(KernelContext& context, int n);

  Variable& variable(int i) const { return *held_[i]; }
  // For checks, and for updates of rows (Variable::MakeRowsWritable).
  Tensor& value(int i) const;
  // For all other updates.
  Tensor& mutable_value(int i) const;

 private:
  std::array<HeldVariable, kMax> held_;
  std::array<Variable*, kMax> order_ = {};  // what is locked, without repeats
  int locked_ = 0;
};

// Where an update that writes every element puts the new value: into the
// memory of the old one or, if a reader still holds that, into a new tensor.
// Readers of the old value see all or nothing of the update.
class InPlaceOrNew {
 public:
  // `value` stays as it is until Commit.
  absl::Status Prepare(KernelContext& context, Tensor& value);
  Tensor& target() { return fresh_.has_value() ? fresh_ : *value_; }
  void Commit() {
    if (fresh_.has_value()) *value_ = std::move(fresh_);
  }

 private:
  Tensor* value_ = nullptr;
  Tensor fresh_;
};

// The shape of the variable behind input i, as far as the graph knows it: that of a ref edge,
// or what VarHandleOp declares.
PartialShape VariableShapeOf(const ShapeContext& c, int i);
// The type that VarHandleOp declares for the handle in input i; kInvalid if it
// is not known.
DType VariableTypeOf(const ShapeContext& c, int i);

}  // namespace thalweg
