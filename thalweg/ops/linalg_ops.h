// Linear algebra on the last two dimensions of tensors.
#pragma once

#include "thalweg/graph/scope.h"

namespace thalweg {

struct AdjointOptions {
  bool adjoint = false;  // use the conjugate transpose
};
// The lower triangular Cholesky factors of symmetric positive definite matrices.
Output Cholesky(const Scope& s, Output input);
Output MatrixInverse(const Scope& s, Output input, AdjointOptions options = {});
Output MatrixDeterminant(const Scope& s, Output input);
Output MatrixSolve(const Scope& s, Output matrix, Output rhs, AdjointOptions options = {});

}  // namespace thalweg
