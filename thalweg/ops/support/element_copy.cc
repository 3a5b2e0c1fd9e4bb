// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/element_copy.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/simd.h"
#include "thalweg/ops/support/element_string.h"

namespace thalweg {
namespace {

// A strided copy in as few dimensions as possible: without dimensions of size 1, and with mergeable dimensions
// merged.
struct CopyLoops {
  Dims dims;
  Dims from;
  Dims to;

  int rank() const { return static_cast<int>(dims.size()); }
  void Push(int64_t size, int64_t from_stride, int64_t to_stride) {
    if (size == 1) return;
    if (!dims.empty() && from.back() == size * from_stride && to.back() == size * to_stride) {
      dims.back() *= size;
      from.back() = from_stride;
      to.back() = to_stride;
      return;
    }
    dims.push_back(size);
    from.push_back(from_stride);
    to.push_back(to_stride);
  }
  void Remove(int i) {
    dims.erase(dims.begin() + i);
    from.erase(from.begin() + i);
    to.erase(to.begin() + i);
  }
  int64_t Count() const {
    int64_t n = 1;
    for (const int64_t d : dims) n *= d;
    return n;
  }
};

// Walks all indices of some loops in order, from the k-th on, keeping the
// offsets on both sides.
class Odometer {
 public:
  Odometer(const CopyLoops& loops, int64_t k) : loops_(loops), index_(loops.rank()) {
    for (int i = loops.rank() - 1; i >= 0; --i) {
      index_[i] = k % loops.dims[i];
      k /= loops.dims[i];
      from_ += index_[i] * loops.from[i];
      to_ += index_[i] * loops.to[i];
    }
  }
  int64_t from() const { return from_; }
  int64_t to() const { return to_; }
  void Next() {
    for (int i = loops_.rank() - 1; i >= 0; --i) {
      from_ += loops_.from[i];
      to_ += loops_.to[i];
      if (++index_[i] < loops_.dims[i]) return;
      from_ -= loops_.dims[i] * loops_.from[i];
      to_ -= loops_.dims[i] * loops_.to[i];
      index_[i] = 0;
    }
  }

 private:
  const CopyLoops& loops_;
  Dims index_;
  int64_t from_ = 0;
  int64_t to_ = 0;
};

// One dimension.
template <typename T>
void CopyRow(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (from_stride == 1 && to_stride == 1) {
    CopyElements(from, n, to);
  } else if (to_stride == 1) {
    if (from_stride == 0) {
      std::fill_n(to, n, *from);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * from_stride];
    }
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// Two dimensions, of which each side has another one contiguous: in blocks, so
// that every cache line is used up while it is near.
constexpr int64_t kTile = 16;

template <typename T>
THALWEG_SIMD void TransposeFullBlock(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  for (int64_t a = 0; a < kTile; ++a) {
    for (int64_t b = 0; b < kTile; ++b) to[a * to_stride + b] = from[a + b * from_stride];
  }
}

template <typename T>
void TransposeRows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t b = 0; b < cols; b += kTile) {
    const int64_t nb = std::min(kTile, cols - b);
    if (rows == kTile && nb == kTile) {
      TransposeFullBlock(from + b * from_stride, from_stride, to + b, to_stride);
      continue;
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = b; j < b + nb; ++j) to[i * to_stride + j] = from[i + j * from_stride];
    }
  }
}

template <typename T>
void CopyTransposed(KernelContext& c, CopyLoops loops, int contiguous, const T* from, T* to) {
  const int last = loops.rank() - 1;
  const int64_t rows = loops.dims[contiguous], cols = loops.dims[last];
  const int64_t to_stride = loops.to[contiguous], from_stride = loops.from[last];
  loops.Remove(last);
  loops.Remove(contiguous);
  const int64_t row_blocks = (rows + kTile - 1) / kTile;
  c.ParallelFor(loops.Count() * row_blocks, 0.8 * kTile * cols, [&](int64_t begin, int64_t end) {
    Odometer at(loops, begin / row_blocks);
    for (int64_t k = begin; k < end; ++k) {
      const int64_t row = k % row_blocks * kTile;
      TransposeRows(from + at.from() + row, from_stride, to + at.to() + row * to_stride, to_stride,
                    std::min(kTile, rows - row), cols);
      if (row + kTile >= rows) at.Next();
    }
  });
}

