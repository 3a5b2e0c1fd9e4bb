// Sampling of classes, for losses over many of them (word2vec, language models).
#pragma once

#include <cstdint>

#include "thalweg/graph/scope.h"

namespace thalweg {

struct CandidateSamplerOptions {
  bool unique = true;  // no class twice
  int64_t seed = 0;    // both 0: a sequence that nobody can repeat
  int64_t seed2 = 0;
};
struct CandidateSamples {
  Output sampled_candidates;      // int64 [num_sampled]
  Output true_expected_count;     // float, how often each true class is expected in such a sample
  Output sampled_expected_count;  // float [num_sampled]
};
// num_sampled classes of [0, range_max); true_classes is int64 [batch, num_true].
// Class c is drawn with probability (log(c + 2) - log(c + 1)) / log(range_max +
// 1), as words that are sorted by frequency occur, or uniformly.
CandidateSamples LogUniformCandidateSampler(const Scope& s, Output true_classes, int64_t num_true, int64_t num_sampled,
                                            int64_t range_max, CandidateSamplerOptions options = {});
CandidateSamples UniformCandidateSampler(const Scope& s, Output true_classes, int64_t num_true, int64_t num_sampled,
                                         int64_t range_max, CandidateSamplerOptions options = {});

struct AccidentalHits {
  Output indices;  // int32, rows of true_classes
  Output ids;      // int64, positions in sampled_candidates
  Output weights;  // float, -FLT_MAX: to be added to the logits of these
};
// Where a sampled class is a true one.
AccidentalHits ComputeAccidentalHits(const Scope& s, Output true_classes, Output sampled_candidates, int64_t num_true);

}  // namespace thalweg
