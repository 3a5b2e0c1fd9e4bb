// SPDX-License-Identifier: Apache-2.0
// Summaries of a model, for TensorBoard: what the graph is asked for together.
//
//   summary::Scalar(s, "loss", loss);
//   summary::Histogram(s, "weights", w);
//   const Output all = summary::MergeAll(s);    // MonitoredTrainingSession does it
#pragma once

#include "thalweg/graph/scope.h"

namespace thalweg::summary {

// A summary of real numbers: a scalar, the distribution of a tensor, or images. Each adds
// an operation of that name to the graph and to its list of summaries; its tag is the full
// name:
Output Scalar(const Scope& s, absl::string_view name, Output value);
Output Histogram(const Scope& s, absl::string_view name, Output values);
Output Image(const Scope& s, absl::string_view name, Output images, int64_t max_images = 3);

// All summaries in one; empty if there are none.
Output MergeAll(const Scope& s);

inline constexpr char kSummaries[] = "summaries";  // the list in the graph

}  // namespace thalweg::summary
