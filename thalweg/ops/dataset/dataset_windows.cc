// SPDX-License-Identifier: Apache-2.0
// Datasets that put several elements together in other ways than Batch.
//
//   PaddedBatch(x, n, shapes, values): n elements as one, each filled up to the
//     given shape, or to the largest of them where a dimension is -1
//   Window(x, size, shift, stride): datasets of `size` elements each; the next
//     begins `shift` elements later
#include <deque>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

// Rows of one component in a tensor of the padded shape.
absl::StatusOr<Tensor> PadRows(const std::vector<Element>& rows, size_t k, const std::vector<int64_t>& padded,
                               const Tensor& fill) {
  std::vector<int64_t> dims{static_cast<int64_t>(rows.size())};
  dims.insert(dims.end(), padded.begin(), padded.end());
  for (const Element& row : rows) {
    const Tensor& t = row[k];
    if (t.dtype() != fill.dtype()) {
      return InvalidArgument("component ", k, " is of type ", t.dtype(), ", its padding of type ", fill.dtype());
    }
    if (t.rank() != static_cast<int>(padded.size())) {
      return InvalidArgument("All elements in a batch must have the same rank as the padded shape for component", k,
                             ": expected rank ", padded.size(), " but got element with rank ", t.rank());
    }
    for (int d = 0; d < t.rank(); ++d) {
      if (padded[d] == -1) {
        dims[d + 1] = std::max(dims[d + 1], t.dim(d));
      } else if (t.dim(d) > padded[d]) {
        return DataLoss("Attempted to pad to a smaller size than the input element.");
      }
    }
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor batch, Tensor::Allocate(fill.dtype(), shape));
  if (fill.dtype() == kString) {
    for (std::string& s : batch.flat<std::string>()) s = fill.scalar<std::string>();
  } else {
    const size_t size = ElementSize(fill.dtype());
    if (size == 0) return Unimplemented("padding of type ", fill.dtype());
    for (int64_t i = 0; i < batch.num_elements(); ++i) {
      memcpy(static_cast<char*>(batch.raw()) + i * size, fill.raw(), size);
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) CopyToRow(rows[i][k], static_cast<int64_t>(i), &batch);
  return batch;
}

absl::Status ComputePaddedBatch(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "batch_size"));
  if (size <= 0) return InvalidArgument("Batch size must be greater than zero.");
  ASSIGN_OR_RETURN(const int64_t components, GetAttr<int64_t>(c.node().def(), "N"));
  const int count = static_cast<int>(components);
  const bool has_drop = c.node().op() == "PaddedBatchDatasetV2";
  if (c.num_inputs() != 2 + 2 * count + (has_drop ? 1 : 0)) {
    return InvalidArgument("there must be as many padding values as padded shapes");
  }
  std::vector<std::vector<int64_t>> shapes;
  Element fills;
  for (int i = 0; i < count; ++i) {
    if (c.input(2 + i).rank() != 1) return InvalidArgument("All padded shapes must be vectors");
    shapes.emplace_back(c.input(2 + i).flat<int64_t>().begin(), c.input(2 + i).flat<int64_t>().end());
    for (const int64_t d : shapes.back()) {
      if (d < -1) return InvalidArgument("a padded shape has dimension ", d);
    }
    fills.push_back(c.input(2 + count + i));
    if (fills.back().rank() != 0) return InvalidArgument("All padding values must be scalars");
  }
  bool drop = false;
  if (has_drop) {
    if (c.input(c.num_inputs() - 1).num_elements() != 1) return InvalidArgument("drop_remainder must be a scalar");
    drop = c.input(c.num_inputs() - 1).scalar<bool>();
  }
  const int64_t n = input->cardinality();
  return SetDataset(c, n < 0 ? n : n / size + (n % size > 0 && !drop ? 1 : 0),
                    [=](Iteration& start) -> absl::StatusOr<Next> {
                      start.counts_input = true;
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      return [=, next = std::move(next)](Iteration& it) mutable -> NextElement {
                        std::vector<Element> rows;
                        RETURN_IF_ERROR(Collect(next, size, it, &rows));
                        for (const Element& row : rows) {
                          if (row.size() == shapes.size()) continue;
                          return InvalidArgument("there are ", shapes.size(), " padded shapes for elements of ",
                                                 row.size(), " components");
                        }
                        if (rows.empty() || (drop && static_cast<int64_t>(rows.size()) < size)) return std::nullopt;
                        Element batch;
                        for (size_t k = 0; k < shapes.size(); ++k) {
                          ASSIGN_OR_RETURN(Tensor padded, PadRows(rows, k, shapes[k], fills[k]));
                          batch.push_back(std::move(padded));
                        }
                        return batch;
                      };
                    });
}

// The elements of a window: 0, stride, 2 * stride, ... of the next `reach` elements.
struct Reach {
  int64_t shift, stride, reach;
  bool drop;
};

