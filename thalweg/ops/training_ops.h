// The updates that optimizers make. Each function takes variables (`var` and
// its slots) either all as refs or all as resource handles and adds the op of
// that form. The result stands for the updated variable (refs) or the operation.
#pragma once

#include "thalweg/graph/scope.h"

namespace thalweg {

struct ApplyOptions {
  bool use_locking = false;
};

// var -= alpha * delta
Output ApplyGradientDescent(const Scope& s, Output var, Output alpha, Output delta, ApplyOptions options = {});

struct ApplyMomentumOptions {
  bool use_locking = false;
  bool use_nesterov = false;
};
// accum = accum * momentum + grad; var -= lr * accum
Output ApplyMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output momentum,
                     ApplyMomentumOptions options = {});
Output SparseApplyMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                           Output momentum, ApplyMomentumOptions options = {});
// accum = accum * momentum - lr * grad; var += accum. Resource handles only.
Output ApplyKerasMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output momentum,
                          ApplyMomentumOptions options = {});
Output SparseApplyKerasMomentum(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                                Output momentum, ApplyMomentumOptions options = {});

struct ApplyAdamOptions {
  bool use_locking = false;
  bool use_nesterov = false;
};
// m += (grad - m) * (1 - beta1); v += (grad^2 - v) * (1 - beta2)
// var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)
Output ApplyAdam(const Scope& s, Output var, Output m, Output v, Output beta1_power, Output beta2_power, Output lr,
                 Output beta1, Output beta2, Output epsilon, Output grad, ApplyAdamOptions options = {});

// v = max(beta2 * v, |grad|) in place of Adam's root.
Output ApplyAdaMax(const Scope& s, Output var, Output m, Output v, Output beta1_power, Output lr, Output beta1,
                   Output beta2, Output epsilon, Output grad, ApplyOptions options = {});
// Resource handles only.
Output ApplyAdamWithAmsgrad(const Scope& s, Output var, Output m, Output v, Output vhat, Output beta1_power,
                            Output beta2_power, Output lr, Output beta1, Output beta2, Output epsilon, Output grad,
                            ApplyOptions options = {});

struct ApplyAdagradOptions {
  bool use_locking = false;
  bool update_slots = true;
};
// accum += grad^2; var -= lr * grad / sqrt(accum)
Output ApplyAdagrad(const Scope& s, Output var, Output accum, Output lr, Output grad, ApplyAdagradOptions options = {});
Output SparseApplyAdagrad(const Scope& s, Output var, Output accum, Output lr, Output grad, Output indices,
                          ApplyAdagradOptions options = {});
Output ApplyAdagradV2(const Scope& s, Output var, Output accum, Output lr, Output epsilon, Output grad,
                      ApplyAdagradOptions options = {});
Output SparseApplyAdagradV2(const Scope& s, Output var, Output accum, Output lr, Output epsilon, Output grad,
                            Output indices, ApplyAdagradOptions options = {});
// Dual averaging; see apply_proximal.cc.
Output ApplyAdagradDA(const Scope& s, Output var, Output gradient_accumulator, Output gradient_squared_accumulator,
                      Output grad, Output lr, Output l1, Output l2, Output global_step, ApplyOptions options = {});
Output SparseApplyAdagradDA(const Scope& s, Output var, Output gradient_accumulator,
                            Output gradient_squared_accumulator, Output grad, Output indices, Output lr, Output l1,
                            Output l2, Output global_step, ApplyOptions options = {});

Output ApplyAdadelta(const Scope& s, Output var, Output accum, Output accum_update, Output lr, Output rho,
                     Output epsilon, Output grad, ApplyOptions options = {});
Output SparseApplyAdadelta(const Scope& s, Output var, Output accum, Output accum_update, Output lr, Output rho,
                           Output epsilon, Output grad, Output indices, ApplyOptions options = {});

// ms += (grad^2 - ms) * (1 - rho); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom
Output ApplyRMSProp(const Scope& s, Output var, Output ms, Output mom, Output lr, Output rho, Output momentum,
                    Output epsilon, Output grad, ApplyOptions options = {});
Output SparseApplyRMSProp(const Scope& s, Output var, Output ms, Output mom, Output lr, Output rho, Output momentum,
                          Output epsilon, Output grad, Output indices, ApplyOptions options = {});
Output ApplyCenteredRMSProp(const Scope& s, Output var, Output mg, Output ms, Output mom, Output lr, Output rho,
                            Output momentum, Output epsilon, Output grad, ApplyOptions options = {});
Output SparseApplyCenteredRMSProp(const Scope& s, Output var, Output mg, Output ms, Output mom, Output lr, Output rho,
                                  Output momentum, Output epsilon, Output grad, Output indices,
                                  ApplyOptions options = {});

struct ApplyFtrlOptions {
  bool use_locking = false;
  bool multiply_linear_by_lr = false;
};
// See apply_ftrl.cc.
Output ApplyFtrl(const Scope& s, Output var, Output accum, Output linear, Output grad, Output lr, Output l1, Output l2,
                 Output lr_power, ApplyFtrlOptions options = {});
Output SparseApplyFtrl(const Scope& s, Output var, Output accum, Output linear, Output grad, Output indices, Output lr,
                       Output l1, Output l2, Output lr_power, ApplyFtrlOptions options = {});
Output ApplyFtrlV2(const Scope& s, Output var, Output accum, Output linear, Output grad, Output lr, Output l1,
                   Output l2, Output l2_shrinkage, Output lr_power, ApplyFtrlOptions options = {});
Output SparseApplyFtrlV2(const Scope& s, Output var, Output accum, Output linear, Output grad, Output indices,
                         Output lr, Output l1, Output l2, Output l2_shrinkage, Output lr_power,
                         ApplyFtrlOptions options = {});

// Steps that end in a shrinkage towards zero, for L1 and L2 regularization.
Output ApplyProximalGradientDescent(const Scope& s, Output var, Output alpha, Output l1, Output l2, Output delta,
                                    ApplyOptions options = {});
Output SparseApplyProximalGradientDescent(const Scope& s, Output var, Output alpha, Output l1, Output l2, Output grad,
                                          Output indices, ApplyOptions options = {});
Output ApplyProximalAdagrad(const Scope& s, Output var, Output accum, Output lr, Output l1, Output l2, Output grad,
                            ApplyOptions options = {});
Output SparseApplyProximalAdagrad(const Scope& s, Output var, Output accum, Output lr, Output l1, Output l2,
                                  Output grad, Output indices, ApplyOptions options = {});

// Larger steps where the signs of the gradient and of its average agree.
Output ApplyAddSign(const Scope& s, Output var, Output m, Output lr, Output alpha, Output sign_decay, Output beta,
                    Output grad, ApplyOptions options = {});
Output ApplyPowerSign(const Scope& s, Output var, Output m, Output lr, Output logbase, Output sign_decay, Output beta,
                      Output grad, ApplyOptions options = {});

}  // namespace thalweg
