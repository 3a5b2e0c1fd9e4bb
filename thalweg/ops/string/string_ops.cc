// SPDX-License-Identifier: Apache-2.0
// Constructors of string_ops.h for Unicode, formats and distances.
#include "thalweg/ops/string_ops.h"

namespace thalweg {
namespace {

const char* NameOf(UnicodeErrors errors) {
  return errors == UnicodeErrors::kReplace ? "replace" : errors == UnicodeErrors::kIgnore ? "ignore" : "strict";
}

}  // namespace

Output StringFormat(const Scope& s, const std::vector<Output>& inputs, absl::string_view template_,
                    absl::string_view placeholder, int64_t summarize) {
  return s.Add("StringFormat", {inputs},
               {{"template", template_}, {"placeholder", placeholder}, {"summarize", summarize}});
}

Output EditDistance(const Scope& s, Output hypothesis_indices, Output hypothesis_values, Output hypothesis_shape,
                    Output truth_indices, Output truth_values, Output truth_shape, const EditDistanceOptions& options) {
  return s.Add("EditDistance",
               {hypothesis_indices, hypothesis_values, hypothesis_shape, truth_indices, truth_values, truth_shape},
               {{"normalize", options.normalize}});
}

Output UnicodeTranscode(const Scope& s, Output input, absl::string_view input_encoding,
                        absl::string_view output_encoding, const UnicodeOptions& options) {
  return s.Add("UnicodeTranscode", {input},
               {{"input_encoding", input_encoding},
                {"output_encoding", output_encoding},
                {"errors", NameOf(options.errors)},
                {"replacement_char", options.replacement_char},
                {"replace_control_characters", options.replace_control_characters}});
}

UnicodeDecodeResult UnicodeDecode(const Scope& s, Output input, absl::string_view input_encoding,
                                  const UnicodeOptions& options) {
  Node* const node = s.Add("UnicodeDecode", {input},
                           {{"input_encoding", input_encoding},
                            {"errors", NameOf(options.errors)},
                            {"replacement_char", options.replacement_char},
                            {"replace_control_characters", options.replace_control_characters}});
  return {Output(node, 0), Output(node, 1)};
}

Output UnicodeEncode(const Scope& s, Output input_values, Output input_splits, absl::string_view output_encoding,
                     const UnicodeOptions& options) {
  return s.Add("UnicodeEncode", {input_values, input_splits},
               {{"output_encoding", output_encoding},
                {"errors", NameOf(options.errors)},
                {"replacement_char", options.replacement_char}});
}

}  // namespace thalweg
