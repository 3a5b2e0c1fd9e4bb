// SPDX-License-Identifier: Apache-2.0
// Lines of comma-separated values as examples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thalweg/data/pipeline.h"

namespace thalweg::data {

// The type of a column, and what stands for a missing field.
struct CsvColumn {
  CsvColumn(DType dtype) : dtype(dtype) {}  // NOLINT: implicit by design
  CsvColumn(DType dtype, std::string default_value) : dtype(dtype), default_value(std::move(default_value)) {}
  DType dtype;                               // kFloat, kDouble, kInt32, kInt64 or kString
  std::optional<std::string> default_value;  // for an empty field, which is an error without one
};

// The fields of a line: separated by `delimiter`; one in quotes may have the
// delimiter, and quotes twice, in it. INVALID_ARGUMENT for quotes that do not
// close or have something behind them.
absl::StatusOr<std::vector<std::string>> SplitCsvLine(absl::string_view line, char delimiter = ',');

// A scalar for every column. Errors name the column, its text and its type.
Decoder DecodeCsv(std::vector<CsvColumn> columns, char delimiter = ',');

}  // namespace thalweg::data
