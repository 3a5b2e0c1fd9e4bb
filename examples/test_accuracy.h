// SPDX-License-Identifier: Apache-2.0
// Measures an image classifier on a test set.
#pragma once

#include <algorithm>

#include "thalweg/api.h"
#include "thalweg/short_macros.h"

// Returns the fraction of `test` that is classified correctly. `accuracy` is the
// tensor that computes this for the fed `images` and `labels`.
inline absl::StatusOr<double> TestAccuracy(thalweg::Session& session, thalweg::Output accuracy, thalweg::Output images,
                                           thalweg::Output labels, const thalweg::data::ImageSet& test) {
  constexpr int64_t kBatch = 1000;
  double correct = 0;
  for (int64_t begin = 0; begin < test.size(); begin += kBatch) {
    const auto batch = test.Slice(begin, std::min(begin + kBatch, test.size()));
    ASSIGN_OR_RETURN(const auto out, session.Run({accuracy}, {{images, batch.images}, {labels, batch.labels}}));
    correct += out[0].scalar<float>() * static_cast<double>(batch.labels.dim(0));
  }
  return correct / static_cast<double>(test.size());
}

// FAILED_PRECONDITION, which makes the program fail, if the accuracy that was reached is below the required one.
inline absl::Status RequireAccuracy(double reached, double required) {
  if (reached >= required) return absl::OkStatus();
  return thalweg::FailedPrecondition("test accuracy ", reached, " is below ", required);
}
