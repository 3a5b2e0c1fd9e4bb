// SPDX-License-Identifier: Apache-2.0
// Ops that read and write files and formats: checkpoints, summaries, records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// ---- checkpoints; Saver in train/checkpoints/saver.h uses these ----

// Writes `tensors` to the checkpoint `prefix`, a string scalar. tensor_names and
// shape_and_slices are string vectors with an element for every tensor. An empty slice is
// the whole tensor; "4 5 0,2:-" is the first two rows of a tensor of [4,5].
Output Save(const Scope& s, Output prefix, Output tensor_names, Output shape_and_slices,
            const std::vector<Output>& tensors);
// Reads tensors of these types; the arguments are those of Save.
std::vector<Output> Restore(const Scope& s, Output prefix, Output tensor_names, Output shape_and_slices,
                            const std::vector<DType>& dtypes);
// How MergeV2Checkpoints treats folders and missing parts.
struct MergeCheckpointsOptions {
  bool delete_old_dirs = true;       // delete the folders of the parts
  bool allow_missing_files = false;  // go on if a part is missing
};
// Makes one checkpoint from the parts that several tasks have saved.
Output MergeCheckpoints(const Scope& s, Output checkpoint_prefixes, Output destination_prefix,
                        const MergeCheckpointsOptions& options = {});
/// @cond INTERNAL
// The values of one moment, kept in the session under a name, and given out once in a
// later step. Saver uses them.
Output SnapshotVariables(const Scope& s, const std::vector<Output>& values, const std::string& name);
std::vector<Output> SnapshotValues(const Scope& s, const std::vector<DType>& types, const std::string& name);
/// @endcond
// A bool scalar: true if no element of the values is infinite or NaN.
Output AllFinite(const Scope& s, const std::vector<Output>& values);
// The name of a part: "name-00001-of-00003".
Output ShardedFilename(const Scope& s, Output basename, const IntArg& shard, const IntArg& num_shards);
// A pattern for all parts: "name-?????-of-00003".
Output ShardedFilespec(const Scope& s, Output basename, const IntArg& num_shards);

// ---- summaries for TensorBoard; train/session/summary.h has shorter forms ----

// A summary, a string scalar, of scalars under their tags, a string tensor of one shape.
Output ScalarSummary(const Scope& s, Output tags, Output values);
// A summary of the distribution of the values.
Output HistogramSummary(const Scope& s, Output tag, Output values);
// A summary of a tensor, with the metadata of a plugin.
Output TensorSummary(const Scope& s, Output tag, Output tensor, Output serialized_summary_metadata);
// A summary of images [batch, height, width, 1, 3 or 4].
Output ImageSummary(const Scope& s, Output tag, Output tensor, int64_t max_images = 3);
// A summary of sound [batch, frames, channels], or [batch, frames].
Output AudioSummary(const Scope& s, Output tag, Output tensor, Output sample_rate, int64_t max_outputs = 3);
// One summary with the values of all.
Output MergeSummary(const Scope& s, const std::vector<Output>& inputs);

// ---- readers: records of files whose names come from a queue of strings ----

// A reader that gives every file as one record; the key is the file's name.
Output WholeFileReader(const Scope& s);
// A reader of lines, without their ends.
Output TextLineReader(const Scope& s, int64_t skip_header_lines = 0);
// The bytes around records of one length, and the compression of the files.
struct FixedLengthReaderOptions {
  int64_t header_bytes = 0;                              // passed over at the beginning of a file
  int64_t footer_bytes = 0;                              // passed over at the end of a file
  int64_t hop_bytes = 0;                                 // from one record to the next; 0: record_bytes
  CompressionType compression = CompressionType::kNone;  // compression of the files
};
// A reader of records of `record_bytes` bytes.
Output FixedLengthRecordReader(const Scope& s, int64_t record_bytes, const FixedLengthReaderOptions& options = {});
// A reader of TFRecord files.
Output TFRecordReader(const Scope& s, CompressionType compression = CompressionType::kNone);
// A record that a reader has read.
struct RecordResult {
  Output key;    // string: file and position
  Output value;  // string: the record
};
// The next record; takes the name of a file from `queue` when it needs one.
RecordResult ReaderRead(const Scope& s, Output reader, Output queue);
// Up to num_records records, as vectors; fewer at the end of a file.
RecordResult ReaderReadUpTo(const Scope& s, Output reader, Output queue, const IntArg& num_records);
// The number of records that were read, an int64 scalar.
Output ReaderNumRecordsProduced(const Scope& s, Output reader);
// The number of files that were read to their end, an int64 scalar.
Output ReaderNumWorkUnitsCompleted(const Scope& s, Output reader);
// Lets the reader start anew.
Output ReaderReset(const Scope& s, Output reader);

// ---- files ----

// The contents of a file, a string scalar.
Output ReadFile(const Scope& s, Output filename);
// Writes a file, and the folders that lead to it.
Output WriteFile(const Scope& s, Output filename, Output contents);
// The names that match a pattern, sorted; *, ? and [...] match within one folder.
Output MatchingFiles(const Scope& s, Output pattern);

// ---- formats ----

// The format of the lines that DecodeCsv splits.
struct DecodeCsvOptions {
  std::string field_delim = ",";     // one character
  bool use_quote_delim = true;       // fields may be in quotes
  std::string na_value;              // counts as missing, besides an empty field
  std::vector<int64_t> select_cols;  // columns, rising; empty: all
};
// Columns of lines in CSV format: one tensor for each of record_defaults, with its type.
// A default of one element stands in for missing fields; an empty one requires a field.
std::vector<Output> DecodeCsv(const Scope& s, Output records, const std::vector<Output>& record_defaults,
                              const DecodeCsvOptions& options = {});
// The byte order of DecodeRaw and DecodePaddedRaw.
struct DecodeRawOptions {
  bool little_endian = true;  // false: big-endian
};
// The bytes of strings as numbers: strings [...] give [..., n].
Output DecodeRaw(const Scope& s, Output bytes, DType out_type, const DecodeRawOptions& options = {});
// The bytes of strings of different lengths as numbers: each string is cut off or filled with zeros to fixed_length
// bytes. Strings [...] give [..., n].
Output DecodePaddedRaw(const Scope& s, Output input_bytes, const IntArg& fixed_length, DType out_type,
                       const DecodeRawOptions& options = {});
// Decompresses each string.
Output DecodeCompressed(const Scope& s, Output bytes, CompressionType compression);
// A tensor from a serialized tensorflow.TensorProto.
Output ParseTensor(const Scope& s, Output serialized, DType out_type);
// A tensor as a serialized tensorflow.TensorProto, a string scalar.
Output SerializeTensor(const Scope& s, Output tensor);

}  // namespace thalweg
