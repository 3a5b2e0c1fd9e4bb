// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/task_collectives.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/collectives/collective_run.h"
#include "thalweg/cluster/wait_logging.h"
#include "thalweg/transport/host_group.h"

namespace thalweg {
namespace {

// How often the members' health is checked, and how long an op must have run before the first check.
constexpr absl::Duration kWatchEvery = PeerHealth::kHeartbeat;
constexpr absl::Duration kAbortTimeout = absl::Seconds(10);

}  // namespace

std::shared_ptr<const CollectiveGroup> GraphCollectives::FindGroup(int32_t group_key, const std::string& device) const {
  MutexLock lock(&mutex_);
  const auto it = groups_.find({group_key, device});
  return it == groups_.end() ? nullptr : it->second;
}

void GraphCollectives::AddGroup(int32_t group_key, const std::string& device,
                                std::shared_ptr<const CollectiveGroup> group) {
  MutexLock lock(&mutex_);
  for (const CollectiveGroup::Member& member : group->members) {
    if (member.task != task) other_tasks_.insert(member.task);
  }
  groups_[{group_key, device}] = std::move(group);
}

std::optional<int> GraphCollectives::FindSource(int32_t group_key, int32_t instance_key,
                                                const std::string& device) const {
  MutexLock lock(&mutex_);
  const auto it = sources_.find({group_key, instance_key, device});
  if (it == sources_.end()) return std::nullopt;
  return it->second;
}

void GraphCollectives::AddSource(int32_t group_key, int32_t instance_key, const std::string& device, int source) {
  MutexLock lock(&mutex_);
  const auto [it, is_new] = sources_.insert_or_assign({group_key, instance_key, device}, source);
  if (!is_new) return;
  sources_by_age_.push_back(it->first);
  if (sources_by_age_.size() <= kMaxSources) return;
  sources_.erase(sources_by_age_.front());
  sources_by_age_.pop_front();
}

std::set<std::string> GraphCollectives::OtherTasks() const {
  MutexLock lock(&mutex_);
  return other_tasks_;
}

void GraphCollectives::Forget(int32_t group_key) {
  MutexLock lock(&mutex_);
  std::erase_if(groups_, [&](const auto& entry) { return entry.first.first == group_key; });
  std::erase_if(sources_, [&](const auto& entry) { return std::get<0>(entry.first) == group_key; });
  std::erase_if(sources_by_age_, [&](const auto& key) { return std::get<0>(key) == group_key; });
}

std::optional<SharedValues> TaskCollectives::StepPart::AllocateShared(int32_t group_key, const Device& device,
                                                                      DType dtype, const Shape& shape) {
  const auto group = graph_->FindGroup(group_key, device.name());
  const int64_t bytes = shape.num_elements() * static_cast<int64_t>(ElementSize(dtype));
  if (group == nullptr) return std::nullopt;
  const int rank = group->RankOf(device.name());
  std::optional<ProcessGroup::Memory> memory =
      task_.direct_.Allocate(*group, group_key, rank, static_cast<size_t>(bytes));
  if (!memory.has_value()) return std::nullopt;
  char* const data = memory->data;
  // The captured owner frees the memory.
  BufferPtr buffer(Buffer::Wrap(data, static_cast<size_t>(bytes), [owner = std::move(memory->owner)] {}));
  const auto [begin, count] = HostGroup::MergedPart(rank, static_cast<int>(group->members.size()), shape.num_elements(),
                                                    static_cast<int64_t>(ElementSize(dtype)));
  return SharedValues{Tensor(dtype, shape, std::move(buffer), data), begin, begin + count};
}

void TaskCollectives::StepPart::Run(CollectiveCall call, Cancellation& cancellation, Done done) {
  task_.StartWatch();
  std::make_shared<TaskCollectives::Run>(task_, *this, graph_, std::move(call), cancellation, std::move(done))->Start();
}

std::string TaskCollectives::StepPart::Describe() const { return absl::StrCat("the collectives of step ", step_id_); }

void TaskCollectives::StepPart::AddGroup(const CollectiveGroup& group) {
  MutexLock lock(&mutex_);
  for (const CollectiveGroup::Member& member : group.members) {
    if (member.task != graph_->task) tasks_.insert(member.task);
  }
}

void TaskCollectives::StepPart::Failed(const absl::Status& why) {
  if (ended_by_member_) return;
  if (!task_.buffers_.Abort(step_id_, GivenUpBy(graph_->task, why)))
    return;  // another member was first and has told all members
  // Also the members of groups whose ops this step has not reached.
  std::set<std::string> tasks = graph_->OtherTasks();
  {
    MutexLock lock(&mutex_);
    tasks.insert(tasks_.begin(), tasks_.end());
  }
  // It has failed before it knew the members: they may wait for it already.
  if (tasks.empty()) {
    for (const std::string& task : graph_->workers->tasks()) {
      if (task != graph_->task) tasks.insert(task);
    }
  }
  for (const std::string& task : tasks) {
    Worker* const worker = graph_->workers->Find(task);
    if (worker == nullptr) continue;
    auto request = std::make_shared<tensorflow::AbortCollectiveRequest>();
    request->set_step_id(step_id_);
    request->set_task(graph_->task);
    request->set_code(static_cast<int>(absl::IsCancelled(why) ? absl::StatusCode::kAborted : why.code()));
    request->set_message(std::string(why.message()));
    // TensorFlow's tasks do not know this call. Their calls to this task fail instead.
    worker->AbortCollective({.timeout = kAbortTimeout}, *request, [request, graph = graph_](const absl::Status&) {});
  }
}

std::shared_ptr<TaskCollectives::StepPart> TaskCollectives::ForStep(std::shared_ptr<GraphCollectives> graph,
                                                                    int64_t step_id) {
  return std::make_shared<StepPart>(*this, std::move(graph), step_id);
}

TaskCollectives::~TaskCollectives() { Shutdown(Cancelled(options_.task, " ends")); }

void TaskCollectives::Shutdown(const absl::Status& why) {
  closed_.Cancel(why);
  groups_.Close(why);
  buffers_.AbortAll(why);
  direct_.Close(why);
  for (const auto& run : Running()) run->Abort(why);
  std::unique_ptr<Thread> thread;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
    while (!asked_.empty()) changed_.Wait(&mutex_);  // the calls were cancelled
    thread = std::move(thread_);
  }
}

