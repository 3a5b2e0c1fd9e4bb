// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/faults/network_faults.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/clock.h"

namespace thalweg {
namespace {

using Kind = Fault::Kind;

Mutex network_mutex;
std::shared_ptr<NetworkFaults> current_network ABSL_GUARDED_BY(network_mutex);

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

namespace internal {

std::atomic<bool> network_faults_on{false};

std::shared_ptr<NetworkFaults> CurrentNetworkFaults() {
  MutexLock lock(&network_mutex);
  return current_network;
}

}  // namespace internal

void SetNetworkFaults(std::shared_ptr<NetworkFaults> faults) {
  MutexLock lock(&network_mutex);
  internal::network_faults_on.store(faults != nullptr, std::memory_order_relaxed);
  current_network.swap(faults);
}

NetworkFaults::NetworkFaults(const FaultPlan& plan, const std::map<std::string, std::string>& addresses)
    : start_nanos_(NowNanos()), random_(plan.seed) {
  for (const Fault& fault : plan.faults) {
    if (fault.kind < Kind::kDrop || fault.kind > Kind::kPartition) continue;
    Rule rule{.fault = fault};
    for (int side = 0; side < 2; ++side) {
      for (const std::string& task : fault.sides[side]) {
        const auto it = addresses.find(task);
        if (it != addresses.end()) rule.sides[side].push_back(it->second);
      }
    }
    rules_.push_back(std::move(rule));
  }
}

// Programs and servers of one task are on one machine: a client, which has no
// address, is on the side of the task that it calls.
bool NetworkFaults::Rule::Separates(const std::string& a, const std::string& b) const {
  if (a.empty() || b.empty() || a == b) return false;
  const auto separates = [&](const std::string& x, const std::string& y) {
    return Contains(sides[0], x) && (fault.sides[1].empty() ? !Contains(sides[0], y) : Contains(sides[1], y));
  };
  return separates(a, b) || separates(b, a);
}

absl::Duration NetworkFaults::Now() const { return absl::Nanoseconds(NowNanos() - start_nanos_); }

NetworkFaults::Fate NetworkFaults::Next(const std::string& from, const std::string& to) {
  Fate fate;
  const absl::Duration now = Now();
  MutexLock lock(&mutex_);
  for (const Rule& rule : rules_) {
    const Fault& fault = rule.fault;
    // The draws depend on the number of calls only.
    const double draw = std::uniform_real_distribution<double>(0, 1)(random_);
    if (!IsActive(fault, now)) continue;
    switch (fault.kind) {
      case Kind::kDrop:
        // One in two is lost on its way there, the other on its way back.
        if (draw < fault.probability / 2) {
          fate.lose_request = true;
        } else if (draw < fault.probability) {
          fate.lose_answer = true;
        }
        break;
      case Kind::kDuplicate:
        fate.duplicate = fate.duplicate || draw < fault.probability;
        break;
      case Kind::kDelay:
        fate.delay += fault.delay + draw * (fault.max_delay - fault.delay);
        break;
      default:
        break;
    }
  }
  return fate;
}

absl::Duration NetworkFaults::CutOffFor(const std::string& from, const std::string& to) const {
  const absl::Duration now = Now();
  absl::Duration longest;
  for (const Rule& rule : rules_) {
    if (rule.fault.kind != Kind::kPartition || !IsActive(rule.fault, now) || !rule.Separates(from, to)) continue;
    longest = std::max(longest, rule.fault.time + rule.fault.lasts - now);
  }
  return longest;
}

}  // namespace thalweg
