// SPDX-License-Identifier: Apache-2.0
// Model building continues after an error: the scope keeps its first error, and results are null handles
// in lists of the expected length. Passing a null handle is an error, too.
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/collective_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/image_ops.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/linalg_ops.h"
#include "thalweg/ops/lookup_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/ragged_ops.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/ops/roster_ops.h"
#include "thalweg/ops/sampling_ops.h"
#include "thalweg/ops/sparse_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/ops/training_ops.h"
#include "thalweg/train/layers/convolution_layers.h"
#include "thalweg/train/layers/layers.h"
#include "thalweg/train/layers/losses.h"
#include "thalweg/train/layers/normalization_layers.h"
#include "thalweg/train/layers/partitioned_variable.h"
#include "thalweg/train/layers/recurrent_layers.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/optimizers/clipping.h"
#include "thalweg/train/optimizers/learning_rate.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/session/summary.h"

namespace thalweg {
namespace {

template <typename T, typename... Ts>
constexpr bool kIsAny = (std::is_same_v<T, Ts> || ...);

// Whether it hands on tensors.
template <typename T>
constexpr bool kCarriesTensors = kIsAny<T, Output, std::vector<Output>, Var, std::vector<Var>, PartitionedVariable,
                                        IntsArg, IntArg, IntPairsArg, ScalarArg, SparseTensor, RaggedTensor>;

// An argument with which a call would do, but that all tensors in it are null.
template <typename T>
T Argument() {
  if constexpr (kIsAny<T, std::vector<Output>, std::vector<Var>, std::vector<Gradient>, std::vector<PartialShape>>) {
    return T(1);
  } else if constexpr (std::is_same_v<T, std::vector<DType>>) {
    return {kFloat};
  } else if constexpr (std::is_same_v<T, DType>) {
    return kFloat;
  } else if constexpr (kIsAny<T, std::vector<int64_t>, std::vector<double>>) {
    return {1};
  } else if constexpr (std::is_arithmetic_v<T> || kIsAny<T, Hyperparameter, layers::Extent>) {
    return T(1);
  } else if constexpr (kIsAny<T, absl::string_view, std::string>) {
    return "x";
  } else if constexpr (kIsAny<T, Shape, PartialShape>) {
    return Shape({1});
  } else if constexpr (std::is_same_v<T, layers::RnnCellPtr>) {
    return layers::LstmCell(1);
  } else if constexpr (kIsAny<T, IntsArg, IntArg, IntPairsArg, ScalarArg>) {
    return T(Output());
  } else if constexpr (std::is_same_v<T, Axes>) {
    return Axes::All();
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return Tensor::Scalar<float>(1);
  } else {
    return T();
  }
}

void ExpectNothing(const Output& o) { EXPECT_FALSE(o); }
void ExpectNothing(const Var& v) {
  EXPECT_FALSE(v);
  EXPECT_EQ(v.name(), "");
  EXPECT_EQ(v.dtype(), kInvalid);
  EXPECT_FALSE(v.shape().has_rank());
}
void ExpectNothing(const std::vector<Output>& list) {
  ASSERT_EQ(list.size(), 1u) << "one for each that was asked for";
  ExpectNothing(list[0]);
}
void ExpectNothing(const layers::RnnResult& r) {
  EXPECT_FALSE(r.outputs);
  ASSERT_EQ(r.state.size(), 2u) << "of an LSTM";
  EXPECT_FALSE(r.state[1]);
}
template <typename T>
void ExpectNothing(const T&) {}

// Calls a function of the API in a scope that has failed, and with null handles
// in one that has not.
template <typename R, typename... Args>
void TryOne(R (*function)(const Scope&, Args...)) {
  Graph failed;
  failed.root().Fail(Aborted("the first error"));
  ExpectNothing(function(failed.root(), Argument<std::decay_t<Args>>()...));
  EXPECT_THAT(failed.build_status(), Fails(absl::StatusCode::kAborted, "the first error"));
  EXPECT_EQ(failed.num_nodes(), 0);

  Graph graph;
  const R result = function(graph.root(), Argument<std::decay_t<Args>>()...);
  if constexpr ((kCarriesTensors<std::decay_t<Args>> || ...)) {
    EXPECT_THAT(graph.build_status(), Fails(absl::StatusCode::kInvalidArgument, ""));
    ExpectNothing(result);
  }
}
template <typename... Functions>
void Try(Functions... functions) {
  (TryOne(functions), ...);
}

TEST(FailedScope, ArrayOps) {
  Try(static_cast<Output (*)(const Scope&, const Tensor&)>(Const),
      static_cast<Output (*)(const Scope&, const std::string&)>(Const),
      static_cast<Output (*)(const Scope&, DType, const PartialShape&)>(Placeholder),
      static_cast<Output (*)(const Scope&, DType, std::initializer_list<int64_t>)>(Placeholder), PlaceholderWithDefault,
      Identity, IdentityN, StopGradient, PreventGradient, Snapshot, EnsureShape, NoOp, ShapeOf, ShapeN, Size, Rank,
      Reshape, ExpandDims, Squeeze, Fill, ZerosLike, OnesLike, Pack, Unpack, Concat, Slice, StridedSlice,
      static_cast<std::vector<Output> (*)(const Scope&, Output, int, int)>(Split),
      static_cast<std::vector<Output> (*)(const Scope&, Output, const IntsArg&, const IntArg&, int)>(Split), Tile,
      Transpose, ConjugateTranspose, InvertPermutation, Gather, UnsortedSegmentSum, UnsortedSegmentProd,
      UnsortedSegmentMax, UnsortedSegmentMin, Range, LinSpace, DynamicStitch, DynamicPartition,
      static_cast<Output (*)(const Scope&, Output, const IntPairsArg&)>(Pad),
      static_cast<Output (*)(const Scope&, Output, const IntPairsArg&, const ScalarArg&)>(Pad), MirrorPad, Reverse,
      Roll, ReverseSequence, BroadcastTo, OneHot, Where, Unique, UniqueWithCounts, GatherNd, ScatterNd,
      TensorScatterUpdate, TensorScatterAdd, SegmentSum, SegmentMean, SegmentProd, SegmentMax, SegmentMin,
      SparseSegmentSum, SparseSegmentMean, SparseSegmentSqrtN, Diag, DiagPart, MatrixDiag, MatrixDiagPart,
      MatrixSetDiag, MatrixBandPart, SpaceToDepth, DepthToSpace, SpaceToBatchND, BatchToSpaceND, Bitcast, CheckNumerics,
      Print, Assert);
}

TEST(FailedScope, CollectiveOps) {
  Try(CollectiveReduce, CollectiveGather, CollectiveReduceScatter, CollectiveAllToAll, CollectiveBarrier, CollectiveEnd,
      CollectiveBcastSend, CollectiveBcastRecv);
}

TEST(FailedScope, DataFlowOps) {
  Try(FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue, QueueEnqueue, QueueEnqueueMany, QueueDequeue,
      QueueDequeueMany, QueueDequeueUpTo, QueueClose, QueueIsClosed, QueueSize, ConditionalAccumulator,
      AccumulatorApplyGradient, AccumulatorTakeGradient, AccumulatorSetGlobalStep, AccumulatorNumAccumulated,
      SparseConditionalAccumulator, SparseAccumulatorApplyGradient, SparseAccumulatorTakeGradient, AccumulatorLeave,
      AccumulatorJoin, AccumulatorLedger, AccumulatorRoundOf, AccumulatorAwaitRound, AccumulatorTakeRound,
      SparseAccumulatorTakeRound, AccumulatorReset, RosterGeneration, RosterWake, RosterOf, RosterJoin, RosterLeave,
      RosterExpel, RosterTakeBack, RosterMembers, RosterAwaitStep, RosterRelease, RosterCloseSteps, RosterAdvance,
      RosterAwaitTurn, RosterLead, RosterAwaitEmpty, AssembleGroup, StackOf, StackPush, StackPop, StackClose,
      TensorArrayOf, TensorArrayWrite, TensorArrayRead, TensorArrayGather, TensorArrayScatter, TensorArrayConcat,
      TensorArraySplit, TensorArraySize, TensorArrayClose, WholeFileReader, TextLineReader, FixedLengthRecordReader,
      TFRecordReader, ReaderRead, ReaderReadUpTo, ReaderNumRecordsProduced, ReaderNumWorkUnitsCompleted, ReaderReset,
      ReadFile, WriteFile, MatchingFiles);
}

TEST(FailedScope, ImageOps) {
  Try(DecodeJpeg, DecodePng, DecodeImage, DecodeGif, DecodeBmp, EncodeJpeg, EncodePng, ExtractJpegShape, ResizeBilinear,
      ResizeNearestNeighbor, ResizeBicubic, ResizeArea, CropAndResize, AdjustContrast, AdjustHue, AdjustSaturation,
      RgbToHsv, HsvToRgb, DrawBoundingBoxes, NonMaxSuppression);
}

TEST(FailedScope, IoOps) {
  Try(Save, Restore, MergeCheckpoints, ShardedFilename, ShardedFilespec, ScalarSummary, HistogramSummary, TensorSummary,
      ImageSummary, AudioSummary, MergeSummary, DecodeCsv, DecodeRaw, DecodePaddedRaw, DecodeCompressed, ParseTensor,
      SerializeTensor);
}

TEST(FailedScope, LinalgOps) {
  Try(Cholesky, MatrixInverse, MatrixDeterminant, LogMatrixDeterminant, MatrixSolve, MatrixTriangularSolve,
      MatrixSolveLs, Lu, Qr, Svd, SelfAdjointEig, Eig, MatrixExponential, MatrixLogarithm, MatrixSquareRoot,
      TridiagonalSolve, TridiagonalMatMul, FFT, FFT2D, FFT3D, IFFT, IFFT2D, IFFT3D, RFFT, RFFT2D, RFFT3D, IRFFT,
      IRFFT2D, IRFFT3D);
}

TEST(FailedScope, SparseAndRaggedOps) {
  Try(SparseToDense, SparseReorder, SparseReshape, SparseSlice, SparseSplit, SparseFillEmptyRows, SparseAdd,
      SparseSparseMaximum, SparseSparseMinimum, SparseTensorDenseAdd, SparseDenseCwiseAdd, SparseDenseCwiseMul,
      SparseDenseCwiseDiv, SparseTensorDenseMatMul, SparseSoftmax, SparseReduceSum, SparseReduceMax, RaggedRange,
      RaggedGather, RaggedTensorToSparse, RaggedTensorToTensor, RaggedBincount);
}

TEST(FailedScope, LookupOps) {
  Try(HashTable, MutableHashTable, InitializeTable, InitializeTableFromTextFile, LookupTableFind, LookupTableInsert,
      LookupTableRemove, LookupTableSize, LookupTableExport, LookupTableImport);
}

TEST(FailedScope, MathOps) {
  Try(Abs, Neg, Reciprocal, Square, Sqrt, Rsqrt, Exp, Expm1, Log, Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh,
      Tanh, Asinh, Acosh, Atanh, Sigmoid, Erf, Erfc, Erfinv, Ndtri, Lgamma, Digamma, Sign, Floor, Ceil, Round, Rint,
      IsNan, IsInf, IsFinite, LogicalNot, Invert, PopulationCount, Complex, Real, Imag, Conj, ComplexAbs, Angle, Add,
      Sub, Mul, MulNoNan, Div, RealDiv, FloorDiv, TruncateDiv, DivNoNan, FloorMod, Mod, TruncateMod, Pow, Maximum,
      Minimum, SquaredDifference, Atan2, Xdivy, Xlogy, Xlog1py, NextAfter, BitwiseAnd, BitwiseOr, BitwiseXor, LeftShift,
      RightShift, Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual, ApproximateEqual, LogicalAnd, LogicalOr,
      AddN, AccumulateN, Select, static_cast<Output (*)(const Scope&, Output, Output, Output)>(ClipByValue), Cast,
      ReduceSum, ReduceMean, ReduceProd, ReduceMax, ReduceMin, ReduceAll, ReduceAny, EuclideanNorm, ArgMax, ArgMin,
      Cumsum, Cumprod, BesselI0, BesselI1, BesselI0e, BesselI1e, Igamma, Igammac, Betainc, Zeta, Polygamma,
      HistogramFixedWidth, LowerBound, UpperBound, Bincount, Einsum, MatMul, Cross, BatchMatMul);
}

TEST(FailedScope, NnOps) {
  Try(Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter, Conv3D, DepthwiseConv2dNative, MaxPool, AvgPool, MaxPool3D,
      AvgPool3D, Lrn, FusedBatchNorm, BiasAdd, BiasAddGrad, Relu, Relu6, LeakyRelu, Elu, Selu, Softplus, Softsign,
      Softmax, LogSoftmax, SoftmaxCrossEntropyWithLogits, SparseSoftmaxCrossEntropyWithLogits, L2Loss, InTopK, TopK,
      NthElement, Dilation2D, MaxPoolWithArgmax, CtcLoss, CtcGreedyDecoder, CtcBeamSearchDecoder);
}

TEST(FailedScope, RandomOps) {
  Try(RandomUniform, RandomUniformInt, RandomStandardNormal, TruncatedNormal, RandomShuffle, Multinomial,
      StatelessRandomUniform, StatelessRandomUniformInt, StatelessRandomUniformFullInt, StatelessRandomNormal,
      StatelessTruncatedNormal);
}

TEST(FailedScope, SamplingOps) { Try(LogUniformCandidateSampler, UniformCandidateSampler, ComputeAccidentalHits); }

TEST(FailedScope, StateOps) {
  Try(RefVariable, TemporaryVariable, DestroyTemporaryVariable,
      static_cast<Output (*)(const Scope&, Output)>(IsVariableInitialized),
      static_cast<Output (*)(const Scope&, Output, int64_t)>(CountUpTo),
      static_cast<Output (*)(const Scope&, Output, Output, const AssignOptions&)>(Assign),
      static_cast<Output (*)(const Scope&, Output, Output, const UpdateOptions&)>(AssignAdd),
      static_cast<Output (*)(const Scope&, Output, Output, const UpdateOptions&)>(AssignSub),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const AssignOptions&)>(ScatterUpdate),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const UpdateOptions&)>(ScatterAdd),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const UpdateOptions&)>(ScatterSub),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const UpdateOptions&)>(ScatterMul),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const UpdateOptions&)>(ScatterDiv),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const UpdateOptions&)>(ScatterMin),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const UpdateOptions&)>(ScatterMax), VarHandle,
      ReadVariable, AssignVariable, AssignAddVariable, AssignSubVariable, VariableShape, DestroyResource,
      ResourceGather);
}

