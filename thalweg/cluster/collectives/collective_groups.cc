// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/collective_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/kernel/collectives.h"
#include "thalweg/proto/device.pb.h"
#include "thalweg/tensor/shape.h"

namespace thalweg {
namespace {

using tensorflow::CompleteGroupRequest;
using tensorflow::CompleteInstanceRequest;
using tensorflow::DeviceAttributes;

// Between the host and the address in the description of a device.
constexpr absl::string_view kAddressFollows = " | tcp ";
constexpr int kBroadcast = 1;  // of CompleteInstanceRequest.type
// Other tasks choose the keys, so the numbers are limited. The latest complete instances are kept for members that ask
// again. Groups are kept as long as there is room.
constexpr size_t kMaxCompleteInstances = 1 << 14;
constexpr size_t kMaxGroups = 10'000;
constexpr size_t kMaxEndedKeys = 64;

std::string ShapeText(const tensorflow::TensorShapeProto& proto) {
  const absl::StatusOr<PartialShape> shape = PartialShape::FromProto(proto);
  return shape.ok() ? shape->ToString() : proto.ShortDebugString();
}

// What a member brings to a collective: "a reduce-scatter of float".
std::string Describe(const CompleteInstanceRequest& request) {
  const auto kind = [&]() -> std::string {
    switch (static_cast<CollectiveKind>(request.type() & ~kInRankOrder)) {
      case CollectiveKind::kReduce:
        return "an all-reduce";
      case CollectiveKind::kBroadcast:
        return "a broadcast";
      case CollectiveKind::kGather:
        return "an all-gather";
      case CollectiveKind::kAllToAll:
        return "an all-to-all";
      case CollectiveKind::kReduceScatter:
        return "a reduce-scatter";
      case CollectiveKind::kBarrier:
        return "a barrier";
    }
    return absl::StrCat("collective ", request.type());
  };
  return absl::StrCat(kind(), (request.type() & kInRankOrder) != 0 ? " in the order of ranks" : "", " of ",
                      ToString(static_cast<DType>(request.data_type())));
}

bool SameShape(const tensorflow::TensorShapeProto& a, const tensorflow::TensorShapeProto& b) {
  return a.dim_size() == b.dim_size() && std::equal(a.dim().begin(), a.dim().end(), b.dim().begin(),
                                                    [](const auto& x, const auto& y) { return x.size() == y.size(); });
}

}  // namespace

absl::Status GivenUpBy(const std::string& task, const absl::Status& why) {
  return absl::Status(absl::IsCancelled(why) ? absl::StatusCode::kAborted : why.code(),
                      absl::StrCat("Task ", task, " has given the step up: ", why.message()));
}

std::string CollectiveGroup::Place::ToString() const {
  return address.empty() ? host : absl::StrCat(host, kAddressFollows, address);
}

CollectiveGroup::Place CollectiveGroup::Place::Parse(absl::string_view text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(kAddressFollows, 1));
  return {parts.first, parts.second};
}

int CollectiveGroup::RankOf(absl::string_view device) const {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].device == device) return static_cast<int>(i);
  }
  return -1;
}

absl::StatusOr<CollectiveGroup> CollectiveGroup::Of(std::vector<DeviceAttributes> devices) {
  // Sort by the task's name, then by device type and number. TensorFlow's tasks use this order too, and all members
  // must use the same.
  using Order = std::tuple<std::string, std::string, int>;
  std::map<Order, Member> by_order;
  for (const DeviceAttributes& device : devices) {
    ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(device.name()));
    if (!name.is_full()) return InvalidArgument("\"", device.name(), "\" is not a full device name");
    by_order[{TaskOf(name), *name.type, *name.id}] = {device.name(), TaskOf(name), device.incarnation(),
                                                      Place::Parse(device.physical_device_desc())};
  }
  CollectiveGroup group;
  for (auto& [order, member] : by_order) {
    if (group.members.empty() || group.members.back().task != member.task) group.members_per_task.push_back(0);
    ++group.members_per_task.back();
    group.members.push_back(std::move(member));
  }
  return group;
}

