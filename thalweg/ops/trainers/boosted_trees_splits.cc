// SPDX-License-Identifier: Apache-2.0
// How the second version of boosted trees chooses splits. Features may have several dimensions and missing values,
// which count in a last bucket of their own and may go to either side of a split.
//
//   BoostedTreesAggregateStats, BoostedTreesSparseAggregateStats: sums of gradients and hessians by node, dimension of
//     the feature, and bucket
//   BoostedTreesCalculateBestFeatureSplit, BoostedTreesSparseCalculateBestFeatureSplit: the best split of every node
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/trainers/tree_ensemble.h"

namespace thalweg {
namespace {

using tensorflow::boosted_trees::SplitTypeWithDefault;

// The gradients and hessians of a batch of examples, and the nodes where the examples are.
struct BatchStats {
  const int32_t* nodes = nullptr;
  const float* gradients = nullptr;
  const float* hessians = nullptr;
  int64_t examples = 0, gradient_width = 0, hessian_width = 0;
  int64_t max_splits = 0, buckets = 0;

  int64_t width() const { return gradient_width + hessian_width; }
  float At(int64_t example, int64_t k) const {
    return k < gradient_width ? gradients[example * gradient_width + k]
                              : hessians[example * hessian_width + k - gradient_width];
  }
};

class AggregateKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) final {
    ASSIGN_OR_RETURN(max_splits_, init.Attr<int64_t>("max_splits"));
    ASSIGN_OR_RETURN(buckets_, init.Attr<int64_t>("num_buckets"));
    return absl::OkStatus();
  }

 protected:
  // Inputs 0 to 2, checked.
  absl::StatusOr<BatchStats> ReadStats(KernelContext& context) const {
    const Tensor &nodes = context.input(0), &gradients = context.input(1), &hessians = context.input(2);
    if (nodes.rank() != 1) return InvalidArgument("node_ids must be a vector, got shape ", nodes.shape());
    const int64_t examples = nodes.dim(0);
    for (const Tensor* t : {&gradients, &hessians}) {
      if (t->rank() == 2 && t->dim(0) == examples) continue;
      return InvalidArgument("gradients and hessians must be matrices with a row for each of ", examples,
                             " examples, got shape ", t->shape());
    }
    for (int64_t i = 0; i < examples; ++i) {
      const int32_t node = nodes.data<int32_t>()[i];
      if (node >= 0 && node < max_splits_) continue;
      return InvalidArgument("node_ids[", i, "] = ", node, " is not in [0, ", max_splits_, ")");
    }
    return BatchStats{.nodes = nodes.data<int32_t>(),
                      .gradients = gradients.data<float>(),
                      .hessians = hessians.data<float>(),
                      .examples = examples,
                      .gradient_width = gradients.dim(1),
                      .hessian_width = hessians.dim(1),
                      .max_splits = max_splits_,
                      .buckets = buckets_};
  }

 private:
  int64_t max_splits_ = 0, buckets_ = 0;
};

// [max_splits, dimensions, buckets + 1, gradients and hessians]
class AggregateStatsKernel final : public AggregateKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const BatchStats stats, ReadStats(context));
    const Tensor& feature = context.input(3);
    if (feature.rank() != 2 || feature.dim(0) != stats.examples) {
      return InvalidArgument("feature must be a matrix with a row for each of ", stats.examples,
                             " examples, got shape ", feature.shape());
    }
    const int64_t dimensions = feature.dim(1), width = stats.width();
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({stats.max_splits, dimensions, stats.buckets + 1, width}));
    ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(kDouble, shape));
    ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, shape));
    double* const sum = sums.mutable_data<double>();
    std::fill_n(sum, shape.num_elements(), 0.0);
    for (int64_t i = 0; i < stats.examples; ++i) {
      for (int64_t d = 0; d < dimensions; ++d) {
        const int32_t value = feature.data<int32_t>()[i * dimensions + d];
        if (value < -1 || value >= stats.buckets) {
          return InvalidArgument("feature[", i, ", ", d, "] is in bucket ", value, ", not in [0, ", stats.buckets,
                                 "), and not -1, which means that it is missing");
        }
        const int64_t bucket = value < 0 ? stats.buckets : value;
        double* const cell = sum + ((stats.nodes[i] * dimensions + d) * (stats.buckets + 1) + bucket) * width;
        for (int64_t k = 0; k < width; ++k) cell[k] += stats.At(i, k);
      }
    }
    std::copy_n(sum, shape.num_elements(), out->mutable_data<float>());
    return absl::OkStatus();
  }
};

