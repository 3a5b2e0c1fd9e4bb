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

Op& Op::Compute(absl::Status (*fn)(KernelContext&)) { return Kernel<FunctionKernel>(fn); }

OpRegistration::OpRegistration(const Op& op) {
  OpRegistry::Global().Add(op.schema_);
  for (const auto& [device_type, factory] : op.kernels_) {
    KernelRegistry::Global().Add(op.schema_.def.name(), device_type, factory);
  }
}

}  // namespace thalweg
