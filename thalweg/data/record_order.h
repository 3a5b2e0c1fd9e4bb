// The order in which a pipeline takes records from its files.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/data/pipeline.h"

namespace thalweg::data {

// Goes through the files, epoch by epoch, and through the buffer that shuffles.
// Not thread-safe.
class RecordOrder {
 public:
  explicit RecordOrder(const PipelineOptions& options) : options_(options) {}

  // False at the end. Errors name the file and the record.
  absl::StatusOr<bool> Next(Record* record);

 private:
  void BeginEpoch();
  // The next record of this shard in the order of the files; false at the end
  // of the epoch.
  absl::StatusOr<bool> Read(Record* record);
  absl::StatusOr<bool> ReadFile(Record* record);

  const PipelineOptions& options_;
  int64_t epoch_ = -1;  // the current one
  int64_t taken_ = 0;   // records of this epoch
  std::mt19937_64 random_;
  std::vector<int> file_order_;
  size_t next_file_ = 0;  // in file_order_
  std::unique_ptr<RecordSource> source_;
  int file_ = 0;         // of source_
  int64_t number_ = 0;   // of its next record
  bool drained_ = true;  // nothing more to read in this epoch
  std::vector<Record> buffer_;
};

}  // namespace thalweg::data
