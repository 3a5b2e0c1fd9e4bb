// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/debug/debug_dump.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/status.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

constexpr absl::string_view kFile = "file://";

// A name in JSON. Devices have no characters that need to be escaped.
std::string PluginContent(const DebugWatch& watch) {
  return absl::StrCat(R"({"device":")", watch.device, R"(","output_slot":)", watch.slot,
                      R"(,"numChunks":1,"chunkIndex":0})");
}

tensorflow::Event MakeEvent(const DebugWatch& watch, const Tensor& value, int64_t micros) {
  tensorflow::Event event;
  event.set_wall_time(static_cast<double>(micros));
  tensorflow::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(watch.node);
  entry.set_node_name(absl::StrCat(watch.node, ":", watch.slot, ":", watch.debug_op));
  if (value.has_value()) TensorToProto(value, entry.mutable_tensor());
  auto& plugin = *entry.mutable_metadata()->mutable_plugin_data();
  plugin.set_plugin_name("debugger");
  plugin.set_content(PluginContent(watch));
  return event;
}

// A name that no earlier tensor of the same microsecond has.
std::string UnusedPath(const std::string& path) {
  std::string unused = path;
  for (int i = 1; PosixFileSystem().FileExists(unused).ok() && i < 1000; ++i) unused = absl::StrCat(path, "-", i);
  return unused;
}

}  // namespace

absl::StatusOr<DebugWatch> ReadDebugWatch(const KernelInit& init) {
  DebugWatch watch{.debug_op = init.node().def().op()};
  ASSIGN_OR_RETURN(watch.device, init.Attr<std::string>("device_name"));
  ASSIGN_OR_RETURN(watch.node, init.Attr<std::string>("tensor_name"));
  ASSIGN_OR_RETURN(watch.urls, init.Attr<std::vector<std::string>>("debug_urls"));
  if (const size_t colon = watch.node.rfind(':'); colon != std::string::npos) {
    if (!absl::SimpleAtoi(watch.node.substr(colon + 1), &watch.slot)) {
      return InvalidArgument("tensor_name '", watch.node, "' does not end with the number of an output");
    }
    watch.node.resize(colon);
  }
  return watch;
}

std::string DebugFolder(absl::string_view device) {
  return absl::StrCat("_tfdbg_device_", absl::StrReplaceAll(device, {{":", "_"}, {"/", ","}}));
}

absl::Status DumpDebugTensor(const DebugWatch& watch, const Tensor& value) {
  if (watch.urls.empty()) return absl::OkStatus();
  const int64_t micros =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const std::string bytes = MakeEvent(watch, value, micros).SerializeAsString();
  for (const std::string& url : watch.urls) {
    if (!absl::StartsWithIgnoreCase(url, kFile)) {
      return Unimplemented("Debug target URL ", url, " is not supported. Use file://FOLDER.");
    }
    const std::string path = absl::StrCat(url.substr(kFile.size()), "/", DebugFolder(watch.device), "/", watch.node,
                                          "_", watch.slot, "_", watch.debug_op, "_", micros);
    RETURN_IF_ERROR(PosixFileSystem().CreateDirectories(path.substr(0, path.rfind('/'))));
    RETURN_IF_ERROR(PosixFileSystem().WriteStringToFile(UnusedPath(path), bytes));
  }
  return absl::OkStatus();
}

}  // namespace thalweg