// The same as a sparse tensor, of a sparse feature whose values that are not there are missing.
class SparseAggregateStatsKernel final : public AggregateKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const BatchStats stats, ReadStats(context));
    RETURN_IF_ERROR(CheckFeature(context, stats));
    const Tensor &indices = context.input(3), &values = context.input(4);
    const int64_t dimensions = context.input(5).data<int32_t>()[1];
    std::map<std::tuple<int32_t, int64_t, int64_t>, std::vector<float>> sums;  // by node, dimension and bucket
    int64_t next = 0;
    for (int64_t i = 0; i < stats.examples; ++i) {
      for (int64_t d = 0; d < dimensions; ++d) {
        const int32_t* const index = indices.data<int32_t>() + 2 * next;
        const bool there = next < values.num_elements() && index[0] == i && index[1] == d;
        const int64_t bucket = there ? values.data<int32_t>()[next++] : stats.buckets;
        std::vector<float>& cell = sums[{stats.nodes[i], d, bucket}];
        cell.resize(stats.width());
        for (int64_t k = 0; k < stats.width(); ++k) cell[k] += stats.At(i, k);
      }
    }
    const int64_t slots = static_cast<int64_t>(sums.size()) * stats.width();
    ASSIGN_OR_RETURN(Tensor* const out_indices, context.Allocate(0, Shape({slots, 4})));
    ASSIGN_OR_RETURN(Tensor* const out_values, context.Allocate(1, Shape({slots})));
    int32_t* index = out_indices->mutable_data<int32_t>();
    float* value = out_values->mutable_data<float>();
    for (const auto& [key, cell] : sums) {
      const auto [node, dimension, bucket] = key;
      for (int64_t k = 0; k < stats.width(); ++k) {
        for (const int64_t x : {int64_t{node}, dimension, bucket, k}) *index++ = static_cast<int32_t>(x);
        *value++ = cell[k];
      }
    }
    context.set_output(
        2, Tensor::Vector<int32_t>({static_cast<int32_t>(stats.max_splits), static_cast<int32_t>(dimensions),
                                    static_cast<int32_t>(stats.buckets) + 1, static_cast<int32_t>(stats.width())}));
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckFeature(KernelContext& context, const BatchStats& stats) {
    constexpr int64_t kMaxCells = int64_t{1} << 28;
    const Tensor &indices = context.input(3), &values = context.input(4), &shape = context.input(5);
    if (shape.num_elements() != 2) return InvalidArgument("feature_shape must have 2 elements, got ", shape.shape());
    if (indices.rank() != 2 || indices.dim(1) != 2 || values.rank() != 1 || values.dim(0) != indices.dim(0)) {
      return InvalidArgument("feature_indices must have shape [n, 2] and feature_values [n], got ", indices.shape(),
                             " and ", values.shape());
    }
    const int32_t dimensions = shape.data<int32_t>()[1];
    if (dimensions < 0 || stats.examples * dimensions > kMaxCells) {
      return InvalidArgument("feature_shape[1] is ", dimensions, ", and must be in [0, ", kMaxCells, " / ",
                             stats.examples, " examples]");
    }
    std::pair<int32_t, int32_t> before(-1, -1);
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const std::pair<int32_t, int32_t> index(indices.data<int32_t>()[2 * i], indices.data<int32_t>()[2 * i + 1]);
      const int32_t bucket = values.data<int32_t>()[i];
      if (index <= before || index.first >= stats.examples || index.second < 0 || index.second >= dimensions) {
        return InvalidArgument("feature_indices[", i, "] = [", index.first, ", ", index.second,
                               "] does not follow the one before, or is not below [", stats.examples, ", ", dimensions,
                               "]");
      }
      if (bucket < 0 || bucket >= stats.buckets) {
        return InvalidArgument("feature_values[", i, "] is in bucket ", bucket, ", not in [0, ", stats.buckets, ")");
      }
      before = index;
    }
    return absl::OkStatus();
  }
};

struct FeatureSplitOptions {
  float l1, l2, tree_complexity, min_node_weight;
};

