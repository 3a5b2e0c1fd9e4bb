// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/host_group.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/transport/host_join.h"
#include "thalweg/transport/streaming_copy.h"

namespace thalweg {
namespace {

using Entry = HostBoard::Entry;

constexpr size_t kPage = 4096;
constexpr int kWorkers = 2;
// Merged in one go: fits into the cache of a core, with the values of two members.
constexpr size_t kBlockBytes = size_t{1} << 15;
// Results of operations that move more than this do not go through the caches.
constexpr size_t kStreamBytes = size_t{1} << 20;

bool IsInline(HostOperation operation, size_t bytes) {
  if (operation == HostOperation::kBarrier) return true;
  return bytes <= HostBoard::kInlineBytes &&
         (operation == HostOperation::kAllReduce || operation == HostOperation::kBroadcast);
}

bool HasParts(HostOperation operation) {
  return operation == HostOperation::kReduceScatter || operation == HostOperation::kAllGather ||
         operation == HostOperation::kAllToAll;
}

bool Merges(HostOperation operation) {
  return operation == HostOperation::kAllReduce || operation == HostOperation::kReduceScatter;
}

}  // namespace

// One operation of this member, from its start to its end.
struct HostGroup::Pending {
  HostCall call;
  Done done;
  size_t bytes = 0;
  bool is_inline = false;
  enum class Phase { kSlot, kArrival, kMoves } phase = Phase::kSlot;  // what it waits for
  int slot = -1;
  absl::Time start = absl::Now();
  Memory staged_values, staged_results;  // copies in the arena of what lies elsewhere
  char* values = nullptr;                // in the arena
  char* results = nullptr;
  std::vector<std::pair<uint64_t, uint64_t>> places;  // by rank: values and results, checked
  absl::Status status;
};

absl::StatusOr<std::unique_ptr<HostGroup>> HostGroup::Join(const HostGroupOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> arena, SharedMemory::Create(std::max(options.arena_bytes, kPage)));
  ASSIGN_OR_RETURN(HostMembers members, JoinHostMembers(options.name, options.rank, options.ranks, std::move(arena),
                                                        absl::Now() + options.timeout, options.cancellation));
  return std::unique_ptr<HostGroup>(new HostGroup(options, std::move(members.board), std::move(members.arenas),
                                                  std::move(members.sockets), std::move(members.socket_ranks)));
}

HostGroup::HostGroup(const HostGroupOptions& options, std::unique_ptr<HostBoard> board,
                     std::vector<std::shared_ptr<SharedMemory>> arenas, std::vector<FileHandle> peers,
                     std::vector<int> peer_ranks)
    : rank_(options.rank),
      ranks_(options.ranks),
      names_(options.names),
      spin_(AvailableCores() >= options.ranks),
      board_(std::move(board)),
      arenas_(std::move(arenas)),
      peers_(std::move(peers)),
      peer_ranks_(std::move(peer_ranks)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      watcher_(std::make_unique<Thread>("host-group", [this] { Watch(); })) {}

HostGroup::~HostGroup() {
  std::vector<std::unique_ptr<Thread>> workers;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
    workers.swap(workers_);
    if (!pending_.empty()) board_->Fail(Cancelled("Rank ", rank_, " has left the group with operations under way"));
  }
  board_->Ring(rank_);
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) LOG(ERROR) << "Cannot stop the watch of a group";
  workers.clear();
  watcher_.reset();
}

std::string HostGroup::Name(int rank) const {
  if (rank >= static_cast<int>(names_.size())) return absl::StrCat("rank ", rank);
  return absl::StrCat("rank ", rank, " (", names_[rank], ")");
}

// Ends when the group does. A member whose socket closes has died, or has left.
void HostGroup::Watch() {
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (const FileHandle& peer : peers_) polled.push_back({peer.get(), POLLIN, 0});
  for (;;) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      board_->Fail(Unavailable("A member of the group has died, or has left it: ", Name(peer_ranks_[i - 1])));
      polled[i].fd = -1;  // no longer looked at
    }
  }
}

