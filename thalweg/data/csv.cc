// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/csv.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "thalweg/base/status.h"

namespace thalweg::data {
namespace {

template <typename T, typename Parse>
absl::StatusOr<Tensor> Number(const std::string& text, Parse parse) {
  T value;
  if (!parse(text, &value)) return InvalidArgument("'", absl::CEscape(text), "' is not a ", ToString(DTypeOf<T>));
  return Tensor::Scalar<T>(value);
}

absl::StatusOr<Tensor> Parse(const std::string& text, DType dtype) {
  switch (dtype) {
    case kFloat:
      return Number<float>(text, absl::SimpleAtof);
    case kDouble:
      return Number<double>(text, absl::SimpleAtod);
    case kInt32:
      return Number<int32_t>(text, absl::SimpleAtoi<int32_t>);
    case kInt64:
      return Number<int64_t>(text, absl::SimpleAtoi<int64_t>);
    case kString:
      return Tensor::Scalar<std::string>(text);
    default:
      return InvalidArgument("a column cannot be ", dtype);
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitCsvLine(absl::string_view line, char delimiter) {
  std::vector<std::string> fields;
  size_t i = 0;
  for (;;) {
    std::string field;
    if (i < line.size() && line[i] == '"') {
      for (++i;; ++i) {
        if (i >= line.size()) return InvalidArgument("the quotes of field ", fields.size(), " do not close");
        if (line[i] != '"') {
          field.push_back(line[i]);
        } else if (i + 1 < line.size() && line[i + 1] == '"') {
          field.push_back(line[i++]);
        } else {
          break;
        }
      }
      ++i;
      if (i < line.size() && line[i] != delimiter) {
        return InvalidArgument("text behind the quotes of field ", fields.size());
      }
    } else {
      const size_t end = std::min(line.find(delimiter, i), line.size());
      field = std::string(line.substr(i, end - i));
      i = end;
    }
    fields.push_back(std::move(field));
    if (i >= line.size()) return fields;
    ++i;  // the delimiter
  }
}

Decoder DecodeCsv(std::vector<CsvColumn> columns, char delimiter) {
  return [columns = std::move(columns), delimiter](const Record& record) -> absl::StatusOr<Tensors> {
    ASSIGN_OR_RETURN(const std::vector<std::string> fields, SplitCsvLine(record.bytes, delimiter));
    if (fields.size() != columns.size()) {
      return InvalidArgument("expected ", columns.size(), " fields, got ", fields.size());
    }
    Tensors example;
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool missing = fields[i].empty() && columns[i].default_value.has_value();
      absl::StatusOr<Tensor> value = Parse(missing ? *columns[i].default_value : fields[i], columns[i].dtype);
      if (!value.ok()) return Prepend(value.status(), absl::StrCat("field ", i, ": "));
      example.push_back(*std::move(value));
    }
    return example;
  };
}

}  // namespace thalweg::data
