// SPDX-License-Identifier: Apache-2.0
#include "thalweg/observe/chrome_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/step_stats.pb.h"

namespace thalweg {
namespace {

// A JSON string.
std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// "dense/MatMul = MatMul(x, w)" -> "MatMul", where the label says so.
std::string OpOf(const tensorflow::NodeExecStats& node) {
  const std::string& label = node.timeline_label();
  const size_t equals = label.find(" = ");
  if (equals == std::string::npos) return node.node_name();
  const size_t begin = equals + 3;
  return label.substr(begin, label.find('(', begin) - begin);
}

void AppendEvent(const tensorflow::NodeExecStats& node, int process, std::string* out) {
  // Nanoseconds where they are known.
  const double start = node.all_start_nanos() != 0 ? 1e-3 * static_cast<double>(node.all_start_nanos())
                                                   : static_cast<double>(node.all_start_micros());
  const double duration = node.all_end_rel_nanos() != 0 ? 1e-3 * static_cast<double>(node.all_end_rel_nanos())
                                                        : static_cast<double>(node.all_end_rel_micros());
  absl::StrAppendFormat(out,
                        ",\n{\"ph\":\"X\",\"cat\":\"Op\",\"name\":%s,\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
                        "\"args\":{\"name\":%s,\"label\":%s}}",
                        Quoted(OpOf(node)), process, node.thread_id(), start, std::max(duration, 0.0),
                        Quoted(node.node_name()), Quoted(node.timeline_label()));
}

}  // namespace

std::string ChromeTrace(const RunMetadata& metadata) {
  const tensorflow::StepStats& stats = metadata.proto().step_stats();
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (int i = 0; i < stats.dev_stats_size(); ++i) {
    const tensorflow::DeviceStepStats& device = stats.dev_stats(i);
    absl::StrAppendFormat(&out, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":%s}}",
                          i == 0 ? "\n" : ",\n", i, Quoted(device.device()));
    for (const tensorflow::NodeExecStats& node : device.node_stats()) AppendEvent(node, i, &out);
  }
  return out + "\n]}\n";
}

}  // namespace thalweg
