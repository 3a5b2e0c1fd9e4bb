// SPDX-License-Identifier: Apache-2.0
// ParseSequenceExample, its V2 and the single form: serialized SequenceExamples
// to tensors. The context is parsed like an Example. A feature list has a row for
// every step: dense lists are [batch, steps, ...], with zeros after the end of
// shorter ones and their lengths beside them; sparse ones have indices of batch,
// step and place; ragged ones row splits of both.
#include "absl/container/flat_hash_set.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io/example_parsing.h"

namespace thalweg {
namespace {

using tensorflow::Feature;
using tensorflow::FeatureList;
using ListColumn = std::vector<const FeatureList*>;

enum class SequenceForm { kV1, kV2, kSingle };

// Says where in a record something is wrong.
using RowError = std::function<absl::Status(int64_t record, int64_t row, const std::string& text)>;

// Calls f(record, row, feature) for every feature with values, and next(record)
// after each record.
template <typename F, typename Next>
absl::Status ForEachRow(DType dtype, const ListColumn& column, const RowError& error, F&& f, Next&& next) {
  for (int64_t i = 0; i < static_cast<int64_t>(column.size()); ++i) {
    const int rows = column[i] == nullptr ? 0 : column[i]->feature_size();
    for (int row = 0; row < rows; ++row) {
      const Feature& feature = column[i]->feature(row);
      const DType actual = FeatureType(feature);
      if (actual != kInvalid && actual != dtype) {
        return error(i, row, absl::StrCat("Data types don't match. Expected type: ", ToString(dtype)));
      }
      RETURN_IF_ERROR(f(i, row, feature));
    }
    RETURN_IF_ERROR(next(i));
  }
  return absl::OkStatus();
}

absl::StatusOr<SparseTensors> ParseSparseList(DType dtype, const ListColumn& column, bool is_batch,
                                              const RowError& error) {
  FeatureValues values(dtype);
  std::vector<int64_t> indices;
  int64_t steps = 0, width = 0;
  RETURN_IF_ERROR(ForEachRow(
      dtype, column, error,
      [&](int64_t record, int64_t row, const Feature& feature) {
        const int64_t before = values.size();
        values.Append(feature);
        const int64_t count = values.size() - before;
        for (int64_t k = 0; k < count; ++k) {
          if (is_batch) indices.push_back(record);
          indices.insert(indices.end(), {row, k});
        }
        steps = std::max(steps, row + 1);
        width = std::max(width, count);
        return absl::OkStatus();
      },
      [](int64_t) { return absl::OkStatus(); }));
  SparseTensors sparse;
  sparse.indices = Tensor::Of<int64_t>(Shape({values.size(), is_batch ? 3 : 2}), absl::MakeConstSpan(indices));
  sparse.shape = is_batch ? Tensor::Vector<int64_t>({static_cast<int64_t>(column.size()), steps, width})
                          : Tensor::Vector<int64_t>({steps, width});
  ASSIGN_OR_RETURN(sparse.values, values.Take(Shape({values.size()})));
  return sparse;
}

struct DenseList {
  Tensor values;
  Tensor lengths;
};

absl::StatusOr<DenseList> ParseDenseList(const DenseFeature& feature, const ListColumn& column, bool is_batch,
                                         const RowError& error) {
  int64_t steps = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(column.size()); ++i) {
    if (column[i] == nullptr && !feature.variable_length) {
      return error(i, -1,
                   absl::StrCat("Feature list '", feature.key,
                                "' is required but could not be found.  Did you mean to include it in "
                                "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"));
    }
    steps = std::max<int64_t>(steps, column[i] == nullptr ? 0 : column[i]->feature_size());
  }
  Dims dims = is_batch ? Dims{static_cast<int64_t>(column.size())} : Dims();
  dims.push_back(steps);
  for (int i = 0; i < feature.shape.rank(); ++i) dims.push_back(feature.shape.dim(i));
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(FeatureWriter values, FeatureWriter::Create(feature.dtype, shape));
  const Tensor zero = Tensor::Zeros(feature.dtype, Shape());
  std::vector<int64_t> lengths;
  int64_t begin = 0;  // begin of the record
  RETURN_IF_ERROR(ForEachRow(
      feature.dtype, column, error,
      [&](int64_t record, int64_t row, const Feature& f) {
        if (CountValues(f) != feature.stride) {
          return error(record, row,
                       absl::StrCat("Number of values != expected.  values size: ", CountValues(f),
                                    " but output shape: ", feature.shape.ToString()));
        }
        values.Append(f);
        return absl::OkStatus();
      },
      [&](int64_t record) {
        lengths.push_back(column[record] == nullptr ? 0 : column[record]->feature_size());
        values.Append(steps * feature.stride - (values.size() - begin), zero);
        begin = values.size();
        return absl::OkStatus();
      }));
  DenseList result;
  result.values = values.Take();
  result.lengths = is_batch ? Tensor::Vector<int64_t>(lengths) : Tensor::Scalar<int64_t>(lengths[0]);
  return result;
}

struct RaggedList {
  Tensor values;
  Tensor outer_splits;
  Tensor inner_splits;
};

absl::StatusOr<RaggedList> ParseRaggedList(DType dtype, DType splits_dtype, const ListColumn& column, bool is_batch,
                                           const RowError& error) {
  FeatureValues values(dtype);
  std::vector<int64_t> outer = {0}, inner = {0};
  RETURN_IF_ERROR(ForEachRow(
      dtype, column, error,
      [&](int64_t, int64_t, const Feature& feature) {
        values.Append(feature);
        inner.push_back(values.size());
        return absl::OkStatus();
      },
      [&](int64_t) {
        outer.push_back(static_cast<int64_t>(inner.size()) - 1);
        return absl::OkStatus();
      }));
  RaggedList ragged;
  ASSIGN_OR_RETURN(ragged.values, values.Take(Shape({values.size()})));
  ragged.outer_splits = is_batch ? MakeSplits(splits_dtype, outer) : Tensor::Zeros(splits_dtype, Shape());
  ragged.inner_splits = MakeSplits(splits_dtype, inner);
  return ragged;
}

// Keys and types of the context, or of the lists.
struct Part {
  std::vector<DType> sparse_types, ragged_types, split_types;
  std::vector<DenseFeature> dense;
  std::vector<std::string> sparse_keys, ragged_keys;
};

class ParseSequenceExampleKernel : public Kernel {
 public:
  explicit ParseSequenceExampleKernel(SequenceForm form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(InitPart(init, "context", "Tcontext_dense", &context_));
    RETURN_IF_ERROR(InitPart(init, "feature_list", "feature_list_dense_types", &lists_));
    for (const DenseFeature& feature : context_.dense) {
      if (feature.variable_length) return InvalidArgument("context_dense_shapes must be known: ", feature.shape);
    }
    for (DenseFeature& feature : lists_.dense) {
      if (feature.variable_length) return InvalidArgument("feature_list_dense_shapes must be known: ", feature.shape);
    }
    if (form_ != SequenceForm::kV1) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> missing,
                     init.Attr<std::vector<std::string>>("feature_list_dense_missing_assumed_empty"));
    SetMissing(missing, &lists_);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    Part context = context_, lists = lists_;
    RETURN_IF_ERROR(ReadInputs(c, &context, &lists));
    const Tensor& serialized = c.input(0);
    const bool is_batch = serialized.rank() == 1;
    const auto name = [&](int64_t record) -> std::string {
      const Tensor& names = c.input(form_ == SequenceForm::kSingle ? c.num_inputs() - 1 : 1);
      return names.num_elements() > record ? names.data<std::string>()[record] : "<unknown>";
    };
    ASSIGN_OR_RETURN(const std::vector<tensorflow::SequenceExample> examples,
                     ParseMessages<tensorflow::SequenceExample>(c, serialized, [&](int64_t i, const std::string&) {
                       return InvalidArgument("Invalid protocol message input, example id: ", name(i));
                     }));
    std::vector<Tensor> outputs;
    RETURN_IF_ERROR(ParseContext(context, examples, is_batch, name, &outputs));
    RETURN_IF_ERROR(ParseLists(lists, examples, is_batch, name, &outputs));
    for (size_t i = 0; i < outputs.size(); ++i) c.set_output(static_cast<int>(i), std::move(outputs[i]));
    return absl::OkStatus();
  }

