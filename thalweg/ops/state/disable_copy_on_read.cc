// SPDX-License-Identifier: Apache-2.0
// DisableCopyOnRead tells a variable to give its readers its own memory. Ours
// always do: a writer that finds a reader makes a copy.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/variable_update.h"

namespace thalweg {
namespace {

absl::Status ComputeDisableCopyOnRead(KernelContext& c) { return FindVariable(c, 0).status(); }

const OpRegistration kDisableCopyOnRead = Op("DisableCopyOnRead")
                                              .Input("resource: resource")
                                              .Stateful()
                                              .Shape(shapes::NoOutputs)
                                              .Compute(ComputeDisableCopyOnRead)
                                              .NotDifferentiable();

}  // namespace
}  // namespace thalweg
