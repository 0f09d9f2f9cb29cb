#include "tools/drill/processes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string_view>

#include "launcher/os/read_file.h"
#include "runtime/protocol/environment.h"

namespace muster {

namespace {

// A chain of parents is short; a loop cannot be, unless numbers are used again meanwhile.
constexpr int most_parents = 64;
constexpr const char* agent_name = "muster-agent";
constexpr const char* keeper_name = "muster-keeper";

struct RankProcess {
  int rank = 0;
  ProcessInfo process;
};

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The word after `option` of the command line.
std::string option_of(pid_t pid, const std::string& option) {
  const std::string line = text_of_file("/proc/" + std::to_string(pid) + "/cmdline");
  const std::string key = '\0' + option + '\0';
  const std::size_t at = line.find(key);
  if (at == line.npos) return "";
  const std::size_t begin = at + key.size();
  return line.substr(begin, line.find('\0', begin) - begin);
}

std::string node_of_agent(pid_t pid) {
  return option_of(pid, "--node");
}

std::string controller_of(const Home& home) {
  std::ifstream file(home.root / "controller.id");
  std::string id;
  file >> id;
  return id;
}

// Processes of this controller's agents: name and node.
std::vector<DrillVictim> processes_on(const Home& home, const std::vector<std::string>& nodes) {
  const std::string controller = controller_of(home);
  std::vector<DrillVictim> found;
  for (const ProcessInfo& process : scan_processes()) {
    if (process.is_dead() || controller.empty()) continue;
    if (option_of(process.pid, "--controller") != controller) continue;
    const std::string node = node_of_agent(process.pid);
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) continue;
    found.push_back({node, process});
  }
  return found;
}

std::vector<std::string> names_of(const std::vector<DrillVictim>& victims) {
  std::vector<std::string> names;
  for (const DrillVictim& each : victims) names.push_back(each.name);
  return names;
}

std::optional<ProcessInfo> above(const ProcessInfo& process, std::string_view name) {
  std::optional<ProcessInfo> at = process;
  for (int i = 0; at && i < most_parents; ++i) {
    if (at->name == name) return at;
    at = read_process(at->parent);
  }
  return std::nullopt;
}

bool belongs_to(const ProcessInfo& process, const JobId& job) {
  return environment_entry(read_process_environment(process.pid), env_job) == job.value;
}

}  // namespace

std::vector<ProcessInfo> job_processes(const JobId& job) {
  std::vector<ProcessInfo> found;
  for (ProcessInfo& process : scan_processes()) {
    if (!process.is_dead() && belongs_to(process, job)) found.push_back(std::move(process));
  }
  return found;
}

std::string checkpoints_of(const JobId& job) {
  for (const ProcessInfo& process : job_processes(job)) {
    const auto folder =
        environment_entry(read_process_environment(process.pid), env_checkpoint_dir);
    if (folder) return "/proc/" + std::to_string(process.pid) + "/root" + *folder;
  }
  return "";
}

std::string rank_name(int rank) {
  return "rank " + std::to_string(rank);
}

std::string describe(const DrillVictim& victim) {
  return (victim.name.empty() ? "" : victim.name + ", ") + "process " + describe(victim.process);
}

std::vector<DrillVictim> rank_processes(const JobId& job) {
  std::map<pid_t, RankProcess> all;
  for (ProcessInfo& process : job_processes(job)) {
    const std::string environment = read_process_environment(process.pid);
    const auto text = environment_entry(environment, "RANK");
    const auto rank = text ? number_in(*text) : std::nullopt;
    // mpirun and its daemons carry the number of a rank, but have no heartbeat to give.
    if (rank && environment_entry(environment, env_heartbeat))
      all.emplace(process.pid, RankProcess{*rank, std::move(process)});
  }
  std::vector<RankProcess> first;
  for (const auto& [pid, each] : all) {
    const auto parent = all.find(each.process.parent);
    if (parent == all.end() || parent->second.rank != each.rank) first.push_back(each);
  }
  // A child that left its parent comes later than the rank's first process.
  const auto order = [](const RankProcess& a, const RankProcess& b) {
    return std::pair(a.rank, a.process.start_ticks) < std::pair(b.rank, b.process.start_ticks);
  };
  std::sort(first.begin(), first.end(), order);
  const auto same = [](const RankProcess& a, const RankProcess& b) { return a.rank == b.rank; };
  first.erase(std::unique(first.begin(), first.end(), same), first.end());
  std::vector<DrillVictim> named;
  for (RankProcess& each : first) {
    named.push_back({rank_name(each.rank), std::move(each.process)});
  }
  return named;
}

std::vector<DrillVictim> agents_of(const JobId& job) {
  std::map<std::string, DrillVictim> by_node;
  for (const ProcessInfo& process : job_processes(job)) {
    const auto agent = above(process, agent_name);
    if (!agent) continue;
    const std::string node = node_of_agent(agent->pid);
    if (!node.empty()) by_node.emplace(node, DrillVictim{node, *agent});
  }
  std::vector<DrillVictim> agents;
  for (auto& [node, agent] : by_node) agents.push_back(std::move(agent));
  return agents;
}

std::vector<DrillVictim> agents_on(const Home& home, const std::vector<std::string>& nodes) {
  std::vector<DrillVictim> found = processes_on(home, nodes);
  std::erase_if(found, [](const DrillVictim& each) { return each.process.name != agent_name; });
  return found;
}

std::vector<DrillVictim> connections_to(const Home& home, const std::vector<DrillVictim>& agents) {
  std::vector<DrillVictim> found = processes_on(home, names_of(agents));
  // The agent and its keeper were forked from such a process and kept its command line.
  std::erase_if(found, [](const DrillVictim& each) {
    const std::string& name = each.process.name;
    return name == agent_name || name == keeper_name;
  });
  for (DrillVictim& each : found) {
    if (auto sshd = above(each.process, "sshd")) each.process = *sshd;
  }
  return found;
}

}  // namespace muster
