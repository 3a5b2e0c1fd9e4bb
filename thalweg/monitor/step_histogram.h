// SPDX-License-Identifier: Apache-2.0
// A histogram of durations with fixed buckets.
#pragma once

#include <array>
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
    int i = 0;
    while (i < kBounds && nanos > BoundNanos(i)) ++i;
    ++counts_[static_cast<size_t>(i)];
    sum_nanos_ += nanos;
    ++count_;
  }

  int64_t count() const { return count_; }
  int64_t sum_nanos() const { return sum_nanos_; }
  // Number of durations in bucket i; the last bucket, kBounds, has no upper bound.
  int64_t in_bucket(int i) const { return counts_[static_cast<size_t>(i)]; }

 private:
  std::array<int64_t, kBounds + 1> counts_{};
  int64_t sum_nanos_ = 0;
  int64_t count_ = 0;
};

}  // namespace thalweg
