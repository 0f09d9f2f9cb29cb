// One run of the checks on a complete fake node: what it reads, and what it says.
#include <algorithm>

#include "health/learn/profile.h"
#include "health/monitor/check_run.h"
#include "health/monitor/node_monitor.h"
#include "health/read/files.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/monitor_profile.h"
#include "tests/health/simulated_agent.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr SourceGroups states = static_cast<SourceGroups>(SourceGroup::infiniband_state);
constexpr SourceGroups counters = static_cast<SourceGroups>(SourceGroup::infiniband_counters);
constexpr SourceGroups gpus = static_cast<SourceGroups>(SourceGroup::gpu);
constexpr SourceGroups host = static_cast<SourceGroups>(SourceGroup::host);

struct Ran {
  FakeNode node{FakeKind::h100};
  SimulatedAgent agent{node, monitor_profile(), a_day_up};

  std::vector<HealthFinding> run(Phase phase, SourceGroups groups = all_source_groups) {
    return agent.run(phase, groups);
  }
};

bool has_check(const std::vector<HealthFinding>& findings, std::string_view check) {
  return std::ranges::any_of(findings,
                             [&](const HealthFinding& one) { return one.check == check; });
}

std::vector<std::string> not_passed(const std::vector<HealthFinding>& findings) {
  std::vector<std::string> all;
  for (const HealthFinding& one : findings) {
    if (one.status != CheckStatus::pass)
      all.push_back(one.check + " " + one.device + " " + std::string(word_of(one.status)) +
                    (one.evidence.empty() ? "" : ": " + one.evidence.front()));
  }
  return all;
}

NodeReadRequest request_of(const RunStep& step) {
  REQUIRE(std::holds_alternative<ReadNext>(step));
  return std::get<ReadNext>(step).request;
}

bool asks_for(const NodeReadRequest& request, std::string_view part) {
  return std::ranges::any_of(request.sources,
                             [&](const std::string& one) { return one.find(part) != one.npos; });
}

}  // namespace

TEST_CASE("a healthy node passes all checks of every phase") {
  for (const Phase phase : {Phase::prolog, Phase::periodic, Phase::epilog, Phase::on_failure,
                            Phase::on_demand, Phase::qualification}) {
    Ran ran;
    ran.agent.situation.is_idle = phase != Phase::periodic;
    ran.run(phase);  // counters have nothing to compare with
    ran.agent.run_for(30s);
    const auto findings = ran.run(phase);
    INFO("phase " << static_cast<int>(phase));
    CHECK(findings.size() > 30);
    CHECK(not_passed(findings) == std::vector<std::string>());
  }
}

TEST_CASE("a healthy node of eight A100 passes as well") {
  FakeNode node(FakeKind::a100);
  SimulatedAgent agent(node, monitor_profile(FakeKind::a100), a_day_up);
  agent.run(Phase::qualification);
  agent.run_for(30s);
  CHECK(not_passed(agent.run(Phase::qualification)) == std::vector<std::string>());
}

TEST_CASE("a node passes the profile that was learned from it, whatever it lacks") {
  FakeNode node(FakeKind::h100);
  node.set("rlimit:memlock", "soft 8388608\nhard 8388608\n");
  node.remove("/sys/class/nvme");
  LearnedProfile learned = learn_profile(node.read(learning_request()), "small");
  learned.profile.host.mounts.clear();  // the fake node only lists them
  CHECK(learned.profile.host.nvmes == 0);
  CHECK(is_excluded(learned.profile, "host.rlimit", ""));
  CHECK(learned.left_out ==
        std::vector<std::string>{"host.rlimit: this node's memlock is 8388608"});
  SimulatedAgent agent(node, learned.profile, a_day_up);
  agent.run(Phase::qualification);
  agent.run_for(30s);
  CHECK(not_passed(agent.run(Phase::qualification)) == std::vector<std::string>());
}

