// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/master_step.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/log_format.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"

namespace thalweg {
namespace {

// An error that only says that the step was ended for another one.
bool IsDerived(const absl::Status& status) { return absl::IsCancelled(status); }

constexpr size_t kMaxNamedParts = 64;

}  // namespace

MasterStep::MasterStep(std::shared_ptr<MasterSession> session, MasterStepCall call)
    : session_(std::move(session)),
      call_(std::move(call)),
      callable_(*call_.callable),
      results_(callable_.parts.size()),
      cancellation_(call_.scope->shared_cancellation()) {}

void MasterStep::Start() {
  call_.result->fetches.resize(callable_.signature.fetches.size());
  // Other masters run steps with the same collective step id, possibly in the same tasks.
  // Thalweg tasks distinguish the two ids; TensorFlow's need them to be the same.
  step_id_ = call_.collective_step_id != 0 && !callable_.cleans_up ? call_.collective_step_id : NewStepId();
  if (!callable_.peers->empty()) watch_ = session_->options().health->Watch(callable_.peers, cancellation_);
  start_nanos_ = NowNanos();
  if (TaskMonitor* const monitor = session_->options().monitor; monitor != nullptr) monitor->Add(this);
  const LogStepScope names_step(step_id_, session_->handle());
  const size_t parts = callable_.parts.size();
  left_.store(static_cast<int>(parts), std::memory_order_relaxed);
  const auto self = shared_from_this();  // the last part may end here
  for (size_t i = 0; i < parts; ++i) RunPart(i);
}

void MasterStep::RunPart(size_t i) {
  const ClusterCallable::Part& part = callable_.parts[i];
  RunGraphCall call{.session_handle = session_->handle(),
                    .graph_handle = part.graph_handle,
                    .step_id = step_id_,
                    .collective_step_id = call_.collective_step_id,
                    .request_id = NewRequestId(),
                    .client = call_.run_options.thalweg().client(),
                    .sequence = call_.run_options.thalweg().sequence(),
                    .pause = call_.pause,
                    .trace = call_.run_options.trace_level() > tensorflow::RunOptions::NO_TRACE,
                    .partition_graphs = call_.run_options.output_partition_graphs()};
  call.send.reserve(part.feeds.size());
  int64_t bytes = 0;
  for (const auto& [index, key] : part.feeds) {
    call.send.emplace_back(key, call_.feeds[index]);
    bytes += call_.feeds[index].TotalBytes();
  }
  if (part.task != session_->options().self) {
    call.sent_nanos = NowNanos();
    call.valid_nanos = absl::ToInt64Nanoseconds(ValidFor(bytes));
  }
  call.recv_keys.reserve(part.fetches.size());
  for (const auto& [index, key] : part.fetches) call.recv_keys.push_back(key);
  part.worker->RunGraph({.cancellation = cancellation_.get()}, std::move(call), &results_[i],
                        [self = shared_from_this(), i](const absl::Status& status) { self->PartEnded(i, status); });
}

// How long after its sending a partition may begin. Later, the master may have given it up,
// because it declared the task dead or because the step's deadline has passed. Large feeds
// get more time.
absl::Duration MasterStep::ValidFor(int64_t bytes) const {
  constexpr double kSlowestBytesPerSecond = 10e6;
  const absl::Duration transfer = absl::Seconds(static_cast<double>(bytes) / kSlowestBytesPerSecond);
  const absl::Duration alive = session_->options().health->earliest_death() + transfer;
  const int64_t timeout_ms = call_.run_options.timeout_in_ms();
  return timeout_ms > 0 ? std::min(alive, absl::Milliseconds(timeout_ms)) : alive;
}

void MasterStep::PartEnded(size_t i, const absl::Status& status) {
  if (!status.ok()) {
    bool first = false;
    {
      MutexLock lock(&mutex_);
      if (status_.ok() || (IsDerived(status_) && !IsDerived(status))) {
        first = status_.ok();
        status_ = FromTask(status, callable_.parts[i].task);
      }
    }
    if (first) cancellation_->Cancel(status);
  }
  if (!results_[i].pushed.empty()) {
    // Ignore errors: the partition that needs the tensors reports them.
    session_->options()
        .workers->Find(session_->options().self)
        ->Push({}, step_id_, std::move(results_[i].pushed), [](const absl::Status&) {});
  }
  if (i < kMaxNamedParts) ended_.fetch_or(uint64_t{1} << i, std::memory_order_relaxed);
  if (left_.load(std::memory_order_acquire) > 1) ended_nanos_.store(NowNanos(), std::memory_order_relaxed);
  if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  last_part_ = i;
  absl::Status result;
  {
    MutexLock lock(&mutex_);
    result = status_;
  }
  if (!result.ok() || !callable_.cleans_up) callable_.CleanUp(step_id_);
  // If the step was cancelled from outside (deadline, Close), the client gets that reason.
  if (!result.ok() && IsDerived(result) && !IsDerived(cancellation_->status())) result = cancellation_->status();
  if (result.ok()) {
    Collect();
  } else {
    call_.result->step_failed = true;
  }
  Finish(result);
}

// Numbers that training steps return, such as the loss, are shown with the job's status.
void MasterStep::Note(int fetch, const Tensor& value) {
  if (session_->options().monitor == nullptr || !callable_.trains || !value.has_value() || value.rank() != 0) return;
  const std::string& name = callable_.signature.fetches[static_cast<size_t>(fetch)];
  if (value.dtype() == kFloat) session_->options().monitor->SetScalar(name, value.scalar<float>());
  if (value.dtype() == kDouble) session_->options().monitor->SetScalar(name, value.scalar<double>());
}

void MasterStep::Collect() {
  RunStepResult& result = *call_.result;
  for (size_t i = 0; i < results_.size(); ++i) {
    const ClusterCallable::Part& part = callable_.parts[i];
    RunGraphResult& r = results_[i];
    for (size_t k = 0; k < part.fetches.size() && k < r.recv.size(); ++k) {
      Note(part.fetches[k].first, r.recv[k].second);
      result.fetches[part.fetches[k].first] = std::move(r.recv[k].second);
    }
    if (r.step_stats.dev_stats_size() > 0) result.metadata.mutable_step_stats()->MergeFrom(r.step_stats);
    for (tensorflow::GraphDef& graph : r.partition_graphs) {
      *result.metadata.add_partition_graphs() = std::move(graph);
    }
  }
}

void MasterStep::Describe(RunningStep* description) const {
  const double seconds = static_cast<double>(NowNanos() - start_nanos_) * 1e-9;
  description->set_step_id(static_cast<uint64_t>(step_id_));
  description->set_whole(true);
  description->set_master(ShortTaskName(session_->options().self));
  description->set_seconds(seconds);
  if (callable_.writes_checkpoint) description->set_purpose("checkpoint");
  if (callable_.restores) description->set_purpose("restore");
  const uint64_t ended = ended_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < std::min(callable_.parts.size(), kMaxNamedParts); ++i) {
    const ClusterCallable::Part& part = callable_.parts[i];
    if ((ended >> i & 1) != 0 || part.task == session_->options().self) continue;
    StepWait* const wait = description->add_waits();
    wait->set_kind("part");
    wait->set_on(ShortTaskName(part.task));
    wait->set_seconds(seconds);
  }
}

