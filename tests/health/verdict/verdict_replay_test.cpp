// Healthy but noisy nodes are never drained, broken ones always are. Synthetic: each check draws
// its noise from a seeded source.
#include <functional>
#include <random>

#include "tests/catch.h"
#include "tests/health/simulated_fleet.h"
#include "tests/health/verdict/verdict_builders.h"

using namespace muster;

namespace {

constexpr int nodes_of_fleet = 100;
constexpr int runs_of_node = 120;
constexpr int gpus = 8;
constexpr int ports = 8;

HealthProfile strict_profile() {
  HealthProfile profile;
  profile.required = {"gpu.count", "ib.state", "host.mem"};
  profile.checks["*"].mode = CheckMode::enforce;
  profile.checks["new.check"].mode = CheckMode::observe;
  return profile;
}

// One node that nothing is wrong with.
class NoisyNode {
 public:
  explicit NoisyNode(std::uint64_t seed) : random_(seed) {}

  std::vector<HealthFinding> run(int step, Seconds uptime) {
    std::vector<HealthFinding> findings;
    add_states(findings, uptime);
    add_counters(findings);
    add_own_kill(findings);
    add_new_check(findings);
    // One NFS server stalls, seen by all nodes in the same run.
    findings.push_back(step == 60 ? a_failure("host.mount_stall", "/data")
                                  : a_pass("host.mount_stall", "/data"));
    return findings;
  }

 private:
  bool happens(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }

  // Single bad polls, never two in a row: the next one of a healthy node is good.
  HealthFinding state(const std::string& check, const std::string& device) {
    bool& was_odd = odd_[check + device];
    const bool is_odd = !was_odd && happens(0.02);
    was_odd = is_odd;
    if (!is_odd) return a_pass(check, device);
    return happens(0.5) ? an_unknown(check, device)
                        : a_failure(check, device, {Remedy::reset, Remedy::rma, true});
  }

  // Links come up one by one after a boot, and bounce until then.
  HealthFinding link(const std::string& check, const std::string& device, Seconds uptime) {
    if (uptime < Seconds{280} && happens(0.6)) {
      return a_failure(check, device, {Remedy::drain, {}, true});
    }
    return state(check, device);
  }

  void add_states(std::vector<HealthFinding>& findings, Seconds uptime) {
    for (const char* check : {"gpu.count", "host.mem", "gpu.fabric"}) {
      findings.push_back(state(check, ""));
    }
    for (int i = 0; i < gpus; ++i) {
      findings.push_back(link("gpu.nvlink_active", "gpu" + std::to_string(i), uptime));
    }
    for (int i = 0; i < ports; ++i) {
      const std::string port = "mlx5_" + std::to_string(i) + ":1";
      for (const char* check : {"ib.state", "ib.phys"}) {
        findings.push_back(link(check, port, uptime));
      }
    }
  }

  // Grows, stays at its limit at most, and begins anew when the driver is loaded again.
  void add_counters(std::vector<HealthFinding>& findings) {
    for (int i = 0; i < ports; ++i) {
      std::int64_t& rate = rates_[i];
      rate = happens(0.01) ? 0 : std::min<std::int64_t>(120, rate + (happens(0.3) ? 1 : 0));
      HealthFinding finding = a_pass("delta.symbol", "mlx5_" + std::to_string(i) + ":1");
      finding.value = std::to_string(rate);
      findings.push_back(happens(0.01) ? an_unknown("delta.symbol", finding.device) : finding);
    }
  }

  // Ranks that were killed leave XIDs behind; they are recorded.
  void add_own_kill(std::vector<HealthFinding>& findings) {
    if (!happens(0.1)) {
      findings.push_back(a_pass("gpu.xid"));
      return;
    }
    const std::string gpu = "gpu" + std::to_string(random_() % gpus);
    for (const char* code : {"43", "45"}) findings.push_back(an_xid(code, {}, gpu));
    HealthFinding segfault = an_xid("31", {Remedy::warn, Remedy::drain, false}, gpu);
    segfault.fault_class = FaultClass::user;
    findings.push_back(segfault);
  }

  void add_new_check(std::vector<HealthFinding>& findings) {
    findings.push_back(happens(0.9) ? a_failure("new.check", "", {Remedy::rma, {}, true})
                                    : a_pass("new.check"));
  }

  std::mt19937_64 random_;
  std::map<std::string, bool> odd_;
  std::map<int, std::int64_t> rates_;
};

struct Replayed : WatchedNode {
  int would_drain = 0;
  std::optional<int> drained_at;

  // `spoil` may change what the run of that step found.
  void replay(std::uint64_t seed, int runs = runs_of_node,
              const std::function<void(int, std::vector<HealthFinding>&)>& spoil = {}) {
    NoisyNode noise(seed);
    uptime = Seconds{20};
    for (int step = 0; step < runs; ++step) {
      job = "job" + std::to_string(step / 10);
      std::vector<HealthFinding> findings = noise.run(step, *uptime);
      if (spoil) spoil(step, findings);
      const Seconds pause = samples_wanted(streaks, rules).empty() ? Seconds{5} : fast_sampling;
      now += pause;
      *uptime += pause + Seconds{1};
      run(findings);
      const NodeVerdict found = verdict();
      would_drain += !found.would_drain.empty();
      if (found.is_drained() && !drained_at) drained_at = step;
    }
  }
};

int drains_of_fleet(const HealthProfile& profile, int nodes, int& would_drain) {
  int drains = 0;
  for (int i = 0; i < nodes; ++i) {
    Replayed node;
    node.profile = profile;
    node.replay(static_cast<std::uint64_t>(i));
    if (node.drained_at) {
      UNSCOPED_INFO("node " << i << " at " << *node.drained_at << ": " << node.verdict().reason());
    }
    drains += node.drained_at.has_value();
    would_drain += node.would_drain;
  }
  return drains;
}

// A failure takes the place of what the run found of the device.
void put(std::vector<HealthFinding>& findings, const HealthFinding& bad) {
  std::erase_if(findings, [&](const HealthFinding& finding) {
    return finding.check == bad.check && finding.device == bad.device;
  });
  findings.push_back(bad);
}

}  // namespace

