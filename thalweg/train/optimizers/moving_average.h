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

// How moving averages start, and their name.
struct MovingAverageOptions {
  // The number n of updates so far, if given: the decay is then at most (1 + n) / (10 + n), so
  // that averages follow quickly at the beginning.
  Output num_updates;
  // Corrects averages of tensors for their start at zero (Kingma and Ba 2014, section 3).
  bool zero_debias = false;
  std::string name = "ExponentialMovingAverage";  // last part of the averages' names
};

// Keeps averages for one graph. Errors go to the scope.
class ExponentialMovingAverage {
 public:
  // `decay` is in [0, 1), for example 0.999.
  explicit ExponentialMovingAverage(double decay, const MovingAverageOptions& options = {})
      : decay_(decay), options_(options) {}

  // Returns the operation that sets each average to decay * average + (1 - decay) *
  // value. The averages are variables `<variable>/<name>`, which start with the
  // variable's initial value. Empty `variables`: all trainable variables.
  Output Apply(const Scope& s, std::vector<Var> variables = {});
  // The same for tensors. Their averages, `<operation>/<name>` (for the second output
  // of the operation, `<operation>/<name>_1`), start with zeros.
  Output ApplyToTensors(const Scope& s, const std::vector<Output>& tensors);

  // The average of a variable or tensor; empty if there is none.
  Var Average(Output variable_or_tensor) const;
  // The name of a variable's average.
  std::string AverageName(const Var& variable) const { return variable.name() + "/" + options_.name; }
  // SaverOptions::names for a program that evaluates with the averages: it restores
  // each trained variable from the checkpoint's average of it. Parts of a partitioned
  // variable share a name.
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
