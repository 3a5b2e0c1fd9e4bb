// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/io/example_parsing.h"

#include <algorithm>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using tensorflow::Feature;

// The number of values of a record, or an error if they are of another type.
absl::StatusOr<int64_t> CheckedCount(const Feature* feature, DType dtype, int64_t record, const RecordError& error) {
  if (feature == nullptr || FeatureType(*feature) == kInvalid) return 0;
  if (FeatureType(*feature) != dtype) {
    return error(record, absl::StrCat("Data types don't match. Expected type: ", ToString(dtype),
                                      ", Actual type: ", ToString(FeatureType(*feature))));
  }
  return CountValues(*feature);
}

const char* NameOfValues(DType dtype) { return dtype == kInt64 ? "int64" : dtype == kFloat ? "float" : "bytes"; }

Dims WithBatch(bool is_batch, int64_t records) { return is_batch ? Dims{records} : Dims(); }

}  // namespace

int64_t CountValues(const Feature& feature) {
  switch (feature.kind_case()) {
    case Feature::kBytesList:
      return feature.bytes_list().value_size();
    case Feature::kFloatList:
      return feature.float_list().value_size();
    case Feature::kInt64List:
      return feature.int64_list().value_size();
    default:
      return 0;
  }
}

DType FeatureType(const Feature& feature) {
  switch (feature.kind_case()) {
    case Feature::kBytesList:
      return kString;
    case Feature::kFloatList:
      return kFloat;
    case Feature::kInt64List:
      return kInt64;
    default:
      return kInvalid;
  }
}

FeatureValues::FeatureValues(DType dtype) {
  if (dtype == kInt64) values_ = std::vector<int64_t>();
  if (dtype == kString) values_ = std::vector<std::string>();
}

int64_t FeatureValues::size() const {
  return std::visit([](const auto& v) { return static_cast<int64_t>(v.size()); }, values_);
}

void FeatureValues::Append(const Feature& feature) {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  if (auto* floats = std::get_if<std::vector<float>>(&values_)) append(*floats, feature.float_list().value());
  if (auto* longs = std::get_if<std::vector<int64_t>>(&values_)) append(*longs, feature.int64_list().value());
  if (auto* strings = std::get_if<std::vector<std::string>>(&values_)) append(*strings, feature.bytes_list().value());
}

absl::StatusOr<Tensor> FeatureValues::Take(const Shape& shape) {
  return std::visit(
      [&]<typename T>(std::vector<T>& v) -> absl::StatusOr<Tensor> {
        ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(DTypeOf<T>, shape));
        std::move(v.begin(), v.end(), tensor.mutable_data<T>());
        return tensor;
      },
      values_);
}

absl::StatusOr<FeatureWriter> FeatureWriter::Create(DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  return FeatureWriter(std::move(tensor));
}

