// SPDX-License-Identifier: Apache-2.0
// RandomShuffle, StatelessShuffle: the rows of `value` (slices of its first dimension) in a random
// order, by Fisher and Yates: row i changes places with one of those from i on.
#include <cstring>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/random/seeds.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

std::vector<int64_t> Order(int64_t rows, const Philox& generator) {
  std::vector<int64_t> order(rows);
  for (int64_t i = 0; i < rows; ++i) order[i] = i;
  PhiloxSingle next(generator);
  for (int64_t i = 0; i + 1 < rows; ++i) std::swap(order[i], order[i + next() % static_cast<uint32_t>(rows - i)]);
  return order;
}

// The rows of input 0 in this order.
absl::Status Reorder(KernelContext& context, const std::vector<int64_t>& order) {
  const Tensor& input = context.input(0);
  const int64_t rows = input.dim(0), width = input.num_elements() / rows;
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, input.shape()));
  if (const size_t bytes = ElementSize(input.dtype()) * width; bytes > 0) {
    const char* const from = static_cast<const char*>(input.raw());
    char* const to = static_cast<char*>(out->raw());
    for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * bytes, from + order[i] * bytes, bytes);
    return absl::OkStatus();
  }
  return Dispatch(Types<std::string, ResourceHandle, Variant>(), input.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < rows; ++i) {
      const T* const from = input.data<T>() + order[i] * width;
      std::copy(from, from + width, out->mutable_data<T>() + i * width);
    }
    return absl::OkStatus();
  });
}

// A single element, or a single row, has only one order.
bool HasOneOrder(const Tensor& t) { return t.num_elements() <= 1 || t.dim(0) <= 1; }

class RandomShuffleKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override { return SeedFromAttrs(init, &generator_); }

  absl::Status Compute(KernelContext& context) override {
    if (HasOneOrder(context.input(0))) {
      context.set_output(0, context.TakeInput(0));
      return absl::OkStatus();
    }
    const int64_t rows = context.input(0).dim(0);
    return Reorder(context, Order(rows, generator_.Reserve((rows - 1 + 3) / 4)));
  }

 private:
  SharedPhilox generator_;
};

absl::Status ComputeStatelessShuffle(KernelContext& context) {
  ASSIGN_OR_RETURN(const Philox generator, PhiloxFromKeyCounter(context.input(1), context.input(2), context.input(3)));
  if (HasOneOrder(context.input(0))) {
    context.set_output(0, context.TakeInput(0));
    return absl::OkStatus();
  }
  return Reorder(context, Order(context.input(0).dim(0), generator));
}

const OpRegistration kRandomShuffleOps[] = {
    Op("RandomShuffle")
        .Input("value: T")
        .Output("output: T")
        .Attr("seed: int = 0")
        .Attr("seed2: int = 0")
        .Attr("T: type")
        .Stateful()
        .Shape(shapes::LikeInput0)
        .Kernel<RandomShuffleKernel>()
        .NotDifferentiable(),
    Op("StatelessShuffle")
        .Input("value: T")
        .Input("key: uint64")
        .Input("counter: uint64")
        .Input("alg: int32")
        .Output("output: T")
        .Attr("T: type")
        .Shape(shapes::LikeInput0)
        .Compute(ComputeStatelessShuffle)
        .NotDifferentiable(),
};

}  // namespace

Output RandomShuffle(const Scope& s, Output value, const RandomOptions& options) {
  return s.Add("RandomShuffle", {value}, {{"seed", options.seed}, {"seed2", options.seed2}});
}

}  // namespace thalweg