std::vector<std::shared_ptr<TaskCollectives::Run>> TaskCollectives::Running() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Run>> runs;
  for (const auto& [pointer, weak] : running_) {
    if (auto run = weak.lock()) runs.push_back(std::move(run));
  }
  return runs;
}

// A member that has not reached the step yet fails when it does. Every member thus sees exactly one failure and stays
// at the same step number.
void TaskCollectives::AbortStep(int64_t step_id, const absl::Status& why) {
  if (!buffers_.Abort(step_id, why)) return;
  for (const auto& run : Running()) {
    if (run->step_id() == step_id) run->Abort(why);
  }
}

void TaskCollectives::EndInstances(const EndCollectives& which) {
  const absl::Status status = Aborted("A member of collective group ", which.group_key, " begins again: ", which.why);
  {
    MutexLock lock(&mutex_);
    ended_[{which.group_key, which.first_instance, which.last_instance}] = {NowNanos(), status, which.tell_members};
    if (ended_.size() > kMaxEnded) {  // keys come from others
      ended_.erase(std::min_element(ended_.begin(), ended_.end(),
                                    [](const auto& a, const auto& b) { return a.second.nanos < b.second.nanos; }));
    }
  }
  for (const auto& run : Running()) run->EndIfEnded();
  if (!which.tell_members) return;
  // Members may wait for this task, or for the leader of the group, although no step of this task runs.
  buffers_.AbortGroup(which.group_key, status);
  groups_.EndGroup(which.group_key, status);
}