struct Sums {
  float gradient = 0, hessian = 0;
  Sums operator+(const Sums& x) const { return {gradient + x.gradient, hessian + x.hessian}; }
  Sums operator-(const Sums& x) const { return {gradient - x.gradient, hessian - x.hessian}; }
  LeafWeight Weight(const FeatureSplitOptions& options) const {
    return LeafWeight::Of(gradient, hessian, options.l1, options.l2);
  }
};

// The best of the splits of a node.
class BestOfNode {
 public:
  explicit BestOfNode(const FeatureSplitOptions& options) : options_(options) {}

  // `left` is the part of `total` that goes left.
  void Consider(SplitTypeWithDefault type, int32_t dimension, int32_t bucket, const Sums& left, const Sums& total) {
    constexpr float kLeastGain = 1e-15f;  // a gain must be larger by this to be better
    const LeafWeight to_left = left.Weight(options_), to_right = (total - left).Weight(options_);
    const float gain = to_left.gain + to_right.gain;
    if (!(gain - gain_ >= kLeastGain)) return;
    found_ = true;
    gain_ = gain;
    type_ = type;
    dimension_ = dimension;
    bucket_ = bucket;
    left_ = to_left.weight;
    right_ = to_right.weight;
  }
  // Both splits at a bucket: missing values go left, or right. The last one of two that are equal loses.
  void ConsiderLeft(int32_t dimension, int32_t bucket, const Sums& left, const Sums& missing, const Sums& total) {
    Consider(tensorflow::boosted_trees::INEQUALITY_DEFAULT_LEFT, dimension, bucket, left + missing, total);
  }
  void ConsiderRight(int32_t dimension, int32_t bucket, const Sums& left, const Sums& total) {
    Consider(tensorflow::boosted_trees::INEQUALITY_DEFAULT_RIGHT, dimension, bucket, left, total);
  }

 private:
  friend class BestSplits;
  const FeatureSplitOptions& options_;
  bool found_ = false;
  float gain_ = std::numeric_limits<float>::lowest();
  SplitTypeWithDefault type_ = tensorflow::boosted_trees::INEQUALITY_DEFAULT_LEFT;
  int32_t dimension_ = 0, bucket_ = 0;
  float left_ = 0, right_ = 0;
};

// The best splits of all nodes, as outputs.
class BestSplits {
 public:
  void Add(int32_t node, const BestOfNode& best, const Sums& total) {
    if (!best.found_) return;
    nodes_.push_back(node);
    gains_.push_back(best.gain_ - total.Weight(best.options_).gain - best.options_.tree_complexity);
    dimensions_.push_back(best.dimension_);
    buckets_.push_back(best.bucket_);
    left_.push_back(best.left_);
    right_.push_back(best.right_);
    types_.push_back(tensorflow::boosted_trees::SplitTypeWithDefault_Name(best.type_));
  }
  void SetOutputs(KernelContext& context) const {
    const int64_t count = static_cast<int64_t>(nodes_.size());
    context.set_output(0, Tensor::Vector<int32_t>(nodes_));
    context.set_output(1, Tensor::Vector<float>(gains_));
    context.set_output(2, Tensor::Vector<int32_t>(dimensions_));
    context.set_output(3, Tensor::Vector<int32_t>(buckets_));
    context.set_output(4, Tensor::Vector<float>(left_).WithShape(Shape({count, 1})));
    context.set_output(5, Tensor::Vector<float>(right_).WithShape(Shape({count, 1})));
    context.set_output(6, Tensor::Vector<std::string>(types_));
  }

 private:
  std::vector<int32_t> nodes_, dimensions_, buckets_;
  std::vector<float> gains_, left_, right_;
  std::vector<std::string> types_;
};

class BestSplitKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) final {
    ASSIGN_OR_RETURN(const int64_t logits, init.Attr<int64_t>("logits_dimension"));
    if (logits != 1) return Unimplemented("splits for ", logits, " logits: trees have one");
    ASSIGN_OR_RETURN(const std::string type, init.Attr<std::string>("split_type"));
    equality_ = type == "equality";
    return absl::OkStatus();
  }

 protected:
  bool equality() const { return equality_; }

  // Inputs `first` to `first` + 3.
  static absl::StatusOr<FeatureSplitOptions> ReadOptions(KernelContext& context, int first) {
    for (int i = first; i < first + 4; ++i) {
      if (context.input(i).rank() == 0) continue;
      return InvalidArgument("input ", i, " must be a scalar, got a tensor of shape ", context.input(i).shape());
    }
    const auto option = [&](int i) { return context.input(first + i).scalar<float>(); };
    return FeatureSplitOptions{option(0), option(1), option(2), option(3)};
  }
  static absl::StatusOr<std::pair<int32_t, int32_t>> ReadRange(KernelContext& context) {
    const Tensor& range = context.input(0);
    if (range.rank() != 1 || range.dim(0) != 2) {
      return InvalidArgument("node_id_range must be a vector of 2 elements, got shape ", range.shape());
    }
    return std::pair(range.data<int32_t>()[0], range.data<int32_t>()[1]);
  }

 private:
  bool equality_ = false;
};

