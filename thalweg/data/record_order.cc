// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/record_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"

namespace thalweg::data {
namespace {

// Spreads the bits of a number (the finalizer of SplitMix64).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void RecordOrder::BeginEpoch() {
  ++epoch_;
  taken_ = 0;
  next_file_ = 0;
  drained_ = false;
  random_.seed(Mix(options_.seed ^ Mix(static_cast<uint64_t>(epoch_))));
  file_order_.resize(options_.files.size());
  std::iota(file_order_.begin(), file_order_.end(), 0);
  if (options_.shuffle <= 0) return;
  for (size_t i = file_order_.size(); i > 1; --i) std::swap(file_order_[i - 1], file_order_[random_() % i]);
}

absl::StatusOr<bool> RecordOrder::Next(Record* record) {
  for (;;) {
    if (drained_ && buffer_.empty()) {
      // An epoch without records: all other epochs would be empty, too.
      if (epoch_ >= 0 && taken_ == 0) {
        const size_t others = options_.files.size() - 1;
        const absl::Status nothing =
            FailedPrecondition("no records for shard ", options_.shard, " of ", options_.num_shards, " in ",
                               options_.files[0], others > 0 ? absl::StrCat(" and ", others, " more") : "");
        if (options_.epochs <= 0) return nothing;
        LOG(WARNING) << "pipeline: " << nothing.message();
        return false;
      }
      if (options_.epochs > 0 && epoch_ + 1 >= options_.epochs) return false;
      BeginEpoch();
    }
    const size_t wanted = static_cast<size_t>(std::max<int64_t>(options_.shuffle, 1));
    while (!drained_ && buffer_.size() < wanted) {
      Record next;
      ASSIGN_OR_RETURN(const bool found, Read(&next));
      if (found) {
        buffer_.push_back(std::move(next));
      } else {
        drained_ = true;
      }
    }
    if (buffer_.empty()) continue;
    if (buffer_.size() > 1) std::swap(buffer_[random_() % buffer_.size()], buffer_.back());
    *record = std::move(buffer_.back());
    buffer_.pop_back();
    ++taken_;
    return true;
  }
}

absl::StatusOr<bool> RecordOrder::Read(Record* record) {
  for (;;) {
    if (source_ == nullptr) {
      if (next_file_ == file_order_.size()) return false;
      file_ = file_order_[next_file_++];
      number_ = 0;
    }
    absl::StatusOr<bool> found = ReadFile(record);
    if (!found.ok()) {
      return Prepend(found.status(), absl::StrCat(options_.files[file_], ", record ", number_, ": "));
    }
    if (!*found) {
      source_ = nullptr;
      continue;
    }
    const int64_t number = number_++;
    // A file's number counts too, so that files of one record are shared out.
    if ((number + file_) % options_.num_shards != options_.shard) continue;
    record->file = file_;
    record->number = number;
    record->seed = Mix(options_.seed ^ Mix(static_cast<uint64_t>(epoch_) ^
                                           Mix(static_cast<uint64_t>(file_) ^ Mix(static_cast<uint64_t>(number)))));
    return true;
  }
}

absl::StatusOr<bool> RecordOrder::ReadFile(Record* record) {
  if (source_ == nullptr) {
    ASSIGN_OR_RETURN(source_, options_.format(options_.files[file_], *options_.file_system));
  }
  return source_->Next(&record->bytes);
}

}  // namespace thalweg::data
