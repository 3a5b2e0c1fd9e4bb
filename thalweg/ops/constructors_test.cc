// SPDX-License-Identifier: Apache-2.0
// Constructors with constants as C++ numbers and braces, and with enums: each adds the node
// that it says.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/dataset_ops.h"
#include "thalweg/ops/image_ops.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/linalg_ops.h"
#include "thalweg/ops/lookup_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/ragged_ops.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/ops/sparse_ops.h"
#include "thalweg/ops/string_ops.h"

namespace thalweg {
namespace {

class ConstructorsTest : public testing::Test {
 protected:
  // "Op shape" of an output, or the error.
  std::string Show(Output o) {
    return s_.ok() ? absl::StrCat(o.node->op(), " ", o.shape().ToString()) : s_.status().ToString();
  }
  Graph graph_;
  const Scope s_ = graph_.root();
  const Output x_ = Placeholder(s_, kFloat, {2, 3});
  const Output n_ = Placeholder(s_, kInt32, {});
};

TEST_F(ConstructorsTest, ShapesAndAxesInBraces) {
  EXPECT_EQ(Show(Reshape(s_, x_, {3, -1})), "Reshape [3,2]");
  EXPECT_FALSE(Reshape(s_, x_, {})) << "6 elements are no scalar";
  EXPECT_FALSE(s_.ok());
}

TEST_F(ConstructorsTest, MoreBraces) {
  EXPECT_EQ(Show(Tile(s_, x_, {2, 1})), "Tile [4,3]");
  EXPECT_EQ(Show(Slice(s_, x_, {0, 1}, {-1, 2})), "Slice [2,2]");
  EXPECT_EQ(Show(Pad(s_, x_, {{1, 1}, {0, 2}})), "Pad [4,5]");
  EXPECT_EQ(Show(Pad(s_, x_, {{1, 1}, {0, 2}}, 7.f)), "PadV2 [4,5]");
  EXPECT_EQ(Show(MirrorPad(s_, x_, {{1, 1}, {0, 0}}, MirrorMode::kReflect)), "MirrorPad [4,3]");
  EXPECT_EQ(Show(Fill(s_, {2, 5}, 1.0f)), "Fill [2,5]");
  EXPECT_EQ(Show(Transpose(s_, x_, {1, 0})), "Transpose [3,2]");
  EXPECT_EQ(Show(ExpandDims(s_, x_, -1)), "ExpandDims [2,3,1]");
  EXPECT_EQ(Show(Concat(s_, {x_, x_}, 1)), "ConcatV2 [2,6]");
  EXPECT_EQ(Show(Split(s_, x_, {1, 2}, 1, 2)[1]), "SplitV [2,2]");
  EXPECT_EQ(Show(StridedSlice(s_, x_, {0, 0}, {2, 3}, {1, 2})), "StridedSlice [2,2]");
  EXPECT_EQ(Show(BroadcastTo(s_, x_, {4, 2, 3})), "BroadcastTo [4,2,3]");
  EXPECT_EQ(Show(Reverse(s_, x_, {0, 1})), "ReverseV2 [2,3]");
  EXPECT_EQ(Show(Roll(s_, x_, {1}, {0})), "Roll [2,3]");
  EXPECT_EQ(Show(OneHot(s_, Cast(s_, x_, kInt32), 4, 1.f, 0.f)), "OneHot [2,3,4]");
  EXPECT_EQ(Show(Range(s_, 0, 5, 1)), "Range [5]");
  EXPECT_EQ(Show(LinSpace(s_, 0.f, 1.f, 11)), "LinSpace [11]");
  EXPECT_EQ(Show(TopK(s_, x_, 2).values), "TopKV2 [2,2]");
  EXPECT_EQ(Show(ReduceSum(s_, x_, {0})), "Sum [3]");
  EXPECT_EQ(Show(ArgMax(s_, x_, 1)), "ArgMax [2]");
  EXPECT_EQ(Show(Cumsum(s_, x_, 0)), "Cumsum [2,3]");
  EXPECT_EQ(Show(RandomUniform(s_, {2, 4})), "RandomUniform [2,4]");
  EXPECT_EQ(Show(StatelessRandomNormal(s_, {3}, {1, 2})), "StatelessRandomNormal [3]");
}

TEST_F(ConstructorsTest, TensorsAndConstantsMix) {
  const Output sizes = Placeholder(s_, kInt64, {2});
  EXPECT_EQ(Show(Slice(s_, x_, {0, 0}, sizes)), "Slice [?,?]") << "the braces become int64";
  EXPECT_FALSE(Fill(s_, {2}, x_)) << "a value must be a scalar";
  EXPECT_FALSE(s_.ok());
}

TEST_F(ConstructorsTest, LargeNumbersAreInt64) {
  const IntsArg ints{1, int64_t{1} << 40};
  Graph graph;
  EXPECT_EQ(ints.AsTensor(graph.root(), "x").dtype(), kInt64);
  EXPECT_EQ(IntsArg({1, 2}).AsTensor(graph.root(), "x").dtype(), kInt32);
  EXPECT_EQ(IntArg(3).AsTensor(graph.root(), "x", kInt64).dtype(), kInt64);
}

TEST_F(ConstructorsTest, PaddingAndFormats) {
  const Output image = Placeholder(s_, kFloat, {1, 4, 4, 3}), filter = Placeholder(s_, kFloat, {3, 3, 3, 8});
  EXPECT_EQ(Show(Conv2D(s_, image, filter, {1, 1, 1, 1}, Padding::kSame)), "Conv2D [1,4,4,8]");
  EXPECT_EQ(Show(Conv2D(s_, image, filter, {1, 1, 1, 1}, Padding::kValid)), "Conv2D [1,2,2,8]");
  const Output conv =
      Conv2D(s_, image, filter, {1, 1, 1, 1}, Padding::kExplicit, {.explicit_paddings = {0, 0, 1, 1, 1, 1, 0, 0}});
  EXPECT_EQ(Show(conv), "Conv2D [1,4,4,8]");
  EXPECT_EQ(*GetAttr<std::string>(conv.node->def(), "data_format"), "NHWC");
  EXPECT_EQ(Show(MaxPool(s_, image, {1, 2, 2, 1}, {1, 2, 2, 1}, Padding::kValid)), "MaxPool [1,2,2,3]");
  EXPECT_EQ(Show(MaxPoolWithArgmax(s_, image, {1, 2, 2, 1}, {1, 2, 2, 1}, Padding::kValid).argmax),
            "MaxPoolWithArgmax [1,2,2,3]");
  const Output planes = Placeholder(s_, kFloat, {1, 3, 4, 4});
  EXPECT_EQ(Show(SpaceToDepth(s_, planes, 2, {.data_format = DataFormat::kChannelsFirst})), "SpaceToDepth [1,12,2,2]");
  EXPECT_EQ(Show(ResizeBilinear(s_, image, {8, 8})), "ResizeBilinear [1,8,8,3]");
}

TEST_F(ConstructorsTest, LinearAlgebraAndTransforms) {
  const Output m = Placeholder(s_, kDouble, {5, 4, 4});
  EXPECT_EQ(Show(Einsum(s_, "bij,bjk->bik", {m, m})), "Einsum [5,4,4]");
  EXPECT_EQ(Show(Svd(s_, m).s), "Svd [5,4]");
  EXPECT_EQ(Show(Qr(s_, m).r), "Qr [5,4,4]");
  EXPECT_EQ(Show(Lu(s_, m).p), "Lu [5,4]");
  EXPECT_EQ(Eig(s_, m).e.dtype(), kComplex128);
  EXPECT_EQ(Show(SelfAdjointEig(s_, m).e), "SelfAdjointEigV2 [5,4]");
  EXPECT_EQ(Show(LogMatrixDeterminant(s_, m).sign), "LogMatrixDeterminant [5]");
  EXPECT_EQ(Show(MatrixSolveLs(s_, m, m, {.l2_regularizer = 0.5})), "MatrixSolveLs [5,4,4]");
  const Output spectrum = RFFT(s_, m, {4});
  EXPECT_EQ(Show(spectrum), "RFFT [5,4,3]");
  EXPECT_EQ(spectrum.dtype(), kComplex128);
  EXPECT_EQ(Show(IRFFT(s_, spectrum, {4})), "IRFFT [5,4,4]");
  EXPECT_EQ(IRFFT(s_, spectrum, {4}).dtype(), kDouble);
}

TEST_F(ConstructorsTest, SparseAndRagged) {
  const SparseTensor a{Placeholder(s_, kInt64, {5, 2}), Placeholder(s_, kFloat, {5}),
                       Const(s_, {int64_t{4}, int64_t{2}})};
  EXPECT_EQ(Show(SparseTensorDenseMatMul(s_, a, x_)), "SparseTensorDenseMatMul [4,3]");
  EXPECT_EQ(Show(SparseToDense(s_, a, 0.f)), "SparseToDense [4,2]");
  EXPECT_EQ(SparseAdd(s_, a, a, 0.f).values.dtype(), kFloat);
  EXPECT_EQ(SparseSplit(s_, a, 1, 2)[1].values.index, 3);
  EXPECT_EQ(SparseReshape(s_, a, {8}).values, a.values);
  EXPECT_TRUE(SparseConcat(s_, {a, a}, 0).shape);
  EXPECT_TRUE(SparseReduceSum(s_, a, {0}));
  EXPECT_TRUE(SparseFillEmptyRows(s_, a, -1.f).empty_row_indicator);
  const RaggedTensor r{Placeholder(s_, kInt32, {7}), Placeholder(s_, kInt64, {4})};
  EXPECT_EQ(RaggedGather(s_, r, Const(s_, {0, 2})).values.dtype(), kInt32);
  EXPECT_TRUE(RaggedTensorToTensor(s_, r, {-1, -1}, 0));
  EXPECT_TRUE(RaggedBincount(s_, r, 10));
  EXPECT_TRUE(RaggedTensorToSparse(s_, r).shape);
  EXPECT_TRUE(Bincount(s_, r.values, 10));
  ASSERT_OK(s_.status());
}

TEST_F(ConstructorsTest, Datasets) {
  const Dataset d = Dataset::FromTensorSlices(s_, {x_, Const(s_, {1, 2})});
  EXPECT_EQ(d.output_shapes()[0].ToString(), "[3]");
  const DatasetIterator next =
      d.Shuffle(10, {.seed = 1, .seed2 = 2}).Repeat(2).Batch(2, {.drop_remainder = true}).Prefetch(1).MakeIterator();
  ASSERT_OK(s_.status());
  EXPECT_EQ(Show(next.components[0]), "IteratorGetNext [2,3]");
  EXPECT_EQ(next.components[1].dtype(), kInt32);
  EXPECT_EQ(next.initializer.node->op(), "MakeIterator");
  const Dataset lines = Dataset::FromTextLines(s_, Const(s_, {"a.txt"}), CompressionType::kGzip).Skip(1).Take(5);
  EXPECT_EQ(Dataset::Zip({lines, Dataset::FromRange(s_, 0, 10)}).output_types(), (std::vector{kString, kInt64}));
  EXPECT_EQ(d.Batch(3).Unbatch().output_shapes()[0].ToString(), "[3]");
  EXPECT_TRUE(d.Concatenate(d).Cache().Shard(2, 0).handle());
  ASSERT_OK(s_.status());
}

TEST_F(ConstructorsTest, Text) {
  const Output text = Placeholder(s_, kString, {2});
  EXPECT_EQ(Show(Substr(s_, text, 0, 3, StringUnit::kUtf8Char)), "Substr [2]");
  EXPECT_EQ(Show(StringLower(s_, text, StringEncoding::kUtf8)), "StringLower [2]");
  EXPECT_EQ(Show(StringFormat(s_, {text, x_}, "a {} b {}")), "StringFormat []");
  EXPECT_EQ(Show(UnicodeTranscode(s_, text, "UTF-8", "UTF-16-BE")), "UnicodeTranscode [2]");
  EXPECT_EQ(UnicodeDecode(s_, text, "UTF-8").char_values.dtype(), kInt32);
  EXPECT_TRUE(StringSplit(s_, text, ",").values);
  EXPECT_EQ(Show(DecodeCompressed(s_, text, CompressionType::kZlib)), "DecodeCompressed [2]");
  ASSERT_OK(s_.status());
}

TEST_F(ConstructorsTest, TemporalClassification) {
  const Output logits = Placeholder(s_, kFloat, {7, 2, 5}), lengths = Const(s_, {7, 6});
  const CtcLossResult r = CtcLoss(s_, logits, Placeholder(s_, kInt64, {3, 2}), Placeholder(s_, kInt32, {3}), lengths);
  EXPECT_EQ(Show(r.loss), "CTCLoss [2]");
  EXPECT_EQ(Show(CtcGreedyDecoder(s_, logits, lengths).log_probability), "CTCGreedyDecoder [2,1]");
  EXPECT_EQ(Show(CtcBeamSearchDecoder(s_, logits, lengths, 10).log_probability), "CTCBeamSearchDecoder [2,1]");
}

}  // namespace
}  // namespace thalweg
