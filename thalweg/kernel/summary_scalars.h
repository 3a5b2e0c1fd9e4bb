// SPDX-License-Identifier: Apache-2.0
// The numbers that summaries have reported in a task, for the status of the task.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"

namespace thalweg {

// A resource of a device. The kernels of scalar summaries set it. Thread-safe.
class SummaryScalars : public Resource {
 public:
  static std::shared_ptr<SummaryScalars> Of(ResourceManager& resources) {
    return *resources.FindOrCreate<SummaryScalars>("", kName, [] { return std::make_shared<SummaryScalars>(); });
  }

  // Keeps the last value of a tag. Further tags are ignored after kMaxTags, and so are tags that are too long.
  void Set(absl::string_view tag, double value) {
    if (tag.size() > kMaxLength) return;
    MutexLock lock(&mutex_);
    if (const auto it = values_.find(tag); it != values_.end()) {
      it->second = value;
    } else if (values_.size() < kMaxTags) {
      values_.emplace(std::string(tag), value);
    }
  }
  // The values since the last call, by tag.
  std::vector<std::pair<std::string, double>> Take() {
    MutexLock lock(&mutex_);
    std::vector<std::pair<std::string, double>> taken(values_.begin(), values_.end());
    values_.clear();
    return taken;
  }
  std::string Describe() const override { return "the last values of scalar summaries"; }

  static constexpr char kName[] = "thalweg/summary_scalars";

 private:
  static constexpr size_t kMaxTags = 100, kMaxLength = 200;

  Mutex mutex_;
  std::map<std::string, double, std::less<>> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
