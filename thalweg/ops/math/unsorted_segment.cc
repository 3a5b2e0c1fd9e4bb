// SPDX-License-Identifier: Apache-2.0
// UnsortedSegmentSum, -Prod, -Max and -Min reduce slices of `data` that have the
// same number:
//
//   output[s] = reduction of data[j...] over all j with segment_ids[j] == s
//
// Slices with negative numbers are dropped; a segment without slices has the
// reduction's identity.
#include <algorithm>
#include <utility>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/segment_rows.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

template <typename Index>
absl::Status CheckIds(const Tensor& ids, int64_t num_segments) {
  const Index* const id = ids.data<Index>();
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    if (id[i] < num_segments) continue;
    std::string place;
    int64_t rest = i;
    for (const int64_t stride : RowMajorStrides(ids.shape().dims())) {
      absl::StrAppend(&place, place.empty() ? "[" : ",", rest / stride);
      rest %= stride;
    }
    return InvalidArgument("segment_ids", place.empty() ? "" : place + "]", " = ", id[i], " is out of range [0, ",
                           num_segments, ")");
  }
  return absl::OkStatus();
}

class UnsortedSegmentKernel : public Kernel {
 public:
  explicit UnsortedSegmentKernel(SegmentReduction reduction) : reduction_(reduction) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(combine_, FindCombineRow(reduction_, init.node().output_type(0)));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& data = c.input(0);
    const Tensor& ids = c.input(1);
    if (c.input(2).rank() != 0) {
      return InvalidArgument("num_segments should be a scalar, not shape ", c.input(2).shape());
    }
    const int64_t num_segments = ReadInteger(c.input(2));
    if (num_segments < 0) return InvalidArgument("Input num_segments == ", num_segments, " must not be negative.");
    const auto prefix = data.shape().dims().subspan(0, std::min(ids.rank(), data.rank()));
    if (prefix != ids.shape().dims()) {
      return InvalidArgument("data.shape = ", data.shape(), " does not start with segment_ids.shape = ", ids.shape());
    }
    Dims dims = {num_segments};
    dims.insert(dims.end(), data.shape().dims().begin() + ids.rank(), data.shape().dims().end());
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    RETURN_IF_ERROR(FillWithIdentity(reduction_, out));
    return Dispatch(Types<int32_t, int64_t, int16_t>(), ids.dtype(), [&]<typename Index>() -> absl::Status {
      RETURN_IF_ERROR(CheckIds<Index>(ids, num_segments));
      Reduce<Index>(c, data, ids, data.shape().Product(ids.rank(), data.rank()), out);
      return absl::OkStatus();
    });
  }

 private:
  // Each thread takes all rows of its segments or, if rows are long, some columns of all rows, so
  // that no two threads write to the same place. Pieces of short rows would halve the read speed.
  template <typename Index>
  void Reduce(KernelContext& c, const Tensor& data, const Tensor& ids, int64_t inner, Tensor* out) const {
    constexpr int64_t kLong = 16384, kColumns = 16;  // bytes of a row; columns that are not divided
    const int64_t segments = out->dim(0), rows = ids.num_elements();
    const int64_t size = static_cast<int64_t>(ElementSize(data.dtype())),
                  threads = c.device().intra_op_pool().concurrency();
    const double nanos = static_cast<double>(rows) * (2 + static_cast<double>(inner) * 0.15);
    const bool by_segment = inner * size < kLong && segments >= threads;
    const int64_t all = by_segment ? segments : inner, unit = by_segment ? 1 : kColumns;
    const int64_t share = std::max<int64_t>(1, (all + unit * threads - 1) / (unit * threads)) * unit;
    const int64_t shares = (all + share - 1) / share;
    c.ParallelFor(shares, nanos / static_cast<double>(std::max<int64_t>(1, shares)), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * share, last = std::min(end * share, all);
      if (by_segment) {
        ReducePart<Index>(data, ids, inner, {0, inner}, {first, last}, out);
      } else {
        ReducePart<Index>(data, ids, inner, {first, last}, {0, segments}, out);
      }
    });
  }

  using Range = std::pair<int64_t, int64_t>;
  template <typename Index>
  void ReducePart(const Tensor& data, const Tensor& ids, int64_t inner, Range columns, Range segments,
                  Tensor* out) const {
    constexpr int64_t kAhead = 4;
    const int64_t rows = ids.num_elements(), n = columns.second - columns.first;
    const int64_t size = static_cast<int64_t>(ElementSize(data.dtype()));
    const Index* const id = ids.data<Index>();
    const char* const from = static_cast<const char*>(data.raw()) + columns.first * size;
    char* const to = static_cast<char*>(out->raw()) + columns.first * size;
    const auto mine = [&](int64_t i) { return id[i] >= segments.first && id[i] < segments.second; };
    for (int64_t i = 0; i < rows; ++i) {
      if (i + kAhead < rows && mine(i + kAhead)) {
        __builtin_prefetch(to + id[i + kAhead] * inner * size, 1);
        __builtin_prefetch(from + (i + kAhead) * inner * size);
      }
      if (mine(i)) combine_(from + i * inner * size, to + id[i] * inner * size, n);
    }
  }

  const SegmentReduction reduction_;
  CombineRow combine_ = nullptr;
};

