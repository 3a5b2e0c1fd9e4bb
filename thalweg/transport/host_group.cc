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

using Entry = HostControlBlock::Entry;

constexpr int kWorkers = 2;
// Bytes merged at a time. The values of two members then fit into a core's cache.
constexpr size_t kBlockBytes = size_t{1} << 15;
// Operations that move more than this write their results past the caches.
constexpr size_t kStreamBytes = size_t{1} << 20;

// Of the parts of an all-reduce, in elements: the bytes of a cache line.
int64_t Alignment(int64_t element_bytes) { return std::max<int64_t>(1, 64 / std::max<int64_t>(1, element_bytes)); }

bool IsInline(HostOperation operation, size_t bytes) {
  if (operation == HostOperation::kBarrier) return true;
  return bytes <= HostControlBlock::kInlineBytes &&
         (operation == HostOperation::kAllReduce || operation == HostOperation::kBroadcast);
}

}  // namespace

// One operation of this member while it is in progress.
struct HostGroup::Pending {
  HostCall call;
  Done done;
  size_t bytes = 0;
  bool is_inline = false;
  enum class Phase { kSlot, kArrival, kMoves } phase = Phase::kSlot;  // what it waits for next
  int slot = -1;
  bool all_arrived = false;
  absl::Time start = absl::Now();
  Memory staged_values, staged_results;  // copies in the arena of values in other memory
  char* values = nullptr;                // in the arena
  char* results = nullptr;
  std::vector<std::pair<uint64_t, uint64_t>> places;  // by rank: values and results, checked
  bool keeps_values = false;                          // the root of a broadcast, whose values others may be reading
  absl::Status status;
};

absl::StatusOr<std::unique_ptr<HostGroup>> HostGroup::Join(const HostGroupOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<HostArena> arena, HostArena::Create(options.arena_bytes));
  ASSIGN_OR_RETURN(HostMembers members, JoinHostMembers(options.name, options.rank, options.ranks, arena->memory(),
                                                        absl::Now() + options.timeout, options.cancellation));
  members.arenas[options.rank] = arena->memory();  // values are found in this mapping, not in a second one
  return std::unique_ptr<HostGroup>(new HostGroup(options, std::move(arena), std::move(members.control),
                                                  std::move(members.arenas), std::move(members.sockets),
                                                  std::move(members.socket_ranks)));
}

HostGroup::HostGroup(const HostGroupOptions& options, std::shared_ptr<HostArena> arena,
                     std::unique_ptr<HostControlBlock> control, std::vector<std::shared_ptr<SharedMemory>> arenas,
                     std::vector<FileHandle> peers, std::vector<int> peer_ranks)
    : rank_(options.rank),
      ranks_(options.ranks),
      names_(options.names),
      shown_ranks_(options.shown_ranks),
      spin_(AvailableCores() >= options.ranks),
      control_(std::move(control)),
      arena_(std::move(arena)),
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
    if (!pending_.empty())
      control_->Fail(Cancelled("Rank ", Shown(rank_), " has left the group with operations under way"), 0);
  }
  control_->Ring(rank_);
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) LOG(ERROR) << "Cannot stop the watch of a group";
  workers.clear();
  watcher_.reset();
}

int HostGroup::Shown(int rank) const {
  return rank < static_cast<int>(shown_ranks_.size()) ? shown_ranks_[rank] : rank;
}

std::string HostGroup::Name(int rank) const {
  if (rank >= static_cast<int>(names_.size())) return absl::StrCat("rank ", Shown(rank));
  return absl::StrCat("rank ", Shown(rank), " (", names_[rank], ")");
}

// Fails the group when a member's socket closes: the member has died or left. Returns when the group ends.
void HostGroup::Watch() {
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (const FileHandle& peer : peers_) polled.push_back({peer.get(), POLLIN, 0});
  for (;;) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      control_->Fail(Unavailable("A member of the group has died, or has left it: ", Name(peer_ranks_[i - 1])), 0);
      polled[i].fd = -1;  // no longer polled
    }
  }
}

