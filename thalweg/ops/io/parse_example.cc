// SPDX-License-Identifier: Apache-2.0
// ParseExample, ParseExampleV2 and ParseSingleExample: serialized Examples to
// tensors. Dense features have the same shape in every record (or are padded to
// the longest), sparse and ragged ones as many values as they like. V2 takes one
// record or a batch, the single form one, without a dimension for the batch.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io/example_parsing.h"

namespace thalweg {
namespace {

enum class ExampleForm { kV1, kV2, kSingle };

class ParseExampleKernel : public Kernel {
 public:
  explicit ParseExampleKernel(ExampleForm form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(sparse_types_, init.Attr<std::vector<DType>>("sparse_types"));
    ASSIGN_OR_RETURN(const int64_t num_sparse,
                     init.Attr<int64_t>(form_ == ExampleForm::kV1 ? "Nsparse" : "num_sparse"));
    if (num_sparse != static_cast<int64_t>(sparse_types_.size())) {
      return InvalidArgument("len(sparse_keys) != len(sparse_types)");
    }
    ASSIGN_OR_RETURN(const std::vector<DType> dense_types, init.Attr<std::vector<DType>>("Tdense"));
    ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, init.Attr<std::vector<PartialShape>>("dense_shapes"));
    if (dense_types.size() != shapes.size()) return InvalidArgument("len(dense_keys) != len(dense_shapes)");
    for (size_t i = 0; i < shapes.size(); ++i) {
      ASSIGN_OR_RETURN(DenseFeature feature, MakeDenseFeature(static_cast<int>(i), dense_types[i], shapes[i]));
      dense_.push_back(std::move(feature));
    }
    if (form_ == ExampleForm::kV1) {
      ASSIGN_OR_RETURN(const int64_t num_dense, init.Attr<int64_t>("Ndense"));
      if (num_dense != static_cast<int64_t>(dense_.size())) {
        return InvalidArgument("len(dense_keys) != len(dense_types)");
      }
    }
    if (form_ == ExampleForm::kV2) {
      ASSIGN_OR_RETURN(ragged_types_, init.Attr<std::vector<DType>>("ragged_value_types"));
      ASSIGN_OR_RETURN(split_types_, init.Attr<std::vector<DType>>("ragged_split_types"));
      if (ragged_types_.size() != split_types_.size()) {
        return InvalidArgument("len(ragged_value_types) != len(ragged_split_types)");
      }
    }
    if (form_ == ExampleForm::kSingle) {
      ASSIGN_OR_RETURN(sparse_keys_, init.Attr<std::vector<std::string>>("sparse_keys"));
      ASSIGN_OR_RETURN(dense_keys_, init.Attr<std::vector<std::string>>("dense_keys"));
      if (sparse_keys_.size() != sparse_types_.size()) {
        return InvalidArgument("len(sparse_keys) != len(sparse_types)");
      }
      if (dense_keys_.size() != dense_.size()) return InvalidArgument("len(dense_keys) != len(dense_types)");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    Call call;
    RETURN_IF_ERROR(ReadInputs(c, &call));
    const Tensor& serialized = c.input(0);
    const bool is_batch = serialized.rank() == 1;
    ASSIGN_OR_RETURN(const std::vector<tensorflow::Example> examples,
                     ParseMessages<tensorflow::Example>(c, serialized, [](int64_t, const std::string& bytes) {
                       return InvalidArgument("Could not parse example input, value: '", bytes, "'");
                     }));
    const auto column = [&](const std::string& key) {
      return Column<tensorflow::Feature>(
          examples, key, [](const tensorflow::Example& e) -> const auto& { return e.features().feature(); });
    };
    const auto errors = [&](const std::string& key) -> RecordError {
      return [&c, &key, is_batch, this](int64_t record, const std::string& text) {
        if (record < 0) return InvalidArgument(is_batch ? "Name: <unknown>, " : "", text);
        if (!is_batch) return InvalidArgument("Key: ", key, ".  ", text);
        return InvalidArgument("Name: ", NameOf(c, record), ", Key: ", key, ", Index: ", record, ".  ", text);
      };
    };
    std::vector<SparseTensors> sparse;
    for (size_t i = 0; i < sparse_types_.size(); ++i) {
      const std::string& key = call.sparse_keys[i];
      ASSIGN_OR_RETURN(SparseTensors tensors, ParseSparse(sparse_types_[i], column(key), is_batch, errors(key)));
      sparse.push_back(std::move(tensors));
    }
    int output = 0;
    for (SparseTensors& t : sparse) c.set_output(output++, std::move(t.indices));
    for (SparseTensors& t : sparse) c.set_output(output++, std::move(t.values));
    for (SparseTensors& t : sparse) c.set_output(output++, std::move(t.shape));
    for (const DenseFeature& feature : call.dense) {
      ASSIGN_OR_RETURN(Tensor value, ParseDense(feature, column(feature.key), is_batch, errors(feature.key)));
      c.set_output(output++, std::move(value));
    }
    for (size_t i = 0; i < ragged_types_.size(); ++i) {
      const std::string& key = call.ragged_keys[i];
      ASSIGN_OR_RETURN(RaggedTensors tensors, ParseRagged(ragged_types_[i], split_types_[i], column(key), errors(key)));
      const int splits = output + static_cast<int>(ragged_types_.size());
      c.set_output(output++, std::move(tensors.values));
      c.set_output(splits, is_batch ? std::move(tensors.splits) : MakeSplits(split_types_[i], {}));
    }
    return absl::OkStatus();
  }

