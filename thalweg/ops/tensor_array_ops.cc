// TensorArrays: loops write their results to one, iteration by iteration, and
// read their inputs from one. `flow`, a float that means nothing, makes the
// order of reads and writes an order of edges, and leads gradients along it.
// There are three versions: the handle is a ref to strings, strings, a resource.
#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/resource_kernel.h"
#include "thalweg/ops/shape_arguments.h"
#include "thalweg/ops/tensor_array.h"
#include "thalweg/ops/tuple_batch.h"

namespace thalweg {
namespace {

using ArrayPtr = std::shared_ptr<TensorArray>;

constexpr char kContainer[] = "_tensor_arrays";
constexpr char kGradientContainer[] = "_tensor_array_grads";

absl::Status SetFlow(KernelContext& c, int i) {
  if (i >= c.num_outputs()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor * flow, c.Allocate(i, Shape()));
  *flow->mutable_data<float>() = 0;
  return absl::OkStatus();
}

class TensorArrayKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(options_.dtype, init.Attr<DType>("dtype"));
    ASSIGN_OR_RETURN(options_.element_shape, init.Attr<PartialShape>("element_shape"));
    ASSIGN_OR_RETURN(options_.dynamic_size, init.Attr<bool>("dynamic_size"));
    ASSIGN_OR_RETURN(options_.clear_after_read, init.Attr<bool>("clear_after_read"));
    if (HasAttr(init.node().def(), "identical_element_shapes")) {
      ASSIGN_OR_RETURN(options_.identical_shapes, init.Attr<bool>("identical_element_shapes"));
    }
    ASSIGN_OR_RETURN(options_.name, init.Attr<std::string>("tensor_array_name"));
    if (options_.name.empty()) options_.name = init.node().name();
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& size = c.input(0);
    if (!size.shape().is_scalar()) {
      return InvalidArgument("TensorArray size must be scalar, but had shape: ", size.shape());
    }
    if (size.scalar<int32_t>() < 0) return InvalidArgument("Size should be >= 0.");
    if (c.step().resources == nullptr) return Internal("No step container.");
    TensorArrayOptions options = options_;
    options.name = absl::StrCat(options_.name, "_", NextResourceNumber());
    const ResourceName name{kContainer, options.name};
    ASSIGN_OR_RETURN(const ArrayPtr array, TensorArray::Make(std::move(options), size.scalar<int32_t>()));
    RETURN_IF_ERROR(c.step().resources->Create<TensorArray>(name.container, name.name, array));
    SetStepHandle(c, name, TensorArray::kTypeName, &array->strings);
    return SetFlow(c, 1);
  }

 private:
  TensorArrayOptions options_;
};

// The array for the gradients of another one: one per `source`, a name for a
// computation of gradients.
class GradientKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(source_, init.Attr<std::string>("source"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
    Shape prefix;
    if (c.num_inputs() > 2) {
      ASSIGN_OR_RETURN(prefix, ReadShape(c.input(2), "shape_to_prepend"));
    }
    const ResourceName name{kGradientContainer, absl::StrCat(array->name(), "@", source_)};
    ASSIGN_OR_RETURN(const ArrayPtr gradient,
                     c.step().resources->FindOrCreate<TensorArray>(
                         name.container, name.name, [&] { return array->MakeGradient(name.name, prefix); }));
    SetStepHandle(c, name, TensorArray::kTypeName, &gradient->strings);
    return SetFlow(c, 1);
  }

 private:
  std::string source_;
};

absl::Status CheckWrite(const TensorArray& array, const Tensor& value) {
  if (value.dtype() == array.dtype()) return absl::OkStatus();
  return InvalidArgument("TensorArray dtype is ", array.dtype(), " but Op is trying to write dtype ", value.dtype(),
                         ".");
}
absl::Status CheckRead(const TensorArray& array, DType dtype) {
  if (dtype == array.dtype()) return absl::OkStatus();
  return InvalidArgument("TensorArray dtype is ", array.dtype(), " but Op requested dtype ", dtype, ".");
}
absl::StatusOr<int32_t> IndexOf(KernelContext& c) {
  if (!c.input(1).shape().is_scalar()) {
    return InvalidArgument("TensorArray index must be scalar, but had shape: ", c.input(1).shape());
  }
  return c.input(1).scalar<int32_t>();
}
std::vector<int32_t> UpTo(int64_t n) {
  std::vector<int32_t> indices(n);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}
