// SPDX-License-Identifier: Apache-2.0
// Sampling of classes, for losses over many of them (word2vec, language models).
#pragma once

#include <cstdint>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Whether candidates are distinct, and the seeds.
struct CandidateSamplerOptions {
  bool unique = true;  // no class twice
  int64_t seed = 0;    // with seed2 0, too: other classes in every run
  int64_t seed2 = 0;   // see seed
};
// The classes that were drawn, and how often each class is expected in such a sample.
struct CandidateSamplerResult {
  Output sampled_candidates;      // int64 [num_sampled]
  Output true_expected_count;     // float [batch, num_true]: how often each true class is expected in such a sample
  Output sampled_expected_count;  // float [num_sampled]: the same for the sampled classes
};
// num_sampled classes of [0, range_max). Class c is drawn with probability (log(c + 2) -
// log(c + 1)) / log(range_max + 1), as words occur that are sorted by frequency.
// true_classes is int64 [batch, num_true].
CandidateSamplerResult LogUniformCandidateSampler(const Scope& s, Output true_classes, int64_t num_true,
                                                  int64_t num_sampled, int64_t range_max,
                                                  const CandidateSamplerOptions& options = {});
// num_sampled classes of [0, range_max), all with the same probability. true_classes is int64 [batch, num_true].
CandidateSamplerResult UniformCandidateSampler(const Scope& s, Output true_classes, int64_t num_true,
                                               int64_t num_sampled, int64_t range_max,
                                               const CandidateSamplerOptions& options = {});

// The sampled classes that are true classes of an example.
struct AccidentalHitsResult {
  Output indices;  // int32: rows of true_classes
  Output ids;      // int64: positions in sampled_candidates
  Output weights;  // float: -FLT_MAX, to be added to the logits of these
};
// Where a sampled class is a true one.
AccidentalHitsResult ComputeAccidentalHits(const Scope& s, Output true_classes, Output sampled_candidates,
                                           int64_t num_true);

}  // namespace thalweg
