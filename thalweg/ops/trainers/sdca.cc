// SPDX-License-Identifier: Apache-2.0
// SdcaOptimizer (and V2, which differs in the name of an attr), SdcaShrinkL1 and
// SdcaFprint: linear models by stochastic dual coordinate ascent. Every example
// has a dual variable; each in turn is set to the best value given the others, and
// the weights follow. The examples of a call are taken in order, on one thread, so
// that a run can be repeated; with `adaptive`, by how much they have to gain.
#include <farmhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/support/uniform_below.h"
#include "thalweg/ops/trainers/sdca_loss.h"

namespace thalweg {
namespace {

// Moves weights towards zero by l1 / l2, and no further.
struct Regularization {
  float l1 = 0;
  float l2 = 0;

  template <typename Init>
  static absl::StatusOr<Regularization> Of(const Init& init) {
    Regularization r;
    ASSIGN_OR_RETURN(r.l1, init.template Attr<float>("l1"));
    ASSIGN_OR_RETURN(r.l2, init.template Attr<float>("l2"));
    return r;
  }
  double Shrink(double weight) const {
    return std::copysign(std::max(std::fabs(weight) - static_cast<double>(l1 / l2), 0.0), weight);
  }
};

// One group of sparse features: the features of each example, as positions in the group's weights, and
// their values (all 1 if empty).
struct SparseGroup {
  std::vector<int64_t> starts;  // start of each example, and the end
  std::vector<int64_t> positions;
  const float* values = nullptr;
  const float* weights = nullptr;
  float* deltas = nullptr;
};

// One group of dense features: a row of `width` values for each example.
struct DenseGroup {
  int64_t width = 0;
  const float* values = nullptr;
  const float* weights = nullptr;
  float* deltas = nullptr;
};

// The training data of a call, and its weight updates.
class SdcaProblem {
 public:
  int64_t examples = 0;
  std::vector<SparseGroup> sparse;
  std::vector<DenseGroup> dense;

  // f(value, weight, delta) for every feature of an example.
  template <typename F>
  void ForEachFeature(int64_t example, const F& f) const {
    for (const SparseGroup& g : sparse) {
      for (int64_t k = g.starts[example]; k < g.starts[example + 1]; ++k) {
        const int64_t at = g.positions[k];
        f(g.values == nullptr ? 1.0 : static_cast<double>(g.values[k]), g.weights[at], g.deltas[at]);
      }
    }
    for (const DenseGroup& g : dense) {
      const float* const row = g.values + example * g.width;
      for (int64_t k = 0; k < g.width; ++k) f(static_cast<double>(row[k]), g.weights[k], g.deltas[k]);
    }
  }

