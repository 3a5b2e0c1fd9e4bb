// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/input_value.h"

#include "thalweg/base/status.h"

namespace thalweg {

absl::Status WithValue(KernelContext& context, int i, absl::FunctionRef<absl::Status(const Tensor& value)> read) {
  if (!context.is_variable(i)) return read(context.input(i));
  const Variable& variable = context.variable(i);
  return variable.Inspect([&](const Tensor& value) -> absl::Status {
    if (!value.has_value()) return FailedPrecondition("Attempting to use uninitialized value ", variable.name());
    return read(value);
  });
}

}  // namespace thalweg
