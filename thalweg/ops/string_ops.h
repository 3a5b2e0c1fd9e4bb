// SPDX-License-Identifier: Apache-2.0
// Ops on strings. They work on every element of a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// ---- joining, cutting, changing ----

// Joins strings of tensors of one shape, or scalars, element by element.
Output StringJoin(const Scope& s, const std::vector<Output>& inputs, absl::string_view separator = "");
// Where a text is cut.
enum class StringUnit {
  kByte,      // between bytes
  kUtf8Char,  // between characters of UTF-8
};
// `len` units from `pos` on; a negative pos counts from the end.
Output Substr(const Scope& s, Output input, const IntArg& pos, const IntArg& len, StringUnit unit = StringUnit::kByte);
// The length, int32.
Output StringLength(const Scope& s, Output input, StringUnit unit = StringUnit::kByte);
// Without white space at both ends.
Output StringStrip(const Scope& s, Output input);
// The encoding of a text.
enum class StringEncoding {
  kBytes,  // letters of ASCII
  kUtf8,   // letters of Unicode
};
// In small letters.
Output StringLower(const Scope& s, Output input, StringEncoding encoding = StringEncoding::kBytes);
// In capital letters.
Output StringUpper(const Scope& s, Output input, StringEncoding encoding = StringEncoding::kBytes);

// The separator of ReduceJoin, and the shape of its result.
struct ReduceJoinOptions {
  bool keep_dims = false;  // reduced dimensions stay, with size 1
  std::string separator;   // between the strings
};
// Joins the strings along dimensions.
Output ReduceJoin(const Scope& s, Output inputs, const IntsArg& reduction_indices,
                  const ReduceJoinOptions& options = {});
// Joins the strings with the same number in segment_ids.
Output UnsortedSegmentJoin(const Scope& s, Output inputs, Output segment_ids, const IntArg& num_segments,
                           absl::string_view separator = "");

// The parts of strings, as a sparse matrix with a row for each string.
struct StringSplitResult {
  Output indices;  // int64 [n, 2]: string, position
  Output values;   // string [n]: the parts
  Output shape;    // int64 [2]
};
// Cuts the strings of a vector at a separator: a sparse matrix with a row for each. An
// empty separator stands for runs of white space.
StringSplitResult StringSplit(const Scope& s, Output input, const ScalarArg& sep, int64_t maxsplit = -1);
// `template_` with each `placeholder` replaced by the next of the inputs, as text.
Output StringFormat(const Scope& s, const std::vector<Output>& inputs, absl::string_view template_,
                    absl::string_view placeholder = "{}", int64_t summarize = 3);

// ---- regular expressions, in the syntax of RE2 ----

// A bool tensor: true where the whole string matches.
Output RegexFullMatch(const Scope& s, Output input, Output pattern);
// A bool tensor: true where the whole string matches a constant pattern.
Output RegexFullMatch(const Scope& s, Output input, absl::string_view pattern);
// Which matches RegexReplace replaces.
struct RegexReplaceOptions {
  bool replace_global = true;  // all of them; else the first
};
// Replaces matches. `rewrite` may have \1 to \9 for the text of groups, \0
// for the whole match.
Output RegexReplace(const Scope& s, Output input, Output pattern, Output rewrite,
                    const RegexReplaceOptions& options = {});
// Replaces matches of a constant pattern by `rewrite`, in which \1 to \9 are groups.
Output RegexReplace(const Scope& s, Output input, absl::string_view pattern, absl::string_view rewrite,
                    const RegexReplaceOptions& options = {});

// ---- numbers ----

// The format in which AsString writes numbers.
struct AsStringOptions {
  int64_t precision = -1;   // digits after the point; -1: the default
  bool scientific = false;  // as 1.5e+00
  bool shortest = false;    // the shorter of both notations
  int64_t width = -1;       // at least as many characters; -1: as many as it takes
  std::string fill;         // "0" or " " fills up to the width
};
// Numbers as text.
Output AsString(const Scope& s, Output input, const AsStringOptions& options = {});
// Text as numbers: float, double, int32 or int64.
Output StringToNumber(const Scope& s, Output string_tensor, DType out_type = kFloat);
// A number in [0, num_buckets) for every string; fast, but easy to attack.
Output StringToHashBucketFast(const Scope& s, Output input, int64_t num_buckets);
// A number in [0, num_buckets) for every string; keyed by two secret numbers, which protects from provoked collisions.
Output StringToHashBucketStrong(const Scope& s, Output input, int64_t num_buckets, const std::vector<int64_t>& key);
// The unit of EditDistance.
struct EditDistanceOptions {
  bool normalize = true;  // divide by the length of the truth
};
// The edit (Levenshtein) distance of sparse tensors of sequences, hypothesis and truth.
Output EditDistance(const Scope& s, Output hypothesis_indices, Output hypothesis_values, Output hypothesis_shape,
                    Output truth_indices, Output truth_values, Output truth_shape,
                    const EditDistanceOptions& options = {});

// ---- encodings ----

// The form of EncodeBase64's text.
struct EncodeBase64Options {
  bool pad = false;  // '=' at the end makes the length a multiple of 4
};
// In base64, with the alphabet of URLs.
Output EncodeBase64(const Scope& s, Output input, const EncodeBase64Options& options = {});
// The opposite of EncodeBase64.
Output DecodeBase64(const Scope& s, Output input);

// How invalid characters are treated.
enum class UnicodeErrors {
  kReplace,  // become the replacement character
  kIgnore,   // are left out
  kStrict,   // fail the step
};
// How invalid characters are treated.
struct UnicodeOptions {
  UnicodeErrors errors = UnicodeErrors::kReplace;  // see UnicodeErrors
  int64_t replacement_char = 65533;                // for kReplace
  bool replace_control_characters = false;         // those from 0x00 to 0x1f count as invalid
};
// Text of one encoding in another, "UTF-8", "UTF-16-BE" or "UTF-32-BE"; the input may have
// any encoding that has a name in ICU and is known here, such as "LATIN-1".
Output UnicodeTranscode(const Scope& s, Output input, absl::string_view input_encoding,
                        absl::string_view output_encoding, const UnicodeOptions& options = {});
// The characters of all strings, with the positions at which each string begins.
struct UnicodeDecodeResult {
  Output row_splits;   // int64: where each string's characters begin
  Output char_values;  // int32: code points
};
// The code points of strings, as a ragged tensor.
UnicodeDecodeResult UnicodeDecode(const Scope& s, Output input, absl::string_view input_encoding,
                                  const UnicodeOptions& options = {});
// Strings from code points, the opposite of UnicodeDecode.
Output UnicodeEncode(const Scope& s, Output input_values, Output input_splits, absl::string_view output_encoding,
                     const UnicodeOptions& options = {});

}  // namespace thalweg