 private:
  // The inputs of a call.
  struct Call {
    std::vector<std::string> sparse_keys;
    std::vector<std::string> ragged_keys;
    std::vector<DenseFeature> dense;
  };

  std::string NameOf(const KernelContext& c, int64_t record) const {
    const bool named = form_ != ExampleForm::kSingle && c.input(1).num_elements() > record;
    return named ? c.input(1).data<std::string>()[record] : "<unknown>";
  }

  absl::Status ReadInputs(const KernelContext& c, Call* call) const {
    const Tensor& serialized = c.input(0);
    if (form_ == ExampleForm::kV1   ? serialized.rank() != 1
        : form_ == ExampleForm::kV2 ? serialized.rank() > 1
                                    : serialized.rank() != 0) {
      return InvalidArgument("Expected serialized to be a ",
                             form_ == ExampleForm::kV1   ? "vector"
                             : form_ == ExampleForm::kV2 ? "scalar or vector"
                                                         : "scalar",
                             ", got shape: ", serialized.shape());
    }
    if (form_ != ExampleForm::kSingle && c.input(1).num_elements() > 0 && c.input(1).shape() != serialized.shape()) {
      return InvalidArgument("Expected names have the same shape as serialized: name.shape=", c.input(1).shape(),
                             ", serialized.shape=", serialized.shape());
    }
    std::vector<std::string> dense_keys = dense_keys_;
    int defaults = 1;  // the first input that is one
    if (form_ == ExampleForm::kSingle) {
      call->sparse_keys = sparse_keys_;
    } else if (form_ == ExampleForm::kV1) {
      defaults = 2 + static_cast<int>(sparse_types_.size() + dense_.size());
      for (int i = 2; i < defaults; ++i) {
        if (c.input(i).rank() != 0) return InvalidArgument("a key must be a scalar, got shape: ", c.input(i).shape());
        const bool sparse = i - 2 < static_cast<int>(sparse_types_.size());
        (sparse ? call->sparse_keys : dense_keys).push_back(c.input(i).scalar<std::string>());
      }
    } else {
      const auto read = [&](int i, std::vector<std::string>* keys, size_t expected, absl::string_view what) {
        const absl::Span<const std::string> values = c.input(i).flat<std::string>();
        keys->assign(values.begin(), values.end());
        if (keys->size() == expected) return absl::OkStatus();
        return InvalidArgument("Expected len(", what, "_keys) == num_", what, " but got: ", keys->size(), " vs. ",
                               expected);
      };
      RETURN_IF_ERROR(read(2, &call->sparse_keys, sparse_types_.size(), "sparse"));
      RETURN_IF_ERROR(read(3, &dense_keys, dense_.size(), "dense"));
      RETURN_IF_ERROR(read(4, &call->ragged_keys, ragged_types_.size(), "ragged"));
      defaults = 5;
    }
    for (size_t i = 0; i < dense_.size(); ++i) {
      DenseFeature feature = dense_[i];
      feature.key = dense_keys[i];
      feature.default_value = c.input(defaults + static_cast<int>(i));
      RETURN_IF_ERROR(CheckDefault(static_cast<int>(i), feature));
      call->dense.push_back(std::move(feature));
    }
    return absl::OkStatus();
  }

