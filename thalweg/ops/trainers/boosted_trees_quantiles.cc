// SPDX-License-Identifier: Apache-2.0
// How boosted trees find the buckets of numeric features: streams of quantiles, a
// resource with one for every feature, from summaries that workers make of their
// batches; and BoostedTreesBucketize.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/trainers/quantiles.h"

namespace thalweg {
namespace {

// More features than that no model has.
constexpr int64_t kMostStreams = 1 << 20;

absl::Status CheckEpsilon(float epsilon) {
  if (epsilon > 0 && epsilon < 1) return absl::OkStatus();
  return InvalidArgument("epsilon must be in (0, 1), got ", epsilon);
}

// Thread-safe.
class QuantileStreams final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow34BoostedTreesQuantileStreamResourceE";

  QuantileStreams(float epsilon, int64_t max_elements, int64_t count)
      : epsilon_(epsilon),
        max_elements_(max_elements),
        count_(count),
        boundaries_(count),
        streams_(count, QuantileStream(epsilon, max_elements)) {}
  std::string Describe() const override { return "streams of quantiles"; }

  int64_t size() const { return count_; }
  void Add(int64_t i, QuantileSummary summary) {
    MutexLock lock(&mutex_);
    streams_[i].Push(std::move(summary));
  }
  // The summary of what came since the last time.
  QuantileSummary Take(int64_t i) {
    MutexLock lock(&mutex_);
    QuantileSummary summary = streams_[i].Finish();
    streams_[i] = QuantileStream(epsilon_, max_elements_);
    return summary;
  }
  void SetBoundaries(int64_t i, std::vector<float> boundaries) {
    MutexLock lock(&mutex_);
    boundaries_[i] = std::move(boundaries);
  }
  std::vector<float> boundaries(int64_t i) const {
    MutexLock lock(&mutex_);
    return boundaries_[i];
  }

 private:
  const float epsilon_;
  const int64_t max_elements_;
  const int64_t count_;
  mutable Mutex mutex_;
  std::vector<std::vector<float>> boundaries_ ABSL_GUARDED_BY(mutex_);
  std::vector<QuantileStream> streams_ ABSL_GUARDED_BY(mutex_);
};

// The streams of input 0, which must be as many as `count`.
absl::StatusOr<std::shared_ptr<QuantileStreams>> FindStreams(KernelContext& context, int64_t count) {
  ASSIGN_OR_RETURN(std::shared_ptr<QuantileStreams> streams, FindResource<QuantileStreams>(context, 0));
  if (streams->size() != count) {
    return InvalidArgument("there are ", streams->size(), " streams of quantiles for ", count, " features");
  }
  return streams;
}

class StreamHandleKernel : public AnyResourceKernel {
 public:
  StreamHandleKernel() { type_name_ = QuantileStreams::kTypeName; }
  absl::Status Compute(KernelContext& context) override {
    SetHandle(context);
    return absl::OkStatus();
  }
};

absl::Status IsStreamInitialized(KernelContext& context) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(context, 0, QuantileStreams::kTypeName));
  const bool found = context.device().resources().Find<QuantileStreams>(name.container, name.name).ok();
  context.set_output(0, Tensor::Scalar<bool>(found));
  return absl::OkStatus();
}

class CreateStreamsKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(max_elements_, init.Attr<int64_t>("max_elements"));
    if (max_elements_ <= 0) return InvalidArgument("max_elements must be positive, got ", max_elements_);
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(context, 0, QuantileStreams::kTypeName));
    if (context.input(1).rank() != 0 || context.input(2).rank() != 0) {
      return InvalidArgument("epsilon and num_streams must be scalars, got shapes ", context.input(1).shape(), " and ",
                             context.input(2).shape());
    }
    const float epsilon = context.input(1).scalar<float>();
    const int64_t count = context.input(2).scalar<int64_t>();
    RETURN_IF_ERROR(CheckEpsilon(epsilon));
    if (count < 0 || count > kMostStreams) {
      return InvalidArgument("num_streams must be in [0, ", kMostStreams, "], got ", count);
    }
    const absl::Status status = context.device().resources().Create(
        name.container, name.name, std::make_shared<QuantileStreams>(epsilon, max_elements_, count));
    return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
  }

 private:
  int64_t max_elements_ = 0;
};

