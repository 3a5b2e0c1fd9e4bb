// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_operation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// Values up to this size are exchanged by recursive doubling: its messages are longer than the ring's, but fewer.
constexpr size_t kDoublingBytes = size_t{64} << 10;
// That an early arrival takes beside its values: an entry of a table that may have room for twice as many.
constexpr size_t kEarlyEntryBytes = 256;

bool IsNetInline(HostOperation operation, size_t bytes) {
  if (operation == HostOperation::kBarrier || bytes == 0) return true;
  return bytes <= kNetInlineBytes && (operation == HostOperation::kAllReduce || operation == HostOperation::kBroadcast);
}

}  // namespace

NetOperation::NetOperation(const HostCall& host_call, size_t value_bytes, ProcessGroup::Done when_done, int own_rank,
                           int all_ranks)
    : call(host_call),
      bytes(value_bytes),
      done(std::move(when_done)),
      rank(own_rank),
      ranks(all_ranks),
      is_inline(!call.between_hosts && IsNetInline(call.operation, bytes)),
      start(absl::Now()),
      arrivals(ranks) {}

NetArrived NetOperation::OwnArrival() const {
  NetArrived own;
  own.what = {.key = call.key,
              .step = call.step,
              .elements = static_cast<uint64_t>(call.elements),
              .operation = static_cast<uint32_t>(call.operation),
              .tag = call.tag,
              .root = call.root,
              .element_bytes = call.element_bytes,
              .rank_order = call.rank_order,
              .between_hosts = call.between_hosts};
  const bool gives_values =
      is_inline && bytes > 0 && (call.operation == HostOperation::kAllReduce || call.root == rank);
  if (gives_values) own.values.assign(static_cast<const char*>(call.values), bytes);
  return own;
}

absl::Status NetOperation::CheckArrivals(const NetNames& name) const {
  const auto describe = [](const NetArrival& a) {
    return absl::StrCat(" brings ", a.elements, " elements of ", a.element_bytes, " bytes to ",
                        NameOf(static_cast<HostOperation>(a.operation)), " of type ", a.tag & 0xff, ", reduction ",
                        a.tag >> 8, ", with root ", a.root, a.rank_order != 0 ? ", in the order of ranks" : "",
                        a.between_hosts != 0 ? ", between hosts" : "");
  };
  const std::string first = describe(arrivals[0]->what);
  for (int r = 1; r < ranks; ++r) {
    const std::string text = describe(arrivals[r]->what);
    if (text != first) {
      return InvalidArgument("Members of a group do not agree: ", name(r), text, ", but ", name(0), first);
    }
  }
  for (int r = 0; r < ranks; ++r) {
    const bool gives = is_inline && (call.operation == HostOperation::kAllReduce || call.root == r);
    if (arrivals[r]->values.size() != (gives ? bytes : 0)) {
      return InvalidArgument(name(r), " has sent ", arrivals[r]->values.size(), " bytes of values, expected ",
                             gives ? bytes : 0);
    }
  }
  return absl::OkStatus();
}

void NetOperation::MergeInline() {
  if (bytes == 0) return;
  if (call.operation == HostOperation::kBroadcast) {
    if (call.root != rank) std::memcpy(call.values, arrivals[call.root]->values.data(), bytes);
    return;
  }
  // Strings of so many bytes are aligned like any memory of malloc.
  std::memcpy(call.values, arrivals[0]->values.data(), bytes);
  std::vector<std::max_align_t> aligned(bytes / sizeof(std::max_align_t) + 1);
  for (int r = 1; r < ranks; ++r) {
    std::memcpy(aligned.data(), arrivals[r]->values.data(), bytes);
    call.merge(call.values, aligned.data(), call.elements);
  }
  if (call.finish != nullptr) call.finish(call.values, call.elements, ranks);
}