absl::StatusOr<std::vector<int32_t>> IndicesOf(KernelContext& c) {
  if (!c.input(1).shape().is_vector()) {
    return InvalidArgument("Expected indices to be a vector, but received shape: ", c.input(1).shape());
  }
  const auto indices = c.input(1).flat<int32_t>();
  return std::vector<int32_t>(indices.begin(), indices.end());
}

absl::Status Write(KernelContext& c) {
  ASSIGN_OR_RETURN(const int32_t index, IndexOf(c));
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  RETURN_IF_ERROR(CheckWrite(*array, c.input(2)));
  RETURN_IF_ERROR(array->Write({index}, {c.input(2)}));
  c.set_output(0, c.input(3));
  return absl::OkStatus();
}

absl::Status Read(KernelContext& c) {
  ASSIGN_OR_RETURN(const int32_t index, IndexOf(c));
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  RETURN_IF_ERROR(CheckRead(*array, c.output_type(0)));
  ASSIGN_OR_RETURN(std::vector<Tensor> values, array->Read({index}));
  c.set_output(0, std::move(values[0]));
  return absl::OkStatus();
}

// Gather, and Pack, which gathers all.
class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(bool all) : all_(all) {}
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(element_shape_, init.Attr<PartialShape>("element_shape"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
    RETURN_IF_ERROR(CheckRead(*array, c.output_type(0)));
    RETURN_IF_ERROR(array->MergeElementShape(element_shape_));
    std::vector<int32_t> indices;
    if (all_) {
      ASSIGN_OR_RETURN(const int64_t size, array->PackSize());
      indices = UpTo(size);
    } else {
      ASSIGN_OR_RETURN(indices, IndicesOf(c));
    }
    if (indices.empty()) return SetEmpty(c);
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, array->Read(indices));
    const Shape& first = values[0].shape();
    if (!element_shape_.Accepts(first)) {
      return InvalidArgument("TensorArray was passed element_shape ", element_shape_,
                             " which does not match the Tensor at index 0: ", first);
    }
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i].shape() == first) continue;
      return InvalidArgument("TensorArray has inconsistent shapes.  Index 0 has shape: ", first, " but index ", i,
                             " has shape: ", values[i].shape());
    }
    Dims dims(first.dims().begin(), first.dims().end());
    dims.insert(dims.begin(), static_cast<int64_t>(values.size()));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape));
    return JoinTensors(c, values, out);
  }

 private:
  absl::Status SetEmpty(KernelContext& c) const {
    std::optional<Shape> shape = element_shape_.AsShape();
    if (!shape.has_value()) {
      return Unimplemented("TensorArray has size zero, but element shape ", element_shape_,
                           " is not fully defined. Currently only static shapes are supported when packing zero-size "
                           "TensorArrays.");
    }
    shape->InsertDim(0, 0);
    return c.Allocate(0, *shape).status();
  }

  const bool all_;
  PartialShape element_shape_;
};

// Scatter, and Unpack, which writes to all.
absl::Status ScatterRows(KernelContext& c, bool all) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  const Tensor& value = c.input(all ? 1 : 2);
  RETURN_IF_ERROR(CheckWrite(*array, value));
  if (value.rank() == 0) {
    return InvalidArgument("Input value for unpack must be at least a vector but received shape: ", value.shape());
  }
  if (value.dim(0) > TensorArray::kMaxSize) return InvalidArgument("tensor dim0 too large to unpack");
  std::vector<int32_t> indices;
  if (all) {
    indices = UpTo(value.dim(0));
  } else {
    ASSIGN_OR_RETURN(indices, IndicesOf(c));
    if (static_cast<int64_t>(indices.size()) != value.dim(0)) {
      return InvalidArgument("Expected len(indices) == values.shape[0], but saw: ", indices.size(), " vs. ",
                             value.dim(0));
    }
  }
  ASSIGN_OR_RETURN(int64_t size, array->Size());
  const int64_t max_index = indices.empty() ? -1 : *std::max_element(indices.begin(), indices.end());
  if (array->has_dynamic_size()) size = std::max(size, max_index + 1);
  if (all && value.dim(0) != size) {
    return InvalidArgument("Input value must have first dimension equal to the array size (", value.dim(0), " vs. ",
                           size, ")");
  }
  if (!all && max_index >= size) {
    return InvalidArgument("Max scatter index must be < array size (", max_index, " vs. ", size, ")");
  }
  // Rows share the memory of the whole.
  Shape shape = value.shape();
  shape.RemoveDim(0);
  std::vector<Tensor> rows;
  rows.reserve(indices.size());
  for (int64_t i = 0; i < value.dim(0); ++i) rows.push_back(value.Rows(i, i + 1).WithShape(shape));
  if (all) array->MarkSize(size);
  RETURN_IF_ERROR(array->Write(indices, std::move(rows)));
  c.set_output(0, c.input(all ? 2 : 3));
  return absl::OkStatus();
}
absl::Status Scatter(KernelContext& c) { return ScatterRows(c, /*all=*/false); }
absl::Status Unpack(KernelContext& c) { return ScatterRows(c, /*all=*/true); }

class ConcatKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(row_shape_, init.Attr<PartialShape>("element_shape_except0"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
    RETURN_IF_ERROR(CheckRead(*array, c.output_type(0)));
    ASSIGN_OR_RETURN(const int64_t size, array->PackSize());
    if (size == 0) return SetEmpty(c);
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, array->Read(UpTo(size)));
    ASSIGN_OR_RETURN(Tensor * lengths, c.Allocate(1, Shape({size})));
    Shape first;
    int64_t rows = 0;
    for (int64_t i = 0; i < size; ++i) {
      Shape shape = values[i].shape();
      if (shape.rank() == 0) {
        return InvalidArgument("Concat saw a scalar shape at index ", i,
                               " but requires at least vectors.  Did you mean to call pack?");
      }
      lengths->mutable_data<int64_t>()[i] = shape.dim(0);
      rows += shape.dim(0);
      shape.RemoveDim(0);
      if (i == 0) {
        first = shape;
        if (!row_shape_.Accepts(first)) {
          return InvalidArgument("TensorArray was passed element_shape_except0 ", row_shape_,
                                 " but index 0 has (excepting dimension 0) shape: ", first, " which does not match.");
        }
      } else if (!(shape == first)) {
        return InvalidArgument("TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: ",
                               first, " but index ", i, " has (excepting dimension 0) shape: ", shape);
      }
    }
    Dims dims(first.dims().begin(), first.dims().end());
    dims.insert(dims.begin(), rows);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape));
    return JoinTensors(c, values, out);
  }

 private:
  absl::Status SetEmpty(KernelContext& c) const {
    std::optional<Shape> shape = row_shape_.AsShape();
    if (!shape.has_value()) {
      return Unimplemented("TensorArray has size zero, but element_shape_except0 ", row_shape_,
                           " is not fully defined. Currently only static shapes are supported when concatenating "
                           "zero-size TensorArrays.");
    }
    shape->InsertDim(0, 0);
    RETURN_IF_ERROR(c.Allocate(0, *shape).status());
    return c.Allocate(1, Shape({0})).status();
  }

  PartialShape row_shape_;
};

absl::Status Split(KernelContext& c) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  const Tensor& value = c.input(1);
  const Tensor& lengths = c.input(2);
  if (!lengths.shape().is_vector()) {
    return InvalidArgument("Expected lengths to be a vector, received shape: ", lengths.shape());
  }
  if (value.rank() == 0) {
    return InvalidArgument("Expected value to be at least a vector, but received shape: ", value.shape());
  }
  int64_t total = 0;
  for (const int64_t length : lengths.flat<int64_t>()) {
    if (length < 0 || length > value.dim(0))
      return InvalidArgument("a length of ", length, " to split ", value.shape());
    total += length;
  }
  if (total != value.dim(0)) {
    return InvalidArgument("Expected sum of lengths to be equal to values.shape[0], but sum of lengths is ", total,
                           " and value's shape is: ", value.shape());
  }
  const int64_t count = lengths.num_elements();
  ASSIGN_OR_RETURN(int64_t size, array->Size());
  if (array->has_dynamic_size()) size = std::max(size, count);
  if (size != count) {
    return InvalidArgument("TensorArray's size is not equal to the size of lengths (", size, " vs. ", count,
                           "), and the TensorArray is not marked as dynamically resizeable");
  }
  RETURN_IF_ERROR(CheckWrite(*array, value));
  std::vector<Tensor> parts;
  parts.reserve(count);
  int64_t begin = 0;
  for (const int64_t length : lengths.flat<int64_t>()) {
    parts.push_back(value.Rows(begin, begin + length));
    begin += length;
  }
  array->MarkSize(size);
  RETURN_IF_ERROR(array->Write(UpTo(count), std::move(parts)));
  c.set_output(0, c.input(3));
  return absl::OkStatus();
}

