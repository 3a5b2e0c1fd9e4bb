// SPDX-License-Identifier: Apache-2.0
// StochasticCastToInt: numbers rounded up or down at random, so that the mean of
// many casts is the number itself. What does not fit becomes the nearest integer
// that does; NaN becomes 0.
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"

namespace thalweg {
namespace {

template <typename To>
To Round(double value, double random) {
  constexpr double kLeast = std::numeric_limits<To>::min(), kMost = std::numeric_limits<To>::max();
  if (std::isnan(value)) return 0;
  if (value >= kMost) return std::numeric_limits<To>::max();
  if (value <= kLeast) return std::numeric_limits<To>::min();
  const double below = std::floor(value);
  if (below == value) return static_cast<To>(value);
  // The magnitude goes up if `random` is below its fraction.
  return static_cast<To>(value < 0 ? std::floor(value + random) : std::floor(value + 1 - random));
}

absl::Status ComputeStochasticCast(KernelContext& c) {
  const Tensor& x = c.input(0);
  ASSIGN_OR_RETURN(Philox generator, PhiloxFromKeyCounter(c.input(1), c.input(2), c.input(3)));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
  return Dispatch(FloatTypes(), x.dtype(), [&]<typename From>() {
    return Dispatch(Types<int8_t, int16_t, int32_t>(), out->dtype(), [&]<typename To>() {
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const Philox::Block block = generator();
        const double random = std::is_same_v<From, double> ? UnitDouble(block[0], block[1]) : UnitFloat(block[0]);
        out->mutable_data<To>()[i] = Round<To>(static_cast<double>(x.data<From>()[i]), random);
      }
      return absl::OkStatus();
    });
  });
}

const OpRegistration kStochasticCast = Op("StochasticCastToInt")
                                           .Input("input: Tin")
                                           .Input("key: uint64")
                                           .Input("counter: uint64")
                                           .Input("alg: int32")
                                           .Output("output: Tout")
                                           .Attr("Tin: {half, bfloat16, float, double}")
                                           .Attr("Tout: {int8, int16, int32}")
                                           .Shape(shapes::LikeInput0)
                                           .Compute(ComputeStochasticCast)
                                           .NotDifferentiable();

}  // namespace
}  // namespace thalweg
