// SPDX-License-Identifier: Apache-2.0
// Errors are values: every function that can fail returns absl::Status or
// absl::StatusOr, and nobody ignores one. This header adds constructors that
// concatenate their arguments, and the macros that pass errors on.
//
//   if (a.dim(1) != b.dim(0)) {
//     return InvalidArgument("inner dimensions differ: ", a, " x ", b);
//   }
//   THALWEG_RETURN_IF_ERROR(file->Append(bytes));
//   THALWEG_ASSIGN_OR_RETURN(const Tensor value, ReadTensor(name));
//
// thalweg/short_macros.h adds the short names RETURN_IF_ERROR and ASSIGN_OR_RETURN.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/logging.h"

namespace thalweg {
/// @cond INTERNAL
namespace internal {

// Converts an argument for StrCat, by its ToString() if it has one.
template <typename T>
decltype(auto) Text(const T& value) {
  if constexpr (requires { value.ToString(); }) {
    return value.ToString();
  } else if constexpr (requires { ToString(value); }) {
    return ToString(value);
  } else {
    return (value);
  }
}

}  // namespace internal

// Errors are rare: not inlined, and compiled for size.
#define THALWEG_COLD [[gnu::cold, gnu::noinline]]
/// @endcond

// An error of code CANCELLED; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status Cancelled(const Args&... args) {
  return absl::CancelledError(absl::StrCat(internal::Text(args)...));
}
// An error of code UNKNOWN; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status Unknown(const Args&... args) {
  return absl::UnknownError(absl::StrCat(internal::Text(args)...));
}
// An error of code INVALID_ARGUMENT; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status InvalidArgument(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(internal::Text(args)...));
}
// An error of code DEADLINE_EXCEEDED; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status DeadlineExceeded(const Args&... args) {
  return absl::DeadlineExceededError(absl::StrCat(internal::Text(args)...));
}
// An error of code NOT_FOUND; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status NotFound(const Args&... args) {
  return absl::NotFoundError(absl::StrCat(internal::Text(args)...));
}
// An error of code ALREADY_EXISTS; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status AlreadyExists(const Args&... args) {
  return absl::AlreadyExistsError(absl::StrCat(internal::Text(args)...));
}
// An error of code PERMISSION_DENIED; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status PermissionDenied(const Args&... args) {
  return absl::PermissionDeniedError(absl::StrCat(internal::Text(args)...));
}
// An error of code RESOURCE_EXHAUSTED; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status ResourceExhausted(const Args&... args) {
  return absl::ResourceExhaustedError(absl::StrCat(internal::Text(args)...));
}
// An error of code FAILED_PRECONDITION; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status FailedPrecondition(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat(internal::Text(args)...));
}
// An error of code ABORTED; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status Aborted(const Args&... args) {
  return absl::AbortedError(absl::StrCat(internal::Text(args)...));
}
// An error of code OUT_OF_RANGE; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status OutOfRange(const Args&... args) {
  return absl::OutOfRangeError(absl::StrCat(internal::Text(args)...));
}
// An error of code UNIMPLEMENTED; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status Unimplemented(const Args&... args) {
  return absl::UnimplementedError(absl::StrCat(internal::Text(args)...));
}
// An error of code INTERNAL; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status Internal(const Args&... args) {
  return absl::InternalError(absl::StrCat(internal::Text(args)...));
}
// An error of code UNAVAILABLE; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status Unavailable(const Args&... args) {
  return absl::UnavailableError(absl::StrCat(internal::Text(args)...));
}
// An error of code DATA_LOSS; the message is the arguments, concatenated.
template <typename... Args>
THALWEG_COLD absl::Status DataLoss(const Args&... args) {
  return absl::DataLossError(absl::StrCat(internal::Text(args)...));
}

#undef THALWEG_COLD

// The same error with `text` put before (Prepend) or after (Append) its message. OK
// stays OK:
absl::Status Prepend(const absl::Status& status, absl::string_view text);
absl::Status Append(const absl::Status& status, absl::string_view text);

}  // namespace thalweg

// Returns from the function with the Status of the expression unless it is OK.
#define THALWEG_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                       \
    if (::absl::Status thalweg_status_ = (expression); !thalweg_status_.ok()) [[unlikely]] { \
      return thalweg_status_;                                                                \
    }                                                                                        \
  } while (false)

/// @cond INTERNAL
#define THALWEG_CONCAT_(a, b) a##b
#define THALWEG_CONCAT(a, b) THALWEG_CONCAT_(a, b)
/// @endcond

// Assigns the value of a StatusOr to `lhs`, which may declare a variable, or returns from
// the function with its error.
#define THALWEG_ASSIGN_OR_RETURN(lhs, expression) \
  THALWEG_ASSIGN_OR_RETURN_(THALWEG_CONCAT(thalweg_result_, __LINE__), lhs, expression)

/// @cond INTERNAL
#define THALWEG_ASSIGN_OR_RETURN_(result, lhs, expression) \
  auto result = (expression);                              \
  if (!result.ok()) [[unlikely]]                           \
    return std::move(result).status();                     \
  lhs = *std::move(result)
/// @endcond
