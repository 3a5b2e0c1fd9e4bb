// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/trainers/quantiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace thalweg {

// Merges two sorted lists. The ranks of an entry grow by the ranks of its neighbours in the other list.
void QuantileSummary::Merge(const QuantileSummary& other) {
  if (other.entries_.empty()) return;
  if (entries_.empty()) {
    entries_ = other.entries_;
    return;
  }
  const std::vector<Entry> mine = std::move(entries_);
  const std::vector<Entry>& theirs = other.entries_;
  entries_.clear();
  entries_.reserve(mine.size() + theirs.size());
  float below_mine = 0, below_theirs = 0;  // ranks up to the last entry taken of each
  const auto take = [this](const Entry& e, float below, float above) {
    entries_.push_back({e.value, e.weight, e.min_rank + below, e.max_rank + above});
  };
  size_t i = 0, j = 0;
  while (i < mine.size() || j < theirs.size()) {
    if (j == theirs.size() || (i < mine.size() && mine[i].value < theirs[j].value)) {
      take(mine[i], below_theirs, j == theirs.size() ? theirs.back().max_rank : theirs[j].PreviousMax());
      below_mine = mine[i++].NextMin();
    } else if (i == mine.size() || theirs[j].value < mine[i].value) {
      take(theirs[j], below_mine, i == mine.size() ? mine.back().max_rank : mine[i].PreviousMax());
      below_theirs = theirs[j++].NextMin();
    } else {
      const Entry &a = mine[i++], &b = theirs[j++];
      entries_.push_back({a.value, a.weight + b.weight, a.min_rank + b.min_rank, a.max_rank + b.max_rank});
      below_mine = a.NextMin();
      below_theirs = b.NextMin();
    }
  }
}

// After each kept entry, drops entries as long as the gap in ranks is small enough. `credit` ensures that
// the requested number of entries is kept, evenly distributed.
void QuantileSummary::Compress(int64_t size, double epsilon) {
  size = std::max<int64_t>(size, 2);
  const int64_t count = this->size();
  if (count <= size) return;
  const double gap = total() * std::max(1.0 / static_cast<double>(size), epsilon);
  int64_t credit = 0, write = 1, read = 0, last = 0;
  while (read + 1 < count) {
    int64_t next = read + 1;
    while (next < count && credit < count && entries_[next].PreviousMax() - entries_[read].NextMin() <= gap) {
      credit += size;
      ++next;
    }
    read = next == read + 1 ? read + 1 : next - 1;
    entries_[write++] = entries_[read];
    last = read;
    credit -= count;
  }
  if (last + 1 < count) entries_[write++] = entries_.back();
  entries_.resize(write);
}

double QuantileSummary::Error() const {
  float most = 0;
  for (size_t i = 1; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    most = std::max({most, e.max_rank - e.min_rank - e.weight, e.PreviousMax() - entries_[i - 1].NextMin()});
  }
  return entries_.empty() ? 0 : static_cast<double>(most) / total();
}

std::vector<float> QuantileSummary::Boundaries(int64_t count) const {
  QuantileSummary compressed(entries_);
  const float epsilon = static_cast<float>(Error() + 1.0 / static_cast<double>(count));
  compressed.Compress(count, epsilon);
  std::vector<float> values;
  for (const Entry& e : compressed.entries_) values.push_back(e.value);
  return values;
}

std::vector<float> QuantileSummary::Quantiles(int64_t count) const {
  std::vector<float> values;
  if (entries_.empty()) return values;
  count = std::max<int64_t>(count, 2);
  size_t at = 0;
  for (int64_t rank = 0; rank <= count; ++rank) {
    const float twice = 2 * (static_cast<float>(rank) * entries_.back().max_rank / static_cast<float>(count));
    size_t next = at + 1;
    while (next < entries_.size() && twice >= entries_[next].min_rank + entries_[next].max_rank) ++next;
    at = next - 1;
    const bool lower = next == entries_.size() || twice < entries_[at].NextMin() + entries_[next].PreviousMax();
    values.push_back(entries_[lower ? at : next].value);
  }
  return values;
}

// Uses enough levels to hold max_elements: level l is filled by 2^l blocks. More levels need larger blocks
// to keep the error.
QuantileStream::QuantileStream(double epsilon, int64_t max_elements) : epsilon_(epsilon) {
  constexpr double kMost = static_cast<double>(int64_t{1} << 40);
  for (int level = 1; level < 60 && std::ldexp(static_cast<double>(block_), level) < static_cast<double>(max_elements);
       ++level) {
    block_ = static_cast<int64_t>(std::min(std::ceil(level / epsilon), kMost)) + 1;
  }
  block_ = std::max<int64_t>(block_, 2);
  buffered_ = std::max<int64_t>(std::min(2 * block_, max_elements), 1);
}

void QuantileStream::Push(float value, float weight) {
  if (weight > 0) buffer_.push_back({value, weight});
  if (static_cast<int64_t>(buffer_.size()) >= buffered_) FlushBuffer();
}

void QuantileStream::Push(QuantileSummary summary) {
  summary.Compress(block_, epsilon_);
  Propagate(std::move(summary));
}

QuantileSummary QuantileStream::Finish() {
  FlushBuffer();
  QuantileSummary all;
  for (const QuantileSummary& level : levels_) all.Merge(level);
  levels_.clear();
  return all;
}

void QuantileStream::FlushBuffer() {
  std::sort(buffer_.begin(), buffer_.end(), [](const Number& a, const Number& b) { return a.value < b.value; });
  std::vector<QuantileSummary::Entry> entries;
  for (const Number& n : buffer_) {
    if (!entries.empty() && entries.back().value == n.value) {
      entries.back().weight += n.weight;
    } else {
      entries.push_back({n.value, n.weight, 0, 0});
    }
  }
  float sum = 0;
  for (QuantileSummary::Entry& e : entries) {
    e.min_rank = sum;
    sum += e.weight;
    e.max_rank = sum;
  }
  buffer_.clear();
  Push(QuantileSummary(std::move(entries)));
}

// Stores a summary in the first level, or merges it with the one there and moves it to the next level.
void QuantileStream::Propagate(QuantileSummary summary) {
  if (summary.size() == 0) return;
  for (size_t level = 0;; ++level) {
    if (levels_.size() <= level) levels_.emplace_back();
    const bool empty = levels_[level].size() == 0;
    summary.Merge(levels_[level]);
    if (empty || summary.size() <= block_ + 1) {
      levels_[level] = std::move(summary);
      return;
    }
    summary.Compress(block_, epsilon_);
    levels_[level] = QuantileSummary();
  }
}

}  // namespace thalweg
