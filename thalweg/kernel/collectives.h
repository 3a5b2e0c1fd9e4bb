// What a collective op asks of the task it runs in: that the devices of a group,
// here and in other tasks, compute something together. A step has one in its
// resources if its graph has such ops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

enum class CollectiveKind { kReduce = 0, kBroadcast = 1, kGather = 2 };  // numbered as on the wire

// One op's part in a step. Members find each other by the keys.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kReduce;
  std::string node;
  Device* device = nullptr;  // the member
  int32_t group_key = 0;
  int32_t group_size = 0;
  int32_t instance_key = 0;
  uint64_t frame = 0;
  int64_t iteration = 0;
  bool is_source = false;  // of a broadcast
  // A reduce: this member's values, and the result. A broadcast: the value, or
  // room for it. A gather: room for the values of all.
  Tensor values;
  Tensor own;  // a gather: this member's
  std::vector<int> subdivision_offsets;
  int max_subdivisions_per_device = -1;
  absl::Duration timeout = absl::InfiniteDuration();
  void (*merge)(void* into, const void* from, int64_t n) = nullptr;
  void (*finish)(void* values, int64_t n, int members) = nullptr;
};

// Thread-safe.
class Collectives : public Resource {
 public:
  static constexpr char kName[] = "collectives";
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // `done` runs exactly once: when the result is there and what others need of
  // it was taken, or with an error, and soon after the step is cancelled.
  virtual void Run(CollectiveCall call, Cancellation& cancellation, Done done) = 0;
};

}  // namespace thalweg