NextElement NextWindow(const Reach& w, Next& next, std::deque<Element>& ahead, int64_t& to_skip, Iteration& it) {
  const auto fetch = [&]() -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
    if (!element) return false;
    ahead.push_back(*std::move(element));
    RETURN_IF_ERROR(it.Check());
    return true;
  };
  for (; to_skip > 0; --to_skip) {
    if (ahead.empty()) {
      ASSIGN_OR_RETURN(const bool more, fetch());
      if (!more) return std::nullopt;
    }
    ahead.pop_front();
  }
  while (static_cast<int64_t>(ahead.size()) < w.reach) {
    ASSIGN_OR_RETURN(const bool more, fetch());
    if (!more) break;
  }
  if (ahead.empty() || (w.drop && static_cast<int64_t>(ahead.size()) < w.reach)) return std::nullopt;
  const size_t components = ahead.front().size();
  Element result;
  for (size_t k = 0; k < components; ++k) {
    std::vector<Element> elements;
    for (int64_t i = 0; i < w.reach && i < static_cast<int64_t>(ahead.size()); i += w.stride) {
      if (ahead[i].size() != components) return InvalidArgument("elements have different numbers of components");
      elements.push_back({ahead[i][k]});
    }
    result.push_back(TensorOf(ListedDataset("Window", std::move(elements))));
  }
  to_skip = w.shift;
  return result;
}

absl::Status ComputeWindow(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  Reach w;
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "size"));
  ASSIGN_OR_RETURN(w.shift, IntArgument(c, 2, "shift"));
  ASSIGN_OR_RETURN(w.stride, IntArgument(c, 3, "stride"));
  if (size <= 0) return InvalidArgument("Window size must be greater than zero.");
  if (w.shift <= 0) return InvalidArgument("Window shift must be greater than zero.");
  if (w.stride <= 0) return InvalidArgument("Window stride must be greater than zero.");
  if (c.input(4).num_elements() != 1) return InvalidArgument("drop_remainder must be a scalar");
  w.drop = c.input(4).scalar<bool>();
  if (__builtin_mul_overflow(size - 1, w.stride, &w.reach) || w.reach > int64_t{1} << 60) {
    return InvalidArgument("a window of ", size, " elements with stride ", w.stride, " is too large");
  }
  w.reach += 1;
  const int64_t n = input->cardinality();
  const int64_t cardinality = n < 0         ? n
                              : !w.drop     ? n / w.shift + (n % w.shift > 0 ? 1 : 0)
                              : n < w.reach ? 0
                                            : (n - w.reach) / w.shift + 1;
  return SetDataset(c, cardinality, [input, w](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [w, next = std::move(next), ahead = std::deque<Element>(), to_skip = int64_t{0}](
               Iteration& it) mutable -> NextElement { return NextWindow(w, next, ahead, to_skip, it); };
  });
}

// The components of one element after the other.
absl::Status ComputeListed(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::vector<DType> types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  const int width = static_cast<int>(types.size());
  if (c.num_inputs() % width != 0) {
    return InvalidArgument("expected a multiple of ", width, " inputs, the components of an element, got ",
                           c.num_inputs());
  }
  std::vector<Element> elements;
  for (int i = 0; i < c.num_inputs(); i += width) {
    elements.emplace_back();
    for (int k = 0; k < width; ++k) elements.back().push_back(c.input(i + k));
  }
  c.set_output(0, TensorOf(ListedDataset(c.node().op(), std::move(elements))));
  return absl::OkStatus();
}

const OpRegistration kDatasetWindowsOps[] = {
    Op("PaddedBatchDataset")
        .Input("input_dataset: variant")
        .Input("batch_size: int64")
        .Input("padded_shapes: N * int64")
        .Input("padding_values: Toutput_types")
        .Output("handle: variant")
        .Attr("Toutput_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("N: int >= 1")
        .Attr("metadata: string = ''")
        .Shape(shapes::Scalar)
        .Compute(ComputePaddedBatch)
        .NotDifferentiable(),
    Op("PaddedBatchDatasetV2")
        .Input("input_dataset: variant")
        .Input("batch_size: int64")
        .Input("padded_shapes: N * int64")
        .Input("padding_values: Toutput_types")
        .Input("drop_remainder: bool")
        .Output("handle: variant")
        .Attr("parallel_copy: bool = false")
        .Attr("Toutput_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("N: int >= 1")
        .Attr("metadata: string = ''")
        .Shape(shapes::Scalar)
        .Compute(ComputePaddedBatch)
        .NotDifferentiable(),
    Op("WindowDataset")
        .Input("input_dataset: variant")
        .Input("size: int64")
        .Input("shift: int64")
        .Input("stride: int64")
        .Input("drop_remainder: bool")
        .Output("handle: variant")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("metadata: string = ''")
        .Shape(shapes::Scalar)
        .Compute(ComputeWindow)
        .NotDifferentiable(),
    DatasetOp("WindowOp", "inputs: Tinputs", "TYPES, Tinputs: list(type) >= 1").Compute(ComputeListed),
};

}  // namespace
}  // namespace thalweg
