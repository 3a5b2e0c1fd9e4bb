// SPDX-License-Identifier: Apache-2.0
// Collectives that run without calls of the worker service: in shared memory if all members are on
// this host (transport/host_group.h), over TCP connections of their own if each has a host
// (transport/net_group.h), and otherwise in both, one after the other (transport/two_level.h).
//
// No setting is needed: each member reports its host, and the address at which it listens, to the
// leader of the group, which sends both to all members. TensorFlow's tasks report neither. Groups
// with such a member, or with several members in one task, use a ring of RecvBuf calls (ring.h).
//
// When an operation in shared memory fails or its step is cancelled, all members abandon the
// memory. Operations of other steps that wait in it start again in new shared memory of the same
// members. Over TCP, operations of other steps go on.
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
#include "thalweg/transport/net_endpoint.h"
#include "thalweg/transport/process_group.h"

namespace thalweg {

struct DirectCollectivesOptions {
  std::string host;  // see HostIdentity(); "" turns shared memory with other tasks off
  // Hosts on which to listen for members, and the host at which they reach this task. Empty: no TCP.
  std::vector<std::string> listen_on;
  std::string reach_at;
};

// Thread-safe.
class DirectCollectives {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  explicit DirectCollectives(DirectCollectivesOptions options) : options_(std::move(options)) {}
  ~DirectCollectives();

  // The place of this task, which it reports to the leaders of groups. Starts to listen.
  CollectiveGroup::Place Report();

  enum class Path { kNone, kSharedMemory, kTcp, kTwoLevels };
  // How an operation of a group on `bytes` bytes runs. All members get the same answer. kNone: not here.
  static Path PathOf(const CollectiveGroup& group, int64_t bytes);

  // Memory of this member that the others on its host map, for values of operations of the group. nullopt if the
  // values need none (HostControlBlock::kInlineBytes), if not all of them have joined, or if the memory is full.
  std::optional<ProcessGroup::Memory> Allocate(const CollectiveGroup& group, int32_t group_key, int rank, size_t bytes);
  // Runs an operation of the step `call.step`. `done` runs exactly once, also after a cancellation.
  // `cancellation` must live until then. The caller chooses call.key, which must be the same for all members.
  // REQUIRES: `path` is the group's and not kNone.
  void Run(Path path, const CollectiveGroup& group, int32_t group_key, int rank, const HostCall& call,
           Cancellation& cancellation, Done done);

  // Frees the memory of groups that have failed. Call it periodically, but not from `done`.
  void Purge();
  // Ends all operations with `why` and refuses new ones.
  void Close(const absl::Status& why);

 private:
  class Membership;  // this task's part in one group; lives as long as the group's memory and connections
  class StagedRun;
  struct GroupOptions;
  struct Operation;
  struct Entry {
    int32_t group_key = 0;
    std::string group;  // identifies the group of which its members are all, or those on this host
    std::shared_ptr<Membership> membership;
  };

  // Runs an operation of some members of a group. `path` is one of the first three.
  void RunAmong(const std::vector<int>& ranks, Path path, const CollectiveGroup& group, int32_t group_key, int rank,
                const HostCall& call, Cancellation& cancellation, Done done);
  void Begin(const std::shared_ptr<Operation>& operation);
  absl::StatusOr<std::shared_ptr<Membership>> Enter(const Operation& operation);

  const DirectCollectivesOptions options_;
  Mutex endpoint_mutex_;
  std::unique_ptr<NetEndpoint> endpoint_ ABSL_GUARDED_BY(endpoint_mutex_);  // constant once set
  bool listened_ ABSL_GUARDED_BY(endpoint_mutex_) = false;

  Mutex mutex_;
  CondVar changed_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;                     // calls of Run() in progress
  std::map<std::string, Entry> groups_ ABSL_GUARDED_BY(mutex_);  // by their members
  std::vector<std::shared_ptr<Membership>> retired_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
