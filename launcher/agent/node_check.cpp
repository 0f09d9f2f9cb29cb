#include "launcher/agent/node_check.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>

#include <filesystem>
#include <memory>

#include "health/checks/host/facts.h"
#include "health/checks/start_gate.h"
#include "launcher/agent/node/spawn.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// The first address of an interface that is up and not the loopback.
std::string own_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const bool is_usable = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_usable || at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    return text;
  }
  return {};
}

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// A start would begin at an older step, or anew, and nobody would know.
CheckFailure unseen_checkpoints(const CheckpointProbe& probe) {
  return {"job.checkpoints", "cannot list the job's checkpoints: " + probe.trouble +
                                 "; mend that, or set muster.checkpoint.path to another directory"};
}

namespace fs = std::filesystem;

}  // namespace

CheckDone check_node(const CheckNode& request, const std::string& home,
                     const std::string& path_list, const SavePlaces& places) {
  StartGateFacts facts = read_start_gate_facts(home);
  for (const std::string& program : request.programs) {
    if (!find_program(program, path_list)) facts.missing_programs.push_back(program);
  }
  CheckDone done;
  done.job = request.job;
  done.attempt = request.attempt;
  done.failures = judge_start_gate(
      facts, {request.expected_host, request.now_ms, request.skip, request.health.only});
  if (const auto since = request.saves.quarantine_since; since && !places.foreign.empty()) {
    done.quarantined =
        quarantine_incomplete(places.foreign, places.settings,
                              {*since, request.saves.quarantine_until}, request.attempt.value);
  }
  CheckpointProbe checkpoints = probe_checkpoints(places, request.asked_step);
  done.newest_checkpoint = std::move(checkpoints.newest);
  done.newest_certified = std::move(checkpoints.newest_certified);
  done.asked_checkpoint = std::move(checkpoints.asked);
  if (!checkpoints.trouble.empty()) done.failures.push_back(unseen_checkpoints(checkpoints));
  return done;
}

Welcome describe_node() {
  Welcome welcome;
  welcome.boot_id = read_boot_id();
  welcome.host_name = read_host_name();
  welcome.address = own_address();
  welcome.cores = usable_cores();
  welcome.memory_bytes = read_memory("MemTotal").value_or(0);
  return welcome;
}

std::string system_root(const Environment& own) {
  const auto root = own.find(system_root_name);
  return root == own.end() ? "/" : root->second;
}

Result<int> count_gpus(const std::string& root) {
  const fs::path list = fs::path(root) / "proc/driver/nvidia/gpus";
  std::error_code failed;
  fs::directory_iterator entry(list, failed);
  int count = 0;
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (mentions(name, ".") && normal_pci_address(name)) ++count;
  }
  if (!failed || failed == std::errc::no_such_file_or_directory) return count;
  return Error{"cannot count the GPUs in " + list.string() + ": " + failed.message()};
}

}  // namespace muster
