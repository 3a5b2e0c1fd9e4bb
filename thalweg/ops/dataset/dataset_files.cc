// SPDX-License-Identifier: Apache-2.0
// Datasets of files: their names, and the rows of tables in them.
//
//   MatchingFiles(patterns): the names of the files that match, sorted
//   CSV(files): the fields of one line after the other
#include <algorithm>

#include "thalweg/base/file_system.h"
#include "thalweg/base/glob.h"
#include "thalweg/base/status.h"
#include "thalweg/data/byte_stream.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/io/csv_fields.h"

namespace thalweg {
namespace {

absl::Status ComputeMatchingFiles(KernelContext& c) {
  if (c.input(0).rank() > 1) return InvalidArgument("patterns must be a scalar or a vector");
  const Tensor patterns = c.input(0);
  return SetDataset(c, DatasetValue::kUnknown, [patterns](Iteration&) -> absl::StatusOr<Next> {
    return [patterns, names = std::vector<std::string>(), at = size_t{0},
            read = false](Iteration&) mutable -> NextElement {
      if (!std::exchange(read, true)) {
        for (const std::string& pattern : patterns.flat<std::string>()) {
          ASSIGN_OR_RETURN(const std::vector<std::string> found, MatchingPaths(PosixFileSystem(), pattern));
          names.insert(names.end(), found.begin(), found.end());
        }
        std::sort(names.begin(), names.end());
        names.erase(std::unique(names.begin(), names.end()), names.end());
      }
      if (at >= names.size()) return std::nullopt;
      return Element{Tensor::Scalar(names[at++])};
    };
  });
}

struct CsvTable {
  Tensor files;
  data::Compression compression;
  bool header;
  CsvFormat format;
  Element defaults;
};

class CsvRows {
 public:
  explicit CsvRows(CsvTable table) : table_(std::move(table)) {}

  NextElement Take(Iteration& it) {
    while (true) {
      RETURN_IF_ERROR(it.Check());
      if (stream_ == nullptr) {
        if (file_ >= table_.files.num_elements()) return std::nullopt;
        RETURN_IF_ERROR(Open(table_.files.data<std::string>()[file_]));
      }
      std::string line;
      absl::StatusOr<bool> more = ReadRow(&line);
      if (more.ok() && *more) return Parse(line);
      stream_ = nullptr;
      ++file_;
      RETURN_IF_ERROR(more.status());
    }
  }

 private:
  absl::Status Open(const std::string& path) {
    ASSIGN_OR_RETURN(stream_, data::OpenByteStream(path, table_.compression));
    std::string header;
    if (table_.header) RETURN_IF_ERROR(ReadRow(&header).status());
    return absl::OkStatus();
  }

  // Reads a line, and the following ones as long as a quote is open. Returns false at the end.
  absl::StatusOr<bool> ReadRow(std::string* row) {
    ASSIGN_OR_RETURN(const bool any, stream_->ReadLine(row));
    if (!any) return false;
    const auto quotes = [](const std::string& s) { return std::count(s.begin(), s.end(), '"'); };
    bool open = table_.format.quotes && quotes(*row) % 2 == 1;
    while (open) {
      std::string line;
      ASSIGN_OR_RETURN(const bool more, stream_->ReadLine(&line));
      if (!more) break;
      absl::StrAppend(row, "\n", line);
      open = quotes(line) % 2 == 0;
    }
    return true;
  }

  NextElement Parse(const std::string& line) {
    std::vector<std::string> fields{""};  // an empty line has one field
    if (!line.empty()) {
      ASSIGN_OR_RETURN(fields, table_.format.Split(line));
    }
    if (fields.size() != table_.defaults.size()) {
      return InvalidArgument("Expect ", table_.defaults.size(), " fields but have ", fields.size(), " in record");
    }
    Element element;
    for (size_t i = 0; i < fields.size(); ++i) {
      Tensor value(table_.defaults[i].dtype(), Shape());
      RETURN_IF_ERROR(table_.format.Parse(fields[i], table_.defaults[i], static_cast<int>(i), 0, &value));
      element.push_back(std::move(value));
    }
    return element;
  }

  const CsvTable table_;
  int64_t file_ = 0;
  std::unique_ptr<data::ByteStream> stream_;
};

absl::StatusOr<CsvTable> TableOptions(KernelContext& c) {
  CsvTable table;
  if (c.input(0).rank() > 1) return InvalidArgument("`filenames` must be a scalar or a vector.");
  table.files = c.input(0);
  ASSIGN_OR_RETURN(const std::string compression, StringArgument(c, 1, "compression_type"));
  ASSIGN_OR_RETURN(table.compression, data::CompressionFromName(compression));
  ASSIGN_OR_RETURN(const int64_t buffer, IntArgument(c, 2, "buffer_size"));
  if (buffer <= 0) return InvalidArgument("buffer_size should be positive");
  ASSIGN_OR_RETURN(table.header, BoolArgument(c, 3, "header"));
  ASSIGN_OR_RETURN(const std::string delimiter, StringArgument(c, 4, "field_delim"));
  ASSIGN_OR_RETURN(table.format.quotes, BoolArgument(c, 5, "use_quote_delim"));
  ASSIGN_OR_RETURN(table.format.na_value, StringArgument(c, 6, "na_value"));
  if (c.input(7).rank() != 1) return InvalidArgument("`select_cols` must be a vector, got shape ", c.input(7).shape());
  table.format.columns.assign(c.input(7).flat<int64_t>().begin(), c.input(7).flat<int64_t>().end());
  const bool second = c.node().op() == "CSVDatasetV2";
  for (int i = 8; i < c.num_inputs() - (second ? 1 : 0); ++i) {
    RETURN_IF_ERROR(CheckCsvDefault(c.input(i), i - 8));
    table.defaults.push_back(c.input(i));
  }
  if (second) {
    const Tensor& excluded = c.input(c.num_inputs() - 1);
    if (excluded.rank() != 1) return InvalidArgument("`exclude_cols` must be a vector, got shape ", excluded.shape());
    table.format.excluded.assign(excluded.flat<int64_t>().begin(), excluded.flat<int64_t>().end());
  }
  RETURN_IF_ERROR(table.format.Check(delimiter, table.defaults.size()));
  table.format.delimiter = delimiter[0];
  return table;
}

absl::Status ComputeCsv(KernelContext& c) {
  ASSIGN_OR_RETURN(const CsvTable table, TableOptions(c));
  return SetDataset(c, DatasetValue::kUnknown, [table](Iteration&) -> absl::StatusOr<Next> {
    return [rows = CsvRows(table)](Iteration& it) mutable { return rows.Take(it); };
  });
}

Op Csv(absl::string_view name, absl::string_view more) {
  return DatasetOp(name,
                   absl::StrCat("filenames: string, compression_type: string, buffer_size: int64, header: bool, "
                                "field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64, "
                                "record_defaults: output_types",
                                more),
                   "output_types: list({float,double,int32,int64,string}) >= 1, output_shapes: list(shape) >= 1")
      .Stateful()
      .Compute(ComputeCsv);
}

const OpRegistration kDatasetFilesOps[] = {
    DatasetOp("MatchingFilesDataset", "patterns: string", "").Stateful().Compute(ComputeMatchingFiles),
    DatasetOp("ExperimentalMatchingFilesDataset", "patterns: string", "").Stateful().Compute(ComputeMatchingFiles),
    Csv("CSVDataset", ""),
    Csv("ExperimentalCSVDataset", ""),
    Csv("CSVDatasetV2", ", exclude_cols: int64"),
};

}  // namespace
}  // namespace thalweg