template <typename T>
void CopyLooped(KernelContext& c, const CopyLoops& loops, const T* from, T* to) {
  constexpr double kNanosPerByte = 0.15;
  if (loops.rank() == 0) {
    *to = *from;
    return;
  }
  const int last = loops.rank() - 1;
  const bool dense = loops.from[last] == 1 && loops.to[last] == 1;
  if (last == 0) {
    c.ParallelFor(loops.dims[0], dense ? sizeof(T) * kNanosPerByte : 0.7, [&](int64_t begin, int64_t end) {
      CopyRow(from + begin * loops.from[0], loops.from[0], to + begin * loops.to[0], loops.to[0], end - begin);
    });
    return;
  }
  if (loops.to[last] == 1 && loops.from[last] != 0 && !dense) {
    const auto contiguous = std::find(loops.from.begin(), loops.from.end() - 1, 1);
    if (contiguous != loops.from.end() - 1) {
      return CopyTransposed(c, loops, static_cast<int>(contiguous - loops.from.begin()), from, to);
    }
  }
  CopyLoops outer = loops;
  outer.Remove(last);
  const int64_t n = loops.dims[last], from_stride = loops.from[last], to_stride = loops.to[last];
  const double row_nanos = 2 + static_cast<double>(n) * (dense ? sizeof(T) * kNanosPerByte : 0.7);
  c.ParallelFor(outer.Count(), row_nanos, [&](int64_t begin, int64_t end) {
    Odometer at(outer, begin);
    for (int64_t k = begin; k < end; ++k, at.Next()) {
      CopyRow(from + at.from(), from_stride, to + at.to(), to_stride, n);
    }
  });
}

}  // namespace

Dims RowMajorStrides(absl::Span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

absl::Status CopyStrided(KernelContext& c, absl::Span<const int64_t> dims, const Tensor& from,
                         const StridedPlace& from_place, Tensor* to, const StridedPlace& to_place) {
  CopyLoops loops;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return absl::OkStatus();
    loops.Push(dims[i], from_place.strides[i], to_place.strides[i]);
  }
  return DispatchCopies(from.dtype(), [&]<typename T>() {
    CopyLooped<T>(c, loops, ElementData<T>(from) + from_place.offset, MutableElementData<T>(to) + to_place.offset);
    return absl::OkStatus();
  });
}

absl::Status ConcatRows(KernelContext& c, int first, absl::Span<const int64_t> widths, int64_t rows, Tensor* to) {
  return DispatchCopies(to->dtype(), [&]<typename T>() {
    T* const target = MutableElementData<T>(to);
    if (rows == 1) {
      T* at = target;
      for (size_t i = 0; i < widths.size(); at += widths[i++]) {
        const T* const from = ElementData<T>(c.input(first + static_cast<int>(i)));
        c.ParallelFor(widths[i], sizeof(T) * 0.15,
                      [&](int64_t begin, int64_t end) { CopyElements(from + begin, end - begin, at + begin); });
      }
      return absl::OkStatus();
    }
    int64_t width = 0;
    for (const int64_t w : widths) width += w;
    c.ParallelFor(rows, 2.0 * widths.size() + width * sizeof(T) * 0.15, [&](int64_t begin, int64_t end) {
      T* at = target + begin * width;
      for (int64_t row = begin; row < end; ++row) {
        for (size_t i = 0; i < widths.size(); at += widths[i++]) {
          CopyElements(ElementData<T>(c.input(first + static_cast<int>(i))) + row * widths[i], widths[i], at);
        }
      }
    });
    return absl::OkStatus();
  });
}

void ClearElements(Tensor* t) {
  if (const size_t size = ElementSize(t->dtype()); size != 0) {
    memset(t->raw(), 0, t->num_elements() * size);
    return;
  }
  const absl::Status status = DispatchCopies(t->dtype(), [&]<typename T>() {
    std::fill_n(MutableElementData<T>(t), t->num_elements(), T());
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status.message();
}

absl::Status FillElements(KernelContext& c, const Tensor& value, Tensor* t) {
  return DispatchCopies(t->dtype(), [&]<typename T>() {
    const T one = *ElementData<T>(value);
    T* const to = MutableElementData<T>(t);
    c.ParallelFor(t->num_elements(), sizeof(T) * 0.1,
                  [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, one); });
    return absl::OkStatus();
  });
}

}  // namespace thalweg
