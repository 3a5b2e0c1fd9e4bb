// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/later_attrs.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/message_differencer.h"
#include "thalweg/graph/attr.h"

namespace thalweg {
namespace {

// The attributes that TensorFlow 2.15.1 has and 1.15.5 does not, with the op types
// that both have.
constexpr struct {
  const char* attr;
  const char* ops;
} kLater[] = {
    {"Tcomplex", "IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D"},
    {"Tk", "TopKV2"},
    {"Treal", "IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D"},
    {"Tsegmentids",
     "SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtN "
     "SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSum "
     "SparseSegmentSumWithNumSegments"},
    {"allow_missing_files", "MergeV2Checkpoints"},
    {"allow_stateful", "DatasetToGraph"},
    {"allowed_devices", "VarHandleOp"},
    {"auto_shard_policy", "AutoShardDataset ExperimentalAutoShardDataset"},
    {"axis", "Dequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeV2"},
    {"blank_index", "CTCGreedyDecoder"},
    {"buffer_size_min", "PrefetchDataset"},
    {"cardinality_options", "DatasetCardinality"},
    {"debug_name", "VarHandleOp"},
    {"drop_remainder", "SlidingWindowDataset"},
    {"dtype", "Dequantize"},
    {"enable_large_batch_splitting", "BatchFunction"},
    {"ensure_minimum_range", "QuantizeV2"},
    {"explicit_paddings",
     "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput MaxPool "
     "MaxPoolGrad"},
    {"exponential_avg_factor", "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"},
    {"external_state_policy", "SerializeIterator"},
    {"index_type", "TopKV2"},
    {"is_files", "TensorSliceDataset"},
    {"log_warning", "ExperimentalIgnoreErrorsDataset IgnoreErrorsDataset"},
    {"logits_dimension", "BoostedTreesUpdateEnsembleV2"},
    {"low_priority_allowed_batch_sizes", "BatchFunction"},
    {"low_priority_batch_timeout_micros", "BatchFunction"},
    {"low_priority_max_batch_size", "BatchFunction"},
    {"low_priority_max_enqueued_batches", "BatchFunction"},
    {"metadata",
     "BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset DatasetToSingleElement "
     "FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset GeneratorDataset "
     "GroupByWindowDataset InterleaveDataset MapAndBatchDataset MapDataset PaddedBatchDataset "
     "PaddedBatchDatasetV2 ParallelInterleaveDataset ParallelInterleaveDatasetV2 ParallelMapDataset "
     "PrefetchDataset RandomDataset RangeDataset ReduceDataset RepeatDataset ScanDataset ShardDataset "
     "ShuffleAndRepeatDataset ShuffleDataset ShuffleDatasetV2 SkipDataset TFRecordDataset TakeDataset "
     "TakeWhileDataset TensorDataset TensorSliceDataset TextLineDataset UnbatchDataset UniqueDataset "
     "WindowDataset ZipDataset"},
    {"mode", "SnapshotDataset"},
    {"multiply_linear_by_lr",
     "ApplyFtrl ApplyFtrlV2 ResourceApplyFtrl ResourceApplyFtrlV2 ResourceSparseApplyFtrl "
     "ResourceSparseApplyFtrlV2 SparseApplyFtrl SparseApplyFtrlV2"},
    {"narrow_range", "Dequantize QuantizeV2"},
    {"num_groups", "BoostedTreesUpdateEnsembleV2"},
    {"num_replicas", "AutoShardDataset"},
    {"offset", "InitializeTableFromTextFile InitializeTableFromTextFileV2"},
    {"padding_list", "QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize"},
    {"perturb_singular", "TridiagonalSolve"},
    {"ragged_keys", "ParseExampleDataset"},
    {"ragged_split_types", "ParseExampleDataset"},
    {"ragged_value_types", "ParseExampleDataset"},
    {"ram_budget", "ModelDataset"},
    {"replicate_on_split", "RangeDataset TensorSliceDataset"},
    {"reshuffle_each_iteration", "ShuffleAndRepeatDataset"},
    {"resize_if_index_out_of_bounds", "TensorListSetItem"},
    {"seed", "SnapshotDataset"},
    {"seed2", "SnapshotDataset"},
    {"shape_type", "ConcatOffset"},
    {"shuffle_on_read", "SnapshotDataset"},
    {"snapshot_name", "SnapshotDataset"},
    {"sparse_gradient",
     "SparseSegmentMean SparseSegmentMeanWithNumSegments SparseSegmentSqrtN "
     "SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumWithNumSegments"},
    {"stop_on_empty_dataset", "DirectedInterleaveDataset"},
    {"strip_device_assignment", "DatasetToGraph"},
    {"timeout_seconds", "CollectiveBcastRecv CollectiveBcastSend CollectiveGather CollectiveReduce"},
    {"use_default_device", "ScanDataset"},
    {"validate_shape", "AssignVariableOp"},
};

using Attrs = absl::flat_hash_map<std::string, absl::flat_hash_set<std::string>>;

// By op type.
const Attrs& LaterAttrs() {
  static const Attrs* const attrs = [] {
    auto* by_op = new Attrs;
    for (const auto& later : kLater) {
      for (const absl::string_view op : absl::StrSplit(later.ops, ' ')) (*by_op)[op].insert(later.attr);
    }
    return by_op;
  }();
  return *attrs;
}

}  // namespace

void RemoveLaterDefaults(const tensorflow::OpDef& op, tensorflow::NodeDef& node) {
  const auto it = LaterAttrs().find(op.name());
  if (it == LaterAttrs().end()) return;
  for (const std::string& name : it->second) {
    const tensorflow::OpDef::AttrDef* const attr = FindAttr(op, name);
    const auto set = node.attr().find(name);
    if (attr == nullptr || !attr->has_default_value() || set == node.attr().end()) continue;
    if (google::protobuf::util::MessageDifferencer::Equals(attr->default_value(), set->second)) {
      node.mutable_attr()->erase(name);
    }
  }
}

void AddLaterTypes(const tensorflow::OpDef& op, tensorflow::NodeDef& node) {
  if (op.name() != "_FusedConv2D" || HasAttr(node, "TArgs")) return;
  const absl::StatusOr<DType> type = GetAttr<DType>(node, "T");
  const absl::StatusOr<int64_t> count = GetAttr<int64_t>(node, "num_args");
  constexpr int64_t kMostArgs = 16;
  if (!type.ok() || !count.ok() || *count < 0 || *count > kMostArgs) return;
  SetAttr(node, "TArgs", std::vector<DType>(*count, *type));
}

}  // namespace thalweg
