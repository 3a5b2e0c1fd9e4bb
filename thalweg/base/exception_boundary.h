// Where exceptions end. Our own code throws none, but the standard library does when
// memory or threads run out: that must end the call that asked for them, and not the
// process.
//
//   const absl::Status status = CatchExceptions([&] { handler(call); });
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace thalweg {

// What an exception says: RESOURCE_EXHAUSTED if memory or threads have run out,
// INTERNAL for all others. REQUIRES: called in a catch block.
absl::Status StatusOfException();

// Runs `work`; an exception that it throws becomes a status.
absl::Status CatchExceptions(absl::FunctionRef<void()> work);

// Runs `work`, and logs an exception that it throws, on behalf of `what` ("a timer"):
// for threads that serve many, of whom none may end the others.
void LogExceptions(const char* what, absl::FunctionRef<void()> work);

}  // namespace thalweg
