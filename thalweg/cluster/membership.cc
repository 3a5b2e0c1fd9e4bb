#include "thalweg/cluster/membership.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// How long a task that was seen before may take to answer.
constexpr absl::Duration kSeenTimeout = absl::Seconds(5);
// That a task is away is logged at most so often.
constexpr absl::Duration kTellEvery = absl::Seconds(10);

bool MatchesAny(const std::vector<DeviceName>& filters, const std::string& task) {
  if (filters.empty()) return true;
  const absl::StatusOr<DeviceName> name = DeviceName::Parse(task);
  if (!name.ok()) return false;
  return std::any_of(filters.begin(), filters.end(), [&](const DeviceName& filter) {
    return (!filter.job || filter.job == name->job) && (!filter.task || filter.task == name->task);
  });
}

// Devices as this session calls them: a session with a cluster of its own may
// know the task by another name.
void RenameDevices(const std::string& task, tensorflow::GetStatusResponse& response) {
  const absl::StatusOr<DeviceName> to = DeviceName::Parse(task);
  for (tensorflow::DeviceAttributes& device : *response.mutable_device_attributes()) {
    absl::StatusOr<DeviceName> name = DeviceName::Parse(device.name());
    if (name.ok() && to.ok()) device.set_name(name->MergedWith(*to).ToString());
  }
}

struct Inquiry {
  std::string task;
  tensorflow::GetStatusResponse response;
  absl::Status status;
  bool answered = false;
  absl::Time give_up = absl::InfiniteFuture();  // set once it is known to have been there
  Cancellation cancellation;
};

// Shared with the calls, which may end after the wait was given up.
struct Inquiries {
  Mutex mutex;
  CondVar changed;
  std::vector<std::unique_ptr<Inquiry>> all;  // the list is constant; what they hold is guarded
  int left ABSL_GUARDED_BY(mutex) = 0;

  void CancelAll(const absl::Status& why) {
    for (const auto& inquiry : all) inquiry->cancellation.Cancel(why);
  }
  // Another task has seen those: they start soon, or have left.
  void Hear(const tensorflow::ThalwegStatus& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    for (const auto& inquiry : all) {
      const auto& seen = status.seen_task();
      if (inquiry->answered || inquiry->give_up != absl::InfiniteFuture()) continue;
      if (std::find(seen.begin(), seen.end(), inquiry->task) != seen.end())
        inquiry->give_up = absl::Now() + kSeenTimeout;
    }
  }
  absl::Time NextGiveUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    absl::Time next = absl::InfiniteFuture();
    for (const auto& inquiry : all) {
      if (!inquiry->answered) next = std::min(next, inquiry->give_up);
    }
    return next;
  }
};

void Ask(const std::shared_ptr<Inquiries>& inquiries, Inquiry* inquiry, Worker* worker, const CallOptions& options) {
  worker->GetStatus(options, &inquiry->response, [inquiries, inquiry](const absl::Status& status) {
    MutexLock lock(&inquiries->mutex);
    inquiry->status = status;
    inquiry->answered = true;
    --inquiries->left;
    if (status.ok()) inquiries->Hear(inquiry->response.thalweg());
    inquiries->changed.SignalAll();
  });
}

// What a task that has answered has seen since.
void AskAgain(const std::shared_ptr<Inquiries>& inquiries, Worker* worker) {
  auto response = std::make_shared<tensorflow::GetStatusResponse>();
  worker->GetStatus({.timeout = kSeenTimeout}, response.get(), [inquiries, response](const absl::Status& status) {
    if (!status.ok()) return;
    MutexLock lock(&inquiries->mutex);
    inquiries->Hear(response->thalweg());
    inquiries->changed.SignalAll();
  });
}

}  // namespace

uint64_t ClusterDevices::Incarnation(const std::string& device) const {
  for (const Task& task : tasks) {
    for (const tensorflow::DeviceAttributes& attributes : task.devices) {
      if (attributes.name() == device) return attributes.incarnation();
    }
  }
  return 0;
}

void Membership::MarkSeen(const std::string& task) {
  MutexLock lock(&mutex_);
  seen_.insert(task);
}

std::vector<std::string> Membership::SeenTasks() const {
  MutexLock lock(&mutex_);
  return {seen_.begin(), seen_.end()};
}

bool Membership::Seen(const std::string& task) const {
  MutexLock lock(&mutex_);
  return seen_.contains(task);
}

