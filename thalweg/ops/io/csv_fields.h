// Lines of comma-separated values, as DecodeCSV and CSVDataset read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// How a line is written, and which of its fields are wanted.
struct CsvFormat {
  char delimiter = ',';
  bool quotes = true;            // a field may be in quotes, in which a quote is written twice
  std::string na_value;          // stands for a missing field, as an empty one does
  std::vector<int64_t> columns;  // those that are wanted; all if empty

  // INVALID_ARGUMENT unless the columns are as many as `outputs`, and in order.
  absl::Status Check(absl::string_view delimiter_text, size_t outputs) const;
  // The fields that are wanted.
  absl::StatusOr<std::vector<std::string>> Split(absl::string_view line) const;
  // Element `record` of `out`: the value of a field, or the default if it is
  // missing. Errors name the column and the record.
  absl::Status Parse(const std::string& field, const Tensor& default_value, int column, int64_t record,
                     Tensor* out) const;

 private:
  absl::StatusOr<std::string> TakeField(absl::string_view* text) const;
};

// INVALID_ARGUMENT if a default is not one value or none.
absl::Status CheckCsvDefault(const Tensor& value, int column);

}  // namespace thalweg
