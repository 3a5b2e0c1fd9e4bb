// SPDX-License-Identifier: Apache-2.0
// The ops that TensorFlow's debugger (tfdbg) puts into graphs: Copy and CopyHost
// keep a tensor for them, DebugIdentity, DebugNanCount and DebugNumericSummary
// look at it and leave what they found in files. DebugGradientIdentity marks a
// gradient that is watched.
#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/debug/debug_dump.h"

namespace thalweg {
namespace {

// How many elements there are of each kind.
struct Census {
  double count = 0, nan = 0, negative_infinite = 0, negative = 0, zero = 0, positive = 0, positive_infinite = 0;
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();
  double mean = std::numeric_limits<double>::quiet_NaN(), variance = std::numeric_limits<double>::quiet_NaN();
};

// Values at or beyond a finite bound count as infinite.
template <typename T>
Census Look(absl::Span<const T> values, double lower, double upper) {
  Census census;
  census.count = static_cast<double>(values.size());
  double sum = 0, finite = 0;
  for (const T value : values) {
    const double x = static_cast<double>(value);
    if (std::isnan(x)) {
      ++census.nan;
      continue;
    }
    if (std::isinf(x)) {
      ++(x < 0 ? census.negative_infinite : census.positive_infinite);
      continue;
    }
    if (!std::isinf(lower) && x <= lower) {
      ++census.negative_infinite;
    } else if (!std::isinf(upper) && x >= upper) {
      ++census.positive_infinite;
    } else {
      ++(x < 0 ? census.negative : x > 0 ? census.positive : census.zero);
    }
    census.min = std::min(census.min, x);
    census.max = std::max(census.max, x);
    sum += x;
    ++finite;
  }
  if (finite == 0) return census;
  census.mean = sum / finite;
  census.variance = 0;
  for (const T value : values) {
    const double x = static_cast<double>(value);
    if (std::isfinite(x)) census.variance += (x - census.mean) * (x - census.mean);
  }
  census.variance /= finite;
  return census;
}

using Countable = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                        uint64_t, bool>;

absl::StatusOr<Census> Look(const Tensor& t, double lower = -HUGE_VAL, double upper = HUGE_VAL) {
  Census census;
  if (!t.has_value()) return census;
  RETURN_IF_ERROR(Dispatch(Countable(), t.dtype(), [&]<typename T>() {
    census = Look<T>(t.flat<T>(), lower, upper);
    return absl::OkStatus();
  }));
  return census;
}

class DebugKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(watch_, ReadDebugWatch(init));
    return absl::OkStatus();
  }

 protected:
  DebugWatch watch_;
};

class DebugIdentityKernel final : public DebugKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    RETURN_IF_ERROR(DumpDebugTensor(watch_, c.input(0)));
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
};

class DebugNanCountKernel final : public DebugKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Census census, Look(c.input(0)));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({1})));
    *out->mutable_data<int64_t>() = static_cast<int64_t>(census.nan);
    return DumpDebugTensor(watch_, *out);
  }
};

class DebugNumericSummaryKernel final : public DebugKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(lower_, init.Attr<float>("lower_bound"));
    ASSIGN_OR_RETURN(upper_, init.Attr<float>("upper_bound"));
    ASSIGN_OR_RETURN(mute_if_healthy_, init.Attr<bool>("mute_if_healthy"));
    return DebugKernel::Init(init);
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    ASSIGN_OR_RETURN(const Census census, Look(x, lower_, upper_));
    const Shape shape = x.shape();
    std::vector<double> entries = {x.has_value() ? 1.0 : 0.0,
                                   census.count,
                                   census.nan,
                                   census.negative_infinite,
                                   census.negative,
                                   census.zero,
                                   census.positive,
                                   census.positive_infinite,
                                   census.min,
                                   census.max,
                                   census.mean,
                                   census.variance,
                                   static_cast<double>(x.dtype()),
                                   static_cast<double>(shape.rank())};
    for (const int64_t dim : shape.dims()) entries.push_back(static_cast<double>(dim));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({static_cast<int64_t>(entries.size())})));
    std::copy(entries.begin(), entries.end(), out->mutable_data<double>());
    const bool healthy = census.nan == 0 && census.negative_infinite == 0 && census.positive_infinite == 0;
    return healthy && mute_if_healthy_ ? absl::OkStatus() : DumpDebugTensor(watch_, *out);
  }

 private:
  float lower_ = 0, upper_ = 0;
  bool mute_if_healthy_ = false;
};

// The modes of DebugNumericSummaryV2, numbered as in TensorFlow.
enum TensorDebugMode { kCurtHealth = 2, kConciseHealth = 3, kFullHealth = 4, kShape = 5, kInfNanSlots = 8 };

