// SPDX-License-Identifier: Apache-2.0
// TensorFlow's Example, a record of named features, as tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thalweg/data/pipeline.h"

namespace thalweg::data {

// A feature of a tensorflow.Example to read.
struct FeatureSpec {
  std::string name;
  DType dtype = kFloat;  // kFloat, kInt64 or kString
  Shape shape;
  std::optional<Tensor> default_value;  // for a feature that is not there, which is an error without one
};

// A tensor for every feature, in this order. Errors name the feature, what was
// found and what was expected.
Decoder DecodeExample(std::vector<FeatureSpec> features);

}  // namespace thalweg::data
