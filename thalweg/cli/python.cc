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
#include "thalweg/base/status.h"
#include "thalweg/cli/command.h"

ABSL_FLAG(std::string, python, "python3", "the interpreter, with TensorFlow installed");
ABSL_FLAG(bool, sessions, false, "sessions without a target run on a server, too");

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

absl::Status Run(std::ostream& out, const std::vector<std::string>& rest) {
  if (rest.empty()) return InvalidArgument("Expected a script");
  char binary[PATH_MAX + 1] = {};
  if (readlink("/proc/self/exe", binary, PATH_MAX) < 0) return Internal("/proc/self/exe: ", strerror(errno));
  ASSIGN_OR_RETURN(std::string path, ShimFolder(binary));
  if (const char* old = getenv("PYTHONPATH"); old != nullptr && *old != '\0') absl::StrAppend(&path, ":", old);
  setenv("PYTHONPATH", path.c_str(), 1);
  setenv("THALWEG_BINARY", binary, 1);
  if (absl::GetFlag(FLAGS_sessions)) {
    setenv("THALWEG_SESSIONS", "1", 1);
  } else {
    unsetenv("THALWEG_SESSIONS");
  }
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
          .usage = "[--python EXE] [--sessions] SCRIPT [ARGS...]",
          .flags = {"python", "sessions"},
          .run_with_rest = Run};
}

}  // namespace thalweg::cli
