// SPDX-License-Identifier: Apache-2.0
// How boosted trees choose splits: BoostedTreesMakeStatsSummary adds up gradients and hessians by node
// and bucket, and
// BoostedTreesCalculateBestGainsPerFeature finds the best threshold of each
// feature for every node.
#include <algorithm>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/trainers/tree_ensemble.h"

namespace thalweg {
namespace {

// [features, max_splits, buckets, 2]: sums of gradients and of hessians.
class MakeStatsSummaryKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(splits_, init.Attr<int64_t>("max_splits"));
    ASSIGN_OR_RETURN(buckets_, init.Attr<int64_t>("num_buckets"));
    ASSIGN_OR_RETURN(features_, init.Attr<int64_t>("num_features"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &nodes = context.input(0), &gradients = context.input(1), &hessians = context.input(2);
    const int64_t batch = nodes.num_elements();
    for (int i = 0; i < context.num_inputs(); ++i) {
      if (context.input(i).num_elements() == batch && context.input(i).rank() >= 1) continue;
      return InvalidArgument("input ", i, " must have one value for each of ", batch, " examples, got shape ",
                             context.input(i).shape());
    }
    for (int64_t i = 0; i < batch; ++i) {
      const int32_t node = nodes.data<int32_t>()[i];
      if (node < 0 || node >= splits_) {
        return InvalidArgument("node_ids[", i, "] = ", node, " is not in [0, ", splits_, ")");
      }
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({features_, splits_, buckets_, 2}));
    ASSIGN_OR_RETURN(Tensor all, context.AllocateTemporary(kDouble, shape));
    ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, shape));
    std::fill_n(all.mutable_data<double>(), shape.num_elements(), 0.0);
    for (int64_t feature = 0; feature < features_; ++feature) {
      const int32_t* const values = context.input(3 + static_cast<int>(feature)).data<int32_t>();
      double* const sums = all.mutable_data<double>() + feature * splits_ * buckets_ * 2;
      for (int64_t i = 0; i < batch; ++i) {
        if (values[i] < 0 || values[i] >= buckets_) {
          return InvalidArgument("feature ", feature, " of example ", i, " is in bucket ", values[i], ", not in [0, ",
                                 buckets_, ")");
        }
        double* const sum = sums + (nodes.data<int32_t>()[i] * buckets_ + values[i]) * 2;
        sum[0] += gradients.data<float>()[i];
        sum[1] += hessians.data<float>()[i];
      }
    }
    std::copy_n(all.data<double>(), shape.num_elements(), out->mutable_data<float>());
    return absl::OkStatus();
  }

 private:
  int64_t splits_ = 0, buckets_ = 0, features_ = 0;
};

struct SplitOptions {
  float l1, l2, tree_complexity, min_node_weight;
};

struct BestSplit {
  float gain = std::numeric_limits<float>::lowest();
  int32_t threshold = 0;
  float left = 0, right = 0;
};

// A gain must be larger by this to be better.
constexpr float kLeastGain = 1e-15f;

// The best of all thresholds for a node, whose sums these are. False if the node
// has too little weight to be split.
bool FindBest(const float* sums, int64_t buckets, const SplitOptions& options, BestSplit* best) {
  float gradient = 0, hessian = 0;
  for (int64_t i = 0; i < buckets; ++i) {
    gradient += sums[2 * i];
    hessian += sums[2 * i + 1];
  }
  if (hessian < options.min_node_weight) return false;
  float left_gradient = 0, left_hessian = 0;
  for (int64_t i = 0; i < buckets; ++i) {
    left_gradient += sums[2 * i];
    left_hessian += sums[2 * i + 1];
    const LeafWeight left = LeafWeight::Of(left_gradient, left_hessian, options.l1, options.l2);
    const LeafWeight right = LeafWeight::Of(gradient - left_gradient, hessian - left_hessian, options.l1, options.l2);
    const float gain = left.gain + right.gain;
    if (gain - best->gain >= kLeastGain) *best = {gain, static_cast<int32_t>(i), left.weight, right.weight};
  }
  best->gain -= LeafWeight::Of(gradient, hessian, options.l1, options.l2).gain;
  best->gain -= options.tree_complexity;
  return true;
}

class BestGainsKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(features_, init.Attr<int64_t>("num_features"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& range = context.input(0);
    if (range.rank() != 1 || range.dim(0) != 2) {
      return InvalidArgument("node_id_range must be a rank 1 tensor with shape=[2], got ", range.shape());
    }
    const int first = 1 + static_cast<int>(features_);
    for (int i = first; i < first + 4; ++i) {
      if (context.input(i).rank() != 0) {
        return InvalidArgument("input ", i, " must be a scalar, got a tensor of shape ", context.input(i).shape());
      }
    }
    const auto option = [&](int i) { return context.input(first + i).scalar<float>(); };
    const SplitOptions options{option(0), option(1), option(2), option(3)};
    for (int i = 0; i < features_; ++i) {
      RETURN_IF_ERROR(ComputeFeature(context, i, range.data<int32_t>()[0], range.data<int32_t>()[1], options));
    }
    return absl::OkStatus();
  }

 private:
  // Outputs: lists of nodes, gains, thresholds, left and right contributions.
  absl::Status ComputeFeature(KernelContext& context, int feature, int32_t begin, int32_t end,
                              const SplitOptions& options) const {
    const Tensor& stats = context.input(1 + feature);
    if (stats.rank() != 3 || stats.dim(2) != 2) {
      return InvalidArgument("stats_summary_list[", feature, "] must have shape [max_splits, buckets, 2], got ",
                             stats.shape());
    }
    if (begin < 0 || end > stats.dim(0)) {
      return InvalidArgument("nodes [", begin, ", ", end, ") are not all in a summary of ", stats.dim(0), " nodes");
    }
    std::vector<int32_t> nodes, thresholds;
    std::vector<float> gains, left, right;
    for (int32_t node = begin; node < end; ++node) {
      BestSplit best;
      if (!FindBest(stats.data<float>() + int64_t{node} * stats.dim(1) * 2, stats.dim(1), options, &best)) continue;
      nodes.push_back(node);
      gains.push_back(best.gain);
      thresholds.push_back(best.threshold);
      left.push_back(best.left);
      right.push_back(best.right);
    }
    const int features = static_cast<int>(features_);
    const int64_t count = static_cast<int64_t>(nodes.size());
    context.set_output(feature, Tensor::Vector<int32_t>(nodes));
    context.set_output(features + feature, Tensor::Vector<float>(gains));
    context.set_output(2 * features + feature, Tensor::Vector<int32_t>(thresholds));
    const auto set_column = [&](int list, const std::vector<float>& values) -> absl::Status {
      ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(list * features + feature, Shape({count, 1})));
      std::copy(values.begin(), values.end(), out->mutable_data<float>());
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(set_column(3, left));
    return set_column(4, right);
  }

  int64_t features_ = 0;
};

const OpRegistration kBoostedTreesStatsOps[] = {
    Op("BoostedTreesMakeStatsSummary")
        .Input("node_ids: int32")
        .Input("gradients: float")
        .Input("hessians: float")
        .Input("bucketized_features_list: num_features * int32")
        .Output("stats_summary: float")
        .Attr("max_splits: int >= 1")
        .Attr("num_buckets: int >= 1")
        .Attr("num_features: int >= 1")
        .Shape(shapes::Unknown)
        .Kernel<MakeStatsSummaryKernel>()
        .NotDifferentiable(),
    Op("BoostedTreesCalculateBestGainsPerFeature")
        .Input("node_id_range: int32")
        .Input("stats_summary_list: num_features * float")
        .Input("l1: float")
        .Input("l2: float")
        .Input("tree_complexity: float")
        .Input("min_node_weight: float")
        .Output("node_ids_list: num_features * int32")
        .Output("gains_list: num_features * float")
        .Output("thresholds_list: num_features * int32")
        .Output("left_node_contribs_list: num_features * float")
        .Output("right_node_contribs_list: num_features * float")
        .Attr("max_splits: int >= 1")
        .Attr("num_features: int >= 1")
        .Shape(shapes::Unknown)
        .Kernel<BestGainsKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