void CollectiveGroups::End(Waiter waiter, const absl::Status& status) {
  if (waiter.callback.has_value()) waiter.cancellation->TryDeregister(*waiter.callback);
  waiter.done(status);
}

CollectiveGroups::Waiters CollectiveGroups::TakeWaiters(bool of_group, const InstanceKey& key) {
  Waiters taken;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const bool matches = (it->second.group != nullptr) == of_group && it->second.key == key;
    if (matches) taken.push_back(std::move(it->second));
    it = matches ? waiters_.erase(it) : std::next(it);
  }
  return taken;
}

void CollectiveGroups::Fill(const Waiter& waiter) const {
  const Group& group = groups_.at(std::get<0>(waiter.key));
  if (waiter.instance != nullptr) {
    waiter.instance->set_instance_key(std::get<2>(waiter.key));
    waiter.instance->set_source_rank(instances_.at(waiter.key).source);
    return;
  }
  waiter.group->set_group_key(std::get<0>(waiter.key));
  waiter.group->set_group_size(group.size);
  waiter.group->set_device_type(group.device_type);
  waiter.group->set_num_tasks(static_cast<int>(group.members.members_per_task.size()));
  for (const CollectiveGroup::Member& member : group.members.members) {
    *waiter.group->add_device_attributes() = group.joined.at(member.device);
  }
}

// Runs `enter` under the lock. It records the arrival, and says whether the call can be answered now and which others
// can be answered with it. Answers are filled in under the lock and sent without it.
template <typename Enter>
void CollectiveGroups::Call(const CallOptions& options, Waiter waiter, Enter enter) {
  uint64_t id = 0;
  {
    MutexLock lock(&mutex_);
    id = next_id_++;
  }
  waiter.since = absl::Now();
  waiter.cancellation = options.cancellation;
  if (options.cancellation != nullptr) {
    waiter.callback = options.cancellation->Register([this, id](const absl::Status& why) { Cancelled(id, why); });
  }
  absl::Status status;
  Outcome outcome;
  {
    MutexLock lock(&mutex_);
    status = closed_;
    // An earlier cancellation found no waiter to end.
    if (status.ok() && options.cancellation != nullptr) status = options.cancellation->status();
    if (status.ok()) status = enter(&outcome);
    if (status.ok() && outcome.answered) {
      Fill(waiter);
      for (const Waiter& other : outcome.others) Fill(other);
    } else if (status.ok()) {
      waiters_.emplace(id, std::move(waiter));
    }
  }
  if (!status.ok() || outcome.answered) End(std::move(waiter), status);
  for (Waiter& other : outcome.others) End(std::move(other), status);
  for (Waiter& other : outcome.gone) End(std::move(other), Aborted("A member of the group has restarted"));
}

void CollectiveGroups::Join(const CallOptions& options, const CompleteGroupRequest& request,
                            tensorflow::CompleteGroupResponse* response, Done done) {
  Waiter waiter{.key = {request.group_key(), 0, 0},
                .device = request.device_attributes().name(),
                .group = response,
                .done = std::move(done)};
  Call(options, std::move(waiter),
       [&](Outcome* outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return JoinLocked(request, outcome); });
}

void CollectiveGroups::Declare(const CallOptions& options, const CompleteInstanceRequest& request,
                               tensorflow::CompleteInstanceResponse* response, Done done) {
  Waiter waiter{.key = {request.group_key(), request.step_id(), request.instance_key()},
                .device = request.device(),
                .instance = response,
                .done = std::move(done)};
  Call(options, std::move(waiter),
       [&](Outcome* outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return DeclareLocked(request, outcome); });
}

