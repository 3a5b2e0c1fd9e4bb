// SPDX-License-Identifier: Apache-2.0
// Optimizers: from a loss to the operation that makes it smaller.
//
//   auto optimizer = Adam({.learning_rate = 1e-4f});
//   const Output train_op = optimizer->Minimize(s, loss, {.global_step = GetOrCreateGlobalStep(s)});
//
// Variables, slots and operations have the names that TensorFlow 1 gives them,
// so that checkpoints go both ways.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/graph/gradient.h"
#include "thalweg/graph/scope.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/session/hooks.h"

namespace thalweg {

// A variable and the derivative of the loss with respect to it.
struct GradientAndVar {
  Gradient gradient;  // empty: the loss does not depend on the variable
  Var variable;       // the variable
};

// The counter of steps, and the name of the update.
struct ApplyGradientsOptions {
  Var global_step;   // incremented after the update, if given
  std::string name;  // name of the operation; empty: the optimizer's name
};

// Which variables Minimize trains, and the counter of steps.
struct MinimizeOptions {
  Var global_step;            // incremented after the update, if given
  std::vector<Var> var_list;  // variables to train; empty: all trainable ones
  std::string name;           // name of the operation; empty: the optimizer's name
};

// A fixed number, or a scalar tensor that may change from step to step.
class Hyperparameter {
 public:
  // From a number, a tensor or a variable:
  Hyperparameter(float value) : value_(value) {}              // NOLINT: implicit by design
  Hyperparameter(double value) : value_(value) {}             // NOLINT
  Hyperparameter(int value) : value_(value) {}                // NOLINT
  Hyperparameter(Output tensor) : tensor_(tensor) {}          // NOLINT
  Hyperparameter(const Var& variable) : tensor_(variable) {}  // NOLINT

  // A scalar of type `dtype`: a constant called `name`, or the tensor, cast.
  Output AsTensor(const Scope& s, absl::string_view name, DType dtype) const;

 private:
  double value_ = 0;
  Output tensor_;
};

// Adds the operations that train variables. An optimizer serves one graph. Errors go to
// the scope.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Returns an operation that computes the gradients of `loss`, a scalar, and updates the
  // variables. The same as ComputeGradients followed by ApplyGradients.
  Output Minimize(const Scope& s, Output loss, const MinimizeOptions& options = {});

  // The gradients of `loss` with respect to the variables; empty `var_list`: all trainable ones. Change them before
  // ApplyGradients to clip or scale them.
  virtual std::vector<GradientAndVar> ComputeGradients(const Scope& s, Output loss, std::vector<Var> var_list = {});
  // Returns the operation that updates all variables, then the global step.
  virtual Output ApplyGradients(const Scope& s, const std::vector<GradientAndVar>& gradients,
                                const ApplyGradientsOptions& options = {});

  // TensorFlow's name: "Adam", "GradientDescent", ...
  const std::string& name() const { return name_; }

  // The variable that the optimizer keeps for `variable` under a name such as
  // "Momentum"; empty if there is none.
  virtual Var GetSlot(const Var& variable, absl::string_view slot) const;

  // The hooks that this worker's training session needs. Call it after Minimize or
  // ApplyGradients. `is_chief` is true in one worker.
  virtual HookList Hooks(bool is_chief) { return {}; }

 protected:
  // `name` is TensorFlow's name of the optimizer.
  explicit Optimizer(std::string name) : name_(std::move(name)) {}

  // A subclass defines its update rule by these methods. ApplyGradients calls them in this order. The first makes the
  // slot variables.
  virtual void CreateSlots(const Scope& s, const std::vector<Var>& variables) {}
  // Returns the operation that updates a variable with a dense gradient.
  virtual Output ApplyDense(const Scope& s, Output gradient, const Var& variable) = 0;
  // Returns the operation that updates the rows of a sparse gradient. Row numbers do not repeat.
  virtual Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& variable) = 0;
  // True if ApplySparse accepts repeated row numbers.
  virtual bool AllowsRepeatedRows() const { return false; }
  // Adds operations that run after all updates.
  virtual std::vector<Output> Finish(const Scope& s, const std::vector<Output>& updates) { return {}; }

  // Creates the slot variable `variable`/`name()`, with the device and shape of the
  // variable, or returns the one that exists.
  Var MakeSlot(const Scope& s, const Var& variable, absl::string_view slot, const Initializer& initializer);
  // Creates a scalar variable of the optimizer itself on the device of `beside`, or
  // returns the one that exists. Its type is float, as in TensorFlow's checkpoints.
  Var MakeScalar(const Scope& s, absl::string_view name, double initial_value, const Var& beside);
  // A variable that MakeScalar has created; empty if there is none.
  Var GetScalar(absl::string_view name) const;

 private:
  const std::string name_;
  std::map<std::pair<std::string, std::string>, Var> slots_;  // by variable and slot
  std::map<std::string, Var, std::less<>> scalars_;
};

// The same gradient with each row number once: rows with the same number are added up.
Gradient SumRepeatedRows(const Scope& s, const Gradient& gradient);

// The learning rate and the locking of gradient descent.
struct GradientDescentOptions {
  Hyperparameter learning_rate = 0.01;  // a number or a schedule (learning_rate.h)
  bool use_locking = false;             // serialize the updates of a variable
};
// var -= learning_rate * gradient
std::unique_ptr<Optimizer> GradientDescent(const GradientDescentOptions& options = {});

