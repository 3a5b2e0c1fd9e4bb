// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/variable_rows.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace thalweg {
namespace {

size_t PageSize() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Writes a byte of a private page as it is, so that the kernel gives the mapping a
// page of its own. A reader on another thread sees the same bytes before and
// after, but the thread sanitizer cannot know that.
__attribute__((no_sanitize("thread"), noinline)) void CopyPage(char* page) {
  char byte = __atomic_load_n(page, __ATOMIC_RELAXED);
  __atomic_compare_exchange_n(page, &byte, byte, /*weak=*/false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

}  // namespace

struct VariableRows::View {
  View(char* data, size_t bytes) : data(data), bytes(bytes), copied((bytes / PageSize() + 64) / 64) {}
  ~View() { munmap(data, bytes); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  char* const data;
  const size_t bytes;
  std::vector<uint64_t> copied;  // a bit per page: no longer the file's
};

std::shared_ptr<VariableRows> VariableRows::Create(size_t bytes) {
  const int fd = memfd_create("thalweg-variable", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  auto rows = std::shared_ptr<VariableRows>(new VariableRows(fd, bytes));
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? rows : nullptr;
}

VariableRows::~VariableRows() {
  if (data_ != nullptr) munmap(data_, bytes_);
  close(fd_);
}

bool VariableRows::Write(size_t offset, const void* from, size_t bytes) {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t done = pwrite(fd_, at, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    offset += static_cast<size_t>(done);
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool VariableRows::Map() {
  void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (mapped == MAP_FAILED) return false;
  data_ = mapped;
  return true;
}

Tensor VariableRows::AsTensor(DType dtype, const Shape& shape) {
  return Tensor(dtype, shape, BufferPtr(Buffer::Wrap(data_, bytes_, [self = shared_from_this()] {})), data_);
}

Tensor VariableRows::Snapshot(DType dtype, const Shape& shape) {
  std::shared_ptr<View> view = latest_.lock();
  if (view == nullptr) {
    void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd_, 0);
    if (mapped == MAP_FAILED) return {};
    view = std::make_shared<View>(static_cast<char*>(mapped), bytes_);
    std::erase_if(views_, [](const std::weak_ptr<View>& v) { return v.expired(); });
    views_.push_back(view);
    latest_ = view;
  }
  char* const data = view->data;
  return Tensor(dtype, shape, BufferPtr(Buffer::Wrap(data, bytes_, [view = std::move(view)] {})), data);
}

void VariableRows::Preserve(size_t begin, size_t end) {
  latest_.reset();
  if (views_.empty() || begin >= end) return;
  const size_t page_size = PageSize();
  bool some_gone = false;
  for (const std::weak_ptr<View>& held : views_) {
    // Held while its pages are touched: its last reader may let go at any time.
    const std::shared_ptr<View> view = held.lock();
    some_gone = some_gone || view == nullptr;
    if (view == nullptr) continue;
    for (size_t page = begin / page_size; page * page_size < end; ++page) {
      uint64_t& word = view->copied[page / 64];
      const uint64_t bit = uint64_t{1} << (page % 64);
      if ((word & bit) != 0) continue;
      CopyPage(view->data + page * page_size);
      word |= bit;
    }
  }
  if (some_gone) std::erase_if(views_, [](const std::weak_ptr<View>& v) { return v.expired(); });
}

}  // namespace thalweg