  double SquaredNorm(int64_t example) const {
    double sum = 0;
    ForEachFeature(example, [&](double value, float, float&) { sum += value * value; });
    return sum;
  }
};

class SdcaOptimizerKernel : public Kernel {
 public:
  explicit SdcaOptimizerKernel(const char* adaptive_attr) : adaptive_attr_(adaptive_attr) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string loss, init.Attr<std::string>("loss_type"));
    ASSIGN_OR_RETURN(loss_, SdcaLoss::Make(loss));
    ASSIGN_OR_RETURN(adaptive_, init.Attr<bool>(adaptive_attr_));
    ASSIGN_OR_RETURN(sparse_, init.Attr<int64_t>("num_sparse_features"));
    ASSIGN_OR_RETURN(with_values_, init.Attr<int64_t>("num_sparse_features_with_values"));
    ASSIGN_OR_RETURN(dense_, init.Attr<int64_t>("num_dense_features"));
    ASSIGN_OR_RETURN(partitions_, init.Attr<int64_t>("num_loss_partitions"));
    ASSIGN_OR_RETURN(regularization_, Regularization::Of(init));
    if (sparse_ + dense_ == 0) return InvalidArgument("Requires at least one feature to train.");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const SdcaProblem problem, Read(context));
    const Tensor &weights = context.input(Weights()), &labels = context.input(Weights() + 1),
                 &state = context.input(context.num_inputs() - 1);
    if (state.shape() != Shape({problem.examples, 4})) {
      return InvalidArgument("Expected shape ", Shape({problem.examples, 4}), " for example_state_data, got ",
                             state.shape());
    }
    ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, state.shape()));
    float* const states = out->mutable_data<float>();
    std::copy_n(state.data<float>(), state.num_elements(), states);
    ASSIGN_OR_RETURN(const std::vector<int64_t> order, Order(problem, weights, labels, states));
    for (const int64_t example : order) {
      if (context.step().cancellation != nullptr && context.step().cancellation->cancelled()) {
        return context.step().cancellation->status();
      }
      RETURN_IF_ERROR(
          Train(problem, example, weights.data<float>()[example], labels.data<float>()[example], states + 4 * example));
    }
    return absl::OkStatus();
  }

 private:
  // Inputs: example and feature indices of each sparse group, values of some, the
  // dense features, example weights and labels, then indices and weights of the
  // sparse groups, weights of the dense ones, and the state of the examples.
  int Weights() const { return static_cast<int>(2 * sparse_ + with_values_ + dense_); }

  absl::StatusOr<SdcaProblem> Read(KernelContext& context) const {
    SdcaProblem problem;
    problem.examples = context.input(Weights()).num_elements();
    const int64_t labels = context.input(Weights() + 1).num_elements();
    if (labels != problem.examples) {
      return InvalidArgument("Expected ", problem.examples, " example labels but got ", labels);
    }
    int output = 1;
    for (int i = 0; i < sparse_; ++i, ++output) {
      ASSIGN_OR_RETURN(SparseGroup group, ReadSparse(context, i, problem.examples, output));
      problem.sparse.push_back(std::move(group));
    }
    for (int i = 0; i < dense_; ++i, ++output) {
      ASSIGN_OR_RETURN(DenseGroup group, ReadDense(context, i, problem.examples, output));
      problem.dense.push_back(group);
    }
    return problem;
  }

  // Zeros in the shape of the weights.
  static absl::StatusOr<float*> Deltas(KernelContext& context, const Tensor& weights, int output) {
    ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(output, weights.shape()));
    std::fill_n(out->mutable_data<float>(), out->num_elements(), 0.0f);
    return out->mutable_data<float>();
  }

  absl::StatusOr<SparseGroup> ReadSparse(KernelContext& context, int i, int64_t examples, int output) const {
    const int sparse = static_cast<int>(sparse_), first = Weights() + 2;
    const Tensor &example_indices = context.input(i), &features = context.input(sparse + i),
                 &indices = context.input(first + i), &weights = context.input(first + sparse + i);
    const int64_t count = features.num_elements();
    if (example_indices.num_elements() != count) {
      return InvalidArgument("Found mismatched example_indices and feature_indices: ", example_indices.shape(), " vs ",
                             features.shape());
    }
    if (indices.num_elements() != weights.num_elements()) {
      return InvalidArgument("sparse_indices and sparse_weights must have the same length, got ", indices.shape(),
                             " and ", weights.shape());
    }
    SparseGroup group;
    group.weights = weights.data<float>();
    ASSIGN_OR_RETURN(group.deltas, Deltas(context, weights, output));
    if (i < with_values_) {
      const Tensor& values = context.input(2 * sparse + i);
      if (values.num_elements() != count) {
        return InvalidArgument("Expected ", count, " sparse_feature_values, got ", values.shape());
      }
      group.values = values.data<float>();
    }
    absl::flat_hash_map<int64_t, int64_t> positions;
    for (int64_t k = 0; k < indices.num_elements(); ++k) positions[indices.data<int64_t>()[k]] = k;
    absl::flat_hash_set<int64_t> seen;
    int64_t k = 0;
    for (int64_t example = 0; example < examples; ++example) {
      group.starts.push_back(k);
      seen.clear();
      for (; k < count && example_indices.data<int64_t>()[k] == example; ++k) {
        const int64_t feature = features.data<int64_t>()[k];
        const auto found = positions.find(feature);
        if (found == positions.end()) {
          return InvalidArgument("Found sparse feature indices out of valid range: ", feature);
        }
        if (!seen.insert(feature).second) return InvalidArgument("Duplicate index in sparse vector.");
        group.positions.push_back(found->second);
      }
    }
    group.starts.push_back(k);
    return group;
  }

  absl::StatusOr<DenseGroup> ReadDense(KernelContext& context, int i, int64_t examples, int output) const {
    const Tensor& features = context.input(static_cast<int>(2 * sparse_ + with_values_) + i);
    const Tensor& weights = context.input(Weights() + 2 + static_cast<int>(2 * sparse_) + i);
    if (features.rank() != 2) {
      return InvalidArgument("Dense features at index ", i, " must be rank 2 but is rank ", features.rank());
    }
    if (features.dim(0) != examples) {
      return InvalidArgument("Dense features at index ", i, " must have ", examples, " rows, got ", features.shape());
    }
    if (features.dim(1) == 0 || features.dim(1) > weights.num_elements()) {
      return InvalidArgument("More dense features than we have parameters for: ", features.dim(1));
    }
    DenseGroup group{.width = features.dim(1), .values = features.data<float>(), .weights = weights.data<float>()};
    ASSIGN_OR_RETURN(group.deltas, Deltas(context, weights, output));
    return group;
  }

  // Predictions with the weights before and as they are now. The changes of other
  // partitions are taken to be like ours.
  struct Predictions {
    double before = 0;
    double now = 0;
  };
  Predictions Predict(const SdcaProblem& problem, int64_t example) const {
    Predictions p;
    problem.ForEachFeature(example, [&](double value, float weight, float& delta) {
      p.before += value * regularization_.Shrink(weight);
      p.now += value * regularization_.Shrink(weight + static_cast<double>(delta) * static_cast<double>(partitions_));
    });
    return p;
  }

  // `state` of an example: dual variable, primal loss, dual loss, weight.
  absl::Status Train(const SdcaProblem& problem, int64_t example, float weight, float raw_label, float* state) const {
    ASSIGN_OR_RETURN(const float label, loss_->Label(raw_label));
    const double dual = state[0];
    const Predictions p = Predict(problem, example);
    const double norm = problem.SquaredNorm(example) / regularization_.l2 * weight * static_cast<double>(partitions_);
    const double updated = loss_->UpdatedDual(label, dual, p.now, norm);
    const double step = (updated - dual) * weight / regularization_.l2;
    problem.ForEachFeature(
        example, [&](double value, float, float& delta) { delta = static_cast<float>(delta + value * step); });
    state[0] = static_cast<float>(updated);
    state[1] = static_cast<float>(loss_->Primal(p.before, label) * weight);
    state[2] =
        static_cast<float>(std::min<double>(loss_->Dual(dual, label) * weight, std::numeric_limits<double>::max()));
    state[3] = weight;
    return absl::OkStatus();
  }

  // The order of the examples. Adaptive: drawn in proportion to their possible gain (Csiba et al.,
  // "Stochastic dual coordinate ascent with adaptive probabilities", 2015), where every draw divides an
  // example's probability by ten. Examples that were never drawn come last.
  absl::StatusOr<std::vector<int64_t>> Order(const SdcaProblem& problem, const Tensor& weights, const Tensor& labels,
                                             const float* states) const {
    std::vector<int64_t> order(problem.examples);
    std::iota(order.begin(), order.end(), 0);
    if (!adaptive_) return order;
    std::vector<double> gains(problem.examples), sums(problem.examples);
    for (int64_t i = 0; i < problem.examples; ++i) {
      ASSIGN_OR_RETURN(const float label, loss_->Label(labels.data<float>()[i]));
      const double residual = states[4 * i] + loss_->PrimalDerivative(Predict(problem, i).now, label);
      gains[i] = weights.data<float>()[i] *
                 std::sqrt(problem.SquaredNorm(i) + regularization_.l2 * loss_->Smoothness()) * std::fabs(residual);
    }
    std::partial_sum(gains.begin(), gains.end(), sums.begin());
    if (sums.empty() || !(sums.back() > 0)) return order;
    std::vector<int> drawn(problem.examples);
    PhiloxSingle random(Philox(0));
    order.clear();
    for (int64_t misses = 0; misses < problem.examples && static_cast<int64_t>(order.size()) < problem.examples;) {
      const double at = static_cast<double>(UniformFloat(random)) * sums.back();
      const int64_t i =
          std::min<int64_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin(), problem.examples - 1);
      if (static_cast<double>(UniformFloat(random)) > std::pow(0.1, drawn[i])) {
        ++misses;
        continue;
      }
      ++drawn[i];
      order.push_back(i);
    }
    for (int64_t i = 0; i < problem.examples && static_cast<int64_t>(order.size()) < problem.examples; ++i) {
      if (drawn[i] == 0) order.push_back(i);
    }
    return order;
  }

  const char* const adaptive_attr_;
  std::unique_ptr<SdcaLoss> loss_;
  Regularization regularization_;
  bool adaptive_ = false;
  int64_t sparse_ = 0, with_values_ = 0, dense_ = 0, partitions_ = 1;
};

