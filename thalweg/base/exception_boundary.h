// SPDX-License-Identifier: Apache-2.0
// Turns exceptions into statuses. Our own code does not throw, but the standard
// library does when memory or threads run out. That must fail the call that asked for
// them, not the process.
//
//   const absl::Status status = CatchExceptions([&] { handler(call); });
#pragma once

#include <new>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace thalweg {

// Thrown where there is no memory and no way to return an error, as in a constructor. The
// status of the call has `what` as its message.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// The current exception as a status: RESOURCE_EXHAUSTED if memory or threads have run
// out, INTERNAL for all others. REQUIRES: called in a catch block.
absl::Status StatusOfException();

// Runs `work`. If it throws, returns the exception as a status.
absl::Status CatchExceptions(absl::FunctionRef<void()> work);

// Runs `work` and logs an exception that it throws; `what` ("a timer") names the work
// in the log. For threads that serve many callers, so that one cannot end the others.
void LogExceptions(const char* what, absl::FunctionRef<void()> work);

}  // namespace thalweg
