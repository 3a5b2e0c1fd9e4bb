// SPDX-License-Identifier: Apache-2.0
// The leader's part in forming groups of devices for collective ops. Devices join a group at the
// leader. When the group is complete, the leader sends its members to all of them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
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
  // Where a task runs. TensorFlow's tasks pass it on as the description of a device.
  struct Place {
    std::string host;     // see HostIdentity(); "" if the task does not report it
    std::string address;  // see NetAddress; "" if the task does not listen

    std::string ToString() const;
    static Place Parse(absl::string_view text);
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Member {
    std::string device;
    std::string task;
    uint64_t incarnation = 0;
    Place place;

    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members;
  std::vector<int> members_per_task;  // in the order of ranks; a task's members have consecutive ranks

  int RankOf(absl::string_view device) const;  // -1 if it is not a member
  // Returns INVALID_ARGUMENT if a device has no full name.
  static absl::StatusOr<CollectiveGroup> Of(std::vector<tensorflow::DeviceAttributes> devices);
};

// Added to the kind of a collective in CompleteInstanceRequest.type if the op merges values in the order of ranks.
inline constexpr int kInRankOrder = 1 << 8;

// The error that other members get when `task` has given up a step because of `why`. If the step was cancelled, only
// the task's own client knows the reason.
absl::Status GivenUpBy(const std::string& task, const absl::Status& why);

// The groups, and the instances of collective ops, that this task leads, by their keys. A complete group is kept, so
// that members can ask again. After a session has begun or ended, another program may use the same key for another
// group: see MarkOld(). Thread-safe.
class CollectiveGroups {
 public:
  using Done = Worker::Done;

  // Adds a device to a group. Answers when the group is complete. The answer is INTERNAL if the members disagree about
  // the group's size, or if the group is complete without this device.
  void Join(const CallOptions& options, const tensorflow::CompleteGroupRequest& request,
            tensorflow::CompleteGroupResponse* response, Done done);
  // Announces that a member has arrived at an op. Answers immediately or, for a broadcast, when all members have
  // arrived, with the rank of the sender. Answers with an error if members disagree about the op.
  void Declare(const CallOptions& options, const tensorflow::CompleteInstanceRequest& request,
               tensorflow::CompleteInstanceResponse* response, Done done);

  // Marks all groups as old, because a session has begun or ended.
  void MarkOld();
  // The members of a complete group that is old and has not been checked since. A device that joins it again must not
  // get members that are gone.
  std::vector<CollectiveGroup::Member> Unchecked(int32_t group_key) const;
  // Reports the result of that check. If a member is missing, the group is formed anew.
  void Checked(int32_t group_key, const std::vector<CollectiveGroup::Member>& members, bool all_there);
  // Ends all calls, present and later, for a group whose key is not used again, with `why`.
  void EndGroup(int32_t group_key, const absl::Status& why);
  // Ends all waits with `why`.
  void Close(const absl::Status& why);
  // Describes the calls that have waited since before `then`.
  std::vector<std::string> DescribeWaits(absl::Time then) const;

 private:
  using InstanceKey = std::tuple<int32_t, int64_t, int32_t>;  // group, step, instance
  // A call, for a group or for an instance of it, that is not answered yet.
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
    tensorflow::CompleteInstanceRequest first;  // the first request, which the others must match
    int source = -1;
    std::set<int> known;  // ranks that have arrived
    bool complete = false;
    bool old = false;
  };
  using Waiters = std::vector<Waiter>;

  // The result of a call.
  struct Outcome {
    bool answered = false;
    Waiters others;  // calls that are answered together with it
    Waiters gone;    // calls that waited for a group or an instance that was erased
  };

  template <typename Enter>
  void Call(const CallOptions& options, Waiter waiter, Enter enter);
  absl::Status JoinLocked(const tensorflow::CompleteGroupRequest& request, Outcome* outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DeclareLocked(const tensorflow::CompleteInstanceRequest& request, Outcome* outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoomForGroup(Outcome* outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Waiters TakeWaiters(bool of_group, const InstanceKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckNotEnded(int32_t group_key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
  std::deque<InstanceKey> complete_instances_ ABSL_GUARDED_BY(mutex_);          // oldest first; some may be erased
  std::deque<std::pair<int32_t, absl::Status>> ended_ ABSL_GUARDED_BY(mutex_);  // groups that ended recently
};

}  // namespace thalweg