TEST_CASE("none of 12,000 runs on healthy, noisy nodes drains one") {
  static_assert(nodes_of_fleet * runs_of_node >= 10'000);
  int would_drain = 0;
  CHECK(drains_of_fleet(strict_profile(), nodes_of_fleet, would_drain) == 0);
  CHECK(would_drain > 1'000);  // checks that observe go on telling
}

TEST_CASE("the same noise drains nodes where one bad sample is believed") {
  HealthProfile hasty = strict_profile();
  hasty.checks["*"].samples = 1;
  int would_drain = 0;
  CHECK(drains_of_fleet(hasty, 5, would_drain) == 5);
}

TEST_CASE("every fault among the noise drains, as soon as it can be believed") {
  struct Row {
    std::string name;
    HealthFinding bad;
    int lasts;     // runs; the agent reads a state until it is mended, an event once
    int believed;  // runs until then, without noise between
  };
  const CheckSeverity stops{Remedy::reset, Remedy::rma, true};
  const int ever = runs_of_node;
  const std::vector<Row> rows{{"a port is down", a_failure("ib.state", "mlx5_3:1", stops), ever, 3},
                              {"a GPU is gone", a_failure("gpu.count", "", stops), ever, 3},
                              {"memory is lost", a_failure("host.mem", ""), ever, 3},
                              {"a mount hangs", a_failure("host.mount_stall", "/data"), ever, 3},
                              {"an XID", an_xid("79", stops, "gpu5"), 1, 1},
                              {"a counter grew once", a_failure("delta.symbol", "mlx5_0:1"), 1, 1},
                              {"a required source is silent", an_unknown("host.mem"), ever, 3},
                              {"a check nobody expected", a_failure("site.rule", "x"), ever, 3},
                              {"the agent is silent", an_unknown("host.agent"), ever, 3}};
  for (const Row& row : rows) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      INFO(row.name << ", seed " << seed);
      const int begin = 70 + static_cast<int>(seed);
      Replayed node;
      node.profile = strict_profile();
      node.replay(seed, begin + 4, [&](int step, std::vector<HealthFinding>& findings) {
        if (step >= begin && step < begin + row.lasts) put(findings, row.bad);
      });
      REQUIRE(node.drained_at);
      CHECK(*node.drained_at >= begin);
      CHECK(*node.drained_at < begin + row.believed);
      CHECK(node.verdict().drains.front().finding.check == row.bad.check);
    }
  }
}

namespace {

NodeId id_of(int number) {
  return NodeId{"n" + std::to_string(number)};
}

// The fleet, as the scheduler sees it when the file server has been away for so many of its nodes.
SimulatedFleet stalled_fleet(int stalled_nodes, bool knows_shared_causes) {
  SimulatedFleet fleet(from_ms(1'000'000'000));
  if (!knows_shared_causes) fleet.forget_shared_causes();
  std::vector<NodeId> nodes;
  for (int i = 0; i < nodes_of_fleet; ++i) nodes.push_back(id_of(i));
  fleet.add_target("lab", nodes, strict_profile());
  for (int i = 0; i < nodes_of_fleet; ++i) {
    Replayed node;
    node.profile = strict_profile();
    node.replay(static_cast<std::uint64_t>(i), 14,
                [&](int step, std::vector<HealthFinding>& findings) {
                  const bool is_away = step >= 10 && i < stalled_nodes;
                  if (is_away) put(findings, a_failure("host.mount_stall", "/data"));
                });
    fleet.tell(id_of(i), node.verdict());
  }
  fleet.pass_until(fleet.now() + Seconds{600});
  return fleet;
}

}  // namespace

TEST_CASE("one storage fault on all nodes opens the breaker and drains none of them") {
  const SimulatedFleet fleet = stalled_fleet(nodes_of_fleet, true);
  CHECK(fleet.drains().empty());
  CHECK(fleet.open_breakers() == std::vector<std::string>{"host.mount_stall@lab"});
}

TEST_CASE("the same on one node drains it") {
  const SimulatedFleet fleet = stalled_fleet(1, true);
  REQUIRE(fleet.drains().size() == 1);
  CHECK(fleet.has_drained(id_of(0)));
  CHECK(fleet.drains().front().reason.starts_with("muster:node:host.mount_stall:"));
  CHECK(fleet.open_breakers().empty());
}

TEST_CASE("a scheduler that did not wait would drain as many as the breaker lets it") {
  const SimulatedFleet fleet = stalled_fleet(nodes_of_fleet, false);
  CHECK(fleet.drains().size() == 5);
}
