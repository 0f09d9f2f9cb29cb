#include "tools/sandbox/requirements.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tools/sandbox/run_command.h"

namespace muster {

namespace {

// In a child: the caller keeps its namespaces. The errno, 0 when it may.
int try_namespaces() {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    const int kinds = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID;
    ::_exit(::unshare(kinds) == 0 ? 0 : errno);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

Status require_program(const char* program, const char* package) {
  if (has_program(program)) return Done{};
  return Error{std::string("a sandbox needs the program '") + program + "': install " + package};
}

}  // namespace

bool is_administrator() {
  return ::geteuid() == 0;
}

void widen_path() {
  const char* path = std::getenv("PATH");
  const std::string wide =
      std::string(path == nullptr ? "/bin:/usr/bin" : path) + ":/usr/local/sbin:/usr/sbin:/sbin";
  ::setenv("PATH", wide.c_str(), 1);
}

std::filesystem::path sshd_program() {
  for (const char* path : {"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return {};
}

Status check_requirements() {
  if (!is_administrator()) return Error{"a sandbox needs root to make network namespaces"};
  if (auto found = require_program("ip", "iproute2"); !found) return found;
  if (auto found = require_program("ssh-keygen", "openssh-client"); !found) return found;
  if (sshd_program().empty()) {
    return Error{"a sandbox needs the program 'sshd': install openssh-server"};
  }
  const int refused = try_namespaces();
  if (refused == 0) return Done{};
  return Error{std::string("this machine does not let root make namespaces: ") +
               std::strerror(refused) +
               "; in a container it needs the capabilities SYS_ADMIN and NET_ADMIN"};
}

}  // namespace muster
