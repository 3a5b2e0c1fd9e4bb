// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/step_rendezvous.h"

#include <utility>

#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/kernel/evaluate.h"

namespace thalweg {
namespace {

// Tensors of one batch that are more than this together do not wait for others.
constexpr int64_t kFlushBytes = 64 << 10;
// Tensors are not held back for longer than this.
constexpr int64_t kFlushNanos = 50'000;
// Tensors in the response of a call are parsed with the whole message, so large ones are
// sent in a message of their own.
constexpr int64_t kMaxHeldBytes = 64 << 10;

absl::string_view TaskOf(absl::string_view device) { return device.substr(0, device.rfind("/device:")); }

// "/job:ps/replica:0/task:1" of a key "source;incarnation;destination;edge;...".
absl::string_view SourceTask(absl::string_view key) { return TaskOf(key.substr(0, key.find(';'))); }

absl::string_view DestinationTask(absl::string_view key) {
  for (int i = 0; i < 2; ++i) {
    const size_t end = key.find(';');
    if (end == absl::string_view::npos) return "";
    key.remove_prefix(end + 1);
  }
  return TaskOf(key.substr(0, key.find(';')));
}

int64_t Bytes(const Rendezvous::Value& value) { return value.tensor.has_value() ? value.tensor.TotalBytes() : 0; }

}  // namespace

void StepRendezvous::SetCluster(std::string task, std::shared_ptr<Workers> workers,
                                std::shared_ptr<const TransferRules> rules, std::string hold_for) {
  MutexLock lock(&mutex_);  // a peer may be pushing already
  CHECK(task_.empty()) << "a rendezvous belongs to one step";
  task_ = std::move(task);
  workers_ = std::move(workers);
  rules_ = std::move(rules);
  hold_for_ = std::move(hold_for);
}

bool StepRendezvous::Pushes(absl::string_view task) const {
  return rules_ != nullptr && task != task_ && rules_->push_tasks.contains(task) && rules_->push_tasks.contains(task_);
}

absl::Status StepRendezvous::Send(const std::string& key, Value value) {
  const absl::string_view destination = DestinationTask(key);
  if (!Pushes(destination)) return local_.Send(key, std::move(value));
  if (calls_.cancelled()) return calls_.status();
  std::vector<Transfer> now;
  {
    MutexLock lock(&mutex_);
    auto it = outgoing_.find(destination);
    if (it == outgoing_.end()) it = outgoing_.emplace(std::string(destination), Outgoing()).first;
    Outgoing& outgoing = it->second;
    if (outgoing.tensors.empty()) outgoing.since_nanos = NowNanos();
    outgoing.bytes += Bytes(value);
    outgoing.tensors.push_back({key, std::move(value)});
    if (destination == hold_for_) return absl::OkStatus();
    if (batches_ > 0 && outgoing.bytes < kFlushBytes && NowNanos() - outgoing.since_nanos < kFlushNanos) {
      return absl::OkStatus();
    }
    now = std::exchange(outgoing, {}).tensors;
    ++pushes_;
  }
  Push(std::string(destination), std::move(now));
  return absl::OkStatus();
}

absl::Status StepRendezvous::SendVariable(const std::string& key, std::shared_ptr<const Variable> variable) {
  Value value;
  RETURN_IF_ERROR(ReadVariable(*variable, &value.tensor));
  if (!Pushes(DestinationTask(key))) {
    MutexLock lock(&mutex_);
    variables_[key] = std::move(variable);
  }
  return Send(key, std::move(value));
}

// If a variable was sent, reads its current value for this request.
void StepRendezvous::RecvLocalAsync(const std::string& key, RecvDone done) {
  local_.RecvAsync(key,
                   [self = shared_from_this(), key, done = std::move(done)](absl::Status status, Value value) mutable {
                     std::shared_ptr<const Variable> variable;
                     {
                       MutexLock lock(&self->mutex_);
                       const auto it = self->variables_.find(key);
                       if (it != self->variables_.end()) variable = std::move(it->second);
                     }
                     if (status.ok() && variable != nullptr) status = ReadVariable(*variable, &value.tensor);
                     done(status, std::move(value));
                   });
}

void StepRendezvous::Push(const std::string& task, std::vector<Transfer> tensors) {
  Worker* worker = workers_ == nullptr ? nullptr : workers_->Find(task);
  if (worker == nullptr) return PushEnded(Internal("No worker known as ", task));
  if (const absl::Status fault = FailPoint("transfer.push", task_); !fault.ok()) return PushEnded(fault);
  worker->Push({.cancellation = &calls_}, step_id_, std::move(tensors),
               [self = shared_from_this(), watch = Watch(task, worker)](const absl::Status& status) {
                 self->Unwatch(watch);
                 self->PushEnded(!status.ok() && self->calls_.cancelled() ? self->calls_.status() : status);
               });
}

std::optional<int64_t> StepRendezvous::Watch(const std::string& task, Worker* worker) {
  if (health_ == nullptr) return std::nullopt;
  const std::vector<Peer> peers = {{task, worker, workers_}};
  return health_->Watch(std::make_shared<const std::vector<Peer>>(peers),
                        std::shared_ptr<Cancellation>(shared_from_this(), &calls_));
}

void StepRendezvous::Unwatch(std::optional<int64_t> watch) {
  if (watch.has_value()) health_->Unwatch(*watch);
}

void StepRendezvous::PushEnded(const absl::Status& status) {
  if (!status.ok()) Abort(status);  // the task will not get what it waits for: neither may this one
  Worker::Done done;
  absl::Status first;
  {
    MutexLock lock(&mutex_);
    push_status_.Update(status);
    if (--pushes_ > 0 || !pushed_) return;
    done = std::exchange(pushed_, nullptr);
    first = push_status_;
  }
  done(first);
}

void StepRendezvous::Flush() {
  std::vector<std::pair<std::string, std::vector<Transfer>>> now;
  {
    MutexLock lock(&mutex_);
    for (auto& [task, outgoing] : outgoing_) {
      if (outgoing.tensors.empty() || task == hold_for_) continue;
      now.emplace_back(task, std::exchange(outgoing, {}).tensors);
      ++pushes_;
    }
  }
  for (auto& [task, tensors] : now) Push(task, std::move(tensors));
}

std::vector<Transfer> StepRendezvous::TakeHeld() {
  MutexLock lock(&mutex_);
  const auto it = outgoing_.find(hold_for_);
  if (hold_for_.empty() || it == outgoing_.end()) return {};
  if (it->second.bytes <= kMaxHeldBytes) return std::exchange(it->second, {}).tensors;
  hold_for_.clear();  // the next Flush() takes them
  return {};
}

void StepRendezvous::FinishPushes(Worker::Done done) {
  Flush();
  absl::Status first;
  {
    MutexLock lock(&mutex_);
    if (pushes_ > 0) {
      pushed_ = std::move(done);
      return;
    }
    first = push_status_;
  }
  done(first);
}

StepRendezvous::Batch::Batch(std::shared_ptr<StepRendezvous> step) : step_(std::move(step)) {
  if (step_ == nullptr) return;
  MutexLock lock(&step_->mutex_);
  ++step_->batches_;
}

StepRendezvous::Batch::~Batch() {
  if (step_ == nullptr) return;
  {
    MutexLock lock(&step_->mutex_);
    --step_->batches_;
  }
  step_->Flush();
}

absl::Status StepRendezvous::Deliver(std::vector<Transfer> tensors) {
  const Batch batch(shared_from_this());
  for (Transfer& t : tensors) RETURN_IF_ERROR(local_.Send(t.key, std::move(t.value)));
  return absl::OkStatus();
}

void StepRendezvous::RecvAsync(const std::string& key, RecvDone done) {
  const absl::string_view source = SourceTask(key);
  if (source == task_ || Pushes(source)) return local_.RecvAsync(key, std::move(done));
  Worker* worker = workers_ == nullptr ? nullptr : workers_->Find(source);
  if (worker == nullptr) return done(Internal("No worker known as ", source, " for the tensor ", key), {});

  struct Fetch {
    std::shared_ptr<StepRendezvous> step;
    tensorflow::RecvTensorRequest request;
    Value value;
    RecvDone done;
    std::optional<int64_t> watch;
  };
  auto fetch = std::make_unique<Fetch>();
  fetch->step = shared_from_this();
  fetch->request.set_step_id(step_id_);
  fetch->request.set_rendezvous_key(key);
  fetch->request.set_dma_ok(true);
  fetch->request.set_request_id(NewRequestId());
  fetch->done = std::move(done);
  fetch->watch = Watch(std::string(source), worker);
  Fetch& f = *fetch;
  worker->RecvTensor({.cancellation = &calls_}, f.request, &f.value,
                     [fetch = std::move(fetch)](const absl::Status& status) mutable {
                       StepRendezvous& step = *fetch->step;
                       step.Unwatch(fetch->watch);
                       const Batch batch(fetch->step);
                       const bool cancelled = !status.ok() && step.calls_.cancelled();
                       fetch->done(cancelled ? step.calls_.status() : status, std::move(fetch->value));
                     });
}

void StepRendezvous::Abort(const absl::Status& status) {
  const auto self = shared_from_this();  // a callback that ends now may hold the last reference
  calls_.Cancel(status);
  local_.Abort(status);
}

}  // namespace thalweg
