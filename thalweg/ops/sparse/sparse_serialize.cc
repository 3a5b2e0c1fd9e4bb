// SPDX-License-Identifier: Apache-2.0
// Sparse tensors as values that can be queued and batched. SerializeSparse
// makes strings [3] of one, the TensorProtos of its parts; SerializeManySparse
// [n, 3] of the n rows of the first dimension. The Deserialize ops put many
// together as rows of one. A tensors map keeps sparse tensors by number, for
// the same in one process without the bytes: AddSparseToTensorsMap,
// AddManySparseToTensorsMap, TakeManySparseFromTensorsMap.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/tensor_variant.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

// The sparse tensors that are the rows of the first dimension, which they lack.
absl::StatusOr<std::vector<SparseValue>> SplitRows(const SparseValue& x) {
  const int rank = x.rank();
  if (rank < 2) {
    return InvalidArgument("Rank of input SparseTensor should be > 1, but saw rank: ", rank);
  }
  constexpr int64_t kMostRows = 1 << 22;  // empty rows cost memory too
  const int64_t rows = x.dims[0];
  if (rows > kMostRows) return ResourceExhausted("too many rows to take apart: ", rows);
  std::vector<std::vector<int64_t>> members(rows);
  for (int64_t i = 0; i < x.count(); ++i) members[x.row(i)[0]].push_back(i);
  std::vector<SparseValue> result;
  for (const std::vector<int64_t>& row : members) {
    const int64_t count = static_cast<int64_t>(row.size());
    ASSIGN_OR_RETURN(Tensor indices, Tensor::Allocate(kInt64, Shape({count, rank - 1})));
    ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(x.values.dtype(), Shape({count})));
    for (int64_t k = 0; k < count; ++k) {
      std::copy_n(x.row(row[k]) + 1, rank - 1, indices.mutable_data<int64_t>() + k * (rank - 1));
    }
    RETURN_IF_ERROR(DispatchBySize(values.dtype(), [&]<typename T>() {
      for (int64_t k = 0; k < count; ++k) MutableElementData<T>(&values)[k] = ElementData<T>(x.values)[row[k]];
      return absl::OkStatus();
    }));
    result.push_back({std::move(indices), std::move(values), Dims(x.dims.begin() + 1, x.dims.end())});
  }
  return result;
}

// Sets the outputs to all of them as one: its first dimensions are `batch`, the
// others as large as the largest. `taken`: from a map of tensors, for which
// TensorFlow has another text and counts the dimensions of the batch.
absl::Status Merge(KernelContext& context, const std::vector<SparseValue>& parts, const Dims& batch, bool taken) {
  const DType dtype = context.output_type(1);
  int64_t count = 0;
  Dims dims = batch;
  const size_t outer = batch.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    const SparseValue& part = parts[i];
    if (part.values.dtype() != dtype) {
      return InvalidArgument("Requested SparseTensor of type ", dtype, " but SparseTensor[", i,
                             "].values.dtype() == ", part.values.dtype());
    }
    if (i == 0) {
      dims.insert(dims.end(), part.dims.begin(), part.dims.end());
    } else if (static_cast<size_t>(part.rank()) != dims.size() - outer) {
      const size_t more = taken ? outer : 0;
      return InvalidArgument(
          "Inconsistent ", taken ? "rank" : "shape", " across SparseTensors: rank prior to SparseTensor[", i,
          "] was: ", dims.size() - outer + more, " but rank of SparseTensor[", i, "] is: ", part.rank() + more);
    }
    for (int d = 0; d < part.rank(); ++d) dims[outer + d] = std::max(dims[outer + d], part.dims[d]);
    count += part.count();
  }
  const int64_t rank = static_cast<int64_t>(dims.size());
  ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, Shape({count, rank})));
  ASSIGN_OR_RETURN(Tensor * values, context.Allocate(1, Shape({count})));
  ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(2, Shape({rank})));
  std::copy(dims.begin(), dims.end(), shape->mutable_data<int64_t>());
  int64_t* to = indices->mutable_data<int64_t>();
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const SparseValue& part = parts[i];
    Dims prefix(outer);
    int64_t rest = static_cast<int64_t>(i);
    for (size_t d = outer; d-- > 0; rest /= batch[d]) prefix[d] = rest % batch[d];
    for (int64_t k = 0; k < part.count(); ++k) {
      to = std::copy(prefix.begin(), prefix.end(), to);
      to = std::copy_n(part.row(k), part.rank(), to);
    }
    RETURN_IF_ERROR(DispatchBySize(dtype, [&]<typename T>() {
      CopyElements(ElementData<T>(part.values), part.count(), MutableElementData<T>(values) + first);
      return absl::OkStatus();
    }));
    first += part.count();
  }
  return absl::OkStatus();
}

// ---- Strings, and variants ----

