// SPDX-License-Identifier: Apache-2.0
// VariableRows: memory for a large table of which updates change a few rows in
// place while others read snapshots of all of it.
//
// The table is a memory file, mapped twice or more: the variable works on a shared
// mapping, and every snapshot is a private mapping of the same file. Both show the
// same pages. Before a row changes, the writer has the kernel copy the pages of
// that row in every snapshot, by writing to them there (Preserve). Taking a
// snapshot thus copies nothing, and an update pays for the pages that it touches
// first since a snapshot was taken, whatever the size of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The variable that has it guards it by its lock, but for Write() and Map(), which
// it calls before others see the object. Snapshots may be released on any thread.
class VariableRows : public std::enable_shared_from_this<VariableRows> {
 public:
  // Tables below this size are copied: that is faster than mapping them.
  static constexpr size_t kMinBytes = size_t{1} << 18;

  // nullptr if the system has no memory files or no descriptors left.
  static std::shared_ptr<VariableRows> Create(size_t bytes);
  ~VariableRows();
  VariableRows(const VariableRows&) = delete;
  VariableRows& operator=(const VariableRows&) = delete;

  // Fills a part of the file. False if there is no memory for it.
  [[nodiscard]] bool Write(size_t offset, const void* from, size_t bytes);
  // Maps the file; data() is valid from then on. False if that fails.
  [[nodiscard]] bool Map();
  void* data() const { return data_; }

  // A tensor of this memory, which keeps it alive. Only the variable has it.
  Tensor AsTensor(DType dtype, const Shape& shape);
  // A tensor of the contents as they are now; no value if no mapping can be had.
  Tensor Snapshot(DType dtype, const Shape& shape);
  // Called before [begin, end) of the memory is written: snapshots keep what is
  // there now.
  void Preserve(size_t begin, size_t end);

 private:
  struct View;  // the mapping of a snapshot

  VariableRows(int fd, size_t bytes) : fd_(fd), bytes_(bytes) {}

  const int fd_;
  const size_t bytes_;
  void* data_ = nullptr;
  std::vector<std::weak_ptr<View>> views_;  // that others may still hold
  std::weak_ptr<View> latest_;              // shows the contents as they are now
};

}  // namespace thalweg
