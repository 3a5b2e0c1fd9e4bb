// SPDX-License-Identifier: Apache-2.0
// Collectives whose members are all on this host. They run in shared memory
// (transport/host_group.h), without messages.
//
// No setting is needed: each member reports its host to the leader of the group, which sends it to
// all members. TensorFlow's tasks do not report a host. Groups with such a member, or with members
// on several hosts, use a ring (ring.h).
//
// When an operation fails or its step is cancelled, all members abandon the group's shared memory.
// Operations of other steps that wait in it start again in new shared memory of the same members.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/collectives/collective_groups.h"
#include "thalweg/transport/host_group.h"

namespace thalweg {

// Thread-safe.
class HostCollectives {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // `host`: see HostIdentity(). "" turns shared memory off.
  explicit HostCollectives(std::string host) : host_(std::move(host)) {}
  ~HostCollectives();

  const std::string& host() const { return host_; }
  // Whether all members of a group are on this host, each in its own task, and `bytes` is not too large.
  // All members get the same answer.
  bool Serves(const CollectiveGroup& group, int64_t bytes) const;

  // Memory of this member that the others map, for values of operations of the group. nullopt if the values
  // need none (HostControlBlock::kInlineBytes), if not all members have joined, or if the memory is full.
  std::optional<HostGroup::Memory> Allocate(const CollectiveGroup& group, int32_t group_key, size_t bytes);
  // Runs an operation of the step `call.step`. `done` runs exactly once, also after a cancellation.
  // `cancellation` must live until then. The caller chooses call.key, which must be the same for all members.
  void Run(const CollectiveGroup& group, int32_t group_key, int rank, const HostCall& call, Cancellation& cancellation,
           Done done);

  // Frees the memory of groups that have failed. Call it periodically, but not from `done`.
  void Purge();
  // Ends all operations with `why` and refuses new ones.
  void Close(const absl::Status& why);

 private:
  class Membership;  // this task's part in one group; lives as long as the group's memory
  struct Operation;
  struct Entry {
    int32_t group_key = 0;
    std::shared_ptr<Membership> membership;
  };

  void Begin(const std::shared_ptr<Operation>& operation);
  absl::StatusOr<std::shared_ptr<Membership>> Enter(const Operation& operation);

  const std::string host_;
  Mutex mutex_;
  CondVar changed_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;                     // calls of Run() in progress
  std::map<std::string, Entry> groups_ ABSL_GUARDED_BY(mutex_);  // by their members
  std::vector<std::shared_ptr<Membership>> retired_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
