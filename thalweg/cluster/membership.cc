// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/membership.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// How long a task that was seen before may take to answer.
constexpr absl::Duration kSeenTimeout = absl::Seconds(5);
// How often the log says for which tasks a session waits, and which task has left.
constexpr absl::Duration kReportEvery = absl::Seconds(10);
constexpr absl::Duration kReportAbsentEvery = absl::Minutes(1);

bool MatchesAny(const std::vector<DeviceName>& filters, const std::string& task) {
  if (filters.empty()) return true;
  const absl::StatusOr<DeviceName> name = DeviceName::Parse(task);
  if (!name.ok()) return false;
  return std::any_of(filters.begin(), filters.end(), [&](const DeviceName& filter) {
    return (!filter.job || filter.job == name->job) && (!filter.task || filter.task == name->task);
  });
}

// Renames the devices for this session: in a session with its own cluster definition, the
// task may have another name.
void RenameDevices(const std::string& task, tensorflow::GetStatusResponse& response) {
  const absl::StatusOr<DeviceName> to = DeviceName::Parse(task);
  for (tensorflow::DeviceAttributes& device : *response.mutable_device_attributes()) {
    absl::StatusOr<DeviceName> name = DeviceName::Parse(device.name());
    if (name.ok() && to.ok()) device.set_name(name->MergedWith(*to).ToString());
  }
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
  AddSeen(task);
}

void Membership::AddSeen(const std::string& task) {
  if (task.size() > kMaxSeenBytes) return;
  const auto [it, is_new] = seen_.insert(task);
  if (!is_new) return;
  seen_order_.push_back(it);
  seen_bytes_ += task.size();
  while (seen_bytes_ > kMaxSeenBytes) {
    const auto oldest = seen_order_.front();
    seen_order_.pop_front();
    seen_bytes_ -= oldest->size();
    incarnations_.erase(*oldest);
    logged_absent_.erase(*oldest);
    seen_.erase(oldest);
  }
}

std::vector<std::string> Membership::SeenTasks() const {
  MutexLock lock(&mutex_);
  return {seen_.begin(), seen_.end()};
}

bool Membership::Seen(const std::string& task) const {
  MutexLock lock(&mutex_);
  return seen_.contains(task);
}

void Membership::LogAbsent(const std::string& task, const absl::Status& why) {
  // A session that is tried again and again would fill the log.
  const absl::Time now = absl::Now();
  const auto [it, first] = logged_absent_.try_emplace(task, now);
  if (!first && now - it->second < kReportAbsentEvery) return;
  it->second = now;
  LOG(WARNING) << task << " has left; steps that need it will fail: " << why.message();
}

// One call of Discover(). The calls to the tasks and the alarm keep it alive.
class Membership::Discovery : public std::enable_shared_from_this<Discovery> {
 public:
  Discovery(Membership& membership, const CallOptions& options, Timer& timer, std::shared_ptr<Workers> workers,
            std::string self, DiscoverDone done)
      : membership_(membership),
        outside_(options.cancellation),
        timer_(timer),
        workers_(std::move(workers)),
        self_(std::move(self)),
        done_(std::move(done)),
        report_(absl::Now() + kReportEvery) {}

  void Start(const std::vector<DeviceName>& filters) {
    for (const std::string& task : workers_->tasks()) {
      if (task != self_ && !MatchesAny(filters, task)) continue;
      all_.push_back(std::make_unique<Inquiry>());
      all_.back()->task = task;
    }
    {
      MutexLock lock(&mutex_);
      left_ = static_cast<int>(all_.size()) + 1;  // the extra 1 keeps it from ending before all tasks are asked
    }
    if (outside_ != nullptr) {
      outside_id_ = outside_->Register([self = shared_from_this()](const absl::Status& why) { self->CancelAll(why); });
      if (!outside_id_.has_value()) return Finish(outside_->status());
    }
    for (const auto& inquiry : all_) Ask(*inquiry);
    SetAlarm();
    CountDown();
  }

 private:
  struct Inquiry {
    std::string task;
    tensorflow::GetStatusResponse response;
    absl::Status status;
    bool answered = false;
    absl::Time give_up = absl::InfiniteFuture();  // set once it is known to have been there
    Cancellation cancellation;
  };

  void CancelAll(const absl::Status& why) {
    for (const auto& inquiry : all_) inquiry->cancellation.Cancel(why);
  }

  void Ask(Inquiry& inquiry) {
    const bool seen = membership_.Seen(inquiry.task);
    CallOptions call{.cancellation = &inquiry.cancellation, .wait_for_ready = !seen};
    if (seen) call.timeout = kSeenTimeout;
    workers_->Find(inquiry.task)
        ->GetStatus(call, &inquiry.response, [self = shared_from_this(), &inquiry](const absl::Status& status) {
          bool news = false;
          {
            MutexLock lock(&self->mutex_);
            inquiry.status = status;
            inquiry.answered = true;
            if (status.ok()) news = self->Hear(inquiry.response.thalweg());
          }
          if (news) self->SetAlarm();
          self->CountDown();
        });
  }

  // Asks a task that has answered which tasks it has seen since.
  void AskAgain(const std::string& task) {
    auto response = std::make_shared<tensorflow::GetStatusResponse>();
    workers_->Find(task)->GetStatus({.timeout = kSeenTimeout}, response.get(),
                                    [self = shared_from_this(), response](const absl::Status& status) {
                                      if (!status.ok()) return;
                                      bool news = false;
                                      {
                                        MutexLock lock(&self->mutex_);
                                        news = self->Hear(response->thalweg());
                                      }
                                      if (news) self->SetAlarm();
                                    });
  }

