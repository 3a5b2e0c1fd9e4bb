// Work that is not worth sharing.
#pragma once

namespace thalweg {

// From construction to destruction, on this thread: if `alone`, kernels do all of
// their work on this thread, and KernelContext::ParallelFor asks nobody for help.
// Nests.
class ScopedAlone {
 public:
  explicit ScopedAlone(bool alone);
  ~ScopedAlone();
  ScopedAlone(const ScopedAlone&) = delete;
  ScopedAlone& operator=(const ScopedAlone&) = delete;

  // Whether it is so now.
  static bool Get();

 private:
  const bool before_;
};

}  // namespace thalweg
