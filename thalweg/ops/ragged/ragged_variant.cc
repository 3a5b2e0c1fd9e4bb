// SPDX-License-Identifier: Apache-2.0
// RaggedTensorToVariant encodes a ragged tensor, or each of its rows, as a variant for datasets.
// RaggedTensorFromVariant combines such variants to one ragged tensor. RaggedTensorToVariantGradient concatenates the
// values of variants that hold gradients.
#include <algorithm>
#include <memory>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/ragged/ragged.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"
#include "thalweg/proto/tensor.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

class RaggedValue final : public VariantValue {
 public:
  static constexpr char kTypeName[] = "RaggedTensorVariant";

  std::string TypeName() const override { return kTypeName; }
  std::string ToString() const override {
    return absl::StrCat("ragged of ", splits.size(), " levels and values ", values.shape().ToString());
  }
  bool Encode(tensorflow::VariantTensorDataProto* proto) const override {
    proto->set_type_name(kTypeName);
    for (const Tensor& t : splits) TensorToProto(t, proto->add_tensors());
    TensorToProto(values, proto->add_tensors());
    return CheckEncodable(values).ok();
  }

  std::vector<Tensor> splits;
  Tensor values;
};

// The value in a variant, also one that came from another process.
absl::StatusOr<std::shared_ptr<const RaggedValue>> RaggedIn(const Variant& variant) {
  if (variant.As<RaggedValue>() != nullptr) return std::static_pointer_cast<const RaggedValue>(variant.shared());
  const auto* const encoded = variant.As<EncodedVariant>();
  if (encoded != nullptr && encoded->TypeName() == RaggedValue::kTypeName && encoded->proto().tensors_size() > 0) {
    const auto value = std::make_shared<RaggedValue>();
    for (const auto& proto : encoded->proto().tensors()) {
      ASSIGN_OR_RETURN(Tensor t, TensorFromProto(proto));
      value->splits.push_back(std::move(t));
    }
    value->values = std::move(value->splits.back());
    value->splits.pop_back();
    return value;
  }
  return InvalidArgument("Input Variant element doesn't hold a RaggedTensorVariant, but ",
                         variant.empty() ? "nothing" : variant.get()->ToString());
}

class ToVariantKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(batched_, init.Attr<bool>("batched_input"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const int levels = c.num_inputs() - 1;
    const Tensor& values = c.input(levels);
    if (!batched_) {
      const auto value = std::make_shared<RaggedValue>();
      for (int i = 0; i < levels; ++i) value->splits.push_back(c.input(i));
      value->values = values;
      ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
      out->mutable_data<Variant>()[0] = Variant(value);
      return absl::OkStatus();
    }
    if (values.rank() < 1) return InvalidArgument("rt_dense_values must be at least a vector");
    std::vector<std::vector<int64_t>> splits(levels);
    int64_t rows = values.dim(0);
    for (int i = levels - 1; i >= 0; --i) {
      ASSIGN_OR_RETURN(splits[i], ReadSplits(c.input(i), rows));
      rows = static_cast<int64_t>(splits[i].size()) - 1;
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({rows})));
    for (int64_t r = 0; r < rows; ++r) {
      const auto value = std::make_shared<RaggedValue>();
      int64_t begin = r, end = r + 1;
      for (int i = 0; i < levels; ++i) {
        if (i > 0) {
          std::vector<int64_t> own(splits[i].begin() + begin, splits[i].begin() + end + 1);
          for (int64_t& place : own) place -= splits[i][begin];
          Tensor t(c.input(i).dtype(), Shape({static_cast<int64_t>(own.size())}));
          RETURN_IF_ERROR(WriteSplits(own, &t));
          value->splits.push_back(std::move(t));
        }
        begin = splits[i][begin];
        end = splits[i][end];
      }
      value->values = values.Rows(begin, end);
      if (levels == 0) {
        Shape shape = values.shape();
        shape.RemoveDim(0);
        value->values = value->values.WithShape(shape);
      }
      out->mutable_data<Variant>()[r] = Variant(value);
    }
    return absl::OkStatus();
  }

 private:
  bool batched_ = false;
};

class FromVariantKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(in_levels_, init.Attr<int64_t>("input_ragged_rank"));
    ASSIGN_OR_RETURN(out_levels_, init.Attr<int64_t>("output_ragged_rank"));
    ASSIGN_OR_RETURN(values_type_, init.Attr<DType>("Tvalues"));
    ASSIGN_OR_RETURN(splits_type_, init.Attr<DType>("Tsplits"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& encoded = c.input(0);
    const int rank = encoded.rank();
    const int64_t levels = in_levels_ == -1 ? out_levels_ - rank : in_levels_;
    if (levels < 0) {
      return InvalidArgument(
          "Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, "
          "found output_ragged_rank: ",
          out_levels_, ", encoded_variant.dims(): ", rank, ", inferred input_ragged_rank: ", levels);
    }
    if (out_levels_ != rank + levels) {
      return InvalidArgument(
          "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
          "output_ragged_rank: ",
          out_levels_, ", input_ragged_rank: ", levels, ", encoded_variant.dims(): ", rank, ".");
    }
    std::vector<std::shared_ptr<const RaggedValue>> parts(encoded.num_elements());
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSIGN_OR_RETURN(parts[i], RaggedIn(encoded.data<Variant>()[i]));
      RETURN_IF_ERROR(Check(*parts[i], levels));
    }
    if (rank == 0) {
      for (int64_t l = 0; l < levels; ++l) c.set_output(static_cast<int>(l), parts[0]->splits[l]);
      c.set_output(static_cast<int>(levels), parts[0]->values);
      return absl::OkStatus();
    }
    return Stack(c, parts, levels);
  }

 private:
  absl::Status Check(const RaggedValue& part, int64_t levels) const {
    if (static_cast<int64_t>(part.splits.size()) != levels) {
      return InvalidArgument("Encoded input RaggedTensorVariant has ragged_rank=", part.splits.size(),
                             ".  Expected ragged_rank=", levels, ".");
    }
    if (part.values.dtype() != values_type_) {
      return InvalidArgument("Expected values Tensor dtype: ", values_type_, ", found: ", part.values.dtype());
    }
    int64_t length = part.values.rank() == 0 ? 0 : part.values.dim(0);
    if (part.values.rank() == 0 && levels > 0) return InvalidArgument("Ragged values must have rank >= 1.");
    for (int64_t l = levels - 1; l >= 0; --l) {
      if (part.splits[l].dtype() != splits_type_) {
        return InvalidArgument("Expected row_splits Tensor dtype: ", splits_type_, ", found: ", part.splits[l].dtype());
      }
      ASSIGN_OR_RETURN(const std::vector<int64_t> splits, ReadSplits(part.splits[l], length));
      length = static_cast<int64_t>(splits.size()) - 1;
    }
    return absl::OkStatus();
  }

  // The levels of the result: those of the variants' dimensions, with rows of equal length; one
  // that separates the variants; and those of the variants, concatenated.
  absl::Status Stack(KernelContext& c, const std::vector<std::shared_ptr<const RaggedValue>>& parts,
                     int64_t levels) const {
    const Tensor& encoded = c.input(0);
    const int rank = encoded.rank();
    std::vector<std::vector<int64_t>> out(out_levels_, {0});
    for (int d = 0; d + 1 < rank; ++d) {
      const int64_t rows = encoded.shape().Product(0, d + 1);
      for (int64_t r = 1; r <= rows; ++r) out[d].push_back(r * encoded.dim(d + 1));
    }
    std::vector<Tensor> values;
    Dims dims;
    int64_t total = 0;
    for (const auto& part : parts) {
      const Tensor& own = part->values;
      if (own.rank() < 1) return InvalidArgument("Ragged values must have rank >= 1; encoded scalar element");
      const int64_t rows = levels == 0 ? own.dim(0) : part->splits[0].num_elements() - 1;
      out[rank - 1].push_back(out[rank - 1].back() + rows);
      int64_t length = own.dim(0);
      std::vector<std::vector<int64_t>> splits(levels);
      for (int64_t l = levels - 1; l >= 0; --l) {
        ASSIGN_OR_RETURN(splits[l], ReadSplits(part->splits[l], length));
        length = static_cast<int64_t>(splits[l].size()) - 1;
      }
      for (int64_t l = 0; l < levels; ++l) {
        std::vector<int64_t>& to = out[rank + l];
        const int64_t before = to.back();
        for (size_t i = 1; i < splits[l].size(); ++i) to.push_back(before + splits[l][i]);
      }
      Dims inner(own.shape().dims().begin() + 1, own.shape().dims().end());
      if (!values.empty() && inner != dims) {
        return InvalidArgument("All flat_values must have compatible shapes.  Shape of the first: ", values[0].shape(),
                               ".  Another: ", own.shape());
      }
      dims = inner;
      values.push_back(own);
      total += own.dim(0);
    }
    for (int64_t l = 0; l < out_levels_; ++l) {
      ASSIGN_OR_RETURN(Tensor* const splits,
                       c.Allocate(static_cast<int>(l), Shape({static_cast<int64_t>(out[l].size())})));
      RETURN_IF_ERROR(WriteSplits(out[l], splits));
    }
    dims.insert(dims.begin(), total);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const result, c.Allocate(static_cast<int>(out_levels_), shape));
    return DispatchBySize(values_type_, [&]<typename T>() {
      T* to = MutableElementData<T>(result);
      for (const Tensor& own : values) {
        CopyElements(ElementData<T>(own), own.num_elements(), to);
        to += own.num_elements();
      }
      return absl::OkStatus();
    });
  }

  int64_t in_levels_ = -1, out_levels_ = 0;
  DType values_type_ = kInvalid, splits_type_ = kInvalid;
};

