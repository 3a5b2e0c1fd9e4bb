// SPDX-License-Identifier: Apache-2.0
// Keeps small work on one thread.
#pragma once

namespace thalweg {

// While it lives and if `single` is true, KernelContext::ParallelFor() on this thread does
// all of its work on this thread. May be nested.
class ScopedSingleThread {
 public:
  explicit ScopedSingleThread(bool single);
  ~ScopedSingleThread();
  ScopedSingleThread(const ScopedSingleThread&) = delete;
  ScopedSingleThread& operator=(const ScopedSingleThread&) = delete;

  // Whether kernels on this thread currently run on one thread.
  static bool Get();

 private:
  const bool before_;
};

}  // namespace thalweg