absl::Status UnsortedSegmentShape(ShapeContext& c) {
  const PartialShape &data = c.input(0), &ids = c.input(1);
  RETURN_IF_ERROR(c.RequireScalar(2));
  const std::optional<Dims> num_segments = ConstantIntegers(c, 2);
  if (num_segments.has_value() && (*num_segments)[0] < 0) {
    return InvalidArgument("num_segments must not be negative: ", (*num_segments)[0]);
  }
  if (!data.has_rank() || !ids.has_rank()) return absl::OkStatus();
  if (ids.rank() > data.rank()) {
    return InvalidArgument("data.shape = ", data, " does not start with segment_ids.shape = ", ids);
  }
  RETURN_IF_ERROR(PartialShape::Merge(SubShape(data, 0, ids.rank()), ids).status());
  const PartialShape first({num_segments.has_value() ? (*num_segments)[0] : PartialShape::kUnknown});
  c.set_output(0, Concatenate(first, SubShape(data, ids.rank())));
  return absl::OkStatus();
}

// Slices by segment number, and for each element whether the number is one.
struct Gathered {
  Output values;
  Output is_segment;
};

Output MaximumWithZero(const Scope& s, Output ids) { return s.Add("Maximum", {ids, ZerosLike(s, ids)}); }

// Rows of `values` by `ids`; zeros where they are negative.
Gathered GatherDropNegatives(const Scope& s, Output values, Output ids) {
  const Output gathered = Gather(s, values, MaximumWithZero(s, ids));
  // One flag for every element: ids have ones where the slices have more.
  Output flags = s.Add("GreaterEqual", {ids, ZerosLike(s, ids)});
  const Output missing = s.Add("Sub", {Rank(s, gathered), Rank(s, flags)});
  const Output ones = Fill(s, ExpandDims(s, missing, 0), Const(s, 1));
  flags = Reshape(s, flags, Concat(s, {ShapeOf(s, flags), ones}, 0));
  flags = s.Add("LogicalAnd", {flags, OnesLike(s, s.Add("Equal", {gathered, gathered}))});
  return {.values = s.Add("Select", {flags, gathered, ZerosLike(s, gathered)}), .is_segment = flags};
}

absl::Status UnsortedSumGradient(GradientContext& c) {
  c.set_dx(0, GatherDropNegatives(c.scope(), c.dy(), c.input(1)).values);
  return absl::OkStatus();
}

