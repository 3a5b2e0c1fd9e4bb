// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/status.h"

extern char** environ;

namespace thalweg {
namespace {

bool IsFile(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and exec: only what a signal handler may do.
[[noreturn]] void Become(char** argv, char** env, int out, int err, int failed, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before prctl()
  setpgid(0, 0);
  const int in = open("/dev/null", O_RDONLY);
  if (in >= 0) dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(argv[0], argv, env);
  const int why = errno;
  const ssize_t written = write(failed, &why, sizeof(why));
  _exit(written == sizeof(why) ? 126 : 127);
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& program) {
  std::vector<std::string> candidates{program};
  if (!absl::StrContains(program, '/')) {
    candidates.clear();
    const char* path = getenv("PATH");
    for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
      candidates.push_back(absl::StrCat(folder.empty() ? "." : folder, "/", program));
    }
  }
  std::string found;
  for (const std::string& path : candidates) {
    if (!IsFile(path)) continue;
    if (access(path.c_str(), X_OK) == 0) return path;
    if (found.empty()) found = path;
  }
  if (!found.empty()) return PermissionDenied("'", found, "' is not executable");
  if (IsFile(program)) return NotFound("There is no program '", program, "' in PATH; did you mean './", program, "'?");
  return NotFound("There is no program '", program, "'", absl::StrContains(program, '/') ? "" : " in PATH");
}

absl::StatusOr<ChildProcess> StartChild(const std::vector<std::string>& args,
                                        const std::map<std::string, std::string>& variables) {
  std::vector<std::string> arguments = args, environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name(*variable, strcspn(*variable, "="));
    if (!variables.contains(name)) environment.emplace_back(*variable);
  }
  for (const auto& [name, value] : variables) environment.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> argv = Pointers(arguments), env = Pointers(environment);

  int out[2] = {-1, -1}, err[2] = {-1, -1}, failed[2] = {-1, -1};
  const auto close_all = [&] {
    for (const int fd : {out[0], out[1], err[0], err[1], failed[0], failed[1]}) {
      if (fd >= 0) close(fd);
    }
  };
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0) {
    const int why = errno;
    close_all();
    return ResourceExhausted("Cannot make a pipe to ", args[0], ": ", strerror(why));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(argv.data(), env.data(), out[1], err[1], failed[1], parent);
  const int fork_error = errno;
  if (pid < 0) {
    close_all();
    return ResourceExhausted("Cannot start ", args[0], ": ", strerror(fork_error));
  }
  close(out[1]);
  close(err[1]);
  close(failed[1]);
  // Closed by a successful exec.
  int why = 0;
  const bool bad = read(failed[0], &why, sizeof(why)) == sizeof(why);
  close(failed[0]);
  if (bad) {
    close(out[0]);
    close(err[0]);
    waitpid(pid, nullptr, 0);
    return PermissionDenied("Cannot run ", args[0], ": ", strerror(why));
  }
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  fcntl(err[0], F_SETFL, O_NONBLOCK);
  return ChildProcess{.pid = pid, .out = out[0], .err = err[0]};
}

}  // namespace thalweg
