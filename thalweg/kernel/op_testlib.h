// SPDX-License-Identifier: Apache-2.0
// For tests of ops: run an op, compare tensors, check gradients numerically.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/device.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The device /job:localhost/replica:0/task:0/device:CPU:0, with a helper thread. The
// whole test program shares it.
Device& TestDevice();

// Adds `op` to a graph with placeholders for `inputs` and runs it. A list argument is
// one entry.
struct OpArg {
  OpArg(Tensor t) : tensors{std::move(t)} {}                                    // NOLINT
  OpArg(std::vector<Tensor> list) : tensors(std::move(list)), is_list(true) {}  // NOLINT
  std::vector<Tensor> tensors;
  bool is_list = false;
};
absl::StatusOr<std::vector<Tensor>> RunOp(absl::string_view op, std::vector<OpArg> inputs,
                                          std::vector<AttrArg> attrs = {});

// The shape that the graph infers for output 0 of `op` on placeholders of these
// types and shapes, as text ("[?,2]"), or the error.
absl::StatusOr<std::string> InferShape(absl::string_view op, const std::vector<std::pair<DType, PartialShape>>& inputs,
                                       std::vector<AttrArg> attrs = {});

// Expects the same type, shape and elements. Floating-point elements may differ by
// `tolerance` (absolute, and relative to the expected value).
void ExpectTensor(const Tensor& actual, const Tensor& expected, double tolerance = 1e-5);

// Compares d(sum(w * y))/dx, computed by the graph's gradient, with central differences,
// for random weights w. `build` computes y from the xs. The xs are double or float;
// double is far more precise.
void ExpectGradient(const std::function<Output(const Scope&, const std::vector<Output>&)>& build,
                    const std::vector<Tensor>& xs, double tolerance = 1e-5);

// The op types whose gradients ExpectGradient() has checked so far: those between an x
// and the y.
const std::set<std::string>& OpsOfCheckedGradients();

// A tensor of pseudo-random values in [low, high), the same in every run.
Tensor TestValues(DType dtype, Shape shape, double low = -1, double high = 1, int seed = 1);

}  // namespace thalweg
