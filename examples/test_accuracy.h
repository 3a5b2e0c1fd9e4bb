// How good a classifier of images is on images that it was not trained with.
#pragma once

#include <algorithm>

#include "thalweg/api.h"
#include "thalweg/short_macros.h"

// `accuracy` is that of the images and labels which are fed.
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
