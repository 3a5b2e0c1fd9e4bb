// SPDX-License-Identifier: Apache-2.0
// CheckNumerics passes its input on, or fails with a message if an element is
// infinite or not a number. V2 distinguishes the two infinities.
#include <cmath>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

// The sum of v * 0 is 0, or NaN if one v is not finite.
template <typename T>
THALWEG_SIMD bool AllFinite(const T* values, int64_t n) {
  using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
  constexpr int kLanes = 16;
  Compute sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) sums[k] += static_cast<Compute>(values[i + k]) * 0;
  }
  Compute sum = 0;
  for (; i < n; ++i) sum += static_cast<Compute>(values[i]) * 0;
  for (const Compute s : sums) sum += s;
  return sum == 0;
}

class CheckNumericsKernel : public Kernel {
 public:
  explicit CheckNumericsKernel(bool signs) : signs_(signs) {}
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(message_, init.Attr<std::string>("message"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    RETURN_IF_ERROR(Dispatch(FloatTypes(), input.dtype(), [&]<typename T>() {
      return AllFinite(input.data<T>(), input.num_elements()) ? absl::OkStatus() : Describe<T>(input);
    }));
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  template <typename T>
  absl::Status Describe(const Tensor& input) const {
    bool nan = false, plus = false, minus = false;
    for (const T& v : input.flat<T>()) {
      const double d = static_cast<double>(v);
      nan = nan || std::isnan(d);
      plus = plus || (std::isinf(d) && d > 0);
      minus = minus || (std::isinf(d) && d < 0);
    }
    std::vector<std::string> found;
    if (signs_) {
      if (minus) found.push_back("-Inf");
      if (plus) found.push_back("+Inf");
    } else if (plus || minus) {
      found.push_back("Inf");
    }
    if (nan) found.push_back("NaN");
    std::string list;
    for (size_t i = 0; i < found.size(); ++i) {
      const bool last = i + 1 == found.size();
      absl::StrAppend(&list, i == 0 ? "" : !last ? ", " : i > 1 ? ", and " : " and ", found[i]);
    }
    return InvalidArgument(message_, " : Tensor had ", list, " values");
  }

  const bool signs_;
  std::string message_;
};

absl::Status CheckNumericsGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const std::string message, c.Attr<std::string>("message"));
  c.set_dx(
      0,
      Output(c.scope().Add(
          c.node()->op(), {c.dy()},
          {{"message", absl::StrCat("Not a number (NaN) or infinity (Inf) values detected in gradient. ", message)}})));
  return absl::OkStatus();
}

Op CheckNumericsOp(absl::string_view name, bool signs) {
  return Op(name)
      .Input("tensor: T")
      .Output("output: T")
      .Attr("T: {bfloat16, half, float, double}")
      .Attr("message: string")
      .Stateful()
      .Shape(shapes::LikeInput0)
      .Kernel<CheckNumericsKernel>(signs)
      .Gradient(CheckNumericsGradient);
}

const OpRegistration kCheckNumericsOps[] = {
    CheckNumericsOp("CheckNumerics", false),
    CheckNumericsOp("CheckNumericsV2", true),
};

}  // namespace

Output CheckNumerics(const Scope& s, Output tensor, absl::string_view message) {
  return s.Add("CheckNumerics", {tensor}, {{"message", message}});
}

}  // namespace thalweg
