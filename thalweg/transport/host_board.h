// The memory in which the members of a group on one host tell each other what they are
// about: a *board* that all of them map.
//
// An operation takes a slot of the board. Every member writes what it brings into its own
// entry and counts itself in; the last to come lets all of them go on. Members that wait
// sleep on a word of their own, their bell, which others ring.
//
// What others have written is copied before it is checked, and checked before it is used.
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

class HostBoard {
 public:
  static constexpr int kMaxRanks = 64;
  static constexpr int kSlots = 64;
  // Values of up to so many bytes lie on the board itself.
  static constexpr size_t kInlineBytes = 4096;

  // What a member brings to an operation.
  struct Entry {
    // Set by the member after the rest, and cleared with the slot.
    enum State : uint32_t { kAbsent = 0, kPublished, kFinished };
    std::atomic<uint32_t> state;
    uint32_t operation;
    uint32_t tag;  // of the element type and how elements are merged
    int32_t root;
    uint32_t element_bytes;
    uint64_t elements;
    uint64_t values;   // where they begin in the member's arena
    uint64_t results;  // where they go
  };
  struct Slot {
    std::atomic<uint64_t> key;       // 0: free
    std::atomic<uint32_t> arrived;   // members that have written their entry
    std::atomic<uint32_t> finished;  // members that have done their moves
    std::atomic<uint32_t> left;      // members that need the slot no more
  };

  static absl::StatusOr<std::unique_ptr<HostBoard>> Create(int ranks);
  // INVALID_ARGUMENT if the memory is too small for the group.
  static absl::StatusOr<std::unique_ptr<HostBoard>> Of(std::shared_ptr<SharedMemory> memory, int ranks);

  int fd() const { return memory_->fd(); }
  Slot& slot(int i) const { return *reinterpret_cast<Slot*>(memory_->data() + SlotOffset(i)); }
  Entry& entry(int slot, int rank) const {
    return *reinterpret_cast<Entry*>(memory_->data() + SlotOffset(slot) + kLine * (1 + rank));
  }
  char* inline_values(int slot, int rank) const {
    return memory_->data() + SlotOffset(kSlots) + (static_cast<size_t>(slot) * ranks_ + rank) * kInlineBytes;
  }

  // The slot of an operation: taken if it has none yet. -1 if all are taken.
  int FindSlot(uint64_t key);
  // True if FindSlot() would succeed, as far as can be seen without a lock.
  bool HasSlot(uint64_t key) const { return Search(key, key) >= 0 || Search(key, 0) >= 0; }
  // This member needs the slot no more. The last one frees it.
  void LeaveSlot(int slot);

  // Lets members that wait look again.
  void Ring(int rank);
  void RingAll();
  // Returns when `ready` does, when the deadline is over, or when the group has failed. Spins for
  // a short time if `spin`, and then sleeps until the bell of `rank` rings.
  void Wait(int rank, bool spin, absl::Time deadline, absl::FunctionRef<bool()> ready);

  // Ends the group for all members; the first reason stays.
  void Fail(const absl::Status& why);
  bool failed() const { return head().failed.load(std::memory_order_acquire) != 0; }
  absl::Status status() const;

 private:
  static constexpr size_t kLine = 64;
  static constexpr size_t kMaxMessage = 512;
  struct Head {
    std::atomic<uint32_t> lock;    // of the search for a slot
    std::atomic<uint32_t> claim;   // who writes the reason
    std::atomic<uint32_t> failed;  // 0, or a status code: the reason is complete
    char reason[kMaxMessage];
  };
  struct Bell {
    std::atomic<uint32_t> rung;
    std::atomic<uint32_t> sleepers;
  };
  static constexpr size_t kHeadBytes = (sizeof(Head) + kLine - 1) / kLine * kLine;

  HostBoard(std::shared_ptr<SharedMemory> memory, int ranks) : memory_(std::move(memory)), ranks_(ranks) {}
  static size_t Bytes(int ranks);
  int Search(uint64_t start, uint64_t key) const;
  size_t SlotOffset(int i) const { return kHeadBytes + kLine * ranks_ + i * kLine * (1 + ranks_); }
  Head& head() const { return *reinterpret_cast<Head*>(memory_->data()); }
  Bell& bell(int rank) const { return *reinterpret_cast<Bell*>(memory_->data() + kHeadBytes + kLine * rank); }

  const std::shared_ptr<SharedMemory> memory_;
  const int ranks_;
};
static_assert(sizeof(HostBoard::Entry) <= 64 && sizeof(HostBoard::Slot) <= 64);

}  // namespace thalweg
