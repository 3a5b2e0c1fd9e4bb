// SPDX-License-Identifier: Apache-2.0
// The updates that optimizers make. SparseApply... update only the rows `indices` of the
// variables; rows do not repeat. Each function takes variables (`var` and
// its slots) either all as refs or all as resource handles and adds the op of
// that form. The result stands for the updated variable (refs) or the operation.
#pragma once

#include "thalweg/graph/scope.h"

namespace thalweg {

// The locking of an optimizer's update.
struct ApplyOptions {
  bool use_locking = false;  // updates of one variable wait for each other
};

// var -= alpha * delta
Output ApplyGradientDescent(const Scope& s, Output var, Output alpha, Output delta, const ApplyOptions& options = {});

// The locking and the kind of momentum.
struct ApplyMomentumOptions {
  bool use_locking = false;   // updates of one variable wait for each other
  bool use_nesterov = false;  // look ahead along the momentum
};
// accum = accum * momentum + grad; var -= lr * accum
Output ApplyMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output momentum,
                     const ApplyMomentumOptions& options = {});
// ApplyMomentum of rows.
Output SparseApplyMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                           Output momentum, const ApplyMomentumOptions& options = {});
// accum = accum * momentum - lr * grad; var += accum. Resource handles only.
Output ApplyKerasMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output momentum,
                          const ApplyMomentumOptions& options = {});
// ApplyKerasMomentum of rows.
Output SparseApplyKerasMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                                Output momentum, const ApplyMomentumOptions& options = {});

// The locking and the kind of momentum of Adam.
struct ApplyAdamOptions {
  bool use_locking = false;   // updates of one variable wait for each other
  bool use_nesterov = false;  // look ahead along the momentum
};
// m += (grad - m) * (1 - beta1); v += (grad^2 - v) * (1 - beta2)
// var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)
Output ApplyAdam(const Scope& s, Output var, Output m, Output v, Output beta1_power, Output beta2_power, Output lr,
                 Output beta1, Output beta2, Output epsilon, Output grad, const ApplyAdamOptions& options = {});

// v = max(beta2 * v, |grad|) in place of Adam's root.
Output ApplyAdaMax(const Scope& s, Output var, Output m, Output v, Output beta1_power, Output lr, Output beta1,
                   Output beta2, Output epsilon, Output grad, const ApplyOptions& options = {});
// Resource handles only.
Output ApplyAdamWithAmsgrad(const Scope& s, Output var, Output m, Output v, Output vhat, Output beta1_power,
                            Output beta2_power, Output lr, Output beta1, Output beta2, Output epsilon, Output grad,
                            const ApplyOptions& options = {});

// The locking of Adagrad's update, and whether it changes the accumulator.
struct ApplyAdagradOptions {
  bool use_locking = false;  // updates of one variable wait for each other
  bool update_slots = true;  // accum changes, too
};
// accum += grad^2; var -= lr * grad / sqrt(accum)
Output ApplyAdagrad(const Scope& s, Output var, Output accum, Output lr, Output grad,
                    const ApplyAdagradOptions& options = {});
// ApplyAdagrad of rows.
Output SparseApplyAdagrad(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                          const ApplyAdagradOptions& options = {});
// Adagrad with epsilon beside the root: var -= lr * grad / (sqrt(accum) + epsilon).
Output ApplyAdagradV2(const Scope& s, Output var, Output accum, Output lr, Output epsilon, Output grad,
                      const ApplyAdagradOptions& options = {});
// ApplyAdagradV2 of rows.
Output SparseApplyAdagradV2(const Scope& s, Output var, Output accum, Output lr, Output epsilon, Output grad,
                            Output indices, const ApplyAdagradOptions& options = {});
// Adagrad with dual averaging: the variable follows from the sums of the gradients and of
// their squares since the beginning (Duchi et al. 2011).
Output ApplyAdagradDA(const Scope& s, Output var, Output gradient_accumulator, Output gradient_squared_accumulator,
                      Output grad, Output lr, Output l1, Output l2, Output global_step,
                      const ApplyOptions& options = {});
// ApplyAdagradDA of rows.
Output SparseApplyAdagradDA(const Scope& s, Output var, Output gradient_accumulator,
                            Output gradient_squared_accumulator, Output grad, Output indices, Output lr, Output l1,
                            Output l2, Output global_step, const ApplyOptions& options = {});

