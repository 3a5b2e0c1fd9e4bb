// SPDX-License-Identifier: Apache-2.0
// Messages between a server and the program that started it: calls of Python
// functions, and their results. python/shim/thalweg_functions.py has the other side.
//
// All numbers are little-endian. A message is
//
//   u64 bytes that follow, u32 a, u32 bytes of text, u32 tensors, text, tensors
//
// In a call the text is the function's token, and `a` is 1 if it takes eager tensors.
// In a result the text is the error message, and `a` is the code, 0 if there is none. A
// tensor is
//
//   u32 type, u32 rank, i64 dimensions, elements
//
// where the elements of a string tensor are u64 lengths, followed by all the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/kernel/script_functions.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The bytes of a call. UNIMPLEMENTED if an input has a type that Python cannot take,
// such as a resource.
absl::StatusOr<std::string> EncodeCall(const ScriptCall& call);

// The result, or error, of a call. `bytes`: a whole message without its first number.
// INVALID_ARGUMENT if it is not a result.
absl::StatusOr<std::vector<Tensor>> DecodeResult(absl::string_view bytes);

}  // namespace thalweg
