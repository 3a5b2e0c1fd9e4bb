// SPDX-License-Identifier: Apache-2.0
// The op types that TensorFlow 1's training programs send, by kind of program:
// each must run. And for every op, whether it has a gradient must be decided.
// Their values are compared with TensorFlow's by python/tests/compare_test.py, which
// leaves out no op.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

struct Program {
  const char* name;
  const char* ops;
};
constexpr Program kPrograms[] = {
    {"MLP with Adam and MonitoredTrainingSession", R"(
        VariableV2 Assign AssignAdd Identity IsVariableInitialized NoOp Const RandomUniform TruncatedNormal
        RandomStandardNormal Sub Mul Add AddV2 Fill Placeholder MatMul BiasAdd Relu Sigmoid Tanh Softmax
        SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits StopGradient Rank Shape Pack Slice ConcatV2
        Reshape Mean ArgMax Equal Cast ShapeN Size Tile Prod Maximum FloorDiv FloorMod GatherV2 RealDiv ExpandDims Neg
        LogSoftmax ZerosLike ReluGrad SigmoidGrad TanhGrad BiasAddGrad BroadcastGradientArgs Sum AddN Range
        DynamicStitch ApplyAdam LogicalNot StridedSlice Where Squeeze Switch RefSwitch Merge PlaceholderWithDefault
        StaticRegexFullMatch Select StringJoin ShardedFilename SaveV2 MergeV2Checkpoints RestoreV2 ScalarSummary
        HistogramSummary MergeSummary)"},
    {"synchronous replicas", R"(
        ResourceConditionalAccumulator ResourceAccumulatorApplyGradient ResourceAccumulatorTakeGradient
        ResourceAccumulatorSetGlobalStep ResourceAccumulatorNumAccumulated FIFOQueueV2 QueueDequeueV2
        QueueEnqueueManyV2 QueueCloseV2 ConditionalAccumulator AccumulatorApplyGradient AccumulatorTakeGradient
        AccumulatorSetGlobalStep AccumulatorNumAccumulated SparseConditionalAccumulator SparseAccumulatorApplyGradient
        SparseAccumulatorTakeGradient)"},
    {"CNN with towers, queues and moving averages", R"(
        RandomShuffle RandomShuffleQueueV2 QueueEnqueueV2 QueueEnqueueManyV2 QueueDequeueV2 QueueDequeueManyV2
        QueueDequeueUpToV2 QueueSizeV2 CountUpTo FixedLengthRecordReaderV2 TFRecordReaderV2 TextLineReaderV2
        WholeFileReaderV2 ParseExample ParseExampleV2 ParseSingleExample DecodeJpeg DecodePng ReaderReadV2 DecodeRaw
        Transpose Assert Greater GreaterEqual Less All RandomUniformInt ReverseV2 AdjustContrastv2 Square Sqrt Rsqrt
        ImageSummary Conv2D Conv2DBackpropInput Conv2DBackpropFilter MaxPool MaxPoolGrad AvgPool AvgPoolGrad LRN
        LRNGrad L2Loss LessEqual NotEqual InTopKV2 Floor Pow ApplyGradientDescent ApplyMomentum ApplyRMSProp
        ApplyAdagrad ApplyFtrl AssignSub Minimum FusedBatchNorm FusedBatchNormGrad FusedBatchNormV2
        FusedBatchNormGradV2 FusedBatchNormV3 FusedBatchNormGradV3)"},
    {"word2vec and embeddings", R"(
        LogUniformCandidateSampler ComputeAccidentalHits SparseToDense Log Log1p Exp Reciprocal OnesLike SelectV2 Pad
        StridedSliceGrad Unique UnsortedSegmentSum ScatterSub ScatterAdd SparseApplyAdagrad AssignSub TopKV2
        DynamicPartition ParallelDynamicStitch)"},
    {"LSTM, dynamic_rnn and while_loop", R"(
        Enter Exit NextIteration LoopCond Switch Merge RefEnter Less LogicalAnd Minimum ControlTrigger StackV2
        StackPushV2 StackPopV2 TensorArrayV3 TensorArrayReadV3 TensorArrayWriteV3 TensorArrayScatterV3
        TensorArrayGatherV3 TensorArraySizeV3 TensorArrayGradV3 Split ConcatOffset InvertPermutation Select Min Max
        IsFinite)"},
    {"resource variables and functions", R"(
        VarHandleOp VarIsInitializedOp AssignVariableOp ReadVariableOp AssignAddVariableOp AssignSubVariableOp
        VariableShape ResourceGather ResourceScatterAdd ResourceApplyAdadelta ResourceApplyAdagrad
        ResourceApplyAdagradDA ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAdaMax
        ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp ResourceApplyFtrl
        ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum ResourceApplyMomentum
        ResourceApplyPowerSign ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent ResourceApplyRMSProp
        If StatelessIf While StatelessWhile Case StatelessCase PartitionedCall StatefulPartitionedCall EmptyTensorList
        TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape TensorListFromTensor
        TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
        TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter
        TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack)"},
    {"tf.data", R"(
        TensorDataset TensorSliceDataset RangeDataset TFRecordDataset TextLineDataset FixedLengthRecordDatasetV2
        RepeatDataset TakeDataset SkipDataset ConcatenateDataset BatchDatasetV2 ParallelBatchDataset
        PaddedBatchDatasetV2 WindowDataset ZipDataset ShardDataset PrefetchDataset OptionsDataset ModelDataset
        ShuffleDatasetV3 CacheDataset MapDataset ParallelMapDatasetV2 FilterDataset FlatMapDataset InterleaveDataset
        ParallelInterleaveDatasetV4 IteratorV2 OneShotIterator MakeIterator IteratorGetNext IteratorToStringHandle
        IteratorFromStringHandleV2)"},
    {"tf.data of TensorFlow 1.15", R"(
        OptimizeDataset ModelDataset ShuffleDataset ShuffleDatasetV2 AnonymousRandomSeedGenerator
        ShuffleAndRepeatDataset ParallelMapDataset MapAndBatchDataset ParallelInterleaveDataset
        ParallelInterleaveDatasetV2 GroupByWindowDataset GroupByReducerDataset UnbatchDataset ScanDataset ReduceDataset
        TakeWhileDataset UniqueDataset SamplingDataset RandomDataset DirectedInterleaveDataset RebatchDataset
        AutoShardDataset ParseExampleDataset CSVDataset MatchingFilesDataset IgnoreErrorsDataset
        DenseToSparseBatchDataset SparseTensorSliceDataset GeneratorDataset SlidingWindowDataset CacheDatasetV2
        AnonymousMemoryCache PrivateThreadPoolDataset MaxIntraOpParallelismDataset ThreadPoolDataset ThreadPoolHandle
        SetStatsAggregatorDataset LatencyStatsDataset BytesProducedStatsDataset StatsAggregatorHandle
        StatsAggregatorSummary MultiDeviceIterator MultiDeviceIteratorInit MultiDeviceIteratorGetNextFromShard
        AnonymousIterator AnonymousIteratorV2 DeleteIterator IteratorGetNextAsOptional)"},
};
// Calls that are gone before anything runs: their bodies take their place.
constexpr const char* kCalls[] = {"If",   "StatelessIf",   "While",           "StatelessWhile",
                                  "Case", "StatelessCase", "PartitionedCall", "StatefulPartitionedCall"};