absl::Status Size(KernelContext& c) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  ASSIGN_OR_RETURN(const int64_t size, array->Size());
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(size);
  return absl::OkStatus();
}

absl::Status Close(KernelContext& c) {
  ASSIGN_OR_RETURN(const ArrayPtr array, FindStepResource<TensorArray>(c, 0));
  array->Close();
  return absl::OkStatus();
}

// Shapes. The op that made the array may say what elements are like.

PartialShape ElementShape(const ShapeContext& c) {
  const Node* const source = HandleSource(c, 0);
  if (source->op() != "TensorArrayV3") return PartialShape();
  absl::StatusOr<PartialShape> shape = GetAttr<PartialShape>(source->def(), "element_shape");
  return shape.ok() ? *std::move(shape) : PartialShape();
}

absl::Status ArrayShape(ShapeContext& c) {
  RETURN_IF_ERROR(HandleShape(c));
  if (c.num_outputs() > 1) c.set_output(1, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status ReadShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, ElementShape(c));
  return absl::OkStatus();
}

absl::Status GatherShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(const PartialShape given, c.Attr<PartialShape>("element_shape"));
  ASSIGN_OR_RETURN(const PartialShape element, PartialShape::Merge(given, ElementShape(c)));
  c.set_output(0, Concatenate(indices, element));
  return absl::OkStatus();
}

absl::Status ConcatShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape row, c.Attr<PartialShape>("element_shape_except0"));
  c.set_output(0, Concatenate(PartialShape({PartialShape::kUnknown}), row));
  c.set_output(1, PartialShape({PartialShape::kUnknown}));
  return absl::OkStatus();
}

// Gradients. The gradient of what was read is written to the array of gradients
// and the other way round; the flow of it is the gradient of the flow.

struct GradientArray {
  Output handle, flow;
};
GradientArray ArrayOfGradients(GradientContext& c, Output flow) {
  // One array for one call of Gradients(): its name scope tells them apart.
  const std::string scope = c.scope().FullName("");
  const std::string source = scope.substr(0, scope.find('/', scope.find("gradients")));
  Node* const node = c.scope().Add("TensorArrayGradV3", {c.input(0), flow}, {{"source", source}});
  if (node == nullptr) return {};
  // Later reads wait for this one.
  const Output ordered = c.scope().WithControlDependencies({node->out(0)}).Add("Identity", {flow});
  return {node->out(0), ordered};
}

absl::Status ReadGradient(GradientContext& c) {
  const GradientArray g = ArrayOfGradients(c, c.input(2));
  c.set_dx(2, Output(c.scope().Add("TensorArrayWriteV3", {g.handle, c.input(1), c.dy(), g.flow})));
  return absl::OkStatus();
}

absl::Status WriteGradient(GradientContext& c) {
  const Output flow = c.dy();
  const GradientArray g = ArrayOfGradients(c, flow);
  c.set_dx(2,
           Output(c.scope().Add("TensorArrayReadV3", {g.handle, c.input(1), g.flow}, {{"dtype", c.input(2).dtype()}})));
  c.set_dx(3, flow);
  return absl::OkStatus();
}

absl::Status GatherGradient(GradientContext& c) {
  const GradientArray g = ArrayOfGradients(c, c.input(2));
  c.set_dx(2, Output(c.scope().Add("TensorArrayScatterV3", {g.handle, c.input(1), c.dy(), g.flow})));
  return absl::OkStatus();
}

absl::Status ScatterGradient(GradientContext& c) {
  const Output flow = c.dy();
  const GradientArray g = ArrayOfGradients(c, flow);
  c.set_dx(
      2, Output(c.scope().Add("TensorArrayGatherV3", {g.handle, c.input(1), g.flow}, {{"dtype", c.input(2).dtype()}})));
  c.set_dx(3, flow);
  return absl::OkStatus();
}

absl::Status ConcatGradient(GradientContext& c) {
  const GradientArray g = ArrayOfGradients(c, c.input(1));
  c.set_dx(1, Output(c.scope().Add("TensorArraySplitV3", {g.handle, c.dy(0), c.output(1), g.flow})));
  return absl::OkStatus();
}

