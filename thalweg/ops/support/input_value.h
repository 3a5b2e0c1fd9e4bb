// SPDX-License-Identifier: Apache-2.0
// Inputs of ops that read a few rows, or the shape, of a tensor. If the tensor is a
// variable's value, the runtime hands them the variable itself (ReadsInPlace() in
// runtime/deferred_reads.h): a table of any size is then neither copied nor held.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Runs `read` with the value of input i: of a variable, under its lock. `read` must
// not keep the tensor. FAILED_PRECONDITION if the variable has no value yet.
absl::Status WithValue(KernelContext& context, int i, absl::FunctionRef<absl::Status(const Tensor& value)> read);

}  // namespace thalweg
