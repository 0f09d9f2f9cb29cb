#include <algorithm>

#include "health/fabric/judges.h"
#include "tests/catch.h"
#include "tests/health/fabric/fabric_finding.h"
#include "tests/health/fabric/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;
using std::chrono::seconds;

namespace {

constexpr FabricEnd n2_at_leaf{0x200000, 3};
constexpr FabricEnd uplink{0x200000, 8};

using Counters = std::map<FabricEnd, std::map<std::string, std::uint64_t>>;

FabricErrors sample(Counters counters) {
  FabricErrors errors;
  errors.counters = std::move(counters);
  errors.has_summary = true;
  return errors;
}
FabricFindings judged_errors(const FabricErrors& before, const FabricErrors& after,
                             int between_s = 300, const HealthProfile& profile = {}) {
  return judge_fabric_errors(before, after, seconds(between_s), linked_fabric(), profile);
}
CheckStatus status_of_n2(const char* counter, std::uint64_t before, std::uint64_t after,
                         int between_s = 300) {
  return finding_at(judged_errors(sample({{n2_end, {{counter, before}}}}),
                                  sample({{n2_end, {{counter, after}}}}), between_s),
                    "n2", "mlx5_0:1")
      .status;
}
bool has_evidence(const HealthFinding& finding, std::string_view words) {
  return std::ranges::any_of(finding.evidence, [&](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("no growth passes on every cable, however high the counters stand") {
  const auto old_errors =
      sample({{n2_end, {{"SymbolErrorCounter", 42}, {"LinkDownedCounter", 9}}}});
  const auto findings = judged_errors(old_errors, old_errors);
  CHECK(findings.size() == 8);
  CHECK(std::ranges::all_of(
      findings, [](const FabricFinding& one) { return one.finding.status == CheckStatus::pass; }));
}

TEST_CASE("each counter has its limit") {
  struct Row {
    const char* counter;
    std::uint64_t within;  // growth in 300 s that passes
    std::uint64_t over;    // and that fails
  };
  for (const Row& row : std::vector<Row>{{"SymbolErrorCounter", 10, 11},
                                         {"LinkErrorRecoveryCounter", 25, 26},
                                         {"LinkDownedCounter", 0, 1},
                                         {"PortRcvErrors", 3000, 3001},
                                         {"PortRcvRemotePhysicalErrors", 8, 9},
                                         {"PortRcvSwitchRelayErrors", 8, 9},
                                         {"PortXmitDiscards", 30000, 30001},
                                         {"PortXmitConstraintErrors", 8, 9},
                                         {"PortRcvConstraintErrors", 8, 9},
                                         {"LocalLinkIntegrityErrors", 0, 1},
                                         {"ExcessiveBufferOverrunErrors", 0, 1},
                                         {"VL15Dropped", 8, 9}}) {
    INFO(row.counter);
    CHECK(status_of_n2(row.counter, 2, 2 + row.within) == CheckStatus::pass);
    CHECK(status_of_n2(row.counter, 2, 2 + row.over) == CheckStatus::fail);
  }
  CHECK(status_of_n2("PortXmitWait", 0, 1u << 31) == CheckStatus::pass);
}

TEST_CASE("one error in a short time is not thousands an hour") {
  CHECK(status_of_n2("SymbolErrorCounter", 0, 1, 1) == CheckStatus::pass);
  CHECK(status_of_n2("SymbolErrorCounter", 0, 11, 1) == CheckStatus::fail);
  CHECK(status_of_n2("LinkDownedCounter", 0, 1, 1) == CheckStatus::fail);
}

TEST_CASE("a counter that is full, or was reset, says nothing") {
  CHECK(status_of_n2("SymbolErrorCounter", 65535, 65535) == CheckStatus::unknown);
  CHECK(status_of_n2("SymbolErrorCounter", 42, 65535) == CheckStatus::fail);
  CHECK(status_of_n2("LinkDownedCounter", 255, 255) == CheckStatus::unknown);
  CHECK(status_of_n2("SymbolErrorCounter", 42, 3) == CheckStatus::unknown);
  const auto cleared = judged_errors(sample({{n2_end, {{"VL15Dropped", 5}}}}), sample({}));
  CHECK(finding_at(cleared, "n2", "mlx5_0:1").status == CheckStatus::unknown);
}

TEST_CASE("errors that one end sees accuse what the other sends") {
  const auto at_switch =
      judged_errors(sample({}), sample({{n2_at_leaf, {{"SymbolErrorCounter", 131}}}}));
  const HealthFinding& host = finding_at(at_switch, "n2", "mlx5_0:1");
  CHECK(host.status == CheckStatus::fail);
  CHECK(host.severity.remedy == Remedy::warn);
  CHECK(host.value == "131");
  CHECK(host.expected == "<= 120 1/h");
  CHECK(has_evidence(host, "leaf1[3]: SymbolErrorCounter +131 in 300 s"));
  CHECK(has_evidence(host, "only at leaf1[3]: the transmitter of n2 mlx5_0[1]"));

  const auto at_both = judged_errors(
      sample({}),
      sample({{n2_at_leaf, {{"SymbolErrorCounter", 131}}}, {n2_end, {{"SymbolErrorCounter", 2}}}}));
  CHECK(has_evidence(finding_at(at_both, "n2", "mlx5_0:1"), "both ends"));
}

TEST_CASE("errors between switches name both ends") {
  const auto findings = judged_errors(sample({}), sample({{uplink, {{"LinkDownedCounter", 1}}}}));
  const HealthFinding& cable = finding_at(findings, "", "leaf1[8]-spine1[2]");
  CHECK(cable.status == CheckStatus::fail);
  CHECK(cable.fault_class == FaultClass::infra);
}

TEST_CASE("counters of ports that no cable is known of") {
  FabricErrors after = sample(
      {{{0x300000, 5}, {{"LinkDownedCounter", 1}}}, {{0x100077, 1}, {{"LinkDownedCounter", 1}}}});
  after.names = {{0x300000, "leaf9"}, {0x100077, "n9 HCA-1"}};
  const auto findings = judged_errors(sample({}), after);
  CHECK(finding_at(findings, "", "leaf9[5]").status == CheckStatus::fail);
  CHECK(finding_at(findings, "n9", "mlx5_0:1").status == CheckStatus::fail);
}

TEST_CASE("what the tool's settings hide is anything up to the threshold") {
  FabricErrors hidden = sample({});
  hidden.thresholds = {{"SymbolErrorCounter", 10}};
  const auto within = judged_errors(hidden, hidden);
  CHECK(finding_at(within, "n2", "mlx5_0:1").status == CheckStatus::pass);
  hidden.thresholds = {{"SymbolErrorCounter", 11}};
  CHECK(finding_at(judged_errors(hidden, hidden), "n2", "mlx5_0:1").status == CheckStatus::unknown);
  FabricErrors suppressed = sample({});
  suppressed.suppressed = {"LinkDownedCounter"};
  CHECK(finding_at(judged_errors(suppressed, suppressed), "n2", "mlx5_0:1").status ==
        CheckStatus::unknown);
}

TEST_CASE("a port that did not answer is unknown, and only it") {
  FabricErrors after = sample({});
  after.failed_queries = 1;
  after.unanswered = {{"n2 mlx5_0", 1}};
  const auto findings = judged_errors(sample({}), after);
  CHECK(finding_at(findings, "n2", "mlx5_0:1").status == CheckStatus::unknown);
  CHECK(finding_at(findings, "n1", "mlx5_0:1").status == CheckStatus::pass);
}

TEST_CASE("samples that are not whole, or of the same time, are unknown") {
  FabricErrors cut = sample({});
  cut.has_summary = false;
  FabricErrors failed_errors;
  failed_errors.reading.error = "killed";
  FabricErrors silent = sample({});
  silent.failed_queries = 3;
  for (const FabricErrors& bad : {cut, failed_errors, silent}) {
    for (const auto& findings : {judged_errors(bad, sample({})), judged_errors(sample({}), bad)}) {
      REQUIRE(findings.size() == 1);
      CHECK(findings.front().finding.status == CheckStatus::unknown);
    }
  }
  CHECK(judged_errors(sample({}), sample({}), 0).front().finding.status == CheckStatus::unknown);
}

TEST_CASE("a profile sets limits of its own") {
  HealthProfile profile;
  profile.checks["fab.errors"].limits["symbol_per_h"] = 1200;
  const auto findings =
      judged_errors(sample({}), sample({{n2_end, {{"SymbolErrorCounter", 100}}}}), 300, profile);
  CHECK(finding_at(findings, "n2", "mlx5_0:1").status == CheckStatus::pass);
}
