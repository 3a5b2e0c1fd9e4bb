// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/summary.h"

#include <string>

#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/io_ops.h"

namespace thalweg::summary {
namespace {

Output Collected(const Scope& s, Output op) {
  if (op) s.graph().AddToCollection(kSummaries, op.node->name());
  return op;
}

// The tag that TensorFlow gives: the name of the operation.
Output Tag(const Scope& s, absl::string_view name, absl::string_view argument) {
  return Const(s.WithOpName(absl::StrCat(name, "/", argument)), s.FullName(name));
}

}  // namespace

Output Scalar(const Scope& s, absl::string_view name, Output value) {
  return Collected(s, ScalarSummary(s.WithOpName(name), Tag(s, name, "tags"), value));
}

Output Histogram(const Scope& s, absl::string_view name, Output values) {
  return Collected(s, HistogramSummary(s.WithOpName(name), Tag(s, name, "tag"), values));
}

Output Image(const Scope& s, absl::string_view name, Output images, int64_t max_images) {
  return Collected(s, ImageSummary(s.WithOpName(name), Tag(s, name, "tag"), images, max_images));
}

Output MergeAll(const Scope& s) {
  std::vector<Output> all;
  for (const std::string& name : s.graph().Collection(kSummaries)) {
    if (Node* const node = s.graph().FindNode(name)) all.push_back(Output(node));
  }
  return all.empty() ? Output() : MergeSummary(s.InScope("").WithOpName("Merge/MergeSummary"), all);
}

}  // namespace thalweg::summary