void CollectiveGroups::Erase(int32_t group_key, Outcome* outcome) {
  groups_.erase(group_key);
  for (auto it = instances_.begin(); it != instances_.end();) {
    if (std::get<0>(it->first) != group_key) {
      ++it;
      continue;
    }
    for (Waiter& waiter : TakeWaiters(false, it->first)) outcome->gone.push_back(std::move(waiter));
    it = instances_.erase(it);
  }
}

absl::Status CollectiveGroups::JoinLocked(const CompleteGroupRequest& request, Outcome* outcome) {
  const DeviceAttributes& device = request.device_attributes();
  const int32_t key = request.group_key();
  if (request.group_size() <= 0) {
    return InvalidArgument("group_size must be positive integer but got ", request.group_size());
  }
  RETURN_IF_ERROR(CheckNotEnded(key));
  RETURN_IF_ERROR(CollectiveGroup::Of({device}).status());

  absl::Status conflict;
  if (const auto it = groups_.find(key); it != groups_.end()) {
    const Group& group = it->second;
    const auto known = group.joined.find(device.name());
    if (request.device_type() != group.device_type) {
      conflict = Internal("Device ", device.name(), " is joining a group with incompatible device type ",
                          group.device_type, " (group_key=", key, ")");
    } else if (request.group_size() != group.size) {
      conflict = Internal("Device ", device.name(), " is joining a group with size ", request.group_size(),
                          ", but that group has size ", group.size, " (group_key=", key, ")");
    } else if (group.complete && known == group.joined.end()) {
      conflict = Internal("Device ", device.name(), " is joining a group that is already full (group_key=", key, ")");
    }
    // A restarted task forms a new group with the members that notice the restart.
    const bool restarted = known != group.joined.end() && known->second.incarnation() != device.incarnation();
    if (group.complete && (restarted || (!conflict.ok() && group.old))) {
      Erase(key, outcome);
      conflict = absl::OkStatus();
    } else if (!conflict.ok() && !group.complete) {
      outcome->others = TakeWaiters(true, {key, 0, 0});
      Erase(key, outcome);
    }
  }
  RETURN_IF_ERROR(conflict);
  if (!groups_.contains(key)) RETURN_IF_ERROR(MakeRoomForGroup(outcome));

  Group& group = groups_[key];
  group.size = request.group_size();
  group.device_type = request.device_type();
  group.joined[device.name()] = device;
  if (!group.complete && static_cast<int>(group.joined.size()) == group.size) {
    std::vector<DeviceAttributes> devices;
    for (const auto& [name, attributes] : group.joined) devices.push_back(attributes);
    ASSIGN_OR_RETURN(group.members, CollectiveGroup::Of(std::move(devices)));
    group.complete = true;
    outcome->others = TakeWaiters(true, {key, 0, 0});
  }
  outcome->answered = group.complete;
  return absl::OkStatus();
}