absl::Status HostGroup::Prepare(Pending& p) {
  const HostCall& call = p.call;
  ASSIGN_OR_RETURN(const size_t bytes, CheckCall(call, ranks_));
  p.bytes = bytes;
  p.is_inline = IsInline(call.operation, bytes);
  p.keeps_values = call.operation == HostOperation::kBroadcast && call.root == rank_;
  if (p.is_inline) {
    PlaceApart(p);
    return absl::OkStatus();
  }
  const bool has_results = call.operation == HostOperation::kAllToAll;
  p.values = static_cast<char*>(call.values);
  if (!arena_->Owns(p.values, bytes)) {
    ASSIGN_OR_RETURN(p.staged_values, Allocate(bytes));
    p.values = p.staged_values.data;
    const bool gives_values = call.operation != HostOperation::kBroadcast || p.keeps_values;
    if (gives_values && bytes > 0) std::memcpy(p.values, call.values, bytes);
  }
  p.results = has_results ? static_cast<char*>(call.results) : p.values;
  if (has_results && !arena_->Owns(p.results, bytes)) {
    ASSIGN_OR_RETURN(p.staged_results, Allocate(bytes));
    p.results = p.staged_results.data;
  }
  PlaceApart(p);
  return absl::OkStatus();
}

// Copies values that are elsewhere, unless only this member needs them.
void HostGroup::PlaceApart(Pending& p) const {
  const auto size = static_cast<int64_t>(p.call.element_bytes);
  const auto [begin, count] = MergedPart(rank_, ranks_, p.call.elements, size);
  const bool read_here_only = std::all_of(p.call.apart.begin(), p.call.apart.end(), [&](const HostCall::Piece& piece) {
    return piece.begin >= begin && piece.begin + piece.count <= begin + count;
  });
  if (!p.is_inline && read_here_only) return;
  char* const values = p.is_inline ? static_cast<char*>(p.call.values) : p.values;
  for (const HostCall::Piece& piece : p.call.apart) {
    std::memcpy(values + piece.begin * size, piece.data, piece.count * size);
  }
  p.call.apart.clear();
}

// Writes this member's entry and increments the number of arrived members.
void HostGroup::Publish(Pending& p) {
  Entry& entry = control_->entry(p.slot, rank_);
  entry.operation = static_cast<uint32_t>(p.call.operation);
  entry.tag = p.call.tag;
  entry.root = p.call.root;
  entry.element_bytes = p.call.element_bytes;
  entry.slices = p.call.slices;
  entry.elements = static_cast<uint64_t>(p.call.elements);
  if (p.is_inline) {
    if (p.bytes > 0) std::memcpy(control_->inline_values(p.slot, rank_), p.call.values, p.bytes);
  } else {
    entry.values = static_cast<uint64_t>(p.values - arenas_[rank_]->data());
    entry.results = static_cast<uint64_t>(p.results - arenas_[rank_]->data());
  }
  entry.state.store(Entry::kPublished, std::memory_order_release);
  if (control_->slot(p.slot).arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(ranks_)) {
    control_->RingAll();
  }
}

// Checks, when all members have arrived, that they agree and that their memory lies within their arenas.
absl::Status HostGroup::CheckEntries(Pending& p) {
  const auto describe = [this](int rank, uint32_t operation, uint64_t elements, uint32_t element_bytes, uint32_t tag,
                               int root, int slices) {
    return absl::StrCat(Name(rank), " brings ", elements, " elements of ", element_bytes, " bytes to ",
                        thalweg::NameOf(static_cast<HostOperation>(operation)), " of type ", tag & 0xff, ", reduction ",
                        tag >> 8, ", with root ", root, slices == 0 ? "" : absl::StrCat(", in ", slices, " slices"));
  };
  std::string first;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Entry& entry = control_->entry(p.slot, rank);
    // Each field is read once, because the other process may still change it.
    const std::string text =
        describe(rank, entry.operation, entry.elements, entry.element_bytes, entry.tag, entry.root, entry.slices);
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
        return InvalidArgument("Rank ", Shown(rank), " of the group says that its values lie at ", place,
                               ", but it shares ", size, " bytes");
      }
    }
    p.places.emplace_back(values, results);
  }
  const std::string own = describe(rank_, static_cast<uint32_t>(p.call.operation), p.call.elements,
                                   p.call.element_bytes, p.call.tag, p.call.root, p.call.slices);
  if (own.substr(own.find(" brings")) != first.substr(first.find(" brings"))) {
    return InvalidArgument("The entry of rank ", Shown(rank_), " was changed by another member: ", first, ", expected ",
                           own);
  }
  return absl::OkStatus();
}

