// SPDX-License-Identifier: Apache-2.0
// Exponential moving averages of variables, which often test better than the
// variables themselves (Polyak and Juditsky 1992), and of tensors such as a loss.
//
//   ExponentialMovingAverage averages(0.9999, {.num_updates = global_step});
//   const Output train_op = averages.Apply(s.WithControlDependencies({apply_gradients}));
#pragma once

#include <map>
#include <string>
#include <vector>

#include "thalweg/train/layers/variable.h"

namespace thalweg {

struct MovingAverageOptions {
  // If given, the decay is at most (1 + n) / (10 + n): fast at the beginning.
  Output num_updates;
  // Makes up for the zeros with which averages of tensors begin (Kingma and Ba
  // 2014, section 3).
  bool zero_debias = false;
  std::string name = "ExponentialMovingAverage";
};

// Serves one graph. Errors go to the scope.
class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(double decay, const MovingAverageOptions& options = {})
      : decay_(decay), options_(options) {}

  // The operation that makes each average decay * average + (1 - decay) * value.
  // Averages are variables `<variable>/<name>`, which begin with the variable's
  // initial value. All trainable variables, if none are named.
  Output Apply(const Scope& s, std::vector<Var> variables = {});
  // The same for tensors, whose averages `<operation>/<name>` (of another output
  // of the operation, `<operation>/<name>_1`) begin with zeros.
  Output ApplyToTensors(const Scope& s, const std::vector<Output>& tensors);

  // Empty if there is none.
  Var Average(Output variable_or_tensor) const;
  std::string AverageName(const Var& variable) const { return variable.name() + "/" + options_.name; }
  // Names in a checkpoint, and the variables to restore from there, for a
  // program that evaluates with the averages: those of trained variables have
  // the names of their averages, and parts of one variable the same.
  std::multimap<std::string, Var> VariablesToRestore(const Graph& graph) const;

 private:
  struct Averaged {
    Var average;
    Output value;
    bool zero_debias = false;
  };
  Output Updates(const Scope& s, const std::vector<Averaged>& all);
  Output Update(const Scope& s, const Averaged& one, Output rate);

  const double decay_;
  const MovingAverageOptions options_;
  std::map<std::string, Var> averages_;  // by the name of the operation, or of its second, third, ... output
};

}  // namespace thalweg
