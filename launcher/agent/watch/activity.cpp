#include "launcher/agent/watch/activity.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "health/read/tool_process.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// An agent that ends something ticks far more often.
constexpr std::chrono::milliseconds activity_look_interval{400};
constexpr std::chrono::seconds tree_interval{4};
// Steps come in bursts: what is done every few seconds is done all the time.
constexpr std::chrono::seconds calm{10};
// Data workers may fill their queues a moment longer than their reader runs.
constexpr std::chrono::seconds idle_beside_stop{2};

// 2 % of a core over the interval, in the kernel's hundredths of a second: above the polling
// threads of an idle Python program, far below any work.
constexpr std::uint64_t working_ticks = 8;
constexpr std::uint64_t moving_bytes = 256u << 10;
// Pings, metrics and logins stay far below.
constexpr std::uint64_t network_moving_bytes = 1u << 20;

// A loader with more workers than that is watched by its first ones.
constexpr std::size_t tree_limit = 64;

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  return names;
}

std::uint64_t number_in(const std::string& path) {
  std::uint64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

// Columns 1 and 9 after the name: bytes received and sent.
std::uint64_t interface_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/net/dev");
  std::uint64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream columns(line.substr(colon + 1));
    std::uint64_t value = 0;
    for (int column = 1; columns >> value; ++column) {
      if (column == 1 || column == 9) sum += value;
    }
  }
  return sum;
}

// The counters of InfiniBand count words of four bytes.
std::uint64_t infiniband_bytes(const std::string& root) {
  const std::string devices = root + "/sys/class/infiniband";
  std::uint64_t words = 0;
  for (const std::string& device : names_in(devices)) {
    const std::string ports = devices + "/" + device + "/ports";
    for (const std::string& port : names_in(ports)) {
      const std::string counters = ports + "/" + port + "/counters/port_";
      words += number_in(counters + "xmit_data") + number_in(counters + "rcv_data");
    }
  }
  return 4 * words;
}

constexpr std::string_view state_listens = "0A ";
// A host with very many connections has tables of megabytes: they are read less often later.
constexpr int close_looks = 60;
constexpr std::chrono::seconds close_pause{1};
constexpr std::chrono::seconds wide_pause{30};
constexpr int looks_least = 10;

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

void ActivityWatch::add(RankId id, pid_t process, Moment now) {
  Watched rank;
  rank.root = process;
  rank.processes[process];
  rank.used_at = rank.working_at = now;
  rank.moving_at = now - calm;
  rank.told.emplace(Doing::working, 0);  // what the controller takes for granted
  ranks_.insert_or_assign(id, std::move(rank));
}

void ActivityWatch::remove(RankId id) {
  ranks_.erase(id);
}

void ActivityWatch::produced(RankId id, std::int64_t amount, Moment now) {
  const auto found = ranks_.find(id);
  if (found == ranks_.end() || found->second.produced == amount) return;
  found->second.produced = amount;
  found->second.working_at = now;
}

void ActivityWatch::report_again() {
  for (auto& [id, rank] : ranks_) rank.told.reset();
  reported_network_ = false;
}

std::vector<pid_t> ActivityWatch::processes_of(RankId id) const {
  std::vector<pid_t> found;
  const auto rank = ranks_.find(id);
  if (rank == ranks_.end()) return found;
  found.push_back(rank->second.root);
  for (const auto& [pid, process] : rank->second.processes) {
    if (pid != rank->second.root) found.push_back(pid);
  }
  return found;
}

void ActivityWatch::poll(Moment now) {
  if (now < next_look_) return;
  next_look_ = now + activity_look_interval;
  for (auto& [id, rank] : ranks_) look_at_states(rank, now);
  if (now < next_tree_look_) return;
  next_tree_look_ = now + tree_interval;
  for (auto& [id, rank] : ranks_) look_at_tree(rank, now);
  const std::uint64_t bytes = network_bytes();
  if (network_bytes_ && bytes >= *network_bytes_ + network_moving_bytes) network_at_ = now;
  network_bytes_ = bytes;
}

void ActivityWatch::look_at_states(Watched& rank, Moment now) {
  std::uint64_t used = 0;
  for (auto& [pid, process] : rank.processes) {
    const auto info = read_process(pid);
    const bool is_new = process.start_ticks == 0;
    const bool is_it = info && (is_new || process.start_ticks == info->start_ticks);
    if (!is_it) {
      process.state = 'X';
      continue;
    }
    if (!is_new) used += info->cpu_ticks - process.cpu_ticks;
    process.start_ticks = info->start_ticks;
    process.cpu_ticks = info->cpu_ticks;
    process.state = info->state;
    process.name = info->name;
  }
  if (used > 0) rank.used_at = now;
  if (used >= working_ticks) rank.working_at = now;
  rank.window_ticks += used;
  judge_states(rank, now);
}

void ActivityWatch::judge_states(Watched& rank, Moment now) {
  const auto is_traced = [](const auto& item) { return item.second.state == 't'; };
  if (std::any_of(rank.processes.begin(), rank.processes.end(), is_traced)) {
    if (!rank.stopped_since) rank.working_at = now;
    return;
  }
  std::optional<pid_t> stopped, stuck;
  for (const auto& [pid, process] : rank.processes) {
    const bool counts = pid == rank.root || now - rank.used_at >= idle_beside_stop;
    if (process.state == 'T' && counts && (!stopped || pid == rank.root)) stopped = pid;
    if (process.state == 'D' && (!stuck || pid == rank.root)) stuck = pid;
  }
  rank.odd = stopped ? stopped : stuck;
  rank.stopped_looks = stopped ? rank.stopped_looks + 1 : 0;
  const auto note = [now](std::optional<Moment>& since, bool holds) {
    since = holds ? std::optional(since.value_or(now)) : std::nullopt;
  };
  note(rank.stopped_since, stopped.has_value());
  note(rank.stuck_since, stuck && now - rank.used_at >= tree_interval);
}

