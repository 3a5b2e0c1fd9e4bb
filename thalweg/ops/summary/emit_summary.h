// SPDX-License-Identifier: Apache-2.0
// The output of the ops that make a summary.
#pragma once

#include "absl/status/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/proto/summary.pb.h"

namespace thalweg {

// Makes the serialized summary output 0.
absl::Status EmitSummary(KernelContext& c, const tensorflow::Summary& summary);

}  // namespace thalweg
