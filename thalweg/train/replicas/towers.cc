// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/towers.h"

#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

absl::Status Check(const std::vector<std::vector<GradientAndVar>>& towers) {
  if (towers.empty()) return InvalidArgument("AverageGradients: no towers");
  for (size_t t = 1; t < towers.size(); ++t) {
    if (towers[t].size() != towers[0].size()) {
      return InvalidArgument("AverageGradients: tower ", t, " has ", towers[t].size(), " variables, tower 0 has ",
                             towers[0].size());
    }
    for (size_t i = 0; i < towers[t].size(); ++i) {
      if (towers[t][i].variable.ref == towers[0][i].variable.ref) continue;
      return InvalidArgument("AverageGradients: variable ", i, " is '", towers[t][i].variable.name(), "' in tower ", t,
                             " and '", towers[0][i].variable.name(), "' in tower 0");
    }
  }
  return absl::OkStatus();
}

Gradient Average(const Scope& s, const std::vector<Gradient>& gradients, size_t towers) {
  if (gradients.empty()) return {};
  const DType dtype = RemoveRef(gradients[0].values.dtype());
  const auto mean = [&](Output sum) {
    const double share = 1.0 / static_cast<double>(towers);
    return towers == 1 ? sum : Mul(s, sum, Hyperparameter(share).AsTensor(s, "share", dtype));
  };
  if (std::all_of(gradients.begin(), gradients.end(), [](const Gradient& g) { return g.sparse(); })) {
    std::vector<Output> values, indices;
    for (const Gradient& g : gradients) {
      values.push_back(g.values);
      indices.push_back(g.indices);
    }
    if (gradients.size() == 1) return Gradient(mean(values[0]), indices[0], gradients[0].dense_shape);
    return Gradient(mean(Concat(s, values, 0)), Concat(s, indices, 0), gradients[0].dense_shape);
  }
  std::vector<Output> dense;
  for (const Gradient& g : gradients) dense.push_back(ToDense(s, g));
  return mean(dense.size() == 1 ? dense[0] : AddN(s, dense));
}

}  // namespace

std::vector<GradientAndVar> AverageGradients(const Scope& scope,
                                             const std::vector<std::vector<GradientAndVar>>& towers) {
  if (!scope.ok()) return {};
  scope.Fail(Check(towers));
  if (!scope.ok()) return {};
  const Scope s = scope.SubScope("average_gradients");
  std::vector<GradientAndVar> averages;
  for (size_t i = 0; i < towers[0].size(); ++i) {
    std::vector<Gradient> gradients;
    for (const auto& tower : towers) {
      if (tower[i].gradient) gradients.push_back(tower[i].gradient);
    }
    averages.push_back({Average(s, gradients, towers.size()), towers[0][i].variable});
  }
  return averages;
}

}  // namespace thalweg