absl::Status SplitGradient(GradientContext& c) {
  const Output flow = c.dy();
  const GradientArray g = ArrayOfGradients(c, flow);
  c.set_dx(1, Output(c.scope().Add("TensorArrayConcatV3", {g.handle, g.flow}, {{"dtype", c.input(1).dtype()}})));
  c.set_dx(3, flow);
  return absl::OkStatus();
}

// Versions.

enum class Version { kRef = 1, kString = 2, kResource = 3 };

std::string Name(absl::string_view what, Version v) {
  return absl::StrCat("TensorArray", what, v == Version::kRef ? "" : absl::StrCat("V", static_cast<int>(v)));
}
std::string Handle(absl::string_view name, Version v) {
  return absl::StrCat(name, v == Version::kRef ? ": Ref(string)" : v == Version::kString ? ": string" : ": resource");
}

Op MakeOp(Version v) {
  Op op(Name("", v));
  op.Input("size: int32").Output(Handle("handle", v));
  if (v == Version::kResource) op.Output("flow: float");
  op.Attr("dtype: type");
  if (v == Version::kRef) {
    op.Attr("dynamic_size: bool = false").Attr("clear_after_read: bool = true").Attr("tensor_array_name: string = ''");
    op.Attr("element_shape: shape = { unknown_rank: true }");
  } else {
    op.Attr("element_shape: shape = { unknown_rank: true }");
    op.Attr("dynamic_size: bool = false").Attr("clear_after_read: bool = true");
    if (v == Version::kResource) op.Attr("identical_element_shapes: bool = false");
    op.Attr("tensor_array_name: string = ''");
  }
  op.Stateful().Shape(ArrayShape).Kernel<TensorArrayKernel>().NotDifferentiable();
  return op;
}

Op GradientOp(const std::string& name, Version v) {
  Op op(name);
  op.Input(v == Version::kResource ? "handle: resource" : "handle: string").Input("flow_in: float");
  if (name == "TensorArrayGradWithShape") op.Input("shape_to_prepend: int32");
  op.Output(Handle("grad_handle", v));
  if (v == Version::kResource) op.Output("flow_out: float");
  op.Attr("source: string").Stateful().Shape(ArrayShape).Kernel<GradientKernel>().NotDifferentiable();
  return op;
}

Op UseOp(absl::string_view what, Version v) {
  Op op(Name(what, v));
  op.Input(Handle("handle", v));
  if (v == Version::kResource) op.Stateful();
  return op;
}

// Only the newest version is in the way of gradients of C++ models.
Op With(Op op, Version v, GradientFn gradient) {
  if (v == Version::kResource) op.Gradient(gradient);
  return op;
}

Op WriteOp(Version v) {
  return With(UseOp("Write", v)
                  .Input("index: int32")
                  .Input("value: T")
                  .Input("flow_in: float")
                  .Output("flow_out: float")
                  .Attr("T: type")
                  .Shape(shapes::Scalar)
                  .Compute(Write),
              v, WriteGradient);
}
Op ReadOp(Version v) {
  return With(UseOp("Read", v)
                  .Input("index: int32")
                  .Input("flow_in: float")
                  .Output("value: dtype")
                  .Attr("dtype: type")
                  .Shape(ReadShape)
                  .Compute(Read),
              v, ReadGradient);
}
Op GatherOp(Version v) {
  return With(UseOp("Gather", v)
                  .Input("indices: int32")
                  .Input("flow_in: float")
                  .Output("value: dtype")
                  .Attr("dtype: type")
                  .Attr("element_shape: shape = { unknown_rank: true }")
                  .Shape(GatherShape)
                  .Kernel<GatherKernel>(false),
              v, GatherGradient);
}
Op ScatterOp(Version v) {
  return With(UseOp("Scatter", v)
                  .Input("indices: int32")
                  .Input("value: T")
                  .Input("flow_in: float")
                  .Output("flow_out: float")
                  .Attr("T: type")
                  .Shape(shapes::Scalar)
                  .Compute(Scatter),
              v, ScatterGradient);
}
Op ConcatOp(Version v) {
  return With(UseOp("Concat", v)
                  .Input("flow_in: float")
                  .Output("value: dtype")
                  .Output("lengths: int64")
                  .Attr("dtype: type")
                  .Attr("element_shape_except0: shape = { unknown_rank: true }")
                  .Shape(ConcatShape)
                  .Kernel<ConcatKernel>(),
              v, ConcatGradient);
}
Op SplitOp(Version v) {
  return With(UseOp("Split", v)
                  .Input("value: T")
                  .Input("lengths: int64")
                  .Input("flow_in: float")
                  .Output("flow_out: float")
                  .Attr("T: type")
                  .Shape(shapes::Scalar)
                  .Compute(Split),
              v, SplitGradient);
}
Op SizeOp(Version v) {
  return UseOp("Size", v)
      .Input("flow_in: float")
      .Output("size: int32")
      .Shape(shapes::Scalar)
      .Compute(Size)
      .NotDifferentiable();
}
Op CloseOp(Version v) { return UseOp("Close", v).Shape(shapes::NoOutputs).Compute(Close).NotDifferentiable(); }

