#include "thalweg/cluster/step_rendezvous.h"

#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"

namespace thalweg {
namespace {

// "/job:ps/replica:0/task:1" of a key, which begins with the source device.
absl::string_view SourceTask(absl::string_view key) {
  const absl::string_view device = key.substr(0, key.find(';'));
  const size_t end = device.rfind("/device:");
  return end == absl::string_view::npos ? device : device.substr(0, end);
}

}  // namespace

void StepRendezvous::SetCluster(std::string task, std::shared_ptr<Workers> workers) {
  task_ = std::move(task);
  workers_ = std::move(workers);
}

void StepRendezvous::RecvAsync(const std::string& key, RecvDone done) {
  const absl::string_view source = SourceTask(key);
  if (source == task_) return local_.RecvAsync(key, std::move(done));
  Worker* worker = workers_ == nullptr ? nullptr : workers_->Find(source);
  if (worker == nullptr) return done(Internal("No worker known as ", source, " for the tensor ", key), {});

  struct Fetch {
    std::shared_ptr<StepRendezvous> step;
    tensorflow::RecvTensorRequest request;
    Value value;
    RecvDone done;
  };
  auto fetch = std::make_unique<Fetch>();
  fetch->step = shared_from_this();
  fetch->request.set_step_id(step_id_);
  fetch->request.set_rendezvous_key(key);
  fetch->request.set_dma_ok(true);
  fetch->request.set_request_id(NewRequestId());
  fetch->done = std::move(done);
  Fetch& f = *fetch;
  worker->RecvTensor(
      {.cancellation = &fetches_}, f.request, &f.value,
      [fetch = std::move(fetch)](const absl::Status& status) mutable { fetch->done(status, std::move(fetch->value)); });
}

void StepRendezvous::Abort(const absl::Status& status) {
  const auto self = shared_from_this();  // the last holder may be one of those that end now
  fetches_.Cancel(status);
  local_.Abort(status);
}

std::shared_ptr<StepRendezvous> StepTable::FindOrCreate(int64_t step_id) {
  MutexLock lock(&mutex_);
  std::shared_ptr<StepRendezvous>& step = steps_[step_id];
  if (step == nullptr) step = std::make_shared<StepRendezvous>(step_id);
  return step;
}

void StepTable::Remove(int64_t step_id, const absl::Status& why) {
  std::shared_ptr<StepRendezvous> removed;
  {
    MutexLock lock(&mutex_);
    const auto it = steps_.find(step_id);
    if (it == steps_.end()) return;
    removed = std::move(it->second);
    steps_.erase(it);
  }
  removed->Abort(why);
}

void StepTable::AbortAll(const absl::Status& why) {
  absl::flat_hash_map<int64_t, std::shared_ptr<StepRendezvous>> all;
  {
    MutexLock lock(&mutex_);
    all.swap(steps_);
  }
  for (const auto& [id, step] : all) step->Abort(why);
}

}  // namespace thalweg
