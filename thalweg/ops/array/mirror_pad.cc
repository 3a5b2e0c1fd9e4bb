// SPDX-License-Identifier: Apache-2.0
// MirrorPad puts a tensor's own elements around it, mirrored at its borders:
// with mode SYMMETRIC the border elements repeat ("cba|abc|cba"), with REFLECT
// they do not ("cb|abc|ba"). MirrorPadGrad adds everything back to where it came
// from.
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

absl::StatusOr<int> MirrorOffset(absl::StatusOr<std::string> mode) {
  if (!mode.ok()) return mode.status();
  return *mode == "REFLECT" ? 1 : 0;
}

// For every dimension, where the elements of the padded tensor come from.
struct MirrorTables {
  std::vector<std::vector<int64_t>> source;  // already times the stride; none if there are no elements
  Dims padded;

  void Add(int64_t size, int64_t stride, int64_t before, int64_t after, int offset) {
    std::vector<int64_t> table;
    table.reserve(before + size + after);
    for (int64_t i = before; i > 0; --i) table.push_back((i - 1 + offset) * stride);
    for (int64_t i = 0; i < size; ++i) table.push_back(i * stride);
    for (int64_t i = 0; i < after; ++i) table.push_back((size - 1 - offset - i) * stride);
    source.push_back(std::move(table));
  }
};

// visit(row of the padded tensor, where its elements come from) for all rows
// of the last dimension.
template <typename Visit>
void ForEachRow(const MirrorTables& tables, Visit&& visit) {
  const int outer = static_cast<int>(tables.padded.size()) - 1;
  Dims index(outer, 0);
  int64_t rows = 1;
  for (int d = 0; d < outer; ++d) rows *= tables.padded[d];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t from = 0;
    for (int d = 0; d < outer; ++d) from += tables.source[d][index[d]];
    visit(row, from);
    for (int d = outer - 1; d >= 0; --d) {
      if (++index[d] < tables.padded[d]) break;
      index[d] = 0;
    }
  }
}

// `shape` is that of the small tensor; `what` is how messages call its dimensions.
absl::StatusOr<MirrorTables> MakeTables(const Shape& shape, const Tensor& paddings, int offset,
                                        absl::string_view what) {
  MirrorTables tables;
  const Dims strides = RowMajorStrides(shape.dims());
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t before = ReadInteger(paddings, 2 * d), after = ReadInteger(paddings, 2 * d + 1);
    const int64_t most = shape.dim(d) - offset;
    if (before < 0 || after < 0) return InvalidArgument("paddings must be non-negative: ", before, " ", after);
    if (before > most || after > most) {
      return offset == 1 ? InvalidArgument("paddings must be less than the ", what, " size: ", before, ", ", after,
                                           " not less than ", shape.dim(d))
                         : InvalidArgument("paddings must be no greater than the ", what, " size: ", before, ", ",
                                           after, " greater than ", shape.dim(d));
    }
    tables.padded.push_back(AddDims(shape.dim(d), before + after));
    if (shape.num_elements() > 0) tables.Add(shape.dim(d), strides[d], before, after, offset);
  }
  return tables;
}

absl::Status CheckPaddings(const Tensor& input, const Tensor& paddings) {
  if (paddings.rank() != 2 || paddings.dim(1) != 2) {
    return InvalidArgument("paddings must be a matrix with 2 columns: ", paddings.shape());
  }
  if (paddings.dim(0) != input.rank()) {
    return InvalidArgument("The first dimension of paddings must be the rank of inputs", paddings.shape(), ", ",
                           input.shape());
  }
  return absl::OkStatus();
}

class MirrorPadKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(offset_, MirrorOffset(init.Attr<std::string>("mode")));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    RETURN_IF_ERROR(CheckPaddings(input, c.input(1)));
    if (input.rank() == 0) {
      c.set_output(0, c.TakeInput(0));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const MirrorTables tables, MakeTables(input.shape(), c.input(1), offset_, "dimension"));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(tables.padded));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (tables.source.empty()) return absl::OkStatus();
    return DispatchBySize(input.dtype(), [&]<typename T>() {
      const T* const from = ElementData<T>(input);
      T* const to = MutableElementData<T>(out);
      const std::vector<int64_t>& last = tables.source.back();
      const int64_t n = static_cast<int64_t>(last.size());
      ForEachRow(tables, [&](int64_t row, int64_t at) {
        for (int64_t i = 0; i < n; ++i) to[row * n + i] = from[at + last[i]];
      });
      return absl::OkStatus();
    });
  }

 private:
  int offset_ = 0;
};

class MirrorPadGradKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(offset_, MirrorOffset(init.Attr<std::string>("mode")));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& paddings = c.input(1);
    RETURN_IF_ERROR(CheckPaddings(input, paddings));
    if (input.rank() == 0) {
      c.set_output(0, c.TakeInput(0));
      return absl::OkStatus();
    }
    Dims dims(input.rank());
    for (int d = 0; d < input.rank(); ++d) {
      const int64_t before = ReadInteger(paddings, 2 * d), after = ReadInteger(paddings, 2 * d + 1);
      if (before < 0 || after < 0) return InvalidArgument("Paddings must be non-negative: ", before, ", ", after);
      if (before > input.dim(d) || after > input.dim(d) - before) {
        return InvalidArgument("Total paddings must be less than the input dimension size: ", before, " and ", after,
                               " of ", input.dim(d));
      }
      dims[d] = input.dim(d) - before - after;
    }
    const Shape shape(dims);
    ASSIGN_OR_RETURN(const MirrorTables tables, MakeTables(shape, paddings, offset_, "output dimension"));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    ClearElements(out);
    if (tables.source.empty()) return absl::OkStatus();
    return Dispatch(NumberTypes(), input.dtype(), [&]<typename T>() {
      const T* const from = input.data<T>();
      T* const to = out->mutable_data<T>();
      const std::vector<int64_t>& last = tables.source.back();
      const int64_t n = static_cast<int64_t>(last.size());
      ForEachRow(tables, [&](int64_t row, int64_t at) {
        for (int64_t i = 0; i < n; ++i) to[at + last[i]] += from[row * n + i];
      });
      return absl::OkStatus();
    });
  }

 private:
  int offset_ = 0;
};

// The sizes of the input plus `sign` times the paddings.
absl::Status PaddedShape(ShapeContext& c, int sign) {
  ASSIGN_OR_RETURN(const PartialShape paddings, c.WithRank(1, 2));
  RETURN_IF_ERROR(MergeDims(paddings.dim(1), 2).status());
  ASSIGN_OR_RETURN(const int64_t rank, MergeDims(c.input(0).rank(), paddings.dim(0)));
  if (rank < 0 || rank > Shape::kMaxRank) return absl::OkStatus();
  Dims dims(rank, PartialShape::kUnknown);
  if (const std::optional<Dims> sizes = ConstantIntegers(c, 1)) {
    for (int d = 0; d < rank; ++d) {
      const int64_t total = AddDims((*sizes)[2 * d], (*sizes)[2 * d + 1]);
      const int64_t size = DimOf(c.input(0), d);
      if (total < 0) return InvalidArgument("Paddings must be non-negative");
      if (sign < 0 && size >= 0 && total > size) return InvalidArgument("Paddings ", total, " exceed the size ", size);
      if (size >= 0) dims[d] = sign < 0 ? size - total : AddDims(size, total);
    }
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}
absl::Status MirrorPadShape(ShapeContext& c) { return PaddedShape(c, 1); }
absl::Status MirrorPadGradShape(ShapeContext& c) { return PaddedShape(c, -1); }

absl::Status MirrorPadGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const std::string mode, c.Attr<std::string>("mode"));
  c.set_dx(0, Output(c.scope().Add("MirrorPadGrad", {c.dy(), c.input(1)}, {{"mode", mode}})));
  return absl::OkStatus();
}

absl::Status MirrorPadGradGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const std::string mode, c.Attr<std::string>("mode"));
  c.set_dx(0, Output(c.scope().Add("MirrorPad", {c.dy(), c.input(1)}, {{"mode", mode}})));
  return absl::OkStatus();
}

const OpRegistration kMirrorPadOps[] = {
    Op("MirrorPad")
        .Input("input: T")
        .Input("paddings: Tpaddings")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tpaddings: {int32, int64} = DT_INT32")
        .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
        .Shape(MirrorPadShape)
        .Kernel<MirrorPadKernel>()
        .Gradient(MirrorPadGradient),
    Op("MirrorPadGrad")
        .Input("input: T")
        .Input("paddings: Tpaddings")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tpaddings: {int32, int64} = DT_INT32")
        .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
        .Shape(MirrorPadGradShape)
        .Kernel<MirrorPadGradKernel>()
        .Gradient(MirrorPadGradGradient),
};

}  // namespace

Output MirrorPad(const Scope& s, Output input, const IntPairsArg& paddings, MirrorMode mode) {
  return s.Add("MirrorPad", {input, paddings.AsTensor(s, "paddings")},
               {{"mode", mode == MirrorMode::kReflect ? "REFLECT" : "SYMMETRIC"}});
}

}  // namespace thalweg
