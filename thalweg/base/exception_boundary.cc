// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/exception_boundary.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {

absl::Status StatusOfException() {
  try {
    throw;
  } catch (const OutOfMemory& error) {
    return ResourceExhausted(error.what());
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("There is not enough memory");
  } catch (const std::length_error&) {  // a container would exceed its maximum size
    return ResourceExhausted("There is not enough memory");
  } catch (const std::system_error& error) {  // a thread or a lock could not be created
    return ResourceExhausted("The system has no more threads: ", error.what());
  } catch (const std::exception& error) {
    return Internal("An exception: ", error.what());
  } catch (...) {
    return Internal("An exception of an unknown type");
  }
}

absl::Status CatchExceptions(absl::FunctionRef<void()> work) {
  try {
    work();
    return absl::OkStatus();
  } catch (...) {
    return StatusOfException();
  }
}

void LogExceptions(const char* what, absl::FunctionRef<void()> work) {
  const absl::Status status = CatchExceptions(work);
  if (!status.ok()) LOG(ERROR) << "An exception ended the work of " << what << ": " << status.message();
}

}  // namespace thalweg
