// SPDX-License-Identifier: Apache-2.0
// Attributes of nodes: AttrValue in and out of C++ types.
//
//   ASSIGN_OR_RETURN(const bool transpose, GetAttr<bool>(def, "transpose_a"));
//   SetAttr(def, "T", kFloat);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/attr_arg.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/dtype.h"
#include "thalweg/tensor/shape.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

using AttrMap = google::protobuf::Map<std::string, tensorflow::AttrValue>;

template <typename T>
void SetAttr(tensorflow::NodeDef& def, absl::string_view name, const T& value) {
  AttrArg arg(name, value);
  (*def.mutable_attr())[arg.name] = std::move(arg.mutable_value());
}

// T: int64_t, float, bool, std::string, DType, PartialShape, Tensor,
// tensorflow::NameAttrList, or a std::vector of the first six. NOT_FOUND if the
// node has no such attribute, INVALID_ARGUMENT if it is of another type.
template <typename T>
absl::StatusOr<T> GetAttr(const tensorflow::NodeDef& def, absl::string_view name);

bool HasAttr(const tensorflow::NodeDef& def, absl::string_view name);

// The number of elements, of whatever kind.
int ListSize(const tensorflow::AttrValue::ListValue& list);

// One line, for messages: "float", "[2,3]", "true".
std::string ToString(const tensorflow::AttrValue& value);

}  // namespace thalweg
