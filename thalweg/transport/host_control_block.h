// SPDX-License-Identifier: Apache-2.0
// The shared memory through which the members of a group on one host coordinate their
// operations. All members map it.
//
// Each operation occupies a slot. Every member writes its part into its own entry of the slot
// and increments the slot's counter. The last member to arrive releases the others. A member
// that waits sleeps on a futex of its own, its doorbell, which the others ring.
//
// Members do not trust each other: they copy what another member wrote before they check it,
// and check it before they use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// Thread-safe, between processes too.
class HostControlBlock {
 public:
  static constexpr int kMaxRanks = 64;
  static constexpr int kSlots = 64;
  // Values of at most this size are stored in the control block itself, not in an arena.
  static constexpr size_t kInlineBytes = 4096;

  // One member's part of an operation.
  struct Entry {
    // The member sets the state after all other fields. It is reset with the slot.
    enum State : uint32_t { kAbsent = 0, kPublished, kFinished };
    std::atomic<uint32_t> state;
    uint32_t operation;
    uint32_t tag;  // identifies the element type and the merge function
    int32_t root;
    uint32_t element_bytes;
    int32_t slices;
    uint64_t elements;
    uint64_t values;   // offset in the member's arena
    uint64_t results;  // offset in the member's arena
  };
  struct Slot {
    std::atomic<uint64_t> key;       // 0: free
    std::atomic<uint32_t> arrived;   // members that have written their entry; see Abandon()
    std::atomic<uint32_t> finished;  // members that have finished their copies and merges
    std::atomic<uint32_t> left;      // members that have left the slot
  };

  static absl::StatusOr<std::unique_ptr<HostControlBlock>> Create(int ranks);
  // INVALID_ARGUMENT if the memory is too small for the group.
  static absl::StatusOr<std::unique_ptr<HostControlBlock>> Of(std::shared_ptr<SharedMemory> memory, int ranks);

  int fd() const { return memory_->fd(); }
  Slot& slot(int i) const { return *reinterpret_cast<Slot*>(memory_->data() + SlotOffset(i)); }
  Entry& entry(int slot, int rank) const {
    return *reinterpret_cast<Entry*>(memory_->data() + SlotOffset(slot) + kLine * (1 + rank));
  }
  char* inline_values(int slot, int rank) const {
    return memory_->data() + SlotOffset(kSlots) + (static_cast<size_t>(slot) * ranks_ + rank) * kInlineBytes;
  }

  // Returns the slot of an operation, and allocates one if it has none yet. Returns -1 if no slot is free.
  int FindSlot(uint64_t key);
  // Whether FindSlot() would probably succeed. Does not take the lock.
  bool HasSlot(uint64_t key) const { return Search(key, key) >= 0 || Search(key, 0) >= 0; }
  // Whether all members have arrived at the operation of the slot and none has abandoned it.
  bool AllArrived(int slot) const {
    return this->slot(slot).arrived.load(std::memory_order_acquire) == static_cast<uint32_t>(ranks_);
  }
  // Withdraws this member from an operation at which it has arrived. Returns false if all members
  // have arrived: the member must then take part. After true, AllArrived() stays false for all members.
  bool Abandon(int slot);
  // Leaves the slot. The last member to leave frees it.
  void LeaveSlot(int slot);

  // Wakes members so that they check their conditions again.
  void Ring(int rank);
  void RingAll();
  // Returns when `ready` returns true or the deadline has passed. If `spin` is set, spins for a short
  // time first. Then sleeps until the doorbell of `rank` rings.
  void Wait(int rank, bool spin, absl::Time deadline, absl::FunctionRef<bool()> ready);

  // Fails the group for all members. The first reason is kept. `step` is the step that has failed, or 0
  // if the group itself cannot continue.
  void Fail(const absl::Status& why, int64_t step);
  bool failed() const { return head().failed.load(std::memory_order_acquire) != 0; }
  absl::Status status() const;
  // Whether a member is gone, so that operations in progress will not finish. If only a step has failed, all members
  // still finish operations that they have begun.
  bool lost() const { return head().lost.load(std::memory_order_acquire) != 0; }
  int64_t failed_step() const { return head().failed_step.load(std::memory_order_acquire); }

 private:
  static constexpr size_t kLine = 64;
  static constexpr uint32_t kAbandoned = uint32_t{1} << 31;  // in Slot::arrived
  static constexpr size_t kMaxMessage = 512;
  struct Head {
    std::atomic<uint32_t> lock;    // held while a member looks for a slot
    std::atomic<uint32_t> claim;   // 1 once a member has claimed the reason, to write it
    std::atomic<uint32_t> failed;  // a status code once the reason is complete, 0 before
    std::atomic<int64_t> failed_step;
    std::atomic<uint32_t> lost;
    char reason[kMaxMessage];
  };
  struct Doorbell {
    std::atomic<uint32_t> rung;
    std::atomic<uint32_t> sleepers;
  };
  static constexpr size_t kHeadBytes = (sizeof(Head) + kLine - 1) / kLine * kLine;

  HostControlBlock(std::shared_ptr<SharedMemory> memory, int ranks) : memory_(std::move(memory)), ranks_(ranks) {}
  static size_t Bytes(int ranks);
  int Search(uint64_t start, uint64_t key) const;
  size_t SlotOffset(int i) const { return kHeadBytes + kLine * ranks_ + i * kLine * (1 + ranks_); }
  Head& head() const { return *reinterpret_cast<Head*>(memory_->data()); }
  Doorbell& doorbell(int rank) const {
    return *reinterpret_cast<Doorbell*>(memory_->data() + kHeadBytes + kLine * rank);
  }

  const std::shared_ptr<SharedMemory> memory_;
  const int ranks_;
};
static_assert(sizeof(HostControlBlock::Entry) <= 64 && sizeof(HostControlBlock::Slot) <= 64);

}  // namespace thalweg