void NetOperation::Begin(const RanksByHost& by_host) {
  NetPlan plan{.operation = call.operation,
               .root = call.root,
               .elements = call.elements,
               .alignment = std::max<int64_t>(1, 64 / call.element_bytes),
               .order = RingOrder(by_host)};
  if (call.between_hosts) plan = PlanBetweenHosts(plan, by_host, rank);
  const auto moved = static_cast<size_t>(plan.elements) * call.element_bytes;
  plan.algorithm = call.rank_order && call.operation == HostOperation::kAllReduce ? NetAlgorithm::kChain
                   : moved <= kDoublingBytes                                      ? NetAlgorithm::kDoubling
                                                                                  : NetAlgorithm::kRing;
  const bool apart = call.operation == HostOperation::kAllToAll;
  begun = true;
  sends.resize(ranks);
  receives.resize(ranks);
  for (const NetMove& move : ScheduleNetMoves(plan, rank)) {
    const bool is_send = move.kind == NetMove::Kind::kSend;
    char* const base = static_cast<char*>(apart && !is_send ? call.results : call.values);
    (is_send ? sends : receives)[move.peer].push_back(static_cast<int>(moves.size()));
    moves.push_back({.what = move,
                     .data = base + move.begin * call.element_bytes,
                     .bytes = static_cast<size_t>(move.count) * call.element_bytes});
  }
  moves_left = moves.size();
  if (apart && bytes > 0) {
    const size_t part = bytes / ranks;
    std::memcpy(static_cast<char*>(call.results) + rank * part, static_cast<char*>(call.values) + rank * part, part);
  }
  if (ranks == 1 && call.finish != nullptr && Merges(call.operation)) call.finish(call.values, call.elements, 1);
}

size_t NetOperation::Limit(const Move& move) {
  if (move.what.after < 0) return move.bytes;
  Move& before = moves[move.what.after];
  if (move.what.kind != NetMove::Kind::kMerge || before.what.kind != NetMove::Kind::kSend) return before.done;
  if (before.done < before.bytes && before.copy == nullptr) {
    if (Limit(before) < before.bytes) return before.done;
    before.copy = std::make_unique<char[]>(before.bytes);
    std::memcpy(before.copy.get(), before.data, before.bytes);
    before.data = before.copy.get();
  }
  return move.bytes;
}

absl::Status NetOperation::Overdue(const NetNames& name) const {
  std::vector<std::string> late;
  for (int r = 0; r < ranks; ++r) {
    if (begun ? Needs(r) : arrivals[r] == nullptr) late.push_back(name(r));
  }
  return DeadlineExceeded("Rank ", rank, " has waited for ", absl::FormatDuration(call.timeout), " for ",
                          absl::StrJoin(late, ", "), " in an operation of ", call.elements, " elements");
}

absl::Status EarlyArrivals::Add(int rank, std::unique_ptr<NetArrived> arrival, const NetNames& name) {
  const uint64_t key = arrival->what.key;
  Arrivals& arrivals = arrivals_[key];
  if (std::any_of(arrivals.begin(), arrivals.end(), [&](const auto& other) { return other.first == rank; })) {
    return InvalidArgument(name(rank), " arrives twice at operation ", key);
  }
  bytes_[rank] += kEarlyEntryBytes + arrival->values.size();
  arrivals.emplace_back(rank, std::move(arrival));
  if (bytes_[rank] > kNetMaxEarlyBytes) {
    return ResourceExhausted(name(rank), " has arrived at too many operations that this rank has not begun");
  }
  return absl::OkStatus();
}

std::vector<std::pair<int, std::unique_ptr<NetArrived>>> EarlyArrivals::Take(uint64_t key) {
  const auto it = arrivals_.find(key);
  if (it == arrivals_.end()) return {};
  Arrivals taken = std::move(it->second);
  arrivals_.erase(it);
  for (const auto& arrival : taken) Release(arrival);
  return taken;
}

void EarlyArrivals::ForgetStep(int64_t step) {
  absl::erase_if(arrivals_, [&](auto& of_key) {
    std::erase_if(of_key.second, [&](const auto& arrival) {
      if (arrival.second->what.step != step) return false;
      Release(arrival);
      return true;
    });
    return of_key.second.empty();
  });
}

void EarlyArrivals::Clear() {
  arrivals_.clear();
  std::fill(bytes_.begin(), bytes_.end(), 0);
}

void EarlyArrivals::Release(const Arrivals::value_type& arrival) {
  bytes_[arrival.first] -= kEarlyEntryBytes + arrival.second->values.size();
}

}  // namespace thalweg
