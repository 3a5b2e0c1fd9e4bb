// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/io/csv_fields.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {
namespace {

template <typename T>
bool ParseField(const std::string& text, T* value) {
  if constexpr (std::is_same_v<T, std::string>) {
    *value = text;
    return true;
  } else if constexpr (std::is_same_v<T, float>) {
    return absl::SimpleAtof(text, value);
  } else if constexpr (std::is_same_v<T, double>) {
    return absl::SimpleAtod(text, value);
  } else {
    return absl::SimpleAtoi(text, value);
  }
}

}  // namespace

absl::Status CsvFormat::Check(absl::string_view delimiter_text, size_t outputs) const {
  if (!columns.empty() && columns.size() != outputs) return InvalidArgument("select_cols should match output size");
  for (size_t i = 1; i < columns.size(); ++i) {
    if (columns[i - 1] >= columns[i]) return InvalidArgument("select_cols should be strictly increasing indices");
  }
  if (!columns.empty() && columns[0] < 0) return InvalidArgument("select_cols should be non-negative indices");
  if (!columns.empty() && !excluded.empty()) {
    return InvalidArgument("Either select_cols or exclude_cols should be empty");
  }
  for (size_t i = 1; i < excluded.size(); ++i) {
    if (excluded[i - 1] >= excluded[i]) return InvalidArgument("exclude_cols should be strictly increasing indices");
  }
  if (!excluded.empty() && excluded[0] < 0) return InvalidArgument("exclude_cols should be non-negative indices");
  if (delimiter_text.size() != 1) return InvalidArgument("field_delim should be only 1 char");
  return absl::OkStatus();
}

absl::Status CsvFormat::Parse(const std::string& field, const Tensor& default_value, int column, int64_t record,
                              Tensor* out) const {
  const bool missing = field.empty() || field == na_value;
  if (missing && default_value.num_elements() == 0) {
    return InvalidArgument("Field ", column, " is required but missing in record ", record, "!");
  }
  return Dispatch(Types<float, double, int32_t, int64_t, std::string>(), out->dtype(), [&]<typename T>() {
    T& value = out->mutable_data<T>()[record];
    if (missing) {
      value = default_value.scalar<T>();
    } else if (!ParseField(field, &value)) {
      return InvalidArgument("Field ", column, " in record ", record, " is not a valid ", out->dtype(), ": ", field);
    }
    return absl::OkStatus();
  });
}

// Takes a field off the front, with the delimiter after it.
absl::StatusOr<std::string> CsvFormat::TakeField(absl::string_view* text) const {
  std::string field;
  if (!quotes || text->front() != '"') {
    const size_t end = std::min(text->find(delimiter), text->size());
    field = std::string(text->substr(0, end));
    if ((quotes && field.find('"') != std::string::npos) || field.find_first_of("\r\n") != std::string::npos) {
      return InvalidArgument("Unquoted fields cannot have quotes/CRLFs inside");
    }
    text->remove_prefix(std::min(end + 1, text->size()));
    return field;
  }
  text->remove_prefix(1);
  while (true) {
    const size_t quote = text->find('"');
    if (quote == absl::string_view::npos) {
      return InvalidArgument("Quoted field has to end with quote followed by delim or end");
    }
    field.append(text->data(), quote);
    text->remove_prefix(quote + 1);
    if (text->empty()) return field;
    const char next = text->front();
    text->remove_prefix(1);
    if (next == delimiter) return field;
    if (next != '"') return InvalidArgument("Quote inside a string has to be escaped by another quote");
    field.push_back('"');
  }
}

absl::StatusOr<std::vector<std::string>> CsvFormat::Split(absl::string_view text) const {
  std::vector<std::string> fields;
  if (text.empty()) return fields;
  const bool open_end = text.back() == delimiter;  // one more field, which is empty
  const auto wanted = [&](int64_t column) {
    if (columns.empty()) return !std::binary_search(excluded.begin(), excluded.end(), column);
    return fields.size() < columns.size() && columns[fields.size()] == column;
  };
  int64_t column = 0;
  while (!text.empty()) {
    if (text.front() == '\n' || text.front() == '\r') {
      text.remove_prefix(1);
      continue;
    }
    ASSIGN_OR_RETURN(std::string field, TakeField(&text));
    if (wanted(column++)) fields.push_back(std::move(field));
    if (!columns.empty() && fields.size() == columns.size()) return fields;
  }
  if (open_end && wanted(column)) fields.push_back("");
  return fields;
}

absl::Status CheckCsvDefault(const Tensor& value, int column) {
  if (value.rank() > 1) return InvalidArgument("Each record default should be at most rank 1");
  if (value.num_elements() > 1) {
    return InvalidArgument("There should only be 1 default per field but field ", column, " has ",
                           value.num_elements());
  }
  return absl::OkStatus();
}

}  // namespace thalweg
