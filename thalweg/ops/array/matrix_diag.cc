// SPDX-License-Identifier: Apache-2.0
// Diagonals of batches of matrices. MatrixDiag makes matrices of diagonals,
// MatrixDiagPart takes diagonals of matrices, MatrixSetDiag replaces them. The
// V2 and V3 forms work on a band: diagonals k[0] to k[1] (0 is the main one,
// positive ones are above). Several diagonals are the rows of a matrix, the
// topmost first; shorter ones are padded, on the side that `align` says.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// The layout of a band of diagonals in a tensor of diagonals.
struct Band {
  int64_t low = 0;
  int64_t high = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  bool above_left = true;  // diagonals above the main one are aligned left
  bool below_left = true;

  int64_t count() const { return high - low + 1; }
  int64_t Length(int64_t d) const { return std::min(rows + std::min<int64_t>(d, 0), cols - std::max<int64_t>(d, 0)); }
  int64_t Longest() const { return std::min(rows + std::min<int64_t>(high, 0), cols - std::max<int64_t>(low, 0)); }
  // Where diagonal d starts in its row.
  int64_t Start(int64_t d) const {
    const bool left = (d >= 0 && above_left) || (d <= 0 && below_left);
    return left ? 0 : Longest() - Length(d);
  }
  // The place of the first element of diagonal d in its matrix; the next ones
  // are cols + 1 apart.
  int64_t First(int64_t d) const { return d >= 0 ? d : -d * cols; }
};

absl::Status ReadBand(const Tensor& k, Band* band) {
  if (k.rank() > 1 || k.num_elements() < 1 || k.num_elements() > 2) {
    return InvalidArgument("diag_index must be a scalar or vector, received shape: ", k.shape());
  }
  band->low = ReadInteger(k, 0);
  band->high = ReadInteger(k, k.num_elements() - 1);
  if (band->low > band->high) {
    return InvalidArgument("lower_diag_index must not be larger than upper_diag_index: ", band->low, " > ", band->high);
  }
  return absl::OkStatus();
}

absl::Status CheckBand(const Band& band) {
  const auto inside = [&](int64_t d) { return d == 0 || (-band.rows < d && d < band.cols); };
  if (!inside(band.low)) {
    return InvalidArgument("lower_diag_index is out of bound: ", band.low, ". It must be between ", -band.rows, " and ",
                           band.cols);
  }
  if (!inside(band.high)) {
    return InvalidArgument("upper_diag_index is out of bound: ", band.high, " It must be between ", -band.rows, " and ",
                           band.cols);
  }
  return absl::OkStatus();
}

// Copies the band between a tensor of matrices and one of diagonals.
absl::Status CopyBand(KernelContext& c, const Band& band, int64_t batch, bool to_matrix, const Tensor& from,
                      Tensor* to) {
  const int64_t longest = band.Longest(), matrix = band.rows * band.cols, diagonals = band.count() * longest;
  for (int64_t d = band.low; d <= band.high; ++d) {
    const StridedPlace in_matrix{.offset = band.First(d), .strides = {matrix, band.cols + 1}};
    const StridedPlace in_diagonals{.offset = (band.high - d) * longest + band.Start(d), .strides = {diagonals, 1}};
    RETURN_IF_ERROR(CopyStrided(c, {batch, std::max<int64_t>(band.Length(d), 0)}, from,
                                to_matrix ? in_diagonals : in_matrix, to, to_matrix ? in_matrix : in_diagonals));
  }
  return absl::OkStatus();
}

// 1: one diagonal, the main one. 2: a band, aligned left. 3: a band, by `align`.
class MatrixDiagonalKernel : public Kernel {
 public:
  explicit MatrixDiagonalKernel(int version) : version_(version) {}
  absl::Status Init(const KernelInit& init) override {
    if (version_ < 3) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string align, init.Attr<std::string>("align"));
    above_left_ = align == "LEFT_LEFT" || align == "LEFT_RIGHT";
    below_left_ = align == "LEFT_LEFT" || align == "RIGHT_LEFT";
    return absl::OkStatus();
  }

 protected:
  Band NewBand() const { return {.above_left = above_left_, .below_left = below_left_}; }
  const int version_;

 private:
  bool above_left_ = true;
  bool below_left_ = true;
};

class MatrixDiagKernel : public MatrixDiagonalKernel {
 public:
  using MatrixDiagonalKernel::MatrixDiagonalKernel;

