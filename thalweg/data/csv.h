// SPDX-License-Identifier: Apache-2.0
// Lines of comma-separated values as examples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thalweg/data/pipeline.h"

namespace thalweg::data {

// The type of a column, and the value of an empty field.
struct CsvColumn {
  // A column whose fields must not be empty.
  CsvColumn(DType dtype) : dtype(dtype) {}  // NOLINT: implicit by design
  // A column with a value for empty fields.
  CsvColumn(DType dtype, std::string default_value) : dtype(dtype), default_value(std::move(default_value)) {}
  DType dtype;                               // kFloat, kDouble, kInt32, kInt64 or kString
  std::optional<std::string> default_value;  // value of an empty field; without one, an empty field is an error
};

// Splits a line into fields at `delimiter`. A quoted field may contain the delimiter, and
// quotes if they are doubled. INVALID_ARGUMENT for a quote that is not closed or not followed
// by a delimiter.
absl::StatusOr<std::vector<std::string>> SplitCsvLine(absl::string_view line, char delimiter = ',');

// A decoder that gives one scalar per column. Errors name the column, its text and its type.
Decoder DecodeCsv(std::vector<CsvColumn> columns, char delimiter = ',');

}  // namespace thalweg::data
