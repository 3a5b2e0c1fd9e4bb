// SPDX-License-Identifier: Apache-2.0
// _UnaryOpsComposition: several elementwise functions of one argument, one after the other. TensorFlow's graph
// optimizer makes it out of chains, and a TensorFlow master sends it to the tasks of its cluster.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

// The values are computed in T, or in float if T has half precision, and rounded to T after every function.
template <typename T>
struct NamedFunction {
  const char* name;
  T (*call)(T);
};

template <typename T>
inline const NamedFunction<T> kComposable[] = {
    {"Abs", [](T x) { return std::abs(x); }},
    {"Acos", [](T x) { return std::acos(x); }},
    {"Acosh", [](T x) { return std::acosh(x); }},
    {"Asin", [](T x) { return std::asin(x); }},
    {"Asinh", [](T x) { return std::asinh(x); }},
    {"Atan", [](T x) { return std::atan(x); }},
    {"Atanh", [](T x) { return std::atanh(x); }},
    {"Ceil", [](T x) { return std::ceil(x); }},
    {"Cos", [](T x) { return std::cos(x); }},
    {"Cosh", [](T x) { return std::cosh(x); }},
    {"Elu", [](T x) { return x < 0 ? std::expm1(x) : x; }},
    {"Erf", [](T x) { return std::erf(x); }},
    {"Erfc", [](T x) { return std::erfc(x); }},
    {"Exp", [](T x) { return std::exp(x); }},
    {"Expm1", [](T x) { return std::expm1(x); }},
    {"Floor", [](T x) { return std::floor(x); }},
    {"Inv", [](T x) { return T(1) / x; }},
    {"Lgamma", [](T x) { return std::lgamma(x); }},
    {"Log", [](T x) { return std::log(x); }},
    {"Log1p", [](T x) { return std::log1p(x); }},
    {"Neg", [](T x) { return -x; }},
    {"Reciprocal", [](T x) { return T(1) / x; }},
    {"Relu", [](T x) { return x < 0 ? T(0) : x; }},
    {"Relu6", [](T x) { return x < 0 ? T(0) : std::min(x, T(6)); }},
    {"Rint", [](T x) { return std::nearbyint(x); }},
    {"Round", [](T x) { return std::nearbyint(x); }},
    {"Rsqrt", [](T x) { return T(1) / std::sqrt(x); }},
    {"Selu",
     [](T x) {
       return x < 0 ? static_cast<T>(1.7580993408473768) * std::expm1(x) : static_cast<T>(1.0507009873554805) * x;
     }},
    {"Sigmoid", [](T x) { return T(1) / (T(1) + std::exp(-x)); }},
    {"Sign", [](T x) { return std::isnan(x) ? x : static_cast<T>((x > 0) - (x < 0)); }},
    {"Sin", [](T x) { return std::sin(x); }},
    {"Sinh", [](T x) { return std::sinh(x); }},
    {"Softplus", [](T x) { return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x))); }},
    {"Softsign", [](T x) { return x / (T(1) + std::abs(x)); }},
    {"Sqrt", [](T x) { return std::sqrt(x); }},
    {"Square", [](T x) { return x * x; }},
    {"Tan", [](T x) { return std::tan(x); }},
    {"Tanh", [](T x) { return std::tanh(x); }},
};

class UnaryOpsCompositionKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, init.Attr<std::vector<std::string>>("op_names"));
    for (const std::string& name : names) {
      const auto* const found = std::find_if(std::begin(kComposable<float>), std::end(kComposable<float>),
                                             [&](const NamedFunction<float>& f) { return f.name == name; });
      if (found == std::end(kComposable<float>)) {
        return Unimplemented("_UnaryOpsComposition does not know the op '", name, "'");
      }
      functions_.push_back(static_cast<size_t>(found - std::begin(kComposable<float>)));
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor x = context.input(0);
    ASSIGN_OR_RETURN(Tensor* const y, context.Allocate(0, x.shape()));
    return Dispatch(Types<float, double, Half>(), x.dtype(), [&]<typename T>() {
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const T* const from = x.data<T>();
      T* const to = y->mutable_data<T>();
      const double nanos = 10.0 * static_cast<double>(functions_.size());
      context.ParallelFor(x.num_elements(), nanos, [&](int64_t begin, int64_t end) {
        std::copy(from + begin, from + end, to + begin);
        for (const size_t f : functions_) {
          Wide (*const call)(Wide) = kComposable<Wide>[f].call;
          for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(call(static_cast<Wide>(to[i])));
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  std::vector<size_t> functions_;  // indices into kComposable
};

const OpRegistration kUnaryComposition = Op("_UnaryOpsComposition")
                                             .Input("x: T")
                                             .Output("y: T")
                                             .Attr("T: {float, half, double}")
                                             .Attr("op_names: list(string)")
                                             .Shape(shapes::LikeInput0)
                                             .Kernel<UnaryOpsCompositionKernel>()
                                             .NotDifferentiable();

}  // namespace
}  // namespace thalweg