  absl::Status Compute(KernelContext& c) override {
    const Tensor& diagonal = c.input(0);
    Band band = NewBand();
    int64_t rows = -1, cols = -1;
    if (diagonal.rank() < 1)
      return InvalidArgument("diagonal must be at least 1-dim, received shape: ", diagonal.shape());
    if (version_ > 1) {
      RETURN_IF_ERROR(ReadBand(c.input(1), &band));
      ASSIGN_OR_RETURN(rows, ReadScalar(c.input(2), "num_rows"));
      ASSIGN_OR_RETURN(cols, ReadScalar(c.input(3), "num_cols"));
      if (c.input(4).num_elements() != 1) {
        return InvalidArgument("padding_value must have only one element, received shape: ", c.input(4).shape());
      }
    }
    const int diagonal_dims = band.low == band.high ? 1 : 2;
    if (diagonal.rank() < diagonal_dims || (diagonal_dims == 2 && diagonal.dim(diagonal.rank() - 2) != band.count())) {
      return InvalidArgument(
          "The number of diagonals provided in the input does not match the lower_diag_index and "
          "upper_diag_index range.");
    }
    const int64_t longest = diagonal.dim(diagonal.rank() - 1);
    const int64_t min_rows = longest - std::min<int64_t>(band.high, 0),
                  min_cols = longest + std::max<int64_t>(band.low, 0);
    if (rows != -1 && rows < min_rows) return InvalidArgument("The number of rows is too small.");
    if (cols != -1 && cols < min_cols) return InvalidArgument("The number of columns is too small.");
    if (rows == -1 && cols == -1) rows = cols = std::max(min_rows, min_cols);
    if (rows == -1) rows = min_rows;
    if (cols == -1) cols = min_cols;
    if (rows != min_rows && cols != min_cols) {
      return InvalidArgument(
          "The number of rows or columns is not consistent with the specified d_lower, d_upper, and "
          "diagonal.");
    }
    band.rows = rows;
    band.cols = cols;
    const int outer = diagonal.rank() - diagonal_dims;
    Dims dims(diagonal.shape().dims().begin(), diagonal.shape().dims().begin() + outer);
    dims.insert(dims.end(), {rows, cols});
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (version_ > 1) {
      RETURN_IF_ERROR(FillElements(c, c.input(4), out));
    } else {
      ClearElements(out);
    }
    return CopyBand(c, band, diagonal.shape().Product(0, outer), /*to_matrix=*/true, diagonal, out);
  }
};

class MatrixDiagPartKernel : public MatrixDiagonalKernel {
 public:
  using MatrixDiagonalKernel::MatrixDiagonalKernel;

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const int rank = input.rank();
    if (rank < 2) return InvalidArgument("input must be at least 2-dim, received shape: ", input.shape());
    Band band = NewBand();
    if (version_ > 1) {
      RETURN_IF_ERROR(ReadBand(c.input(1), &band));
      if (c.input(2).num_elements() != 1) {
        return InvalidArgument("padding_value must be a scalar, received shape: ", c.input(2).shape());
      }
    }
    band.rows = input.dim(rank - 2);
    band.cols = input.dim(rank - 1);
    RETURN_IF_ERROR(CheckBand(band));
    Dims dims(input.shape().dims().begin(), input.shape().dims().end() - 2);
    if (band.low != band.high) dims.push_back(band.count());
    dims.push_back(std::max<int64_t>(band.Longest(), 0));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (band.low != band.high) RETURN_IF_ERROR(FillElements(c, c.input(2), out));
    return CopyBand(c, band, input.shape().Product(0, rank - 2), /*to_matrix=*/false, input, out);
  }
};

class MatrixSetDiagKernel : public MatrixDiagonalKernel {
 public:
  using MatrixDiagonalKernel::MatrixDiagonalKernel;

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& diagonal = c.input(1);
    const int rank = input.rank();
    const Shape shape = input.shape();
    if (rank < 2) return InvalidArgument("input must be at least 2-dim, received shape: ", shape);
    if (diagonal.rank() < 1) {
      return InvalidArgument("diagonal must be at least 1-dim, received shape: ", diagonal.shape());
    }
    Band band = NewBand();
    if (version_ > 1) RETURN_IF_ERROR(ReadBand(c.input(2), &band));
    band.rows = input.dim(rank - 2);
    band.cols = input.dim(rank - 1);
    RETURN_IF_ERROR(CheckBand(band));
    Dims expected(shape.dims().begin(), shape.dims().end() - 2);
    if (band.low != band.high) expected.push_back(band.count());
    expected.push_back(std::max<int64_t>(band.Longest(), 0));
    if (diagonal.shape().dims() != absl::MakeConstSpan(expected)) {
      return InvalidArgument(
          "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is "
          "not equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\n"
          "Input shape: ",
          shape, "\nDiagonal shape: ", diagonal.shape(), "\nExpected diagonal shape: ", Shape(expected));
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.ForwardOrAllocate({0}, 0, shape));
    if (out->raw() != input.raw()) {
      const Dims all = RowMajorStrides(shape.dims());
      RETURN_IF_ERROR(CopyStrided(c, shape.dims(), input, {.strides = all}, out, {.strides = all}));
    }
    return CopyBand(c, band, shape.Product(0, rank - 2), /*to_matrix=*/true, diagonal, out);
  }
};