// For small values: every member merges the values of all members itself, in the order of ranks.
void HostGroup::MergeInline(Pending& p) {
  if (p.bytes == 0) return;
  if (p.call.operation == HostOperation::kBroadcast) {
    if (p.keeps_values) return;
    std::memcpy(p.call.values, control_->inline_values(p.slot, p.call.root), p.bytes);
    return;
  }
  std::memcpy(p.call.values, control_->inline_values(p.slot, 0), p.bytes);
  for (int rank = 1; rank < ranks_; ++rank) {
    p.call.merge(p.call.values, control_->inline_values(p.slot, rank), p.call.elements);
  }
  if (p.call.finish != nullptr) p.call.finish(p.call.values, p.call.elements, ranks_);
}

std::pair<int64_t, int64_t> HostGroup::MergedPart(int rank, int ranks, int64_t elements, int64_t element_bytes) {
  return thalweg::MergedPart(rank, ranks, elements, Alignment(element_bytes));
}

void HostGroup::DoMoves(Pending& p) {
  const HostCall& call = p.call;
  for (const HostMove& move : ScheduleHostMoves(call.operation, rank_, ranks_, call.root, call.elements,
                                                Alignment(static_cast<int64_t>(call.element_bytes)), call.slices)) {
    if (call.apart.empty()) DoMove(p, move, {.begin = move.begin, .count = move.count});
    for (const HostCall::Piece& piece : call.apart) DoMove(p, move, piece);
  }
  if (p.bytes >= kStreamBytes) EndStreamingCopies();
}

// Moves a range of what `move` moves. This member's values are at `range.data`, if that is set.
void HostGroup::DoMove(const Pending& p, const HostMove& move, const HostCall::Piece& range) {
  const HostCall& call = p.call;
  const auto size = static_cast<int64_t>(call.element_bytes);
  const int64_t block = std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes) / size);
  const bool stream = p.bytes >= kStreamBytes;
  alignas(64) char scratch[kBlockBytes];
  for (int64_t at = 0; at < range.count; at += block) {
    const int64_t n = std::min(block, range.count - at);
    const auto value = [&](int rank) {
      if (rank == rank_ && range.data != nullptr) return static_cast<const char*>(range.data) + at * size;
      return static_cast<const char*>(arenas_[rank]->data()) + p.places[rank].first + (range.begin + at) * size;
    };
    const char* from = value(move.from[0]);
    if (move.from.size() > 1) {
      std::memcpy(scratch, from, n * size);
      for (size_t i = 1; i < move.from.size(); ++i) call.merge(scratch, value(move.from[i]), n);
      if (call.finish != nullptr) call.finish(scratch, n, ranks_);
      from = scratch;
    }
    for (const HostMove::Target& to : move.to) {
      const int64_t first = to.begin + range.begin - move.begin + at;
      char* const target = arenas_[to.rank]->data() + p.places[to.rank].second + first * size;
      if (stream) {
        StreamingCopy(target, from, n * size);
      } else {
        std::memcpy(target, from, n * size);
      }
    }
  }
}

absl::Status HostGroup::Overdue(const Pending& p) const {
  std::vector<std::string> late;
  const uint32_t wanted = p.phase == Pending::Phase::kMoves ? Entry::kFinished : Entry::kPublished;
  for (int rank = 0; rank < ranks_ && p.slot >= 0; ++rank) {
    if (control_->entry(p.slot, rank).state.load(std::memory_order_acquire) < wanted) late.push_back(Name(rank));
  }
  return DeadlineExceeded("Rank ", Shown(rank_), " has waited for ", absl::FormatDuration(p.call.timeout),
                          p.slot < 0 ? " for other operations of the group to end"
                                     : absl::StrCat(" for ", absl::StrJoin(late, ", "), " in an operation of ",
                                                    p.call.elements, " elements"));
}

bool HostGroup::CanAdvance(const Pending& p) const {
  switch (p.phase) {
    case Pending::Phase::kSlot:
      return control_->HasSlot(p.call.key);
    case Pending::Phase::kArrival:
      return control_->AllArrived(p.slot);
    case Pending::Phase::kMoves:
      return control_->slot(p.slot).finished.load(std::memory_order_acquire) >= static_cast<uint32_t>(ranks_);
  }
  return false;
}

// Whether the operation must end because the group has failed. Operations at which all members have arrived still
// finish, unless a member is gone.
bool HostGroup::MustEnd(const Pending& p) const {
  return p.phase == Pending::Phase::kMoves ? control_->lost() : control_->failed();
}

