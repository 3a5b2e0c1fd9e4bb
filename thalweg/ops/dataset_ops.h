// SPDX-License-Identifier: Apache-2.0
// Datasets: sequences of examples that the graph itself reads, shuffles and batches.
//
//   const Dataset batches = Dataset::FromTextLines(s, Const(s, {"train.csv"})).Shuffle(10000).Batch(128).Repeat();
//   const DatasetIterator next = batches.MakeIterator();
//   session->Run({next.initializer});
//   session->Run({next.components[0]});       // OUT_OF_RANGE at the end
//
// Programs that prepare their batches in C++ use data::Pipeline (data/pipeline.h) instead.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// Gives the examples of a dataset one by one.
struct DatasetIterator {
  Output handle;                   // the iterator, a resource
  Operation initializer;           // starts at the first example; run it before the first step
  std::vector<Output> components;  // the next example; every step that runs one takes one
};

// Options of Dataset::Batch.
struct DatasetBatchOptions {
  bool drop_remainder = false;  // leave out the last batch if it is smaller than the others
};

// Options of Dataset::Shuffle.
struct DatasetShuffleOptions {
  // The seeds of the order. If both are 0, every run has another order.
  int64_t seed = 0;
  int64_t seed2 = 0;  // the second part of the seed
};

// A sequence of examples, each a tuple of tensors ("components"). A value; valid as long
// as the graph. Functions give new datasets and add their operations in the scope that the
// first one was made with.
class Dataset {
 public:
  // One example: these tensors.
  static Dataset FromTensors(const Scope& s, const std::vector<Output>& components);
  // As many examples as the tensors have rows.
  static Dataset FromTensorSlices(const Scope& s, const std::vector<Output>& components);
  // The numbers start, start + step, ... below stop; int64 scalars.
  static Dataset FromRange(const Scope& s, const IntArg& start, const IntArg& stop, const IntArg& step = 1);
  // The lines of files, a string scalar each; `filenames` is a string scalar or vector.
  static Dataset FromTextLines(const Scope& s, Output filenames, CompressionType compression = CompressionType::kNone);
  // The records of TFRecord files, a string scalar each.
  static Dataset FromTfRecords(const Scope& s, Output filenames, CompressionType compression = CompressionType::kNone);
  // Records of record_bytes bytes, a string scalar each, after header_bytes at the front of
  // each file and before footer_bytes at its end.
  static Dataset FromFixedLengthRecords(const Scope& s, Output filenames, int64_t record_bytes,
                                        int64_t header_bytes = 0, int64_t footer_bytes = 0);
  // Examples of several datasets side by side; ends with the shortest.
  static Dataset Zip(const std::vector<Dataset>& datasets);

  // Batches of batch_size examples.
  Dataset Batch(const IntArg& batch_size, const DatasetBatchOptions& options = {}) const;
  // The rows of each component as examples; the opposite of Batch.
  Dataset Unbatch() const;
  // The examples in random order, drawn from a buffer of buffer_size.
  Dataset Shuffle(const IntArg& buffer_size, const DatasetShuffleOptions& options = {}) const;
  // The dataset `count` times; -1: without end.
  Dataset Repeat(const IntArg& count = -1) const;
  // The first `count` examples; -1: all.
  Dataset Take(const IntArg& count) const;
  // All but the first `count` examples.
  Dataset Skip(const IntArg& count) const;
  // Every num_shards-th example from `index` on: the share of one of several workers.
  Dataset Shard(const IntArg& num_shards, const IntArg& index) const;
  // Prepares up to buffer_size examples ahead, on another thread.
  Dataset Prefetch(const IntArg& buffer_size) const;
  // Keeps the examples, in memory or in the file that a string scalar names, for the next
  // pass.
  Dataset Cache(const ScalarArg& filename = "") const;
  // These examples, then those of `other`, of the same types.
  Dataset Concatenate(const Dataset& other) const;

  // An iterator over the dataset. It belongs to this op and session, unless it has a
  // shared_name.
  DatasetIterator MakeIterator(const std::string& shared_name = "") const;

  const Output& handle() const { return handle_; }                            // the dataset, a variant
  const std::vector<DType>& output_types() const { return types_; }           // types of the components
  const std::vector<PartialShape>& output_shapes() const { return shapes_; }  // shapes of the components

 private:
  Dataset(Scope scope, std::vector<DType> types, std::vector<PartialShape> shapes)
      : scope_(std::move(scope)), types_(std::move(types)), shapes_(std::move(shapes)) {}
  // The dataset that an op makes of this one, with the same components.
  Dataset Then(absl::string_view op, std::vector<OpInput> arguments, std::vector<AttrArg> attrs = {}) const;
  std::vector<AttrArg> Signature(std::vector<AttrArg> more = {}) const;
  static Dataset Files(const Scope& s, absl::string_view op, std::vector<OpInput> inputs);

  Scope scope_;
  Output handle_;
  std::vector<DType> types_;
  std::vector<PartialShape> shapes_;
};

}  // namespace thalweg
