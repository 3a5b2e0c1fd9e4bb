// Ops that read and write files and formats: checkpoints, summaries, records.
// Every function adds one node to the graph of its scope; see the .cc of the op
// for what it computes.
#pragma once

#include <string>
#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Checkpoints. `prefix` is a scalar, the next two are vectors with an element
// for every tensor; an empty shape_and_slice is the whole tensor, "4 5 0,2:-"
// the first two rows of one of [4,5].
Output Save(const Scope& s, Output prefix, Output tensor_names, Output shape_and_slices,
            const std::vector<Output>& tensors);
std::vector<Output> Restore(const Scope& s, Output prefix, Output tensor_names, Output shape_and_slices,
                            const std::vector<DType>& dtypes);
struct MergeCheckpointsOptions {
  bool delete_old_dirs = true;  // the folders of the parts
  bool allow_missing_files = false;
};
// Makes one checkpoint of those that several tasks have saved.
Output MergeCheckpoints(const Scope& s, Output checkpoint_prefixes, Output destination_prefix,
                        const MergeCheckpointsOptions& options = {});
// The values of one moment, kept in the session under a name, and given out once in
// a later step. See save_restore.cc.
Output SnapshotVariables(const Scope& s, const std::vector<Output>& values, const std::string& name);
std::vector<Output> SnapshotValues(const Scope& s, const std::vector<DType>& types, const std::string& name);
// Whether none of them is an infinity or no number.
Output AllFinite(const Scope& s, const std::vector<Output>& values);
// "name-00001-of-00003", "name-?????-of-00003"
Output ShardedFilename(const Scope& s, Output basename, Output shard, Output num_shards);
Output ShardedFilespec(const Scope& s, Output basename, Output num_shards);

// Summaries, for TensorBoard: each is a scalar string, a serialized Summary.
Output ScalarSummary(const Scope& s, Output tags, Output values);
Output HistogramSummary(const Scope& s, Output tag, Output values);
Output TensorSummary(const Scope& s, Output tag, Output tensor, Output serialized_summary_metadata);
Output ImageSummary(const Scope& s, Output tag, Output tensor, int64_t max_images = 3);
Output AudioSummary(const Scope& s, Output tag, Output tensor, Output sample_rate, int64_t max_outputs = 3);
Output MergeSummary(const Scope& s, const std::vector<Output>& inputs);

// Records. For Examples, see the .cc: a C++ program adds the node by its name.
struct DecodeCsvOptions {
  std::string field_delim = ",";
  bool use_quote_delim = true;
  std::string na_value;              // a field that is missing, besides an empty one
  std::vector<int64_t> select_cols;  // rising; empty is all
};
std::vector<Output> DecodeCsv(const Scope& s, Output records, const std::vector<Output>& record_defaults,
                              const DecodeCsvOptions& options = {});
Output DecodeRaw(const Scope& s, Output bytes, DType out_type, bool little_endian = true);
Output DecodePaddedRaw(const Scope& s, Output input_bytes, Output fixed_length, DType out_type,
                       bool little_endian = true);
// `compression_type` is "", "ZLIB" or "GZIP".
Output DecodeCompressed(const Scope& s, Output bytes, absl::string_view compression_type);
Output ParseTensor(const Scope& s, Output serialized, DType out_type);
Output SerializeTensor(const Scope& s, Output tensor);

}  // namespace thalweg
