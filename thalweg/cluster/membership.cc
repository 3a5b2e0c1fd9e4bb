#include "thalweg/cluster/membership.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// How long a task that was seen before may take to answer.
constexpr absl::Duration kSeenTimeout = absl::Seconds(5);

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
};

// Shared with the calls, which may end after the wait was given up.
struct Inquiries {
  Mutex mutex;
  CondVar changed;
  std::vector<std::unique_ptr<Inquiry>> all;  // the list is constant; what they hold is guarded
  int left ABSL_GUARDED_BY(mutex) = 0;
  Cancellation cancellation;
};

}  // namespace

uint64_t ClusterDevices::Incarnation(const std::string& device) const {
  for (const Task& task : tasks) {
    for (const tensorflow::DeviceAttributes& attributes : task.devices) {
      if (attributes.name() == device) return attributes.incarnation();
    }
  }
  return 0;
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
    outside =
        options.cancellation->Register([inquiries](const absl::Status& why) { inquiries->cancellation.Cancel(why); });
    if (!outside.has_value()) return options.cancellation->status();
  }
  for (const auto& inquiry : inquiries->all) {
    bool seen = false;
    {
      MutexLock lock(&mutex_);
      seen = seen_.contains(inquiry->task);
    }
    CallOptions call{.cancellation = &inquiries->cancellation, .wait_for_ready = !seen};
    if (seen) call.timeout = kSeenTimeout;
    workers.Find(inquiry->task)
        ->GetStatus(call, &inquiry->response, [inquiries, i = inquiry.get()](const absl::Status& status) {
          MutexLock lock(&inquiries->mutex);
          i->status = status;
          i->answered = true;
          --inquiries->left;
          inquiries->changed.SignalAll();
        });
  }
  {
    MutexLock lock(&inquiries->mutex);
    absl::Time report = absl::Now() + absl::Seconds(10);
    while (inquiries->left > 0) {
      if (!inquiries->changed.WaitWithDeadline(&inquiries->mutex, report)) continue;
      report = absl::Now() + absl::Seconds(10);
      for (const auto& inquiry : inquiries->all) {
        if (!inquiry->answered) LOG(INFO) << "CreateSession still waiting for response from worker: " << inquiry->task;
      }
    }
  }
  if (outside.has_value() && !options.cancellation->TryDeregister(*outside)) return options.cancellation->status();

  ClusterDevices devices;
  MutexLock lock(&mutex_);
  for (const auto& inquiry : inquiries->all) {
    if (!inquiry->status.ok()) {
      if (!seen_.contains(inquiry->task)) return inquiry->status;
      LOG(WARNING) << inquiry->task << " has left; steps that need it will fail: " << inquiry->status.message();
      devices.absent.push_back(inquiry->task);
      continue;
    }
    seen_.insert(inquiry->task);
    RenameDevices(inquiry->task, inquiry->response);
    devices.tasks.push_back(
        {inquiry->task, {inquiry->response.device_attributes().begin(), inquiry->response.device_attributes().end()}});
  }
  // The master's own first: it is the default.
  std::stable_partition(devices.tasks.begin(), devices.tasks.end(),
                        [&](const auto& task) { return task.name == self; });
  return devices;
}

}  // namespace thalweg