 private:
  using Name = std::function<std::string(int64_t record)>;
  using Examples = std::vector<tensorflow::SequenceExample>;

  absl::Status InitPart(const KernelInit& init, const std::string& prefix, const std::string& dense_types, Part* part) {
    const auto attr = [&](const char* suffix) { return prefix + suffix; };
    ASSIGN_OR_RETURN(part->sparse_types, init.Attr<std::vector<DType>>(attr("_sparse_types")));
    ASSIGN_OR_RETURN(const std::vector<DType> types, init.Attr<std::vector<DType>>(dense_types));
    ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes,
                     init.Attr<std::vector<PartialShape>>(attr("_dense_shapes")));
    ASSIGN_OR_RETURN(const int64_t num_sparse, init.Attr<int64_t>("N" + attr("_sparse")));
    if (num_sparse != static_cast<int64_t>(part->sparse_types.size())) {
      return InvalidArgument("len(", prefix, "_sparse_keys) != len(", prefix, "_sparse_types)");
    }
    if (types.size() != shapes.size()) {
      return InvalidArgument("len(", prefix, "_dense_keys) != len(", prefix, "_dense_shapes)");
    }
    if (HasAttr(init.node().def(), "N" + attr("_dense"))) {
      ASSIGN_OR_RETURN(const int64_t num_dense, init.Attr<int64_t>("N" + attr("_dense")));
      if (num_dense != static_cast<int64_t>(types.size())) {
        return InvalidArgument("len(", prefix, "_dense_keys) != len(", prefix, "_dense_types)");
      }
    }
    for (size_t i = 0; i < types.size(); ++i) {
      ASSIGN_OR_RETURN(DenseFeature feature, MakeDenseFeature(static_cast<int>(i), types[i], shapes[i]));
      part->dense.push_back(std::move(feature));
    }
    if (form_ == SequenceForm::kV2) {
      ASSIGN_OR_RETURN(part->ragged_types, init.Attr<std::vector<DType>>(attr("_ragged_value_types")));
      ASSIGN_OR_RETURN(part->split_types, init.Attr<std::vector<DType>>(attr("_ragged_split_types")));
      if (part->ragged_types.size() != part->split_types.size()) {
        return InvalidArgument("len(", prefix, "_ragged_value_types) != len(", prefix, "_ragged_split_types)");
      }
    }
    if (form_ == SequenceForm::kV1) {
      ASSIGN_OR_RETURN(const std::vector<std::string> sparse,
                       init.Attr<std::vector<std::string>>(attr("_sparse_keys")));
      ASSIGN_OR_RETURN(const std::vector<std::string> dense, init.Attr<std::vector<std::string>>(attr("_dense_keys")));
      RETURN_IF_ERROR(SetKeys(prefix, sparse, dense, {}, part));
    }
    return absl::OkStatus();
  }

  static absl::Status SetKeys(const std::string& prefix, std::vector<std::string> sparse,
                              const std::vector<std::string>& dense, std::vector<std::string> ragged, Part* part) {
    if (sparse.size() != part->sparse_types.size() || dense.size() != part->dense.size() ||
        ragged.size() != part->ragged_types.size()) {
      return InvalidArgument("Expected ", part->sparse_types.size(), " sparse, ", part->dense.size(), " dense and ",
                             part->ragged_types.size(), " ragged keys of ", prefix, " but got: ", sparse.size(), ", ",
                             dense.size(), " and ", ragged.size());
    }
    part->sparse_keys = std::move(sparse);
    part->ragged_keys = std::move(ragged);
    for (size_t i = 0; i < dense.size(); ++i) part->dense[i].key = dense[i];
    return absl::OkStatus();
  }

  static void SetMissing(const std::vector<std::string>& missing, Part* lists) {
    const absl::flat_hash_set<std::string> keys(missing.begin(), missing.end());
    for (DenseFeature& feature : lists->dense) feature.variable_length = keys.contains(feature.key);
  }

  static std::vector<std::string> StringsOf(const Tensor& t) {
    const absl::Span<const std::string> values = t.flat<std::string>();
    return std::vector<std::string>(values.begin(), values.end());
  }

  absl::Status ReadInputs(const KernelContext& c, Part* context, Part* lists) const {
    const Tensor& serialized = c.input(0);
    const bool fits = form_ == SequenceForm::kV1   ? serialized.rank() == 1
                      : form_ == SequenceForm::kV2 ? serialized.rank() <= 1
                                                   : serialized.rank() == 0;
    if (!fits) {
      return InvalidArgument("Expected serialized to be a ",
                             form_ == SequenceForm::kV1   ? "vector"
                             : form_ == SequenceForm::kV2 ? "scalar or vector"
                                                          : "scalar",
                             ", got shape: ", serialized.shape());
    }
    int defaults = 2;
    if (form_ == SequenceForm::kV2) {
      RETURN_IF_ERROR(SetKeys("context", StringsOf(c.input(2)), StringsOf(c.input(3)), StringsOf(c.input(4)), context));
      RETURN_IF_ERROR(
          SetKeys("feature_list", StringsOf(c.input(5)), StringsOf(c.input(6)), StringsOf(c.input(7)), lists));
      const Tensor& missing = c.input(8);
      if (missing.num_elements() != static_cast<int64_t>(lists->dense.size())) {
        return InvalidArgument(
            "Expected len(feature_list_dense_missing_assumed_empty) == len(feature_list_dense_keys)");
      }
      for (size_t i = 0; i < lists->dense.size(); ++i) lists->dense[i].variable_length = missing.data<bool>()[i];
      defaults = 9;
    } else if (form_ == SequenceForm::kSingle) {
      int next = 2;
      const auto take = [&](size_t count) {
        std::vector<std::string> keys;
        for (size_t i = 0; i < count; ++i, ++next) {
          for (std::string& key : StringsOf(c.input(next))) keys.push_back(std::move(key));
        }
        return keys;
      };
      const std::vector<std::string> context_sparse = take(context->sparse_types.size());
      const std::vector<std::string> context_dense = take(context->dense.size());
      RETURN_IF_ERROR(SetKeys("context", context_sparse, context_dense, {}, context));
      const std::vector<std::string> sparse = take(lists->sparse_types.size());
      const std::vector<std::string> dense = take(lists->dense.size());
      RETURN_IF_ERROR(SetKeys("feature_list", sparse, dense, {}, lists));
      SetMissing(StringsOf(c.input(1)), lists);
      defaults = next;
    }
    for (size_t i = 0; i < context->dense.size(); ++i) {
      context->dense[i].default_value = c.input(defaults + static_cast<int>(i));
      RETURN_IF_ERROR(CheckDefault(static_cast<int>(i), context->dense[i]));
    }
    const Tensor& names = c.input(form_ == SequenceForm::kSingle ? c.num_inputs() - 1 : 1);
    if (names.num_elements() > 0 && names.num_elements() != serialized.num_elements()) {
      return InvalidArgument("example_names must be empty or have the correct number of elements");
    }
    return absl::OkStatus();
  }

  static void AddSparse(std::vector<SparseTensors> sparse, std::vector<Tensor>* outputs) {
    for (SparseTensors& t : sparse) outputs->push_back(std::move(t.indices));
    for (SparseTensors& t : sparse) outputs->push_back(std::move(t.values));
    for (SparseTensors& t : sparse) outputs->push_back(std::move(t.shape));
  }

  absl::Status ParseContext(const Part& part, const Examples& examples, bool is_batch, const Name& name,
                            std::vector<Tensor>* outputs) const {
    const auto column = [&](const std::string& key) {
      return Column<Feature>(
          examples, key, [](const tensorflow::SequenceExample& e) -> const auto& { return e.context().feature(); });
    };
    const auto errors = [&](const std::string& key) -> RecordError {
      return [&](int64_t record, const std::string& text) {
        if (record < 0) return InvalidArgument(text);
        return InvalidArgument("Name: ", name(record), ", Context feature: ", key, ".  ", text);
      };
    };
    std::vector<SparseTensors> sparse;
    for (size_t i = 0; i < part.sparse_types.size(); ++i) {
      const std::string& key = part.sparse_keys[i];
      ASSIGN_OR_RETURN(SparseTensors t, ParseSparse(part.sparse_types[i], column(key), is_batch, errors(key)));
      sparse.push_back(std::move(t));
    }
    AddSparse(std::move(sparse), outputs);
    for (const DenseFeature& feature : part.dense) {
      ASSIGN_OR_RETURN(Tensor value, ParseDense(feature, column(feature.key), is_batch, errors(feature.key)));
      outputs->push_back(std::move(value));
    }
    std::vector<Tensor> splits;
    for (size_t i = 0; i < part.ragged_types.size(); ++i) {
      const std::string& key = part.ragged_keys[i];
      const DType type = part.split_types[i];
      ASSIGN_OR_RETURN(RaggedTensors t, ParseRagged(part.ragged_types[i], type, column(key), errors(key)));
      outputs->push_back(std::move(t.values));
      splits.push_back(is_batch ? std::move(t.splits) : Tensor::Zeros(type, Shape()));
    }
    outputs->insert(outputs->end(), splits.begin(), splits.end());
    return absl::OkStatus();
  }

  absl::Status ParseLists(const Part& part, const Examples& examples, bool is_batch, const Name& name,
                          std::vector<Tensor>* outputs) const {
    const auto column = [&](const std::string& key) {
      return Column<FeatureList>(
          examples, key,
          [](const tensorflow::SequenceExample& e) -> const auto& { return e.feature_lists().feature_list(); });
    };
    const auto errors = [&](const std::string& key) -> RowError {
      return [&](int64_t record, int64_t row, const std::string& text) {
        if (row < 0) return InvalidArgument("Name: ", name(record), ", ", text);
        return InvalidArgument("Name: ", name(record), ", Feature list: ", key, ", Index: ", row, ".  ", text);
      };
    };
    std::vector<SparseTensors> sparse;
    for (size_t i = 0; i < part.sparse_types.size(); ++i) {
      const std::string& key = part.sparse_keys[i];
      ASSIGN_OR_RETURN(SparseTensors t, ParseSparseList(part.sparse_types[i], column(key), is_batch, errors(key)));
      sparse.push_back(std::move(t));
    }
    AddSparse(std::move(sparse), outputs);
    std::vector<Tensor> lengths;
    for (const DenseFeature& feature : part.dense) {
      ASSIGN_OR_RETURN(DenseList list, ParseDenseList(feature, column(feature.key), is_batch, errors(feature.key)));
      outputs->push_back(std::move(list.values));
      lengths.push_back(std::move(list.lengths));
    }
    if (form_ != SequenceForm::kSingle) outputs->insert(outputs->end(), lengths.begin(), lengths.end());
    std::vector<Tensor> outer, inner;
    for (size_t i = 0; i < part.ragged_types.size(); ++i) {
      const std::string& key = part.ragged_keys[i];
      ASSIGN_OR_RETURN(RaggedList t,
                       ParseRaggedList(part.ragged_types[i], part.split_types[i], column(key), is_batch, errors(key)));
      outputs->push_back(std::move(t.values));
      outer.push_back(std::move(t.outer_splits));
      inner.push_back(std::move(t.inner_splits));
    }
    outputs->insert(outputs->end(), outer.begin(), outer.end());
    outputs->insert(outputs->end(), inner.begin(), inner.end());
    return absl::OkStatus();
  }

  const SequenceForm form_;
  Part context_, lists_;  // without what the inputs say
};

