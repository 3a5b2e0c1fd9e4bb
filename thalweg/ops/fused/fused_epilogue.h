// SPDX-License-Identifier: Apache-2.0
// The ops that TensorFlow's graph optimizer fuses into a matrix product or a convolution: a bias or a batch
// normalization, and an activation. A TensorFlow master sends such nodes to the tasks of its cluster.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

class FusedEpilogue {
 public:
  // Reads the attributes fused_ops, epsilon, leakyrelu_alpha and num_args. UNIMPLEMENTED if the combination of ops is
  // unknown, INVALID_ARGUMENT if it needs another number of arguments.
  static absl::StatusOr<FusedEpilogue> Read(const tensorflow::NodeDef& node);

  // Applies the ops to `out`, whose last dimension is the channels. The arguments are the inputs from 2 on.
  absl::Status Apply(KernelContext& context, Tensor* out) const;

 private:
  enum class Activation { kNone, kRelu, kRelu6, kElu, kLeakyRelu, kTanh, kSigmoid, kGeluApproximate, kGeluExact };

  template <typename T>
  absl::Status ApplyTo(KernelContext& context, Tensor* out) const;
  template <typename T>
  T Activate(T x) const;

  bool normalizes_ = false;  // arguments: scale, offset, mean, variance. Otherwise: bias
  bool adds_ = false;        // the last argument has the shape of the output and is added
  Activation activation_ = Activation::kNone;
  double epsilon_ = 0;
  double alpha_ = 0;
};

}  // namespace thalweg