// The elements that are the extreme of their segment share its gradient.
absl::Status UnsortedExtremeGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output data = c.input(0), ids = c.input(1), num_segments = c.input(2);
  const Gathered extremes = GatherDropNegatives(s, c.output(0), ids);
  Output selected = s.Add("Equal", {data, extremes.values});
  selected = s.Add("LogicalAnd", {selected, extremes.is_segment});
  const Output ones = s.Add("Cast", {selected}, {{"DstT", data.dtype()}});
  const Output count = UnsortedSegmentSum(s, ones, ids, num_segments);
  const Output shares = GatherDropNegatives(s, s.Add("RealDiv", {c.dy(), count}), ids).values;
  c.set_dx(0, Output(s.Add("Select", {selected, shares, ZerosLike(s, shares)})));
  return absl::OkStatus();
}

// d prod / d x = prod / x. Where x is the only zero of its segment, it is the
// product of the others; where there are more zeros, it is zero.
absl::Status UnsortedProdGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output data = c.input(0), ids = c.input(1), num_segments = c.input(2);
  const Output is_zero = s.Add("Equal", {data, ZerosLike(s, data)});
  const Output zeros = UnsortedSegmentSum(s, s.Add("Cast", {is_zero}, {{"DstT", kInt32}}), ids, num_segments);
  const Output several = s.Add("Greater", {zeros, OnesLike(s, zeros)});
  const Output dy = s.Add("Select", {several, ZerosLike(s, c.dy()), c.dy()});
  const Output ones = OnesLike(s, data);
  const Output non_zero = s.Add("Select", {is_zero, ones, data});
  const Output non_zero_prod = s.Add("UnsortedSegmentProd", {non_zero, ids, num_segments});
  const Output row = MaximumWithZero(s, ids);
  const Output others = s.Add("RealDiv", {Gather(s, c.output(0), row), non_zero});
  const Output partial = s.Add("Select", {is_zero, Gather(s, non_zero_prod, row), others});
  c.set_dx(0, Output(s.Add("Mul", {GatherDropNegatives(s, dy, ids).values, partial})));
  return absl::OkStatus();
}

Op UnsortedSegment(absl::string_view name, absl::string_view types, absl::string_view index_types,
                   SegmentReduction reduction) {
  return Op(name)
      .Input("data: T")
      .Input("segment_ids: Tindices")
      .Input("num_segments: Tnumsegments")
      .Output("output: T")
      .Attr(absl::StrCat("T: ", types))
      .Attr(absl::StrCat("Tindices: ", index_types))
      .Attr("Tnumsegments: {int32, int64} = DT_INT32")
      .Shape(UnsortedSegmentShape)
      .Kernel<UnsortedSegmentKernel>(reduction);
}

const OpRegistration kUnsortedSegmentOps[] = {
    UnsortedSegment("UnsortedSegmentSum", "numbertype", "{int16, int32, int64}", SegmentReduction::kSum)
        .Gradient(UnsortedSumGradient),
    UnsortedSegment("UnsortedSegmentProd", "numbertype", "{int32, int64}", SegmentReduction::kProd)
        .Gradient(UnsortedProdGradient),
    UnsortedSegment("UnsortedSegmentMax", "realnumbertype", "{int32, int64}", SegmentReduction::kMax)
        .Gradient(UnsortedExtremeGradient),
    UnsortedSegment("UnsortedSegmentMin", "realnumbertype", "{int32, int64}", SegmentReduction::kMin)
        .Gradient(UnsortedExtremeGradient),
};

}  // namespace

Output UnsortedSegmentSum(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments) {
  return s.Add("UnsortedSegmentSum", {data, segment_ids, num_segments.AsTensor(s, "num_segments")});
}
Output UnsortedSegmentProd(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments) {
  return s.Add("UnsortedSegmentProd", {data, segment_ids, num_segments.AsTensor(s, "num_segments")});
}
Output UnsortedSegmentMax(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments) {
  return s.Add("UnsortedSegmentMax", {data, segment_ids, num_segments.AsTensor(s, "num_segments")});
}
Output UnsortedSegmentMin(const Scope& s, Output data, Output segment_ids, const IntArg& num_segments) {
  return s.Add("UnsortedSegmentMin", {data, segment_ids, num_segments.AsTensor(s, "num_segments")});
}

}  // namespace thalweg
