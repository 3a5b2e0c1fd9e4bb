// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/variable.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "thalweg/base/exported_memory.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/variable_rows.h"

namespace thalweg {
namespace {

// Bytes that MoveToRows() copies at a time under the lock.
constexpr size_t kPieceBytes = size_t{1} << 17;
// Bytes that it copies again if one of their rows changes meanwhile; how many of these at a time,
// and how many times before it copies the rest at once.
constexpr size_t kBlockBytes = size_t{1} << 12;
constexpr size_t kBlocksAtOnce = 32;
constexpr int kMaxRounds = 1000;

// Two updates of rows without a change of the whole value: some optimizers assign
// their slots as a whole in every step, and then update a few rows.
constexpr int kRowUpdatesOfATable = 2;

bool IsPlain(DType dtype) { return dtype != kString && dtype != kResource && dtype != kVariant; }

// Values of this size are sent to other processes of the host. If this one must be copied for that, moves it once to
// where it need not, and returns true.
bool ExportIfSent(Tensor& value, Tensor* old) {
  if (!value.has_value() || !IsPlain(value.dtype())) return false;
  ExportedMemory& exports = ExportedMemory::Global();
  const auto bytes = static_cast<size_t>(value.TotalBytes());
  if (!exports.Wants(bytes) || exports.Holds(value.raw(), bytes) || !exports.HasRoom(bytes)) return false;
  // Room may be in pieces that are too small: then the value stays.
  absl::StatusOr<Tensor> moved = Tensor::Allocate(value.dtype(), value.shape());
  if (!moved.ok() || !exports.Holds(moved->raw(), bytes)) return false;
  std::memcpy(moved->raw(), value.raw(), bytes);
  *old = std::exchange(value, *std::move(moved));
  return true;
}

}  // namespace

// A value on its way to other memory: first all of it, in pieces, and then the blocks
// that changed after they were copied.
struct Variable::Move {
  std::shared_ptr<VariableRows> rows;
  uint64_t version = 0;         // version of the value that is moved
  size_t bytes = 0;             // size of the value
  size_t copied = 0;            // bytes from the beginning
  std::vector<size_t> changed;  // blocks of these to copy again
  std::vector<bool> is_changed;
  int rounds = 0;
  std::unique_ptr<char[]> stage = std::make_unique<char[]>(kPieceBytes);

