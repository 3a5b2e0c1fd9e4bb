// SPDX-License-Identifier: Apache-2.0
// Constructors of linalg_ops.h whose ops have several outputs or options.
#include "thalweg/ops/linalg_ops.h"

namespace thalweg {
namespace {

// float for complex64, double for complex128.
DType RealOf(DType dtype) { return RemoveRef(dtype) == kComplex128 ? kDouble : kFloat; }
// complex64 for float, complex128 for double; complex types stay.
DType ComplexOf(DType dtype) {
  return RemoveRef(dtype) == kDouble || RemoveRef(dtype) == kComplex128 ? kComplex128 : kComplex64;
}

Output RealTransform(const Scope& s, const char* op, Output input, const IntsArg& fft_length) {
  return s.Add(op, {input, fft_length.AsTensor(s, "fft_length")}, {{"Tcomplex", ComplexOf(input.dtype())}});
}
Output InverseRealTransform(const Scope& s, const char* op, Output input, const IntsArg& fft_length) {
  return s.Add(op, {input, fft_length.AsTensor(s, "fft_length")}, {{"Treal", RealOf(input.dtype())}});
}

}  // namespace

LogMatrixDeterminantResult LogMatrixDeterminant(const Scope& s, Output input) {
  Node* const node = s.Add("LogMatrixDeterminant", {input});
  return {Output(node, 0), Output(node, 1)};
}
Output MatrixTriangularSolve(const Scope& s, Output matrix, Output rhs, const TriangularSolveOptions& options) {
  return s.Add("MatrixTriangularSolve", {matrix, rhs}, {{"lower", options.lower}, {"adjoint", options.adjoint}});
}
Output MatrixSolveLs(const Scope& s, Output matrix, Output rhs, const MatrixSolveLsOptions& options) {
  const Output l2 = ScalarArg(options.l2_regularizer).AsTensor(s, "l2_regularizer");
  return s.Add("MatrixSolveLs", {matrix, rhs, l2}, {{"fast", options.fast}});
}
LuResult Lu(const Scope& s, Output input) {
  Node* const node = s.Add("Lu", {input});
  return {Output(node, 0), Output(node, 1)};
}
QrResult Qr(const Scope& s, Output input, const QrOptions& options) {
  Node* const node = s.Add("Qr", {input}, {{"full_matrices", options.full_matrices}});
  return {Output(node, 0), Output(node, 1)};
}
SvdResult Svd(const Scope& s, Output input, const SvdOptions& options) {
  Node* const node =
      s.Add("Svd", {input}, {{"compute_uv", options.compute_uv}, {"full_matrices", options.full_matrices}});
  return {Output(node, 0), Output(node, 1), Output(node, 2)};
}
EigResult SelfAdjointEig(const Scope& s, Output input, const EigOptions& options) {
  Node* const node = s.Add("SelfAdjointEigV2", {input}, {{"compute_v", options.compute_v}});
  return {Output(node, 0), Output(node, 1)};
}
EigResult Eig(const Scope& s, Output input, const EigOptions& options) {
  Node* const node = s.Add("Eig", {input}, {{"compute_v", options.compute_v}, {"Tout", ComplexOf(input.dtype())}});
  return {Output(node, 0), Output(node, 1)};
}
Output MatrixExponential(const Scope& s, Output input) { return s.Add("MatrixExponential", {input}); }
Output MatrixLogarithm(const Scope& s, Output input) { return s.Add("MatrixLogarithm", {input}); }
Output MatrixSquareRoot(const Scope& s, Output input) { return s.Add("MatrixSquareRoot", {input}); }
Output TridiagonalSolve(const Scope& s, Output diagonals, Output rhs, const TridiagonalSolveOptions& options) {
  return s.Add("TridiagonalSolve", {diagonals, rhs}, {{"partial_pivoting", options.partial_pivoting}});
}
Output TridiagonalMatMul(const Scope& s, Output superdiag, Output maindiag, Output subdiag, Output rhs) {
  return s.Add("TridiagonalMatMul", {superdiag, maindiag, subdiag, rhs});
}

Output FFT(const Scope& s, Output input) { return s.Add("FFT", {input}); }
Output FFT2D(const Scope& s, Output input) { return s.Add("FFT2D", {input}); }
Output FFT3D(const Scope& s, Output input) { return s.Add("FFT3D", {input}); }
Output IFFT(const Scope& s, Output input) { return s.Add("IFFT", {input}); }
Output IFFT2D(const Scope& s, Output input) { return s.Add("IFFT2D", {input}); }
Output IFFT3D(const Scope& s, Output input) { return s.Add("IFFT3D", {input}); }
Output RFFT(const Scope& s, Output input, const IntsArg& length) { return RealTransform(s, "RFFT", input, length); }
Output RFFT2D(const Scope& s, Output input, const IntsArg& length) { return RealTransform(s, "RFFT2D", input, length); }
Output RFFT3D(const Scope& s, Output input, const IntsArg& length) { return RealTransform(s, "RFFT3D", input, length); }
Output IRFFT(const Scope& s, Output input, const IntsArg& length) {
  return InverseRealTransform(s, "IRFFT", input, length);
}
Output IRFFT2D(const Scope& s, Output input, const IntsArg& length) {
  return InverseRealTransform(s, "IRFFT2D", input, length);
}
Output IRFFT3D(const Scope& s, Output input, const IntsArg& length) {
  return InverseRealTransform(s, "IRFFT3D", input, length);
}

}  // namespace thalweg