TEST_CASE("a run tells only of the groups that it read") {
  Ran ran;
  for (const SourceGroup group : every_source_group) {
    const auto findings = ran.run(Phase::qualification, static_cast<SourceGroups>(group));
    CHECK_FALSE(findings.empty());
    for (const HealthFinding& one : findings) {
      INFO(one.check);
      CHECK(group_of(one.check) == static_cast<SourceGroups>(group));
    }
  }
  const auto links = ran.run(Phase::qualification, states);
  CHECK(not_passed(links) == std::vector<std::string>());
  CHECK(has_check(links, "ib.pkey"));
  CHECK(has_check(links, "ib.flap"));
  CHECK_FALSE(has_check(links, "ib.symbol"));
}

TEST_CASE("a run tells only of the checks that have its phase") {
  Ran ran;
  const auto periodic = ran.run(Phase::periodic);
  CHECK(has_check(periodic, "gpu.temp"));
  CHECK(has_check(periodic, "gpu.xid"));
  CHECK_FALSE(has_check(periodic, "gpu.ecc_mode"));
  CHECK_FALSE(has_check(periodic, "ib.pkey"));
  const auto prolog = ran.run(Phase::prolog);
  CHECK(has_check(prolog, "gpu.ecc_mode"));
  CHECK(has_check(prolog, "gpu.devnodes"));
  CHECK(has_check(prolog, "ib.chardev"));
  CHECK_FALSE(has_check(prolog, "gpu.temp"));
  CHECK_FALSE(has_check(prolog, "host.dstate"));
}

TEST_CASE("what is off or left out is not told") {
  FakeNode node(FakeKind::h100);
  HealthProfile profile = monitor_profile();
  profile.checks["gpu.temp"].mode = CheckMode::off;
  profile.exclude.push_back({"ib.*", "mlx5_ib3", "spare"});
  SimulatedAgent agent(node, profile, a_day_up);
  const auto findings = agent.run(Phase::qualification);
  CHECK_FALSE(has_check(findings, "gpu.temp"));
  CHECK(has_check(findings, "ib.state"));
  for (const HealthFinding& one : findings) CHECK(one.device.find("mlx5_ib3") == std::string::npos);
}

TEST_CASE("the driver's library is asked last, and in a job for less") {
  Ran ran;
  CheckSituation idle;
  CheckRun before(ran.agent.monitor(), idle);
  CHECK_FALSE(request_of(before.next()).gpus);
  CHECK(asks_for(request_of(before.next()), "/sys/bus/pci/devices/*/vendor"));
  CHECK(asks_for(request_of(before.next()), "open:/dev/infiniband/uverbs*"));
  CHECK(asks_for(request_of(before.next()), "open:/dev/nvidia7"));
  before.read(ran.node.read(request_of(before.next())), ran.agent.now());
  REQUIRE(request_of(before.next()).gpus);
  CHECK(request_of(before.next()).gpus->processes);
  CHECK(request_of(before.next()).gpus->inforom);
  CHECK(asks_for(request_of(before.next()), "0000:5d:00.0/config"));

  CheckSituation busy;
  busy.phase = Phase::periodic;
  busy.groups = gpus;
  busy.is_idle = false;
  CheckRun during(ran.agent.monitor(), busy);
  CHECK_FALSE(asks_for(request_of(during.next()), "infiniband"));
  CHECK_FALSE(asks_for(request_of(during.next()), "open:"));
  during.read(ran.node.read(request_of(during.next())), ran.agent.now());
  CHECK_FALSE(request_of(during.next()).gpus->processes);
  CHECK_FALSE(request_of(during.next()).gpus->inforom);
}

