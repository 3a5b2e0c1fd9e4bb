// SPDX-License-Identifier: Apache-2.0
// HostGroup: processes on one host that run collective operations in shared memory.
//
//   ASSIGN_OR_RETURN(auto group, HostGroup::Join({.name = "job-7", .rank = rank, .ranks = 4}));
//   ASSIGN_OR_RETURN(const HostGroup::Memory memory, group->Allocate(bytes));
//   ... fill memory.data ...
//   RETURN_IF_ERROR(group->Run({.operation = HostOperation::kAllReduce, .key = 1, .elements = n,
//                               .element_bytes = 4, .values = memory.data, .merge = AddFloats}));
//
// Every member has an arena, which the other members map. Members read values in an arena
// directly and write results directly into the arenas of all members
// (transport/host_schedule.h). Other values are copied into the arena and back. Values of at
// most HostControlBlock::kInlineBytes go through the control block instead.
//
// All members must run as the same user. The group fails, with the same error for all members,
// if a member dies, if members disagree about an operation, or if a member does not arrive at it
// in time. An operation of another step that this failure ended can run again in a new group: see
// MayRestart(). Elements are merged in the order of ranks, so all members get identical bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/transport/host_arena.h"
#include "thalweg/transport/host_control_block.h"
#include "thalweg/transport/process_group.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

struct HostGroupOptions {
  std::string name;  // identifies the group on this host; at most 64 characters
  int rank = 0;
  int ranks = 1;
  std::vector<std::string> names;              // members' names for error messages, by rank; optional
  std::vector<int> shown_ranks;                // their ranks in messages, if they are part of a larger group
  size_t arena_bytes = size_t{1} << 30;        // upper limit; pages are allocated on first use
  absl::Duration timeout = absl::Seconds(60);  // for all members to join
  const Cancellation* cancellation = nullptr;  // cancels Join(); borrowed
};

// Thread-safe.
class HostGroup : public ProcessGroup {
 public:
  // Waits until all members have joined. After the timeout, returns DEADLINE_EXCEEDED and names the missing ranks.
  static absl::StatusOr<std::unique_ptr<HostGroup>> Join(const HostGroupOptions& options);
  ~HostGroup() override;
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  // The first element and the number of elements that member `rank` merges in an all-reduce. Nobody else reads its
  // values of them, so they need not be in the arena: see HostCall::apart. If all of `apart` lies in this part, only
  // elements in `apart` are merged there. Otherwise `apart` is copied to its place.
  static std::pair<int64_t, int64_t> MergedPart(int rank, int ranks, int64_t elements, int64_t element_bytes);

  // Memory in this member's arena.
  absl::StatusOr<Memory> Allocate(size_t bytes) override { return arena_->Allocate(bytes); }

  absl::Status Run(const HostCall& call) override;
  void Start(const HostCall& call, Done done) override;
  void Fail(const absl::Status& why, int64_t step) override { control_->Fail(why, step); }
  absl::Status status() const override { return control_->status(); }

 private:
  struct Pending;

  HostGroup(const HostGroupOptions& options, std::shared_ptr<HostArena> arena,
            std::unique_ptr<HostControlBlock> control, std::vector<std::shared_ptr<SharedMemory>> arenas,
            std::vector<FileHandle> peers, std::vector<int> peer_ranks);

  absl::Status Prepare(Pending& p);
  bool CanAdvance(const Pending& p) const;
  bool MustEnd(const Pending& p) const;
  bool Advance(Pending& p);
  void Publish(Pending& p);
  absl::Status CheckEntries(Pending& p);
  void MergeInline(Pending& p);
  void PlaceApart(Pending& p) const;
  void DoMoves(Pending& p);
  void DoMove(const Pending& p, const HostMove& move, const HostCall::Piece& range);
  static void CopyBack(Pending& p);
  absl::Status Overdue(const Pending& p) const;
  void EndWith(Pending& p, const absl::Status& why);

  // For errors.
  int Shown(int rank) const;
  std::string Name(int rank) const;

  void Watch();
  void Work();

  const int rank_, ranks_;
  const std::vector<std::string> names_;
  const std::vector<int> shown_ranks_;
  const bool spin_;
  const std::unique_ptr<HostControlBlock> control_;
  const std::shared_ptr<HostArena> arena_;                   // this member's
  const std::vector<std::shared_ptr<SharedMemory>> arenas_;  // by rank
  const std::vector<FileHandle> peers_;                      // sockets; a member that dies closes its socket
  const std::vector<int> peer_ranks_;
  FileHandle stop_;  // an eventfd that ends Watch()

  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Pending>> pending_ ABSL_GUARDED_BY(mutex_);  // started by Start()
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // whether a worker waits for the pending operations
  std::vector<std::unique_ptr<Thread>> workers_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> watcher_;
};

}  // namespace thalweg
