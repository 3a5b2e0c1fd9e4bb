// How values are spread, as TensorBoard shows it.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// INVALID_ARGUMENT, with the name of what they are, if a value is not finite or
// they are no real numbers.
absl::Status FillHistogram(const Tensor& values, absl::string_view name, tensorflow::HistogramProto* histogram);

}  // namespace thalweg