class BestFeatureSplitKernel final : public BestSplitKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const auto range, ReadRange(context));
    ASSIGN_OR_RETURN(const FeatureSplitOptions options, ReadOptions(context, 2));
    const Tensor& stats = context.input(1);
    if (stats.rank() != 4 || stats.dim(1) < 1 || stats.dim(2) < 1 || stats.dim(3) != 2) {
      return InvalidArgument("stats_summary must have shape [max_splits, dimensions, buckets + 1, 2], got ",
                             stats.shape());
    }
    if (range.first < 0 || range.second > stats.dim(0)) {
      return InvalidArgument("nodes [", range.first, ", ", range.second, ") are not all in a summary of ", stats.dim(0),
                             " nodes");
    }
    BestSplits splits;
    for (int32_t node = range.first; node < range.second; ++node) {
      const Sums total = Total(stats, node, 0);
      if (std::fabs(total.hessian) < options.min_node_weight) continue;
      BestOfNode best(options);
      for (int32_t d = 0; d < stats.dim(1); ++d) ConsiderDimension(stats, node, d, total, best);
      splits.Add(node, best, total);
    }
    splits.SetOutputs(context);
    return absl::OkStatus();
  }

 private:
  static Sums At(const Tensor& stats, int64_t node, int64_t dimension, int64_t bucket) {
    const float* const cell =
        stats.data<float>() + ((node * stats.dim(1) + dimension) * stats.dim(2) + bucket) * stats.dim(3);
    return {cell[0], cell[1]};
  }
  static Sums Total(const Tensor& stats, int64_t node, int64_t dimension) {
    Sums total;
    for (int64_t b = 0; b < stats.dim(2); ++b) total = total + At(stats, node, dimension, b);
    return total;
  }
  void ConsiderDimension(const Tensor& stats, int64_t node, int32_t d, const Sums& total, BestOfNode& best) const {
    const int32_t buckets = static_cast<int32_t>(stats.dim(2)) - 1;
    if (equality()) {
      for (int32_t b = 0; b < buckets; ++b) {
        best.Consider(tensorflow::boosted_trees::EQUALITY_DEFAULT_RIGHT, d, b, At(stats, node, d, b), total);
      }
      return;
    }
    const Sums missing = At(stats, node, d, buckets), all = Total(stats, node, d);
    Sums left;
    for (int32_t b = 0; b < buckets; ++b) {
      left = left + At(stats, node, d, b);
      best.ConsiderLeft(d, b, left, missing, all);
      best.ConsiderRight(d, b, left, all);
    }
  }
};

