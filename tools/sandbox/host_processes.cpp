#include "tools/sandbox/host_processes.h"

#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>
#include <thread>
#include <utility>

#include "tools/sandbox/files.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// A killed process whose disk is slow goes late; one that is not gone by then is stuck.
constexpr std::chrono::seconds kill_limit{20};
constexpr std::chrono::milliseconds kill_pause{5};

// What makes two views of one network the same.
using NetworkId = std::pair<dev_t, ino_t>;

std::optional<NetworkId> network_id(const std::filesystem::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return NetworkId{facts.st_dev, facts.st_ino};
}

std::filesystem::path init_file(const SandboxLayout& layout, const std::string& host) {
  return layout.host(host) / "init";
}

std::string names_of(const std::vector<ProcessInfo>& processes) {
  std::string text;
  for (const ProcessInfo& each : processes) text += (text.empty() ? "" : ", ") + describe(each);
  return text;
}

}  // namespace

std::vector<ProcessInfo> processes_of(const SandboxLayout& layout,
                                      const std::vector<std::string>& hosts) {
  std::set<NetworkId> networks;
  for (const std::string& host : hosts) {
    if (const auto id = network_id(layout.network(host))) networks.insert(*id);
  }
  std::vector<ProcessInfo> found;
  if (networks.empty()) return found;
  for (ProcessInfo& process : scan_processes()) {
    const auto id = network_id("/proc/" + std::to_string(process.pid) + "/ns/net");
    if (id && networks.contains(*id)) found.push_back(std::move(process));
  }
  return found;
}

Status kill_hosts(const SandboxLayout& layout, const std::vector<std::string>& hosts) {
  const auto deadline = Clock::now() + kill_limit;
  while (true) {
    auto left = processes_of(layout, hosts);
    // A network whose name somebody deleted is not found; its host still is.
    for (const std::string& host : hosts) {
      if (auto init = running_init(layout, host)) left.push_back(std::move(*init));
    }
    if (left.empty()) return Done{};
    if (Clock::now() > deadline) {
      return Error{"these processes survive SIGKILL: " + names_of(left)};
    }
    for (const ProcessInfo& process : left) signal_process(process, SIGKILL);
    std::this_thread::sleep_for(kill_pause);
  }
}

std::optional<ProcessInfo> running_init(const SandboxLayout& layout, const std::string& host) {
  const auto text = read_file_if_there(init_file(layout, host));
  if (!text || !*text) return std::nullopt;
  ProcessInfo init;
  unsigned long long ticks = 0;
  if (std::sscanf((*text)->c_str(), "%d %llu", &init.pid, &ticks) != 2) return std::nullopt;
  init.start_ticks = ticks;
  return HostProcesses().is_alive(init) ? std::optional(init) : std::nullopt;
}

Status remember_init(const SandboxLayout& layout, const std::string& host, pid_t init) {
  const auto process = read_process(init);
  if (!process) return Error{host + " went off at once"};
  return write_file(init_file(layout, host),
                    std::to_string(init) + " " + std::to_string(process->start_ticks) + "\n", 0644);
}

}  // namespace muster
