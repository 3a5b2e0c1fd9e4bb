// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/kernel.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/unusable_node.h"
#include "thalweg/kernel/single_thread.h"

namespace thalweg {

absl::Status AsyncKernel::Compute(KernelContext&) { return Internal("an async kernel was called as a plain one"); }

absl::StatusOr<Tensor*> KernelContext::Allocate(int i, const Shape& shape) {
  const DType dtype = output_type(i);
  if (Tensor* kept = Recycle(i, dtype, shape)) return kept;
  Tensor& tensor = output(i).tensor;
  // In a loop, the last iteration's.
  if (tensor.dtype() == dtype && tensor.shape() == shape && tensor.unique() && ElementSize(dtype) != 0) return &tensor;
  ASSIGN_OR_RETURN(tensor, Tensor::Allocate(dtype, shape, device().allocator()));
  return &tensor;
}

absl::StatusOr<Tensor*> KernelContext::ForwardOrAllocate(std::initializer_list<int> inputs, int i, const Shape& shape) {
  // A few numbers stay in their slots, which costs less than passing them on.
  constexpr int64_t kFew = 8;
  if (shape.num_elements() <= kFew) return Allocate(i, shape);
  const DType dtype = output_type(i);
  for (const int in : inputs) {
    if (!IsLastUse(in)) continue;
    Tensor& source = slot(in).tensor;
    if (source.dtype() != dtype || source.num_elements() != shape.num_elements() || !source.unique()) continue;
    Tensor& target = output(i).tensor;
    // The input stays readable: both slots show the same memory.
    target = source.PassOn(shape);
    return &target;
  }
  return Allocate(i, shape);
}

Tensor KernelContext::TakeInput(int i) {
  Tensor& source = slot(i).tensor;
  if (IsLastUse(i)) return std::move(source);
  return source;
}

absl::StatusOr<Tensor> KernelContext::AllocateTemporary(DType dtype, const Shape& shape) {
  return Tensor::Allocate(dtype, shape, device().allocator());
}

void KernelContext::ParallelFor(int64_t n, double nanos_each, absl::FunctionRef<void(int64_t, int64_t)> body) {
  // A piece is worth handing over from about 10 us on.
  constexpr double kNanosPerPiece = 10'000;
  if (static_cast<double>(n) * nanos_each <= kNanosPerPiece || ScopedSingleThread::Get()) {
    if (n > 0) body(0, n);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kNanosPerPiece / nanos_each));
  used_pool_ = true;
  device().intra_op_pool().ParallelFor(n, grain, body);
}

KernelRegistry& KernelRegistry::Global() {
  static KernelRegistry* const registry = new KernelRegistry;
  return *registry;
}

void KernelRegistry::Add(absl::string_view op, absl::string_view device_type, Factory factory) {
  const bool is_new =
      factories_.emplace(std::pair(std::string(op), std::string(device_type)), std::move(factory)).second;
  CHECK(is_new) << "two kernels for " << std::string(op) << " on " << std::string(device_type);
}

bool KernelRegistry::Has(absl::string_view op, absl::string_view device_type) const {
  return factories_.contains(std::pair(std::string(op), std::string(device_type)));
}

absl::StatusOr<std::unique_ptr<Kernel>> KernelRegistry::Make(const Node& node, Device& device) const {
  if (HasShapeError(node)) return WhyUnusable(node);  // a kernel relies on what its shape function has checked
  const auto it = factories_.find(std::pair(node.op(), device.type()));
  if (it == factories_.end()) {
    std::vector<std::string> types;
    for (const auto& [key, factory] : factories_) {
      if (key.first == node.op()) types.push_back(key.second);
    }
    return NotFound("No kernel for op '", node.op(), "' of node '", node.name(), "' on a device of type ",
                    device.type(),
                    types.empty() ? ": the op is not known to this server"
                                  : absl::StrCat("; there are kernels for ", absl::StrJoin(types, ", ")));
  }
  std::unique_ptr<Kernel> kernel = it->second();
  RETURN_IF_ERROR(kernel->Init(KernelInit(node, device)));
  return kernel;
}

}  // namespace thalweg
