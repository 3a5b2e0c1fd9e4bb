// SPDX-License-Identifier: Apache-2.0
// TopK: the k largest elements along the last dimension, largest first, and
// where they are; of equal ones the first comes first. NaN counts as smallest.
// InTopK: whether the prediction for the target class is among the k best.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

// Total order of positions: by value, then by position.
template <typename T>
struct Before {
  const T* row;
  bool operator()(int64_t i, int64_t j) const {
    const T a = row[i], b = row[j];
    if (a > b) return true;
    if (a < b) return false;
    const bool nan_a = a != a, nan_b = b != b;
    if (nan_a != nan_b) return nan_b;
    return i < j;
  }
};

constexpr int64_t kFew = 32;

// Fills the first k of `order`, which has room for n positions.
template <typename T>
void BestPositions(const T* row, int64_t n, int64_t k, bool sorted, int64_t* order) {
  const Before<T> before{row};
  if (k == 1) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) {
      if (before(i, best)) best = i;
    }
    order[0] = best;
    return;
  }
  // Few of many: most elements are compared with the worst that is kept, and
  // that is all.
  if (k <= kFew && k < n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (kept == k && !before(i, order[k - 1])) continue;
      int64_t at = kept < k ? kept++ : k - 1;
      for (; at > 0 && before(i, order[at - 1]); --at) order[at] = order[at - 1];
      order[at] = i;
    }
    if (!sorted) std::sort(order, order + k);
    return;
  }
  std::iota(order, order + n, 0);
  if (k < n) std::nth_element(order, order + k, order + n, before);
  if (sorted) {
    std::sort(order, order + k, before);
  } else {
    std::sort(order, order + k);
  }
}

template <typename T, typename Index>
absl::Status FindBest(KernelContext& context, const Tensor& in, int64_t k, bool sorted, Tensor* values,
                      Tensor* indices) {
  const int64_t n = in.dim(in.rank() - 1), rows = in.num_elements() / n;
  const T* const x = in.data<T>();
  T* const v = values->mutable_data<T>();
  Index* const at = indices->mutable_data<Index>();
  const int64_t room = k <= kFew && k < n ? k : n;
  // Sorting goes astray if the order of the values changes meanwhile. A process of the same host that has sent them
  // still has their memory.
  const bool sorts = k > 1 && room == n;
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({rows, room}));
  ASSIGN_OR_RETURN(Tensor scratch, context.AllocateTemporary(kInt64, shape));
  context.ParallelFor(rows, 5.0 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    std::vector<T> copy(sorts ? n : 0);
    for (int64_t r = begin; r < end; ++r) {
      int64_t* const order = scratch.mutable_data<int64_t>() + r * room;
      const T* const row = sorts ? copy.data() : x + r * n;
      if (sorts) std::copy_n(x + r * n, n, copy.data());
      BestPositions(row, n, k, sorted, order);
      for (int64_t i = 0; i < k; ++i) {
        v[r * k + i] = row[order[i]];
        at[r * k + i] = static_cast<Index>(order[i]);
      }
    }
  });
  return absl::OkStatus();
}

class TopKKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(sorted_, init.Attr<bool>("sorted"));
    if (init.node().num_inputs() == 1) {
      ASSIGN_OR_RETURN(k_, init.Attr<int64_t>("k"));
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    int64_t k = k_;
    if (context.num_inputs() == 2) {
      const Tensor& arg = context.input(1);
      if (arg.rank() != 0) return InvalidArgument("k must be scalar, got shape ", arg.shape());
      RETURN_IF_ERROR(Dispatch(Types<int16_t, int32_t, int64_t>(), arg.dtype(), [&]<typename T>() {
        k = arg.scalar<T>();
        return absl::OkStatus();
      }));
    }
    if (k < 0) return InvalidArgument("Need k >= 0, got ", k);
    if (in.rank() < 1) return InvalidArgument("input must be >= 1-D, got shape ", in.shape());
    const int64_t n = in.dim(in.rank() - 1);
    if (n < k) return InvalidArgument("input must have at least k columns. Had ", n, ", needed ", k);
    Shape shape = in.shape();
    shape.set_dim(in.rank() - 1, k);
    ASSIGN_OR_RETURN(Tensor * values, context.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(1, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return Dispatch(RealTypes(), in.dtype(), [&]<typename T>() {
      return Dispatch(Types<int32_t, int64_t, int16_t>(), indices->dtype(),
                      [&]<typename Index>() { return FindBest<T, Index>(context, in, k, sorted_, values, indices); });
    });
  }

 private:
  bool sorted_ = true;
  int64_t k_ = 0;
};

// ApproxTopK: the k largest or smallest elements along a dimension, best first. Exact, as TensorFlow's on CPUs.
class ApproxTopKKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(k_, init.Attr<int64_t>("k"));
    ASSIGN_OR_RETURN(dimension_, init.Attr<int64_t>("reduction_dimension"));
    ASSIGN_OR_RETURN(largest_, init.Attr<bool>("is_max_k"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0);
    ASSIGN_OR_RETURN(const int dimension, DimensionOf(x.rank()));
    const int64_t n = x.dim(dimension);
    if (k_ > n) return InvalidArgument("input must have at least k = ", k_, " elements along the dimension, got ", n);
    Dims dims(x.shape().dims().begin(), x.shape().dims().end());
    dims[dimension] = k_;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(1, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t inner = x.shape().Product(dimension + 1, x.rank()), rows = x.num_elements() / n;
    return Dispatch(Types<float, Half, BFloat16>(), x.dtype(), [&]<typename T>() {
      c.ParallelFor(rows, 10.0 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
        std::vector<float> row(n);
        std::vector<int64_t> order(n);
        for (int64_t r = begin; r < end; ++r) {
          const int64_t outer = r / inner, at = r % inner;
          const T* const from = x.data<T>() + outer * n * inner + at;
          for (int64_t i = 0; i < n; ++i) {
            const auto value = static_cast<float>(from[i * inner]);
            row[i] = largest_ ? value : -value;
          }
          BestPositions(row.data(), n, k_, /*sorted=*/true, order.data());
          for (int64_t i = 0; i < k_; ++i) {
            const int64_t to = (outer * k_ + i) * inner + at;
            values->mutable_data<T>()[to] = from[order[i] * inner];
            indices->mutable_data<int32_t>()[to] = static_cast<int32_t>(order[i]);
          }
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  absl::StatusOr<int> DimensionOf(int rank) const {
    if (rank < 1) return InvalidArgument("input must be >= 1-D, got shape []");
    const int64_t dimension = dimension_ < 0 ? dimension_ + rank : dimension_;
    if (dimension < 0 || dimension >= rank) {
      return InvalidArgument("reduction_dimension must be in [", -rank, ", ", rank, "), got ", dimension_);
    }
    return static_cast<int>(dimension);
  }

  int64_t k_ = 0, dimension_ = -1;
  bool largest_ = true;
};

absl::Status ApproxTopKShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t k, c.Attr<int64_t>("k"));
  ASSIGN_OR_RETURN(int64_t dimension, c.Attr<int64_t>("reduction_dimension"));
  ASSIGN_OR_RETURN(const bool aggregates, c.Attr<bool>("aggregate_to_topk"));
  const PartialShape& x = c.input(0);
  if (!x.has_rank()) return absl::OkStatus();
  if (dimension < 0) dimension += x.rank();
  if (dimension < 0 || dimension >= x.rank()) {
    return InvalidArgument("reduction_dimension must be in [", -x.rank(), ", ", x.rank(), ")");
  }
  Dims dims(x.dims().begin(), x.dims().end());
  dims[dimension] = aggregates ? k : PartialShape::kUnknown;
  for (int i = 0; i < 2; ++i) c.set_output(i, PartialShape(dims));
  return absl::OkStatus();
}

absl::Status TopKShape(ShapeContext& c) {
  int64_t k = PartialShape::kUnknown;
  if (c.num_inputs() == 1) {
    ASSIGN_OR_RETURN(k, c.Attr<int64_t>("k"));
  } else {
    RETURN_IF_ERROR(c.RequireScalar(1));
    if (const std::optional<Tensor> value = c.Constant(1); value.has_value() && value->num_elements() == 1) {
      RETURN_IF_ERROR(Dispatch(Types<int16_t, int32_t, int64_t>(), value->dtype(), [&]<typename T>() {
        k = value->scalar<T>();
        return absl::OkStatus();
      }));
      if (k < 0) return InvalidArgument("Need k >= 0, got ", k);
    }
  }
  const PartialShape& in = c.input(0);
  if (!in.has_rank()) return absl::OkStatus();
  if (in.rank() < 1) return InvalidArgument("input must be >= 1-D, got shape ", in);
  Dims dims(in.dims().begin(), in.dims().end());
  if (dims.back() >= 0 && dims.back() < k) {
    return InvalidArgument("input must have last dimension >= k = ", k, " but is ", dims.back());
  }
  dims.back() = k;
  c.set_output(0, PartialShape(dims));
  c.set_output(1, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// Every value's gradient goes to where the value came from: a sum over
// segments, of which each element of the input, counted through, is one.
absl::Status TopKGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output in = g.input(0), indices = g.output(1), dy = g.dy(0);
  const auto number = [&](int32_t v) { return ScalarConst(s, kInt32, v); };
  const int32_t minus_one[] = {-1}, zero[] = {0}, one[] = {1};
  const Output in_shape = s.Add("Shape", {in});
  const Output columns =
      s.Add("StridedSlice", {in_shape, IntsConst(s, minus_one), IntsConst(s, zero), IntsConst(s, one)},
            {{"end_mask", 1}, {"shrink_axis_mask", 1}});
  const Output total = s.Add("Size", {in});
  const Output rows = FloorDiv(s, total, Maximum(s, columns, number(1)));
  const Output at =
      s.Add("Reshape", {Cast(s, indices, kInt32), Output(s.Add("Pack", {std::vector<Output>{rows, number(-1)}}))});
  const Output row_starts = Mul(s, s.Add("Range", {number(0), rows, number(1)}), columns);
  const Output flat_at =
      s.Add("Reshape", {Add(s, at, s.Add("ExpandDims", {row_starts, number(1)})), IntsConst(s, minus_one)});
  const Output flat_dy = s.Add("Reshape", {dy, IntsConst(s, minus_one)});
  g.set_dx(0, Output(s.Add("Reshape", {Output(s.Add("UnsortedSegmentSum", {flat_dy, flat_at, total})), in_shape})));
  return absl::OkStatus();
}

// As in TensorFlow, a target out of range is never among the best, and neither is one in a row
// with a non-finite prediction before the answer is known.
bool IsAmongBest(const float* row, int64_t classes, int64_t target, int64_t k) {
  if (target < 0 || target >= classes || !std::isfinite(row[target])) return false;
  int64_t better = 0;
  for (int64_t i = 0; i < classes; ++i) {
    if (!std::isfinite(row[i])) return false;
    if (row[i] > row[target] && ++better > k) return false;
  }
  return better < k;
}

class InTopKKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    if (init.node().num_inputs() == 2) {
      ASSIGN_OR_RETURN(k_, init.Attr<int64_t>("k"));
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& predictions = context.input(0);
    const Tensor& targets = context.input(1);
    if (predictions.rank() != 2)
      return InvalidArgument("predictions must be 2-dimensional, got shape ", predictions.shape());
    if (targets.rank() != 1) return InvalidArgument("targets must be 1-dimensional, got shape ", targets.shape());
    if (predictions.dim(0) != targets.dim(0)) {
      return InvalidArgument("First dimension of predictions ", predictions.dim(0), " must match length of targets ",
                             targets.dim(0));
    }
    return Dispatch(IndexTypes(), targets.dtype(), [&]<typename T>() -> absl::Status {
      int64_t k = k_;
      if (context.num_inputs() == 3) {
        if (context.input(2).rank() != 0) return InvalidArgument("k must be 0-D, got shape ", context.input(2).shape());
        k = context.input(2).scalar<T>();
      }
      ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, targets.shape()));
      const int64_t classes = predictions.dim(1);
      const float* const rows = predictions.data<float>();
      const T* const target = targets.data<T>();
      bool* const hit = out->mutable_data<bool>();
      context.ParallelFor(targets.dim(0), static_cast<double>(classes), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) hit[r] = IsAmongBest(rows + r * classes, classes, target[r], k);
      });
      return absl::OkStatus();
    });
  }

 private:
  int64_t k_ = 0;
};