// Fails the operation and the group. If another step has failed first, its error is kept.
void HostGroup::EndWith(Pending& p, const absl::Status& why) {
  control_->Fail(why, p.call.step);
  p.status = control_->status();
  if (p.status.ok()) p.status = why;  // another member fails the group at this moment
  const int64_t step = control_->failed_step();
  if (!p.all_arrived && step != 0 && step != p.call.step) p.status = ThatMayRestart(std::move(p.status));
}

// Advances the operation as far as possible without waiting. Returns true if it is over, with its result in `p.status`.
bool HostGroup::Advance(Pending& p) {
  const auto fail = [&](const absl::Status& why) {
    EndWith(p, why);
    return true;
  };
  for (;;) {
    if (p.phase == Pending::Phase::kSlot && control_->failed()) return fail(control_->status());
    // Other members may have finished their part and then left or died.
    if (!CanAdvance(p)) {
      const bool failed = MustEnd(p);
      if (!failed && absl::Now() <= p.start + p.call.timeout) return false;
      const absl::Status why = failed ? control_->status() : Overdue(p);
      // If the last member has just arrived, all members must take part.
      if (p.phase == Pending::Phase::kArrival && !control_->Abandon(p.slot)) continue;
      return fail(why);
    }
    switch (p.phase) {
      case Pending::Phase::kSlot:
        p.slot = control_->FindSlot(p.call.key);
        if (p.slot < 0) continue;
        p.phase = Pending::Phase::kArrival;
        Publish(p);
        continue;
      case Pending::Phase::kArrival:
        p.all_arrived = true;
        if (const absl::Status checked = CheckEntries(p); !checked.ok()) return fail(checked);
        if (p.is_inline) {
          MergeInline(p);
          control_->LeaveSlot(p.slot);
          return true;
        }
        DoMoves(p);
        control_->entry(p.slot, rank_).state.store(Entry::kFinished, std::memory_order_release);
        p.phase = Pending::Phase::kMoves;
        if (control_->slot(p.slot).finished.fetch_add(1, std::memory_order_acq_rel) + 1 ==
            static_cast<uint32_t>(ranks_)) {
          control_->RingAll();
        }
        continue;
      case Pending::Phase::kMoves:
        control_->LeaveSlot(p.slot);
        CopyBack(p);
        return true;
    }
  }
}

void HostGroup::CopyBack(Pending& p) {
  if (p.bytes == 0) return;
  if (p.call.operation == HostOperation::kAllToAll) {
    if (p.staged_results.data != nullptr) std::memcpy(p.call.results, p.results, p.bytes);
  } else if (p.staged_values.data != nullptr && !p.keeps_values) {
    std::memcpy(p.call.values, p.values, p.bytes);
  }
}

absl::Status HostGroup::Run(const HostCall& call) {
  Pending p{.call = call};
  if (absl::Status status = Prepare(p); !status.ok()) {
    control_->Fail(status, call.step);
    return status;
  }
  while (!Advance(p)) {
    control_->Wait(rank_, spin_, p.start + call.timeout, [&] { return CanAdvance(p) || MustEnd(p); });
  }
  return p.status;
}

void HostGroup::Start(const HostCall& call, Done done) {
  auto p = std::make_unique<Pending>(Pending{.call = call, .done = std::move(done)});
  if (absl::Status status = Prepare(*p); !status.ok()) {
    control_->Fail(status, call.step);
    return p->done(status);
  }
  if (Advance(*p)) return p->done(p->status);
  MutexLock lock(&mutex_);
  pending_.push_back(std::move(p));
  while (workers_.size() < kWorkers && !closing_) {
    workers_.push_back(std::make_unique<Thread>("host-group", [this] { Work(); }));
  }
  if (!waiting_) changed_.Signal();
  // The operation may be able to advance already, so wake the worker that waits.
  control_->Ring(rank_);
}

// One worker waits for all pending operations. Before it advances one of them, which may take long, it lets another
// worker wait.
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
        return CanAdvance(*p) || MustEnd(*p) || now > p->start + p->call.timeout;
      });
      if (it == pending_.end()) return pending_.empty();  // no operation is pending
      next = std::move(*it);
      pending_.erase(it);
      return true;
    };
    while (!take()) {
      constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
      control_->Wait(rank_, spin_, absl::Now() + kLookEvery, [&] {
        MutexLock lock(&mutex_);
        return std::any_of(pending_.begin(), pending_.end(),
                           [&](const auto& p) { return CanAdvance(*p) || MustEnd(*p); });
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
