// SPDX-License-Identifier: Apache-2.0
// The kernel of collectives that combine the values of their members element by element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/ops/collective/collective_kernel.h"

namespace thalweg::collective {

using MergeFn = void (*)(void* into, const void* from, int64_t n);
using FinishFn = void (*)(void* values, int64_t n, int members);

class ReduceKernel : public CollectiveKernel {
 public:
  explicit ReduceKernel(CollectiveKind kind = CollectiveKind::kReduce) : CollectiveKernel(kind) {}

  absl::Status Init(const KernelInit& init) override;

 protected:
  absl::Status InitReduction(const KernelInit& init, DType dtype, const std::string& merge, const std::string& finish);
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override;
  void SetReduction(CollectiveCall* call) const;
  // Copies the elements of `input` to `to`, from its element `at` on. Those that only this member reads stay in the
  // input.
  static void CopyOrLeave(const Tensor& input, int64_t at, const SharedValues& to, CollectiveCall* call);

 private:
  std::vector<int> offsets_;
  int max_subdivisions_ = -1;
  MergeFn merge_ = nullptr;
  FinishFn finish_ = nullptr;
  uint32_t reduction_ = 0;
  bool rank_order_ = false;
};

}  // namespace thalweg::collective