// Zeiler 2012: a step of the size of the recent updates, accum_update.
Output ApplyAdadelta(const Scope& s, Output var, Output accum, Output accum_update, Output lr, Output rho,
                     Output epsilon, Output grad, const ApplyOptions& options = {});
// ApplyAdadelta of rows.
Output SparseApplyAdadelta(const Scope& s, Output var, Output accum, Output accum_update, Output lr, Output rho,
                           Output epsilon, Output grad, Output indices, const ApplyOptions& options = {});

// ms += (grad^2 - ms) * (1 - rho); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom
Output ApplyRMSProp(const Scope& s, Output var, Output ms, Output mom, Output lr, Output rho, Output momentum,
                    Output epsilon, Output grad, const ApplyOptions& options = {});
// ApplyRMSProp of rows.
Output SparseApplyRMSProp(const Scope& s, Output var, Output ms, Output mom, Output lr, Output rho, Output momentum,
                          Output epsilon, Output grad, Output indices, const ApplyOptions& options = {});
// RMSProp with the variance in place of the mean square: ms - mg^2.
Output ApplyCenteredRMSProp(const Scope& s, Output var, Output mg, Output ms, Output mom, Output lr, Output rho,
                            Output momentum, Output epsilon, Output grad, const ApplyOptions& options = {});
// ApplyCenteredRMSProp of rows.
Output SparseApplyCenteredRMSProp(const Scope& s, Output var, Output mg, Output ms, Output mom, Output lr, Output rho,
                                  Output momentum, Output epsilon, Output grad, Output indices,
                                  const ApplyOptions& options = {});

// The locking of FTRL's update, and the form in which it keeps `linear`.
struct ApplyFtrlOptions {
  bool use_locking = false;            // updates of one variable wait for each other
  bool multiply_linear_by_lr = false;  // keep linear multiplied by the learning rate
};
// Follow the regularized leader (McMahan et al. 2013): accum sums squared gradients, linear
// the gradients corrected by the change of the learning rate. l1 makes weights zero.
Output ApplyFtrl(const Scope& s, Output var, Output accum, Output linear, Output grad, Output lr, Output l1, Output l2,
                 Output lr_power, const ApplyFtrlOptions& options = {});
// ApplyFtrl of rows.
Output SparseApplyFtrl(const Scope& s, Output var, Output accum, Output linear, Output grad, Output indices, Output lr,
                       Output l1, Output l2, Output lr_power, const ApplyFtrlOptions& options = {});
// FTRL with a penalty that shrinks the weights towards zero.
Output ApplyFtrlV2(const Scope& s, Output var, Output accum, Output linear, Output grad, Output lr, Output l1,
                   Output l2, Output l2_shrinkage, Output lr_power, const ApplyFtrlOptions& options = {});
// ApplyFtrlV2 of rows.
Output SparseApplyFtrlV2(const Scope& s, Output var, Output accum, Output linear, Output grad, Output indices,
                         Output lr, Output l1, Output l2, Output l2_shrinkage, Output lr_power,
                         const ApplyFtrlOptions& options = {});

// Steps that end in a shrinkage towards zero, for L1 and L2 regularization.
Output ApplyProximalGradientDescent(const Scope& s, Output var, Output alpha, Output l1, Output l2, Output delta,
                                    const ApplyOptions& options = {});
// ApplyProximalGradientDescent of rows.
Output SparseApplyProximalGradientDescent(const Scope& s, Output var, Output alpha, Output l1, Output l2, Output grad,
                                          Output indices, const ApplyOptions& options = {});
// Adagrad with such a shrinkage.
Output ApplyProximalAdagrad(const Scope& s, Output var, Output accum, Output lr, Output l1, Output l2, Output grad,
                            const ApplyOptions& options = {});
// ApplyProximalAdagrad of rows.
Output SparseApplyProximalAdagrad(const Scope& s, Output var, Output accum, Output lr, Output l1, Output l2,
                                  Output grad, Output indices, const ApplyOptions& options = {});

// m is the moving average of gradients with decay beta;
// var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad (Bello et al. 2017): larger steps where both signs
// agree.
Output ApplyAddSign(const Scope& s, Output var, Output m, Output lr, Output alpha, Output sign_decay, Output beta,
                    Output grad, const ApplyOptions& options = {});
// m is the moving average of gradients with decay beta;
// var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad (Bello et al. 2017).
Output ApplyPowerSign(const Scope& s, Output var, Output m, Output lr, Output logbase, Output sign_decay, Output beta,
                      Output grad, const ApplyOptions& options = {});

}  // namespace thalweg
