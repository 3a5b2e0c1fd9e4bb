// SPDX-License-Identifier: Apache-2.0
// Collects the statistics of input pipelines.
#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/ops/support/histogram.h"
#include "thalweg/proto/summary.pb.h"

namespace thalweg {

// Thread-safe.
class StatsAggregator final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data15StatsAggregatorE";

  void Add(const std::string& name, double value) {
    MutexLock lock(&mutex_);
    histograms_[name].Add(value);
  }
  void Fill(tensorflow::Summary* summary) const {
    MutexLock lock(&mutex_);
    for (const auto& [name, histogram] : histograms_) {
      auto* const value = summary->add_value();
      value->set_tag(name);
      histogram.ToProto(value->mutable_histo());
    }
  }
  std::string Describe() const override { return "statistics of datasets"; }

 private:
  mutable Mutex mutex_;
  std::map<std::string, Histogram> histograms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
