// SPDX-License-Identifier: Apache-2.0
// Messages between a server and the program that started it: calls of Python
// functions, and their results. python/shim/thalweg_functions.py has the other side.
//
// All numbers are little-endian. A message is
//
//   u64 bytes that follow, records
//
// and a record
//
//   u32 a, u32 b, u32 bytes of text, u32 tensors, text, tensors
//
// A call is one record: the text is the function's token, `a` is 1 if the function takes
// eager tensors, and `b` says how often to call it at most. The answer has a record for
// each call that was made. The text is the error message, and `a` is the code, 0 if there is
// no error. `b` of the last record is 1 if the program still uses the shared memory. A
// tensor is
//
//   u32 type, u32 rank, i64 dimensions, elements
//
// where the elements of a string tensor are u64 lengths, followed by all the bytes. If the
// type has the bit kInMemory, a u64 offset into the shared memory of the connection stands
// in place of the elements.
//
// The server creates the shared memory. With the first byte of a call, it passes the file
// descriptor. It puts large inputs there. The program puts large results behind them, as far
// as they fit. Both forget the memory if it is larger than kMostKeptMemory or still used.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/kernel/script_functions.h"
#include "thalweg/tensor/tensor.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

inline constexpr uint32_t kInMemory = uint32_t{1} << 31;
// Tensors of so many bytes travel in shared memory.
inline constexpr size_t kSmallestInMemory = 1 << 16;
inline constexpr size_t kMostKeptMemory = 1 << 26;

// UNIMPLEMENTED if an input has a type that Python cannot take, such as a resource.
absl::Status CheckCall(const ScriptCall& call);
// The memory that large inputs take.
size_t MemoryOfInputs(const ScriptCall& call);
// The bytes of a call. Its large inputs are copied to `memory`, unless that is nullptr.
// REQUIRES: CheckCall() is OK, and the memory has at least MemoryOfInputs() bytes.
std::string EncodeCall(const ScriptCall& call, SharedMemory* memory);

struct ScriptAnswer {
  ScriptResults results;
  size_t memory = 0;         // what its large tensors take in shared memory, wherever they were
  bool memory_used = false;  // the program still uses the shared memory
};
// The answer to a call. `bytes`: a whole message without its first number. `memory`: that of the connection, or
// nullptr. INVALID_ARGUMENT if it is not an answer.
absl::StatusOr<ScriptAnswer> DecodeAnswer(absl::string_view bytes, const SharedMemory* memory);

}  // namespace thalweg
