// SPDX-License-Identifier: Apache-2.0
// What a group's leader does: it learns of the devices that want to compute
// together, and tells all of them, once they are complete, who the others are.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/proto/device.pb.h"

namespace thalweg {

// The members of a group, by rank.
struct CollectiveGroup {
  struct Member {
    std::string device;
    std::string task;
    uint64_t incarnation = 0;
    std::string host;  // see HostIdentity(); "" for tasks that do not tell

    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members;
  std::vector<int> members_per_task;  // ranks go by task

  int RankOf(absl::string_view device) const;  // -1 if it is none
  // INVALID_ARGUMENT if a device has no full name.
  static absl::StatusOr<CollectiveGroup> Of(std::vector<tensorflow::DeviceAttributes> devices);
};

// The groups and instances that this task leads, by their keys. A group stays
// once it is complete, so that members may ask again; when sessions have come or
// gone since, another program may use its key for something else.
// Thread-safe.
class CollectiveGroups {
 public:
  using Done = Worker::Done;

  // A device joins. Answers when the group is complete; INTERNAL if the members
  // do not agree on its size, or it is complete without this one.
  void Join(const CallOptions& options, const tensorflow::CompleteGroupRequest& request,
            tensorflow::CompleteGroupResponse* response, Done done);
  // A member has come to an op. Answers at once, or for a broadcast when all
  // have, with the rank of the one that sends. An error if members do not agree
  // on what they do.
  void Declare(const CallOptions& options, const tensorflow::CompleteInstanceRequest& request,
               tensorflow::CompleteInstanceResponse* response, Done done);

  // A session has begun or ended.
  void MarkOld();
  // The members of a group that is complete since before that, and has not been
  // checked since: who joins it again must not be sent to one that is gone.
  std::vector<CollectiveGroup::Member> Unchecked(int32_t group_key) const;
  // All are there, or not: then it is to be formed anew.
  void Checked(int32_t group_key, const std::vector<CollectiveGroup::Member>& members, bool all_there);
  // Ends every wait.
  void Close(const absl::Status& why);
  // What has waited since before `then`, in words.
  std::vector<std::string> DescribeWaits(absl::Time then) const;

 private:
  using InstanceKey = std::tuple<int32_t, int64_t, int32_t>;  // group, step, instance
  // A call that is not answered yet: for a group, or for an instance of it.
  struct Waiter {
    InstanceKey key;
    std::string device;
    tensorflow::CompleteGroupResponse* group = nullptr;
    tensorflow::CompleteInstanceResponse* instance = nullptr;
    Cancellation* cancellation = nullptr;
    std::optional<Cancellation::CallbackId> callback;
    absl::Time since;
    Done done;
  };
  struct Group {
    int32_t size = 0;
    std::string device_type;
    std::map<std::string, tensorflow::DeviceAttributes> joined;  // by name
    bool complete = false;
    bool old = false;
    bool checked = true;
    CollectiveGroup members;  // once complete
  };
  struct Instance {
    tensorflow::CompleteInstanceRequest first;  // what others must agree with
    int source = -1;
    std::set<int> known;  // ranks
    bool complete = false;
    bool old = false;
  };
  using Waiters = std::vector<Waiter>;

  // What a call has led to.
  struct Outcome {
    bool answered = false;
    Waiters others;  // who is answered with it
    Waiters gone;    // who waited for what is no more
  };

  template <typename Enter>
  void Call(const CallOptions& options, Waiter waiter, Enter enter);
  absl::Status JoinLocked(const tensorflow::CompleteGroupRequest& request, Outcome* outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DeclareLocked(const tensorflow::CompleteInstanceRequest& request, Outcome* outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoomForGroup(Outcome* outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Waiters TakeWaiters(bool of_group, const InstanceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(int32_t group_key, Outcome* outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill(const Waiter& waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancelled(uint64_t id, const absl::Status& why);
  static void End(Waiter waiter, const absl::Status& status);

  mutable Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  std::map<int32_t, Group> groups_ ABSL_GUARDED_BY(mutex_);
  std::map<InstanceKey, Instance> instances_ ABSL_GUARDED_BY(mutex_);
  std::deque<InstanceKey> complete_instances_ ABSL_GUARDED_BY(mutex_);  // the oldest first; some may be gone
};

}  // namespace thalweg