TEST_CASE("stuck processes are looked at five times, a second apart") {
  Ran ran;
  ran.node.set("/proc/4242/stat",
               "4242 (nvidia-smi) D 1 1 1 0 -1 0 0 0 0 0 0 7 0 0 20 0 1 0 0 9 0");
  ran.node.set("/proc/4242/status", "Name:\tnvidia-smi\nvoluntary_ctxt_switches:\t3\n");
  CheckSituation situation;
  situation.groups = static_cast<SourceGroups>(SourceGroup::processes);
  CheckRun run(ran.agent.monitor(), situation);
  int looks = 0;
  for (RunStep step = run.next(); !std::holds_alternative<RunOver>(step); step = run.next()) {
    if (std::holds_alternative<PauseNext>(step)) {
      CHECK(std::get<PauseNext>(step).time == 1s);
      run.paused();
      continue;
    }
    ++looks;
    run.read(ran.node.read(request_of(step)), ran.agent.now());
  }
  CHECK(looks == 5);
  CHECK(not_passed(run.findings()) ==
        std::vector<std::string>{"host.dstate  fail: process 4242 nvidia-smi", "gpu.dstate  fail"});

  situation.may_pause = false;
  CheckRun quick(ran.agent.monitor(), situation);
  quick.read(ran.node.read(request_of(quick.next())), ran.agent.now());
  CHECK(std::holds_alternative<RunOver>(quick.next()));
  CHECK(quick.findings().empty());
}

TEST_CASE("one look is enough where nobody sleeps") {
  Ran ran;
  const auto findings = ran.run(Phase::periodic, static_cast<SourceGroups>(SourceGroup::processes));
  CHECK(not_passed(findings) == std::vector<std::string>());
  CHECK(has_check(findings, "host.dstate"));
  CHECK(has_check(findings, "gpu.dstate"));
}

TEST_CASE("processes of users whose jobs ended are left over") {
  Ran ran;
  ran.run(Phase::epilog);
  ran.agent.run_for(30s);
  ran.node.set("/proc/5000/stat", "5000 (python) S 1 1 1 0 -1 0 0 0 0 0 0 7 0 0 20 0 1 0 0 9 0");
  ran.node.set("stat:/proc/5000", "uid 1007\nbytes 0\nmodified_s 0\n");
  ran.agent.situation.ended_uids = {1007};
  const auto findings = ran.run(Phase::epilog);
  CHECK(not_passed(findings) ==
        std::vector<std::string>{"host.leftovers  fail: process 5000 python"});
  ran.agent.situation.ended_uids = {1008};
  CHECK(not_passed(ran.run(Phase::epilog)) == std::vector<std::string>());
}

TEST_CASE("a node without GPUs or ports is not asked for them") {
  FakeNode node(FakeKind::h100);
  HealthProfile profile;
  profile.gpu.count = 0;
  SimulatedAgent agent(node, profile, a_day_up);
  CheckRun run(agent.monitor(), CheckSituation{});
  CHECK_FALSE(has(run.groups(), SourceGroup::gpu));
  CHECK_FALSE(has(run.groups(), SourceGroup::infiniband_counters));
  CHECK(has(run.groups(), SourceGroup::host));
  CHECK_FALSE(has_check(agent.run(Phase::qualification), "gpu.xid"));
}

TEST_CASE("a driver that hangs leaves what it said before, and all else") {
  Ran ran;
  ran.run(Phase::qualification);
  ran.node.nvml_stops_at("gpu5.nvmlDeviceGetEccMode");
  const auto findings = ran.run(Phase::qualification);
  const auto status = [&](std::string_view check, std::string_view device) {
    const auto found = std::ranges::find_if(findings, [&](const HealthFinding& one) {
      return one.check == check && one.device == device;
    });
    return found == findings.end() ? "none" : std::string(word_of(found->status));
  };
  CHECK(status("gpu.ecc_mode", "gpu4") == "pass");
  CHECK(status("gpu.ecc_mode", "gpu5") == "unknown");
  CHECK(status("gpu.ecc_mode", "gpu6") == "unknown");
  CHECK(status("ib.state", "mlx5_ib0:1") == "pass");
  CHECK(status("host.mem", "") == "pass");
  // What the GPUs behind it were is still known.
  ran.node.nvml_stops_at("");
  ran.agent.run_for(60s);
  CHECK(ran.agent.verdict().drains.empty());
}

