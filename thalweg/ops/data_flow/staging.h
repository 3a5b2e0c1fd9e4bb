// What the ops of staging areas share. They have no handle: ops that name the
// same area (or, without a name, one node each) find it themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/support/wait_list.h"

namespace thalweg {

struct StagingLimits {
  int64_t capacity = 0;      // elements; 0: no limit
  int64_t memory_limit = 0;  // bytes; 0: no limit
};

// RESOURCE_EXHAUSTED for a tuple that would never fit.
inline absl::Status CheckFits(const StagingLimits& limits, int64_t bytes) {
  if (limits.memory_limit == 0 || bytes <= limits.memory_limit) return absl::OkStatus();
  return ResourceExhausted("Attempted to insert tensors with combined size of '", bytes,
                           "' bytes into Staging Area with a memory limit of '", limits.memory_limit, "'.");
}

inline int64_t BytesOf(const Tuple& tuple) {
  int64_t bytes = 0;
  for (const Tensor& t : tuple) bytes += t.has_value() ? t.TotalBytes() : 0;
  return bytes;
}

// INVALID_ARGUMENT unless tuple[i] is of types[i].
inline absl::Status CheckTypes(const Tuple& tuple, const std::vector<DType>& types) {
  if (tuple.size() != types.size()) {
    return InvalidArgument("Mismatch stage/unstage: ", tuple.size(), " vs. ", types.size());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (tuple[i].has_value() && tuple[i].dtype() != types[i]) {
      return InvalidArgument("Mismatch stage/unstage: component ", i, " is of ", tuple[i].dtype(), ", expected ",
                             types[i]);
    }
  }
  return absl::OkStatus();
}

// An op on an area of type Area, which is made, by whoever comes first, from
// limits and the types of the attribute "dtypes". `access` ends the call.
template <typename Area>
class StagingKernel final : public AsyncKernel {
 public:
  using Access = void (*)(KernelContext& c, const std::shared_ptr<Area>& area, Done done);
  explicit StagingKernel(Access access) : access_(access) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(limits_.capacity, init.Attr<int64_t>("capacity"));
    ASSIGN_OR_RETURN(limits_.memory_limit, init.Attr<int64_t>("memory_limit"));
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("dtypes"));
    ASSIGN_OR_RETURN(container_, init.Attr<std::string>("container"));
    ASSIGN_OR_RETURN(name_, init.Attr<std::string>("shared_name"));
    if (name_.empty()) name_ = init.node().name();
    return absl::OkStatus();
  }

  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Area>> area = c.device().resources().template FindOrCreate<Area>(
        container_, name_,
        [this]() -> absl::StatusOr<std::shared_ptr<Area>> { return std::make_shared<Area>(limits_, types_); });
    if (!area.ok()) return done(area.status());
    access_(c, *area, std::move(done));
  }

 private:
  const Access access_;
  StagingLimits limits_;
  std::vector<DType> types_;
  std::string container_, name_;
};

inline WaitingCaller WaiterOf(KernelContext& c) {
  return {.cancellation = c.step().cancellation, .pool = c.step().pool};
}

// The attributes that all of these ops have; `types`: that of "dtypes".
inline Op StagingOp(absl::string_view name) {
  Op op(name);
  op.Stateful().NotDifferentiable();
  return op;
}
inline Op& StagingAttrs(Op& op, absl::string_view types) {
  return op.Attr("capacity: int >= 0 = 0").Attr("memory_limit: int >= 0 = 0").Attr(types);
}
inline Op& StagingNames(Op& op) { return op.Attr("container: string = ''").Attr("shared_name: string = ''"); }

}  // namespace thalweg
