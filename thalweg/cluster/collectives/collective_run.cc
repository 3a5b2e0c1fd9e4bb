// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/collective_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/collectives/all_to_all.h"
#include "thalweg/cluster/collectives/ring.h"
#include "thalweg/cluster/collectives/tree_broadcast.h"
#include "thalweg/cluster/request_id.h"

namespace thalweg {
namespace {

// The key of an operation in a group. All processes compute the same key.
uint64_t DirectKey(int64_t step_id, absl::string_view key) {
  uint64_t hash = 14695981039346656037u ^ static_cast<uint64_t>(step_id);  // FNV-1a
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  hash = (hash ^ (hash >> 31)) * 1099511628211u;
  return hash == 0 ? 1 : hash;
}

}  // namespace

// A run goes through four stages, each of which may wait:
// 1. ResolveGroup: ask the leader for the members, once per group.
// 2. ResolveInstance: ask the leader who sends, once per instance of the op.
// 3. Execute: exchange the values, by the path that suits the group and the size.
// 4. End: report the status, from the thread on which the last stage ended.
// Abort() only cancels the calls in progress; the stage that waits for them then calls End().
TaskCollectives::Run::Run(TaskCollectives& task, StepPart& step, std::shared_ptr<GraphCollectives> graph,
                          CollectiveCall call, Cancellation& cancellation, Collectives::Done done)
    : task_(task),
      step_(step),
      graph_(std::move(graph)),
      step_id_(step.step_id()),
      call_(std::move(call)),
      since_(absl::Now()),
      outside_(cancellation),
      done_(std::move(done)) {}

void TaskCollectives::Run::Start() {
  const auto self = shared_from_this();
  {
    MutexLock lock(&task_.mutex_);
    task_.running_.emplace(this, self);
  }
  outside_id_ = outside_.Register([self](const absl::Status& why) { self->Abort(why); });
  if (!outside_id_.has_value()) return End(outside_.status());
  // Only after the run is registered, so that a peer's failure finds it.
  if (absl::Status status = task_.buffers_.StatusOf(step_id_); !status.ok()) return End(std::move(status));
  EndIfEnded();
  if (call_.timeout < absl::InfiniteDuration()) {
    alarm_ = task_.timer_.Set(since_ + call_.timeout, [weak = weak_from_this()] {
      const auto run = weak.lock();
      if (run == nullptr) return;
      bool executing = false;
      {
        MutexLock lock(&run->mutex_);
        executing = run->executing_;
      }
      run->Abort(executing ? DeadlineExceeded("Collective has timed out during execution.")
                           : DeadlineExceeded("Collective has timed out waiting for other workers."));
    });
  }
  ResolveGroup();
}

void TaskCollectives::Run::EndIfEnded() {
  const std::optional<Ended> ended = task_.FindEnded(*graph_, call_.group_key, call_.instance_key);
  if (!ended.has_value()) return;
  if (!ended->tell_members) step_.EndedByMember();
  Abort(ended->why);
}

void TaskCollectives::Run::Abort(const absl::Status& why) {
  const auto self = shared_from_this();  // ending the calls may release the last other reference
  calls_.Cancel(why);
}

void TaskCollectives::Run::End(absl::Status status) {
  const auto self = shared_from_this();
  if (outside_id_.has_value()) outside_.TryDeregister(*outside_id_);
  if (alarm_.has_value()) task_.timer_.Unset(*alarm_);
  questions_.Cancel(Cancelled("The collective is over"));
  {
    MutexLock lock(&task_.mutex_);
    task_.running_.erase(this);
  }
  if (!status.ok()) {
    graph_->Forget(call_.group_key);
    if (calls_.cancelled())
      status = calls_.status();  // the reason of the cancellation, not the error that the calls returned
  }
  if (status.ok() && !task_.FindEnded(*graph_, call_.group_key, call_.instance_key).has_value()) {
    *graph_->last = NowNanos();
  }
  if (status.ok() && call_.kind == CollectiveKind::kReduceScatter) TakeOwnPart();
  Collectives::Done done = std::move(done_);
  done(status);
}

void TaskCollectives::Run::ResolveGroup() {
  if (auto group = graph_->FindGroup(call_.group_key, call_.device->name())) return GotGroup(std::move(group));
  Worker* const leader = graph_->workers->Find(graph_->leader);
  if (leader == nullptr) {
    return End(
        InvalidArgument("collective_group_leader is \"", graph_->leader, "\", which is not a task of the cluster"));
  }
  AskGroup(*leader, false);
}

// `wait_for_ready`: the call waits for a leader that has not started yet, instead of failing.
void TaskCollectives::Run::AskGroup(Worker& leader, bool wait_for_ready) {
  if (absl::Status fault = FailPoint("collective.group", graph_->task); !fault.ok()) return End(std::move(fault));
  struct Question {
    tensorflow::CompleteGroupRequest request;
    tensorflow::CompleteGroupResponse response;
  };
  auto question = std::make_unique<Question>();
  Question& q = *question;
  q.request.set_group_key(call_.group_key);
  q.request.set_group_size(call_.group_size);
  q.request.set_device_type(call_.device->type());
  q.request.set_collective_type(static_cast<int>(call_.kind));
  *q.request.mutable_device_attributes() = call_.device->Attributes();
  q.request.mutable_device_attributes()->set_physical_device_desc(task_.direct_.Report().ToString());
  if (!wait_for_ready) WatchLeader(leader);
  leader.CompleteGroup(
      {.cancellation = &calls_, .wait_for_ready = wait_for_ready}, q.request, &q.response,
      [self = shared_from_this(), &leader, wait_for_ready, question = std::move(question)](const absl::Status& status) {
        self->UnwatchLeader();
        Membership& membership = *self->task_.options_.membership;
        if (absl::IsUnavailable(status) && !wait_for_ready && !self->calls_.cancelled()) {
          // A leader that has never answered may not have started yet.
          if (!membership.Seen(self->graph_->leader)) return self->AskGroup(leader, true);
        }
        if (!status.ok()) return self->End(status);
        membership.MarkSeen(self->graph_->leader);
        const auto& devices = question->response.device_attributes();
        absl::StatusOr<CollectiveGroup> group = CollectiveGroup::Of({devices.begin(), devices.end()});
        if (!group.ok()) return self->End(group.status());
        auto shared = std::make_shared<const CollectiveGroup>(*std::move(group));
        self->graph_->AddGroup(self->call_.group_key, self->call_.device->name(), shared);
        self->GotGroup(std::move(shared));
      });
}

void TaskCollectives::Run::GotGroup(std::shared_ptr<const CollectiveGroup> group) {
  rank_ = group->RankOf(call_.device->name());
  if (rank_ < 0 || static_cast<int>(group->members.size()) != call_.group_size) {
    return End(Internal("The leader's answer for group ", call_.group_key, " has ", group->members.size(), " of ",
                        call_.group_size, " members", rank_ < 0 ? ", and not this one: " : ": ", call_.device->name()));
  }
  if (call_.expected_rank >= 0 && call_.expected_rank != rank_) {
    return End(InvalidArgument("The communicator of group ", call_.group_key, " gives rank ", call_.expected_rank,
                               " to ", call_.device->name(), ", which has rank ", rank_,
                               ": ranks must follow the order of the devices' names"));
  }
  step_.AddGroup(*group);
  {
    MutexLock lock(&mutex_);
    group_ = std::move(group);
  }
  ResolveInstance();
}

void TaskCollectives::Run::ResolveInstance() {
  const std::string& device = call_.device->name();
  if (absl::Status fault = FailPoint("collective.instance", graph_->task); !fault.ok()) return End(std::move(fault));
  if (const auto source = graph_->FindSource(call_.group_key, call_.instance_key, device)) return Execute(*source);
  struct Question {
    tensorflow::CompleteInstanceRequest request;
    tensorflow::CompleteInstanceResponse response;
  };
  auto question = std::make_unique<Question>();
  Question& q = *question;
  q.request.set_name(call_.node);
  q.request.set_type(static_cast<int>(call_.kind) | (call_.rank_order ? kInRankOrder : 0));
  q.request.set_data_type(static_cast<tensorflow::DataType>(call_.values.dtype()));
  call_.values.shape().ToProto(q.request.mutable_shape());
  q.request.set_group_key(call_.group_key);
  q.request.set_group_size(call_.group_size);
  q.request.set_instance_key(call_.instance_key);
  q.request.set_device_type(call_.device->type());
  for (const int offset : call_.subdivision_offsets) q.request.add_subdiv_offset(offset);
  q.request.set_device(device);
  q.request.set_is_source(call_.is_source);
  Worker* const leader = graph_->workers->Find(graph_->leader);
  WatchLeader(*leader);
  leader->CompleteInstance({.cancellation = &calls_}, q.request, &q.response,
                           [self = shared_from_this(), question = std::move(question)](const absl::Status& status) {
                             self->UnwatchLeader();
                             if (!status.ok()) return self->End(status);
                             const int source = question->response.source_rank();
                             self->graph_->AddSource(self->call_.group_key, self->call_.instance_key,
                                                     self->call_.device->name(), source);
                             self->Execute(source);
                           });
}

void TaskCollectives::Run::WatchLeader(Worker& leader) {
  PeerHealth* const health = task_.options_.health;
  if (health == nullptr || graph_->leader == graph_->task) return;
  if (!task_.options_.membership->Seen(graph_->leader)) return;
  const std::vector<Peer> peers = {{graph_->leader, &leader, graph_->workers}};
  const int64_t id = health->Watch(std::make_shared<const std::vector<Peer>>(peers),
                                   std::shared_ptr<Cancellation>(shared_from_this(), &calls_));
  MutexLock lock(&mutex_);
  leader_watch_ = id;
}

void TaskCollectives::Run::UnwatchLeader() {
  std::optional<int64_t> id;
  {
    MutexLock lock(&mutex_);
    id = std::exchange(leader_watch_, std::nullopt);
  }
  if (id.has_value()) task_.options_.health->Unwatch(*id);
}

// Chooses the path: shared memory, TCP connections or both for groups of Thalweg tasks; otherwise messages between
// workers, as TensorFlow's tasks understand them.
void TaskCollectives::Run::Execute(int source) {
  if (absl::Status fault = FailPoint("collective.execute", graph_->task); !fault.ok()) return End(std::move(fault));
  std::shared_ptr<const CollectiveGroup> group;
  {
    MutexLock lock(&mutex_);
    executing_ = true;
    group = group_;
  }
  const int members = static_cast<int>(group->members.size());
  const std::string key =
      absl::StrCat(call_.group_key, ":", call_.instance_key, ":", call_.frame, ":", call_.iteration);
  auto done = [self = shared_from_this()](const absl::Status& status) { self->End(status); };
  const bool broadcasts = call_.kind == CollectiveKind::kBroadcast;
  if (broadcasts && (source < 0 || source >= members || call_.is_source != (source == rank_))) {
    return End(Internal("Instance ", call_.instance_key, " has source ", source, ", but this member, ", rank_,
                        call_.is_source ? ", sends" : ", receives"));
  }
  if (call_.kind == CollectiveKind::kAllToAll) {
    return RunAllToAll({.key = key, .rank = rank_, .members = members, .parts = call_.own, .values = call_.values},
                       shared_from_this(), std::move(done));
  }
  const DirectCollectives::Path path = DirectCollectives::PathOf(*group, call_.values.TotalBytes());
  if (path != DirectCollectives::Path::kSharedMemory) PutApart();
  if (path != DirectCollectives::Path::kNone) return ExecuteDirectly(path, *group, key, source);
  if (broadcasts) {
    return RunTreeBroadcast({.key = key,
                             .rank = rank_,
                             .source = source,
                             .members_per_task = group->members_per_task,
                             .values = call_.values},
                            shared_from_this(), std::move(done));
  }
  if (call_.rank_order) return MergeInRankOrder(*group, key, std::move(done));
  std::vector<int> offsets = {0};
  if (call_.kind == CollectiveKind::kGather) {
    PutOwnPart();
  } else if (!call_.subdivision_offsets.empty()) {
    offsets = call_.subdivision_offsets;
  } else {
    offsets = SubdivisionOffsets(members, static_cast<int>(group->members_per_task.size()), call_.values.TotalBytes(),
                                 call_.max_subdivisions_per_device);
  }
  RunRing({.key = key,
           .rank = rank_,
           .rings = MakeRings(group->members_per_task, offsets),
           .values = call_.values,
           .merge = call_.merge,
           .finish = call_.finish},
          shared_from_this(), std::move(done));
}

// A ring merges every part in another order. Here every member gathers the values of all and merges them itself.
void TaskCollectives::Run::MergeInRankOrder(const CollectiveGroup& group, const std::string& key, Links::Done done) {
  const int members = static_cast<int>(group.members.size());
  const int64_t elements = call_.values.num_elements(), bytes = call_.values.TotalBytes();
  absl::StatusOr<Tensor> all = Tensor::Allocate(call_.values.dtype(), Shape({members, elements}));
  if (!all.ok()) return done(all.status());
  char* const first = static_cast<char*>(all->raw());
  if (bytes > 0) std::memcpy(first + rank_ * bytes, call_.values.raw(), bytes);
  RunRing({.key = key, .rank = rank_, .rings = MakeRings(group.members_per_task, {0}), .values = *all},
          shared_from_this(),
          [self = shared_from_this(), all = *all, first, elements, bytes, members,
           done = std::move(done)](const absl::Status& status) mutable {
            if (status.ok() && bytes > 0) {
              // Not in place: the next member may still be reading the values that this one passed on.
              const CollectiveCall& call = self->call_;
              std::memcpy(call.values.raw(), first, bytes);
              for (int rank = 1; rank < members; ++rank) call.merge(call.values.raw(), first + rank * bytes, elements);
              if (call.finish != nullptr) call.finish(call.values.raw(), elements, members);
            }
            done(status);
          });
}

// For a reduce that does not run in shared memory: copies elements to their places.
void TaskCollectives::Run::PutApart() {
  for (const auto& [begin, elements] : call_.apart) {
    const auto size = static_cast<int64_t>(ElementSize(elements.dtype()));
    std::memcpy(static_cast<char*>(call_.values.raw()) + begin * size, elements.raw(), elements.TotalBytes());
  }
}

// For a gather: copies this member's values to their place in the result.
void TaskCollectives::Run::PutOwnPart() {
  const int64_t bytes = call_.own.TotalBytes();
  if (bytes > 0) std::memcpy(static_cast<char*>(call_.values.raw()) + rank_ * bytes, call_.own.raw(), bytes);
}

// For a reduce-scatter: copies this member's part of the result to its place.
void TaskCollectives::Run::TakeOwnPart() {
  const int64_t bytes = call_.own.TotalBytes();
  if (bytes > 0) std::memcpy(call_.own.raw(), static_cast<const char*>(call_.values.raw()) + rank_ * bytes, bytes);
}

// Runs the op in shared memory or over TCP. While it waits, the members are checked in the same way as those of a ring.
void TaskCollectives::Run::ExecuteDirectly(DirectCollectives::Path path, const CollectiveGroup& group,
                                           const std::string& key, int source) {
  HostCall call{.key = DirectKey(step_id_, key),
                .elements = call_.values.num_elements(),
                .element_bytes = static_cast<uint32_t>(ElementSize(call_.values.dtype())),
                .step = step_id_,
                .tag = static_cast<uint32_t>(call_.values.dtype()) | call_.reduction << 8,
                .rank_order = call_.rank_order,
                .values = call_.values.raw(),
                .merge = call_.merge,
                .finish = call_.finish,
                .timeout = absl::InfiniteDuration()};
  switch (call_.kind) {
    case CollectiveKind::kReduce:
      call.operation = HostOperation::kAllReduce;
      if (path != DirectCollectives::Path::kSharedMemory) break;
      for (const auto& [begin, elements] : call_.apart) {
        call.apart.push_back({begin, elements.num_elements(), elements.raw()});
      }
      break;
    case CollectiveKind::kReduceScatter:
      // A ring between hosts merges every part in another order.
      call.operation = call_.rank_order && path != DirectCollectives::Path::kSharedMemory
                           ? HostOperation::kAllReduce
                           : HostOperation::kReduceScatter;
      break;
    case CollectiveKind::kBarrier:
      call.operation = HostOperation::kBarrier;
      call.elements = 0;
      break;
    case CollectiveKind::kBroadcast:
      call.operation = HostOperation::kBroadcast;
      call.root = source;
      break;
    case CollectiveKind::kGather:
      call.operation = HostOperation::kAllGather;
      PutOwnPart();
      break;
    case CollectiveKind::kAllToAll:  // is done by messages
      return End(Internal("an all-to-all exchange does not run in shared memory"));
  }
  const int members = static_cast<int>(group.members.size());
  const auto wait = [this, members](int change) {
    for (int rank = 0; rank < members; ++rank) {
      if (rank != rank_) Waiting(rank, true, change);
    }
  };
  wait(1);
  {
    MutexLock lock(&mutex_);
    direct_running_ = true;
  }
  task_.direct_.Run(path, group, call_.group_key, rank_, call, calls_,
                    [self = shared_from_this(), wait](const absl::Status& status) {
                      wait(-1);
                      self->End(status);
                    });
}

void TaskCollectives::Run::AskForFailures() {
  std::shared_ptr<const CollectiveGroup> group;
  {
    MutexLock lock(&mutex_);
    if (!std::exchange(direct_running_, false)) return;
    group = group_;
  }
  for (const CollectiveGroup::Member& member : group->members) {
    Worker* const worker = member.task == graph_->task ? nullptr : graph_->workers->Find(member.task);
    if (worker == nullptr) continue;
    // No member offers this buffer. The call ends only when the step ends there.
    struct Question {
      tensorflow::RecvBufRequest request;
      Tensor value;
    };
    auto question = std::make_unique<Question>();
    Question& q = *question;
    q.request.set_step_id(step_id_);
    q.request.set_buf_rendezvous_key(absl::StrCat(BufferRendezvous::kFailureKey, call_.group_key, ":",
                                                  call_.instance_key, ":", call_.frame, ":", call_.iteration, ":",
                                                  rank_));
    q.request.set_src_device(member.device);
    q.request.set_src_incarnation(member.incarnation);
    q.request.set_dst_device(call_.device->name());
    q.request.set_request_id(NewRequestId());
    worker->RecvBuf(
        {.cancellation = &questions_}, q.request, &q.value,
        [self = shared_from_this(), question = std::move(question), task = member.task](const absl::Status& status) {
          if (status.ok() || self->questions_.cancelled()) return;
          self->Abort(absl::StrContains(status.message(), task) ? status : GivenUpBy(task, status));
        });
  }
}

void TaskCollectives::Run::Waiting(int rank, bool for_values, int change) {
  MutexLock lock(&mutex_);
  (for_values ? receiving_ : sending_)[rank] += change;
}

// Offers a value. The other member fetches it by its key.
void TaskCollectives::Run::Send(int to, std::string key, Tensor value, Links::Done done) {
  Waiting(to, false, 1);
  task_.buffers_.Offer(step_id_, key, std::move(value), &calls_,
                       [self = shared_from_this(), to, done = std::move(done)](const absl::Status& status) mutable {
                         self->Waiting(to, false, -1);
                         done(status);
                       });
}

// Fetches a value into the memory of `into`: from this task's buffers, or with a RecvBuf call.
void TaskCollectives::Run::Receive(int from, std::string key, Tensor into, Links::Done done) {
  Waiting(from, true, 1);
  CollectiveGroup::Member member;
  {
    MutexLock lock(&mutex_);
    member = group_->members[from];
  }
  auto received = [self = shared_from_this(), from, into, done = std::move(done)](const absl::Status& status,
                                                                                  const Tensor& value) mutable {
    self->Waiting(from, true, -1);
    if (!status.ok()) return done(status);
    if (value.TotalBytes() != into.TotalBytes()) {
      return done(Internal("Tensor Size Mismatch: RecvBufResponse returned ", value.TotalBytes(),
                           " bytes, expected: ", into.TotalBytes()));
    }
    if (value.raw() != into.raw() && value.TotalBytes() > 0) std::memcpy(into.raw(), value.raw(), value.TotalBytes());
    done(absl::OkStatus());
  };
  if (member.task == graph_->task) {
    return task_.buffers_.TakeAsync(
        step_id_, key, &calls_,
        [received = std::move(received)](const absl::Status& status, const Tensor& value) mutable {
          received(status, value);
        });
  }
  Worker* const worker = graph_->workers->Find(member.task);
  if (worker == nullptr) return received(Internal("No worker known as ", member.task), {});
  if (const absl::Status fault = FailPoint("collective.receive", graph_->task); !fault.ok()) {
    return received(fault, {});
  }
  struct Fetch {
    tensorflow::RecvBufRequest request;
    Tensor value;
  };
  auto fetch = std::make_unique<Fetch>();
  Fetch& f = *fetch;
  f.value = into;
  f.request.set_step_id(step_id_);
  f.request.set_buf_rendezvous_key(key);
  f.request.set_num_bytes(into.TotalBytes());
  f.request.set_src_device(member.device);
  f.request.set_src_incarnation(member.incarnation);
  f.request.set_dst_device(call_.device->name());
  f.request.set_request_id(NewRequestId());
  worker->RecvBuf({.cancellation = &calls_}, f.request, &f.value,
                  [fetch = std::move(fetch), received = std::move(received)](const absl::Status& status) mutable {
                    received(status, fetch->value);
                  });
}

std::vector<CollectiveGroup::Member> TaskCollectives::Run::WaitsFor() const {
  MutexLock lock(&mutex_);
  std::vector<CollectiveGroup::Member> members;
  for (size_t i = 0; group_ != nullptr && i < group_->members.size(); ++i) {
    const auto counts = [&](const std::map<int, int>& by_rank) {
      const auto it = by_rank.find(static_cast<int>(i));
      return it != by_rank.end() && it->second > 0;
    };
    if (counts(receiving_) || counts(sending_)) members.push_back(group_->members[i]);
  }
  return members;
}

std::string TaskCollectives::Run::Describe() const {
  MutexLock lock(&mutex_);
  const auto name = [&](const std::map<int, int>& by_rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::string> devices;
    for (const auto& [rank, count] : by_rank) {
      if (count > 0) devices.push_back(group_->members[rank].device);
    }
    return absl::StrJoin(devices, ", ");
  };
  std::string what;
  if (group_ == nullptr) {
    what = absl::StrCat("its leader, ", graph_->leader, ", to find all ", call_.group_size, " members");
  } else if (!executing_) {
    what = absl::StrCat("its leader, ", graph_->leader, ", to hear of all members");
  } else {
    const std::string from = name(receiving_), to = name(sending_);
    what = absl::StrCat(from.empty() ? "" : absl::StrCat("values of ", from),
                        from.empty() || to.empty() ? "" : ", and for ",
                        to.empty() ? "" : absl::StrCat(to, " to take values"));
  }
  return absl::StrCat("collective '", call_.node, "' (group ", call_.group_key, ", instance ", call_.instance_key,
                      ", step ", step_id_, ") waits since ",
                      absl::FormatDuration(absl::Trunc(absl::Now() - since_, absl::Seconds(1))), " for ", what);
}

}  // namespace thalweg
