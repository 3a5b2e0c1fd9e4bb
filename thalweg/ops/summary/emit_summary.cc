// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/summary/emit_summary.h"

#include <string>

#include "thalweg/base/status.h"

namespace thalweg {

absl::Status EmitSummary(KernelContext& c, const tensorflow::Summary& summary) {
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  if (!summary.SerializeToString(out->mutable_data<std::string>())) {
    return InvalidArgument("the summary is too large for a message: ", summary.ByteSizeLong(), " bytes");
  }
  return absl::OkStatus();
}

}  // namespace thalweg