// The learning rate, the kind of momentum and the locking of updates.
struct MomentumOptions {
  Hyperparameter learning_rate = 0.01;  // a number or a schedule (learning_rate.h)
  Hyperparameter momentum = 0.9;        // fraction of the last update that is kept
  bool use_nesterov = false;            // use Nesterov's accelerated gradient (1983)
  bool use_locking = false;             // serialize the updates of a variable
};
// accum = momentum * accum + gradient; var -= learning_rate * accum
std::unique_ptr<Optimizer> Momentum(const MomentumOptions& options = {});

// The learning rate, the decays and the locking of Adam.
struct AdamOptions {
  Hyperparameter learning_rate = 0.001;  // a number or a schedule (learning_rate.h)
  double beta1 = 0.9;                    // decay of the mean of gradients
  double beta2 = 0.999;                  // decay of the mean of squared gradients
  double epsilon = 1e-8;                 // added to the divisor, for stability
  bool use_locking = false;              // serialize the updates of a variable
};
// Adam (Kingma and Ba 2014): divides a moving mean of the gradients by the root of a
// moving mean of their squares.
std::unique_ptr<Optimizer> Adam(const AdamOptions& options = {});

// The learning rate and the initial state of Adagrad.
struct AdagradOptions {
  Hyperparameter learning_rate = 0.01;     // a number or a schedule (learning_rate.h)
  double initial_accumulator_value = 0.1;  // initial sum of squared gradients
  bool use_locking = false;                // serialize the updates of a variable
};
// Adagrad (Duchi et al. 2011): divides the learning rate by the root of the sum of
// squared gradients.
std::unique_ptr<Optimizer> Adagrad(const AdagradOptions& options = {});

// The learning rate and the decay of Adadelta.
struct AdadeltaOptions {
  Hyperparameter learning_rate = 0.001;  // a number or a schedule (learning_rate.h)
  Hyperparameter rho = 0.95;             // decay of the moving means
  Hyperparameter epsilon = 1e-8;         // added to the means, for stability
  bool use_locking = false;              // serialize the updates of a variable
};
// Adadelta (Zeiler 2012): scales gradients by the ratio of the moving means of updates
// and of gradients.
std::unique_ptr<Optimizer> Adadelta(const AdadeltaOptions& options = {});

// The learning rate, the decay and the momentum of RMSProp.
struct RMSPropOptions {
  Hyperparameter learning_rate = 0.001;  // a number or a schedule (learning_rate.h)
  Hyperparameter decay = 0.9;            // decay of the mean of squared gradients
  Hyperparameter momentum = 0.0;         // fraction of the last update that is kept
  Hyperparameter epsilon = 1e-10;        // added to the mean, for stability
  bool centered = false;                 // divide by the standard deviation instead of the root mean square
  bool use_locking = false;              // serialize the updates of a variable
};
// RMSProp (Hinton, Coursera lecture 6; centered: Graves 2013): divides gradients by the
// root of a moving mean of their squares.
std::unique_ptr<Optimizer> RMSProp(const RMSPropOptions& options = {});

// The learning rate and the regularization of FTRL.
struct FtrlOptions {
  Hyperparameter learning_rate = 0.01;              // a number or a schedule (learning_rate.h)
  Hyperparameter learning_rate_power = -0.5;        // at most 0; 0 keeps the learning rate fixed
  double initial_accumulator_value = 0.1;           // initial sum of squared gradients
  Hyperparameter l1_regularization_strength = 0.0;  // weight of the sum of absolute values
  Hyperparameter l2_regularization_strength = 0.0;  // weight of the sum of squares
  double l2_shrinkage_regularization_strength = 0;  // weight of the sum of squares, added to the gradient only
  bool use_locking = false;                         // serialize the updates of a variable
};
// FTRL-proximal (McMahan et al. 2013): online learning with sparse weights.
std::unique_ptr<Optimizer> Ftrl(const FtrlOptions& options = {});

// The learning rate and the regularization of proximal gradient descent.
struct ProximalGradientDescentOptions {
  Hyperparameter learning_rate = 0.01;              // a number or a schedule (learning_rate.h)
  Hyperparameter l1_regularization_strength = 0.0;  // weight of the sum of absolute values
  Hyperparameter l2_regularization_strength = 0.0;  // weight of the sum of squares
  bool use_locking = false;                         // serialize the updates of a variable
};
// Gradient descent, followed by shrinkage towards zero (Duchi and Singer 2009).
std::unique_ptr<Optimizer> ProximalGradientDescent(const ProximalGradientDescentOptions& options = {});

// The learning rate and the regularization of proximal Adagrad.
struct ProximalAdagradOptions {
  Hyperparameter learning_rate = 0.01;              // a number or a schedule (learning_rate.h)
  double initial_accumulator_value = 0.1;           // initial sum of squared gradients
  Hyperparameter l1_regularization_strength = 0.0;  // weight of the sum of absolute values
  Hyperparameter l2_regularization_strength = 0.0;  // weight of the sum of squares
  bool use_locking = false;                         // serialize the updates of a variable
};
// Adagrad, followed by shrinkage towards zero (Duchi and Singer 2009).
std::unique_ptr<Optimizer> ProximalAdagrad(const ProximalAdagradOptions& options = {});

}  // namespace thalweg
