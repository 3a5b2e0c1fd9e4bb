// SPDX-License-Identifier: Apache-2.0
// Declares dataset ops, most of which differ only in a few inputs and attributes.
#pragma once

#include "absl/strings/string_view.h"
#include "thalweg/kernel/op.h"

namespace thalweg {

// An op with these inputs and attributes, each list separated by ", ". TYPES
// stands for output_types and output_shapes, METADATA for `metadata`, ARGUMENTS
// for Targuments. The order is that of TensorFlow's registry.
Op SpecifiedOp(absl::string_view name, absl::string_view inputs, absl::string_view outputs, absl::string_view attrs);

// An op whose output is a dataset.
Op DatasetOp(absl::string_view name, absl::string_view inputs, absl::string_view attrs);

}  // namespace thalweg
