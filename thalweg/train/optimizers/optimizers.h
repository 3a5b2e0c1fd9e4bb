// The optimizers of TensorFlow 1. A learning rate is a number or, for
// schedules, a tensor.
#pragma once

#include <memory>

#include "thalweg/train/optimizers/optimizer.h"

namespace thalweg {

struct GradientDescentOptions {
  Hyperparameter learning_rate = 0.01;
  bool use_locking = false;
};
// var -= learning_rate * gradient
std::unique_ptr<Optimizer> GradientDescent(const GradientDescentOptions& options = {});

struct MomentumOptions {
  Hyperparameter learning_rate = 0.01;
  Hyperparameter momentum = 0.9;
  bool use_nesterov = false;
  bool use_locking = false;
};
// accum = momentum * accum + gradient; var -= learning_rate * accum
std::unique_ptr<Optimizer> Momentum(const MomentumOptions& options = {});

struct AdamOptions {
  Hyperparameter learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool use_locking = false;
};
// Kingma and Ba 2014.
std::unique_ptr<Optimizer> Adam(const AdamOptions& options = {});

struct AdagradOptions {
  Hyperparameter learning_rate = 0.01;
  double initial_accumulator_value = 0.1;
  bool use_locking = false;
};
// Duchi et al. 2011.
std::unique_ptr<Optimizer> Adagrad(const AdagradOptions& options = {});

struct AdadeltaOptions {
  Hyperparameter learning_rate = 0.001;
  Hyperparameter rho = 0.95;
  Hyperparameter epsilon = 1e-8;
  bool use_locking = false;
};
// Zeiler 2012.
std::unique_ptr<Optimizer> Adadelta(const AdadeltaOptions& options = {});

struct RMSPropOptions {
  Hyperparameter learning_rate = 0.001;
  Hyperparameter decay = 0.9;
  Hyperparameter momentum = 0.0;
  Hyperparameter epsilon = 1e-10;
  bool centered = false;
  bool use_locking = false;
};
// Hinton, Coursera lecture 6; centered: Graves 2013.
std::unique_ptr<Optimizer> RMSProp(const RMSPropOptions& options = {});

struct FtrlOptions {
  Hyperparameter learning_rate = 0.01;
  Hyperparameter learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  Hyperparameter l1_regularization_strength = 0.0;
  Hyperparameter l2_regularization_strength = 0.0;
  double l2_shrinkage_regularization_strength = 0;
  bool use_locking = false;
};
// McMahan et al. 2013.
std::unique_ptr<Optimizer> Ftrl(const FtrlOptions& options = {});

struct ProximalGradientDescentOptions {
  Hyperparameter learning_rate = 0.01;
  Hyperparameter l1_regularization_strength = 0.0;
  Hyperparameter l2_regularization_strength = 0.0;
  bool use_locking = false;
};
// Duchi and Singer 2009.
std::unique_ptr<Optimizer> ProximalGradientDescent(const ProximalGradientDescentOptions& options = {});

struct ProximalAdagradOptions {
  Hyperparameter learning_rate = 0.01;
  double initial_accumulator_value = 0.1;
  Hyperparameter l1_regularization_strength = 0.0;
  Hyperparameter l2_regularization_strength = 0.0;
  bool use_locking = false;
};
std::unique_ptr<Optimizer> ProximalAdagrad(const ProximalAdagradOptions& options = {});

}  // namespace thalweg