absl::StatusOr<HostGroup::Memory> HostGroup::Allocate(size_t bytes) {
  const SharedMemory& arena = *arenas_[rank_];
  const size_t need = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  size_t begin = 0;
  {
    MutexLock lock(&mutex_);
    // The lowest place that is free: memory that was used is used again.
    for (const auto& [used_begin, used_end] : used_) {
      if (used_begin - begin >= need) break;
      begin = used_end;
    }
    if (need < bytes || arena.bytes() < begin || arena.bytes() - begin < need) {
      return ResourceExhausted("The memory that rank ", rank_, " shares with its group has no room for ", bytes,
                               " of its ", arena.bytes(), " bytes");
    }
    used_.emplace(begin, begin + need);
  }
  char* const data = arena.data() + begin;
  return Memory{data, std::shared_ptr<const void>(data, [this, begin](const void*) {
                  MutexLock lock(&mutex_);
                  used_.erase(begin);
                })};
}

bool HostGroup::OwnsMemory(const void* data, size_t bytes) const {
  const SharedMemory& arena = *arenas_[rank_];
  const char* const at = static_cast<const char*>(data);
  return at >= arena.data() && at <= arena.data() + arena.bytes() &&
         bytes <= static_cast<size_t>(arena.data() + arena.bytes() - at);
}

absl::Status HostGroup::Prepare(Pending& p) {
  const HostCall& call = p.call;
  size_t bytes = 0;
  if (call.key == 0) return InvalidArgument("An operation of a group needs a key that is not 0");
  if (call.elements < 0 ||
      __builtin_mul_overflow(static_cast<size_t>(call.elements), size_t{call.element_bytes}, &bytes)) {
    return InvalidArgument("An operation of a group on ", call.elements, " elements of ", call.element_bytes, " bytes");
  }
  if (call.element_bytes > kBlockBytes || (call.element_bytes == 0 && call.operation != HostOperation::kBarrier)) {
    return InvalidArgument("An operation of a group on elements of ", call.element_bytes, " bytes");
  }
  if (HasParts(call.operation) && call.elements % ranks_ != 0) {
    return InvalidArgument(call.elements, " elements cannot be divided among ", ranks_, " members");
  }
  if (Merges(call.operation) && call.merge == nullptr) return InvalidArgument("There is no way to merge elements");
  if (call.root < 0 || call.root >= ranks_) return InvalidArgument("There is no rank ", call.root, " of ", ranks_);
  p.bytes = bytes;
  p.is_inline = IsInline(call.operation, bytes);
  if (p.is_inline) return absl::OkStatus();
  const bool apart = call.operation == HostOperation::kAllToAll;
  p.values = static_cast<char*>(call.values);
  if (!OwnsMemory(p.values, bytes)) {
    ASSIGN_OR_RETURN(p.staged_values, Allocate(bytes));
    p.values = p.staged_values.data;
    std::memcpy(p.values, call.values, bytes);
  }
  p.results = apart ? static_cast<char*>(call.results) : p.values;
  if (apart && !OwnsMemory(p.results, bytes)) {
    ASSIGN_OR_RETURN(p.staged_results, Allocate(bytes));
    p.results = p.staged_results.data;
  }
  return absl::OkStatus();
}

// Writes this member's entry, and counts it in.
void HostGroup::Publish(Pending& p) {
  Entry& entry = board_->entry(p.slot, rank_);
  entry.operation = static_cast<uint32_t>(p.call.operation);
  entry.tag = p.call.tag;
  entry.root = p.call.root;
  entry.element_bytes = p.call.element_bytes;
  entry.elements = static_cast<uint64_t>(p.call.elements);
  if (p.is_inline) {
    if (p.bytes > 0) std::memcpy(board_->inline_values(p.slot, rank_), p.call.values, p.bytes);
  } else {
    entry.values = static_cast<uint64_t>(p.values - arenas_[rank_]->data());
    entry.results = static_cast<uint64_t>(p.results - arenas_[rank_]->data());
  }
  entry.state.store(Entry::kPublished, std::memory_order_release);
  if (board_->slot(p.slot).arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(ranks_)) {
    board_->RingAll();
  }
}

