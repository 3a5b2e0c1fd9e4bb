// SPDX-License-Identifier: Apache-2.0
// HostGroup: processes of one host that compute together on memory that all of them see.
//
//   ASSIGN_OR_RETURN(auto group, HostGroup::Join({.name = "job-7", .rank = rank, .ranks = 4}));
//   ASSIGN_OR_RETURN(const HostGroup::Memory memory, group->Allocate(bytes));
//   ... fill memory.data ...
//   RETURN_IF_ERROR(group->Run({.operation = HostOperation::kAllReduce, .key = 1, .elements = n,
//                               .element_bytes = 4, .values = memory.data, .merge = AddFloats}));
//
// Every member has an arena that the others map. Values that lie in the arena are merged
// straight from there, and results are written straight into the memory of all members
// (transport/host_schedule.h). Other values are copied into the arena and back, but for a few
// bytes, which go by the board (transport/host_board.h).
//
// Only processes of the same user are members. If one dies, if members do not agree on an
// operation, or if one does not come to it in time, the group fails for all of them, with the
// same error. Elements are merged in the order of ranks, so that all members get the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/transport/host_board.h"
#include "thalweg/transport/host_schedule.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

struct HostGroupOptions {
  std::string name;  // the same for all members, and for no other group; at most 64 characters
  int rank = 0;
  int ranks = 1;
  std::vector<std::string> names;              // what errors call the members, by rank; may be missing
  size_t arena_bytes = size_t{1} << 30;        // an upper limit: memory is taken as it is used
  absl::Duration timeout = absl::Seconds(60);  // until all have joined
  const Cancellation* cancellation = nullptr;  // of Join(); borrowed
};

// What one member brings to an operation, and what it gets.
struct HostCall {
  using Merge = void (*)(void* into, const void* from, int64_t n);
  using Finish = void (*)(void* values, int64_t n, int members);

  HostOperation operation = HostOperation::kBarrier;
  uint64_t key = 0;  // the same for all members, and for no other operation at that time; not 0
  int64_t elements = 0;
  uint32_t element_bytes = 0;
  uint32_t tag = 0;  // of type and merge: members must agree
  int root = 0;
  void* values = nullptr;   // in an arena or elsewhere
  void* results = nullptr;  // of kAllToAll; for all others, in place of the values
  Merge merge = nullptr;
  Finish finish = nullptr;  // after all are merged; may be missing
  absl::Duration timeout = absl::Seconds(60);
};

// Thread-safe.
class HostGroup {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  // Memory in this member's arena, until the last copy goes.
  struct Memory {
    char* data = nullptr;
    std::shared_ptr<const void> owner;
  };

  // Waits until all members have joined. DEADLINE_EXCEEDED, naming the ranks that are missing.
  static absl::StatusOr<std::unique_ptr<HostGroup>> Join(const HostGroupOptions& options);
  ~HostGroup();
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // RESOURCE_EXHAUSTED if the arena is full. The group must outlive it.
  absl::StatusOr<Memory> Allocate(size_t bytes);

  // Waits for the result.
  absl::Status Run(const HostCall& call);
  // `done` runs once, on this thread or on one of the group's. The memory of the call must
  // live until then.
  void Start(const HostCall& call, Done done);

  // Ends the group for all members.
  void Fail(const absl::Status& why) { board_->Fail(why); }
  absl::Status status() const { return board_->status(); }

 private:
  struct Pending;

  HostGroup(const HostGroupOptions& options, std::unique_ptr<HostBoard> board,
            std::vector<std::shared_ptr<SharedMemory>> arenas, std::vector<FileHandle> peers,
            std::vector<int> peer_ranks);

  absl::Status Prepare(Pending& p);
  bool CanAdvance(const Pending& p) const;
  bool Advance(Pending& p);
  void Publish(Pending& p);
  absl::Status CheckEntries(Pending& p);
  void MergeInline(Pending& p);
  void DoMoves(Pending& p);
  static void CopyBack(Pending& p);
  absl::Status Overdue(const Pending& p) const;
  bool OwnsMemory(const void* data, size_t bytes) const;

  std::string Name(int rank) const;  // for errors

  void Watch();
  void Work();

  const int rank_, ranks_;
  const std::vector<std::string> names_;
  const bool spin_;
  const std::unique_ptr<HostBoard> board_;
  const std::vector<std::shared_ptr<SharedMemory>> arenas_;  // by rank
  const std::vector<FileHandle> peers_;                      // sockets: one that closes has lost its member
  const std::vector<int> peer_ranks_;
  FileHandle stop_;  // an event that ends Watch()

  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<size_t, size_t> used_ ABSL_GUARDED_BY(mutex_);                  // of this member's arena: begin -> end
  std::vector<std::unique_ptr<Pending>> pending_ ABSL_GUARDED_BY(mutex_);  // that Start() began
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;                           // a worker does, for all of these
  std::vector<std::unique_ptr<Thread>> workers_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> watcher_;
};

}  // namespace thalweg
