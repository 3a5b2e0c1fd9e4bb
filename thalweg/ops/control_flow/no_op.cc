// SPDX-License-Identifier: Apache-2.0
// NoOp does nothing: it is there for its control inputs.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

const OpRegistration kNoOp =
    Op("NoOp").Shape(shapes::NoOutputs).Compute([](KernelContext&) { return absl::OkStatus(); }).NotDifferentiable();

}  // namespace

Output NoOp(const Scope& s) { return s.Add("NoOp"); }

Output Group(const Scope& s, const std::vector<Output>& operations) {
  return NoOp(s.WithControlDependencies(operations));
}

}  // namespace thalweg
