// For tests of ops: run one, compare tensors, check gradients by numbers.
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

// /job:localhost/replica:0/task:0/device:CPU:0 with a helper thread; one for
// the whole test program.
Device& TestDevice();

// Adds `op` to a graph of placeholders for `inputs` and runs it. Ops with list
// arguments take one entry per argument.
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

// Same type, shape and elements: floats within `tolerance` (absolute, and
// relative to the expected value), others exactly.
void ExpectTensor(const Tensor& actual, const Tensor& expected, double tolerance = 1e-5);

// d(sum(w * y))/dx by the graph's gradient against central differences, for
// random weights w. `build` makes y of the xs; xs are double or float
// (double is far more exact).
void ExpectGradient(const std::function<Output(const Scope&, const std::vector<Output>&)>& build,
                    const std::vector<Tensor>& xs, double tolerance = 1e-5);

// The op types that ExpectGradient went through so far, from an x to the y.
const std::set<std::string>& OpsOfCheckedGradients();

// A tensor of values in [low, high) from a fixed sequence.
Tensor TestValues(DType dtype, Shape shape, double low = -1, double high = 1, int seed = 1);

}  // namespace thalweg
