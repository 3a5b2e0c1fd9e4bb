// Work that is not worth sharing.
#pragma once

namespace thalweg {

// From construction to destruction, on this thread: if `alone`, kernels do all of
// their work on this thread, and KernelContext::ParallelFor asks nobody for help.
// Nests.
class ScopedSingleThread {
 public:
  explicit ScopedSingleThread(bool alone);
  ~ScopedSingleThread();
  ScopedSingleThread(const ScopedSingleThread&) = delete;
  ScopedSingleThread& operator=(const ScopedSingleThread&) = delete;

  // Whether it is so now.
  static bool Get();

 private:
  const bool before_;
};

}  // namespace thalweg