const OpRegistration kOps[] = {
    MakeOp(Version::kRef),
    MakeOp(Version::kString),
    MakeOp(Version::kResource),
    GradientOp("TensorArrayGrad", Version::kRef),
    GradientOp("TensorArrayGradV2", Version::kString),
    GradientOp("TensorArrayGradV3", Version::kResource),
    GradientOp("TensorArrayGradWithShape", Version::kResource),
    WriteOp(Version::kRef),
    WriteOp(Version::kString),
    WriteOp(Version::kResource),
    ReadOp(Version::kRef),
    ReadOp(Version::kString),
    ReadOp(Version::kResource),
    GatherOp(Version::kRef),
    GatherOp(Version::kString),
    GatherOp(Version::kResource),
    ScatterOp(Version::kRef),
    ScatterOp(Version::kString),
    ScatterOp(Version::kResource),
    ConcatOp(Version::kRef),
    ConcatOp(Version::kString),
    ConcatOp(Version::kResource),
    SplitOp(Version::kRef),
    SplitOp(Version::kString),
    SplitOp(Version::kResource),
    SizeOp(Version::kRef),
    SizeOp(Version::kString),
    SizeOp(Version::kResource),
    CloseOp(Version::kRef),
    CloseOp(Version::kString),
    CloseOp(Version::kResource),
    UseOp("Pack", Version::kRef)
        .Input("flow_in: float")
        .Output("value: dtype")
        .Attr("dtype: type")
        .Attr("element_shape: shape = { unknown_rank: true }")
        .Shape(shapes::Unknown)
        .Kernel<GatherKernel>(true),
    UseOp("Unpack", Version::kRef)
        .Input("value: T")
        .Input("flow_in: float")
        .Output("flow_out: float")
        .Attr("T: type")
        .Shape(shapes::Scalar)
        .Compute(Unpack),
};

}  // namespace

TensorArrayOutputs TensorArrayOf(const Scope& s, Output size, DType dtype, TensorArrayArguments a) {
  Node* const node = s.Add("TensorArrayV3", {size},
                           {{"dtype", dtype},
                            {"element_shape", a.element_shape},
                            {"dynamic_size", a.dynamic_size},
                            {"clear_after_read", a.clear_after_read},
                            {"identical_element_shapes", a.identical_element_shapes}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}
Output TensorArrayWrite(const Scope& s, Output handle, Output index, Output value, Output flow) {
  return s.Add("TensorArrayWriteV3", {handle, index, value, flow});
}
Output TensorArrayRead(const Scope& s, Output handle, Output index, Output flow, DType dtype) {
  return s.Add("TensorArrayReadV3", {handle, index, flow}, {{"dtype", dtype}});
}
Output TensorArrayGather(const Scope& s, Output handle, Output indices, Output flow, DType dtype,
                         const PartialShape& element_shape) {
  return s.Add("TensorArrayGatherV3", {handle, indices, flow}, {{"dtype", dtype}, {"element_shape", element_shape}});
}
Output TensorArrayScatter(const Scope& s, Output handle, Output indices, Output value, Output flow) {
  return s.Add("TensorArrayScatterV3", {handle, indices, value, flow});
}
TensorArrayConcatOutputs TensorArrayConcat(const Scope& s, Output handle, Output flow, DType dtype) {
  Node* const node = s.Add("TensorArrayConcatV3", {handle, flow}, {{"dtype", dtype}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}
Output TensorArraySplit(const Scope& s, Output handle, Output value, Output lengths, Output flow) {
  return s.Add("TensorArraySplitV3", {handle, value, lengths, flow});
}
Output TensorArraySize(const Scope& s, Output handle, Output flow) {
  return s.Add("TensorArraySizeV3", {handle, flow});
}
Output TensorArrayClose(const Scope& s, Output handle) { return s.Add("TensorArrayCloseV3", {handle}); }

}  // namespace thalweg
