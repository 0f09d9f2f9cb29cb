#include "launcher/agent/watch/rank_inspect.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "health/read/tool_process.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/agent/watch/activity.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// Long enough that a process at work shows it.
constexpr std::chrono::seconds sample{1};
constexpr std::chrono::seconds debugger_limit{5};
// The first lines of a stack say where; the journal holds them for ever.
constexpr std::size_t stack_lines = 24;
constexpr std::size_t kernel_frames = 6;
constexpr std::size_t processes_shown = 4;
constexpr std::size_t text_limit_bytes = 64u << 10;

struct CallName {
  long number;
  const char* name;
};

// Those in which a program waits.
constexpr CallName call_names[] = {
    {SYS_read, "read"},           {SYS_write, "write"},
    {SYS_ppoll, "ppoll"},         {SYS_pselect6, "pselect6"},
    {SYS_futex, "futex"},         {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_recvfrom, "recvfrom"},   {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},       {SYS_sendmsg, "sendmsg"},
    {SYS_connect, "connect"},     {SYS_accept, "accept"},
    {SYS_wait4, "wait4"},         {SYS_waitid, "waitid"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_fsync, "fsync"},         {SYS_openat, "openat"},
#ifdef SYS_poll
    {SYS_poll, "poll"},           {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
#endif
};

std::string first_word_of(pid_t pid, const char* file) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
  std::string word;
  in >> word;
  return word;
}

std::string call_of(pid_t pid) {
  const std::string word = first_word_of(pid, "syscall");
  if (word.empty() || word == "running" || word == "-1") return word == "running" ? "running" : "";
  for (const CallName& call : call_names) {
    if (std::to_string(call.number) == word) return "system call " + std::string(call.name);
  }
  return "system call " + word;
}

// "do_signal_stop < get_signal < …"; only root may read it.
std::string kernel_stack(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stack");
  std::string text, line;
  for (std::size_t i = 0; i < kernel_frames && std::getline(file, line); ++i) {
    const std::size_t begin = line.find("] ");
    if (begin == std::string::npos) continue;
    const std::string frame = line.substr(begin + 2, line.find('+') - begin - 2);
    text += (text.empty() ? "" : " < ") + frame;
  }
  return text;
}

std::string state_text(char state) {
  switch (state) {
    case 'T': return "stopped by a signal (T)";
    case 't': return "stopped by a debugger (t)";
    case 'D': return "in uninterruptible sleep (D)";
    case 'R': return "running (R)";
    case 'S': return "asleep (S)";
    case 'Z': return "dead and not reaped (Z)";
    default: return std::string("in state ") + state;
  }
}

std::string rounded(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string process_text(const ProcessInfo& before, const ProcessInfo& now) {
  const auto ticks = static_cast<double>(now.cpu_ticks - before.cpu_ticks);
  const double used = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::string text = "process " + describe(now) + " is " + state_text(now.state) + ", used " +
                     rounded("%.2f s of a processor in 1 s", used) + ", " +
                     std::to_string(now.threads) + (now.threads == 1 ? " thread" : " threads");
  const std::string place = first_word_of(now.pid, "wchan");
  if (!place.empty() && place != "0") text += ", waits in " + place;
  if (const std::string call = call_of(now.pid); !call.empty()) text += ", " + call;
  return text;
}

// ---- debuggers

// Not gdb: it holds a process up for as long as it reads symbols, which may be a minute.
std::vector<std::string> debugger_for(const ProcessInfo& process, const std::string& programs) {
  const std::string pid = std::to_string(process.pid);
  const bool is_python = mentions(process.name, "python");
  const auto py_spy = is_python ? find_program("py-spy", programs) : std::nullopt;
  if (py_spy) return {*py_spy, "dump", "--nonblocking", "--pid", pid};
  if (const auto eu_stack = find_program("eu-stack", programs)) {
    return {*eu_stack, "-n", "16", "-p", pid};
  }
  return {};
}

void add_stacks(std::vector<std::string>& lines, const ProcessInfo& process,
                const std::string& programs) {
  auto argv = debugger_for(process, programs);
  if (argv.empty()) return;
  const std::string name = std::filesystem::path(argv.front()).filename().string();
  // Nothing of the agent's own environment: DEBUGINFOD_URLS would make eu-stack wait for servers
  // while it holds the process up.
  argv.insert(argv.begin(), {"/usr/bin/env", "-i", "PATH=" + programs});
  const ToolRun run = ToolProcess(argv, text_limit_bytes).wait(Clock::now() + debugger_limit);
  std::istringstream text(run.output);
  std::size_t count = 0;
  for (std::string line; std::getline(text, line) && count < stack_lines; ++count) {
    if (!line.empty()) lines.push_back(name + ": " + to_utf8(line));
  }
}

}  // namespace

std::vector<RankLook> inspect_ranks(const std::vector<RankProcesses>& ranks,
                                    const std::string& programs) {
  std::map<pid_t, ProcessInfo> before;
  for (const RankProcesses& rank : ranks) {
    for (const pid_t pid : rank.processes) {
      if (auto info = read_process(pid)) before.emplace(pid, std::move(*info));
    }
  }
  const std::uint64_t network = network_bytes();
  std::this_thread::sleep_for(sample);
  const auto moved_kb = static_cast<double>(network_bytes() - network) / 1000;
  std::vector<RankLook> seen;
  for (const RankProcesses& rank : ranks) {
    RankLook look{rank.rank, {}};
    for (const pid_t pid : rank.processes) {
      const auto now = read_process(pid);
      if (!now || !before.contains(pid) || look.lines.size() >= processes_shown) continue;
      look.lines.push_back(process_text(before.at(pid), *now));
      const std::string kernel = kernel_stack(pid);
      if (!kernel.empty()) look.lines.push_back("in the kernel " + describe(*now) + ": " + kernel);
      // What holds a stopped process is known; one that the kernel holds would hold who asks too.
      const bool may_attach = now->state == 'S' || now->state == 'R';
      if (rank.is_suspect && may_attach) add_stacks(look.lines, *now, programs);
    }
    const std::string moved = rounded("its node's network moved %.1f kB in 1 s", moved_kb);
    if (seen.empty()) look.lines.push_back(moved);
    seen.push_back(std::move(look));
  }
  return seen;
}

}  // namespace muster
