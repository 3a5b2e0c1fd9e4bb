// DecodeCSV: lines of fields, separated by one character, to a tensor for every
// column. A field may be in quotes, in which a quote is written twice. Empty
// fields get the column's default.
#include "absl/strings/numbers.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io_ops.h"

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

class DecodeCsvKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string delimiter, init.Attr<std::string>("field_delim"));
    ASSIGN_OR_RETURN(quotes_, init.Attr<bool>("use_quote_delim"));
    ASSIGN_OR_RETURN(na_value_, init.Attr<std::string>("na_value"));
    ASSIGN_OR_RETURN(columns_, init.Attr<std::vector<int64_t>>("select_cols"));
    if (!columns_.empty() && static_cast<int>(columns_.size()) != init.node().num_outputs()) {
      return InvalidArgument("select_cols should match output size");
    }
    for (size_t i = 1; i < columns_.size(); ++i) {
      if (columns_[i - 1] >= columns_[i]) {
        return InvalidArgument("select_cols should be strictly increasing indices");
      }
    }
    if (!columns_.empty() && columns_[0] < 0) return InvalidArgument("select_cols should be non-negative indices");
    if (delimiter.size() != 1) return InvalidArgument("field_delim should be only 1 char");
    delimiter_ = delimiter[0];
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& records = c.input(0);
    const int width = c.num_outputs();
    std::vector<Tensor*> outputs;
    for (int i = 0; i < width; ++i) {
      const Tensor& value = c.input(i + 1);
      if (value.rank() > 1) return InvalidArgument("Each record default should be at most rank 1");
      if (value.num_elements() > 1) {
        return InvalidArgument("There should only be 1 default per field but field ", i, " has ", value.num_elements());
      }
      ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(i, records.shape()));
      outputs.push_back(out);
    }
    for (int64_t record = 0; record < records.num_elements(); ++record) {
      ASSIGN_OR_RETURN(const std::vector<std::string> fields, Split(records.data<std::string>()[record]));
      if (static_cast<int>(fields.size()) != width) {
        return InvalidArgument("Expect ", width, " fields but have ", fields.size(), " in record ", record);
      }
      for (int i = 0; i < width; ++i) {
        RETURN_IF_ERROR(SetField(fields[i], c.input(i + 1), i, record, outputs[i]));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status SetField(const std::string& field, const Tensor& default_value, int column, int64_t record,
                        Tensor* out) const {
    const bool missing = field.empty() || field == na_value_;
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
  absl::StatusOr<std::string> TakeField(absl::string_view* text) const {
    std::string field;
    if (!quotes_ || text->front() != '"') {
      const size_t end = std::min(text->find(delimiter_), text->size());
      field = std::string(text->substr(0, end));
      if ((quotes_ && field.find('"') != std::string::npos) || field.find_first_of("\r\n") != std::string::npos) {
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
      if (next == delimiter_) return field;
      if (next != '"') return InvalidArgument("Quote inside a string has to be escaped by another quote");
      field.push_back('"');
    }
  }

  absl::StatusOr<std::vector<std::string>> Split(absl::string_view text) const {
    std::vector<std::string> fields;
    if (text.empty()) return fields;
    const bool open_end = text.back() == delimiter_;  // one more field, which is empty
    const auto wanted = [&](int64_t column) {
      return columns_.empty() || (fields.size() < columns_.size() && columns_[fields.size()] == column);
    };
    int64_t column = 0;
    while (!text.empty()) {
      if (text.front() == '\n' || text.front() == '\r') {
        text.remove_prefix(1);
        continue;
      }
      ASSIGN_OR_RETURN(std::string field, TakeField(&text));
      if (wanted(column++)) fields.push_back(std::move(field));
      if (!columns_.empty() && fields.size() == columns_.size()) return fields;
    }
    if (open_end && wanted(column)) fields.push_back("");
    return fields;
  }

  char delimiter_ = ',';
  bool quotes_ = true;
  std::string na_value_;
  std::vector<int64_t> columns_;  // those that are wanted; all if empty
};

absl::Status CsvShape(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    const PartialShape& shape = c.input(i);
    if (shape.has_rank() && shape.rank() > 1) {
      return InvalidArgument("Shape of a default must be a length-0 or length-1 vector, or a scalar.");
    }
    if (shape.rank() == 1 && shape.dim(0) > 1) {
      return InvalidArgument("Shape of a default must be a length-0 or length-1 vector, or a scalar.");
    }
  }
  return shapes::LikeInput0(c);
}

const OpRegistration kDecodeCsv = Op("DecodeCSV")
                                      .Input("records: string")
                                      .Input("record_defaults: OUT_TYPE")
                                      .Output("output: OUT_TYPE")
                                      .Attr("OUT_TYPE: list({float, double, int32, int64, string}) >= 1")
                                      .Attr("field_delim: string = ','")
                                      .Attr("use_quote_delim: bool = true")
                                      .Attr("na_value: string = ''")
                                      .Attr("select_cols: list(int) = []")
                                      .Shape(CsvShape)
                                      .Kernel<DecodeCsvKernel>()
                                      .NotDifferentiable();

}  // namespace

std::vector<Output> DecodeCsv(const Scope& s, Output records, const std::vector<Output>& record_defaults,
                              const DecodeCsvOptions& options) {
  Node* const node = s.Add("DecodeCSV", {records, record_defaults},
                           {{"field_delim", options.field_delim},
                            {"use_quote_delim", options.use_quote_delim},
                            {"na_value", options.na_value},
                            {"select_cols", options.select_cols}});
  std::vector<Output> outputs;
  for (size_t i = 0; i < record_defaults.size(); ++i) outputs.emplace_back(node, static_cast<int>(i));
  return outputs;
}

}  // namespace thalweg