// A variant without a value stands for zeros: nothing depends on that row.
absl::Status ComputeToVariantGradient(KernelContext& c) {
  const Tensor &encoded = c.input(0), &splits = c.input(1);
  ASSIGN_OR_RETURN(const Shape shape, ReadShape(c.input(2), "dense_values_shape"));
  if (shape.rank() < 1) return InvalidArgument("dense_values_shape must have at least one dimension");
  const int64_t parts = encoded.num_elements();
  if (splits.num_elements() != parts + 1) {
    return InvalidArgument("row_splits must have ", parts + 1, " elements, got ", splits.num_elements());
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> rows, ReadSplits(splits, shape.dim(0)));
  const DType type = c.output_type(0);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const int64_t row = shape.dim(0) == 0 ? 0 : shape.num_elements() / shape.dim(0);
  for (int64_t i = 0; i < parts; ++i) {
    const Variant& variant = encoded.data<Variant>()[i];
    Tensor to = out->Rows(rows[i], rows[i + 1]);
    if (variant.empty()) {
      ClearElements(&to);
      continue;
    }
    ASSIGN_OR_RETURN(const std::shared_ptr<const RaggedValue> part, RaggedIn(variant));
    const Tensor& values = part->values;
    if (values.dtype() != type || values.num_elements() != (rows[i + 1] - rows[i]) * row) {
      return InvalidArgument("The gradient of row ", i, " must have ", (rows[i + 1] - rows[i]) * row,
                             " elements of type ", type, ", got ", values.dtype(), " ", values.shape());
    }
    RETURN_IF_ERROR(DispatchBySize(type, [&]<typename T>() {
      CopyElements(ElementData<T>(values), values.num_elements(), MutableElementData<T>(&to));
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::Status ToVariantGradientShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(2));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status ToVariantShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const bool batched, c.Attr<bool>("batched_input"));
  c.set_output(0, batched ? PartialShape::OfRank(1) : PartialShape(Shape()));
  return absl::OkStatus();
}

const OpRegistration kRaggedVariantOps[] = {
    Op("RaggedTensorToVariant")
        .Input("rt_nested_splits: RAGGED_RANK * Tsplits")
        .Input("rt_dense_values: Tvalues")
        .Output("encoded_ragged: variant")
        .Attr("RAGGED_RANK: int >= 0")
        .Attr("Tvalues: type")
        .Attr("Tsplits: {int32, int64} = DT_INT64")
        .Attr("batched_input: bool")
        .Shape(ToVariantShape)
        .Kernel<ToVariantKernel>(),
    Op("RaggedTensorFromVariant")
        .Input("encoded_ragged: variant")
        .Output("output_nested_splits: output_ragged_rank * Tsplits")
        .Output("output_dense_values: Tvalues")
        .Attr("input_ragged_rank: int >= -1")
        .Attr("output_ragged_rank: int >= 0")
        .Attr("Tvalues: type")
        .Attr("Tsplits: {int32, int64} = DT_INT64")
        .Shape(shapes::Unknown)
        .Kernel<FromVariantKernel>(),
    Op("RaggedTensorToVariantGradient")
        .Input("encoded_ragged_grad: variant")
        .Input("row_splits: Tsplits")
        .Input("dense_values_shape: int32")
        .Output("dense_values_grad: Tvalues")
        .Attr("Tvalues: type")
        .Attr("Tsplits: {int32, int64} = DT_INT64")
        .Shape(ToVariantGradientShape)
        .Compute(ComputeToVariantGradient),
};

}  // namespace
}  // namespace thalweg
