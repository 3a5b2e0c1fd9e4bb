// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/segments.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/runtime/deferred_reads.h"

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

// Waits, as ranges [first, last) of their numbers, which follow the order of the
// graph: whether thousands run side by side or one after the other, what depends
// on many of them depends on few ranges.
using WaitSet = std::vector<std::pair<int, int>>;

// Ranges in order, as few as can be.
void Normalize(WaitSet& set) {
  std::sort(set.begin(), set.end());
  size_t kept = 0;
  for (const auto& range : set) {
    if (kept > 0 && range.first <= set[kept - 1].second) {
      set[kept - 1].second = std::max(set[kept - 1].second, range.second);
    } else {
      set[kept++] = range;
    }
  }
  set.resize(kept);
}

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
  std::map<WaitSet, int> ids;
  std::vector<const WaitSet*> sets;  // by segment
  for (const int u : order) {
    WaitSet set;
    int last = -1;  // mostly, all are of one segment
    for (const int before : units[u].before) {
      const Unit& first = units[before];
      if (first.segment != last) set.insert(set.end(), sets[first.segment]->begin(), sets[first.segment]->end());
      last = first.segment;
      if (first.wait >= 0) set.push_back({first.wait, first.wait + 1});
    }
    Normalize(set);
    const auto [it, is_new] = ids.try_emplace(std::move(set), static_cast<int>(sets.size()));
    if (is_new) sets.push_back(&it->first);
    units[u].segment = it->second;
  }
  plan.segments.resize(ids.size());
  absl::flat_hash_set<std::tuple<bool, int, int>> seen;  // from a wait or a segment, to a segment
  for (const Unit& unit : units) {
    for (const int before : unit.before) {
      const Unit& first = units[before];
      if (!first.waits && first.segment == unit.segment) continue;
      if (!seen.insert({first.waits, first.waits ? first.wait : first.segment, unit.segment}).second) continue;
      auto& successors = first.waits ? plan.wait_successors[first.wait] : plan.segments[first.segment].successors;
      successors.push_back(unit.segment);
      ++plan.segments[unit.segment].predecessors;
    }
  }
}

std::vector<int> Schedule(const std::vector<Unit>& units, int num_segments) {
  const auto rank = [&](int u) {
    const Unit& unit = units[u];
    int priority = 1;
    // The thread computes nothing for other tasks while it writes.
    if (unit.node != nullptr && WritesFiles(unit.node->op())) priority = 2;
    // Late, so that readers of the old value are done and the update happens
    // in place.
    if (unit.node != nullptr && UpdatesVariable(*unit.node)) priority = 3;
    if (unit.waits || (unit.node != nullptr && IsSend(*unit.node))) priority = 0;
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