class SdcaShrinkL1Kernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(regularization_, Regularization::Of(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    for (int i = 0; i < context.num_inputs(); ++i) {
      Variable& variable = context.variable(i);
      RETURN_IF_ERROR(variable.Update([&](Tensor& value) -> absl::Status {
        RETURN_IF_ERROR(CheckInitialized(variable, value));
        RETURN_IF_ERROR(MakeWritable(value));
        float* const weights = value.mutable_data<float>();
        for (int64_t k = 0; k < value.num_elements(); ++k) {
          weights[k] = static_cast<float>(regularization_.Shrink(weights[k]));
        }
        return absl::OkStatus();
      }));
    }
    return absl::OkStatus();
  }

 private:
  Regularization regularization_;
};

// 128 bits for every string. The first word is never 0 or 1, which tables use as
// marks.
absl::Status SdcaFprint(KernelContext& context) {
  const Tensor& input = context.input(0);
  if (input.rank() != 1) return InvalidArgument("Input must be a vector, got shape ", input.shape());
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({input.dim(0), 2}));
  ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, shape));
  for (int64_t i = 0; i < input.dim(0); ++i) {
    const std::string& text = input.data<std::string>()[i];
    const auto print = util::Fingerprint128(text.data(), text.size());
    const uint64_t low = util::Uint128Low64(print);
    out->mutable_data<int64_t>()[2 * i] = static_cast<int64_t>(low >= 2 ? low : low + ~uint64_t{1});
    out->mutable_data<int64_t>()[2 * i + 1] = static_cast<int64_t>(util::Uint128High64(print));
  }
  return absl::OkStatus();
}

