// SPDX-License-Identifier: Apache-2.0
// DecodeCSV: lines of fields, separated by one character, to a tensor for every
// column. A field may be in quotes, in which a quote is written twice. Empty
// fields get the column's default.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io/csv_fields.h"
#include "thalweg/ops/io_ops.h"

namespace thalweg {
namespace {

class DecodeCsvKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string delimiter, init.Attr<std::string>("field_delim"));
    ASSIGN_OR_RETURN(format_.quotes, init.Attr<bool>("use_quote_delim"));
    ASSIGN_OR_RETURN(format_.na_value, init.Attr<std::string>("na_value"));
    ASSIGN_OR_RETURN(format_.columns, init.Attr<std::vector<int64_t>>("select_cols"));
    RETURN_IF_ERROR(format_.Check(delimiter, init.node().num_outputs()));
    format_.delimiter = delimiter[0];
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& records = c.input(0);
    const int width = c.num_outputs();
    std::vector<Tensor*> outputs;
    for (int i = 0; i < width; ++i) {
      RETURN_IF_ERROR(CheckCsvDefault(c.input(i + 1), i));
      ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(i, records.shape()));
      outputs.push_back(out);
    }
    for (int64_t record = 0; record < records.num_elements(); ++record) {
      ASSIGN_OR_RETURN(const std::vector<std::string> fields, format_.Split(records.data<std::string>()[record]));
      if (static_cast<int>(fields.size()) != width) {
        return InvalidArgument("Expect ", width, " fields but have ", fields.size(), " in record ", record);
      }
      for (int i = 0; i < width; ++i) {
        RETURN_IF_ERROR(format_.Parse(fields[i], c.input(i + 1), i, record, outputs[i]));
      }
    }
    return absl::OkStatus();
  }

 private:
  CsvFormat format_;
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
