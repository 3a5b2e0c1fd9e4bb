// RandomShuffle: the rows of `value` (slices of its first dimension) in a random
// order, by Fisher and Yates: row i changes places with one of those from i on.
#include <cstring>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/seeds.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

class RandomShuffleKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override { return SeedFromAttrs(init, &generator_); }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    // A single element, or a single row, has only one order.
    if (input.num_elements() <= 1 || input.dim(0) <= 1) {
      context.set_output(0, context.TakeInput(0));
      return absl::OkStatus();
    }
    const int64_t rows = input.dim(0);
    const std::vector<int64_t> order = Order(rows);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, input.shape()));
    const int64_t width = input.num_elements() / rows;
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

 private:
  std::vector<int64_t> Order(int64_t rows) {
    std::vector<int64_t> order(rows);
    for (int64_t i = 0; i < rows; ++i) order[i] = i;
    PhiloxSingle next(generator_.Reserve((rows - 1 + 3) / 4));
    for (int64_t i = 0; i + 1 < rows; ++i) std::swap(order[i], order[i + next() % static_cast<uint32_t>(rows - i)]);
    return order;
  }

  SharedPhilox generator_;
};

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
};

}  // namespace

Output RandomShuffle(const Scope& s, Output value, const RandomOptions& options) {
  return s.Add("RandomShuffle", {value}, {{"seed", options.seed}, {"seed2", options.seed2}});
}

}  // namespace thalweg
