// SPDX-License-Identifier: Apache-2.0
// FakeQuantWithMinMax...: numbers as they would be after quantization to
// `num_bits` and back. The range [min, max] is moved a little so that 0 is one
// of the steps. Given as attributes (Args), as scalars (Vars), or as a vector
// over the last dimension (VarsPerChannel).
#include <algorithm>
#include <cmath>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

struct Range {
  float min, max, scale;
};

Range Nudge(float min, float max, int low, int high) {
  const float first = static_cast<float>(low), last = static_cast<float>(high);
  const float scale = (max - min) / (last - first);
  const float zero = first - min / scale;
  const float nudged = zero < first ? first : zero > last ? last : std::round(zero);
  return {(first - nudged) * scale, (last - nudged) * scale, scale};
}

enum class Form { kArgs, kVars, kPerChannel };

// Base class of both directions: the range of every channel, or one range for all channels.
class FakeQuant : public Kernel {
 public:
  explicit FakeQuant(Form form) : form_(form) {}
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const int64_t bits, init.Attr<int64_t>("num_bits"));
    ASSIGN_OR_RETURN(const bool narrow, init.Attr<bool>("narrow_range"));
    if (bits < 2 || bits > 16) {
      return InvalidArgument("num_bits must be between 2 and 16, inclusive, but was: ", bits);
    }
    low_ = narrow ? 1 : 0;
    high_ = (1 << bits) - 1;
    if (form_ != Form::kArgs) return absl::OkStatus();
    ASSIGN_OR_RETURN(min_, init.Attr<float>("min"));
    ASSIGN_OR_RETURN(max_, init.Attr<float>("max"));
    if (!(min_ < max_)) return InvalidArgument("min has to be smaller than max, was: ", min_, " >= ", max_);
    return absl::OkStatus();
  }

 protected:
  struct Channel {
    Range range;
    bool none = false;  // a range of nothing but 0
  };
  absl::StatusOr<std::vector<Channel>> Channels(KernelContext& c, const Tensor& inputs, int first) const {
    if (form_ == Form::kArgs) return std::vector<Channel>{{Nudge(min_, max_, low_, high_)}};
    const int rank = form_ == Form::kVars ? 0 : 1;
    if (rank == 1 && inputs.rank() < 1) return InvalidArgument("inputs must be at least a vector");
    const int64_t count = rank == 0 ? 1 : inputs.dim(inputs.rank() - 1);
    for (int i = first; i < first + 2; ++i) {
      const char* const name = i == first ? "min" : "max";
      const Tensor& t = c.input(i);
      if (t.rank() != rank) return InvalidArgument("`", name, "` must be rank ", rank, " but is rank ", t.rank());
      if (t.num_elements() != count) {
        return InvalidArgument(name, " has incorrect size, expected ", count, " was ", t.num_elements());
      }
    }
    std::vector<Channel> channels(count);
    for (int64_t k = 0; k < count; ++k) {
      const float min = c.input(first).data<float>()[k], max = c.input(first + 1).data<float>()[k];
      channels[k] = {Nudge(min, max, low_, high_), min == 0 && max == 0};
    }
    return channels;
  }

  const Form form_;
  int low_ = 0, high_ = 255;
  float min_ = 0, max_ = 0;
};

class ForwardKernel final : public FakeQuant {
 public:
  using FakeQuant::FakeQuant;
  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0);
    ASSIGN_OR_RETURN(const std::vector<Channel> channels, Channels(c, x, 1));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
    const float* const in = x.data<float>();
    float* const y = out->mutable_data<float>();
    c.ParallelFor(x.num_elements(), 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Channel& channel = channels[channels.size() == 1 ? 0 : i % channels.size()];
        const Range& r = channel.range;
        const float inverse = 1 / r.scale, zero = std::floor(-r.min * inverse + 0.5f);
        const float shifted = std::max(std::min(in[i], r.max), r.min) - r.min;
        y[i] = channel.none ? 0 : std::floor(shifted * inverse - zero + 0.5f) * r.scale;
      }
    });
    return absl::OkStatus();
  }
};

