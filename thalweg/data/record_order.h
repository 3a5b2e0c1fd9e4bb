// SPDX-License-Identifier: Apache-2.0
// Determines the order in which a pipeline reads records from its files.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/data/pipeline.h"

namespace thalweg::data {

// Iterates over the files, epoch by epoch, with a shuffle buffer. Not thread-safe.
class RecordOrder {
 public:
  explicit RecordOrder(const PipelineOptions& options) : options_(options) {}

  // Returns false at the end. Errors name the file and the record.
  absl::StatusOr<bool> Next(Record* record);

 private:
  void BeginEpoch();
  // Reads the next record of this shard in file order. Returns false at the end of the epoch.
  absl::StatusOr<bool> Read(Record* record);
  absl::StatusOr<bool> ReadFile(Record* record);

  const PipelineOptions& options_;
  int64_t epoch_ = -1;  // the current epoch
  int64_t taken_ = 0;   // records read in this epoch
  std::mt19937_64 random_;
  std::vector<int> file_order_;
  size_t next_file_ = 0;  // index in file_order_
  std::unique_ptr<RecordSource> source_;
  int file_ = 0;         // the file that source_ reads
  int64_t number_ = 0;   // index of its next record
  bool drained_ = true;  // all records of this epoch are read
  std::vector<Record> buffer_;
};

}  // namespace thalweg::data
