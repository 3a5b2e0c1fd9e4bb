// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/proto_file.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/proto/graph.pb.h"

ABSL_FLAG(std::string, op, "", "print only this op type");
ABSL_FLAG(std::string, binary, "", "write a serialized tensorflow.OpList to this file instead of printing text");
ABSL_FLAG(
    std::string, missing, "",
    "a file with an op type at the beginning of each line: list those that Thalweg does not have, with the reason");

namespace thalweg::cli {
namespace {

absl::StatusOr<tensorflow::OpList> RegisteredOps(const std::string& name) {
  tensorflow::OpList list;
  if (name.empty()) {
    for (const OpSchema* schema : OpRegistry::Global().All()) *list.add_op() = schema->def;
    return list;
  }
  const OpSchema* schema = OpRegistry::Global().Find(name);
  if (schema == nullptr) return NotFound("no op is called '", name, "'");
  *list.add_op() = schema->def;
  return list;
}

// Reasons why an op type of TensorFlow is missing, by prefix and substring of its
// name. The first match counts. A name without a match is not implemented yet.
struct Reason {
  absl::string_view prefix;
  absl::string_view part;
  absl::string_view text;
};
constexpr Reason kReasons[] = {
    {"_Mkl", "", "TensorFlow's rewriting of graphs for oneDNN makes it inside of a task"},
    {"__Mkl", "", "TensorFlow's rewriting of graphs for oneDNN makes it inside of a task"},
    {"_Fused", "", "TensorFlow 2's optimizer makes it with oneDNN; set TF_ENABLE_ONEDNN_OPTS=0 in such a task"},
    {"_Xla", "", "XLA"},
    {"Xla", "", "XLA"},
    {"AssignVariableXla", "", "XLA"},
    {"ReadVariableXla", "", "XLA"},
    {"", "TPU", "TPU"},
    {"Tpu", "", "TPU"},
    {"Infeed", "", "TPU"},
    {"Outfeed", "", "TPU"},
    {"Prelinearize", "", "TPU"},
    {"WorkerHeartbeat", "", "TPU"},
    {"CrossReplicaSum", "", "TPU"},
    {"CollectivePermute", "", "TPU"},
    {"AllToAll", "", "TPU"},
    {"MakeUnique", "", "TPU"},
    {"TopKUnique", "", "TPU"},
    {"TopKWithUnique", "", "TPU"},
    {"", "DedupData", "TPU"},
    {"DTensor", "", "DTensor, which TensorFlow lowers to other ops before a graph runs"},
    {"Relayout", "", "DTensor, which TensorFlow lowers to other ops before a graph runs"},
    {"CopyToMesh", "", "DTensor, which TensorFlow lowers to other ops before a graph runs"},
    {"ShardedVariable", "", "DTensor, which TensorFlow lowers to other ops before a graph runs"},
    {"Risc", "", "an experiment of TensorFlow without kernels"},
    {"", "BigQuery", "a service outside the cluster"},
    {"Gcs", "", "a service outside the cluster"},
    {"", "RemoteFusedGraph", "it runs on a separate processor"},
    {"Cudnn", "", "TensorFlow has it only for GPUs"},
    {"", "Nccl", "TensorFlow has it only for GPUs"},
    {"MaxPoolGradGradWithArgmax", "", "TensorFlow has it only for GPUs"},
    {"GenerateBoundingBoxProposals", "", "TensorFlow has it only for GPUs"},
    {"BatchFFT", "", "TensorFlow has no kernel for it; FFT takes batches"},
    {"BatchIFFT", "", "TensorFlow has no kernel for it; IFFT takes batches"},
    {"QuantizedConv2D", "", "TensorFlow has it only with oneDNN"},
    {"QuantizedDepthwiseConv2D", "", "TensorFlow has it only with oneDNN"},
    {"QuantizedMatMulWith", "", "TensorFlow has it only with oneDNN"},
    {"QuantizedReluX", "", "TensorFlow has no kernel for it; use QuantizedRelu6"},
    {"SparseMatrixAdd", "", "TensorFlow has it only for GPUs"},
    {"SparseMatrixMul", "", "TensorFlow has it only for GPUs"},
    {"SparseMatrixZeros", "", "TensorFlow has it only for GPUs"},
    {"SparseMatrixSoftmax", "", "TensorFlow has it only for GPUs"},
    {"Segment", "V2", "XLA"},
    {"", "FFTND", "TensorFlow has it only with XLA"},
    {"KthOrderStatistic", "", "TPU"},
    {"TfLite", "", "it embeds another runtime"},
    {"MlirPassthrough", "", "TensorFlow's compiler removes it before a graph runs"},
    {"_ScopedAllocator", "", "TensorFlow's optimizer makes it inside of a task, or if a program asks for it"},
    {"_", "", "only TensorFlow's own runtime adds it to graphs"},
    {"CreateSummaryDb", "", "only eager execution of TensorFlow 1.15 makes it; use an event file"},
    {"AudioMicrofrontend", "", "not done; an experiment of TensorFlow Lite"},
    {"DataService", "", "the data service"},
    {"RegisterDataset", "", "the data service"},
    {"CompressElement", "", "the data service"},
    {"UncompressElement", "", "the data service"},
    {"SnapshotDatasetReader", "", "TensorFlow's readers of snapshots make it inside of a task"},
    {"SnapshotNestedDatasetReader", "", "TensorFlow's readers of snapshots make it inside of a task"},
    {"SnapshotChunkDataset", "", "the data service"},
    {"DatasetToGraph", "", "not done; a dataset does not become a graph again here"},
    {"DatasetFromGraph", "", "not done; a dataset does not become a graph again here"},
    {"FilterByLastComponent", "", "TensorFlow's optimizer of pipelines makes it inside of a task"},
    {"ExperimentalMapDataset", "", "TensorFlow has no kernel for it; use MapDataset"},
    {"StatsAggregator", "", "only eager execution makes it; graphs use StatsAggregatorSummary"},
    {"", "Dataset", "not done; an input pipeline"},
    {"", "Iterator", "not done; an input pipeline"},
    {"Rpc", "", "not done; it calls servers outside the cluster"},
    {"TryRpc", "", "not done; it calls servers outside the cluster"},
    {"DeleteRpcFuture", "", "it calls servers outside the cluster"},
    {"DistributedSave", "", "the data service"},
    {"DummyIterationCounter", "", "the data service"},
    {"FileSystemSetConfiguration", "", "a service outside the cluster"},
    {"CustomAggregator", "", "TensorFlow 2's quantizer makes it for calibration"},
    {"DumpTensor", "", "TensorFlow 2's quantizer makes it for debugging"},
    {"Uniform", "uant", "not done; TensorFlow 2's quantizer makes it"},
    {"SparseMatrixSparseCholesky", "", "not done; use Cholesky of the dense matrix"},
    {"SparseMatrixOrderingAMD", "", "not done; only SparseMatrixSparseCholesky needs it"},
    {"NegTrain", "", "not done; graphs made since 2016 may not have it"},
    {"Skipgram", "", "not done; graphs made since 2016 may not have it"},
    {"SobolSample", "", "not done; it needs a table of direction numbers"},
    {"DebugIdentityV", "", "the second debugger of TensorFlow 2 makes it"},
};
// Ops of TensorFlow's own tests, most of which only their names can tell.
constexpr absl::string_view kTestOps[] = {"Old",
                                          "KernelLabel",
                                          "KernelLabelRequired",
                                          "TestAttr",
                                          "ResourceCreateOp",
                                          "ResourceInitializedOp",
                                          "ResourceUsingOp",
                                          "StubResourceHandleOp",
                                          "DevicePlacementOp",
                                          "GraphDefVersion",
                                          "Fact",
                                          "GetDeadline",
                                          "ConstructionFails",
                                          "SleepOp",
                                          "SleepIdentityOp",
                                          "DtypeWithDefaultOp",
                                          "AssertPrevDataset",
                                          "A",
                                          "B",
                                          "Attr",
                                          "AttrBool",
                                          "AttrBoolList",
                                          "AttrDefault",
                                          "AttrEmptyListDefault",
                                          "AttrEnum",
                                          "AttrEnumList",
                                          "AttrFloat",
                                          "AttrListDefault",
                                          "AttrListMin",
                                          "AttrListTypeDefault",
                                          "AttrMin",
                                          "AttrPartialShape",
                                          "AttrPartialShapeList",
                                          "AttrShape",
                                          "AttrShapeList",
                                          "AttrTypeDefault",
                                          "Binary",
                                          "ComplexStruct",
                                          "CopyOp",
                                          "DefaultAttrs",
                                          "FiveFloatOutputs",
                                          "FloatInput",
                                          "FloatOutput",
                                          "FloatOutputStringOutput",
                                          "Foo1",
                                          "Foo2",
                                          "Foo3",
                                          "FuncAttr",
                                          "FuncListAttr",
                                          "InPolymorphicTwice",
                                          "Int64Output",
                                          "IntAttr",
                                          "IntInput",
                                          "IntInputFloatInput",
                                          "IntInputIntOutput",
                                          "IntOutput",
                                          "IntOutputFloatOutput",
                                          "ListInput",
                                          "ListOutput",
                                          "MixedStruct",
                                          "NInPolymorphicTwice",
                                          "NInTwice",
                                          "NInTwoTypeVariables",
                                          "NIntsIn",
                                          "NIntsOut",
                                          "NIntsOutDefault",
                                          "NPolymorphicIn",
                                          "NPolymorphicOut",
                                          "NPolymorphicOutDefault",
                                          "NPolymorphicRestrictIn",
                                          "NPolymorphicRestrictOut",
                                          "None",
                                          "OpWithDefaultAttr",
                                          "OpWithFutureDefaultAttr",
                                          "OutT",
                                          "OutTypeList",
                                          "OutTypeListRestrict",
                                          "Polymorphic",
                                          "PolymorphicDefaultOut",
                                          "PolymorphicOut",
                                          "RefIn",
                                          "RefInputFloatInput",
                                          "RefInputFloatInputIntOutput",
                                          "RefInputIntInput",
                                          "RefOut",
                                          "RefOutput",
                                          "RefOutputFloatOutput",
                                          "RequiresOlderGraphVersion",
                                          "ReservedAttr",
                                          "ReservedInput",
                                          "Restrict",
                                          "Simple",
                                          "SimpleStruct",
                                          "StringListAttr",
                                          "TestStringOutput",
                                          "TwoFloatInputs",
                                          "TwoFloatInputsFloatOutput",
                                          "TwoFloatInputsIntOutput",
                                          "TwoFloatOutputs",
                                          "TwoIntInputs",
                                          "TwoIntOutputs",
                                          "TwoRefsIn",
                                          "TypeList",
                                          "TypeListRestrict",
                                          "TypeListTwice",
                                          "Unary",
                                          "Namespace>TestStringOutput"};

absl::string_view ReasonFor(absl::string_view name) {
  if (std::find(std::begin(kTestOps), std::end(kTestOps), name) != std::end(kTestOps)) {
    return "TensorFlow has it for its own tests";
  }
  for (const Reason& r : kReasons) {
    if (absl::StartsWith(name, r.prefix) && absl::StrContains(name, r.part)) return r.text;
  }
  return "not done yet";
}

// Lists the op types of the file that the registry does not have. The first word of
// a line is the name. Empty lines and lines that begin with # are ignored.
absl::Status ListMissing(const std::string& path, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::string text, PosixFileSystem().ReadFileToString(path));
  int64_t listed = 0, missing = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    ++listed;
    if (OpRegistry::Global().Find(std::string(words[0])) != nullptr) continue;
    ++missing;
    out << words[0] << ": " << ReasonFor(words[0]) << "\n";
  }
  out << missing << " of " << listed << " op types are missing\n";
  return absl::OkStatus();
}

absl::Status RunOps(std::ostream& out) {
  if (const std::string path = absl::GetFlag(FLAGS_missing); !path.empty()) return ListMissing(path, out);
  ASSIGN_OR_RETURN(const tensorflow::OpList list, RegisteredOps(absl::GetFlag(FLAGS_op)));
  if (const std::string path = absl::GetFlag(FLAGS_binary); !path.empty()) return WriteProto(path, list);
  out << list.DebugString();
  return absl::OkStatus();
}

}  // namespace

Command OpsCommand() {
  return {.name = "ops",
          .summary = "Lists the supported op types with their signatures.",
          .usage = "[--op NAME] [--binary FILE] [--missing FILE]",
          .flags = {"op", "binary", "missing"},
          .run = RunOps};
}

}  // namespace thalweg::cli
