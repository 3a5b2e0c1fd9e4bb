// SPDX-License-Identifier: Apache-2.0
// Lines of comma-separated values, as DecodeCSV and CSVDataset read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The format of a line, and the columns to read.
struct CsvFormat {
  char delimiter = ',';
  bool quotes = true;             // fields may be quoted; a quote inside is doubled
  std::string na_value;           // marks a missing field, like an empty field
  std::vector<int64_t> columns;   // columns to read; empty: all
  std::vector<int64_t> excluded;  // columns to leave out, if `columns` is empty

  // INVALID_ARGUMENT unless there are `outputs` columns, in ascending order.
  absl::Status Check(absl::string_view delimiter_text, size_t outputs) const;
  // The fields of the selected columns.
  absl::StatusOr<std::vector<std::string>> Split(absl::string_view line) const;
  // Sets element `record` of `out` to the value of a field, or to the default if it is missing. Errors name
  // the column and the record.
  absl::Status Parse(const std::string& field, const Tensor& default_value, int column, int64_t record,
                     Tensor* out) const;

 private:
  absl::StatusOr<std::string> TakeField(absl::string_view* text) const;
};

// INVALID_ARGUMENT if a default has more than one value.
absl::Status CheckCsvDefault(const Tensor& value, int column);

}  // namespace thalweg
