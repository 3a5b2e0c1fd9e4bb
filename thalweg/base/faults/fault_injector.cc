// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/faults/fault_injector.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/faults/network_faults.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using Kind = Fault::Kind;

std::string FullName(const std::string& task) {
  const size_t colon = task.rfind(':');
  if (colon == std::string::npos) return task;
  return absl::StrCat("/job:", task.substr(0, colon), "/replica:0/task:", task.substr(colon + 1));
}

std::string PointOf(const Fault& fault) {
  return fault.kind == Kind::kDiskFull || fault.kind == Kind::kDiskSlow ? "disk.write" : fault.point;
}

absl::Status CheckTasks(const FaultPlan& plan, const FaultInjectorOptions& options) {
  const auto check = [&](const std::string& task, const Fault& fault) {
    if (task.empty() || options.addresses.contains(task)) return absl::OkStatus();
    return InvalidArgument("--faults: \"", fault.ToString(), "\": there is no task ", task, "; there are ",
                           absl::StrJoin(options.addresses, ", ", [](std::string* out, const auto& entry) {
                             absl::StrAppend(out, entry.first);
                           }));
  };
  for (const Fault& fault : plan.faults) {
    RETURN_IF_ERROR(check(fault.task, fault));
    for (const auto& side : fault.sides) {
      for (const std::string& task : side) RETURN_IF_ERROR(check(task, fault));
    }
    if (fault.kind == Kind::kClock) {
      return InvalidArgument("--faults: \"", fault.ToString(), "\": only thalweg run can set the clock of a task");
    }
  }
  return absl::OkStatus();
}

void Strike(const Fault& fault) {
  LOG(WARNING) << "Injected fault: " << fault.ToString();
  if (fault.kind == Kind::kKill) kill(getpid(), SIGKILL);
  if (fault.kind == Kind::kTerminate) kill(getpid(), SIGTERM);
  if (fault.kind == Kind::kStop) StopThisProcess(fault.lasts);
  if (fault.kind == Kind::kHang) absl::SleepFor(fault.lasts);
}

}  // namespace

// A stopped process cannot continue itself, so a grandchild does it. It is a grandchild because init
// then reaps it. After the fork it calls only functions that are safe in signal handlers.
void StopThisProcess(absl::Duration lasts) {
  if (lasts != absl::InfiniteDuration()) {
    const pid_t self = getpid();
    timespec pause = absl::ToTimespec(lasts);
    const pid_t child = fork();
    if (child == 0) {
      if (fork() == 0) {
        while (nanosleep(&pause, &pause) != 0) {
        }
        kill(self, SIGCONT);
      }
      _exit(0);
    }
    if (child < 0) {
      LOG(ERROR) << "The process is not stopped: there is no process that could continue it";
      return;
    }
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  kill(getpid(), SIGSTOP);
}

absl::StatusOr<std::unique_ptr<FaultInjector>> FaultInjector::Start(const FaultPlan& plan,
                                                                    const FaultInjectorOptions& options) {
  RETURN_IF_ERROR(CheckTasks(plan, options));
  return std::unique_ptr<FaultInjector>(new FaultInjector(plan, options));
}

FaultInjector::FaultInjector(const FaultPlan& plan, const FaultInjectorOptions& options)
    : task_(options.task), task_name_(FullName(options.task)), start_nanos_(NowNanos()) {
  bool any_call = false, any_point = false;
  for (const Fault& fault : plan.faults) {
    any_call = any_call || (fault.kind >= Kind::kDrop && fault.kind <= Kind::kPartition);
    if (!fault.task.empty() && fault.task != task_) continue;
    if (fault.is_of_launcher()) {
      timer_.Set(absl::Now() + fault.time, [fault] { Strike(fault); });
    } else if (!PointOf(fault).empty()) {
      any_point = true;
      MutexLock lock(&mutex_);
      armed_.push_back({.fault = fault});
    }
  }
  if (any_call) {
    FaultPlan own = plan;
    own.seed ^= absl::HashOf(task_);  // tasks do not all lose the same calls
    SetNetworkFaults(std::make_shared<NetworkFaults>(own, options.addresses));
  }
  if (any_point) {
    SetFailPointHandler([this](absl::string_view point, absl::string_view task) { return Pass(point, task); });
  }
}

FaultInjector::~FaultInjector() {
  SetFailPointHandler(nullptr);
  SetNetworkFaults(nullptr);
}

bool FaultInjector::Strikes(Armed& armed, int64_t now) {
  const Fault& fault = armed.fault;
  const bool lasts = fault.kind == Kind::kDiskFull || fault.kind == Kind::kDiskSlow;
  if (fault.point.empty()) {  // a disk fault that starts at a time
    const absl::Duration age = absl::Nanoseconds(now - start_nanos_);
    return age >= fault.time && age < fault.time + fault.lasts;
  }
  if (++armed.passed < fault.nth) return false;
  if (!lasts) return armed.passed == fault.nth;
  if (armed.struck_at < 0) armed.struck_at = now;
  return absl::Nanoseconds(now - armed.struck_at) < fault.lasts;
}

absl::Status FaultInjector::Pass(absl::string_view point, absl::string_view task) {
  if (!task.empty() && task != task_name_) return absl::OkStatus();
  std::vector<Fault> strike;
  {
    const int64_t now = NowNanos();
    MutexLock lock(&mutex_);
    for (Armed& armed : armed_) {
      if (point == PointOf(armed.fault) && Strikes(armed, now)) strike.push_back(armed.fault);
    }
  }
  for (const Fault& fault : strike) {
    switch (fault.kind) {
      case Kind::kDiskFull:
        return ResourceExhausted("No space left on device (injected: ", fault.ToString(), ")");
      case Kind::kDiskSlow:
        absl::SleepFor(fault.delay);
        break;
      case Kind::kFail:
        LOG(WARNING) << "Injected fault: " << fault.ToString();
        return Unavailable("Injected fault: ", fault.ToString());
      default:
        Strike(fault);
    }
  }
  return absl::OkStatus();
}

}  // namespace thalweg
