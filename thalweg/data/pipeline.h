// SPDX-License-Identifier: Apache-2.0
// From files to batches: reads records, shuffles and decodes them, and puts
// batches together, on threads of its own and ahead of who uses them.
//
//   Pipeline batches({.files = {"train.csv"},
//                     .format = TextLines({.skip_lines = 1}),
//                     .decode = DecodeCsv({kFloat, kFloat, kInt64}),
//                     .batch_size = 128,
//                     .shuffle = 10000,
//                     .epochs = 10});
//   for (const Tensors& batch : batches) Train(batch[0], batch[1], batch[2]);
//   RETURN_IF_ERROR(batches.status());
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"
#include "thalweg/data/records.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg::data {

// The components of an example or a batch.
using Tensors = std::vector<Tensor>;

// A record of a file, for a decoder.
struct Record {
  std::string bytes;  // contents
  // Different for every record and epoch, the same in every run: for random distortions.
  uint64_t seed = 0;
  int file = 0;        // index of its file
  int64_t number = 0;  // position in its file, from 0
};

// Decodes a record into the tensors of an example. All examples must have the same types and
// shapes. Called from several threads at once.
using Decoder = std::function<absl::StatusOr<Tensors>(const Record&)>;

// Which files a Pipeline reads, how it decodes and orders records, and how it batches them.
struct PipelineOptions {
  // Paths or shell patterns ("train-*.tfrecord"). Each must match at least one file.
  std::vector<std::string> files;
  RecordFormat format;          // how files are divided into records
  Decoder decode;               // turns a record into tensors
  int64_t batch_size = 1;       // examples per batch
  bool drop_remainder = false;  // drop the smaller batch at the end

  // Size of the shuffle buffer in records; 0 keeps the order of the files. If it is not 0, the
  // order of the files is shuffled too, differently in every epoch.
  int64_t shuffle = 0;
  uint64_t seed = 1;   // seed of the shuffle and of Record::seed
  int64_t epochs = 1;  // number of passes through all files; 0: repeat forever

  // Take every num_shards-th record, beginning with the one at position `shard`.
  int shard = 0;
  int num_shards = 1;  // number of workers that share the files

  int threads = 2;                               // threads that decode
  int prefetch = 4;                              // batches that are prepared in advance, at most
  FileSystem* file_system = &PosixFileSystem();  // file system to read from; borrowed
};

// Reads, shuffles, decodes and batches records on background threads. The batches and their
// order depend on the options only, not on the number of threads. Holds at most `shuffle`
// records and `prefetch` batches. One thread at a time may call Next() or loop over it:
//
//   for (const Tensors& batch : pipeline) ...
//   RETURN_IF_ERROR(pipeline.status());
class Pipeline {
 public:
  // Starts reading. Next() returns the error of wrong options.
  explicit Pipeline(const PipelineOptions& options);
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  // Returns the next batch, its examples stacked; nullopt at the end. An error names the file and
  // the record. Every later call returns it again.
  absl::StatusOr<std::optional<Tensors>> Next();
  // The error that ended a loop; OK if it ended with the data.
  const absl::Status& status() const { return status_; }
  // Makes a waiting Next() and all later ones return CANCELLED. Call it from any thread.
  void Stop();

  /// @cond INTERNAL
  struct End {};
  class Iterator {
   public:
    explicit Iterator(Pipeline* pipeline) : pipeline_(pipeline) { ++*this; }
    const Tensors& operator*() const { return *batch_; }
    Iterator& operator++();
    bool operator!=(End) const { return batch_.has_value(); }

   private:
    Pipeline* const pipeline_;
    std::optional<Tensors> batch_;
  };
  Iterator begin() { return Iterator(this); }
  End end() { return {}; }
  /// @endcond

 private:
  class Core;
  std::unique_ptr<Core> core_;
  absl::Status status_;
};

// Stacks examples into a batch. INVALID_ARGUMENT, naming the example, if types or shapes
// differ.
absl::StatusOr<Tensors> StackExamples(const std::vector<Tensors>& examples);

}  // namespace thalweg::data
