// SPDX-License-Identifier: Apache-2.0
// Formats tensors as text like TensorFlow's Print, Assert and StringFormat.
#pragma once

#include <cstdint>
#include <string>

#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The first `max_entries` elements (all, if negative), "1 2 3...", with brackets
// around the rows of a matrix: "[1 2][3...]...".
std::string SummarizeValue(const Tensor& t, int64_t max_entries);

// The first and last `max_entries` of every dimension (all, if negative), nested
// as in Python: "[[1 2] [3 4]]", "[0 1 2 ... 7 8 9]". Strings are quoted.
std::string SummarizeNested(const Tensor& t, int64_t max_entries);

}  // namespace thalweg
