// SPDX-License-Identifier: Apache-2.0
// The schemas of the convolutions and of their gradients share these.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/shape_context.h"

namespace thalweg {

// The attributes that a convolution and its gradients have in common.
inline std::vector<AttrArg> ConvAttrs(const Node& node) {
  std::vector<AttrArg> attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations"}) {
    const auto it = node.def().attr().find(name);
    if (it != node.def().attr().end()) attrs.emplace_back(name, it->second);
  }
  return attrs;
}

// The output has the sizes that input i gives, or, where they are not known, this rank.
template <int i, int rank>
absl::Status ShapeOfSizes(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape shape, c.ConstantAsShape(i));
  c.set_output(0, shape.has_rank() && shape.rank() == rank ? shape : PartialShape::OfRank(rank));
  return absl::OkStatus();
}

}  // namespace thalweg
