// SPDX-License-Identifier: Apache-2.0
// NetworkFaults: what a network does to the calls of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "thalweg/base/faults/fault_plan.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// Draws what happens to each call. Thread-safe.
class NetworkFaults {
 public:
  struct Fate {
    bool lose_request = false;
    bool lose_answer = false;
    bool duplicate = false;
    absl::Duration delay;
  };

  // The faults of `plan` that are about calls. `addresses` has "host:port" of the
  // tasks ("ps:0"); times count from now.
  NetworkFaults(const FaultPlan& plan, const std::map<std::string, std::string>& addresses);

  // The fault of a call from `from` to `to`, which are "host:port". Clients have no address.
  Fate Next(const std::string& from, const std::string& to);
  // For how long nothing passes between the two: zero if all is well, infinite if
  // the partition does not end.
  absl::Duration CutOffFor(const std::string& from, const std::string& to) const;

 private:
  struct Rule {
    Fault fault;
    std::vector<std::string> sides[2];  // addresses
    bool Separates(const std::string& a, const std::string& b) const;
  };
  static bool IsActive(const Fault& fault, absl::Duration now) {
    return now >= fault.time && now < fault.time + fault.lasts;
  }
  absl::Duration Now() const;

  const int64_t start_nanos_;
  std::vector<Rule> rules_;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

// Sets the network of this process; nullptr is one without faults.
void SetNetworkFaults(std::shared_ptr<NetworkFaults> faults);

namespace internal {
extern std::atomic<bool> network_faults_on;
std::shared_ptr<NetworkFaults> CurrentNetworkFaults();
}  // namespace internal

// nullptr, after one relaxed load, if there are none.
inline std::shared_ptr<NetworkFaults> ActiveNetworkFaults() {
  if (!internal::network_faults_on.load(std::memory_order_relaxed)) return nullptr;
  return internal::CurrentNetworkFaults();
}

}  // namespace thalweg
