// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kCsrIndices = Tensor::Of<int64_t>({3, 2}, {0, 1, 1, 0, 1, 2});
const Tensor kCsrValues = Tensor::Vector<float>({2, 3, 4});
const Tensor kDims = Tensor::Vector<int64_t>({2, 3});

// [[0, 2, 0], [3, 0, 4]]
Tensor Matrix() { return (*RunOp("SparseTensorToCSRSparseMatrix", {kCsrIndices, kCsrValues, kDims}))[0]; }

TEST(CsrTest, ThereAndBack) {
  ExpectTensor((*RunOp("CSRSparseMatrixToDense", {Matrix()}, {{"type", kFloat}}))[0],
               Tensor::Of<float>({2, 3}, {0, 2, 0, 3, 0, 4}));
  const auto sparse = RunOp("CSRSparseMatrixToSparseTensor", {Matrix()}, {{"type", kFloat}});
  ASSERT_TRUE(sparse.ok()) << sparse.status();
  ExpectTensor((*sparse)[0], kCsrIndices);
  ExpectTensor((*sparse)[1], kCsrValues);
  ExpectTensor((*sparse)[2], kDims);
  const auto parts = RunOp("CSRSparseMatrixComponents", {Matrix(), Tensor::Scalar<int32_t>(0)}, {{"type", kFloat}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  ExpectTensor((*parts)[0], Tensor::Vector<int32_t>({0, 1, 3}));
  ExpectTensor((*parts)[1], Tensor::Vector<int32_t>({1, 0, 2}));
}

TEST(CsrTest, Products) {
  const Tensor dense = Tensor::Of<float>({3, 1}, {1, 10, 100});
  ExpectTensor((*RunOp("SparseMatrixMatMul", {Matrix(), dense}))[0], Tensor::Of<float>({2, 1}, {20, 403}));
  const auto square =
      RunOp("SparseMatrixSparseMatMul", {Matrix(), Matrix()}, {{"type", kFloat}, {"transpose_b", true}});
  ASSERT_TRUE(square.ok()) << square.status();
  ExpectTensor((*RunOp("CSRSparseMatrixToDense", {(*square)[0]}, {{"type", kFloat}}))[0],
               Tensor::Of<float>({2, 2}, {4, 0, 0, 25}));
  const auto turned = RunOp("SparseMatrixTranspose", {Matrix()}, {{"type", kFloat}});
  ASSERT_TRUE(turned.ok()) << turned.status();
  ExpectTensor((*RunOp("CSRSparseMatrixToDense", {(*turned)[0]}, {{"type", kFloat}}))[0],
               Tensor::Of<float>({3, 2}, {0, 3, 2, 0, 0, 4}));
}

TEST(CsrTest, BadInputIsAnError) {
  EXPECT_FALSE(RunOp("SparseTensorToCSRSparseMatrix", {kCsrIndices, kCsrValues, Tensor::Vector<int64_t>({1, 3})}).ok());
  EXPECT_FALSE(RunOp("SparseTensorToCSRSparseMatrix",
                     {Tensor(kInt64, {0, 2}), Tensor(kFloat, {0}), Tensor::Vector<int64_t>({int64_t{1} << 40, 3})})
                   .ok());
  EXPECT_FALSE(RunOp("CSRSparseMatrixToDense", {Matrix()}, {{"type", kDouble}}).ok());
  EXPECT_FALSE(RunOp("CSRSparseMatrixToDense", {Tensor::Zeros(kVariant, Shape())}, {{"type", kFloat}}).ok());
  EXPECT_FALSE(RunOp("CSRSparseMatrixComponents", {Matrix(), Tensor::Scalar<int32_t>(1)}, {{"type", kFloat}}).ok());
  EXPECT_FALSE(RunOp("SparseMatrixMatMul", {Matrix(), Tensor(kFloat, {2, 2})}).ok());
  EXPECT_FALSE(RunOp("SparseMatrixSparseMatMul", {Matrix(), Matrix()}, {{"type", kFloat}}).ok());
}

}  // namespace
}  // namespace thalweg
