// SPDX-License-Identifier: Apache-2.0
// MatrixTriangularSolve (and its name in old graphs, BatchMatrixTriangularSolve)
// and BandedTriangularSolve.
#include <algorithm>

#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/linalg/linalg.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

// Batch dimensions of two operands broadcast: which matrix of each belongs to
// matrix i of the result.
struct BroadcastBatch {
  Dims dims;
  Dims a_strides, b_strides;  // 0 where one repeats

  static absl::StatusOr<BroadcastBatch> Of(const Dims& a, const Dims& b) {
    BroadcastBatch result;
    const size_t rank = std::max(a.size(), b.size());
    result.dims.resize(rank);
    result.a_strides.resize(rank);
    result.b_strides.resize(rank);
    int64_t a_step = 1, b_step = 1;
    for (size_t i = 0; i < rank; ++i) {  // from the last
      const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
      if (x != y && x != 1 && y != 1) {
        return InvalidArgument("In[0] and In[1] must have compatible batch dimensions: ", PartialShape(a), " vs. ",
                               PartialShape(b));
      }
      result.dims[rank - 1 - i] = x == 1 ? y : x;
      result.a_strides[rank - 1 - i] = x == 1 ? 0 : a_step;
      result.b_strides[rank - 1 - i] = y == 1 ? 0 : b_step;
      a_step *= x;
      b_step *= y;
    }
    return result;
  }
  std::pair<int64_t, int64_t> At(int64_t i) const {
    int64_t a = 0, b = 0;
    for (size_t d = dims.size(); d-- > 0; i /= dims[d]) {
      a += i % dims[d] * a_strides[d];
      b += i % dims[d] * b_strides[d];
    }
    return {a, b};
  }
};

// Checks the inputs of both kernels, and locates their matrices.
struct TriangularSystem {
  MatrixBatch a, b;
  BroadcastBatch batch;
  Shape shape;  // shape of the solution

  static absl::StatusOr<TriangularSystem> Of(KernelContext& context, bool banded, bool lower, bool adjoint) {
    const Tensor &matrix = context.input(0), &rhs = context.input(1);
    for (int i = 0; i < 2; ++i) {
      if (context.input(i).rank() < 2) {
        return InvalidArgument("In[", i, "] ndims must be >= 2: ", context.input(i).rank());
      }
    }
    TriangularSystem s;
    ASSIGN_OR_RETURN(s.a, MatrixBatch::Of(matrix));
    ASSIGN_OR_RETURN(s.b, MatrixBatch::Of(rhs, 1));
    if (!banded && s.a.rows != s.a.columns) {
      return InvalidArgument("In[0] matrices in the last dimensions must be square (", s.a.columns, " =/= ", s.a.rows,
                             ")");
    }
    if (banded && s.a.rows < 1) return InvalidArgument("Input matrix must have at least one band");
    if (s.a.columns != s.b.rows) {
      return InvalidArgument("In[0] mismatch In[1] shape: ", s.a.columns, " vs. ", s.b.rows, ": ", matrix.shape(), " ",
                             rhs.shape(), " ", lower, " ", adjoint);
    }
    ASSIGN_OR_RETURN(s.batch, BroadcastBatch::Of(s.a.batch, s.b.batch));
    Dims dims = s.batch.dims;
    dims.insert(dims.end(), {s.b.rows, s.b.columns});
    ASSIGN_OR_RETURN(s.shape, Shape::Make(dims));
    return s;
  }
};

class TriangularSolveBase : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(lower_, init.Attr<bool>("lower"));
    ASSIGN_OR_RETURN(adjoint_, init.Attr<bool>("adjoint"));
    return absl::OkStatus();
  }

 protected:
  bool lower_ = true;
  bool adjoint_ = false;
};

class TriangularSolveKernel : public TriangularSolveBase {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const TriangularSystem s, TriangularSystem::Of(context, false, lower_, adjoint_));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, s.shape));
    if (s.shape.num_elements() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(CheckSides({s.b.rows, s.b.columns}));
    const int n = static_cast<int>(s.b.rows), k = static_cast<int>(s.b.columns);
    const int64_t size = s.b.rows * s.b.columns, count = s.shape.num_elements() / size;
    const Tensor &matrix = context.input(0), &rhs = context.input(1);
    return ForEachMatrix(context, rhs.dtype(), count, LinalgCost(n, n, k),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                           const auto [x, y] = s.batch.At(i);
                           const S* const triangle = RowsOf(matrix, x, s.a.rows * s.a.rows, scratch.a);
                           S* const solution = MutableRowsOf(out, i, size, scratch.b);
                           LoadRows(rhs, y, size, solution);
                           lapack::SolveTriangleRows(lower_ ? lapack::Triangle::kLower : lapack::Triangle::kUpper,
                                                     adjoint_, n, k, triangle, solution);
                           StoreIfCopied(solution, i, size, out);
                           return absl::OkStatus();
                         });
  }
};

