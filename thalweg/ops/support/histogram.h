// SPDX-License-Identifier: Apache-2.0
// Histograms for TensorBoard.
#pragma once

#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Counts values in buckets whose limits grow by 10 %.
class Histogram {
 public:
  Histogram();
  // REQUIRES: the value is finite.
  void Add(double value);
  // Merges adjacent empty buckets.
  void ToProto(tensorflow::HistogramProto* proto) const;

 private:
  std::vector<double> buckets_;
  double min_ = std::numeric_limits<double>::max();
  double max_ = -std::numeric_limits<double>::max();
  double num_ = 0, sum_ = 0, sum_squares_ = 0;
};

// INVALID_ARGUMENT, with `name`, if a value is not finite or the type is not a real number type.
absl::Status FillHistogram(const Tensor& values, absl::string_view name, tensorflow::HistogramProto* histogram);

}  // namespace thalweg
