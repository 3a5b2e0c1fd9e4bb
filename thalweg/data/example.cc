// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/example.h"

#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/proto/example.pb.h"

namespace thalweg::data {
namespace {

template <typename T, typename Values>
absl::StatusOr<Tensor> Fill(const Values& values, const FeatureSpec& spec) {
  if (values.size() != spec.shape.num_elements()) {
    return InvalidArgument("expected ", spec.shape.num_elements(), " values for shape ", spec.shape, ", got ",
                           values.size());
  }
  Tensor tensor(DTypeOf<T>, spec.shape);
  std::copy(values.begin(), values.end(), tensor.mutable_data<T>());
  return tensor;
}

absl::StatusOr<Tensor> Value(const tensorflow::Features& features, const FeatureSpec& spec) {
  const auto it = features.feature().find(spec.name);
  if (it == features.feature().end() || it->second.kind_case() == tensorflow::Feature::KIND_NOT_SET) {
    if (spec.default_value.has_value()) return *spec.default_value;
    return InvalidArgument("it is missing, and there is no default");
  }
  const tensorflow::Feature& feature = it->second;
  if (spec.dtype == kFloat && feature.has_float_list()) return Fill<float>(feature.float_list().value(), spec);
  if (spec.dtype == kInt64 && feature.has_int64_list()) return Fill<int64_t>(feature.int64_list().value(), spec);
  if (spec.dtype == kString && feature.has_bytes_list()) return Fill<std::string>(feature.bytes_list().value(), spec);
  return InvalidArgument("expected ", spec.dtype, ", got ",
                         feature.has_float_list()   ? "floats"
                         : feature.has_int64_list() ? "integers"
                                                    : "strings");
}

}  // namespace

Decoder DecodeExample(std::vector<FeatureSpec> features) {
  return [features = std::move(features)](const Record& record) -> absl::StatusOr<Tensors> {
    tensorflow::Example example;
    if (!example.ParseFromString(record.bytes)) {
      return DataLoss("the ", record.bytes.size(), " bytes are not a valid Example");
    }
    Tensors tensors;
    for (const FeatureSpec& spec : features) {
      absl::StatusOr<Tensor> value = Value(example.features(), spec);
      if (!value.ok()) return Prepend(value.status(), absl::StrCat("feature '", spec.name, "': "));
      tensors.push_back(*std::move(value));
    }
    return tensors;
  };
}

}  // namespace thalweg::data
