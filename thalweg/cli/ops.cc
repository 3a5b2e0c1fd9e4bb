#include "absl/flags/flag.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/proto_file.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/proto/graph.pb.h"

ABSL_FLAG(std::string, op, "", "only the op of this name");
ABSL_FLAG(std::string, binary, "", "write a tensorflow.OpList to this file instead");

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

absl::Status Run(std::ostream& out) {
  ASSIGN_OR_RETURN(const tensorflow::OpList list, RegisteredOps(absl::GetFlag(FLAGS_op)));
  if (const std::string path = absl::GetFlag(FLAGS_binary); !path.empty()) return WriteProto(path, list);
  out << list.DebugString();
  return absl::OkStatus();
}

}  // namespace

Command OpsCommand() {
  return {.name = "ops",
          .summary = "Lists the op types that graphs can have, with their signatures.",
          .usage = "[--op NAME] [--binary FILE]",
          .flags = {"op", "binary"},
          .run = Run};
}

}  // namespace thalweg::cli