TEST_CASE("what its reads took is told for each finding") {
  Ran ran;
  CheckSituation situation;
  situation.groups = states | gpus;
  CheckRun run(ran.agent.monitor(), situation);
  NodeReadings first = ran.node.read(request_of(run.next()));
  first.files_took = 12ms;
  run.read(first, ran.agent.now());
  NodeReadings second = ran.node.read(request_of(run.next()));
  second.files_took = 1ms;
  second.gpus_took = 300ms;
  run.read(second, ran.agent.now());
  for (const HealthFinding& one : run.findings())
    CHECK(run.took_ms(one) == (one.check.starts_with("gpu.") ? 301.0 : 12.0));
}

TEST_CASE("beside ranks a look at the links reads what changes with them, once devices are known") {
  Ran ran;
  const auto asked = [&](Phase phase, SourceGroups groups) {
    CheckSituation situation;
    situation.phase = phase;
    situation.groups = groups;
    return request_of(CheckRun(ran.agent.monitor(), situation).next());
  };
  CHECK(asks_for(asked(Phase::periodic, states), "/node_guid"));
  ran.run(Phase::periodic, states);
  CHECK(asks_for(asked(Phase::periodic, states), "/node_guid"));  // nobody looked at counters
  ran.run(Phase::periodic, states | counters);
  const NodeReadRequest links = asked(Phase::periodic, states);
  CHECK(links.sources.size() == 3);
  CHECK(asks_for(links, "/phys_state"));
  CHECK(asks_for(asked(Phase::prolog, states), "/node_guid"));
  CHECK(asks_for(asked(Phase::periodic, states | counters), "/node_guid"));

  const auto findings = ran.run(Phase::periodic, states);
  CHECK(not_passed(findings).empty());
  for (const char* check : {"ib.devices", "ib.state", "ib.phys", "ib.rate"})
    CHECK(has_check(findings, check));
  CHECK_FALSE(has_check(findings, "ib.symbol"));
}

TEST_CASE("a link that goes down, and a device that goes, are seen by a look at links alone") {
  Ran ran;
  ran.run(Phase::periodic, states | counters);
  ran.node.set("/sys/class/infiniband/mlx5_ib2/ports/1/state", "1: DOWN\n");
  const auto down = not_passed(ran.run(Phase::periodic, states));
  CHECK(std::ranges::count(down, "ib.state mlx5_ib2:1 fail") == 1);
  ran.node.remove("/sys/class/infiniband/mlx5_ib3");
  const auto gone = not_passed(ran.run(Phase::periodic, states));
  CHECK(std::ranges::count_if(gone, [](const std::string& one) {
          return one.starts_with("ib.devices  fail: mlx5_ib3:1 is missing");
        }) == 1);
}

TEST_CASE(
    "links that say the same are judged again when counters were read, or something happened") {
  Ran ran;
  const auto is_same = [&](bool is_sound, const std::string& log_error = {}) {
    CheckSituation situation;
    situation.phase = Phase::periodic;
    situation.groups = states;
    situation.is_sound = is_sound;
    situation.kernel_log_error = log_error;
    CheckRun run(ran.agent.monitor(), situation);
    run.read(ran.node.read(request_of(run.next())), ran.agent.now());
    CHECK(std::holds_alternative<RunOver>(run.next()));
    CHECK(run.findings().empty() == run.is_same());
    return run.is_same();
  };
  CHECK_FALSE(is_same(true));  // no devices are known
  ran.run(Phase::periodic, states | counters);
  CHECK_FALSE(is_same(true));  // nothing to compare with
  CHECK(is_same(true));
  CHECK(is_same(true));
  CHECK_FALSE(is_same(false));
  CHECK(is_same(true));
  CHECK_FALSE(is_same(true, "no /dev/kmsg"));
  ran.run(Phase::periodic, counters);
  CHECK_FALSE(is_same(true));
  CHECK(is_same(true));
  const std::string state = "/sys/class/infiniband/mlx5_ib2/ports/1/state";
  ran.node.set(state, "1: DOWN\n");
  CHECK_FALSE(is_same(true));
  CHECK_FALSE(is_same(true));  // what failed is judged each time
  ran.node.set(state, "4: ACTIVE\n");
  CHECK_FALSE(is_same(true));
  CHECK(is_same(true));
  ran.agent.logs("mlx5_core " + ran.node.hca_address(1) + " ib1: Link down");
  CHECK_FALSE(is_same(true));
}

