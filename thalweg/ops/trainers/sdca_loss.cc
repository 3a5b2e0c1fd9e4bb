// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/trainers/sdca_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::max();
constexpr int kNewtonSteps = 10;  // converges quadratically

class SquaredLoss : public SdcaLoss {
 public:
  double UpdatedDual(double label, double dual, double prediction, double norm) const override {
    return dual + (label - dual - prediction) / (1 + norm);
  }
  double Primal(double prediction, double label) const override {
    return 0.5 * (prediction - label) * (prediction - label);
  }
  double PrimalDerivative(double prediction, double label) const override { return prediction - label; }
  double Dual(double dual, double label) const override { return dual * (0.5 * dual - label); }
  double Smoothness() const override { return 1; }
  absl::StatusOr<float> Label(float label) const override { return label; }
};

// Labels are 0 and 1 outside, -1 and 1 in the formulas.
class BinaryLoss : public SdcaLoss {
 public:
  absl::StatusOr<float> Label(float label) const override {
    if (label == 0) return -1.0f;
    if (label == 1) return 1.0f;
    return InvalidArgument("Only labels of 0.0 or 1.0 are supported right now. Found example with label: ", label);
  }
};

class LogisticLoss : public BinaryLoss {
 public:
  // The dual is (1 + tanh(x)) / 2y, and x the zero of a function that Newton's
  // method finds.
  double UpdatedDual(double label, double dual, double prediction, double norm) const override {
    double x = 0;
    for (int i = 0; i < kNewtonSteps; ++i) {
      const double t = std::tanh(x);
      const double value = -2 * label * x - prediction - norm * (0.5 * (1 + t) / label - dual);
      const double slope = -2 * label - norm * (1 - t * t) * 0.5 / label;
      x -= value / slope;
    }
    return 0.5 * (1 + std::tanh(x)) / label;
  }
  double Primal(double prediction, double label) const override {
    const double margin = label * prediction;
    return std::log1p(std::exp(-std::fabs(margin))) + std::max(0.0, -margin);
  }
  double PrimalDerivative(double prediction, double label) const override {
    return -label / (1 + std::exp(label * prediction));
  }
  double Dual(double dual, double label) const override {
    const auto entropy = [](double p) { return p > 0 ? p * std::log(p) : 0; };
    return entropy(dual * label) + entropy(1 - dual * label);
  }
  double Smoothness() const override { return 4; }
};

// With `smoothness` 0 the hinge, max(0, 1 - margin); else its corner is a
// parabola of that width.
class HingeLoss : public BinaryLoss {
 public:
  explicit HingeLoss(double smoothness) : smoothness_(smoothness) {}
  double UpdatedDual(double label, double dual, double prediction, double norm) const override {
    const double best = dual + (label - prediction - smoothness_ * dual) / (norm + smoothness_);
    if (label * best < 0) return 0;
    return label * best > 1 ? label : best;
  }
  double Primal(double prediction, double label) const override {
    const double gap = 1 - label * prediction;
    if (gap <= 0) return 0;
    return gap >= smoothness_ ? gap - smoothness_ / 2 : gap * gap * 0.5 / smoothness_;
  }
  double PrimalDerivative(double prediction, double label) const override {
    const double gap = 1 - label * prediction;
    if (gap <= 0) return 0;
    return gap >= smoothness_ ? -label : (prediction - label) / smoothness_;
  }
  double Dual(double dual, double label) const override {
    const double product = dual * label;
    return product < 0 || product > 1 ? kInfinite : -product + 0.5 * smoothness_ * dual * dual;
  }
  double Smoothness() const override { return smoothness_; }

 private:
  const double smoothness_;
};

class PoissonLoss : public SdcaLoss {
 public:
  double UpdatedDual(double label, double dual, double prediction, double norm) const override {
    double x = label - dual > 0 ? std::log(label - dual) : 0;
    for (int i = 0; i < kNewtonSteps; ++i) {
      const double e = std::exp(x);
      x -= (x - prediction - norm * (label - dual - e)) / (1 + norm * e);
    }
    return label - std::exp(x);
  }
  double Primal(double prediction, double label) const override { return std::exp(prediction) - prediction * label; }
  double PrimalDerivative(double prediction, double label) const override { return std::exp(prediction) - label; }
  double Dual(double dual, double label) const override {
    const double rest = label - dual;
    if (rest == 0) return 0;
    return rest < 0 ? kInfinite : rest * (std::log(rest) - 1);
  }
  double Smoothness() const override { return 1; }
  absl::StatusOr<float> Label(float label) const override {
    if (!(label < 0)) return label;
    return InvalidArgument("Only non-negative labels can be used with the Poisson log loss. Found example with label: ",
                           label);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<SdcaLoss>> SdcaLoss::Make(absl::string_view name) {
  if (name == "logistic_loss") return std::make_unique<LogisticLoss>();
  if (name == "squared_loss") return std::make_unique<SquaredLoss>();
  if (name == "hinge_loss") return std::make_unique<HingeLoss>(0);
  if (name == "smooth_hinge_loss") return std::make_unique<HingeLoss>(1);
  if (name == "poisson_loss") return std::make_unique<PoissonLoss>();
  return InvalidArgument("Unsupported loss type: ", name);
}

}  // namespace thalweg