// Gradients pass where the input is in the range. The gradients of inputs beyond an end are added to the
// gradient of that end.
class BackwardKernel final : public FakeQuant {
 public:
  using FakeQuant::FakeQuant;
  absl::Status Compute(KernelContext& c) override {
    const Tensor dy = c.input(0), x = c.input(1);
    if (dy.shape() != x.shape()) {
      return InvalidArgument("gradient and input must be the same size: ", dy.shape(), " vs. ", x.shape());
    }
    ASSIGN_OR_RETURN(const std::vector<Channel> channels, Channels(c, x, 2));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
    std::vector<double> below(channels.size()), above(channels.size());
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const size_t k = channels.size() == 1 ? 0 : i % channels.size();
      const float value = x.data<float>()[i], slope = dy.data<float>()[i];
      const Range& r = channels[k].range;
      const bool inside = channels[k].none || (value >= r.min && value <= r.max);
      out->mutable_data<float>()[i] = inside ? slope : 0;
      if (!inside && value < r.min) below[k] += slope;
      if (!inside && value > r.max) above[k] += slope;
    }
    for (int side = 0; form_ != Form::kArgs && side < 2; ++side) {
      ASSIGN_OR_RETURN(Tensor* const end, c.Allocate(1 + side, c.input(2 + side).shape()));
      std::copy_n((side == 0 ? below : above).begin(), channels.size(), end->mutable_data<float>());
    }
    return absl::OkStatus();
  }
};

absl::Status BackwardShape(ShapeContext& c) {
  c.set_output(0, c.input(1));
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, c.input(1 + i));
  return absl::OkStatus();
}

absl::Status FakeQuantGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const int64_t bits, g.Attr<int64_t>("num_bits"));
  ASSIGN_OR_RETURN(const bool narrow, g.Attr<bool>("narrow_range"));
  std::vector<OpInput> inputs{g.dy()};
  std::vector<AttrArg> attrs{{"num_bits", bits}, {"narrow_range", narrow}};
  for (int i = 0; i < g.node()->num_inputs(); ++i) inputs.push_back(g.input(i));
  if (inputs.size() == 2) {
    ASSIGN_OR_RETURN(const float min, g.Attr<float>("min"));
    ASSIGN_OR_RETURN(const float max, g.Attr<float>("max"));
    attrs.push_back({"min", min});
    attrs.push_back({"max", max});
  }
  Node* const node = s.Add(absl::StrCat(g.node()->op(), "Gradient"), inputs, attrs);
  for (int i = 0; node != nullptr && i < node->num_outputs(); ++i) g.set_dx(i, node->out(i));
  return absl::OkStatus();
}

Op Quantized(const char* kind, Form form, bool gradient) {
  Op op(absl::StrCat("FakeQuantWithMinMax", kind, gradient ? "Gradient" : ""));
  if (gradient) op.Input("gradients: float");
  op.Input("inputs: float");
  if (form != Form::kArgs) op.Input("min: float").Input("max: float");
  if (!gradient) {
    op.Output("outputs: float").Shape(shapes::LikeInput0).Kernel<ForwardKernel>(form).Gradient(FakeQuantGradient);
  } else {
    op.Output(form == Form::kArgs ? "backprops: float" : "backprops_wrt_input: float");
    if (form != Form::kArgs) op.Output("backprop_wrt_min: float").Output("backprop_wrt_max: float");
    op.Shape(BackwardShape).Kernel<BackwardKernel>(form);
  }
  if (form == Form::kArgs) op.Attr("min: float = -6.0").Attr("max: float = 6.0");
  return op.Attr("num_bits: int = 8").Attr("narrow_range: bool = false");
}

const OpRegistration kFakeQuantOps[] = {
    Quantized("Args", Form::kArgs, false),
    Quantized("Args", Form::kArgs, true),
    Quantized("Vars", Form::kVars, false),
    Quantized("Vars", Form::kVars, true),
    Quantized("VarsPerChannel", Form::kPerChannel, false),
    Quantized("VarsPerChannel", Form::kPerChannel, true),
};

}  // namespace
}  // namespace thalweg
