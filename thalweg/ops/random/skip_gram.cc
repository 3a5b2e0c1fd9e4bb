// SPDX-License-Identifier: Apache-2.0
// SkipGramGenerateCandidates of tf.contrib.text (TensorFlow 1): pairs of a token and a neighbour at a distance of at
// most a random number of tokens, which is drawn for every token.
#include <algorithm>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/seeds.h"
#include "thalweg/ops/support/uniform_below.h"

namespace thalweg {
namespace {

class SkipGramKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override { return SeedFromAttrs(init, &generator_); }

  absl::Status Compute(KernelContext& c) override {
    for (int i = 1; i < 6; ++i) {
      if (c.input(i).rank() != 0)
        return InvalidArgument("input ", i, " must be a scalar, got shape ", c.input(i).shape());
    }
    const Tensor& input = c.input(0);
    const int64_t least = c.input(1).scalar<int32_t>(), most = c.input(2).scalar<int32_t>();
    const int64_t begin = c.input(3).scalar<int32_t>(), limit = c.input(4).scalar<int32_t>();
    const bool with_self = c.input(5).scalar<bool>();
    if (least < 0 || most < 0) return InvalidArgument("Both min_skips and max_skips must be >= 0.");
    if (least > most) return InvalidArgument("min_skips must be <= max_skips.");
    if (begin < 0) return InvalidArgument("start must be >= 0, got ", begin);
    const int64_t n = input.num_elements(), end = limit < 0 ? n : std::min(begin + limit, n);
    constexpr size_t kMost = 1 << 26;
    std::vector<std::pair<int64_t, int64_t>> pairs;
    if (begin < end) {
      PhiloxSingle random(generator_.Reserve((end - begin + 1 + 3) / 4));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t skips =
            least + UniformBelow<uint32_t>(static_cast<uint32_t>(most - least + 1), [&] { return random(); });
        for (int64_t j = std::max(begin, i - skips); j < end && j <= i + skips; ++j) {
          if (j != i || with_self) pairs.emplace_back(i, j);
        }
        if (pairs.size() > kMost) return ResourceExhausted("more than ", kMost, " pairs of tokens");
      }
    }
    const Shape shape({static_cast<int64_t>(pairs.size())});
    ASSIGN_OR_RETURN(Tensor* const tokens, c.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor* const labels, c.Allocate(1, shape));
    return Dispatch(Types<std::string, int64_t, int32_t, int16_t>(), input.dtype(), [&]<typename T>() {
      const T* const from = input.data<T>();
      T *token = tokens->mutable_data<T>(), *label = labels->mutable_data<T>();
      for (const auto& [i, j] : pairs) {
        *token++ = from[i];
        *label++ = from[j];
      }
      return absl::OkStatus();
    });
  }

 private:
  SharedPhilox generator_;
};

const OpRegistration kSkipGram = Op("SkipGramGenerateCandidates")
                                     .Input("input_tensor: T")
                                     .Input("min_skips: int32")
                                     .Input("max_skips: int32")
                                     .Input("start: int32")
                                     .Input("limit: int32")
                                     .Input("emit_self_as_target: bool")
                                     .Output("tokens: T")
                                     .Output("labels: T")
                                     .Attr("T: type")
                                     .Attr("seed: int = 0")
                                     .Attr("seed2: int = 0")
                                     .Stateful()
                                     .Shape([](ShapeContext& c) {
                                       c.set_output(0, PartialShape::OfRank(1));
                                       c.set_output(1, PartialShape::OfRank(1));
                                       return absl::OkStatus();
                                     })
                                     .Kernel<SkipGramKernel>()
                                     .NotDifferentiable();

}  // namespace
}  // namespace thalweg