absl::Status MatrixDiagShape(ShapeContext& c) {
  const PartialShape& diagonal = c.input(0);
  if (!diagonal.has_rank()) return absl::OkStatus();
  if (diagonal.rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  if (c.num_inputs() == 1) {
    c.set_output(0, Concatenate(diagonal, {diagonal.dim(diagonal.rank() - 1)}));
    return absl::OkStatus();
  }
  const std::optional<Dims> k = ConstantIntegers(c, 1), rows = ConstantIntegers(c, 2), cols = ConstantIntegers(c, 3);
  if (!k.has_value() || k->empty()) return absl::OkStatus();
  const int64_t low = k->front(), high = k->back();
  const int diagonal_dims = low == high ? 1 : 2;
  if (diagonal.rank() < diagonal_dims)
    return InvalidArgument("diagonal of shape ", diagonal, " has no ", high - low + 1, " diagonals");
  int64_t r = rows.has_value() && !rows->empty() ? (*rows)[0] : -2,
          n = cols.has_value() && !cols->empty() ? (*cols)[0] : -2;
  const int64_t longest = diagonal.dim(diagonal.rank() - 1);
  const bool known = longest >= 0 && r != -2 && n != -2;
  if (known) {
    const int64_t min_rows = longest - std::min<int64_t>(high, 0), min_cols = longest + std::max<int64_t>(low, 0);
    if (r == -1 && n == -1) r = n = std::max(min_rows, min_cols);
    if (r == -1) r = min_rows;
    if (n == -1) n = min_cols;
  }
  const PartialShape outer = SubShape(diagonal, 0, diagonal.rank() - diagonal_dims);
  c.set_output(0, Concatenate(outer, {std::max<int64_t>(r, -1), std::max<int64_t>(n, -1)}));
  return absl::OkStatus();
}

absl::Status MatrixDiagPartShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return absl::OkStatus();
  if (input.rank() < 2) return InvalidArgument("Shape must be at least rank 2 but is rank ", input.rank());
  Band band{.rows = input.dim(input.rank() - 2), .cols = input.dim(input.rank() - 1)};
  if (c.num_inputs() > 1) {
    const std::optional<Dims> k = ConstantIntegers(c, 1);
    if (!k.has_value() || k->empty()) return absl::OkStatus();
    band.low = k->front();
    band.high = k->back();
  }
  if (band.low > band.high) return InvalidArgument("lower_diag_index is greater than upper_diag_index");
  const bool known = band.rows >= 0 && band.cols >= 0;
  if (known) RETURN_IF_ERROR(CheckBand(band));
  PartialShape part = SubShape(input, 0, input.rank() - 2);
  if (band.low != band.high) part = Concatenate(part, {band.count()});
  c.set_output(0, Concatenate(part, {known ? band.Longest() : PartialShape::kUnknown}));
  return absl::OkStatus();
}

absl::Status MatrixSetDiagShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (input.has_rank() && input.rank() < 2) {
    return InvalidArgument("Shape must be at least rank 2 but is rank ", input.rank());
  }
  return shapes::LikeInput0(c);
}

// The attributes that an op of the family passes on to another one.
std::vector<AttrArg> AlignAttr(const GradientContext& c) {
  const absl::StatusOr<std::string> align = c.Attr<std::string>("align");
  if (!align.ok()) return {};
  return {{"align", *align}};
}

// "MatrixDiagV3" and "Part" make "MatrixDiagPartV3".
std::string Relative(const GradientContext& c, absl::string_view name) {
  const std::string& op = c.node()->op();
  const bool versioned = op.size() > 2 && op[op.size() - 2] == 'V';
  return absl::StrCat(name, versioned ? op.substr(op.size() - 2) : "");
}

