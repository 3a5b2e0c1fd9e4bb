// SPDX-License-Identifier: Apache-2.0
// The communicator of V3 collectives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "thalweg/kernel/op.h"

namespace thalweg::collective {

// A member's view of a group, which V3 collectives share. It lives as long as the step. Thread-safe.
class Communicator : public Resource {
 public:
  static constexpr char kContainer[] = "collective_op_group";
  static constexpr char kTypeName[] = "N10tensorflow12_GLOBAL__N_123CollectiveGroupResourceE";

  Communicator(int32_t group_key, int32_t rank, int32_t group_size, absl::Duration timeout)
      : group_key(group_key), rank(rank), group_size(group_size), timeout(timeout) {}
  std::string Describe() const override {
    return absl::StrCat("Collective Group with group_key = ", group_key, ", group_size = ", group_size,
                        ", rank = ", rank);
  }
  int32_t NextInstance() { return next_.fetch_add(1, std::memory_order_relaxed); }

  const int32_t group_key, rank, group_size;
  const absl::Duration timeout;

 private:
  std::atomic<int32_t> next_ = 0;
};

// Input i as the communicator of the step that it names.
absl::StatusOr<std::shared_ptr<Communicator>> CommunicatorInput(KernelContext& c, int i);

}  // namespace thalweg::collective
