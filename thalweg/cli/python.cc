// thalweg python: a TensorFlow program whose servers are ours.
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"

ABSL_FLAG(std::string, python, "python3", "the interpreter, with TensorFlow installed");
ABSL_FLAG(bool, sessions, false, "sessions without a target run on a server, too");
ABSL_FLAG(bool, keep_tensorflow_semantics, false,
          "do not help jobs to end: join() never returns, coordinators wait 120 s for their threads, and synchronous "
          "training waits for workers that have left");

namespace thalweg::cli {
namespace {

// The folder of the files that TensorFlow programs are started with: beside an
// installed program, or in the source that this one was built from.
absl::StatusOr<std::string> ShimFolder(const std::string& binary) {
  const std::string installed = binary.substr(0, binary.rfind('/')) + "/../share/thalweg/python";
  for (const std::string& folder : {installed, std::string(THALWEG_SHIM_FOLDER)}) {
    struct stat found {};
    if (stat((folder + "/sitecustomize.py").c_str(), &found) == 0) return folder;
  }
  return NotFound("The files for TensorFlow programs are neither in ", installed, " nor in ", THALWEG_SHIM_FOLDER);
}

// Letters of interpreter flags: those whose value is the rest of the argument or
// the next one, and those that keep Python from loading the shim.
constexpr absl::string_view kFlagsWithValue = "WX", kFlagsWithoutShim = "EIS";

// The flags of the interpreter end at the script, or at the -m or -c in its place.
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

absl::Status RunPython(std::ostream& out, const std::vector<std::string>& rest) {
  RETURN_IF_ERROR(CheckInterpreterArguments(rest));
  char binary[PATH_MAX + 1] = {};
  if (readlink("/proc/self/exe", binary, PATH_MAX) < 0) return Internal("/proc/self/exe: ", strerror(errno));
  ASSIGN_OR_RETURN(std::string path, ShimFolder(binary));
  if (const char* old = getenv("PYTHONPATH"); old != nullptr && *old != '\0') absl::StrAppend(&path, ":", old);
  setenv("PYTHONPATH", path.c_str(), 1);
  setenv("THALWEG_BINARY", binary, 1);
  SetSwitch("THALWEG_SESSIONS", absl::GetFlag(FLAGS_sessions));
  SetSwitch("THALWEG_KEEP_TENSORFLOW_SEMANTICS", absl::GetFlag(FLAGS_keep_tensorflow_semantics));
  std::vector<std::string> args{absl::GetFlag(FLAGS_python)};
  args.insert(args.end(), rest.begin(), rest.end());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  out.flush();
  execvp(argv[0], argv.data());  // the script is this process: signals and exit code are its own
  return NotFound("Cannot run ", argv[0], ": ", strerror(errno));
}

}  // namespace

Command PythonCommand() {
  return {.name = "python",
          .summary = "Runs a TensorFlow program; its tf.train.Servers are Thalweg's.",
          .usage = "[--python EXE] [--sessions] [-u and other flags of Python] SCRIPT | -m MODULE | -c CODE [ARGS...]",
          .flags = {"python", "sessions", "keep_tensorflow_semantics"},
          .short_flags_are_rest = true,
          .run_with_rest = RunPython};
}

}  // namespace thalweg::cli