// Strings as one: their lengths as varints, then their bytes.
void MoveToContent(tensorflow::TensorProto* proto) {
  std::string* const content = proto->mutable_tensor_content();
  for (const std::string& text : proto->string_val()) {
    uint64_t length = text.size();
    for (; length >= 0x80; length >>= 7) content->push_back(static_cast<char>(length | 0x80));
    content->push_back(static_cast<char>(length));
  }
  for (const std::string& text : proto->string_val()) content->append(text);
  proto->clear_string_val();
}

absl::Status Put(const SparseValue& x, int64_t row, Tensor* out) {
  Tensor shape(kInt64, Shape({x.rank()}));
  std::copy(x.dims.begin(), x.dims.end(), shape.mutable_data<int64_t>());
  const Tensor* const parts[] = {&x.indices, &x.values, &shape};
  for (int i = 0; i < 3; ++i) {
    if (out->dtype() == kVariant) {
      out->mutable_data<Variant>()[3 * row + i] = Variant(std::make_shared<TensorVariant>(*parts[i]));
      continue;
    }
    RETURN_IF_ERROR(CheckEncodable(*parts[i]));
    tensorflow::TensorProto proto;
    TensorToProto(*parts[i], &proto);
    if (proto.string_val_size() > 0) MoveToContent(&proto);
    out->mutable_data<std::string>()[3 * row + i] = proto.SerializeAsString();
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> GetPart(const Tensor& in, int64_t i) {
  if (in.dtype() == kVariant) {
    const auto* value = in.data<Variant>()[i].As<TensorVariant>();
    if (value == nullptr) return InvalidArgument("Could not get a tensor from serialized_sparse[", i, "]");
    return value->tensor();
  }
  tensorflow::TensorProto proto;
  if (!proto.ParseFromString(in.data<std::string>()[i])) {
    return InvalidArgument("Could not parse serialized proto: serialized_sparse[", i / 3, ", ", i % 3, "]");
  }
  return TensorFromProto(proto);
}

absl::StatusOr<SparseValue> Get(const Tensor& in, int64_t row) {
  ASSIGN_OR_RETURN(const Tensor indices, GetPart(in, 3 * row));
  ASSIGN_OR_RETURN(const Tensor values, GetPart(in, 3 * row + 1));
  ASSIGN_OR_RETURN(const Tensor shape, GetPart(in, 3 * row + 2));
  if (indices.dtype() != kInt64 || shape.dtype() != kInt64) {
    return InvalidArgument("Expected serialized_sparse[", row, "] to have int64 indices and shape, got ",
                           indices.dtype(), " and ", shape.dtype());
  }
  return SparseValue::Make(indices, values, shape, SparseValue::kUnchecked);
}

absl::Status SerializeSparse(KernelContext& context) {
  ASSIGN_OR_RETURN(const SparseValue x,
                   SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnchecked));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape({3})));
  return Put(x, 0, out);
}

