// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/denormals.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace thalweg {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kFlush = 0x8040;  // MXCSR: results (FTZ), operands (DAZ)
uint64_t ReadControl() { return _mm_getcsr(); }
void WriteControl(uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ: both
uint64_t ReadControl() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void WriteControl(uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
constexpr uint64_t kFlush = 0;
uint64_t ReadControl() { return 0; }
void WriteControl(uint64_t) {}
#endif

}  // namespace

// Writing the register costs more than reading it: only where it changes.
ScopedFlushDenormals::ScopedFlushDenormals() : before_(ReadControl()) {
  if ((before_ & kFlush) != kFlush) WriteControl(before_ | kFlush);
}

ScopedFlushDenormals::~ScopedFlushDenormals() {
  if ((before_ & kFlush) != kFlush) WriteControl(before_);
}

}  // namespace thalweg