std::optional<TaskCollectives::Ended> TaskCollectives::FindEnded(const GraphCollectives& graph, int32_t group_key,
                                                                 int32_t instance_key) const {
  MutexLock lock(&mutex_);
  for (const auto& [keys, ended] : ended_) {
    const auto& [group, first, last] = keys;
    if (group == group_key && instance_key >= first && instance_key <= last && graph.begun_nanos <= ended.nanos) {
      return ended;
    }
  }
  return std::nullopt;
}

void TaskCollectives::StartWatch() {
  MutexLock lock(&mutex_);
  if (thread_ == nullptr && !closing_) thread_ = std::make_unique<Thread>("collectives", [this] { Watch(); });
}

void TaskCollectives::Watch() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      changed_.WaitWithTimeout(&mutex_, kWatchEvery);
      if (closing_) return;
    }
    AskPeers();
    direct_.Purge();
    Report(absl::Now());
  }
}

// The receiver of a value calls the sender. The sender learns of the receiver's death only by asking.
void TaskCollectives::AskPeers() {
  const absl::Time old = absl::Now() - kWatchEvery;
  // Runs, and the sessions that own their workers, may end in the meantime.
  struct Question {
    std::string task;
    std::shared_ptr<Workers> workers;
  };
  std::map<Worker*, Question> ask;
  for (const auto& run : Running()) {
    if (run->since() > old) continue;
    run->AskForFailures();
    for (const CollectiveGroup::Member& member : run->WaitsFor()) {
      Worker* const worker = member.task == run->task() ? nullptr : run->FindWorker(member.task);
      if (worker != nullptr) ask.emplace(worker, Question{member.task, run->workers()});
    }
  }
  for (const auto& [worker, question] : ask) {
    {
      MutexLock lock(&mutex_);
      if (closing_ || !asked_.insert(worker).second) continue;
    }
    auto response = std::make_shared<tensorflow::GetStatusResponse>();
    worker->GetStatus({.timeout = peer_timeout(), .cancellation = &closed_, .apart = true}, response.get(),
                      [this, response, worker = worker, question = question](const absl::Status& status) {
                        Answered(question.task, worker, status, *response);
                      });
  }
}

void TaskCollectives::Answered(const std::string& task, Worker* worker, const absl::Status& status,
                               const tensorflow::GetStatusResponse& response) {
  for (const auto& run : Running()) {
    for (const CollectiveGroup::Member& member : run->WaitsFor()) {
      if (member.task != task || run->FindWorker(task) != worker) continue;
      const auto& devices = response.device_attributes();
      if (absl::IsUnavailable(status)) {
        run->Abort(status);
      } else if (absl::IsDeadlineExceeded(status)) {
        run->Abort(Unavailable("Task ", task, " has not answered for ", absl::FormatDuration(peer_timeout()),
                               ": it hangs, or is cut off"));
      } else if (status.ok() && std::none_of(devices.begin(), devices.end(), [&](const auto& device) {
                   return device.incarnation() == member.incarnation;
                 })) {
        run->Abort(Aborted("Task ", task, " has restarted: its device ", member.device, " is another one now"));
      }
    }
  }
  MutexLock lock(&mutex_);
  asked_.erase(worker);
  if (closing_) changed_.SignalAll();
}

// Logs which members a run waits for after 10 s, and again each time the wait has doubled.
void TaskCollectives::Report(absl::Time now) {
  absl::flat_hash_map<Run*, absl::Duration> seen;
  for (const auto& run : Running()) {
    const absl::Duration age = now - run->since();
    if (age < kLogWaitAfter) continue;
    absl::Duration& last = seen[run.get()];
    if (const auto it = reported_.find(run.get()); it != reported_.end()) last = it->second;
    if (age < 2 * last) continue;
    last = age;
    LOG(INFO) << options_.task << ": " << run->Describe();
  }
  reported_ = std::move(seen);
  if (now - leader_reported_ < kLogWaitAfter) return;
  leader_reported_ = now;
  for (const std::string& text : groups_.DescribeWaits(now - kLogWaitAfter)) LOG(INFO) << options_.task << ": " << text;
}

}  // namespace thalweg
