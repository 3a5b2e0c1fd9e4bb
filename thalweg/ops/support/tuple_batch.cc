// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/tuple_batch.h"

#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// Copies `from`, of `dims`, into the corner of a block whose rows are larger.
template <typename T>
void CopyCorner(const T* from, absl::Span<const int64_t> dims, absl::Span<const int64_t> room, T* to) {
  if (dims.size() <= 1) {
    CopyElements(from, dims.empty() ? 1 : dims[0], to);
    return;
  }
  int64_t from_step = 1, to_step = 1;
  for (size_t i = 1; i < dims.size(); ++i) from_step *= dims[i], to_step *= room[i];
  for (int64_t i = 0; i < dims[0]; ++i) {
    CopyCorner(from + i * from_step, dims.subspan(1), room.subspan(1), to + i * to_step);
  }
}

}  // namespace

Tensor ShareRow(const Tensor& batch, int64_t row) {
  Shape shape = batch.shape();
  shape.RemoveDim(0);
  return batch.Rows(row, row + 1).WithShape(std::move(shape));
}

std::vector<Tensor> ShareRow(const std::vector<Tensor>& batch, int64_t row) {
  std::vector<Tensor> tuple;
  tuple.reserve(batch.size());
  for (const Tensor& component : batch) tuple.push_back(ShareRow(component, row));
  return tuple;
}

absl::StatusOr<Tensor> CopyRow(const Tensor& batch, int64_t row) { return ShareRow(batch, row).TryClone(); }

absl::StatusOr<std::vector<Tensor>> CopyRow(const std::vector<Tensor>& batch, int64_t row) {
  std::vector<Tensor> tuple;
  tuple.reserve(batch.size());
  for (const Tensor& component : batch) {
    ASSIGN_OR_RETURN(Tensor copy, CopyRow(component, row));
    tuple.push_back(std::move(copy));
  }
  return tuple;
}

void CopyToRow(const Tensor& element, int64_t row, Tensor* batch) {
  if (element.num_elements() == 0) return;
  const int64_t width = batch->num_elements() / batch->dim(0);
  const absl::Status status = DispatchBySize(element.dtype(), [&]<typename T>() {
    T* const to = MutableElementData<T>(batch) + row * width;
    if (element.num_elements() == width) {
      CopyElements(ElementData<T>(element), width, to);
    } else {
      CopyCorner(ElementData<T>(element), element.shape().dims(), batch->shape().dims().subspan(1), to);
    }
    return absl::OkStatus();
  });
  CHECK(status.ok()) << status;  // tensors are of no other types
}

absl::StatusOr<std::vector<Tensor>> BatchTuples(const std::vector<std::vector<Tensor>>& tuples,
                                                const std::vector<DType>& types,
                                                const std::vector<PartialShape>& shapes) {
  const auto rows = static_cast<int64_t>(tuples.size());
  std::vector<Tensor> batch;
  batch.reserve(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    Dims dims{rows};
    bool padded = false;
    for (int d = 0; d < shapes[i].rank(); ++d) {
      int64_t size = shapes[i].dim(d);
      if (size < 0) {
        padded = true;
        size = 0;
        for (const auto& tuple : tuples) size = std::max(size, tuple[i].dim(d));
      }
      dims.push_back(size);
    }
    ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor component, Tensor::Allocate(types[i], std::move(shape)));
    if (padded) ClearElements(&component);
    for (int64_t row = 0; row < rows; ++row) CopyToRow(tuples[row][i], row, &component);
    batch.push_back(std::move(component));
  }
  return batch;
}

absl::Status JoinTensors(KernelContext& c, absl::Span<const Tensor> values, Tensor* out) {
  std::vector<int64_t> offsets(values.size());
  int64_t total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    offsets[i] = total;
    total += values[i].num_elements();
  }
  return DispatchBySize(out->dtype(), [&]<typename T>() {
    const double nanos = 20 + 0.1 * static_cast<double>(sizeof(T) * total) / static_cast<double>(values.size());
    c.ParallelFor(static_cast<int64_t>(values.size()), nanos, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        CopyElements(ElementData<T>(values[i]), values[i].num_elements(), MutableElementData<T>(out) + offsets[i]);
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace thalweg