// What was forked or has gone since the last look is work too.
void ActivityWatch::look_at_tree(Watched& rank, Moment now) {
  const std::vector<pid_t> tree = process_tree(rank.root, tree_limit);
  std::map<pid_t, Process> processes;
  bool is_news = tree.size() != rank.processes.size();
  std::uint64_t moved = 0;
  pid_t debugger = 0;
  for (const pid_t pid : tree) {
    const auto known = rank.processes.find(pid);
    is_news = is_news || known == rank.processes.end();
    Process process = known == rank.processes.end() ? Process{} : known->second;
    const std::uint64_t io = io_bytes(pid);
    if (io > process.io && process.start_ticks != 0) moved += io - process.io;
    process.io = io;
    const pid_t before = std::exchange(process.tracer, tracer_of(pid));
    // Not what the job itself runs under: that may hang too.
    const bool is_outside = std::ranges::find(tree, process.tracer) == tree.end();
    if (process.tracer != 0 && process.tracer == before && is_outside) debugger = before;
    processes.emplace(pid, std::move(process));
  }
  rank.processes = std::move(processes);
  rank.debugger = debugger;
  if (is_news || rank.window_ticks >= working_ticks) rank.working_at = now;
  if (moved >= moving_bytes) rank.moving_at = now;
  if (moved > 0) rank.stuck_since.reset();
  rank.window_ticks = 0;
}

RankDoing ActivityWatch::doing_of(RankId id, const Watched& rank, Moment now) {
  RankDoing found;
  found.rank = id;
  Moment since = std::max(rank.working_at, rank.moving_at);
  if (rank.debugger != 0) {
    found.doing = Doing::moving;
    found.process = std::to_string(rank.debugger);
    if (const auto info = read_process(rank.debugger)) found.process += " (" + info->name + ")";
  } else if (rank.stopped_looks >= 2) {
    found.doing = Doing::stopped;
    since = *rank.stopped_since;
  } else if (rank.stuck_since && now - *rank.stuck_since >= calm) {
    found.doing = Doing::stuck;
    since = *rank.stuck_since;
  } else if (now - rank.moving_at < calm) {
    found.doing = Doing::moving;
  } else {
    found.doing = now - rank.working_at < calm ? Doing::working : Doing::quiet;
  }
  found.age_ms = std::chrono::duration_cast<Milliseconds>(now - since).count();
  const bool is_odd = found.doing == Doing::stopped || found.doing == Doing::stuck;
  if (is_odd && rank.odd) {
    const auto process = rank.processes.find(*rank.odd);
    const std::string name = process == rank.processes.end() ? "" : process->second.name;
    found.process = std::to_string(*rank.odd) + " (" + name + ")";
  }
  return found;
}

std::optional<RankActivity> ActivityWatch::news(Moment now) {
  RankActivity news;
  for (auto& [id, rank] : ranks_) {
    RankDoing doing = doing_of(id, rank, now);
    const std::pair saying{doing.doing, rank.debugger};
    if (saying == rank.told) continue;
    rank.told = saying;
    news.ranks.push_back(std::move(doing));
  }
  const bool moves = network_at_ && now - *network_at_ < calm;
  if (moves != reported_network_) news.network_moves = reported_network_ = moves;
  if (news.ranks.empty() && !news.network_moves) return std::nullopt;
  return news;
}

std::vector<pid_t> process_tree(pid_t root, std::size_t limit) {
  std::vector<pid_t> tree{root};
  for (std::size_t next = 0; next < tree.size() && tree.size() < limit; ++next) {
    const std::string pid = std::to_string(tree[next]);
    std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
    for (pid_t child = 0; children >> child && tree.size() < limit;) tree.push_back(child);
  }
  return tree;
}

pid_t tracer_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  pid_t tracer = 0;
  for (std::string line; std::getline(file, line);) {
    if (std::sscanf(line.c_str(), "TracerPid: %d", &tracer) == 1) break;
  }
  return tracer;
}

std::uint64_t io_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/io");
  std::uint64_t sum = 0, value = 0;
  for (std::string name; file >> name >> value;) {
    const bool counts = name == "rchar:" || name == "wchar:" || name == "read_bytes:";
    if (counts) sum += value;
  }
  return sum;
}

std::uint64_t network_bytes(const std::string& root) {
  return interface_bytes(root) + infiniband_bytes(root);
}

bool has_listener(std::string_view table, int port) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), ":%04X ", port & 0xFFFF);
  const std::string_view local = text.data();
  for (auto at = table.find(local); at != table.npos; at = table.find(local, at + 1)) {
    const std::string_view rest = table.substr(at + local.size());
    const auto space = rest.substr(0, rest.find('\n')).find(' ');
    if (space == rest.npos || rest.substr(0, space).find(':') == rest.npos) continue;
    if (rest.substr(space + 1).starts_with(state_listens)) return true;
  }
  return false;
}

void ListenWatch::poll(Clock::time_point now) {
  if (port_ == 0 || now < next_) return;
  ++looks_;
  next_ = now + (looks_ < close_looks ? close_pause : wide_pause);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (has_listener(text_of_file(table), port_)) port_ = 0;
  }
}

bool ListenWatch::has_missed() const {
  return port_ != 0 && looks_ >= looks_least;
}

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