// All members have come: they must agree, and lie where they say.
absl::Status HostGroup::CheckEntries(Pending& p) {
  const auto describe = [this](int rank, uint32_t operation, uint64_t elements, uint32_t element_bytes, uint32_t tag,
                               int root) {
    return absl::StrCat(Name(rank), " brings ", elements, " elements of ", element_bytes, " bytes to operation ",
                        operation, " of type ", tag, " with root ", root);
  };
  std::string first;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Entry& entry = board_->entry(p.slot, rank);
    // Copied once: the other process may still change it.
    const std::string text =
        describe(rank, entry.operation, entry.elements, entry.element_bytes, entry.tag, entry.root);
    const uint64_t values = entry.values, results = entry.results;
    if (rank == 0) first = text;
    if (absl::string_view(text).substr(text.find(" brings")) !=
        absl::string_view(first).substr(first.find(" brings"))) {
      return InvalidArgument("Members of a group do not agree: ", text, ", but ", first);
    }
    if (p.is_inline) continue;
    const size_t size = arenas_[rank]->bytes();
    for (const uint64_t place : {values, results}) {
      if (place > size || p.bytes > size - place) {
        return InvalidArgument("Rank ", rank, " of the group says that its values lie at ", place, ", but it shares ",
                               size, " bytes");
      }
    }
    p.places.emplace_back(values, results);
  }
  const std::string own = describe(rank_, static_cast<uint32_t>(p.call.operation), p.call.elements,
                                   p.call.element_bytes, p.call.tag, p.call.root);
  if (own.substr(own.find(" brings")) != first.substr(first.find(" brings"))) {
    return InvalidArgument("The entry of rank ", rank_, " was changed by another member: ", first, ", expected ", own);
  }
  return absl::OkStatus();
}

// A few bytes: everyone merges all for itself, in the same order.
void HostGroup::MergeInline(Pending& p) {
  if (p.bytes == 0) return;
  if (p.call.operation == HostOperation::kBroadcast) {
    std::memcpy(p.call.values, board_->inline_values(p.slot, p.call.root), p.bytes);
    return;
  }
  std::memcpy(p.call.values, board_->inline_values(p.slot, 0), p.bytes);
  for (int rank = 1; rank < ranks_; ++rank) {
    p.call.merge(p.call.values, board_->inline_values(p.slot, rank), p.call.elements);
  }
  if (p.call.finish != nullptr) p.call.finish(p.call.values, p.call.elements, ranks_);
}

void HostGroup::DoMoves(Pending& p) {
  const HostCall& call = p.call;
  const auto size = static_cast<int64_t>(call.element_bytes);
  const int64_t block = std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes) / size);
  const bool stream = p.bytes >= kStreamBytes;
  alignas(64) char scratch[kBlockBytes];
  for (const HostMove& move :
       ScheduleHostMoves(call.operation, rank_, ranks_, call.root, call.elements, std::max<int64_t>(1, 64 / size))) {
    for (int64_t at = 0; at < move.count; at += block) {
      const int64_t n = std::min(block, move.count - at);
      const auto value = [&](int rank) {
        return arenas_[rank]->data() + p.places[rank].first + (move.begin + at) * size;
      };
      const char* from = value(move.from[0]);
      if (move.from.size() > 1) {
        std::memcpy(scratch, from, n * size);
        for (size_t i = 1; i < move.from.size(); ++i) call.merge(scratch, value(move.from[i]), n);
        if (call.finish != nullptr) call.finish(scratch, n, ranks_);
        from = scratch;
      }
      for (const HostMove::Target& to : move.to) {
        char* const target = arenas_[to.rank]->data() + p.places[to.rank].second + (to.begin + at) * size;
        if (stream) {
          StreamingCopy(target, from, n * size);
        } else {
          std::memcpy(target, from, n * size);
        }
      }
    }
  }
  if (stream) EndStreamingCopies();
}

absl::Status HostGroup::Overdue(const Pending& p) const {
  std::vector<std::string> late;
  const uint32_t wanted = p.phase == Pending::Phase::kMoves ? Entry::kFinished : Entry::kPublished;
  for (int rank = 0; rank < ranks_ && p.slot >= 0; ++rank) {
    if (board_->entry(p.slot, rank).state.load(std::memory_order_acquire) < wanted) late.push_back(Name(rank));
  }
  return DeadlineExceeded("Rank ", rank_, " has waited for ", absl::FormatDuration(p.call.timeout),
                          p.slot < 0 ? " for other operations of the group to end"
                                     : absl::StrCat(" for ", absl::StrJoin(late, ", "), " in an operation of ",
                                                    p.call.elements, " elements"));
}

bool HostGroup::CanAdvance(const Pending& p) const {
  switch (p.phase) {
    case Pending::Phase::kSlot:
      return board_->HasSlot(p.call.key);
    case Pending::Phase::kArrival:
      return board_->slot(p.slot).arrived.load(std::memory_order_acquire) >= static_cast<uint32_t>(ranks_);
    case Pending::Phase::kMoves:
      return board_->slot(p.slot).finished.load(std::memory_order_acquire) >= static_cast<uint32_t>(ranks_);
  }
  return false;
}

