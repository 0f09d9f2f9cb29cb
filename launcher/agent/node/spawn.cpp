#include "launcher/agent/node/spawn.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <sstream>

#include "launcher/os/fd.h"
#include "scheduler/model/exec_limit.h"

extern char** environ;

namespace muster {

namespace {

// Of all strings together the kernel takes a quarter of the stack's limit, and at most this.
constexpr std::size_t strings_most_bytes = 6u << 20;
constexpr std::size_t strings_margin_bytes = 4096;  // the program's own path, what is passed beside

struct PreparedExec {
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> envp;
};

std::size_t strings_limit_bytes() {
  const long limit = ::sysconf(_SC_ARG_MAX);
  const auto bytes = limit > 0 ? static_cast<std::size_t>(limit) : exec_string_limit_bytes;
  return std::min(bytes, strings_most_bytes) - strings_margin_bytes;
}

// A child on its way to its program. `error` is seen by the agent too: why it did not get there.
struct Birth {
  const SpawnRequest& request;
  const PreparedExec& exec;
  pid_t parent;
  int* error;
};

// Enough for the few system calls of `become`.
constexpr std::size_t child_stack_bytes = 64u << 10;

// One child is born at a time.
int* shared_word() {
  static void* const page =
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  check(page != MAP_FAILED, "the kernel gives no page of shared memory");
  return static_cast<int*>(page);
}

// Runs in the child while the agent stands still, mostly in the agent's memory: nothing is
// allocated here. Returns only without having become the program.
int become(void* argument) {
  Birth& birth = *static_cast<Birth*>(argument);
  const SpawnRequest& request = birth.request;
  ::setsid();
  reset_signals();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != birth.parent) return 127;  // died before it could be heard
  const int input = request.input ? *request.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool placed = input >= 0 && ::dup2(input, 0) >= 0 && ::dup2(request.output, 1) >= 0 &&
                      ::dup2(request.errors, 2) >= 0 &&
                      (!request.has_terminal || ::ioctl(0, TIOCSCTTY, 0) == 0);
  if (placed && ::chdir(request.directory.c_str()) == 0) {
    ::execve(birth.exec.program.c_str(), birth.exec.argv.data(), birth.exec.envp.data());
  }
  *birth.error = errno;
  return 127;
}

// Into the group from the first moment: moving a process there later holds up the forks of the
// whole machine, and what it starts meanwhile would stay outside. Kernels before 5.7 cannot.
pid_t bear_into(const std::string& group, Birth& birth) {
  const Fd place(::open(group.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place) return -1;
  clone_args how{};
  how.flags = CLONE_INTO_CGROUP | CLONE_VFORK;
  how.exit_signal = SIGCHLD;
  how.cgroup = static_cast<std::uint64_t>(place.get());
  const long child = ::syscall(SYS_clone3, &how, sizeof how);
  if (child == 0) ::_exit(become(&birth));
  return static_cast<pid_t>(child);
}

// As posix_spawn does, which knows no PR_SET_PDEATHSIG: the agent's memory is not copied for a
// child that gives it up at once.
pid_t bear_lightly(Birth& birth) {
  alignas(16) static std::array<char, child_stack_bytes> stack;
  return ::clone(become, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
}

// No handler of the agent's may run in the child.
pid_t bear(Birth& birth) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const auto& group = birth.request.group;
  pid_t child = group ? bear_into(*group, birth) : -1;
  if (child < 0) child = bear_lightly(birth);
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return child;
}

}  // namespace

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> environment;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return environment;
}

std::vector<std::string> entries_of(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> exec_words(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

std::optional<std::string> find_program(const std::string& program, const std::string& path_list,
                                        const std::string& directory) {
  const auto is_executable = [](const std::string& path) {
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
  };
  const auto placed = [&directory](const std::string& path) {
    return path.starts_with('/') || directory.empty() ? path : directory + "/" + path;
  };
  if (program.find('/') != std::string::npos) {
    return is_executable(placed(program)) ? std::optional(program) : std::nullopt;
  }
  std::istringstream entries(path_list + ':');
  for (std::string entry; std::getline(entries, entry, ':');) {
    const std::string path = placed(entry.empty() ? program : entry + "/" + program);
    if (!program.empty() && path.starts_with('/') && is_executable(path)) return path;
  }
  return {};
}

std::string lasting_hindrance(const std::vector<std::string>& argv,
                              const std::map<std::string, std::string>& environment) {
  std::size_t sum = 0;
  const auto add = [&sum](std::size_t bytes) {
    sum += bytes + sizeof(char*);
    return bytes <= exec_string_limit_bytes;
  };
  for (const auto& [name, value] : environment) {
    if (add(name.size() + value.size() + 2)) continue;
    return "the environment variable " + name + " has " + std::to_string(value.size()) +
           " bytes: the kernel passes on at most 128 KiB in one variable";
  }
  for (const std::string& argument : argv) {
    if (add(argument.size() + 1)) continue;
    return "the command has " + std::to_string(argument.size()) +
           " bytes: the kernel passes on at most 128 KiB, put it into a script file";
  }
  if (sum <= strings_limit_bytes()) return {};
  return "command and environment variables have " + std::to_string(sum) +
         " bytes together: the kernel passes on at most " + std::to_string(strings_limit_bytes()) +
         ", pass what is long in a file";
}

Result<pid_t> spawn(const SpawnRequest& request) {
  check(!request.argv.empty(), "spawn needs a program");
  if (const std::string why = lasting_hindrance(request.argv, request.environment); !why.empty()) {
    return Error{why};
  }
  const auto path = request.environment.find("PATH");
  auto program = find_program(request.argv[0],
                              path != request.environment.end() ? path->second : "/usr/bin:/bin",
                              request.directory);
  if (!program) return Error{"there is no program '" + request.argv[0] + "' in PATH"};

  std::vector<std::string> argv = request.argv;
  std::vector<std::string> variables = entries_of(request.environment);
  const PreparedExec exec{std::move(*program), exec_words(argv), exec_words(variables)};
  int* const error = shared_word();
  *error = 0;
  Birth birth{request, exec, ::getpid(), error};
  const pid_t child = bear(birth);
  if (child < 0) return system_error("start a process");
  if (*error == 0) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return system_error("run " + exec.program + " in " + request.directory, *error);
}

}  // namespace muster