// Bands [bands, n]: the diagonal is first for lower and last for upper matrices;
// element j of a band is in row j of the matrix.
class BandedTriangularSolveKernel : public TriangularSolveBase {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const TriangularSystem s, TriangularSystem::Of(context, true, lower_, adjoint_));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, s.shape));
    if (s.shape.num_elements() == 0) return absl::OkStatus();
    const int64_t n = s.b.rows, k = s.b.columns, count = s.shape.num_elements() / (n * k);
    const Tensor &matrix = context.input(0), &rhs = context.input(1);
    return ForEachMatrix(context, rhs.dtype(), count, LinalgCost(n, s.a.rows, k),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) -> absl::Status {
                           const auto [x, y] = s.batch.At(i);
                           scratch.a.resize(s.a.rows * n);
                           scratch.b.resize(n * k);
                           LoadRows(matrix, x, s.a.rows * n, scratch.a.data());
                           LoadRows(rhs, y, n * k, scratch.b.data());
                           if (!Solve(scratch.a.data(), s.a.rows, n, k, scratch.b.data())) {
                             return InvalidArgument("Input matrix is not invertible.");
                           }
                           StoreRows(scratch.b.data(), i, n * k, out);
                           return absl::OkStatus();
                         });
  }

 private:
  // Row after row, from the side where there is one unknown. False if the
  // diagonal has a zero.
  template <typename S>
  bool Solve(const S* bands, int64_t count, int64_t n, int64_t k, S* b) const {
    const bool forward = lower_ != adjoint_;
    const auto band = [&](int64_t d) { return bands + (lower_ ? d : count - 1 - d) * n; };  // d off the diagonal
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = forward ? step : n - 1 - step;
      S* const row = b + i * k;
      for (int64_t d = 1; d < count; ++d) {
        const int64_t other = forward ? i - d : i + d;
        if (other < 0 || other >= n) break;
        const S factor = adjoint_ ? lapack::Conj(band(d)[other]) : band(d)[i];
        for (int64_t j = 0; j < k; ++j) row[j] -= factor * b[other * k + j];
      }
      const S diagonal = adjoint_ ? lapack::Conj(band(0)[i]) : band(0)[i];
      if (!(std::abs(diagonal) > 0)) return false;
      for (int64_t j = 0; j < k; ++j) row[j] /= diagonal;
    }
    return true;
  }
};

// The same, if the batches need no broadcasting.
absl::Status TriangularSolveShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape matrix, MatrixShape(c, 0, false));
  ASSIGN_OR_RETURN(const PartialShape rhs, MatrixShape(c, 1, false));
  if (!matrix.has_rank() || !rhs.has_rank()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PartialShape batch, BroadcastShape(BatchWith(matrix, {}), BatchWith(rhs, {})));
  if (!batch.has_rank()) return absl::OkStatus();
  Dims dims(batch.dims().begin(), batch.dims().end());
  dims.insert(dims.end(), rhs.dims().end() - 2, rhs.dims().end());
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

Output Product(const Scope& s, Output a, Output b) {
  return s.Add("BatchMatMulV2", {a, b}, {{"adj_x", false}, {"adj_y", true}});
}

// Like the gradient of MatrixSolve, restricted to the triangle that was read.
absl::Status TriangularSolveGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const bool lower, g.Attr<bool>("lower"));
  ASSIGN_OR_RETURN(const bool adjoint, g.Attr<bool>("adjoint"));
  const PartialShape &a = g.input(0).shape(), &b = g.input(1).shape();
  if (!a.has_rank() || a.rank() != b.rank() ||
      !std::equal(a.dims().begin(), a.dims().end() - 2, b.dims().begin(), b.dims().end() - 2)) {
    return Unimplemented("gradient of MatrixTriangularSolve of batches that are not known to be the same: ", a, " and ",
                         b);
  }
  const Scope& s = g.scope();
  const Output x = g.output(0);
  const Output db = s.Add("MatrixTriangularSolve", {g.input(0), g.dy()}, {{"lower", lower}, {"adjoint", !adjoint}});
  const Output da = Neg(s, adjoint ? Product(s, x, db) : Product(s, db, x));
  const auto number = [&](int64_t n) {
    return Output(s.Add("Const", {}, {{"dtype", kInt64}, {"value", Tensor::Scalar(n)}}));
  };
  g.set_dx(0, Output(s.Add("MatrixBandPart", {da, number(lower ? -1 : 0), number(lower ? 0 : -1)})));
  g.set_dx(1, db);
  return absl::OkStatus();
}

Op TriangularSolveOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("matrix: T")
      .Input("rhs: T")
      .Output("output: T")
      .Attr("lower: bool = true")
      .Attr("adjoint: bool = false")
      .Attr(types)
      .Shape(TriangularSolveShape);
}

const OpRegistration kTriangularSolveOps[] = {
    TriangularSolveOp("MatrixTriangularSolve", "T: {bfloat16, double, float, half, complex64, complex128}")
        .Kernel<TriangularSolveKernel>()
        .Gradient(TriangularSolveGradient),
    TriangularSolveOp("BatchMatrixTriangularSolve", "T: {double, float}").Kernel<TriangularSolveKernel>(),
    TriangularSolveOp("BandedTriangularSolve", "T: {double, float, half, complex64, complex128}")
        .Kernel<BandedTriangularSolveKernel>(),
};

}  // namespace
}  // namespace thalweg
