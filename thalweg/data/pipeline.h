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
  std::string bytes;
  // Of its own for every record and epoch, and the same in every run: for
  // decoders that distort.
  uint64_t seed = 0;
  int file = 0;        // which of the files
  int64_t number = 0;  // in its file, from 0
};

// Makes an example of a record: tensors of the same types and shapes for all.
// Called from several threads at once.
using Decoder = std::function<absl::StatusOr<Tensors>(const Record&)>;

struct PipelineOptions {
  // Names, or patterns of the shell ("train-*.tfrecord"), each with a file at least.
  std::vector<std::string> files;
  RecordFormat format;
  Decoder decode;
  int64_t batch_size = 1;
  bool drop_remainder = false;  // no smaller batch at the end

  // How many records wait to be chosen from at random; 0 keeps the order of the
  // files. With it, files are shuffled too, differently in every epoch.
  int64_t shuffle = 0;
  uint64_t seed = 1;
  int64_t epochs = 1;  // times through all files; 0 is without end

  // Of num_shards workers, this one takes every num_shards-th record.
  int shard = 0;
  int num_shards = 1;

  int threads = 2;
  int prefetch = 4;  // batches that are ready or in the making, at most
  FileSystem* file_system = &PosixFileSystem();
};

// The batches and their order follow from the options, however many threads
// there are. It holds at most `shuffle` records and `prefetch` batches. Next()
// and the loop are for one thread.
class Pipeline {
 public:
  explicit Pipeline(PipelineOptions options);
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  // The examples of a batch, stacked; nothing at the end. An error names the
  // file and the record, and comes again with every later call.
  absl::StatusOr<std::optional<Tensors>> Next();
  // Of the Next() that ended a loop.
  const absl::Status& status() const { return status_; }
  // Lets a Next() that waits, and all later ones, return CANCELLED. From any
  // thread.
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

// Stacks examples to a batch. INVALID_ARGUMENT, saying which example, if types
// or shapes differ.
absl::StatusOr<Tensors> StackExamples(const std::vector<Tensors>& examples);

}  // namespace thalweg::data
