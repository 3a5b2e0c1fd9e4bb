// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

namespace thalweg {

Thread::Thread(const std::string& name, absl::AnyInvocable<void()> body)
    : thread_([name = name.substr(0, 15), body = std::move(body)]() mutable {
        pthread_setname_np(pthread_self(), name.c_str());
        body();
      }) {}

int AvailableCores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace thalweg