// A summary as a matrix: value, weight, least and largest rank.
absl::Status SetSummary(KernelContext& context, int output, const QuantileSummary& summary) {
  ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(output, Shape({summary.size(), 4})));
  float* row = out->mutable_data<float>();
  for (const QuantileSummary::Entry& e : summary.entries()) {
    for (const float x : {e.value, e.weight, e.min_rank, e.max_rank}) *row++ = x;
  }
  return absl::OkStatus();
}

absl::Status MakeSummaries(KernelContext& context) {
  const int features = context.num_outputs();
  const Tensor &weights = context.input(features), &epsilon = context.input(features + 1);
  if (epsilon.num_elements() != 1) return InvalidArgument("epsilon must be a scalar, got shape ", epsilon.shape());
  RETURN_IF_ERROR(CheckEpsilon(epsilon.data<float>()[0]));
  for (int i = 0; i < features; ++i) {
    const Tensor& values = context.input(i);
    const int64_t count = values.num_elements();
    if (weights.num_elements() != 1 && weights.num_elements() != count) {
      return InvalidArgument("Weights should be a single value or same size as features: ", weights.shape(), " for ",
                             values.shape());
    }
    QuantileStream stream(epsilon.data<float>()[0], count + 1);
    for (int64_t k = 0; k < count; ++k) {
      stream.Push(values.data<float>()[k], weights.data<float>()[weights.num_elements() == 1 ? 0 : k]);
    }
    RETURN_IF_ERROR(SetSummary(context, i, stream.Finish()));
  }
  return absl::OkStatus();
}

absl::Status AddSummaries(KernelContext& context) {
  const int features = context.num_inputs() - 1;
  ASSIGN_OR_RETURN(const std::shared_ptr<QuantileStreams> streams, FindStreams(context, features));
  for (int i = 0; i < features; ++i) {
    const Tensor& summary = context.input(1 + i);
    if (summary.rank() != 2 || summary.dim(1) != 4) {
      return InvalidArgument("summary ", i, " must be a matrix of 4 columns, got shape ", summary.shape());
    }
    std::vector<QuantileSummary::Entry> entries;
    for (int64_t k = 0; k < summary.dim(0); ++k) {
      const float* const row = summary.data<float>() + 4 * k;
      entries.push_back({row[0], row[1], row[2], row[3]});
    }
    streams->Add(i, QuantileSummary(std::move(entries)));
  }
  return absl::OkStatus();
}

absl::Status FlushSummaries(KernelContext& context) {
  ASSIGN_OR_RETURN(const std::shared_ptr<QuantileStreams> streams, FindStreams(context, context.num_outputs()));
  for (int i = 0; i < context.num_outputs(); ++i) RETURN_IF_ERROR(SetSummary(context, i, streams->Take(i)));
  return absl::OkStatus();
}

class FlushKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(quantiles_, init.Attr<bool>("generate_quantiles"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<QuantileStreams> streams, FindResource<QuantileStreams>(context, 0));
    if (context.input(1).num_elements() != 1) {
      return InvalidArgument("num_buckets must be a scalar, got shape ", context.input(1).shape());
    }
    const int64_t buckets = context.input(1).data<int64_t>()[0];
    if (buckets <= 0 || buckets > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("num_buckets must be positive, got ", buckets);
    }
    for (int64_t i = 0; i < streams->size(); ++i) {
      const QuantileSummary summary = streams->Take(i);
      std::vector<float> boundaries = quantiles_ ? summary.Quantiles(buckets - 1) : summary.Boundaries(buckets);
      if (!quantiles_) boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
      streams->SetBoundaries(i, std::move(boundaries));
    }
    return absl::OkStatus();
  }

 private:
  bool quantiles_ = false;
};