TEST_CASE("adapters that were away for a look at the counters are seen when they are back") {
  Ran ran;
  const std::string folder = "/sys/class/infiniband";
  const SourceFiles there = ran.node.files();
  ran.run(Phase::periodic, states | counters);
  ran.node.remove(folder);
  CHECK_FALSE(not_passed(ran.run(Phase::periodic, states | counters)).empty());
  CheckSituation situation;
  situation.phase = Phase::periodic;
  situation.groups = states;
  CHECK(asks_for(request_of(CheckRun(ran.agent.monitor(), situation).next()), folder + "/*/"));
  for (const auto& [path, reading] : there.all()) {
    if (path.starts_with(folder)) ran.node.set(path, reading.text);
  }
  CHECK(not_passed(ran.run(Phase::periodic, states)).empty());
}

TEST_CASE("the counters of an adapter whose firmware refuses them are left alone") {
  Ran ran;
  ran.run(Phase::periodic, states | counters);
  ran.agent.logs("mlx5_core 0000:2a:00.0: mlx5_cmd_out_err: ACCESS_REG(0x805) op_mod(0x1) failed");
  CheckSituation situation;
  situation.groups = counters;
  CheckRun run(ran.agent.monitor(), situation);
  const NodeReadRequest request = request_of(run.next());
  CHECK(asks_for(request, "/mlx5_ib0/ports/*/counters/symbol_error"));
  CHECK_FALSE(asks_for(request, "/mlx5_ib1/ports/*/counters/symbol_error"));
  CHECK_FALSE(asks_for(request, "/*/ports/*/hw_counters/"));
  ran.agent.run_for(30s);
  const auto findings = ran.run(Phase::periodic, states | counters);
  CHECK(not_passed(findings) == std::vector<std::string>());
  for (const HealthFinding& one : findings) CHECK(one.device != "mlx5_ib1:1");
}

TEST_CASE("what the fake node says is what a reader finds in such a root") {
  FakeNode node(FakeKind::h100);
  node.set_uptime(86'400);
  const FakeRoot root;
  root.write(node.files());
  const auto sources = sources_of(monitor_profile(), all_source_groups, Phase::qualification);
  NodeReadRequest request;
  request.sources = sources;
  const SourceFiles said = node.read(request).files;
  const SourceFiles read = read_files({root.path(), sources});
  for (const auto& [path, reading] : read.all()) {
    INFO(path);
    CHECK(said.reading(path).text == reading.text);
    CHECK(said.reading(path).is_missing == reading.is_missing);
  }
  for (const auto& [path, reading] : said.all()) {
    INFO(path);
    CHECK(read.all().contains(path));
  }
}

TEST_CASE("a check with a fault is asked at any time, so that its pass can end it") {
  Ran ran;
  CHECK_FALSE(has_check(ran.run(Phase::prolog, gpus), "gpu.repair_pending"));
  ran.agent.situation.standing = {"gpu.repair_pending"};
  CHECK(has_check(ran.run(Phase::prolog, gpus), "gpu.repair_pending"));
}

TEST_CASE(
    "failures of checks that a job skips, or does not ask for, are left out; passes are not") {
  Ran ran;
  ran.node.nvml("gpu3.field.230 2\ngpu4.remap.pending 1\n");
  const auto failed = [&] { return not_passed(ran.run(Phase::prolog, gpus)); };
  REQUIRE(failed().size() == 2);
  ran.agent.situation.choice.skip = {"gpu.recovery_action"};
  CHECK(failed() == std::vector<std::string>{"gpu.remap_pending gpu4 fail"});
  ran.agent.situation.choice.only = {"gpu.recovery_action", "gpu.count"};
  CHECK(failed().empty());
  const auto findings = ran.run(Phase::prolog, gpus);
  CHECK(has_check(findings, "gpu.count"));
  CHECK(has_check(findings, "gpu.ecc_mode"));
  CHECK(std::ranges::none_of(findings, [](const HealthFinding& one) {
    return one.check == "gpu.recovery_action" && one.device == "gpu3";
  }));
}
