// SPDX-License-Identifier: Apache-2.0
// Where the ops of TensorFlow's debugger (tfdbg) leave the tensors that they see:
// one file per tensor, below a folder per device, as tfdbg reads them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The attributes of a debug op: which output of which node it watches, and
// where it reports.
struct DebugWatch {
  std::string device;
  std::string node;
  int64_t slot = 0;
  std::string debug_op;
  std::vector<std::string> urls;
};

// From the attributes "device_name", "tensor_name" and "debug_urls".
absl::StatusOr<DebugWatch> ReadDebugWatch(const KernelInit& init);

// Writes `value` below every URL. UNIMPLEMENTED for URLs other than file://.
absl::Status DumpDebugTensor(const DebugWatch& watch, const Tensor& value);

}  // namespace thalweg
