// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/dataset/dataset_schema.h"

#include "absl/strings/str_split.h"

namespace thalweg {
namespace {

void AddAttr(Op& op, absl::string_view attr) {
  if (attr == "TYPES") {
    op.Attr("output_types: list(type) >= 1").Attr("output_shapes: list(shape) >= 1");
  } else if (attr == "METADATA") {
    op.Attr("metadata: string = ''");
  } else if (attr == "ARGUMENTS") {
    op.Attr("Targuments: list(type) >= 0");
  } else {
    op.Attr(attr);
  }
}

}  // namespace

Op SpecifiedOp(absl::string_view name, absl::string_view inputs, absl::string_view outputs, absl::string_view attrs) {
  Op op(name);
  for (const absl::string_view input : absl::StrSplit(inputs, ", ", absl::SkipEmpty())) op.Input(input);
  for (const absl::string_view output : absl::StrSplit(outputs, ", ", absl::SkipEmpty())) op.Output(output);
  for (const absl::string_view attr : absl::StrSplit(attrs, ", ", absl::SkipEmpty())) AddAttr(op, attr);
  return op.NotDifferentiable();
}

Op DatasetOp(absl::string_view name, absl::string_view inputs, absl::string_view attrs) {
  return SpecifiedOp(name, inputs, "handle: variant", attrs).Shape(shapes::Scalar);
}

}  // namespace thalweg