absl::Status FprintShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 1));
  c.set_output(0, {input.dim(0), 2});
  return absl::OkStatus();
}

Op OptimizerOp(absl::string_view name, const char* adaptive) {
  return Op(name)
      .Input("sparse_example_indices: num_sparse_features * int64")
      .Input("sparse_feature_indices: num_sparse_features * int64")
      .Input("sparse_feature_values: num_sparse_features_with_values * float")
      .Input("dense_features: num_dense_features * float")
      .Input("example_weights: float")
      .Input("example_labels: float")
      .Input("sparse_indices: num_sparse_features * int64")
      .Input("sparse_weights: num_sparse_features * float")
      .Input("dense_weights: num_dense_features * float")
      .Input("example_state_data: float")
      .Output("out_example_state_data: float")
      .Output("out_delta_sparse_weights: num_sparse_features * float")
      .Output("out_delta_dense_weights: num_dense_features * float")
      .Attr("loss_type: {'logistic_loss', 'squared_loss', 'hinge_loss', 'smooth_hinge_loss', 'poisson_loss'}")
      .Attr(absl::StrCat(adaptive, ": bool = false"))
      .Attr("num_sparse_features: int >= 0")
      .Attr("num_sparse_features_with_values: int >= 0")
      .Attr("num_dense_features: int >= 0")
      .Attr("l1: float")
      .Attr("l2: float")
      .Attr("num_loss_partitions: int >= 1")
      .Attr("num_inner_iterations: int >= 1")
      .Shape(shapes::Unknown)
      .Kernel<SdcaOptimizerKernel>(adaptive)
      .NotDifferentiable();
}

const OpRegistration kSdcaOps[] = {
    OptimizerOp("SdcaOptimizer", "adaptative"),
    OptimizerOp("SdcaOptimizerV2", "adaptive"),
    Op("SdcaShrinkL1")
        .Input("weights: Ref(num_features * float)")
        .Attr("num_features: int >= 0")
        .Attr("l1: float")
        .Attr("l2: float")
        .Shape(shapes::NoOutputs)
        .Kernel<SdcaShrinkL1Kernel>()
        .NotDifferentiable(),
    Op("SdcaFprint")
        .Input("input: string")
        .Output("output: int64")
        .Shape(FprintShape)
        .Compute(SdcaFprint)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
