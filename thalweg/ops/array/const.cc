// SPDX-License-Identifier: Apache-2.0
// Const: a value that is part of the graph. Parsed once, when the kernel is
// made; a step only takes another reference.
#include <cstring>
#include <string>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

absl::Status ConstShape(ShapeContext& c) {
  const auto it = c.node().def().attr().find("value");
  if (it == c.node().def().attr().end()) return InvalidArgument("attr 'value' is missing");
  // Readers of the value, such as shape functions of other nodes, rely on this check.
  const DType type = RemoveRef(static_cast<DType>(it->second.tensor().dtype()));
  ASSIGN_OR_RETURN(const DType dtype, c.Attr<DType>("dtype"));
  if (type != dtype) return InvalidArgument("Type mismatch between value (", type, ") and dtype (", dtype, ")");
  ASSIGN_OR_RETURN(const Shape shape, Shape::FromProto(it->second.tensor().tensor_shape()));
  c.set_output(0, shape);
  return absl::OkStatus();
}

class ConstKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(value_, init.Attr<Tensor>("value"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    c.set_output(0, value_);
    return absl::OkStatus();
  }

 private:
  Tensor value_;
};

Op Constant(absl::string_view name) {
  return Op(name)
      .Output("output: dtype")
      .Attr("value: tensor")
      .Attr("dtype: type")
      .Shape(ConstShape)
      .Kernel<ConstKernel>()
      .NotDifferentiable();
}

// HostConst stays in the host's memory on devices that have another.
const OpRegistration kConstOps[] = {Constant("Const"), Constant("HostConst")};

// ImmutableConst: a tensor whose elements are the first bytes of a file. The file is read once per node.
class ImmutableConstKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(path_, init.Attr<std::string>("memory_region_name"));
    ASSIGN_OR_RETURN(const PartialShape shape, init.Attr<PartialShape>("shape"));
    if (!shape.fully_known()) return InvalidArgument("shape must be fully defined, got ", shape);
    ASSIGN_OR_RETURN(shape_, Shape::Make(Dims(shape.dims().begin(), shape.dims().end())));
    const DType type = init.node().output_type(0);
    if (type == kString || type == kResource || type == kVariant || ElementSize(type) == 0) {
      return InvalidArgument("Sorry, ", type, " is not currently supported for ImmutableConstOp.");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    MutexLock lock(&mutex_);
    if (!value_.has_value()) {
      ASSIGN_OR_RETURN(const std::string bytes, PosixFileSystem().ReadFileToString(path_));
      // Checked before memory is allocated: the shape comes from a client.
      const size_t size = ElementSize(c.output_type(0));
      const auto count = static_cast<size_t>(shape_.num_elements());
      if (count > bytes.size() / size) {
        return InvalidArgument("The file '", path_, "' has ", bytes.size(), " bytes, too few for ", count,
                               " elements of ", size, " bytes");
      }
      ASSIGN_OR_RETURN(Tensor value, c.AllocateTemporary(c.output_type(0), shape_));
      if (count > 0) std::memcpy(value.raw(), bytes.data(), count * size);
      if (c.output_type(0) == kBool) {  // other bytes than 0 and 1 are not bools
        for (int64_t i = 0; i < value.num_elements(); ++i) {
          static_cast<uint8_t*>(value.raw())[i] = bytes[i] != 0 ? 1 : 0;
        }
      }
      value_ = std::move(value);
    }
    c.set_output(0, value_);
    return absl::OkStatus();
  }

 private:
  std::string path_;
  Shape shape_;
  Mutex mutex_;
  Tensor value_ ABSL_GUARDED_BY(mutex_);
};

const OpRegistration kImmutableConst = Op("ImmutableConst")
                                           .Output("tensor: dtype")
                                           .Attr("dtype: type")
                                           .Attr("shape: shape")
                                           .Attr("memory_region_name: string")
                                           .Shape(shapes::FromShapeAttr)
                                           .Kernel<ImmutableConstKernel>()
                                           .NotDifferentiable();

}  // namespace

Output Const(const Scope& s, const Tensor& value) {
  if (!value.has_value()) {
    s.Fail(InvalidArgument("Const of a tensor without value"));
    return {};
  }
  return s.Add("Const", {}, {{"dtype", value.dtype()}, {"value", value}});
}

Output Const(const Scope& s, const std::string& value) { return Const(s, Tensor::Scalar<std::string>(value)); }

}  // namespace thalweg
