// SPDX-License-Identifier: Apache-2.0
// Approximate quantiles of a stream of weighted numbers, as TensorFlow's boosted trees compute
// them: the same input gives the same boundaries.
//
// A summary is a sorted list of values with bounds of their ranks. Summaries are merged without
// loss and compressed with a known loss, level by level, so that the total error stays below
// epsilon (Zhang and Wang, "A fast algorithm for
// approximate quantiles in high speed data streams", 2007; the weights are those
// of XGBoost, 2016).
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg {

class QuantileSummary {
 public:
  struct Entry {
    float value;
    float weight;
    float min_rank;  // lower bound of the rank
    float max_rank;  // upper bound of the rank
    float PreviousMax() const { return max_rank - weight; }
    float NextMin() const { return min_rank + weight; }
  };

  QuantileSummary() = default;
  // REQUIRES: the entries are sorted by value.
  explicit QuantileSummary(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  const std::vector<Entry>& entries() const { return entries_; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  float total() const { return entries_.empty() ? 0 : entries_.back().max_rank; }

  void Merge(const QuantileSummary& other);
  // Reduces the summary to about `size` entries. Adds at most max(1 / size, epsilon) to the
  // error.
  void Compress(int64_t size, double epsilon);

  // Values that divide the numbers into about `count` parts, including the first and the last
  // value.
  std::vector<float> Boundaries(int64_t count) const;
  // Exactly count + 1 values, some of which may be equal.
  std::vector<float> Quantiles(int64_t count) const;

 private:
  double Error() const;

  std::vector<Entry> entries_;
};

class QuantileStream {
 public:
  // REQUIRES: 0 < epsilon < 1, max_elements > 0.
  QuantileStream(double epsilon, int64_t max_elements);

  // Ignores numbers with a weight of 0 or less.
  void Push(float value, float weight);
  void Push(QuantileSummary summary);
  // Returns the summary of all numbers and empties the stream.
  QuantileSummary Finish();

 private:
  struct Number {
    float value;
    float weight;
  };
  void FlushBuffer();
  void Propagate(QuantileSummary summary);

  double epsilon_;
  int64_t block_ = 2;  // entries per level
  int64_t buffered_;   // how many numbers are collected before they become a summary
  std::vector<Number> buffer_;
  std::vector<QuantileSummary> levels_;
};

}  // namespace thalweg
