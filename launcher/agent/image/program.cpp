#include "launcher/agent/image/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_interval{20};
constexpr int looks_between_reports = 25;

std::int64_t bytes_below(const std::string& directory) {
  std::int64_t bytes = 0;
  std::error_code failed;
  fs::recursive_directory_iterator at(directory, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    std::error_code gone;
    const auto size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    if (!gone) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

// What changes while it moves. The size, not the place: that is the program's own.
std::string counters(pid_t child, const Fd& errors, std::int64_t filled) {
  struct stat facts {};
  ::fstat(errors.get(), &facts);
  std::string seen = std::to_string(facts.st_size) + " " + std::to_string(filled);
  for (const ProcessInfo& process : scan_processes()) {  // podman starts itself once more
    if (process.session != child) continue;
    seen += text_of_file("/proc/" + std::to_string(process.pid) + "/io");
  }
  return seen;
}

// False: it said nothing for too long, and was killed.
bool wait_for(pid_t child, const WatchedProgram& program, const Fd& errors, int& status) {
  std::string seen;
  auto moved_at = Clock::now();
  for (int looks = 1; ::waitpid(child, &status, WNOHANG) == 0; ++looks) {
    std::this_thread::sleep_for(look_interval);
    if (looks % looks_between_reports != 0) continue;
    const std::int64_t filled = program.fills.empty() ? 0 : bytes_below(program.fills);
    const std::string now = counters(child, errors, filled);
    if (now != seen) {
      seen = now;
      moved_at = Clock::now();
      if (program.on_moved) program.on_moved(filled);
    } else if (program.silence.count() > 0 && Clock::now() - moved_at > program.silence) {
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      return false;
    }
  }
  return true;
}

}  // namespace

ProgramEnd run_watched(const WatchedProgram& program) {
  constexpr int how = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  constexpr std::size_t last_lines = 20;
  const bool has_log = !program.log.empty();
  const Fd input = memory_file(program.input), output = memory_file();
  const Fd errors = has_log ? Fd(::open(program.log.c_str(), how, 0600)) : memory_file();
  SpawnRequest request{program.argv, program.environment, "/", input.get()};
  request.output = has_log ? errors.get() : output.get();
  request.errors = errors.get();
  const auto child = input && output && errors
                         ? spawn(request)
                         : Result<pid_t>(system_error("run " + program.argv[0]));
  if (!child) return {false, {}, child.error().message};
  int status = 0;
  if (!wait_for(*child, program, errors, status)) {
    const std::string silence = std::to_string(program.silence.count());
    return {false, {}, program.argv[0] + " did nothing for " + silence + " s"};
  }
  ProgramEnd end{WIFEXITED(status) && WEXITSTATUS(status) == 0, content_of(output), {}};
  const std::string said = content_of(errors);
  if (!has_log) end.errors = said;
  for (const auto& line : last_utf8_lines(said, has_log ? last_lines : 0)) {
    end.errors += line + "\n";
  }
  return end;
}

}  // namespace muster
