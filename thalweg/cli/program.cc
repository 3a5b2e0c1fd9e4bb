#include "thalweg/cli/program.h"

#include <algorithm>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/flags.h"

ABSL_FLAG(int, v, 0, "how much detail is logged");
ABSL_FLAG(int, minloglevel, 0, "log lines below this level are dropped: 0 all, 1 warnings, 2 errors, 3 fatal errors");

namespace thalweg::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongArguments = 2;

std::vector<Command> Commands() { return {EvalCommand(), OpsCommand(), ServerCommand(), VersionCommand()}; }

std::vector<std::string> CommonFlags() { return {"v", "minloglevel"}; }

std::string Help() {
  std::string text = "usage: thalweg COMMAND [flags]\n\ncommands:\n";
  for (const Command& command : Commands()) absl::StrAppendFormat(&text, "  %-8s %s\n", command.name, command.summary);
  return text + "\nflags of every command:\n" + DescribeFlags(CommonFlags()) +
         "\n`thalweg COMMAND --help` has the flags of one.\n";
}

std::string Help(const Command& command) {
  std::string text = absl::StrCat("usage: thalweg ", command.name, " ", command.usage, "\n\n", command.summary, "\n");
  if (!command.flags.empty()) absl::StrAppend(&text, "\nflags:\n", DescribeFlags(command.flags));
  return text;
}

bool IsHelp(const std::string& arg) { return arg == "--help" || arg == "-help" || arg == "-h"; }

}  // namespace

int RunProgram(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  if (args.empty()) {
    err << Help();
    return kWrongArguments;
  }
  if (IsHelp(args[0]) || args[0] == "help") {
    out << Help();
    return 0;
  }
  const std::vector<Command> commands = Commands();
  const auto command =
      std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == args[0]; });
  if (command == commands.end()) {
    err << "thalweg: there is no command '" << args[0] << "'; `thalweg --help` lists them\n";
    return kWrongArguments;
  }
  if (std::any_of(args.begin(), args.end(), IsHelp)) {
    out << Help(*command);
    return 0;
  }
  std::vector<std::string> flags = command->flags;
  for (const std::string& name : CommonFlags()) flags.push_back(name);
  if (const absl::Status status = SetFlags(absl::MakeConstSpan(args).subspan(1), flags); !status.ok()) {
    err << "thalweg " << command->name << ": " << status.message() << "; `thalweg " << command->name
        << " --help` has its flags\n";
    return kWrongArguments;
  }
  SetVerbosity(absl::GetFlag(FLAGS_v));
  SetMinLogLevel(static_cast<LogLevel>(std::clamp(absl::GetFlag(FLAGS_minloglevel), 0, 3)));
  const absl::Status status = command->run(out);
  out.flush();
  if (status.ok()) return 0;
  err << absl::StatusCodeToString(status.code()) << ": " << status.message() << "\n";
  return kFailed;
}

}  // namespace thalweg::cli
