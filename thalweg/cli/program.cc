// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cli/program.h"

#include <algorithm>

#include "absl/flags/reflection.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"
#include "thalweg/cli/flags.h"
#include "thalweg/launch/job.h"

namespace thalweg::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongArguments = 2;

std::vector<Command> Commands() {
  return {CheckpointCommand(), EvalCommand(), OpsCommand(),   PythonCommand(),  RunCommand(), ServerCommand(),
          StatusCommand(),     TopCommand(),  TraceCommand(), VersionCommand(), WhyCommand()};
}

// Logging flags, which every command accepts. base/logging.cc defines them.
std::vector<std::string> CommonFlags() { return {"v", "minloglevel", "log_format"}; }

std::string Help() {
  std::string text = "usage: thalweg COMMAND [flags]\n\ncommands:\n";
  for (const Command& command : Commands()) absl::StrAppendFormat(&text, "  %-10s %s\n", command.name, command.summary);
  return text + "\nflags of every command:\n" + DescribeFlags(CommonFlags()) +
         "\n`thalweg COMMAND --help` describes a command and its flags.\n";
}

std::string Help(const Command& command) {
  std::string text = absl::StrCat("usage: thalweg ", command.name, " ", command.usage, "\n\n", command.summary, "\n");
  if (!command.details.empty()) absl::StrAppend(&text, "\n", command.details, "\n");
  if (!command.flags.empty()) absl::StrAppend(&text, "\nflags:\n", DescribeFlags(command.flags));
  return text;
}

bool IsHelp(const std::string& arg) { return arg == "--help" || arg == "-help" || arg == "-h"; }

// The number of leading arguments that are the command and its flags. They end at
// "--", at the first argument that is not a flag and, without `with_short_flags`, at
// a one-letter flag. A flag that is not a bool and has no '=' takes the next argument
// as its value.
size_t CountFlags(const std::vector<std::string>& args, bool with_short_flags) {
  size_t n = 1;
  while (n < args.size() && args[n].size() > 1 && args[n][0] == '-' && args[n] != "--") {
    if (!with_short_flags && args[n][1] != '-' && !IsHelp(args[n])) break;
    const std::string name = args[n].substr(
        args[n].find_first_not_of('-') == std::string::npos ? args[n].size() : args[n].find_first_not_of('-'));
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    const bool takes_value = flag != nullptr && !flag->IsOfType<bool>() && name.find('=') == std::string::npos;
    n += takes_value ? 2 : 1;
  }
  return std::min(n, args.size());
}

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
    err << "thalweg: unknown command '" << args[0] << "'; `thalweg --help` lists the commands\n";
    return kWrongArguments;
  }
  // The first `own` arguments are the command and its flags; `rest` follows them.
  const bool has_rest = command->run_with_rest != nullptr || command->run_for_code != nullptr;
  const size_t own = has_rest ? CountFlags(args, !command->short_flags_are_rest) : args.size();
  std::vector<std::string> rest(args.begin() + static_cast<ptrdiff_t>(own), args.end());
  if (!rest.empty() && rest[0] == "--") rest.erase(rest.begin());
  if (std::any_of(args.begin(), args.begin() + static_cast<ptrdiff_t>(own), IsHelp)) {
    out << Help(*command);
    return 0;
  }
  std::vector<std::string> flags = command->flags;
  for (const std::string& name : CommonFlags()) flags.push_back(name);
  if (const absl::Status status = SetFlags(absl::MakeConstSpan(args).subspan(1, own - 1), flags); !status.ok()) {
    err << "thalweg " << command->name << ": " << status.message() << "; `thalweg " << command->name
        << " --help` lists its flags\n";
    return kWrongArguments;
  }
  absl::StatusOr<int> code = 0;
  if (command->run_for_code != nullptr) {
    code = command->run_for_code(out, rest);
  } else if (const absl::Status status =
                 command->run_with_rest != nullptr ? command->run_with_rest(out, rest) : command->run(out);
             !status.ok()) {
    code = status;
  }
  out.flush();
  if (code.ok()) return *code;
  const absl::Status& status = code.status();
  err << absl::StatusCodeToString(status.code()) << ": " << status.message() << "\n";
  return IsWorthRetry(status) ? 128 + static_cast<int>(status.code()) : kFailed;
}

}  // namespace thalweg::cli
