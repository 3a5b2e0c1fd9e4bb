// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/fused/fused_epilogue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// `alpha` is the slope of LeakyRelu.
template <typename T>
T LeakyReluOf(T x, T alpha) {
  return x > 0 ? x : x * alpha;
}

template <typename T>
T GeluApproximateOf(T x) {
  constexpr double kScale = 0.7978845608028654;  // sqrt(2 / pi)
  return T(0.5) * x * (T(1) + std::tanh(static_cast<T>(kScale) * (x + static_cast<T>(0.044715) * x * x * x)));
}

}  // namespace

absl::StatusOr<FusedEpilogue> FusedEpilogue::Read(const tensorflow::NodeDef& node) {
  ASSIGN_OR_RETURN(const std::vector<std::string> ops, GetAttr<std::vector<std::string>>(node, "fused_ops"));
  ASSIGN_OR_RETURN(const int64_t args, GetAttr<int64_t>(node, "num_args"));
  ASSIGN_OR_RETURN(const float epsilon, GetAttr<float>(node, "epsilon"));
  FusedEpilogue epilogue;
  epilogue.epsilon_ = epsilon;
  if (HasAttr(node, "leakyrelu_alpha")) {
    ASSIGN_OR_RETURN(const float alpha, GetAttr<float>(node, "leakyrelu_alpha"));
    epilogue.alpha_ = alpha;
  }
  const absl::Status unknown =
      Unimplemented("Fusion is not implemented: [", absl::StrJoin(ops, ","), "]; node '", node.name(), "'");
  if (ops.empty()) return unknown;
  epilogue.normalizes_ = ops[0] == "FusedBatchNorm";
  if (!epilogue.normalizes_ && ops[0] != "BiasAdd") return unknown;
  size_t next = 1;
  if (next < ops.size() && (ops[next] == "Add" || ops[next] == "AddV2") && !epilogue.normalizes_) {
    epilogue.adds_ = true;
    ++next;
  }
  if (next < ops.size()) {
    static constexpr std::pair<absl::string_view, Activation> kActivations[] = {
        {"Relu", Activation::kRelu},
        {"Relu6", Activation::kRelu6},
        {"Elu", Activation::kElu},
        {"LeakyRelu", Activation::kLeakyRelu},
        {"Tanh", Activation::kTanh},
        {"Sigmoid", Activation::kSigmoid},
        {"GeluApproximate", Activation::kGeluApproximate},
        {"GeluExact", Activation::kGeluExact}};
    const auto* const found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                           [&](const auto& known) { return known.first == ops[next]; });
    if (found == std::end(kActivations)) return unknown;
    epilogue.activation_ = found->second;
    ++next;
  }
  if (next != ops.size()) return unknown;
  const int64_t expected = epilogue.normalizes_ ? 4 : epilogue.adds_ ? 2 : 1;
  if (args != expected) {
    return InvalidArgument("[", absl::StrJoin(ops, ","), "] takes ", expected, " arguments, got num_args = ", args,
                           "; node '", node.name(), "'");
  }
  return epilogue;
}

template <typename T>
T FusedEpilogue::Activate(T x) const {
  switch (activation_) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kRelu6:
      return x < 0 ? 0 : std::min(x, T(6));
    case Activation::kElu:
      return x < 0 ? std::expm1(x) : x;
    case Activation::kLeakyRelu:
      return LeakyReluOf(x, static_cast<T>(alpha_));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kGeluApproximate:
      return GeluApproximateOf(x);
    case Activation::kGeluExact:
      return T(0.5) * x * (1 + std::erf(x * static_cast<T>(0.7071067811865476)));
  }
  return x;
}

template <typename T>
absl::Status FusedEpilogue::ApplyTo(KernelContext& context, Tensor* out) const {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const int64_t channels = out->dim(out->rank() - 1);
  std::vector<Wide> scales(channels, Wide(1)), offsets(channels);
  const auto value = [&](int arg, int64_t c) { return static_cast<Wide>(context.input(2 + arg).data<T>()[c]); };
  for (int64_t c = 0; c < channels; ++c) {
    if (normalizes_) {
      scales[c] = value(0, c) / std::sqrt(value(3, c) + static_cast<Wide>(epsilon_));
      offsets[c] = value(1, c) - value(2, c) * scales[c];
    } else {
      offsets[c] = value(0, c);
    }
  }
  T* const to = out->mutable_data<T>();
  const T* const added = adds_ ? context.input(3).data<T>() : nullptr;
  constexpr double kNanosEach = 2;
  context.ParallelFor(out->num_elements(), kNanosEach, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % channels;
      Wide x = static_cast<Wide>(to[i]) * scales[c] + offsets[c];
      if (added != nullptr) x += static_cast<Wide>(added[i]);
      to[i] = static_cast<T>(Activate(x));
    }
  });
  return absl::OkStatus();
}

absl::Status FusedEpilogue::Apply(KernelContext& context, Tensor* out) const {
  if (out->num_elements() == 0) return absl::OkStatus();
  const int64_t channels = out->dim(out->rank() - 1);
  const int vectors = normalizes_ ? 4 : 1;
  for (int i = 2; i < 2 + vectors; ++i) {
    const Tensor& arg = context.input(i);
    if (arg.dtype() != out->dtype()) {
      return InvalidArgument("fused argument ", i - 2, " must be of type ", out->dtype(), ", got ", arg.dtype());
    }
    if (arg.rank() != 1 || arg.dim(0) != channels) {
      return InvalidArgument("fused argument ", i - 2, " must be a vector of ", channels, " elements, got shape ",
                             arg.shape());
    }
  }
  if (adds_ && (context.input(3).dtype() != out->dtype() || context.input(3).shape() != out->shape())) {
    return InvalidArgument("the tensor to add must be ", out->dtype(), " of shape ", out->shape(), ", got ",
                           context.input(3).dtype(), " of shape ", context.input(3).shape());
  }
  return Dispatch(Types<float, double, Half, BFloat16>(), out->dtype(),
                  [&]<typename T>() { return ApplyTo<T>(context, out); });
}

}  // namespace thalweg