Output Zero(const Scope& s, DType dtype) { return s.Add("Cast", {Const(s, 0)}, {{"DstT", dtype}}); }

absl::Status MatrixDiagGradient(GradientContext& c) {
  const Scope& s = c.scope();
  std::vector<OpInput> inputs = {c.dy()};
  if (c.node()->num_inputs() > 1) {
    inputs.push_back(c.input(1));
    inputs.push_back(Zero(s, c.input(0).dtype()));
  }
  c.set_dx(0, Output(s.Add(Relative(c, "MatrixDiagPart"), std::move(inputs), AlignAttr(c))));
  return absl::OkStatus();
}

absl::Status MatrixDiagPartGradient(GradientContext& c) {
  const Scope& s = c.scope();
  std::vector<OpInput> inputs = {ZerosLike(s, c.input(0)), c.dy()};
  if (c.node()->num_inputs() > 1) inputs.push_back(c.input(1));
  c.set_dx(0, Output(s.Add(Relative(c, "MatrixSetDiag"), std::move(inputs), AlignAttr(c))));
  return absl::OkStatus();
}

absl::Status MatrixSetDiagGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const bool band = c.node()->num_inputs() > 2;
  std::vector<OpInput> set = {c.dy(), ZerosLike(s, c.input(1))}, part = {c.dy()};
  if (band) {
    set.push_back(c.input(2));
    part.push_back(c.input(2));
    part.push_back(Zero(s, c.input(0).dtype()));
  }
  c.set_dx(0, Output(s.Add(Relative(c, "MatrixSetDiag"), std::move(set), AlignAttr(c))));
  c.set_dx(1, Output(s.Add(Relative(c, "MatrixDiagPart"), std::move(part), AlignAttr(c))));
  return absl::OkStatus();
}

constexpr const char* kAlign = "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'";

Op MatrixDiagOp(absl::string_view name, int version) {
  Op op(name);
  op.Input("diagonal: T");
  if (version > 1) op.Input("k: int32").Input("num_rows: int32").Input("num_cols: int32").Input("padding_value: T");
  op.Output("output: T").Attr("T: type");
  if (version > 2) op.Attr(kAlign);
  return op.Shape(MatrixDiagShape).Kernel<MatrixDiagKernel>(version).Gradient(MatrixDiagGradient);
}

Op MatrixDiagPartOp(absl::string_view name, int version) {
  Op op(name);
  op.Input("input: T");
  if (version > 1) op.Input("k: int32").Input("padding_value: T");
  op.Output("diagonal: T").Attr("T: type");
  if (version > 2) op.Attr(kAlign);
  return op.Shape(MatrixDiagPartShape).Kernel<MatrixDiagPartKernel>(version).Gradient(MatrixDiagPartGradient);
}

Op MatrixSetDiagOp(absl::string_view name, int version) {
  Op op(name);
  op.Input("input: T").Input("diagonal: T");
  if (version > 1) op.Input("k: int32");
  op.Output("output: T").Attr("T: type");
  if (version > 2) op.Attr(kAlign);
  return op.Shape(MatrixSetDiagShape).Kernel<MatrixSetDiagKernel>(version).Gradient(MatrixSetDiagGradient);
}

const OpRegistration kMatrixDiagOps[] = {
    MatrixDiagOp("MatrixDiag", 1),
    MatrixDiagOp("MatrixDiagV2", 2),
    MatrixDiagOp("MatrixDiagV3", 3),
    MatrixDiagPartOp("MatrixDiagPart", 1),
    MatrixDiagPartOp("MatrixDiagPartV2", 2),
    MatrixDiagPartOp("MatrixDiagPartV3", 3),
    MatrixSetDiagOp("MatrixSetDiag", 1),
    MatrixSetDiagOp("MatrixSetDiagV2", 2),
    MatrixSetDiagOp("MatrixSetDiagV3", 3),
    // The names of older graphs.
    MatrixDiagOp("BatchMatrixDiag", 1),
    MatrixDiagPartOp("BatchMatrixDiagPart", 1),
    MatrixSetDiagOp("BatchMatrixSetDiag", 1),
};

}  // namespace

Output MatrixDiag(const Scope& s, Output diagonal) { return s.Add("MatrixDiag", {diagonal}); }
Output MatrixDiagPart(const Scope& s, Output input) { return s.Add("MatrixDiagPart", {input}); }
Output MatrixSetDiag(const Scope& s, Output input, Output diagonal) {
  return s.Add("MatrixSetDiag", {input, diagonal});
}

}  // namespace thalweg