absl::Status CollectiveGroups::DeclareLocked(const CompleteInstanceRequest& request, Outcome* outcome) {
  RETURN_IF_ERROR(CheckNotEnded(request.group_key()));
  const auto group = groups_.find(request.group_key());
  if (group == groups_.end() || !group->second.complete) {
    return Aborted("group ", request.group_key(), " not found. This normally means the server has restarted");
  }
  const int rank = group->second.members.RankOf(request.device());
  if (rank < 0) {
    return InvalidArgument("Device ", request.device(), " is not a member of group ", request.group_key());
  }
  const InstanceKey key = {request.group_key(), request.step_id(), request.instance_key()};
  const bool broadcast = request.type() == kBroadcast;
  absl::Status conflict;
  if (const auto it = instances_.find(key); it != instances_.end()) {
    const Instance& instance = it->second;
    if (instance.first.type() != request.type() || instance.first.data_type() != request.data_type()) {
      conflict =
          Internal("Collective instance ", request.instance_key(), " expected type ", instance.first.type(),
                   " and data_type ", static_cast<int>(instance.first.data_type()), " but got type ", request.type(),
                   " and data_type ", static_cast<int>(request.data_type()), ": device ", request.device(), " brings ",
                   Describe(request), ", device ", instance.first.device(), " has brought ", Describe(instance.first));
    } else if (!SameShape(instance.first.shape(), request.shape())) {
      conflict = InvalidArgument("Shape mismatch in the collective instance ", request.instance_key(),
                                 ". Op at device ", request.device(), " expected shape ", ShapeText(request.shape()),
                                 " but another member in the group expected shape ", ShapeText(instance.first.shape()),
                                 ". This is likely due to different input shapes at different members of the "
                                 "collective op.");
    } else if (broadcast && request.is_source() && instance.source >= 0 && instance.source != rank) {
      conflict = Internal("Instance ", request.instance_key(), " already has source ", instance.source,
                          ", received second claim from ", rank);
    } else if (broadcast && !request.is_source() && instance.source == rank) {
      conflict = Internal("Instance ", request.instance_key(), " has source ", rank, ", which now wants to receive");
    }
    if (!conflict.ok() && instance.complete && instance.old) {
      instances_.erase(it);
      conflict = absl::OkStatus();
    } else if (!conflict.ok() && !instance.complete) {
      outcome->others = TakeWaiters(false, key);
      instances_.erase(it);
    }
  }
  RETURN_IF_ERROR(conflict);

  Instance& instance = instances_[key];
  const bool was_complete = instance.complete;
  if (instance.known.empty()) instance.first = request;
  instance.known.insert(rank);
  if (request.is_source()) instance.source = rank;
  if (!broadcast) instance.complete = true;
  if (!instance.complete && static_cast<int>(instance.known.size()) == group->second.size) {
    outcome->others = TakeWaiters(false, key);
    if (instance.source < 0) {
      instances_.erase(key);
      return Internal("Instance ", request.instance_key(),
                      " found no source for broadcast.  This could mean that there were group_size=",
                      group->second.size, " BcastRecvs but no BcastSend.");
    }
    instance.complete = true;
  }
  outcome->answered = instance.complete;
  if (instance.complete && !was_complete) complete_instances_.push_back(key);
  if (complete_instances_.size() > kMaxCompleteInstances) {
    const auto oldest = instances_.find(complete_instances_.front());
    if (oldest != instances_.end() && oldest->second.complete) instances_.erase(oldest);
    complete_instances_.pop_front();
  }
  return absl::OkStatus();
}

// Erases groups of ended sessions to make room for new ones.
absl::Status CollectiveGroups::MakeRoomForGroup(Outcome* outcome) {
  if (groups_.size() < kMaxGroups) return absl::OkStatus();
  for (const auto& [key, group] : groups_) {
    if (!group.complete || !group.old) continue;
    Erase(key, outcome);
    return absl::OkStatus();
  }
  return ResourceExhausted("This task leads ", groups_.size(), " groups of collectives, and takes no more");
}

// The caller is gone: undo its arrival.
void CollectiveGroups::Cancelled(uint64_t id, const absl::Status& why) {
  std::optional<Waiter> waiter;
  {
    MutexLock lock(&mutex_);
    const auto it = waiters_.find(id);
    if (it == waiters_.end()) return;
    waiter = std::move(it->second);
    waiters_.erase(it);
    const bool others = std::any_of(waiters_.begin(), waiters_.end(), [&](const auto& entry) {
      return entry.second.key == waiter->key && entry.second.device == waiter->device &&
             (entry.second.group != nullptr) == (waiter->group != nullptr);
    });
    const auto group = groups_.find(std::get<0>(waiter->key));
    if (others || group == groups_.end()) {
      // The device has another call pending, or the group was erased.
    } else if (waiter->group != nullptr && !group->second.complete) {
      group->second.joined.erase(waiter->device);
      if (group->second.joined.empty()) groups_.erase(group);
    } else if (const auto instance = instances_.find(waiter->key);
               waiter->group == nullptr && instance != instances_.end() && !instance->second.complete) {
      const int rank = group->second.members.RankOf(waiter->device);
      instance->second.known.erase(rank);
      if (instance->second.source == rank) instance->second.source = -1;
      if (instance->second.known.empty()) instances_.erase(instance);
    }
  }
  waiter->callback.reset();
  End(*std::move(waiter), why);
}

