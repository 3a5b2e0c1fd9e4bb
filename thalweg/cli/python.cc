// SPDX-License-Identifier: Apache-2.0
// thalweg python: runs a TensorFlow program with Thalweg's servers.
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "thalweg/base/log_format.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"

ABSL_DECLARE_FLAG(int, v);  // these are defined in logging.cc
ABSL_DECLARE_FLAG(int, minloglevel);
ABSL_DECLARE_FLAG(thalweg::LogFormat, log_format);
ABSL_FLAG(std::string, python, "python3", "Python interpreter to use; it must have TensorFlow installed");
ABSL_FLAG(bool, sessions, false, "also run sessions without a target on a Thalweg server");
ABSL_FLAG(bool, keep_tensorflow_semantics, false,
          "behave as TensorFlow does when jobs end: join() never returns, coordinators wait 120 s for their threads, "
          "and synchronous training waits for workers that have left");

namespace thalweg::cli {
namespace {

// The folder of the Python shim: beside the installed program or, for a program in
// its build folder, in the source tree.
absl::StatusOr<std::string> ShimFolder(const std::string& binary) {
  const std::string installed = binary.substr(0, binary.rfind('/')) + "/../share/thalweg/python";
  for (const std::string& folder : {installed, std::string(THALWEG_SHIM_FOLDER)}) {
    struct stat found {};
    if (stat((folder + "/sitecustomize.py").c_str(), &found) == 0) return folder;
  }
  return NotFound("Thalweg's Python shim (sitecustomize.py) is neither in ", installed, " nor in ",
                  THALWEG_SHIM_FOLDER);
}

// Python's one-letter flags that take a value (the rest of the argument, or the next
// argument), and those that keep Python from loading the shim.
constexpr absl::string_view kFlagsWithValue = "WX", kFlagsWithoutShim = "EIS";

// Checks the flags of the interpreter. They end at the script, at -m or at -c.
absl::Status CheckInterpreterArguments(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg.size() < 2 || arg[0] != '-') return absl::OkStatus();
    if (arg[1] == '-') continue;
    for (size_t k = 1; k < arg.size(); ++k) {
      if (arg[k] == 'm' || arg[k] == 'c') return absl::OkStatus();
      if (absl::StrContains(kFlagsWithoutShim, arg[k])) {
        return InvalidArgument("Python's flag -", std::string(1, arg[k]), " (in '", arg,
                               "') keeps it from loading Thalweg's servers; run the script without it");
      }
      if (!absl::StrContains(kFlagsWithValue, arg[k])) continue;
      if (k + 1 == arg.size()) ++i;
      break;
    }
  }
  return InvalidArgument("Expected a script, -m MODULE or -c COMMAND");
}

void SetSwitch(const char* name, bool on) {
  if (on) {
    setenv(name, "1", 1);
  } else {
    unsetenv(name);
  }
}

// The servers of the script log as this program was told to.
void PassOnLogFlags() {
  if (absl::GetFlag(FLAGS_log_format) == LogFormat::kJson) setenv("THALWEG_LOG_FORMAT", "json", 1);
  if (const int level = absl::GetFlag(FLAGS_minloglevel); level > 0) {
    setenv("THALWEG_MINLOGLEVEL", std::to_string(level).c_str(), 1);
  }
  if (const int level = absl::GetFlag(FLAGS_v); level > 0) setenv("THALWEG_V", std::to_string(level).c_str(), 1);
}

absl::Status RunPython(std::ostream& out, const std::vector<std::string>& rest) {
  RETURN_IF_ERROR(CheckInterpreterArguments(rest));
  char binary[PATH_MAX + 1] = {};
  if (readlink("/proc/self/exe", binary, PATH_MAX) < 0) return Internal("/proc/self/exe: ", strerror(errno));
  ASSIGN_OR_RETURN(std::string path, ShimFolder(binary));
  if (const char* old = getenv("PYTHONPATH"); old != nullptr && *old != '\0') absl::StrAppend(&path, ":", old);
  setenv("PYTHONPATH", path.c_str(), 1);
  setenv("THALWEG_BINARY", binary, 1);
  PassOnLogFlags();
  SetSwitch("THALWEG_SESSIONS", absl::GetFlag(FLAGS_sessions));
  SetSwitch("THALWEG_KEEP_TENSORFLOW_SEMANTICS", absl::GetFlag(FLAGS_keep_tensorflow_semantics));
  std::vector<std::string> args{absl::GetFlag(FLAGS_python)};
  args.insert(args.end(), rest.begin(), rest.end());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  out.flush();
  execvp(argv[0], argv.data());  // the script replaces this process, so signals and the exit code are its own
  return NotFound("Cannot run ", argv[0], ": ", strerror(errno));
}

}  // namespace

Command PythonCommand() {
  return {.name = "python",
          .summary = "Runs a TensorFlow program with Thalweg's servers as its tf.train.Servers.",
          .usage = "[--python EXE] [--sessions] [-u and other flags of Python] SCRIPT | -m MODULE | -c CODE [ARGS...]",
          .flags = {"python", "sessions", "keep_tensorflow_semantics"},
          .short_flags_are_rest = true,
          .run_with_rest = RunPython};
}

}  // namespace thalweg::cli