void MasterStep::Record(const absl::Status& status) {
  TaskMonitor& monitor = *session_->options().monitor;
  monitor.Remove(this);
  const int64_t now = NowNanos();
  StepRecord record{.step_id = step_id_,
                    .whole = true,
                    .trains = callable_.trains,
                    .start_nanos = start_nanos_,
                    .end_nanos = now,
                    .code = status.code()};
  // When only the part of another task was left, the step waited for that task.
  const ClusterCallable::Part& last = callable_.parts[last_part_];
  StepRecord::Wait wait{last.task, now - std::max(ended_nanos_.load(std::memory_order_relaxed), start_nanos_)};
  if (last.task != session_->options().self) record.waits = absl::MakeConstSpan(&wait, 1);
  monitor.AddStep(record);
  if (const int64_t stop = call_.run_options.thalweg().stop_step(); stop > 0) monitor.SetStopStep(stop);
  if (!status.ok()) {
    // A program that polls for something gives its steps a deadline. Only a training step that misses it is a fault.
    const bool expected =
        absl::IsCancelled(status) || absl::IsOutOfRange(status) || (absl::IsDeadlineExceeded(status) && !record.trains);
    if (!expected) monitor.AddFault(absl::IsUnavailable(status) ? "task lost" : "step failed", status.ToString());
    return;
  }
  if (!callable_.writes_checkpoint && !callable_.restores) return;
  for (const Tensor& feed : call_.feeds) {
    if (feed.dtype() != kString || feed.rank() != 0) continue;
    const std::string& path = feed.scalar<std::string>();
    if (callable_.writes_checkpoint) {
      monitor.SetCheckpoint(path, record.start_nanos, now);
    } else {
      monitor.AddEvent("restored", absl::StrCat("the variables, from ", path));
    }
  }
}

void MasterStep::Finish(const absl::Status& status) {
  if (watch_.has_value()) session_->options().health->Unwatch(*watch_);
  if (session_->options().monitor != nullptr) Record(status);
  PassFailPoint("master.answer", session_->options().self);
  Master::Done done = std::move(call_.done);
  call_.scope.reset();
  done(status);
}

}  // namespace thalweg