constexpr char kContextSparse[] = "context_sparse_types: list({float, int64, string}) >= 0 = []";
constexpr char kContextDense[] = "Tcontext_dense: list({float, int64, string}) >= 0 = []";
constexpr char kListDense[] = "feature_list_dense_types: list({float, int64, string}) >= 0 = []";
constexpr char kListSparse[] = "feature_list_sparse_types: list({float, int64, string}) >= 0 = []";
constexpr char kContextShapes[] = "context_dense_shapes: list(shape) >= 0 = []";
constexpr char kListShapes[] = "feature_list_dense_shapes: list(shape) >= 0 = []";

const OpRegistration kParseSequenceExampleOps[] = {
    Op("ParseSequenceExample")
        .Input("serialized: string")
        .Input("debug_name: string")
        .Input("context_dense_defaults: Tcontext_dense")
        .Output("context_sparse_indices: Ncontext_sparse * int64")
        .Output("context_sparse_values: context_sparse_types")
        .Output("context_sparse_shapes: Ncontext_sparse * int64")
        .Output("context_dense_values: Tcontext_dense")
        .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
        .Output("feature_list_sparse_values: feature_list_sparse_types")
        .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
        .Output("feature_list_dense_values: feature_list_dense_types")
        .Output("feature_list_dense_lengths: Nfeature_list_dense * int64")
        .Attr("feature_list_dense_missing_assumed_empty: list(string) >= 0")
        .Attr("context_sparse_keys: list(string) >= 0")
        .Attr("context_dense_keys: list(string) >= 0")
        .Attr("feature_list_sparse_keys: list(string) >= 0")
        .Attr("feature_list_dense_keys: list(string) >= 0")
        .Attr("Ncontext_sparse: int >= 0 = 0")
        .Attr("Ncontext_dense: int >= 0 = 0")
        .Attr("Nfeature_list_sparse: int >= 0 = 0")
        .Attr("Nfeature_list_dense: int >= 0 = 0")
        .Attr(kContextSparse)
        .Attr(kContextDense)
        .Attr(kListDense)
        .Attr(kContextShapes)
        .Attr(kListSparse)
        .Attr(kListShapes)
        .Shape(shapes::Unknown)
        .Kernel<ParseSequenceExampleKernel>(SequenceForm::kV1)
        .NotDifferentiable(),
    Op("ParseSequenceExampleV2")
        .Input("serialized: string")
        .Input("debug_name: string")
        .Input("context_sparse_keys: string")
        .Input("context_dense_keys: string")
        .Input("context_ragged_keys: string")
        .Input("feature_list_sparse_keys: string")
        .Input("feature_list_dense_keys: string")
        .Input("feature_list_ragged_keys: string")
        .Input("feature_list_dense_missing_assumed_empty: bool")
        .Input("context_dense_defaults: Tcontext_dense")
        .Output("context_sparse_indices: Ncontext_sparse * int64")
        .Output("context_sparse_values: context_sparse_types")
        .Output("context_sparse_shapes: Ncontext_sparse * int64")
        .Output("context_dense_values: Tcontext_dense")
        .Output("context_ragged_values: context_ragged_value_types")
        .Output("context_ragged_row_splits: context_ragged_split_types")
        .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
        .Output("feature_list_sparse_values: feature_list_sparse_types")
        .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
        .Output("feature_list_dense_values: feature_list_dense_types")
        .Output("feature_list_dense_lengths: Nfeature_list_dense * int64")
        .Output("feature_list_ragged_values: feature_list_ragged_value_types")
        .Output("feature_list_ragged_outer_splits: feature_list_ragged_split_types")
        .Output("feature_list_ragged_inner_splits: feature_list_ragged_split_types")
        .Attr("Ncontext_sparse: int >= 0 = 0")
        .Attr(kContextDense)
        .Attr(kContextSparse)
        .Attr("context_ragged_value_types: list({float, int64, string}) >= 0 = []")
        .Attr("context_ragged_split_types: list({int32, int64}) >= 0 = []")
        .Attr(kContextShapes)
        .Attr("Nfeature_list_sparse: int >= 0 = 0")
        .Attr("Nfeature_list_dense: int >= 0 = 0")
        .Attr(kListDense)
        .Attr(kListSparse)
        .Attr("feature_list_ragged_value_types: list({float, int64, string}) >= 0 = []")
        .Attr("feature_list_ragged_split_types: list({int32, int64}) >= 0 = []")
        .Attr(kListShapes)
        .Shape(shapes::Unknown)
        .Kernel<ParseSequenceExampleKernel>(SequenceForm::kV2)
        .NotDifferentiable(),
    Op("ParseSingleSequenceExample")
        .Input("serialized: string")
        .Input("feature_list_dense_missing_assumed_empty: string")
        .Input("context_sparse_keys: Ncontext_sparse * string")
        .Input("context_dense_keys: Ncontext_dense * string")
        .Input("feature_list_sparse_keys: Nfeature_list_sparse * string")
        .Input("feature_list_dense_keys: Nfeature_list_dense * string")
        .Input("context_dense_defaults: Tcontext_dense")
        .Input("debug_name: string")
        .Output("context_sparse_indices: Ncontext_sparse * int64")
        .Output("context_sparse_values: context_sparse_types")
        .Output("context_sparse_shapes: Ncontext_sparse * int64")
        .Output("context_dense_values: Tcontext_dense")
        .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
        .Output("feature_list_sparse_values: feature_list_sparse_types")
        .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
        .Output("feature_list_dense_values: feature_list_dense_types")
        .Attr("Ncontext_sparse: int >= 0 = 0")
        .Attr("Ncontext_dense: int >= 0 = 0")
        .Attr("Nfeature_list_sparse: int >= 0 = 0")
        .Attr("Nfeature_list_dense: int >= 0 = 0")
        .Attr(kContextSparse)
        .Attr(kContextDense)
        .Attr(kListDense)
        .Attr(kContextShapes)
        .Attr(kListSparse)
        .Attr(kListShapes)
        .Shape(shapes::Unknown)
        .Kernel<ParseSequenceExampleKernel>(SequenceForm::kSingle)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