  const ExampleForm form_;
  std::vector<DType> sparse_types_, ragged_types_, split_types_;
  std::vector<DenseFeature> dense_;                    // without keys and defaults
  std::vector<std::string> sparse_keys_, dense_keys_;  // keys of ParseSingleExample
};

absl::Status ParseExampleShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::vector<DType> sparse, c.Attr<std::vector<DType>>("sparse_types"));
  ASSIGN_OR_RETURN(const std::vector<PartialShape> dense, c.Attr<std::vector<PartialShape>>("dense_shapes"));
  const bool single = c.node().op() == "ParseSingleExample";
  const PartialShape batch = single ? PartialShape({}) : c.input(0);
  const int count = static_cast<int>(sparse.size());
  if (!batch.has_rank() || c.num_outputs() < 3 * count + static_cast<int>(dense.size())) return absl::OkStatus();
  const bool is_batch = batch.rank() == 1;
  for (int i = 0; i < count; ++i) {
    c.set_output(i, {PartialShape::kUnknown, is_batch ? 2 : 1});
    c.set_output(count + i, {PartialShape::kUnknown});
    c.set_output(2 * count + i, {is_batch ? 2 : 1});
  }
  for (size_t i = 0; i < dense.size(); ++i) {
    if (!dense[i].has_rank()) continue;
    Dims dims(batch.dims().begin(), batch.dims().end());
    dims.insert(dims.end(), dense[i].dims().begin(), dense[i].dims().end());
    c.set_output(3 * count + static_cast<int>(i), PartialShape(std::move(dims)));
  }
  return absl::OkStatus();
}

const OpRegistration kParseExampleOps[] = {
    Op("ParseExample")
        .Input("serialized: string")
        .Input("names: string")
        .Input("sparse_keys: Nsparse * string")
        .Input("dense_keys: Ndense * string")
        .Input("dense_defaults: Tdense")
        .Output("sparse_indices: Nsparse * int64")
        .Output("sparse_values: sparse_types")
        .Output("sparse_shapes: Nsparse * int64")
        .Output("dense_values: Tdense")
        .Attr("Nsparse: int >= 0")
        .Attr("Ndense: int >= 0")
        .Attr("sparse_types: list({float, int64, string}) >= 0")
        .Attr("Tdense: list({float, int64, string}) >= 0")
        .Attr("dense_shapes: list(shape) >= 0")
        .Shape(ParseExampleShape)
        .Kernel<ParseExampleKernel>(ExampleForm::kV1)
        .NotDifferentiable(),
    Op("ParseExampleV2")
        .Input("serialized: string")
        .Input("names: string")
        .Input("sparse_keys: string")
        .Input("dense_keys: string")
        .Input("ragged_keys: string")
        .Input("dense_defaults: Tdense")
        .Output("sparse_indices: num_sparse * int64")
        .Output("sparse_values: sparse_types")
        .Output("sparse_shapes: num_sparse * int64")
        .Output("dense_values: Tdense")
        .Output("ragged_values: ragged_value_types")
        .Output("ragged_row_splits: ragged_split_types")
        .Attr("Tdense: list({float, int64, string}) >= 0")
        .Attr("num_sparse: int >= 0")
        .Attr("sparse_types: list({float, int64, string}) >= 0")
        .Attr("ragged_value_types: list({float, int64, string}) >= 0")
        .Attr("ragged_split_types: list({int32, int64}) >= 0")
        .Attr("dense_shapes: list(shape) >= 0")
        .Shape(ParseExampleShape)
        .Kernel<ParseExampleKernel>(ExampleForm::kV2)
        .NotDifferentiable(),
    Op("ParseSingleExample")
        .Input("serialized: string")
        .Input("dense_defaults: Tdense")
        .Output("sparse_indices: num_sparse * int64")
        .Output("sparse_values: sparse_types")
        .Output("sparse_shapes: num_sparse * int64")
        .Output("dense_values: Tdense")
        .Attr("num_sparse: int >= 0")
        .Attr("sparse_keys: list(string) >= 0")
        .Attr("dense_keys: list(string) >= 0")
        .Attr("sparse_types: list({float, int64, string}) >= 0")
        .Attr("Tdense: list({float, int64, string}) >= 0")
        .Attr("dense_shapes: list(shape) >= 0")
        .Shape(ParseExampleShape)
        .Kernel<ParseExampleKernel>(ExampleForm::kSingle)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
