// SPDX-License-Identifier: Apache-2.0
// SegmentSum, -Mean, -Prod, -Max and -Min reduce rows that have the same number,
// where numbers never decrease:
//
//   output[s] = reduction of data[i] over all i with segment_ids[i] == s
//
// There are as many segments as the last number says. Those without rows are
// zero (one for Prod).
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/segment_rows.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

class SegmentKernel : public Kernel {
 public:
  SegmentKernel(SegmentReduction reduction, bool mean) : reduction_(reduction), mean_(mean) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(combine_, FindCombineRow(reduction_, init.node().output_type(0)));
    ASSIGN_OR_RETURN(divide_, FindDivideRow(init.node().output_type(0)));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& data = c.input(0);
    const Tensor& ids = c.input(1);
    if (ids.rank() != 1) return InvalidArgument("segment_ids should be a vector.");
    if (data.rank() < 1) return InvalidArgument("Shape must be at least rank 1");
    const int64_t n = ids.num_elements();
    if (n != data.dim(0)) return InvalidArgument("segment_ids should be the same size as dimension 0 of input.");
    int64_t segments = 0;
    if (n > 0 && __builtin_add_overflow(ReadInteger(ids, n - 1), 1, &segments)) {
      return InvalidArgument("a segment id of ", ReadInteger(ids, n - 1));
    }
    if (n > 0 && segments <= 0) return InvalidArgument("segment ids must be >= 0");
    for (int64_t i = 0, last = 0; i < n; ++i) {
      const int64_t id = ReadInteger(ids, i);
      if (id < 0) {
        return InvalidArgument("Segment id ", id, " out of range [0, ", segments,
                               "), possibly because 'segment_ids' input is not sorted.");
      }
      if (id < last) return InvalidArgument("segment ids are not increasing");
      last = id;
    }
    Dims dims(data.shape().dims().begin(), data.shape().dims().end());
    dims[0] = segments;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    Reduce(c, data, ids, out);
    if (reduction_ == SegmentReduction::kProd) return FillGaps(ids, out);
    return absl::OkStatus();
  }

 private:
  // Every segment begins as a copy of its first row. Threads take columns.
  void Reduce(KernelContext& c, const Tensor& data, const Tensor& ids, Tensor* out) const {
    constexpr int64_t kColumns = 16;
    ClearElements(out);
    const int64_t n = ids.num_elements();
    const int64_t inner = data.shape().Product(1, data.rank());
    const int64_t size = static_cast<int64_t>(ElementSize(data.dtype()));
    const char* const from = static_cast<const char*>(data.raw());
    char* const to = static_cast<char*>(out->raw());
    c.ParallelFor((inner + kColumns - 1) / kColumns, n * (2 + kColumns * 0.3), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kColumns, width = std::min(end * kColumns, inner) - first;
      for (int64_t i = 0; i < n;) {
        const int64_t id = ReadInteger(ids, i);
        char* const row = to + (id * inner + first) * size;
        CopyBytes(from + (i * inner + first) * size, width * size, row);
        int64_t next = i + 1;
        for (; next < n && ReadInteger(ids, next) == id; ++next) {
          combine_(from + (next * inner + first) * size, row, width);
        }
        if (mean_ && next - i > 1) divide_(row, static_cast<double>(next - i), width);
        i = next;
      }
    });
  }

  // An empty product is one.
  absl::Status FillGaps(const Tensor& ids, Tensor* out) const {
    int64_t next = 0;  // first segment that may be a gap
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      const int64_t id = ReadInteger(ids, i);
      if (id > next) {
        Tensor rows = out->Rows(next, id);
        RETURN_IF_ERROR(FillWithIdentity(reduction_, &rows));
      }
      next = id + 1;
    }
    return absl::OkStatus();
  }

  const SegmentReduction reduction_;
  const bool mean_;
  CombineRow combine_ = nullptr;
  DivideRow divide_ = nullptr;
};

absl::Status SegmentShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape ids, c.WithRank(1, 1));
  const PartialShape& data = c.input(0);
  if (!data.has_rank()) return absl::OkStatus();
  if (data.rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  RETURN_IF_ERROR(MergeDims(data.dim(0), ids.dim(0)).status());
  c.set_output(0, Concatenate({PartialShape::kUnknown}, SubShape(data, 1)));
  return absl::OkStatus();
}

