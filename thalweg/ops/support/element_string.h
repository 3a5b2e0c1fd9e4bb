// SPDX-License-Identifier: Apache-2.0
// Copies of strings within the memory of the machine. An op may copy one string to millions of places.
#pragma once

#include <string>
#include <utility>

#include "thalweg/base/string_memory.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {

// A string as an element that is copied: assignments end with an exception, which fails the op, before the copies take
// the memory of the machine.
struct ElementString : std::string {
  ElementString() = default;
  ElementString(const ElementString&) = default;
  ElementString(ElementString&&) = default;
  ElementString& operator=(ElementString&&) = default;
  ElementString& operator=(const ElementString& other) {
    ReserveStringMemory(other.size());
    std::string::operator=(other);
    return *this;
  }
};
static_assert(sizeof(ElementString) == sizeof(std::string));

// Like DispatchBySize(), with ElementString for strings. For ops whose output may have an element many times.
template <typename F>
absl::Status DispatchCopies(DType dtype, F&& f) {
  if (dtype == kString) return f.template operator()<ElementString>();
  return DispatchBySize(dtype, std::forward<F>(f));
}

}  // namespace thalweg
