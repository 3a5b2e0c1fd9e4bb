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
    {"_Mkl", "", "TensorFlow's own rewriting of graphs for oneDNN makes it"},
    {"__Mkl", "", "TensorFlow's own rewriting of graphs for oneDNN makes it"},
    {"_Fused", "", "TensorFlow's own rewriting of graphs makes it"},
    {"_Xla", "", "XLA"},
    {"Xla", "", "XLA"},
    {"", "TPU", "TPU"},
    {"", "BigQuery", "a service outside the cluster"},
    {"Gcs", "", "a service outside the cluster"},
    {"", "RemoteFusedGraph", "it runs on a separate processor"},
    {"TfLite", "", "it embeds another runtime"},
    {"_", "", "only TensorFlow's own runtime adds it to graphs"},
    {"", "LMDB", "it needs the library liblmdb, which Thalweg does not use"},
    {"CreateSummaryDb", "", "TensorFlow 2 dropped summaries in databases; use an event file"},
    {"WrapDataset", "", "only datasets on other devices than CPUs need it"},
    {"UnwrapDataset", "", "only datasets on other devices than CPUs need it"},
    {"AnonymousMultiDevice", "", "only eager execution makes it"},
    {"DeleteMultiDevice", "", "only eager execution makes it"},
    {"ImmutableConst", "", "it maps a file of TensorFlow's own format; use a constant or a checkpoint"},
    {"AudioMicrofrontend", "", "an experiment of TensorFlow Lite"},
    {"DataService", "", "the data service"},
    {"RegisterDataset", "", "the data service"},
    {"CompressElement", "", "the data service"},
    {"UncompressElement", "", "the data service"},
    {"SnapshotDatasetReader", "", "TensorFlow's own readers of snapshots make it"},
    {"SnapshotNestedDatasetReader", "", "TensorFlow's own readers of snapshots make it"},
    {"SnapshotChunkDataset", "", "the data service"},
    {"", "Dataset", "input pipelines"},
    {"", "Iterator", "input pipelines"},
    {"StatsAggregator", "", "input pipelines"},
    {"TensorForest", "", "an estimator that TensorFlow dropped"},
    {"Rpc", "", "it calls servers outside the cluster"},
    {"TryRpc", "", "it calls servers outside the cluster"},
    {"DeleteRpcFuture", "", "it calls servers outside the cluster"},
    {"DistributedSave", "", "a service outside the cluster"},
    {"NegTrain", "", "graphs made since 2016 may not have it"},
    {"Skipgram", "", "graphs made since 2016 may not have it"},
    {"DebugIdentityV", "", "the second debugger of TensorFlow 2 makes it"},
};
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
                                          "FakeQueue",
                                          "ConstructionFails",
                                          "SleepOp",
                                          "SleepIdentityOp",
                                          "DtypeWithDefaultOp",
                                          "AssertPrevDataset"};

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
