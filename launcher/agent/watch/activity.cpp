#include "launcher/agent/watch/activity.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

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
  look_at_network(now);
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
  if (!stopped)
    rank.stopped_since.reset();
  else if (!rank.stopped_since)
    rank.stopped_since = now;
  const bool is_held = stuck && now - rank.used_at >= tree_interval;
  if (!is_held)
    rank.stuck_since.reset();
  else if (!rank.stuck_since)
    rank.stuck_since = now;
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

void ActivityWatch::look_at_network(Moment now) {
  const std::uint64_t bytes = network_bytes();
  if (network_bytes_ && bytes >= *network_bytes_ + network_moving_bytes) network_at_ = now;
  network_bytes_ = bytes;
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

}  // namespace muster