  void MarkChanged(size_t begin, size_t end) {
    for (size_t block = begin / kBlockBytes; block * kBlockBytes < std::min(end, copied); ++block) {
      if (is_changed[block]) continue;
      is_changed[block] = true;
      changed.push_back(block);
    }
  }
};

Variable::Variable(std::string name, DType dtype, PartialShape shape)
    : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {}

Variable::~Variable() = default;

std::string Variable::Describe() const {
  MutexLock lock(&mutex_);
  return absl::StrCat("variable '", name_, "' of ", ToString(dtype_), " ",
                      value_.has_value() ? value_.shape().ToString() : "(not initialized)");
}

Tensor Variable::Read() const {
  Tensor old;  // dies after the lock
  {
    MutexLock lock(&mutex_);
    if (const std::shared_ptr<VariableRows> rows = CurrentRows()) return Snapshot(rows);
    if (!ShouldMove()) {
      if (ExportIfSent(value_, &old)) ++version_;
      return value_;
    }
  }
  MoveToRows();
  MutexLock lock(&mutex_);
  const std::shared_ptr<VariableRows> rows = CurrentRows();
  return rows != nullptr ? Snapshot(rows) : value_;
}

void Variable::Assign(Tensor value) {
  MutexLock lock(&mutex_);
  std::swap(mutable_value(), value);  // what was there dies after the lock
}

std::shared_ptr<VariableRows> Variable::CurrentRows() const {
  std::shared_ptr<VariableRows> rows = rows_.lock();
  return rows != nullptr && rows->data() == value_.raw() ? rows : nullptr;
}

Tensor Variable::Snapshot(const std::shared_ptr<VariableRows>& rows) const {
  Tensor snapshot = rows->Snapshot(value_.dtype(), value_.shape());
  if (snapshot.has_value()) return snapshot;
  // There is no mapping left: readers share the memory, and the next update copies it.
  rows_.reset();
  ++version_;
  return value_;
}

bool Variable::ShouldMove() const {
  return row_updates_ >= kRowUpdatesOfATable && move_ == nullptr && IsPlain(value_.dtype()) && value_.unique() &&
         static_cast<size_t>(value_.TotalBytes()) >= VariableRows::kMinBytes;
}

absl::Status Variable::MakeRowsWritable(absl::Span<const int64_t> rows, size_t row_bytes) {
  mutex_.AssertHeld();
  row_updates_ = std::min(row_updates_ + 1, kRowUpdatesOfATable);
  if (const std::shared_ptr<VariableRows> current = CurrentRows()) {
    for (const int64_t row : rows) current->Preserve(row * row_bytes, (row + 1) * row_bytes);
    return absl::OkStatus();
  }
  if (!value_.unique()) {
    ++version_;
    return MakeWritable(value_);
  }
  if (move_ == nullptr) return absl::OkStatus();
  for (const int64_t row : rows) move_->MarkChanged(row * row_bytes, (row + 1) * row_bytes);
  return absl::OkStatus();
}

void Variable::MoveToRows() const {
  Move move;
  {
    MutexLock lock(&mutex_);
    if (!ShouldMove()) return;
    move.bytes = static_cast<size_t>(value_.TotalBytes());
    move.rows = VariableRows::Create(move.bytes);
    if (move.rows == nullptr) return;
    move.version = version_;
    move.is_changed.resize((move.bytes + kBlockBytes - 1) / kBlockBytes);
    move_ = &move;
  }
  bool goes_on = true;
  while (goes_on && move.copied < move.bytes) goes_on = MovePiece(move);
  goes_on = goes_on && move.rows->Map();
  Tensor old;  // dies after the lock
  while (goes_on && !MoveChanged(move, &old)) std::this_thread::yield();
  MutexLock lock(&mutex_);
  move_ = nullptr;
}

// Copies one piece under the lock and writes it to the file without the lock, which
// others get in between. False if that cannot go on.
bool Variable::MovePiece(Move& move) const {
  size_t begin = 0, bytes = 0;
  {
    MutexLock lock(&mutex_);
    if (version_ != move.version) return false;
    begin = move.copied;
    bytes = std::min(kPieceBytes, move.bytes - begin);
    std::memcpy(move.stage.get(), static_cast<const char*>(value_.raw()) + begin, bytes);
    move.copied += bytes;
  }
  return move.rows->Write(begin, move.stage.get(), bytes);
}

// Copies some blocks that have changed. If those are all, the new memory becomes the
// value's. True when there is nothing more to do.
bool Variable::MoveChanged(Move& move, Tensor* old) const {
  MutexLock lock(&mutex_);
  if (version_ != move.version) return true;
  const bool is_last = ++move.rounds > kMaxRounds;
  for (size_t n = 0; !move.changed.empty() && (n < kBlocksAtOnce || is_last); ++n) {
    const size_t begin = move.changed.back() * kBlockBytes;
    move.is_changed[move.changed.back()] = false;
    move.changed.pop_back();
    std::memcpy(static_cast<char*>(move.rows->data()) + begin, static_cast<const char*>(value_.raw()) + begin,
                std::min(kBlockBytes, move.bytes - begin));
  }
  if (!move.changed.empty()) return false;
  *old = std::exchange(value_, move.rows->AsTensor(value_.dtype(), value_.shape()));
  rows_ = move.rows;
  ++version_;
  return true;
}

absl::Status MakeWritable(Tensor& value, Allocator& allocator) {
  if (value.unique()) return absl::OkStatus();
  if (value.has_value() && ExportedMemory::Global().Holds(value.raw(), 1)) {
    ExportedMemory::Global().Reclaim();  // readers in other processes may have let go of it
    if (value.unique()) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(value, value.TryClone(allocator));
  return absl::OkStatus();
}

}  // namespace thalweg