absl::Status InTopKShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape predictions, c.WithRank(0, 2));
  ASSIGN_OR_RETURN(const PartialShape targets, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(PartialShape batch, PartialShape::Merge(PartialShape({predictions.dim(0)}), targets));
  c.set_output(0, std::move(batch));
  return absl::OkStatus();
}

const OpRegistration kTopKOps[] = {
    Op("TopK")
        .Input("input: T")
        .Output("values: T")
        .Output("indices: int32")
        .Attr("k: int >= 0")
        .Attr("sorted: bool = true")
        .Attr("T: realnumbertype")
        .Shape(TopKShape)
        .Kernel<TopKKernel>()
        .Gradient(TopKGradient),
    Op("TopKV2")
        .Input("input: T")
        .Input("k: Tk")
        .Output("values: T")
        .Output("indices: index_type")
        .Attr("sorted: bool = true")
        .Attr("T: realnumbertype")
        .Attr("Tk: {int16, int32, int64} = DT_INT32")
        .Attr("index_type: {int16, int32, int64} = DT_INT32")
        .Shape(TopKShape)
        .Kernel<TopKKernel>()
        .Gradient(TopKGradient),
    Op("ApproxTopK")
        .Input("input: T")
        .Output("values: T")
        .Output("indices: int32")
        .Attr("k: int >= 0")
        .Attr("reduction_dimension: int = -1")
        .Attr("recall_target: float = 0.95")
        .Attr("is_max_k: bool = true")
        .Attr("reduction_input_size_override: int = -1")
        .Attr("aggregate_to_topk: bool = true")
        .Attr("T: {half, bfloat16, float}")
        .Shape(ApproxTopKShape)
        .Kernel<ApproxTopKKernel>()
        .NotDifferentiable(),
    Op("InTopK")
        .Input("predictions: float")
        .Input("targets: T")
        .Output("precision: bool")
        .Attr("k: int")
        .Attr("T: {int32, int64} = DT_INT32")
        .Shape(InTopKShape)
        .Kernel<InTopKKernel>()
        .NotDifferentiable(),
    Op("InTopKV2")
        .Input("predictions: float")
        .Input("targets: T")
        .Input("k: T")
        .Output("precision: bool")
        .Attr("T: {int32, int64} = DT_INT32")
        .Shape(InTopKShape)
        .Kernel<InTopKKernel>()
        .NotDifferentiable(),
};

}  // namespace

TopKResult TopK(const Scope& s, Output input, const IntArg& k, const TopKOptions& options) {
  Node* const node = s.Add("TopKV2", {input, k.AsTensor(s, "k")}, {{"sorted", options.sorted}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}
Output InTopK(const Scope& s, Output predictions, Output targets, const IntArg& k) {
  return s.Add("InTopKV2", {predictions, targets, k.AsTensor(s, "k", targets.dtype())});
}

}  // namespace thalweg