  // Records the tasks that another task has seen: they are starting, or have left.
  bool Hear(const tensorflow::ThalwegStatus& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::set<absl::string_view> seen(status.seen_task().begin(), status.seen_task().end());
    bool news = false;
    for (const auto& inquiry : all_) {
      if (inquiry->answered || inquiry->give_up != absl::InfiniteFuture() || !seen.contains(inquiry->task)) continue;
      inquiry->give_up = absl::Now() + kSeenTimeout;
      news = true;
    }
    return news;
  }

  // Sets an alarm for the next time to log, or to stop waiting for a task. Spurious alarms are
  // harmless.
  void SetAlarm() {
    std::optional<Timer::AlarmId> old;
    {
      MutexLock lock(&mutex_);
      if (left_ == 0) return;
      absl::Time next = report_;
      for (const auto& inquiry : all_) {
        if (!inquiry->answered) next = std::min(next, inquiry->give_up);
      }
      old = std::exchange(alarm_, timer_.Set(next, [self = shared_from_this()] { self->Alarm(); }));
    }
    if (old.has_value()) timer_.Unset(*old);
  }

  void Alarm() {
    std::vector<Inquiry*> given_up;
    std::vector<std::string> answered;
    {
      MutexLock lock(&mutex_);
      const absl::Time now = absl::Now();
      const bool report = report_ <= now;
      if (report) report_ = now + kReportEvery;
      for (const auto& inquiry : all_) {
        if (inquiry->answered) {
          if (report && inquiry->status.ok() && inquiry->task != self_) answered.push_back(inquiry->task);
        } else if (inquiry->give_up <= now) {
          given_up.push_back(inquiry.get());
          inquiry->give_up = absl::InfiniteFuture();
        } else if (report) {
          LOG(INFO) << "CreateSession still waiting for response from worker: " << inquiry->task;
        }
      }
    }
    for (Inquiry* inquiry : given_up) {
      membership_.MarkSeen(inquiry->task);
      inquiry->cancellation.Cancel(Unavailable("it does not answer, and other tasks have seen it before"));
    }
    for (const std::string& task : answered) AskAgain(task);
    SetAlarm();
  }

  void CountDown() {
    std::optional<Timer::AlarmId> alarm;
    {
      MutexLock lock(&mutex_);
      if (--left_ > 0) return;
      alarm = std::exchange(alarm_, std::nullopt);
    }
    if (alarm.has_value()) timer_.Unset(*alarm);
    if (outside_id_.has_value() && !outside_->TryDeregister(*outside_id_)) return Finish(Explain(outside_->status()));
    Finish(membership_.Devices(*this));
  }

  // Why the session was given up.
  absl::Status Explain(const absl::Status& why) const {
    if (!absl::IsDeadlineExceeded(why)) return why;
    std::vector<std::string> silent;
    for (const auto& inquiry : all_) {
      if (!inquiry->status.ok()) silent.push_back(inquiry->task);
    }
    return DeadlineExceeded(why.message(), "; no answer from ", absl::StrJoin(silent, ", "));
  }

  void Finish(absl::StatusOr<ClusterDevices> devices) {
    DiscoverDone done = std::move(done_);
    done(std::move(devices));
  }

  friend class Membership;
  Membership& membership_;
  Cancellation* const outside_;
  Timer& timer_;
  const std::shared_ptr<Workers> workers_;
  const std::string self_;
  DiscoverDone done_;
  std::optional<Cancellation::CallbackId> outside_id_;
  std::vector<std::unique_ptr<Inquiry>> all_;  // the list is constant; what they hold is guarded until all answered

  Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time report_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timer::AlarmId> alarm_ ABSL_GUARDED_BY(mutex_);
};

void Membership::Discover(const CallOptions& options, Timer& timer, std::shared_ptr<Workers> workers,
                          const std::string& self, const std::vector<DeviceName>& filters, DiscoverDone done) {
  std::make_shared<Discovery>(*this, options, timer, std::move(workers), self, std::move(done))->Start(filters);
}

absl::StatusOr<ClusterDevices> Membership::Devices(const Discovery& discovery) {
  ClusterDevices devices;
  MutexLock lock(&mutex_);
  for (const auto& inquiry : discovery.all_) {
    if (!inquiry->status.ok()) {
      if (!seen_.contains(inquiry->task)) return inquiry->status;
      LogAbsent(inquiry->task, inquiry->cancellation.cancelled() ? inquiry->cancellation.status() : inquiry->status);
      devices.absent.push_back(inquiry->task);
      continue;
    }
    AddSeen(inquiry->task);
    logged_absent_.erase(inquiry->task);
    RenameDevices(inquiry->task, inquiry->response);
    if (inquiry->response.device_attributes_size() > 0) {
      const uint64_t incarnation = inquiry->response.device_attributes(0).incarnation();
      const auto [known, first] = incarnations_.try_emplace(inquiry->task, incarnation);
      if (!first && std::exchange(known->second, incarnation) != incarnation) {
        devices.restarted.push_back(inquiry->task);
      }
    }
    devices.tasks.push_back(
        {inquiry->task,
         {inquiry->response.device_attributes().begin(), inquiry->response.device_attributes().end()},
         inquiry->response.thalweg().takes_pushes()});
  }
  // The master's own first: it is the default.
  std::stable_partition(devices.tasks.begin(), devices.tasks.end(),
                        [&](const auto& task) { return task.name == discovery.self_; });
  return devices;
}

}  // namespace thalweg