TEST(FailedScope, StringOps) {
  Try(static_cast<Output (*)(const Scope&, Output, Output)>(RegexFullMatch),
      static_cast<Output (*)(const Scope&, Output, absl::string_view)>(RegexFullMatch),
      static_cast<Output (*)(const Scope&, Output, Output, Output, const RegexReplaceOptions&)>(RegexReplace),
      static_cast<Output (*)(const Scope&, Output, absl::string_view, absl::string_view, const RegexReplaceOptions&)>(
          RegexReplace),
      StringToHashBucketFast, StringToHashBucketStrong, StringSplit, Substr, StringLength, StringStrip, StringLower,
      StringUpper, ReduceJoin, UnsortedSegmentJoin, EncodeBase64, DecodeBase64, StringJoin, AsString, StringToNumber,
      StringFormat, EditDistance, UnicodeTranscode, UnicodeDecode, UnicodeEncode);
}

TEST(FailedScope, TrainingOps) {
  Try(ApplyGradientDescent, ApplyMomentum, SparseApplyMomentum, ApplyKerasMomentum, SparseApplyKerasMomentum, ApplyAdam,
      ApplyAdaMax, ApplyAdamWithAmsgrad, ApplyAdagrad, SparseApplyAdagrad, ApplyAdagradV2, SparseApplyAdagradV2,
      ApplyAdagradDA, SparseApplyAdagradDA, ApplyAdadelta, SparseApplyAdadelta, ApplyRMSProp, SparseApplyRMSProp,
      ApplyCenteredRMSProp, SparseApplyCenteredRMSProp, ApplyFtrl, SparseApplyFtrl, ApplyFtrlV2, SparseApplyFtrlV2,
      ApplyProximalGradientDescent, SparseApplyProximalGradientDescent, ApplyProximalAdagrad,
      SparseApplyProximalAdagrad, ApplyAddSign, ApplyPowerSign);
}

