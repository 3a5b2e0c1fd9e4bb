// SPDX-License-Identifier: Apache-2.0
// The losses that SDCA can minimize (Shalev-Shwartz and Zhang, "Stochastic Dual
// Coordinate Ascent Methods for Regularized Loss Minimization", 2013).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// A loss as a function of a prediction (w x) and a label, and its dual. Constant.
class SdcaLoss {
 public:
  // `name` is logistic_loss, squared_loss, hinge_loss, smooth_hinge_loss or poisson_loss;
  // INVALID_ARGUMENT otherwise.
  static absl::StatusOr<std::unique_ptr<SdcaLoss>> Make(absl::string_view name);
  virtual ~SdcaLoss() = default;

  // The dual variable that maximizes the dual objective with all others fixed.
  // `norm` is the squared length of the example over l2, times its weight and the
  // number of partitions that update at the same time.
  virtual double UpdatedDual(double label, double dual, double prediction, double norm) const = 0;
  virtual double Primal(double prediction, double label) const = 0;
  virtual double PrimalDerivative(double prediction, double label) const = 0;
  virtual double Dual(double dual, double label) const = 0;
  // One over the Lipschitz constant of the derivative; 0 if it has none.
  virtual double Smoothness() const = 0;
  // Converts a label to the form that the formulas use. INVALID_ARGUMENT if it is not valid.
  virtual absl::StatusOr<float> Label(float label) const = 0;
};

}  // namespace thalweg
