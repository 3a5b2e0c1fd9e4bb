// SPDX-License-Identifier: Apache-2.0
// A histogram of durations with fixed buckets.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace thalweg {

// Buckets grow by a factor of 2 from 16 us to 4.7 hours: 31 bounds, no memory to allocate.
// Not thread-safe.
class DurationHistogram {
 public:
  static constexpr int kBounds = 31;

  // The upper bound of a bucket, inclusive.
  static constexpr int64_t BoundNanos(int i) { return int64_t{16'000} << i; }

  void Add(int64_t nanos) {
    ++counts_[BucketOf(nanos)];
    sum_nanos_ += nanos;
    ++count_;
  }

  int64_t count() const { return count_; }
  int64_t sum_nanos() const { return sum_nanos_; }
  // Number of durations in bucket i; the last bucket, kBounds, has no upper bound.
  int64_t in_bucket(int i) const { return counts_[static_cast<size_t>(i)]; }

 private:
  // The first bucket whose bound is not smaller.
  static size_t BucketOf(int64_t nanos) {
    if (nanos <= BoundNanos(0)) return 0;
    return std::min<size_t>(std::bit_width(static_cast<uint64_t>(nanos - 1) / BoundNanos(0)), kBounds);
  }

  std::array<int64_t, kBounds + 1> counts_{};
  int64_t sum_nanos_ = 0;
  int64_t count_ = 0;
};

}  // namespace thalweg
