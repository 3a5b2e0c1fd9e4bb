// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class FunctionKernel : public Kernel {
 public:
  explicit FunctionKernel(absl::Status (*fn)(KernelContext&)) : fn_(fn) {}
  absl::Status Compute(KernelContext& context) override { return fn_(context); }

 private:
  absl::Status (*const fn_)(KernelContext&);
};

}  // namespace

Op::Op(absl::string_view name) : schema_(name) {}
Op::Op(const Op&) = default;
Op::Op(Op&&) noexcept = default;
Op& Op::operator=(const Op&) = default;
Op& Op::operator=(Op&&) noexcept = default;
Op::~Op() = default;

Op& Op::AddKernel(absl::string_view device_type, std::unique_ptr<thalweg::Kernel> (*make)()) {
  return AddKernel(device_type, KernelRegistry::Factory(make));
}

Op& Op::AddKernel(absl::string_view device_type, KernelRegistry::Factory make) {
  kernels_.emplace_back(std::string(device_type), std::move(make));
  return *this;
}

Op& Op::Compute(absl::Status (*fn)(KernelContext&)) { return Kernel<FunctionKernel>(fn); }

OpRegistration::OpRegistration(const Op& op) {
  OpRegistry::Global().Add(op.schema_);
  for (const auto& [device_type, factory] : op.kernels_) {
    KernelRegistry::Global().Add(op.schema_.def.name(), device_type, factory);
  }
}

}  // namespace thalweg
