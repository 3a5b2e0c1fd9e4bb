// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/resolve.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr int kMaxLookups = 64;  // that nobody or somebody waits for
constexpr absl::Duration kLookupTurn = absl::Milliseconds(20);

struct LookupResult {
  Mutex mutex;
  CondVar changed;
  bool done ABSL_GUARDED_BY(mutex) = false;
  int error ABSL_GUARDED_BY(mutex) = 0;
  HostAddresses list ABSL_GUARDED_BY(mutex);
};

std::atomic<int> lookups_under_way{0};

}  // namespace

absl::StatusOr<HostAddresses> ResolveHost(const std::string& host, int port, int flags, absl::Time deadline,
                                          const std::function<bool()>& cancelled, const HostLookup& lookup) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV | AI_NUMERICHOST;
  const std::string service = std::to_string(port);
  addrinfo* numeric = nullptr;  // needs no name server
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &numeric) == 0) {
    return HostAddresses(numeric);
  }
  hints.ai_flags = flags | AI_NUMERICSERV;
  if (lookups_under_way.fetch_add(1) >= kMaxLookups) {
    lookups_under_way.fetch_sub(1);
    return ResourceExhausted("Cannot look up ", host, ": ", kMaxLookups, " other lookups have no answer yet");
  }
  const auto result = std::make_shared<LookupResult>();
  const absl::Status started = CatchExceptions([&] {
    std::thread([result, host, service, hints, lookup] {
      addrinfo* list = nullptr;
      const int error = lookup(host.c_str(), service.c_str(), &hints, &list);
      lookups_under_way.fetch_sub(1);
      MutexLock lock(&result->mutex);
      if (error == 0) result->list = HostAddresses(list);
      result->error = error;
      result->done = true;
      result->changed.SignalAll();
    }).detach();
  });
  if (!started.ok()) {
    lookups_under_way.fetch_sub(1);
    return ResourceExhausted("Cannot look up ", host, ": ", started.message());
  }
  for (;;) {
    const absl::Duration left = deadline - absl::Now();
    {
      MutexLock lock(&result->mutex);
      if (!result->done && left > absl::ZeroDuration()) {
        result->changed.WaitWithTimeout(&result->mutex, std::min(left, kLookupTurn));
      }
      if (result->done) {
        if (result->error != 0) return Unavailable("Cannot resolve ", host, ": ", gai_strerror(result->error));
        return std::move(result->list);
      }
    }
    if (cancelled()) return Cancelled("The lookup of ", host, " was cancelled");
    if (left <= absl::ZeroDuration()) return DeadlineExceeded("No name server has given the address of ", host);
  }
}

}  // namespace thalweg
