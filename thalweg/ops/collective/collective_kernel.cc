// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/collective/collective_kernel.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/collective/communicator.h"

namespace thalweg::collective {
namespace {

absl::Status CheckSize(int32_t group_size) {
  if (group_size > 0) return absl::OkStatus();
  return InvalidArgument("group_size must be positive integer but got ", group_size);
}

}  // namespace

absl::Status CollectiveKernel::Init(const KernelInit& init) {
  const auto timeout = init.Attr<float>("timeout_seconds");
  if (timeout.ok() && *timeout > 0) timeout_ = absl::Seconds(*timeout);
  by_attrs_ = HasAttr(init.node().def(), "instance_key");
  by_communicator_ = init.node().num_inputs() > 1 && init.node().input_type(1) == kResource;
  if (!by_attrs_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t group_size, init.Attr<int64_t>("group_size"));
  ASSIGN_OR_RETURN(const int64_t group_key, init.Attr<int64_t>("group_key"));
  ASSIGN_OR_RETURN(const int64_t instance_key, init.Attr<int64_t>("instance_key"));
  group_size_ = static_cast<int32_t>(group_size);
  group_key_ = static_cast<int32_t>(group_key);
  instance_key_ = static_cast<int32_t>(instance_key);
  return CheckSize(group_size_);
}

void CollectiveKernel::ComputeAsync(KernelContext& c, Done done) {
  absl::StatusOr<std::shared_ptr<Collectives>> collectives =
      c.step().resources->Find<Collectives>("", Collectives::kName);
  if (!collectives.ok()) {
    return done(FailedPrecondition(c.node().op(), " needs a session on a server: this one has no other tasks"));
  }
  Finish finish;
  absl::StatusOr<CollectiveCall> call = MakeCall(c, **collectives, &finish);
  if (!call.ok()) return done(call.status());
  if (finish != nullptr) {
    done = [finish = std::move(finish), done = std::move(done)](const absl::Status& status) mutable {
      if (status.ok()) finish();
      done(status);
    };
  }
  // The collectives live as long as the step.
  (*collectives)->Run(*std::move(call), *c.step().cancellation, std::move(done));
}

absl::Status CollectiveKernel::AllocateResult(KernelContext& c, Collectives& collectives, const Shape& shape,
                                              CollectiveCall* call) {
  if (auto shared = collectives.AllocateShared(call->group_key, *call->device, c.output_type(0), shape)) {
    c.set_output(0, shared->values);
    call->values = std::move(shared->values);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(0, shape));
  call->values = *output;
  return absl::OkStatus();
}

absl::Status CollectiveKernel::UseCommunicator(KernelContext& c, CollectiveCall* call) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> communicator, CommunicatorInput(c, 1));
  if (c.input(2).num_elements() != 0) return Unimplemented("Group assignments are not supported yet.");
  call->group_key = communicator->group_key;
  call->group_size = communicator->group_size;
  call->instance_key = communicator->NextInstance();
  call->expected_rank = communicator->rank;
  if (call->timeout == absl::InfiniteDuration()) call->timeout = communicator->timeout;
  return absl::OkStatus();
}

absl::StatusOr<CollectiveCall> CollectiveKernel::MakeCall(KernelContext& c, Collectives& collectives, Finish* finish) {
  CollectiveCall call{.kind = kind_,
                      .node = c.node().name(),
                      .device = &c.device(),
                      .group_key = group_key_,
                      .group_size = group_size_,
                      .instance_key = instance_key_,
                      .frame = c.frame(),
                      .iteration = c.iteration(),
                      .is_source = is_source_,
                      .timeout = timeout_};
  if (by_communicator_) {
    RETURN_IF_ERROR(UseCommunicator(c, &call));
  } else if (!by_attrs_) {
    std::pair<const char*, int32_t*> keys[] = {
        {"group_size", &call.group_size}, {"group_key", &call.group_key}, {"instance_key", &call.instance_key}};
    for (int i = 0; i < 3; ++i) {
      const Tensor& key = c.input(first_key_input() + i);
      if (key.rank() > 0) {
        return InvalidArgument("Unexpected dimensions on input ", keys[i].first, ", got ", key.shape());
      }
      *keys[i].second = key.scalar<int32_t>();
    }
    RETURN_IF_ERROR(CheckSize(call.group_size));
  }
  RETURN_IF_ERROR(Prepare(c, collectives, &call, finish));
  return call;
}

}  // namespace thalweg::collective
