// SPDX-License-Identifier: Apache-2.0
// Sql(driver, file, query): the rows that a query of an SQLite database gives, a scalar for each column.
#include <sqlite3.h>

#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"

namespace thalweg {
namespace {

absl::StatusCode SqlCode(int code) {
  switch (code & 0xff) {
    case SQLITE_CANTOPEN:
    case SQLITE_CONSTRAINT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kInvalidArgument;
    case SQLITE_READONLY:
    case SQLITE_MISMATCH:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_CORRUPT:
      return absl::StatusCode::kDataLoss;
    case SQLITE_AUTH:
    case SQLITE_PERM:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
      return absl::StatusCode::kUnavailable;
    case SQLITE_INTERRUPT:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kUnknown;
  }
}

// The rows of one query. Not thread-safe.
class SqlRows {
 public:
  SqlRows(std::string file, std::string query, std::vector<DType> types)
      : file_(std::move(file)), query_(std::move(query)), types_(std::move(types)) {}

  NextElement Take(Iteration& it) {
    if (ended_) return std::nullopt;
    if (statement_ == nullptr) RETURN_IF_ERROR(Open());
    // A query may compute for ever without giving a row.
    sqlite3_progress_handler(
        database_.get(), 1000,
        [](void* cancellation) { return static_cast<Cancellation*>(cancellation)->cancelled() ? 1 : 0; },
        &it.cancellation);
    const int code = sqlite3_step(statement_.get());
    RETURN_IF_ERROR(it.Check());
    if (code == SQLITE_DONE) {
      ended_ = true;
      return std::nullopt;
    }
    if (code != SQLITE_ROW) return Failed(code, "Failed to run");
    Element row;
    for (size_t i = 0; i < types_.size(); ++i) row.push_back(Column(static_cast<int>(i)));
    return row;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  absl::Status Failed(int code, absl::string_view what) const {
    const char* const why = database_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database_.get());
    return absl::Status(SqlCode(code),
                        absl::StrCat(what, " the query '", query_, "' of the database ", file_, ": ", why));
  }

  absl::Status Open() {
    sqlite3* database = nullptr;
    int code = sqlite3_open_v2(file_.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    database_.reset(database);
    if (code != SQLITE_OK) return Failed(code, "Failed to open the database for");
    sqlite3_stmt* statement = nullptr;
    code = sqlite3_prepare_v2(database, query_.data(), static_cast<int>(query_.size()), &statement, nullptr);
    if (code != SQLITE_OK) return Failed(code, "Failed to prepare");
    if (const int columns = sqlite3_column_count(statement); columns != static_cast<int>(types_.size())) {
      sqlite3_finalize(statement);
      return InvalidArgument("The number of columns in query (", columns,
                             ") must match the number of elements in output_types (", types_.size(), ").");
    }
    statement_.reset(statement);
    return absl::OkStatus();
  }

  Tensor Column(int i) {
    if (types_[i] == kString) {
      const void* const bytes = sqlite3_column_blob(statement_.get(), i);
      const int size = sqlite3_column_bytes(statement_.get(), i);
      return Tensor::Scalar(bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size));
    }
    if (types_[i] == kDouble) return Tensor::Scalar(sqlite3_column_double(statement_.get(), i));
    const int64_t value = sqlite3_column_int64(statement_.get(), i);
    Tensor t(types_[i], Shape());
    Dispatch(Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, bool>(), types_[i], [&]<typename T>() {
      *t.mutable_data<T>() = std::is_same_v<T, bool> ? value != 0 : static_cast<T>(value);
      return absl::OkStatus();
    }).IgnoreError();  // checked when the dataset was made
    return t;
  }

  const std::string file_, query_;
  const std::vector<DType> types_;
  std::unique_ptr<sqlite3, Close> database_;
  std::unique_ptr<sqlite3_stmt, Close> statement_;
  bool ended_ = false;
};

absl::Status ComputeSql(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::vector<DType> types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  for (const DType type : types) {
    if (type != kString && type != kInt8 && type != kInt16 && type != kInt32 && type != kInt64 && type != kUint8 &&
        type != kUint16 && type != kBool && type != kDouble) {
      return InvalidArgument(
          "Each element of `output_types_` must be one of: DT_STRING, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_UINT8, "
          "DT_UINT16, DT_BOOL, DT_DOUBLE ");
    }
  }
  ASSIGN_OR_RETURN(const auto shapes, GetAttr<std::vector<PartialShape>>(c.node().def(), "output_shapes"));
  for (const PartialShape& shape : shapes) {
    if (!shape.has_rank() || shape.rank() != 0) {
      return InvalidArgument("Each element of `output_shapes_` must be a scalar.");
    }
  }
  ASSIGN_OR_RETURN(const std::string driver, StringArgument(c, 0, "driver_name"));
  ASSIGN_OR_RETURN(const std::string file, StringArgument(c, 1, "data_source_name"));
  ASSIGN_OR_RETURN(const std::string query, StringArgument(c, 2, "query"));
  if (driver != "sqlite") {
    return InvalidArgument("The database type, ", driver,
                           ", is not supported by SqlDataset. The set of supported databases is: {'sqlite'}.");
  }
  return SetDataset(c, DatasetValue::kUnknown, [file, query, types](Iteration&) -> absl::StatusOr<Next> {
    return [rows = std::make_unique<SqlRows>(file, query, types)](Iteration& it) { return rows->Take(it); };
  });
}

Op Sql(absl::string_view name) {
  return DatasetOp(name, "driver_name: string, data_source_name: string, query: string", "TYPES")
      .Stateful()
      .Compute(ComputeSql);
}

const OpRegistration kDatasetSqlOps[] = {Sql("SqlDataset"), Sql("ExperimentalSqlDataset")};

}  // namespace
}  // namespace thalweg