// f writes from a place on, and returns the place after what it wrote.
template <typename F>
void FeatureWriter::Write(F&& f) {
  const absl::Status status = Dispatch(Types<float, int64_t, std::string>(), tensor_.dtype(), [&]<typename T>() {
    T* const begin = tensor_.mutable_data<T>();
    size_ = f(begin + size_) - begin;
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status.message();
}

void FeatureWriter::Append(const Feature& feature) {
  CHECK(CountValues(feature) <= tensor_.num_elements() - size_) << "no room";
  Write([&]<typename T>(T* to) {
    const auto& values = [&]() -> const auto& {
      if constexpr (std::is_same_v<T, float>) {
        return feature.float_list().value();
      } else if constexpr (std::is_same_v<T, int64_t>) {
        return feature.int64_list().value();
      } else {
        return feature.bytes_list().value();
      }
    }
    ();
    return std::copy(values.begin(), values.end(), to);
  });
}

void FeatureWriter::Append(const Tensor& values) {
  CHECK(values.num_elements() <= tensor_.num_elements() - size_) << "no room";
  Write([&]<typename T>(T* to) { return std::copy_n(values.data<T>(), values.num_elements(), to); });
}

void FeatureWriter::Append(int64_t count, const Tensor& value) {
  CHECK(count <= tensor_.num_elements() - size_) << "no room";
  Write([&]<typename T>(T* to) { return std::fill_n(to, count, value.scalar<T>()); });
}

absl::StatusOr<DenseFeature> MakeDenseFeature(int index, DType dtype, const PartialShape& shape) {
  DenseFeature feature{.dtype = dtype, .shape = shape};
  Dims known;
  bool valid = shape.has_rank();
  for (int i = 0; valid && i < shape.rank(); ++i) {
    if (shape.dim(i) < 0) {
      valid = i == 0;
      feature.variable_length = true;
    } else {
      known.push_back(shape.dim(i));
    }
  }
  if (!valid) {
    return InvalidArgument("dense_shapes[", index, "] has unknown rank or unknown inner dimensions: ", shape);
  }
  ASSIGN_OR_RETURN(const Shape stride, Shape::Make(known));
  feature.stride = stride.num_elements();
  return feature;
}

absl::Status CheckDefault(int index, const DenseFeature& feature) {
  const Tensor& value = feature.default_value;
  if (feature.variable_length && value.num_elements() != 1) {
    return InvalidArgument("dense_shape[", index, "] is a variable length shape: ", feature.shape,
                           ", therefore def_value[", index,
                           "] must contain a single element (the padding element).  But its shape is: ", value.shape());
  }
  if (!feature.variable_length && value.num_elements() > 0 && !feature.shape.Accepts(value.shape())) {
    return InvalidArgument("def_value[", index, "].shape() == ", value.shape(),
                           " is not compatible with dense_shapes_[", index, "] == ", feature.shape);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ParseDense(const DenseFeature& feature, const FeatureColumn& column, bool is_batch,
                                  const RecordError& error) {
  const int64_t records = static_cast<int64_t>(column.size());
  std::vector<int64_t> counts;
  int64_t width = feature.variable_length ? 0 : feature.stride;
  for (int64_t i = 0; i < records; ++i) {
    ASSIGN_OR_RETURN(const int64_t count, CheckedCount(column[i], feature.dtype, i, error));
    const bool missing = column[i] == nullptr || FeatureType(*column[i]) == kInvalid;
    if (feature.variable_length) {
      if (feature.stride == 0 ? count != 0 : count % feature.stride != 0) {
        return error(i, absl::StrCat("Number of ", NameOfValues(feature.dtype),
                                     " values is not a multiple of stride length. Saw ", count,
                                     " values but output shape is: ", feature.shape.ToString()));
      }
      width = std::max(width, count);
    } else if (missing && feature.default_value.num_elements() == 0) {
      return error(-1, absl::StrCat("Feature: ", feature.key, " (data type: ", ToString(feature.dtype),
                                    ") is required but could not be found."));
    } else if (!missing && count != feature.stride) {
      return error(i, absl::StrCat("Number of ", NameOfValues(feature.dtype), " values != expected.  Values size: ",
                                   count, " but output shape: ", feature.shape.ToString()));
    }
    counts.push_back(missing ? -1 : count);
  }
  Dims dims = WithBatch(is_batch, records);
  for (int i = 0; i < feature.shape.rank(); ++i) {
    const bool unknown = feature.shape.dim(i) < 0;
    dims.push_back(!unknown ? feature.shape.dim(i) : feature.stride == 0 ? 0 : width / feature.stride);
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(FeatureWriter values, FeatureWriter::Create(feature.dtype, shape));
  for (int64_t i = 0; i < records; ++i) {
    if (counts[i] >= 0) values.Append(*column[i]);
    if (feature.variable_length) {
      if (is_batch) values.Append(width - std::max<int64_t>(counts[i], 0), feature.default_value);
    } else if (counts[i] < 0) {
      values.Append(feature.default_value);
    }
  }
  return values.Take();
}

absl::StatusOr<SparseTensors> ParseSparse(DType dtype, const FeatureColumn& column, bool is_batch,
                                          const RecordError& error) {
  FeatureValues values(dtype);
  std::vector<int64_t> indices;
  int64_t width = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(column.size()); ++i) {
    ASSIGN_OR_RETURN(const int64_t count, CheckedCount(column[i], dtype, i, error));
    if (count == 0) continue;
    values.Append(*column[i]);
    width = std::max(width, count);
    for (int64_t k = 0; k < count; ++k) {
      if (is_batch) indices.push_back(i);
      indices.push_back(k);
    }
  }
  SparseTensors sparse;
  sparse.indices = Tensor::Of<int64_t>(Shape({values.size(), is_batch ? 2 : 1}), absl::MakeConstSpan(indices));
  sparse.shape = is_batch ? Tensor::Vector<int64_t>({static_cast<int64_t>(column.size()), width})
                          : Tensor::Vector<int64_t>({width});
  ASSIGN_OR_RETURN(sparse.values, values.Take(Shape({values.size()})));
  return sparse;
}

Tensor MakeSplits(DType dtype, const std::vector<int64_t>& splits) {
  if (dtype == kInt64) return Tensor::Vector<int64_t>(splits);
  return Tensor::Vector<int32_t>(std::vector<int32_t>(splits.begin(), splits.end()));
}

absl::StatusOr<RaggedTensors> ParseRagged(DType dtype, DType splits_dtype, const FeatureColumn& column,
                                          const RecordError& error) {
  FeatureValues values(dtype);
  std::vector<int64_t> splits = {0};
  for (int64_t i = 0; i < static_cast<int64_t>(column.size()); ++i) {
    ASSIGN_OR_RETURN(const int64_t count, CheckedCount(column[i], dtype, i, error));
    if (count > 0) values.Append(*column[i]);
    splits.push_back(values.size());
  }
  RaggedTensors ragged;
  ASSIGN_OR_RETURN(ragged.values, values.Take(Shape({values.size()})));
  ragged.splits = MakeSplits(splits_dtype, splits);
  return ragged;
}

}  // namespace thalweg
