// How values are spread, as TensorBoard shows it.
#pragma once

#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Counts values in buckets whose limits grow by a tenth.
class Histogram {
 public:
  Histogram();
  // REQUIRES: a finite value.
  void Add(double value);
  // Empty buckets that follow each other become one.
  void ToProto(tensorflow::HistogramProto* proto) const;

 private:
  std::vector<double> buckets_;
  double min_ = std::numeric_limits<double>::max();
  double max_ = -std::numeric_limits<double>::max();
  double num_ = 0, sum_ = 0, sum_squares_ = 0;
};

// INVALID_ARGUMENT, with the name of what they are, if a value is not finite or
// they are no real numbers.
absl::Status FillHistogram(const Tensor& values, absl::string_view name, tensorflow::HistogramProto* histogram);

}  // namespace thalweg
