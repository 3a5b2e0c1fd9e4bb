// SPDX-License-Identifier: Apache-2.0
// Varints, as protobuf and leveldb write them: seven bits in a byte, the low ones
// first; the eighth bit says that more bytes follow.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace thalweg {

// Removes a varint from the front of `bytes`. False if there is none.
bool TakeVarint(absl::string_view* bytes, uint64_t* value);
void AppendVarint(std::string* bytes, uint64_t value);

}  // namespace thalweg
