// SPDX-License-Identifier: Apache-2.0
// The learning rate of a task's updates, for the status of the task.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <string>

#include "thalweg/kernel/resource.h"

namespace thalweg {

// A resource of a device. The kernels of optimizers set it at each update. Thread-safe.
class LearningRate : public Resource {
 public:
  static std::shared_ptr<LearningRate> Of(ResourceManager& resources) {
    return *resources.FindOrCreate<LearningRate>("", kName, [] { return std::make_shared<LearningRate>(); });
  }

  void Set(double rate) { rate_.store(rate, std::memory_order_relaxed); }
  double Get() const { return rate_.load(std::memory_order_relaxed); }  // NaN before the first update
  std::string Describe() const override { return "the learning rate of the last update"; }

  static constexpr char kName[] = "thalweg/learning_rate";

 private:
  std::atomic<double> rate_{std::numeric_limits<double>::quiet_NaN()};
};

}  // namespace thalweg
