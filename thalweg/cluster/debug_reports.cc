// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/debug_reports.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/debug_files.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {
namespace {

std::vector<std::string> UrlsOf(const tensorflow::DebugOptions& options) {
  std::set<std::string> urls;
  for (const auto& watch : options.debug_tensor_watch_opts()) {
    urls.insert(watch.debug_urls().begin(), watch.debug_urls().end());
  }
  return {urls.begin(), urls.end()};
}

// Names of nodes and tensors have no characters that need to be escaped.
std::string JsonList(const std::vector<std::string>& names) {
  return absl::StrCat(
      "[",
      absl::StrJoin(names, ",",
                    [](std::string* out, const std::string& name) { absl::StrAppend(out, "\"", name, "\""); }),
      "]");
}

}  // namespace

absl::Status PublishDebugGraph(const tensorflow::DebugOptions& options, const Graph& graph) {
  std::set<std::string> devices;
  for (const auto& node : graph.nodes()) devices.insert(node->device());
  const std::string bytes = graph.Export().SerializeAsString();
  tensorflow::Event event;
  event.set_wall_time(static_cast<double>(RealClock().WallMicros()));
  event.set_graph_def(bytes);
  const size_t hash = std::hash<std::string>()(bytes);
  for (const std::string& device : devices) {
    RETURN_IF_ERROR(
        WriteDebugFiles(UrlsOf(options), absl::StrCat(DebugFolder(device), "/_tfdbg_graph_hash", hash), event));
  }
  return absl::OkStatus();
}

absl::Status PublishDebuggedStep(const tensorflow::DebugOptions& options, int64_t index, const Signature& signature) {
  tensorflow::Event event;
  event.set_wall_time(static_cast<double>(RealClock().WallMicros()));
  event.mutable_log_message()->set_message(absl::StrCat(
      "{\"global_step\":", options.global_step(), ",\"session_run_index\":", index, ",\"executor_step_index\":", index,
      ",\"input_names\":", JsonList(signature.feeds), ",\"output_names\":", JsonList(signature.fetches),
      ",\"target_nodes\":", JsonList(signature.targets), "}"));
  return WriteDebugFiles(UrlsOf(options), absl::StrFormat("_tfdbg_core_metadata_sessionrun%014d", index), event);
}

}  // namespace thalweg
