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

// A variable, and the derivative of the loss with respect to it.
struct GradientAndVar {
  Gradient gradient;  // empty: the loss does not depend on the variable
  Var variable;
};

struct ApplyGradientsOptions {
  Var global_step;   // incremented after the update, if given
  std::string name;  // of the operation; that of the optimizer, if empty
};

struct MinimizeOptions {
  Var global_step;
  std::vector<Var> var_list;  // all trainable variables, if empty
  std::string name;
};

// A number that is fixed, or a tensor that changes from step to step.
class Hyperparameter {
 public:
  Hyperparameter(float value) : value_(value) {}              // NOLINT: implicit by design
  Hyperparameter(double value) : value_(value) {}             // NOLINT
  Hyperparameter(int value) : value_(value) {}                // NOLINT
  Hyperparameter(Output tensor) : tensor_(tensor) {}          // NOLINT
  Hyperparameter(const Var& variable) : tensor_(variable) {}  // NOLINT

  // As a scalar of a type: a constant of that name, or the tensor, cast.
  Output AsTensor(const Scope& s, absl::string_view name, DType dtype) const;

 private:
  double value_ = 0;
  Output tensor_;
};

// An optimizer serves one graph. Errors go to the scope.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // ComputeGradients and ApplyGradients in one.
  Output Minimize(const Scope& s, Output loss, const MinimizeOptions& options = {});

  virtual std::vector<GradientAndVar> ComputeGradients(const Scope& s, Output loss, std::vector<Var> var_list = {});
  // The operation that updates all variables, then the global step.
  virtual Output ApplyGradients(const Scope& s, const std::vector<GradientAndVar>& gradients,
                                const ApplyGradientsOptions& options = {});

  // TensorFlow's name: "Adam", "GradientDescent", ...
  const std::string& name() const { return name_; }

  // Variables that the optimizer keeps beside a variable (its momentum, say);
  // empty if there is none of that name.
  virtual Var GetSlot(const Var& variable, absl::string_view slot) const;

  // What has to run around the steps of this worker; after Minimize or
  // ApplyGradients. `is_chief` is true in one worker.
  virtual HookList Hooks(bool is_chief) { return {}; }

 protected:
  explicit Optimizer(std::string name) : name_(std::move(name)) {}

  // What a rule is made of. Called within ApplyGradients, in this order.
  virtual void CreateSlots(const Scope& s, const std::vector<Var>& variables) {}
  virtual Output ApplyDense(const Scope& s, Output gradient, const Var& variable) = 0;
  // Rows do not repeat.
  virtual Output ApplySparse(const Scope& s, const Gradient& gradient, const Var& variable) = 0;
  // True if ApplySparse adds up rows that repeat.
  virtual bool AllowsRepeatedRows() const { return false; }
  // Adds what comes after all updates.
  virtual std::vector<Output> Finish(const Scope& s, const std::vector<Output>& updates) { return {}; }

  // Makes (once) the slot variable `variable`/`name()`, on its device, with its
  // shape.
  Var MakeSlot(const Scope& s, const Var& variable, absl::string_view slot, const Initializer& initializer);
  // Makes (once) a variable of the optimizer itself, beside `beside`. It is a
  // float, whatever that is, as in TensorFlow's checkpoints.
  Var MakeScalar(const Scope& s, absl::string_view name, double initial_value, const Var& beside);
  Var GetScalar(absl::string_view name) const;

 private:
  const std::string name_;
  std::map<std::pair<std::string, std::string>, Var> slots_;  // by variable and slot
  std::map<std::string, Var, std::less<>> scalars_;
};

// The same gradient with each row once, repeated ones added up.
Gradient SumRepeatedRows(const Scope& s, const Gradient& gradient);

struct GradientDescentOptions {
  Hyperparameter learning_rate = 0.01;  // a number, or a schedule (learning_rate.h)
  bool use_locking = false;             // updates of one variable wait for each other
};
// var -= learning_rate * gradient
std::unique_ptr<Optimizer> GradientDescent(const GradientDescentOptions& options = {});