// Goes on as far as it can. True if the operation is over: `p.status` says how.
bool HostGroup::Advance(Pending& p) {
  const auto fail = [&](const absl::Status& why) {
    board_->Fail(why);
    p.status = board_->status();
    return true;
  };
  for (;;) {
    if (p.phase == Pending::Phase::kSlot && board_->failed()) return fail(board_->status());
    // Others may have left the group, or died, after their part was done.
    if (!CanAdvance(p)) {
      if (board_->failed()) return fail(board_->status());
      if (absl::Now() > p.start + p.call.timeout) return fail(Overdue(p));
      return false;
    }
    switch (p.phase) {
      case Pending::Phase::kSlot:
        p.slot = board_->FindSlot(p.call.key);
        if (p.slot < 0) continue;
        p.phase = Pending::Phase::kArrival;
        Publish(p);
        continue;
      case Pending::Phase::kArrival:
        if (const absl::Status checked = CheckEntries(p); !checked.ok()) return fail(checked);
        if (p.is_inline) {
          MergeInline(p);
          board_->LeaveSlot(p.slot);
          return true;
        }
        DoMoves(p);
        board_->entry(p.slot, rank_).state.store(Entry::kFinished, std::memory_order_release);
        p.phase = Pending::Phase::kMoves;
        if (board_->slot(p.slot).finished.fetch_add(1, std::memory_order_acq_rel) + 1 ==
            static_cast<uint32_t>(ranks_)) {
          board_->RingAll();
        }
        continue;
      case Pending::Phase::kMoves:
        board_->LeaveSlot(p.slot);
        CopyBack(p);
        return true;
    }
  }
}

void HostGroup::CopyBack(Pending& p) {
  if (p.call.operation == HostOperation::kAllToAll) {
    if (p.staged_results.data != nullptr) std::memcpy(p.call.results, p.results, p.bytes);
  } else if (p.staged_values.data != nullptr) {
    std::memcpy(p.call.values, p.values, p.bytes);
  }
}

absl::Status HostGroup::Run(const HostCall& call) {
  Pending p{.call = call};
  if (const absl::Status status = Prepare(p); !status.ok()) {
    board_->Fail(status);
    return status;
  }
  while (!Advance(p)) {
    board_->Wait(rank_, spin_, p.start + call.timeout, [&] { return CanAdvance(p); });
  }
  return p.status;
}

void HostGroup::Start(const HostCall& call, Done done) {
  auto p = std::make_unique<Pending>(Pending{.call = call, .done = std::move(done)});
  if (absl::Status status = Prepare(*p); !status.ok()) {
    board_->Fail(status);
    return p->done(status);
  }
  if (Advance(*p)) return p->done(p->status);
  MutexLock lock(&mutex_);
  pending_.push_back(std::move(p));
  while (workers_.size() < kWorkers && !closing_) {
    workers_.push_back(std::make_unique<Thread>("host-group", [this] { Work(); }));
  }
  if (!waiting_) changed_.Signal();
  // What it waits for may have come just before: the one that waits looks again.
  board_->Ring(rank_);
}

// Workers take turns: one waits for all operations under way, and hands the wait over before
// it goes on with one of them, which may take long.
void HostGroup::Work() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (!closing_ && (waiting_ || pending_.empty())) changed_.Wait(&mutex_);
      if (closing_ && pending_.empty()) return;
      waiting_ = true;
    }
    std::unique_ptr<Pending> next;
    const auto take = [&] {
      MutexLock lock(&mutex_);
      const absl::Time now = absl::Now();
      const auto it = std::find_if(pending_.begin(), pending_.end(), [&](const auto& p) {
        return CanAdvance(*p) || board_->failed() || now > p->start + p->call.timeout;
      });
      if (it == pending_.end()) return pending_.empty();  // the last ones are over
      next = std::move(*it);
      pending_.erase(it);
      return true;
    };
    while (!take()) {
      constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
      board_->Wait(rank_, spin_, absl::Now() + kLookEvery, [&] {
        MutexLock lock(&mutex_);
        return std::any_of(pending_.begin(), pending_.end(), [&](const auto& p) { return CanAdvance(*p); });
      });
    }
    {
      MutexLock lock(&mutex_);
      waiting_ = false;
      if (!pending_.empty()) changed_.Signal();
    }
    if (next == nullptr) continue;
    if (Advance(*next)) {
      next->done(next->status);
      continue;
    }
    MutexLock lock(&mutex_);
    pending_.push_back(std::move(next));
    changed_.Signal();
  }
}

}  // namespace thalweg