absl::Status GetBoundaries(KernelContext& context) {
  ASSIGN_OR_RETURN(const std::shared_ptr<QuantileStreams> streams, FindStreams(context, context.num_outputs()));
  for (int i = 0; i < context.num_outputs(); ++i) context.set_output(i, Tensor::Vector<float>(streams->boundaries(i)));
  return absl::OkStatus();
}

absl::Status DeserializeStreams(KernelContext& context) {
  const int features = context.num_inputs() - 1;
  ASSIGN_OR_RETURN(const std::shared_ptr<QuantileStreams> streams, FindStreams(context, features));
  for (int i = 0; i < features; ++i) {
    const Tensor& t = context.input(1 + i);
    streams->SetBoundaries(i, std::vector<float>(t.data<float>(), t.data<float>() + t.num_elements()));
  }
  return absl::OkStatus();
}

// The first boundary that is not below the value, or the last.
absl::Status Bucketize(KernelContext& context) {
  const int features = context.num_outputs();
  for (int i = 0; i < features; ++i) {
    const Tensor &values = context.input(i), &boundaries = context.input(features + i);
    if (boundaries.rank() != 1) return InvalidArgument("Buckets should be flat vectors, got ", boundaries.shape());
    const int64_t count = values.num_elements();
    ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(i, Shape({count})));
    const float *const begin = boundaries.data<float>(), *const end = begin + boundaries.dim(0);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t bucket = std::lower_bound(begin, end, values.data<float>()[k]) - begin;
      out->mutable_data<int32_t>()[k] =
          static_cast<int32_t>(std::max<int64_t>(std::min(bucket, boundaries.dim(0) - 1), 0));
    }
  }
  return absl::OkStatus();
}

Op StreamOp(absl::string_view name) {
  return Op(name)
      .Input("quantile_stream_resource_handle: resource")
      .Stateful()
      .Shape(shapes::Unknown)
      .NotDifferentiable();
}

const OpRegistration kBoostedTreesQuantilesOps[] = {
    Op("BoostedTreesQuantileStreamResourceHandleOp")
        .Output("resource: resource")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<StreamHandleKernel>()
        .NotDifferentiable(),
    StreamOp("IsBoostedTreesQuantileStreamResourceInitialized")
        .Output("is_initialized: bool")
        .Compute(IsStreamInitialized),
    StreamOp("BoostedTreesCreateQuantileStreamResource")
        .Input("epsilon: float")
        .Input("num_streams: int64")
        .Attr("max_elements: int = 1099511627776")
        .Kernel<CreateStreamsKernel>(),
    Op("BoostedTreesMakeQuantileSummaries")
        .Input("float_values: num_features * float")
        .Input("example_weights: float")
        .Input("epsilon: float")
        .Output("summaries: num_features * float")
        .Attr("num_features: int >= 0")
        .Shape(shapes::Unknown)
        .Compute(MakeSummaries)
        .NotDifferentiable(),
    StreamOp("BoostedTreesQuantileStreamResourceAddSummaries")
        .Input("summaries: num_features * float")
        .Attr("num_features: int >= 0")
        .Compute(AddSummaries),
    StreamOp("BoostedTreesFlushQuantileSummaries")
        .Output("summaries: num_features * float")
        .Attr("num_features: int >= 0")
        .Compute(FlushSummaries),
    StreamOp("BoostedTreesQuantileStreamResourceFlush")
        .Input("num_buckets: int64")
        .Attr("generate_quantiles: bool = false")
        .Kernel<FlushKernel>(),
    StreamOp("BoostedTreesQuantileStreamResourceGetBucketBoundaries")
        .Output("bucket_boundaries: num_features * float")
        .Attr("num_features: int >= 0")
        .Compute(GetBoundaries),
    StreamOp("BoostedTreesQuantileStreamResourceDeserialize")
        .Input("bucket_boundaries: num_streams * float")
        .Attr("num_streams: int >= 1")
        .Compute(DeserializeStreams),
    Op("BoostedTreesBucketize")
        .Input("float_values: num_features * float")
        .Input("bucket_boundaries: num_features * float")
        .Output("buckets: num_features * int32")
        .Attr("num_features: int >= 0")
        .Shape(shapes::Unknown)
        .Compute(Bucketize)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
