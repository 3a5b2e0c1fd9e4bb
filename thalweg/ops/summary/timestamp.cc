// SPDX-License-Identifier: Apache-2.0
// Timestamp: the seconds since 1970.
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

absl::Status ComputeTimestamp(KernelContext& context) {
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape()));
  *out->mutable_data<double>() = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  return absl::OkStatus();
}

const OpRegistration kTimestamp =
    Op("Timestamp").Output("ts: double").Stateful().Shape(shapes::Scalar).Compute(ComputeTimestamp).NotDifferentiable();

}  // namespace
}  // namespace thalweg
