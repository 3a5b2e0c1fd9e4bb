// Denormal numbers count as zero while a step runs.
//
// Operations on numbers below 1.2e-38 take a hundred times as long as others,
// and a network that has converged is full of them. TensorFlow's threads flush
// them too, so results agree.
#pragma once

#include <cstdint>

namespace thalweg {

// From construction to destruction, on this thread: denormal results and
// operands of float and double arithmetic are zero. Nests. Where the processor
// has no such mode, nothing changes.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
  const uint64_t before_;  // the control register
};

}  // namespace thalweg
