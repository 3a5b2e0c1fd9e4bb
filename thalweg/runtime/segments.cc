#include "thalweg/runtime/segments.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "thalweg/runtime/late_reads.h"

namespace thalweg {
namespace {

// Numbers the units that wait; returns how many.
int NumberWaits(std::vector<Unit>& units) {
  int count = 0;
  for (Unit& unit : units) {
    if (unit.waits) unit.wait = count++;
  }
  return count;
}

bool Sends(const Node& node) { return node.op() == "_Send" || node.op() == "_HostSend"; }

}  // namespace

// For every unit the set of waits it depends on; units with the same set form a
// segment. An edge never leads from a larger set to a smaller one, so segments
// are ordered too.
void FindSegments(std::vector<Unit>& units, const std::vector<int>& order, Plan& plan) {
  const int waits = NumberWaits(units);
  plan.has_waits = waits > 0;
  plan.wait_successors.resize(waits);
  if (waits == 0) {
    for (Unit& unit : units) unit.segment = 0;
    plan.segments.resize(1);
    return;
  }
  const size_t words = (waits + 63) / 64;
  std::vector<std::vector<uint64_t>> sets(units.size(), std::vector<uint64_t>(words));
  std::map<std::vector<uint64_t>, int> ids;
  for (const int u : order) {
    for (const int before : units[u].before) {
      for (size_t w = 0; w < words; ++w) sets[u][w] |= sets[before][w];
      if (const int wait = units[before].wait; wait >= 0) sets[u][wait / 64] |= uint64_t{1} << (wait % 64);
    }
    units[u].segment = ids.try_emplace(sets[u], static_cast<int>(ids.size())).first->second;
  }
  plan.segments.resize(ids.size());
  for (const Unit& unit : units) {
    for (const int before : unit.before) {
      const Unit& first = units[before];
      if (!first.waits && first.segment == unit.segment) continue;
      auto& successors = first.waits ? plan.wait_successors[first.wait] : plan.segments[first.segment].successors;
      if (std::find(successors.begin(), successors.end(), unit.segment) != successors.end()) continue;
      successors.push_back(unit.segment);
      ++plan.segments[unit.segment].predecessors;
    }
  }
}

std::vector<int> Schedule(const std::vector<Unit>& units, int num_segments) {
  const auto rank = [&](int u) {
    const Unit& unit = units[u];
    int priority = 1;
    // Late, so that readers of the old value are done and the update happens
    // in place.
    if (unit.node != nullptr && UpdatesVariable(*unit.node)) priority = 2;
    if (unit.waits || (unit.node != nullptr && Sends(*unit.node))) priority = 0;
    return std::tuple(unit.segment, priority, u);
  };
  const auto later = [&](int a, int b) { return rank(a) > rank(b); };
  // One queue for all segments: a segment's units only wait for earlier sets,
  // so what comes out of it, taken apart by segment, is a valid order.
  std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
  std::vector<int> pending(units.size());
  for (size_t u = 0; u < units.size(); ++u) {
    pending[u] = static_cast<int>(units[u].before.size());
    if (pending[u] == 0) ready.push(static_cast<int>(u));
  }
  std::vector<std::vector<int>> by_segment(num_segments);
  while (!ready.empty()) {
    const int u = ready.top();
    ready.pop();
    by_segment[units[u].segment].push_back(u);
    for (const int next : units[u].after) {
      if (--pending[next] == 0) ready.push(next);
    }
  }
  std::vector<int> schedule;
  for (const auto& list : by_segment) schedule.insert(schedule.end(), list.begin(), list.end());
  return schedule;
}

}  // namespace thalweg
