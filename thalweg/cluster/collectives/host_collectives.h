// SPDX-License-Identifier: Apache-2.0
// Collectives whose members are all on this host: they run in memory that the members share
// (transport/host_group.h), without messages.
//
// Members find out by themselves that they can: each tells the leader of the group on which
// host it is, and the leader tells all. TensorFlow's tasks tell no host. Groups with such a
// member, or with members on several hosts, go round a ring (ring.h).
//
// When an operation fails, or its step is cancelled, the shared memory of the group is given
// up. The next step that needs it makes another one, named after the members and the step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

  // `host`: see HostIdentity(); "" if memory is not to be shared.
  explicit HostCollectives(std::string host) : host_(std::move(host)) {}
  ~HostCollectives();

  const std::string& host() const { return host_; }
  // True if all members of a group, each in a task of its own, are on this host.
  bool Serves(const CollectiveGroup& group) const;

  // Runs an operation of a step. `done` runs once, also after `cancellation`, which must live
  // until then. The call's key is chosen by the caller, and is the same for all members.
  void Run(const CollectiveGroup& group, int32_t group_key, int rank, int64_t step_id, HostCall call,
           Cancellation& cancellation, Done done);

  // Lets go of the memory of groups that have failed. Called from time to time, not by `done`.
  void Purge();
  // Ends all operations, and refuses others.
  void Close(const absl::Status& why);

 private:
  class Membership;  // of this task in one group

  const std::string host_;
  Mutex mutex_;
  CondVar changed_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;                                           // calls of Run()
  std::map<std::string, std::shared_ptr<Membership>> groups_ ABSL_GUARDED_BY(mutex_);  // by who is in them
  std::vector<std::shared_ptr<Membership>> retired_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
