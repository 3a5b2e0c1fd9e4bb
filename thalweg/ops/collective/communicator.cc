// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/collective/communicator.h"

#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg::collective {

absl::StatusOr<std::shared_ptr<Communicator>> CommunicatorInput(KernelContext& c, int i) {
  const Tensor& input = c.input(i);
  if (input.dtype() != kResource || input.num_elements() != 1) {
    return InvalidArgument("communicator must be one resource handle, got ", input.dtype(), " ", input.shape());
  }
  const ResourceHandle& handle = input.scalar<ResourceHandle>();
  if (c.step().resources == nullptr) return Internal("No step container.");
  return c.step().resources->Find<Communicator>(handle.container, handle.name);
}

namespace {

absl::Status ComputeInitializeCommunicator(KernelContext& c) {
  if (c.step().resources == nullptr) return Internal("No step container.");
  int32_t values[3];
  constexpr const char* kNames[] = {"group_key", "rank", "group_size"};
  for (const int i : {2, 0, 1}) {
    const Tensor& input = c.input(i);
    if (input.rank() > 0) {
      return InvalidArgument("Unexpected dimensions on input ", kNames[i],
                             ". It shoulbe a scalar, got tensor with shape ", input.shape());
    }
    values[i] = input.scalar<int32_t>();
  }
  const int32_t group_key = values[0], rank = values[1], group_size = values[2];
  if (group_size <= 0) return InvalidArgument("group_size must be positive integer but got ", group_size);
  if (rank < 0) return InvalidArgument("rank must be non-negative integer but got ", rank);
  if (rank >= group_size) {
    return InvalidArgument("rank must be less than group size but got ", rank, " >= ", group_size);
  }
  ASSIGN_OR_RETURN(const float seconds, GetAttr<float>(c.node().def(), "timeout_seconds"));
  const ResourceName name{Communicator::kContainer, absl::StrCat(group_key, ":r", absl::Dec(rank, absl::kZeroPad4))};
  RETURN_IF_ERROR(c.step().resources->Create(
      name.container, name.name,
      std::make_shared<Communicator>(group_key, rank, group_size,
                                     seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration())));
  SetStepHandle(c, name, Communicator::kTypeName, nullptr);
  return absl::OkStatus();
}

// The row of the table that has this device: its number, added to base_key, is the group's key.
absl::Status ComputeAssignGroup(KernelContext& c) {
  const Tensor &table = c.input(0), &index = c.input(1), &base = c.input(2);
  if (index.rank() != 0) {
    return InvalidArgument("device_index must be a scalar, but received tensor of shape: ", index.shape());
  }
  if (table.rank() != 2) {
    return InvalidArgument("group_assignment must be a 2-d Tensor, but received tensor of shape: ", table.shape());
  }
  if (base.rank() != 0) {
    return InvalidArgument("base_key must be a scalar, but received tensor of shape: ", base.shape());
  }
  const int32_t device = index.scalar<int32_t>(), base_key = base.scalar<int32_t>();
  const int64_t size = table.dim(1);
  for (int64_t group = 0; group < table.dim(0); ++group) {
    const auto key = static_cast<int32_t>(static_cast<uint32_t>(base_key) + static_cast<uint32_t>(group));
    if (key == 0) {
      return InvalidArgument("Using the reserved group_key = 0 is not allowed: group_id = ", group,
                             ", base_key = ", base_key);
    }
    for (int64_t i = 0; i < size; ++i) {
      const int32_t member = table.data<int32_t>()[group * size + i];
      if (member < 0 || member >= table.num_elements()) {
        return InvalidArgument("Not all items in group_assignment is within [0, number of devices): ", member);
      }
      if (member != device) continue;
      c.set_output(0, Tensor::Scalar(static_cast<int32_t>(size)));
      c.set_output(1, Tensor::Scalar(key));
      return absl::OkStatus();
    }
  }
  return InvalidArgument("device_index ", device, " is not found in group_assignment of shape ", table.shape());
}

Op InitializeCommunicator() {
  Op op = Collective("CollectiveInitializeCommunicator")
              .Input("group_key: int32")
              .Input("rank: int32")
              .Input("group_size: int32")
              .Output("communicator: resource");
  return Hints(op).Shape(shapes::Scalar).Compute(ComputeInitializeCommunicator);
}

Op AssignGroupV2() {
  return Collective("CollectiveAssignGroupV2")
      .Input("group_assignment: int32")
      .Input("device_index: int32")
      .Input("base_key: int32")
      .Output("group_size: int32")
      .Output("group_key: int32")
      .Shape(shapes::Scalar)
      .Compute(ComputeAssignGroup);
}

const OpRegistration kCommunicatorOps[] = {InitializeCommunicator(), AssignGroupV2()};

}  // namespace
}  // namespace thalweg::collective
