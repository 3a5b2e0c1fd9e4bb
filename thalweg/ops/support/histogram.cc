// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

// Limits that grow by a tenth, from 1e-12 to 1e20 and the same below 0.
const std::vector<double>& BucketLimits() {
  static const std::vector<double>& limits = *new std::vector<double>([] {
    std::vector<double> positive;
    for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> all;
    for (auto v = positive.rbegin(); v != positive.rend(); ++v) all.push_back(-*v);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }());
  return limits;
}

}  // namespace

Histogram::Histogram() : buckets_(BucketLimits().size(), 0.0) {}

void Histogram::Add(double value) {
  const std::vector<double>& limits = BucketLimits();
  const auto limit = std::upper_bound(limits.begin(), limits.end(), value);
  buckets_[std::min<size_t>(limit - limits.begin(), limits.size() - 1)] += 1;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  num_ += 1;
  sum_ += value;
  sum_squares_ += value * value;
}

void Histogram::ToProto(tensorflow::HistogramProto* proto) const {
  proto->set_min(min_);
  proto->set_max(max_);
  proto->set_num(num_);
  proto->set_sum(sum_);
  proto->set_sum_squares(sum_squares_);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i] == 0 && i + 1 < buckets_.size() && buckets_[i + 1] == 0) continue;
    proto->add_bucket_limit(BucketLimits()[i]);
    proto->add_bucket(buckets_[i]);
  }
}

absl::Status FillHistogram(const Tensor& values, absl::string_view name, tensorflow::HistogramProto* proto) {
  Histogram histogram;
  RETURN_IF_ERROR(Dispatch(RealTypes(), values.dtype(), [&]<typename T>() {
    for (const T& v : values.flat<T>()) {
      const double value = static_cast<double>(v);
      if (std::isnan(value)) return InvalidArgument("Nan in summary histogram for: ", name);
      if (std::isinf(value)) return InvalidArgument("Infinity in summary histogram for: ", name);
      histogram.Add(value);
    }
    return absl::OkStatus();
  }));
  histogram.ToProto(proto);
  return absl::OkStatus();
}

}  // namespace thalweg
