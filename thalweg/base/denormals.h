// SPDX-License-Identifier: Apache-2.0
// Flushes denormal numbers to zero while a step runs.
//
// Operations on numbers below 1.2e-38 take a hundred times as long as others, and a
// converged network produces many of them. TensorFlow's threads flush them too, so
// the results agree.
#pragma once

#include <cstdint>

namespace thalweg {

// While it lives, denormal operands and results of float and double arithmetic on
// this thread are zero. May be nested. Has no effect on processors without this mode.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
  const uint64_t before_;  // the control register, to be restored
};

}  // namespace thalweg