TEST(FailedScope, Layers) { Try(layers::Dense, layers::Flatten, layers::Embedding, layers::Dropout); }

TEST(FailedScope, ConvolutionLayers) { Try(layers::Conv2D, layers::MaxPooling2D, layers::AveragePooling2D); }

TEST(FailedScope, NormalizationLayers) { Try(layers::BatchNorm); }

TEST(FailedScope, RecurrentLayers) { Try(layers::Rnn, layers::LstmLayer, layers::LstmLayers); }

TEST(FailedScope, States) {
  Graph graph;
  const Scope s = graph.root();
  const auto cell = layers::MultiCell({layers::GruCell(3), layers::LstmCell(2)});
  EXPECT_EQ(layers::ZeroState(s, *cell, Output()).size(), 3u);
  EXPECT_THAT(s.status(), Fails(absl::StatusCode::kInvalidArgument, "missing"));
  EXPECT_EQ(layers::ZeroState(s, *cell, Output()).size(), 3u);
  EXPECT_EQ(layers::Rnn(s, cell, Output()).state.size(), 3u);
  EXPECT_EQ(layers::LstmLayers(s, Output(), {2, 2}).state.size(), 4u);
}

TEST(FailedScope, Losses) {
  Try(SparseSoftmaxCrossEntropy, SoftmaxCrossEntropy, SigmoidCrossEntropy, SquaredError, AbsoluteError, HuberLoss,
      HingeLoss, WeightedMean,
      static_cast<Output (*)(const Scope&, Output, Output, Output, Output, const SampledLossOptions&)>(NceLoss),
      static_cast<Output (*)(const Scope&, const PartitionedVariable&, const PartitionedVariable&, Output, Output,
                             const SampledLossOptions&)>(NceLoss),
      static_cast<Output (*)(const Scope&, Output, Output, Output, Output, const SampledLossOptions&)>(
          SampledSoftmaxLoss),
      static_cast<Output (*)(const Scope&, const PartitionedVariable&, const PartitionedVariable&, Output, Output,
                             const SampledLossOptions&)>(SampledSoftmaxLoss),
      Accuracy);
}

