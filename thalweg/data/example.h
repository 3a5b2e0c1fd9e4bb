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
  std::string name;                     // key of the feature
  DType dtype = kFloat;                 // kFloat, kInt64 or kString
  Shape shape;                          // shape of its tensor; the feature must have that many values
  std::optional<Tensor> default_value;  // value of a missing feature; without one, a missing feature is an error
};

// A decoder that gives one tensor per feature, in this order. Errors name the feature, what
// was found and what was expected.
Decoder DecodeExample(std::vector<FeatureSpec> features);

}  // namespace thalweg::data
