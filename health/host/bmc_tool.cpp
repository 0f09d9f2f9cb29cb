#include "health/host/bmc_tool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "health/host/bmc_text.h"
#include "health/read/probe_calls.h"
#include "health/read/tool_process.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

struct Question {
  std::string_view what;
  std::vector<std::string> words;
  std::chrono::seconds limit;
};
// A controller that is asked through its slowest interface tells some hundred events or sensors in
// 10 s.
const std::array<Question, 3>& questions() {
  static const std::array<Question, 3> all{
      {{"time", {"sel", "time", "get"}, std::chrono::seconds(3)},
       {"sel", {"-c", "sel", "list"}, std::chrono::seconds(10)},
       {"sdr", {"-c", "sdr", "list", "full"}, std::chrono::seconds(12)}}};
  return all;
}

// As the tool itself looks for it.
constexpr std::array<const char*, 3> device_names{"dev/ipmi0", "dev/ipmi/0", "dev/ipmidev/0"};
// Somebody else's question is answered within that time.
constexpr std::chrono::seconds turn_limit{5};
constexpr std::chrono::milliseconds between_tool_looks{200};
// As much as a source may say; a log of 4,000 events has 320 KiB.
constexpr std::size_t output_max = 900u << 10;
constexpr std::size_t said_max = 200;
constexpr int not_found = 127;  // of env

// Open in this process and the tool's: locked for as long as either lives.
class DeviceLock {
 public:
  explicit DeviceLock(int root) {
    for (const char* name : device_names) {
      fd_ = ::openat(root, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
      error_ = fd_ < 0 ? errno : 0;
      if (error_ != ENOENT) return;
    }
  }
  DeviceLock(const DeviceLock&) = delete;
  ~DeviceLock() { let_go(); }

  // 0: it is open.
  int error() const { return error_; }

  bool take(const std::function<void()>& alive) const {
    const auto until = Clock::now() + turn_limit;
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (Clock::now() >= until) return false;
      if (alive) alive();
      std::this_thread::sleep_for(between_tool_looks);
    }
    return true;
  }
  // The tool has it now.
  void let_go() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
  int error_ = 0;
};

// Where users have no system tools in PATH. Dates and words are those of no country.
std::vector<std::string> argv_of(const Question& question) {
  const char* path = std::getenv("PATH");
  std::vector<std::string> argv{
      "/usr/bin/env", "LC_ALL=C", "TZ=UTC0",
      "PATH=" + std::string(path == nullptr ? "/usr/bin:/bin" : path) + ":/usr/sbin:/sbin",
      "ipmitool"};
  argv.insert(argv.end(), question.words.begin(), question.words.end());
  return argv;
}

std::string first_line(std::string_view text) {
  text = trimmed(text);
  return std::string(text.substr(0, std::min(text.find('\n'), said_max)));
}

std::string with_words(std::string sentence, const ToolRun& run) {
  const std::string said = first_line(run.errors);
  return said.empty() ? sentence : sentence + ": " + said;
}

// An empty log is told on the other stream. Of a list that was broken off the tool tells there, and
// may end well all the same.
FileReading answer_of(const Question& question, const ToolRun& run) {
  if (run.is_cut) return {{}, "ipmitool said more than can be read", false};
  if (*run.exit_code == not_found) return {{}, "ipmitool is not installed", true};
  if (*run.exit_code != 0) {
    return {run.output, with_words("ipmitool ended with " + std::to_string(*run.exit_code), run),
            false};
  }
  const bool is_log = question.what == "sel";
  if (is_log && run.errors.find("command failed") != std::string::npos)
    return {run.output, with_words("ipmitool did not read to the end", run), false};
  if (!trimmed(run.output).empty()) return {run.output, {}, false};
  if (is_log && run.errors.find(bmc_empty_log) != std::string::npos)
    return {std::string(bmc_empty_log) + "\n", {}, false};
  return {{}, with_words("ipmitool said nothing", run), false};
}

FileReading ask(const Question& question, DeviceLock& lock, const std::function<void()>& alive) {
  const auto until = Clock::now() + question.limit;
  ToolProcess tool(argv_of(question), output_max);
  lock.let_go();
  while (!tool.is_over(std::min(until, Clock::now() + between_tool_looks)) &&
         Clock::now() < until) {
    if (alive) alive();
  }
  const ToolRun run = tool.wait(until);
  if (run.exit_code) return answer_of(question, run);
  if (!run.errors.empty() && !run.is_found) return {{}, run.errors, false};
  return {{}, "no answer within " + std::to_string(question.limit.count()) + " s", false};
}

}  // namespace

FileReading ask_bmc(std::string_view what, int root, const std::function<void()>& alive) {
  const auto question = std::ranges::find(questions(), what, &Question::what);
  if (question == questions().end()) return {{}, "no such question", true};
  DeviceLock lock(root);
  if (lock.error() == ENOENT) return {{}, "no /dev/ipmi0: no controller, or no driver", true};
  if (lock.error() != 0) {
    FileReading denied = failed_reading(lock.error());
    denied.error = "/dev/ipmi0: " + denied.error;
    // It is root's: for other users there is none.
    denied.is_missing = lock.error() == EACCES || lock.error() == EPERM;
    return denied;
  }
  if (!lock.take(alive)) return {{}, "not asked: another ipmitool has not ended", false};
  return ask(*question, lock, alive);
}

}  // namespace muster