// Asking for a gradient of these is an error, as in TensorFlow, which has none
// for them either; nor for the updates of optimizers.
constexpr char kNoGradient[] = R"(
        AdjustContrastv2 AdjustHue AdjustSaturation BatchCholesky BatchCholeskyGrad BatchMatrixDeterminant
        BatchMatrixInverse BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve BatchSelfAdjointEig
        BatchSelfAdjointEigV2 BatchSvd CholeskyGrad CollectiveAllToAllV2 CollectiveAllToAllV3 CollectiveAssignGroupV2
        CollectiveBcastRecv CollectiveBcastRecvV2 CollectiveBcastSend CollectiveBcastSendV2 CollectiveGather
        CollectiveGatherV2 CollectiveInitializeCommunicator CollectiveReduce CollectiveReduceScatterV2
        CollectiveReduceV2 CollectiveReduceV3 Conv
        Conv2DBackpropFilterV2 Conv2DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropInput CropAndResizeGradBoxes
        CropAndResizeGradImage DeepCopy DeserializeManySparse DeserializeSparse Dilation2DBackpropFilter
        Dilation2DBackpropInput FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVarsGradient
        FakeQuantWithMinMaxVarsPerChannelGradient For FractionalAvgPoolGrad FractionalMaxPoolGrad FusedPadConv2D
        FusedResizeAndPadConv2D IgammaGradA LRNGrad Lu MatrixLogarithm MaxPoolGradGradV2 MaxPoolGradWithArgmax Mod
        ParallelConcat PartitionedCall RaggedFillEmptyRowsGrad RandomGammaGrad RemoteCall ResizeArea ResizeBicubicGrad
        ResizeBilinearGrad ResizeNearestNeighborGrad ResourceStridedSliceAssign ScaleAndTranslateGrad SelfAdjointEig
        SerializeManySparse SerializeSparse SoftsignGrad SparseFillEmptyRowsGrad SparseReduceMax SparseReduceMaxSparse
        SparseReduceSumSparse SparseReshape SparseSegmentMeanGrad SparseSegmentMeanGradV2 SparseSegmentSqrtNGrad
        SparseSegmentSqrtNGradV2 SparseSegmentSumGrad SparseSegmentSumGradV2 SparseSliceGrad SparseSplit
        StatefulPartitionedCall StridedSliceAssign SymbolicGradient TensorArrayPack TensorArrayUnpack TruncateMod)";