absl::Status SerializeManySparse(KernelContext& context) {
  ASSIGN_OR_RETURN(const SparseValue x,
                   SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
  ASSIGN_OR_RETURN(const std::vector<SparseValue> rows, SplitRows(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape({static_cast<int64_t>(rows.size()), 3})));
  for (size_t i = 0; i < rows.size(); ++i) RETURN_IF_ERROR(Put(rows[i], static_cast<int64_t>(i), out));
  return absl::OkStatus();
}

absl::Status Deserialize(KernelContext& context) {
  const Tensor& in = context.input(0);
  if (in.rank() < 1) return InvalidArgument("Serialized sparse should have non-zero rank ", in.shape());
  if (in.dim(in.rank() - 1) != 3) {
    return InvalidArgument("Serialized sparse should have 3 as the last dimension ", in.shape());
  }
  const Dims batch(in.shape().dims().begin(), in.shape().dims().end() - 1);
  const int64_t count = in.num_elements() / 3;
  if (count == 0) {
    return InvalidArgument("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
  }
  std::vector<SparseValue> parts;
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(SparseValue part, Get(in, i));
    parts.push_back(std::move(part));
  }
  return Merge(context, parts, batch, /*taken=*/false);
}

absl::Status DeserializeMany(KernelContext& context) {
  if (context.input(0).rank() != 2) {
    return InvalidArgument("Serialized sparse should be a matrix ", context.input(0).shape());
  }
  return Deserialize(context);
}

// ---- The map ----

// Thread-safe.
class SparseTensorsMap : public Resource {
 public:
  explicit SparseTensorsMap(std::string name) : name_(std::move(name)) {}
  int64_t Add(SparseValue x) {
    MutexLock lock(&mutex_);
    kept_.emplace(next_, std::move(x));
    return next_++;
  }
  // Removes all of these handles; on INVALID_ARGUMENT, none.
  absl::StatusOr<std::vector<SparseValue>> Take(absl::Span<const int64_t> handles) {
    MutexLock lock(&mutex_);
    std::vector<SparseValue> found;
    for (const int64_t handle : handles) {
      const auto it = kept_.find(handle);
      if (it == kept_.end()) {
        return InvalidArgument("Unable to find SparseTensor: ", handle, " in map: ", name_);
      }
      found.push_back(it->second);
    }
    for (const int64_t handle : handles) kept_.erase(handle);
    return found;
  }
  std::string Describe() const override { return "a SparseTensorsMap"; }

 private:
  const std::string name_;
  Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<int64_t, SparseValue> kept_ ABSL_GUARDED_BY(mutex_);
};

class TensorsMapKernel : public Kernel {
 public:
  enum Form { kAdd, kAddMany, kTake };
  explicit TensorsMapKernel(Form form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string container, init.Attr<std::string>("container"));
    ASSIGN_OR_RETURN(std::string name, init.Attr<std::string>("shared_name"));
    if (name.empty()) {
      if (form_ == kTake) return InvalidArgument("shared_name must not be empty");
      name = init.node().name();
    }
    ASSIGN_OR_RETURN(map_, init.device().resources().FindOrCreate<SparseTensorsMap>(
                               container, name, [&]() -> absl::StatusOr<std::shared_ptr<SparseTensorsMap>> {
                                 return std::make_shared<SparseTensorsMap>(name);
                               }));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    if (form_ == kTake) {
      const Tensor& handles = context.input(0);
      if (handles.rank() != 1)
        return InvalidArgument("sparse_handles should be a vector but received shape ", handles.shape());
      if (handles.num_elements() < 1) {
        return InvalidArgument("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
      }
      ASSIGN_OR_RETURN(const std::vector<SparseValue> parts, map_->Take(handles.flat<int64_t>()));
      return Merge(context, parts, Dims{handles.num_elements()}, /*taken=*/true);
    }
    ASSIGN_OR_RETURN(SparseValue x,
                     SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
    if (form_ == kAdd) {
      ASSIGN_OR_RETURN(Tensor * handle, context.Allocate(0, Shape()));
      *handle->mutable_data<int64_t>() = map_->Add(std::move(x));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::vector<SparseValue> rows, SplitRows(x));
    ASSIGN_OR_RETURN(Tensor * handles, context.Allocate(0, Shape({static_cast<int64_t>(rows.size())})));
    for (size_t i = 0; i < rows.size(); ++i) handles->mutable_data<int64_t>()[i] = map_->Add(std::move(rows[i]));
    return absl::OkStatus();
  }

 private:
  const Form form_;
  std::shared_ptr<SparseTensorsMap> map_;
};

// ---- Shapes and registration ----

absl::Status SerializeShape(ShapeContext& c) {
  c.set_output(0, PartialShape({3}));
  return absl::OkStatus();
}
absl::Status SerializeManyShape(ShapeContext& c) {
  c.set_output(0, PartialShape({-1, 3}));
  return absl::OkStatus();
}
absl::Status MergedShape(ShapeContext& c) {
  c.set_output(0, PartialShape::OfRank(2));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::OfRank(1));
  return absl::OkStatus();
}
absl::Status HandlesShape(ShapeContext& c) {
  c.set_output(0, PartialShape::OfRank(1));
  return absl::OkStatus();
}

Op SparseIn(const char* name) {
  return Op(name).Input("sparse_indices: int64").Input("sparse_values: T").Input("sparse_shape: int64").Attr("T: type");
}
Op SparseOut(Op& op) {
  return op.Output("sparse_indices: int64")
      .Output("sparse_values: dtype")
      .Output("sparse_shape: int64")
      .Attr("dtype: type")
      .Shape(MergedShape);
}
Op Stateful(Op op) {
  return op.Attr("container: string = ''").Attr("shared_name: string = ''").Stateful().NotDifferentiable();
}

const OpRegistration kSparseSerializeOps[] = {
    SparseIn("SerializeSparse")
        .Output("serialized_sparse: out_type")
        .Attr("out_type: {string, variant} = DT_STRING")
        .Shape(SerializeShape)
        .Compute(SerializeSparse),
    SparseIn("SerializeManySparse")
        .Output("serialized_sparse: out_type")
        .Attr("out_type: {string, variant} = DT_STRING")
        .Shape(SerializeManyShape)
        .Compute(SerializeManySparse),
    SparseOut(Op("DeserializeSparse").Input("serialized_sparse: Tserialized"))
        .Attr("Tserialized: {string, variant} = DT_STRING")
        .Compute(Deserialize),
    SparseOut(Op("DeserializeManySparse").Input("serialized_sparse: string")).Compute(DeserializeMany),
    Stateful(SparseIn("AddSparseToTensorsMap").Output("sparse_handle: int64"))
        .Shape(shapes::Scalar)
        .Kernel<TensorsMapKernel>(TensorsMapKernel::kAdd),
    Stateful(SparseIn("AddManySparseToTensorsMap").Output("sparse_handles: int64"))
        .Shape(HandlesShape)
        .Kernel<TensorsMapKernel>(TensorsMapKernel::kAddMany),
    Stateful(SparseOut(Op("TakeManySparseFromTensorsMap").Input("sparse_handles: int64")))
        .Kernel<TensorsMapKernel>(TensorsMapKernel::kTake),
};

}  // namespace
}  // namespace thalweg
