#include "tests/launcher/agent/bench/bench_agent.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/agent/node/process_scan.h"
#include "tests/catch.h"

namespace muster {

namespace {

// Nobody pings.
constexpr Milliseconds lease{3'600'000};

double used_by(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  REQUIRE(::clock_getcpuclockid(pid, &clock) == 0);
  REQUIRE(::clock_gettime(clock, &used) == 0);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

pid_t reader_of(pid_t agent) {
  for (const ProcessInfo& process : scan_processes()) {
    const bool is_reader =
        process.parent == agent &&
        read_file("/proc/" + std::to_string(process.pid) + "/cmdline").find("read-health") !=
            std::string::npos;
    if (is_reader) return process.pid;
  }
  return 0;
}

}  // namespace

BenchAgent::BenchAgent(const std::string& root, const std::optional<HealthProfile>& profile)
    : client_(served(node_, root)) {
  Hello hello{wire_version, node_.controller(), NodeId{node_.name()}, lease, {}};
  hello.health = profile;
  client_.ask<Welcome>(hello);
}

AgentClient BenchAgent::served(TestNode& node, const std::string& root) {
  ::setenv("MUSTER_SYSROOT", root.c_str(), 1);
  REQUIRE(node.serve() == 0);
  return node.connect();
}

void BenchAgent::pass_gate() {
  CheckNode check;
  check.job = JobId{"job"};
  check.with_health = true;
  const auto gate = client_.ask<CheckDone>(check);
  for (const CheckFailure& failure : gate.failures) {
    INFO(failure.check << ": " << failure.message);
    CHECK_FALSE(failure.check.starts_with("gpu."));
    CHECK_FALSE(failure.check.starts_with("ib."));
  }
}

void BenchAgent::start_rank() {
  const auto started = client_.ask<StartDone>(a_start("exec sleep 3600"));
  REQUIRE(started.error.empty());
}

bool BenchAgent::await_fault(const std::string& check, const std::string& device, Remedy at_least,
                             std::chrono::milliseconds limit) {
  const auto is_it = [&](const NodeFault& fault) {
    return fault.check == check && fault.device == device && fault.remedy >= at_least;
  };
  return client_.wait(
      [&] {
        const auto told = client_.await<FaultsTold>(std::chrono::milliseconds{1});
        return told && std::ranges::any_of(told->faults, is_it);
      },
      limit);
}

ProcessorTime BenchAgent::used() {
  const pid_t agent = node_.agent_pid();
  const pid_t helper = reader_of(agent);
  if (helper_ == 0) helper_ = helper;
  REQUIRE(helper == helper_);
  return {used_by(agent), helper == 0 ? 0 : used_by(helper)};
}

}  // namespace muster