class SparseBestFeatureSplitKernel final : public BestSplitKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const auto range, ReadRange(context));
    ASSIGN_OR_RETURN(const FeatureSplitOptions options, ReadOptions(context, 4));
    const Tensor &indices = context.input(1), &values = context.input(2), &shape = context.input(3);
    if (shape.num_elements() != 4) {
      return InvalidArgument("stats_summary_shape must have 4 elements, got shape ", shape.shape());
    }
    if (shape.data<int32_t>()[3] != 2) {
      return InvalidArgument("stats_summary_shape[3] must be 2, for a gradient and a hessian, got ",
                             shape.data<int32_t>()[3]);
    }
    if (indices.rank() != 2 || indices.dim(1) != 4 || values.rank() != 1 || values.dim(0) != indices.dim(0)) {
      return InvalidArgument("stats_summary_indices must have shape [n, 4] and stats_summary_values [n], got ",
                             indices.shape(), " and ", values.shape());
    }
    const int32_t missing = shape.data<int32_t>()[2] - 1;
    BestSplits splits;
    Dimensions dimensions;
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int32_t* const index = indices.data<int32_t>() + 4 * i;
      for (int k = 0; k < 4; ++k) {
        if (index[k] >= 0 && index[k] < shape.data<int32_t>()[k]) continue;
        return InvalidArgument("stats_summary_indices[", i, ", ", k, "] = ", index[k], " is not in [0, ",
                               shape.data<int32_t>()[k], ")");
      }
      if (index[0] < range.first || index[0] >= range.second || (i > 0 && index[0] < index[-4])) {
        return InvalidArgument("stats_summary_indices[", i, "] is of node ", index[0],
                               ", which is not in node_id_range or does not follow the one before");
      }
      Sums& sums = dimensions[index[1]][index[2]];
      (index[3] == 0 ? sums.gradient : sums.hessian) = values.data<float>()[i];
      if (i + 1 < values.num_elements() && index[4] == index[0]) continue;
      AddNode(index[0], dimensions, missing, options, splits);
      dimensions.clear();
    }
    splits.SetOutputs(context);
    return absl::OkStatus();
  }

 private:
  using Dimensions = std::map<int32_t, std::map<int32_t, Sums>>;  // by dimension and bucket

  static void AddNode(int32_t node, const Dimensions& dimensions, int32_t missing_bucket,
                      const FeatureSplitOptions& options, BestSplits& splits) {
    Sums total;
    for (const auto& [bucket, sums] : dimensions.begin()->second) total = total + sums;
    if (total.hessian < options.min_node_weight) return;
    BestOfNode best(options);
    for (const auto& [dimension, buckets] : dimensions) {
      const auto found = buckets.find(missing_bucket);
      const Sums missing = found == buckets.end() ? Sums() : found->second;
      Sums left;
      for (const auto& [bucket, sums] : buckets) {
        if (bucket == missing_bucket) break;
        left = left + sums;
        best.ConsiderRight(dimension, bucket, left, total);
        best.ConsiderLeft(dimension, bucket, left, missing, total);
      }
    }
    splits.Add(node, best, total);
  }
};

Op Aggregate(absl::string_view name) {
  return Op(name)
      .Input("node_ids: int32")
      .Input("gradients: float")
      .Input("hessians: float")
      .Attr("max_splits: int >= 1")
      .Attr("num_buckets: int >= 1")
      .Shape(shapes::Unknown)
      .NotDifferentiable();
}

// Adds what follows the summary.
Op BestSplitOp(Op op, absl::string_view types) {
  for (const char* input : {"l1", "l2", "tree_complexity", "min_node_weight"}) op.Input(absl::StrCat(input, ": float"));
  return op.Output("node_ids: int32")
      .Output("gains: float")
      .Output("feature_dimensions: int32")
      .Output("thresholds: int32")
      .Output("left_node_contribs: float")
      .Output("right_node_contribs: float")
      .Output("split_with_default_directions: string")
      .Attr("logits_dimension: int >= 1")
      .Attr(absl::StrCat("split_type: {", types, "} = 'inequality'"))
      .Shape(shapes::Unknown)
      .NotDifferentiable();
}

const OpRegistration kBoostedTreesSplitOps[] = {
    Aggregate("BoostedTreesAggregateStats")
        .Input("feature: int32")
        .Output("stats_summary: float")
        .Kernel<AggregateStatsKernel>(),
    Aggregate("BoostedTreesSparseAggregateStats")
        .Input("feature_indices: int32")
        .Input("feature_values: int32")
        .Input("feature_shape: int32")
        .Output("stats_summary_indices: int32")
        .Output("stats_summary_values: float")
        .Output("stats_summary_shape: int32")
        .Kernel<SparseAggregateStatsKernel>(),
    BestSplitOp(Op("BoostedTreesCalculateBestFeatureSplit").Input("node_id_range: int32").Input("stats_summary: float"),
                "'inequality', 'equality'")
        .Kernel<BestFeatureSplitKernel>(),
    BestSplitOp(Op("BoostedTreesSparseCalculateBestFeatureSplit")
                    .Input("node_id_range: int32")
                    .Input("stats_summary_indices: int32")
                    .Input("stats_summary_values: float")
                    .Input("stats_summary_shape: int32"),
                "'inequality'")
        .Kernel<SparseBestFeatureSplitKernel>(),
};

}  // namespace
}  // namespace thalweg
