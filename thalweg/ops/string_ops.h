// Ops on strings. Every function adds one node to the graph of its scope; see
// the .cc of the op for what it computes. StringJoin, AsString and
// StringToNumber are in array_ops.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Regular expressions, in the syntax of RE2.
Output RegexFullMatch(const Scope& s, Output input, Output pattern);
Output RegexFullMatch(const Scope& s, Output input, absl::string_view pattern);
// `rewrite` may have \1 to \9 for what groups matched, \0 for all of it.
Output RegexReplace(const Scope& s, Output input, Output pattern, Output rewrite, bool replace_global = true);
Output RegexReplace(const Scope& s, Output input, absl::string_view pattern, absl::string_view rewrite,
                    bool replace_global = true);

// A number in [0, num_buckets) for every string.
Output StringToHashBucketFast(const Scope& s, Output input, int64_t num_buckets);
Output StringToHashBucketStrong(const Scope& s, Output input, int64_t num_buckets, const std::vector<int64_t>& key);

// A sparse matrix, with a row for every string.
struct StringSplitResult {
  Output indices;
  Output values;
  Output shape;
};
// An empty separator stands for runs of white space.
StringSplitResult StringSplit(const Scope& s, Output input, Output sep, int64_t maxsplit = -1);

// `unit` is "BYTE" or "UTF8_CHAR".
Output Substr(const Scope& s, Output input, Output pos, Output len, absl::string_view unit = "BYTE");
Output StringLength(const Scope& s, Output input, absl::string_view unit = "BYTE");
Output StringStrip(const Scope& s, Output input);
// `encoding` is "" for ASCII, or "utf-8".
Output StringLower(const Scope& s, Output input, absl::string_view encoding = "");
Output StringUpper(const Scope& s, Output input, absl::string_view encoding = "");

struct ReduceJoinOptions {
  bool keep_dims = false;
  std::string separator;
};
Output ReduceJoin(const Scope& s, Output inputs, Output reduction_indices, const ReduceJoinOptions& options = {});
Output UnsortedSegmentJoin(const Scope& s, Output inputs, Output segment_ids, Output num_segments,
                           absl::string_view separator = "");

// The alphabet of URLs; `pad` adds '=' at the end.
Output EncodeBase64(const Scope& s, Output input, bool pad = false);
Output DecodeBase64(const Scope& s, Output input);

}  // namespace thalweg