absl::Status SegmentSumGradient(GradientContext& c) {
  c.set_dx(0, Gather(c.scope(), c.dy(), c.input(1)));
  return absl::OkStatus();
}

absl::Status SegmentMeanGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output data = c.input(0), ids = c.input(1);
  // A one for every row, of the rank of the data, so that counts broadcast.
  const Output missing = s.Add("Sub", {Rank(s, data), Const(s, 1)});
  const Output ones_shape = Concat(s, {ShapeOf(s, ids), Fill(s, ExpandDims(s, missing, 0), Const(s, 1))}, 0);
  const Output one = s.Add("Cast", {Const(s, 1.0f)}, {{"DstT", data.dtype()}});
  const Output counts = s.Add("SegmentSum", {Fill(s, ones_shape, one), ids});
  // Empty segments have a count of 0, for which DivNoNan gives 0.
  const Output divided = s.Add("DivNoNan", {c.dy(), counts});
  c.set_dx(0, Gather(s, divided, ids));
  return absl::OkStatus();
}

absl::Status SegmentProdGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output data = c.input(0), ids = c.input(1);
  const Output is_zero = s.Add("Equal", {data, ZerosLike(s, data)});
  const Output zeros = s.Add("SegmentSum", {Output(s.Add("Cast", {is_zero}, {{"DstT", kInt32}})), ids});
  const Output several = s.Add("Greater", {zeros, OnesLike(s, zeros)});
  const Output dy = s.Add("Select", {several, ZerosLike(s, c.dy()), c.dy()});
  const Output non_zero = s.Add("Select", {is_zero, OnesLike(s, data), data});
  const Output non_zero_prod = s.Add("SegmentProd", {non_zero, ids});
  const Output others = s.Add("RealDiv", {Gather(s, c.output(0), ids), non_zero});
  const Output partial = s.Add("Select", {is_zero, Gather(s, non_zero_prod, ids), others});
  c.set_dx(0, Output(s.Add("Mul", {Gather(s, dy, ids), partial})));
  return absl::OkStatus();
}

// The elements that are the extreme of their segment share its gradient.
absl::Status SegmentExtremeGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output data = c.input(0), ids = c.input(1);
  const Output selected = s.Add("Equal", {data, Gather(s, c.output(0), ids)});
  const Output ones = s.Add("Cast", {selected}, {{"DstT", data.dtype()}});
  const Output count = s.Add("SegmentSum", {ones, ids});
  const Output shares = Gather(s, s.Add("DivNoNan", {c.dy(), count}), ids);
  c.set_dx(0, Output(s.Add("Select", {selected, shares, ZerosLike(s, shares)})));
  return absl::OkStatus();
}

Op Segment(absl::string_view name, absl::string_view types, SegmentReduction reduction, bool mean = false) {
  return Op(name)
      .Input("data: T")
      .Input("segment_ids: Tindices")
      .Output("output: T")
      .Attr(absl::StrCat("T: ", types))
      .Attr("Tindices: {int32, int64}")
      .Shape(SegmentShape)
      .Kernel<SegmentKernel>(reduction, mean);
}

const OpRegistration kSegmentOps[] = {
    Segment("SegmentSum", "numbertype", SegmentReduction::kSum).Gradient(SegmentSumGradient),
    Segment("SegmentMean", "numbertype", SegmentReduction::kSum, /*mean=*/true).Gradient(SegmentMeanGradient),
    Segment("SegmentProd", "numbertype", SegmentReduction::kProd).Gradient(SegmentProdGradient),
    Segment("SegmentMax", "realnumbertype", SegmentReduction::kMax).Gradient(SegmentExtremeGradient),
    Segment("SegmentMin", "realnumbertype", SegmentReduction::kMin).Gradient(SegmentExtremeGradient),
};

}  // namespace

Output SegmentSum(const Scope& s, Output data, Output segment_ids) { return s.Add("SegmentSum", {data, segment_ids}); }
Output SegmentMean(const Scope& s, Output data, Output segment_ids) {
  return s.Add("SegmentMean", {data, segment_ids});
}
Output SegmentProd(const Scope& s, Output data, Output segment_ids) {
  return s.Add("SegmentProd", {data, segment_ids});
}
Output SegmentMax(const Scope& s, Output data, Output segment_ids) { return s.Add("SegmentMax", {data, segment_ids}); }
Output SegmentMin(const Scope& s, Output data, Output segment_ids) { return s.Add("SegmentMin", {data, segment_ids}); }

}  // namespace thalweg