class DebugNumericSummaryV2Kernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(mode_, init.Attr<int64_t>("tensor_debug_mode"));
    ASSIGN_OR_RETURN(id_, init.Attr<int64_t>("tensor_id"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    Census census;
    if (mode_ != kShape) {
      ASSIGN_OR_RETURN(census, Look(x));
    }
    const double id = static_cast<double>(id_), count = static_cast<double>(x.num_elements());
    const double bad = census.nan + census.negative_infinite + census.positive_infinite;
    const double type = static_cast<double>(x.dtype()), rank = x.rank();
    std::vector<double> entries;
    switch (mode_) {
      case kCurtHealth:
        entries = {id, bad > 0 ? 1.0 : 0.0};
        break;
      case kConciseHealth:
        entries = {id, count, census.negative_infinite, census.positive_infinite, census.nan};
        break;
      case kFullHealth:
        entries = {id,
                   -1,
                   type,
                   rank,
                   count,
                   census.negative_infinite,
                   census.positive_infinite,
                   census.nan,
                   census.negative,
                   census.zero,
                   census.positive};
        break;
      case kShape: {
        constexpr int kDims = 6;  // the last ones
        entries = {id, type, rank, count};
        for (int d = std::max(0, x.rank() - kDims); d < x.rank(); ++d) {
          entries.push_back(static_cast<double>(x.dim(d)));
        }
        entries.resize(4 + kDims, 0);
        break;
      }
      case kInfNanSlots:
        entries = {census.negative_infinite > 0 ? -HUGE_VAL : 0, census.positive_infinite > 0 ? HUGE_VAL : 0,
                   census.nan > 0 ? NAN : 0};
        break;
      default:
        return Unimplemented("Unimplemented tensor debug mode: ", mode_);
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({static_cast<int64_t>(entries.size())})));
    return Dispatch(Types<float, double>(), out->dtype(), [&]<typename T>() {
      for (size_t i = 0; i < entries.size(); ++i) out->mutable_data<T>()[i] = static_cast<T>(entries[i]);
      return absl::OkStatus();
    });
  }

 private:
  int64_t mode_ = 0, id_ = 0;
};

absl::Status Pass(KernelContext& c) {
  if (c.is_variable(0)) {
    c.set_variable(0, &c.variable(0));
  } else {
    c.set_output(0, c.TakeInput(0));
  }
  return absl::OkStatus();
}

absl::Status PassGradient(GradientContext& g) {
  g.set_dx(0, g.dy());
  return absl::OkStatus();
}

absl::Status SummaryShape(ShapeContext& c) {
  const PartialShape& x = c.input(0);
  c.set_output(0, PartialShape({x.has_rank() ? 14 + x.rank() : PartialShape::kUnknown}));
  return absl::OkStatus();
}

absl::Status NanCountShape(ShapeContext& c) {
  c.set_output(0, PartialShape({1}));
  return absl::OkStatus();
}

Op Copied(absl::string_view name) {
  return Op(name)
      .Input("input: T")
      .Output("output: T")
      .Attr("T: type")
      .Attr("tensor_name: string = ''")
      .Attr("debug_ops_spec: list(string) = []")
      .AllowsUninitializedInput()
      .Shape(shapes::LikeInput0)
      .Compute(Pass)
      .NotDifferentiable();
}

Op Watched(absl::string_view name, absl::string_view output) {
  return Op(name)
      .Input("input: T")
      .Output(output)
      .Attr("T: type")
      .Attr("device_name: string = ''")
      .Attr("tensor_name: string = ''")
      .Attr("debug_urls: list(string) = []")
      .AllowsUninitializedInput()
      .NotDifferentiable();
}

const OpRegistration kDebugOpsOps[] = {
    Copied("Copy"),
    Copied("CopyHost"),
    Watched("DebugIdentity", "output: T")
        .Attr("gated_grpc: bool = false")
        .Shape(shapes::LikeInput0)
        .Kernel<DebugIdentityKernel>(),
    Watched("DebugNanCount", "output: int64")
        .Attr("gated_grpc: bool = false")
        .Shape(NanCountShape)
        .Kernel<DebugNanCountKernel>(),
    Watched("DebugNumericSummary", "output: double")
        .Attr("lower_bound: float = -inf")
        .Attr("upper_bound: float = inf")
        .Attr("mute_if_healthy: bool = false")
        .Attr("gated_grpc: bool = false")
        .Shape(SummaryShape)
        .Kernel<DebugNumericSummaryKernel>(),
    Op("DebugNumericSummaryV2")
        .Input("input: T")
        .Output("output: output_dtype")
        .Attr("output_dtype: {float, double} = DT_FLOAT")
        .Attr("T: type")
        .Attr("tensor_debug_mode: int = -1")
        .Attr("tensor_id: int = -1")
        .Shape(shapes::Unknown)
        .Kernel<DebugNumericSummaryV2Kernel>()
        .NotDifferentiable(),
    Op("DebugGradientIdentity")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .AllowsUninitializedInput()
        .Shape(shapes::LikeInput0)
        .Compute(Pass)
        .Gradient(PassGradient),
    Op("DebugGradientRefIdentity")
        .Input("input: Ref(T)")
        .Output("output: Ref(T)")
        .Attr("T: type")
        .AllowsUninitializedInput()
        .Shape(shapes::LikeInput0)
        .Compute(Pass)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
