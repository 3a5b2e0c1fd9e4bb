// Errors are values: every function that can fail returns absl::Status or
// absl::StatusOr, and nobody ignores one. This header adds constructors that
// concatenate their arguments, and the macros that pass errors on.
//
//   if (a.dim(1) != b.dim(0)) {
//     return InvalidArgument("inner dimensions differ: ", a, " x ", b);
//   }
//   RETURN_IF_ERROR(file->Append(bytes));
//   ASSIGN_OR_RETURN(const Tensor value, ReadTensor(name));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/logging.h"

namespace thalweg {
namespace internal {

// What StrCat takes of an argument: its ToString() if it has one.
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

template <typename... Args>
THALWEG_COLD absl::Status Cancelled(const Args&... args) {
  return absl::CancelledError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status Unknown(const Args&... args) {
  return absl::UnknownError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status InvalidArgument(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status DeadlineExceeded(const Args&... args) {
  return absl::DeadlineExceededError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status NotFound(const Args&... args) {
  return absl::NotFoundError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status AlreadyExists(const Args&... args) {
  return absl::AlreadyExistsError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status PermissionDenied(const Args&... args) {
  return absl::PermissionDeniedError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status ResourceExhausted(const Args&... args) {
  return absl::ResourceExhaustedError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status FailedPrecondition(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status Aborted(const Args&... args) {
  return absl::AbortedError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status OutOfRange(const Args&... args) {
  return absl::OutOfRangeError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status Unimplemented(const Args&... args) {
  return absl::UnimplementedError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status Internal(const Args&... args) {
  return absl::InternalError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status Unavailable(const Args&... args) {
  return absl::UnavailableError(absl::StrCat(internal::Text(args)...));
}
template <typename... Args>
THALWEG_COLD absl::Status DataLoss(const Args&... args) {
  return absl::DataLossError(absl::StrCat(internal::Text(args)...));
}

#undef THALWEG_COLD

// The same error with `text` put before or after its message. OK stays OK.
absl::Status Prepend(const absl::Status& status, absl::string_view text);
absl::Status Append(const absl::Status& status, absl::string_view text);

}  // namespace thalweg

#define RETURN_IF_ERROR(expression)                                                          \
  do {                                                                                       \
    if (::absl::Status thalweg_status_ = (expression); !thalweg_status_.ok()) [[unlikely]] { \
      return thalweg_status_;                                                                \
    }                                                                                        \
  } while (false)

#define THALWEG_CONCAT_(a, b) a##b
#define THALWEG_CONCAT(a, b) THALWEG_CONCAT_(a, b)

#define ASSIGN_OR_RETURN(lhs, expression) \
  THALWEG_ASSIGN_OR_RETURN_(THALWEG_CONCAT(thalweg_result_, __LINE__), lhs, expression)

#define THALWEG_ASSIGN_OR_RETURN_(result, lhs, expression) \
  auto result = (expression);                              \
  if (!result.ok()) [[unlikely]]                           \
    return std::move(result).status();                     \
  lhs = *std::move(result)