TEST(FailedScope, Clipping) {
  Try(static_cast<Output (*)(const Scope&, Output, Hyperparameter, Hyperparameter)>(ClipByValue),
      static_cast<Gradient (*)(const Scope&, const Gradient&, Hyperparameter, Hyperparameter)>(ClipByValue),
      static_cast<Output (*)(const Scope&, Output, Hyperparameter)>(ClipByNorm),
      static_cast<Gradient (*)(const Scope&, const Gradient&, Hyperparameter)>(ClipByNorm), GlobalNorm,
      ClipByGlobalNorm);
}

TEST(FailedScope, LearningRate) {
  Try(
      ExponentialDecay, NaturalExpDecay, InverseTimeDecay, PiecewiseConstant, PolynomialDecay, CosineDecay,
      CosineDecayRestarts, +[](const Scope& s, Hyperparameter rate, Output step) {
        return LinearScaling(s, rate, step, {.scale = 2, .warmup_steps = 5});
      });
}

TEST(FailedScope, Summary) { Try(summary::Scalar, summary::Histogram, summary::Image, summary::MergeAll); }

TEST(FailedScope, Variable) {
  Try(static_cast<Var (*)(const Scope&, absl::string_view, const Shape&, const VarOptions&)>(MakeVariable),
      static_cast<Var (*)(const Scope&, absl::string_view, Output, bool)>(MakeVariable),
      static_cast<Output (*)(const Scope&, const Var&, Output, const AssignOptions&)>(Assign),
      static_cast<Output (*)(const Scope&, const Var&, Output, const UpdateOptions&)>(AssignAdd),
      static_cast<Output (*)(const Scope&, const Var&, Output, const UpdateOptions&)>(AssignSub),
      static_cast<Output (*)(const Scope&, const Var&, Output, Output, const AssignOptions&)>(ScatterUpdate),
      static_cast<Output (*)(const Scope&, const Var&, Output, Output, const UpdateOptions&)>(ScatterAdd),
      static_cast<Output (*)(const Scope&, const Var&, Output, Output, const UpdateOptions&)>(ScatterSub),
      static_cast<Output (*)(const Scope&, const Var&, Output, Output, const UpdateOptions&)>(ScatterMul),
      static_cast<Output (*)(const Scope&, const Var&, Output, Output, const UpdateOptions&)>(ScatterDiv),
      static_cast<Output (*)(const Scope&, const Var&, Output, Output, const UpdateOptions&)>(ScatterMin),
      static_cast<Output (*)(const Scope&, const Var&, Output, Output, const UpdateOptions&)>(ScatterMax),
      static_cast<Output (*)(const Scope&, const Var&, int64_t)>(CountUpTo),
      static_cast<Output (*)(const Scope&, const Var&)>(IsVariableInitialized), InitializeVariables,
      GetOrCreateGlobalStep);
}

TEST(FailedScope, PartitionedVariable) {
  Try(MakePartitionedVariable,
      static_cast<Output (*)(const Scope&, const PartitionedVariable&, Output)>(EmbeddingLookup),
      static_cast<Output (*)(const Scope&, const std::vector<Var>&, Output, ShardStrategy)>(EmbeddingLookup));
}

TEST(FailedScope, Optimizer) { Try(SumRepeatedRows); }

}  // namespace
}  // namespace thalweg
