// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/placement.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace thalweg {

std::string DescribePlacement(const Placed& placed) {
  return absl::StrCat(placed.node, ": (", placed.op, "): ", placed.device, " (", placed.reason, ")");
}

std::string DescribePlacement(const std::vector<Placed>& placement) {
  return absl::StrJoin(placement, "\n",
                       [](std::string* out, const Placed& p) { absl::StrAppend(out, DescribePlacement(p)); });
}

}  // namespace thalweg
