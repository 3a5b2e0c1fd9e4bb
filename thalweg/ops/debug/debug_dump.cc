// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/debug/debug_dump.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/debug_files.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

// A name in JSON. Devices have no characters that need to be escaped.
std::string PluginContent(const DebugWatch& watch) {
  return absl::StrCat(R"({"device":")", watch.device, R"(","output_slot":)", watch.slot,
                      R"(,"numChunks":1,"chunkIndex":0})");
}

tensorflow::Event MakeEvent(const DebugWatch& watch, const Tensor& value) {
  tensorflow::Event event;
  event.set_wall_time(static_cast<double>(RealClock().WallMicros()));
  tensorflow::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(watch.node);
  entry.set_node_name(absl::StrCat(watch.node, ":", watch.slot, ":", watch.debug_op));
  if (value.has_value() && CheckEncodable(value).ok()) TensorToProto(value, entry.mutable_tensor());
  auto& plugin = *entry.mutable_metadata()->mutable_plugin_data();
  plugin.set_plugin_name("debugger");
  plugin.set_content(PluginContent(watch));
  return event;
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

absl::Status DumpDebugTensor(const DebugWatch& watch, const Tensor& value) {
  if (watch.urls.empty()) return absl::OkStatus();
  return WriteDebugFiles(watch.urls,
                         absl::StrCat(DebugFolder(watch.device), "/", watch.node, "_", watch.slot, "_", watch.debug_op),
                         MakeEvent(watch, value));
}

}  // namespace thalweg