// TensorFlow's client makes the gradients of these; those who build graphs with
// this library get an error that names the op.
constexpr char kOnlyOfTheClient[] = R"(
        BandedTriangularSolve Case Eig ExtractImagePatches ExtractVolumePatches FractionalAvgPool FractionalMaxPool
        FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 If IsotonicRegression MatrixExponential
        MatrixSolveLs MatrixSquareRoot MaxPool3DGradGrad MaxPoolGradGrad MaxPoolGradV2 NthElement OptionalFromValue
        OptionalGetValue Qr QuantizeAndDequantizeV4Grad RGBToHSV RaggedFillEmptyRows RaggedGather
        RaggedTensorFromVariant RaggedTensorToSparse RaggedTensorToTensor RaggedTensorToVariant
        RaggedTensorToVariantGradient ResourceGatherNd
        SelfAdjointEigV2 SparseAdd SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows
        SparseReduceSum SparseReorder SparseSlice SparseSoftmax SparseSparseMaximum SparseSparseMinimum
        SparseTensorDenseAdd StatelessCase StatelessIf StatelessWhile Svd TensorArrayConcat TensorArrayConcatV2
        TensorArrayGather TensorArrayGatherV2 TensorArrayRead TensorArrayReadV2 TensorArrayScatter
        TensorArrayScatterV2 TensorArraySplit TensorArraySplitV2 TensorArrayWrite TensorArrayWriteV2 TensorListGather
        TensorListResize TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TridiagonalMatMul
        TridiagonalSolve While)";

std::vector<std::string> Words(const char* text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
}

TEST(ProgramOpsTest, AllRun) {
  std::vector<std::string> problems;
  for (const Program& program : kPrograms) {
    for (const std::string& name : Words(program.ops)) {
      const bool call = std::find(std::begin(kCalls), std::end(kCalls), name) != std::end(kCalls);
      if (OpRegistry::Global().Find(name) == nullptr) {
        problems.push_back(absl::StrCat(program.name, ": ", name, " is not registered"));
      } else if (!call && !KernelRegistry::Global().Has(name, "CPU")) {
        problems.push_back(absl::StrCat(program.name, ": ", name, " has no kernel"));
      }
    }
  }
  EXPECT_EQ(absl::StrJoin(problems, "\n"), "");
}

TEST(ProgramOpsTest, EveryGradientIsDecided) {
  std::vector<std::string> expected = Words(kNoGradient), undecided;
  for (std::string& name : Words(kOnlyOfTheClient)) expected.push_back(std::move(name));
  for (const OpSchema* op : OpRegistry::Global().All()) {
    const std::string& name = op->def.name();
    if (op->differentiability != Differentiability::kUnknown || absl::StrContains(name, "Apply")) continue;
    undecided.push_back(name);
  }
  std::sort(undecided.begin(), undecided.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(absl::StrJoin(undecided, "\n"), absl::StrJoin(expected, "\n"));
}

}  // namespace
}  // namespace thalweg