absl::StatusOr<ClusterDevices> Membership::Discover(const CallOptions& options, Workers& workers,
                                                    const std::string& self, const std::vector<DeviceName>& filters) {
  const auto inquiries = std::make_shared<Inquiries>();
  for (const std::string& task : workers.tasks()) {
    if (task != self && !MatchesAny(filters, task)) continue;
    inquiries->all.push_back(std::make_unique<Inquiry>());
    inquiries->all.back()->task = task;
  }
  {
    MutexLock lock(&inquiries->mutex);
    inquiries->left = static_cast<int>(inquiries->all.size());
  }
  std::optional<Cancellation::CallbackId> outside;
  if (options.cancellation != nullptr) {
    outside = options.cancellation->Register([inquiries](const absl::Status& why) { inquiries->CancelAll(why); });
    if (!outside.has_value()) return options.cancellation->status();
  }
  for (const auto& inquiry : inquiries->all) {
    const bool seen = Seen(inquiry->task);
    CallOptions call{.cancellation = &inquiry->cancellation, .wait_for_ready = !seen};
    if (seen) call.timeout = kSeenTimeout;
    Ask(inquiries, inquiry.get(), workers.Find(inquiry->task), call);
  }
  absl::Time report = absl::Now() + absl::Seconds(10);
  std::vector<Inquiry*> given_up;
  std::vector<std::string> answered;
  while (true) {
    {
      MutexLock lock(&inquiries->mutex);
      while (inquiries->left > 0 &&
             !inquiries->changed.WaitWithDeadline(&inquiries->mutex, std::min(report, inquiries->NextGiveUp()))) {
      }
      if (inquiries->left == 0) break;
      given_up.clear();
      answered.clear();
      const absl::Time now = absl::Now();
      for (const auto& inquiry : inquiries->all) {
        if (inquiry->answered) {
          if (inquiry->status.ok() && inquiry->task != self) answered.push_back(inquiry->task);
        } else if (inquiry->give_up <= now) {
          given_up.push_back(inquiry.get());
          inquiry->give_up = absl::InfiniteFuture();
        } else if (report <= now) {
          LOG(INFO) << "CreateSession still waiting for response from worker: " << inquiry->task;
        }
      }
    }
    for (Inquiry* inquiry : given_up) {
      MarkSeen(inquiry->task);
      inquiry->cancellation.Cancel(Unavailable("it does not answer, and other tasks have seen it before"));
    }
    if (report > absl::Now()) continue;
    report = absl::Now() + absl::Seconds(10);
    for (const std::string& task : answered) AskAgain(inquiries, workers.Find(task));
  }
  if (outside.has_value() && !options.cancellation->TryDeregister(*outside)) {
    const absl::Status why = options.cancellation->status();
    if (!absl::IsDeadlineExceeded(why)) return why;
    std::vector<std::string> silent;
    for (const auto& inquiry : inquiries->all) {
      if (!inquiry->status.ok()) silent.push_back(inquiry->task);
    }
    return DeadlineExceeded(why.message(), "; no answer from ", absl::StrJoin(silent, ", "));
  }

  ClusterDevices devices;
  MutexLock lock(&mutex_);
  for (const auto& inquiry : inquiries->all) {
    if (!inquiry->status.ok()) {
      if (!seen_.contains(inquiry->task)) return inquiry->status;
      const absl::Status& why = inquiry->cancellation.cancelled() ? inquiry->cancellation.status() : inquiry->status;
      // A training that waits for the task asks several times a second.
      absl::Time& told = told_left_.try_emplace(inquiry->task, absl::InfinitePast()).first->second;
      if (absl::Now() - told >= kTellEvery) {
        told = absl::Now();
        LOG(WARNING) << inquiry->task << " has left; steps that need it will fail: " << why.message();
      }
      devices.absent.push_back(inquiry->task);
      continue;
    }
    seen_.insert(inquiry->task);
    told_left_.erase(inquiry->task);
    RenameDevices(inquiry->task, inquiry->response);
    devices.tasks.push_back(
        {inquiry->task,
         {inquiry->response.device_attributes().begin(), inquiry->response.device_attributes().end()},
         inquiry->response.thalweg().takes_pushes()});
  }
  // The master's own first: it is the default.
  std::stable_partition(devices.tasks.begin(), devices.tasks.end(),
                        [&](const auto& task) { return task.name == self; });
  return devices;
}

}  // namespace thalweg
