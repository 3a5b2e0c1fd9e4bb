// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/normalization_layers.h"

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/layers/check_layer.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

std::vector<Output> UpdateOps(const Graph& graph) {
  std::vector<Output> operations;
  for (const std::string& name : graph.Collection(kUpdateOps)) {
    if (Node* const node = graph.FindNode(name)) operations.emplace_back(node);
  }
  return operations;
}

namespace layers {
namespace {

struct Normalized {
  Output y, mean, variance;
};

// The scale and offset of each channel, and its moving averages.
struct Channels {
  Output gamma, beta;
  Var mean, variance;
};

Normalized NormalizeImages(const Scope& s, Output x, const Channels& c, bool training, double epsilon) {
  Output mean = c.mean, variance = c.variance;
  if (training) mean = variance = Const(s, Tensor(kFloat, {0}));  // computed from the batch
  const FusedBatchNormResult r = FusedBatchNorm(s, x, c.gamma, c.beta, mean, variance,
                                                {.epsilon = static_cast<float>(epsilon), .is_training = training});
  return {r.y, r.batch_mean, r.batch_variance};
}

Normalized NormalizeRows(const Scope& s, Output x, const Channels& c, bool training, double epsilon) {
  Output mean = c.mean, variance = c.variance;
  if (training) {
    mean = ReduceMean(s, x, {0});
    variance = ReduceMean(s, SquaredDifference(s, x, StopGradient(s, mean)), {0});
  }
  const Output small = Hyperparameter(epsilon).AsTensor(s, "epsilon", RemoveRef(x.dtype()));
  const Output factor = Mul(s, Rsqrt(s, Add(s, variance, small)), c.gamma);
  return {Add(s, Mul(s, x, factor), Sub(s, c.beta, Mul(s, mean, factor))), mean, variance};
}

Normalized Normalize(const Scope& s, Output x, const Channels& c, bool training, double epsilon) {
  return x.shape().rank() == 4 ? NormalizeImages(s, x, c, training, epsilon)
                               : NormalizeRows(s, x, c, training, epsilon);
}

// Builds both branches, of which one is computed. Values enter a branch through a Switch.
Normalized Branches(const Scope& s, Output x, const Channels& c, Output training, double epsilon) {
  std::vector<Output> entered[2];
  for (const Output& value : {x, c.gamma, c.beta, c.mean.read, c.variance.read}) {
    Node* const branch = s.Add("Switch", {value, training});
    if (branch == nullptr) return {};
    for (const int i : {0, 1}) entered[i].push_back(branch->out(i));
  }
  std::vector<Output> y, mean, variance;
  for (const int i : {0, 1}) {
    const std::vector<Output>& in = entered[i];
    Channels inside{in[1], in[2], c.mean, c.variance};
    inside.mean.read = in[3];
    inside.variance.read = in[4];
    const Normalized n = Normalize(s.SubScope(i == 1 ? "training" : "inference"), in[0], inside, i == 1, epsilon);
    y.push_back(n.y);
    // Outside of training the averages stay what they are.
    mean.push_back(i == 1 ? n.mean : in[3]);
    variance.push_back(i == 1 ? n.variance : in[4]);
  }
  return {s.Add("Merge", {y}), s.Add("Merge", {mean}), s.Add("Merge", {variance})};
}

// average -= (average - value) * (1 - momentum)
void UpdateAverage(const Scope& scope, const Var& average, Output value, double momentum) {
  const Scope s = scope.ColocateWith(average.ref);
  const Output rate = Hyperparameter(1 - momentum).AsTensor(s, "decay", average.dtype());
  const Output update = AssignSub(s, average.ref, Mul(s, Sub(s, average, value), rate));
  if (s.ok()) s.graph().AddToCollection(kUpdateOps, update.node->name());
}

absl::Status CheckBatchNorm(const Output& x, const BatchNormOptions& options) {
  RETURN_IF_ERROR(CheckFloating(x));
  const PartialShape& shape = x.shape();
  if ((shape.rank() != 2 && shape.rank() != 4) || shape.dim(shape.rank() - 1) <= 0) {
    return InvalidArgument("the input needs a rank of 2 or 4 and a known last dimension, got ", shape);
  }
  if (!(options.momentum >= 0 && options.momentum <= 1) || !(options.epsilon >= 0)) {
    return InvalidArgument("momentum must be in [0, 1] and epsilon not negative, got ", options.momentum, " and ",
                           options.epsilon);
  }
  return absl::OkStatus();
}

}  // namespace

Output BatchNorm(const Scope& scope, Output x, const BatchNormOptions& options) {
  if (!CheckLayer(scope, "BatchNorm", options.name, x, [&] { return CheckBatchNorm(x, options); })) return {};
  const Scope s = scope.SubScope(options.name);
  const Shape shape({x.shape().dim(x.shape().rank() - 1)});
  // Parameters of images are float, whatever these are.
  const DType dtype = x.shape().rank() == 4 ? kFloat : RemoveRef(x.dtype());
  const auto variable = [&](absl::string_view name, const Initializer& initializer, bool trainable) {
    return MakeVariable(s, name, shape, {.initializer = initializer, .dtype = dtype, .trainable = trainable});
  };
  const auto fixed = [&](const Initializer& initializer) { return initializer(s, shape, dtype); };
  Channels c;
  c.gamma =
      options.scale ? Output(variable("gamma", initializers::Ones(), options.trainable)) : fixed(initializers::Ones());
  c.beta = options.center ? Output(variable("beta", initializers::Zeros(), options.trainable))
                          : fixed(initializers::Zeros());
  c.mean = variable("moving_mean", initializers::Zeros(), false);
  c.variance = variable("moving_variance", initializers::Ones(), false);
  if (!s.ok()) return {};
  const Output training = options.training.tensor();
  const Normalized n = training ? Branches(s, x, c, training, options.epsilon)
                                : Normalize(s, x, c, options.training.value(), options.epsilon);
  if (s.ok() && (training || options.training.value())) {
    UpdateAverage(s.SubScope("AssignMovingAvg"), c.mean, n.mean, options.momentum);
    UpdateAverage(s.SubScope("AssignMovingAvg_1"), c.variance, n.variance, options.momentum);
  }
  return n.y;
}

}  // namespace layers
}  // namespace thalweg