void CollectiveGroups::MarkOld() {
  MutexLock lock(&mutex_);
  for (auto& [key, group] : groups_) {
    group.old = true;
    group.checked = !group.complete;
  }
  for (auto& [key, instance] : instances_) instance.old = true;
}

std::vector<CollectiveGroup::Member> CollectiveGroups::Unchecked(int32_t group_key) const {
  MutexLock lock(&mutex_);
  const auto it = groups_.find(group_key);
  if (it == groups_.end() || it->second.checked) return {};
  return it->second.members.members;
}

void CollectiveGroups::Checked(int32_t group_key, const std::vector<CollectiveGroup::Member>& members, bool all_there) {
  Outcome outcome;
  {
    MutexLock lock(&mutex_);
    const auto it = groups_.find(group_key);
    if (it == groups_.end() || it->second.members.members != members)
      return;  // replaced by a new group in the meantime
    if (all_there) {
      it->second.checked = true;
    } else {
      Erase(group_key, &outcome);
    }
  }
  for (Waiter& waiter : outcome.gone) End(std::move(waiter), Aborted("A member of the group is gone"));
}

absl::Status CollectiveGroups::CheckNotEnded(int32_t group_key) const {
  for (const auto& [key, why] : ended_) {
    if (key == group_key) return why;
  }
  return absl::OkStatus();
}

void CollectiveGroups::EndGroup(int32_t group_key, const absl::Status& why) {
  Outcome outcome;
  {
    MutexLock lock(&mutex_);
    ended_.emplace_back(group_key, why);
    if (ended_.size() > kMaxEndedKeys) ended_.pop_front();
    Erase(group_key, &outcome);
    for (Waiter& waiter : TakeWaiters(true, {group_key, 0, 0})) outcome.gone.push_back(std::move(waiter));
  }
  for (Waiter& waiter : outcome.gone) End(std::move(waiter), why);
}

void CollectiveGroups::Close(const absl::Status& why) {
  std::map<uint64_t, Waiter> waiters;
  {
    MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = why;
    waiters.swap(waiters_);
  }
  for (auto& [id, waiter] : waiters) End(std::move(waiter), why);
}

std::vector<std::string> CollectiveGroups::DescribeWaits(absl::Time then) const {
  MutexLock lock(&mutex_);
  std::map<InstanceKey, absl::Time> since;
  for (const auto& [id, waiter] : waiters_) {
    if (waiter.since > then) continue;
    absl::Time& first = since.try_emplace(waiter.key, waiter.since).first->second;
    first = std::min(first, waiter.since);
  }
  std::vector<std::string> texts;
  for (const auto& [key, first] : since) {
    const auto found = groups_.find(std::get<0>(key));
    if (found == groups_.end()) continue;
    const Group& group = found->second;
    std::vector<std::string> there;
    for (const auto& [name, attributes] : group.joined) {
      const auto instance = instances_.find(key);
      if (instance == instances_.end() || instance->second.known.contains(group.members.RankOf(name))) {
        there.push_back(name);
      }
    }
    texts.push_back(absl::StrCat("collective group ", std::get<0>(key),
                                 group.complete ? absl::StrCat(", instance ", std::get<2>(key)) : std::string(),
                                 " waits since ",
                                 absl::FormatDuration(absl::Trunc(absl::Now() - first, absl::Seconds(1))), " for ",
                                 group.size - static_cast<int>(there.size()), " of ", group.size,
                                 " members; there are: ", absl::StrJoin(there, ", ")));
  }
  return texts;
}

}  // namespace thalweg