struct MomentumOptions {
  Hyperparameter learning_rate = 0.01;  // a number, or a schedule (learning_rate.h)
  Hyperparameter momentum = 0.9;
  bool use_nesterov = false;  // look ahead along the momentum (Nesterov 1983)
  bool use_locking = false;   // updates of one variable wait for each other
};
// accum = momentum * accum + gradient; var -= learning_rate * accum
std::unique_ptr<Optimizer> Momentum(const MomentumOptions& options = {});

struct AdamOptions {
  Hyperparameter learning_rate = 0.001;  // a number, or a schedule (learning_rate.h)
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool use_locking = false;  // updates of one variable wait for each other
};
// Kingma and Ba 2014.
std::unique_ptr<Optimizer> Adam(const AdamOptions& options = {});

struct AdagradOptions {
  Hyperparameter learning_rate = 0.01;     // a number, or a schedule (learning_rate.h)
  double initial_accumulator_value = 0.1;  // where the sums of squares begin
  bool use_locking = false;                // updates of one variable wait for each other
};
// Duchi et al. 2011.
std::unique_ptr<Optimizer> Adagrad(const AdagradOptions& options = {});

struct AdadeltaOptions {
  Hyperparameter learning_rate = 0.001;  // a number, or a schedule (learning_rate.h)
  Hyperparameter rho = 0.95;
  Hyperparameter epsilon = 1e-8;
  bool use_locking = false;  // updates of one variable wait for each other
};
// Zeiler 2012.
std::unique_ptr<Optimizer> Adadelta(const AdadeltaOptions& options = {});

struct RMSPropOptions {
  Hyperparameter learning_rate = 0.001;  // a number, or a schedule (learning_rate.h)
  Hyperparameter decay = 0.9;
  Hyperparameter momentum = 0.0;
  Hyperparameter epsilon = 1e-10;
  bool centered = false;
  bool use_locking = false;  // updates of one variable wait for each other
};
// Hinton, Coursera lecture 6; centered: Graves 2013.
std::unique_ptr<Optimizer> RMSProp(const RMSPropOptions& options = {});

struct FtrlOptions {
  Hyperparameter learning_rate = 0.01;  // a number, or a schedule (learning_rate.h)
  Hyperparameter learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;           // where the sums of squares begin
  Hyperparameter l1_regularization_strength = 0.0;  // weight of the sum of absolute values
  Hyperparameter l2_regularization_strength = 0.0;  // weight of the sum of squares
  double l2_shrinkage_regularization_strength = 0;
  bool use_locking = false;  // updates of one variable wait for each other
};
// McMahan et al. 2013.
std::unique_ptr<Optimizer> Ftrl(const FtrlOptions& options = {});

struct ProximalGradientDescentOptions {
  Hyperparameter learning_rate = 0.01;              // a number, or a schedule (learning_rate.h)
  Hyperparameter l1_regularization_strength = 0.0;  // weight of the sum of absolute values
  Hyperparameter l2_regularization_strength = 0.0;  // weight of the sum of squares
  bool use_locking = false;                         // updates of one variable wait for each other
};
// Duchi and Singer 2009.
std::unique_ptr<Optimizer> ProximalGradientDescent(const ProximalGradientDescentOptions& options = {});

struct ProximalAdagradOptions {
  Hyperparameter learning_rate = 0.01;              // a number, or a schedule (learning_rate.h)
  double initial_accumulator_value = 0.1;           // where the sums of squares begin
  Hyperparameter l1_regularization_strength = 0.0;  // weight of the sum of absolute values
  Hyperparameter l2_regularization_strength = 0.0;  // weight of the sum of squares
  bool use_locking = false;                         // updates of one variable wait for each other
};
// Adagrad with a shrinkage towards zero after each step (Duchi and Singer 2009).
std::unique_ptr<Optimizer> ProximalAdagrad(const ProximalAdagradOptions& options = {});

}  // namespace thalweg
