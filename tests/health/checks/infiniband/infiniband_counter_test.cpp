#include <algorithm>

#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/infiniband/port.h"
#include "tests/catch.h"
#include "tests/health/fake_infiniband.h"
#include "tests/health/status_words.h"

using namespace muster;
using namespace muster::status_words;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::milliseconds sampling_start = std::chrono::hours(480000);

// A node whose counters are sampled.
struct SampledNode {
  FakeInfiniband node;
  HealthProfile profile = FakeInfiniband::profile();
  CounterHistory history;

  std::vector<InfinibandPort> ports() const { return judged_ports(node.files(), profile); }
  void sample(std::chrono::milliseconds at) {
    note_counters(history, node.files(), profile, ports(), sampling_start + at);
  }
  // Of one group of checks.
  std::vector<HealthFinding> judged(std::optional<std::chrono::seconds> job_runs = {}) const {
    const LinkFlaps flaps;
    const InfinibandFacts facts{
        .files = node.files(), .counters = history, .flaps = flaps, .job_runs = job_runs};
    const InfinibandLook look{facts, ports()};
    CheckInput input{node.files(), profile};
    input.ib = &look;
    return judge_group(infiniband_checks(), SourceGroup::infiniband_counters, input);
  }
  HealthFinding finding(std::string_view check, std::string_view device = "mlx5_3:1") const {
    for (const HealthFinding& one : judged()) {
      if (one.check == check && one.device == device) return one;
    }
    FAIL("no finding of " << check);
    return {};
  }
  std::vector<HealthFinding> traffic(std::optional<std::chrono::seconds> job_runs = 1h) const {
    auto findings = judged(job_runs);
    std::erase_if(findings, [](const HealthFinding& one) { return one.check != "ib.traffic"; });
    return findings;
  }
};

}  // namespace

TEST_CASE("counters that stand still pass, whatever they stand at") {
  SampledNode node;
  node.node.count(3, "symbol_error", 60000);
  node.sample(0s);
  node.sample(30s);
  const auto findings = node.judged();
  CHECK(findings.size() == 8 * 14);
  for (const HealthFinding& one : findings) {
    INFO(one.check);
    CHECK(one.status == pass);
    CHECK_FALSE(one.value.empty());
  }
}

TEST_CASE("how much a counter grew, and in what time, decides its check") {
  struct Row {
    const char* check;
    const char* file;  // below the port
    std::uint64_t growth;
    std::chrono::seconds elapsed;
    CheckStatus status;
    const char* severity;
  };
  const Row rows[] = {
      {"ib.link_downed", "counters/link_downed", 1, 30s, fail, "drain"},
      {"ib.link_downed", "counters/link_downed", 2, 1h, fail, "drain"},
      {"ib.link_downed", "counters/link_downed", 3, 30s, fail, "!drain"},
      {"ib.link_downed", "counters/link_downed", 3, 3610s, fail, "!drain"},
      {"ib.link_downed", "counters/link_downed", 3, 3h, fail, "drain"},
      {"ib.symbol", "counters/symbol_error", 120, 1h, pass, ""},
      {"ib.symbol", "counters/symbol_error", 121, 1h, fail, "drain"},
      {"ib.symbol", "counters/symbol_error", 121, 30s, fail, "drain"},
      {"ib.symbol", "counters/symbol_error", 500, 5h, pass, ""},
      {"ib.recovery", "counters/link_error_recovery", 5, 30s, pass, ""},
      {"ib.recovery", "counters/link_error_recovery", 6, 30s, fail, "warn>drain"},
      {"ib.rcv_err", "counters/port_rcv_errors", 300, 30s, pass, ""},
      {"ib.rcv_err", "counters/port_rcv_errors", 301, 30s, fail, "warn"},
      {"ib.rcv_err", "counters/port_rcv_errors", 300, 1s, pass, ""},
      {"ib.integrity", "counters/local_link_integrity_errors", 1, 30s, fail, "drain"},
      {"ib.overrun", "counters/excessive_buffer_overrun_errors", 1, 30s, fail, "drain"},
      {"ib.xmit_discards", "counters/port_xmit_discards", 3000, 30s, pass, ""},
      {"ib.xmit_discards", "counters/port_xmit_discards", 3031, 30s, fail, "warn"},
      {"ib.remote_phys", "counters/port_rcv_remote_physical_errors", 99, 30s, pass, ""},
      {"ib.remote_phys", "counters/port_rcv_remote_physical_errors", 100, 30s, fail, "warn"},
      {"ib.relay", "counters/port_rcv_switch_relay_errors", 100, 1h, fail, "warn"},
      {"ib.vl15", "counters/VL15_dropped", 100, 1h, fail, "warn"},
      {"ib.constraint", "counters/port_rcv_constraint_errors", 100, 1h, fail, "warn"},
      {"ib.constraint", "counters/port_xmit_constraint_errors", 100, 1h, fail, "warn"},
      {"ib.constraint", "counters/port_xmit_constraint_errors", 99, 1h, pass, ""},
      {"ib.xmit_wait", "counters/port_xmit_wait", 4000000000, 30s, pass, ""},
      {"ib.transport", "hw_counters/rnr_nak_retry_err", 1, 30s, fail, "drain"},
      {"ib.transport", "hw_counters/local_ack_timeout_err", 30, 30s, pass, ""},
      {"ib.transport", "hw_counters/local_ack_timeout_err", 31, 30s, fail, "warn"},
      {"ib.transport", "hw_counters/req_transport_retries_exceeded", 1, 30s, fail, "warn"},
      {"ib.transport", "hw_counters/packet_seq_err", 1, 30s, fail, "warn"},
      {"ib.transport", "hw_counters/rx_icrc_encapsulated", 1, 30s, fail, "warn"},
      {"ib.transport", "hw_counters/out_of_sequence", 100000, 30s, pass, ""},
  };
  for (const Row& row : rows) {
    INFO(row.file << " +" << row.growth << " in " << row.elapsed.count() << " s");
    SampledNode node;
    node.node.write_port(3, row.file, "0\n");
    node.sample(0s);
    node.node.write_port(3, row.file, std::to_string(row.growth) + "\n");
    node.sample(row.elapsed);
    const HealthFinding finding = node.finding(row.check);
    CHECK(finding.status == row.status);
    CHECK(node.finding(row.check, "mlx5_2:1").status == pass);
    if (row.status != fail) continue;
    CHECK(text_of(finding.severity) == row.severity);
    CHECK(finding.source == FakeInfiniband::port_path(3, row.file));
    CHECK_FALSE(finding.evidence.empty());
  }
}

TEST_CASE("a failure tells value, limit and unit") {
  SampledNode node;
  node.sample(0s);
  node.node.count(3, "symbol_error", 131);
  node.sample(1h);
  const HealthFinding finding = node.finding("ib.symbol");
  CHECK(finding.value == "131");
  CHECK(finding.expected == "<= 120");
  CHECK(finding.unit == "1/h");
  CHECK(finding.serial == "b83f:d203:00c5:0004");
  CHECK(finding.evidence.front() == "counters/symbol_error from 0 to 131 in 3600 s");
}

TEST_CASE("a path's errors are not the node's fault") {
  SampledNode node;
  node.sample(0s);
  node.node.count(3, "port_rcv_switch_relay_errors", 500);
  node.sample(30s);
  CHECK(node.finding("ib.relay").fault_class == FaultClass::infra);
}

TEST_CASE("a profile overrides limits") {
  SampledNode node;
  node.profile.checks["ib.symbol"].limits = {{"drain_per_h", 1000}, {"warn_per_s", 2}};
  node.profile.checks["ib.transport"].limits["out_of_sequence_per_s"] = 1;
  node.profile.checks["ib.xmit_wait"].limits["warn_per_s"] = 5;
  node.sample(0s);
  node.node.count(3, "symbol_error", 200);
  node.node.count_hw(3, "out_of_sequence", 100);
  node.node.count(3, "port_xmit_wait", 100);
  node.sample(30s);
  CHECK(text_of(node.finding("ib.symbol").severity) == "warn");
  CHECK(node.finding("ib.symbol").status == fail);
  CHECK(node.finding("ib.transport").status == fail);
  CHECK(node.finding("ib.xmit_wait").status == pass);
  node.profile.checks["ib.symbol"].mode = CheckMode::off;
  for (const HealthFinding& one : node.judged()) CHECK(one.check != "ib.symbol");
}

TEST_CASE("a counter at the maximum of its register is unknown until it is reset") {
  SampledNode node;
  node.node.count(3, "link_downed", 255);
  node.sample(0s);
  node.sample(30s);
  const HealthFinding finding = node.finding("ib.link_downed");
  CHECK(finding.status == unsure);
  CHECK_THAT(finding.evidence.front(), ContainsSubstring("perfquery -R"));
  const HealthFinding saturated = node.finding("ib.saturated");
  CHECK(saturated.status == unsure);
  CHECK(saturated.value == "1");
  CHECK_THAT(saturated.evidence.front(), ContainsSubstring("counters/link_downed"));
  node.node.count(3, "link_downed", 0);
  node.sample(60s);
  node.sample(90s);
  CHECK(node.finding("ib.link_downed").status == pass);
  CHECK(node.finding("ib.saturated").status == pass);
}

TEST_CASE("a counter that ran into its maximum failed on the way there") {
  SampledNode node;
  node.node.count(3, "local_link_integrity_errors", 2);
  node.sample(0s);
  node.node.count(3, "local_link_integrity_errors", 15);
  node.sample(30s);
  CHECK(node.finding("ib.integrity").status == fail);
  CHECK(node.finding("ib.saturated").status == unsure);
  node.sample(2h);
  node.sample(4h);
  CHECK(node.finding("ib.integrity").status == unsure);
}

TEST_CASE("waiting to send saturates its counter on any busy fabric and hides nothing") {
  SampledNode node;
  node.node.count(3, "port_xmit_wait", 0xffffffff);
  node.sample(0s);
  node.sample(30s);
  CHECK(node.finding("ib.saturated").status == pass);
  CHECK(node.finding("ib.xmit_wait").status == unsure);
}

TEST_CASE("a counter that is reset, or of another boot, is compared with nothing") {
  SampledNode node;
  node.node.count(3, "link_downed", 4);
  node.sample(0s);
  node.node.count(3, "link_downed", 1);
  node.sample(30s);
  CHECK(node.finding("ib.link_downed").status == unsure);
  node.node.write("/proc/sys/kernel/random/boot_id", "another\n");
  node.node.count(3, "link_downed", 9);
  node.sample(60s);
  CHECK(node.finding("ib.link_downed").status == unsure);
}

TEST_CASE("a counter that cannot be read or understood is unknown") {
  SampledNode node;
  node.sample(0s);
  node.sample(30s);
  node.node.break_file(FakeInfiniband::port_path(3, "counters/symbol_error"), "Input/output error");
  node.node.write_port(3, "counters/link_downed", "N/A (no PMA)\n");
  node.node.break_file(FakeInfiniband::port_path(3, "counters/VL15_dropped"),
                       "No such file or directory", true);
  node.sample(60s);
  for (const char* check : {"ib.symbol", "ib.link_downed", "ib.vl15"}) {
    INFO(check);
    CHECK(node.finding(check).status == unsure);
    CHECK_FALSE(node.finding(check).evidence.empty());
  }
}

TEST_CASE("transport counters that a driver does not have are left out, the main ones are not") {
  SampledNode node;
  for (const char* leaf : {"packet_seq_err", "rx_icrc_encapsulated", "out_of_sequence"})
    node.node.break_file(FakeInfiniband::port_path(3, std::string("hw_counters/") + leaf),
                         "No such file or directory", true);
  node.sample(0s);
  node.sample(30s);
  CHECK(node.finding("ib.transport").status == pass);
  node.node.break_file(FakeInfiniband::port_path(3, "hw_counters/rnr_nak_retry_err"),
                       "No such file or directory", true);
  CHECK(node.finding("ib.transport").status == unsure);
  node.node.count_hw(3, "req_transport_retries_exceeded", 5);
  node.sample(60s);
  const HealthFinding both = node.finding("ib.transport");
  CHECK(both.status == fail);
  CHECK(both.evidence.size() == 2);
}

TEST_CASE("errors of links that come up after boot are not counted") {
  SampledNode node;
  node.node.booted_ago(100);
  node.sample(0s);
  node.node.count(3, "link_downed", 2);
  node.node.booted_ago(310);
  node.sample(210s);
  CHECK(node.finding("ib.link_downed").status == unsure);
  node.sample(240s);
  CHECK(node.finding("ib.link_downed").status == pass);
}

TEST_CASE("a job whose ports move nothing for ten minutes may hang") {
  SampledNode node;
  node.node.count(3, "port_xmit_data", 1000);
  node.sample(0s);
  node.node.count(3, "port_xmit_data", 26000);
  node.sample(5min);
  node.sample(10min);
  REQUIRE(node.traffic().size() == 1);
  CHECK(node.traffic().front().status == pass);
  CHECK(node.traffic().front().value == "100000");
  node.sample(16min);
  const HealthFinding quiet = node.traffic().front();
  CHECK(quiet.status == fail);
  CHECK(text_of(quiet.severity) == "warn");
  CHECK(quiet.device.empty());
  CHECK(node.traffic({}).empty());
  CHECK(node.traffic(9min).empty());
  node.profile.checks["ib.traffic"].limits["window_s"] = 1200;
  CHECK(node.traffic().front().status == pass);
}

TEST_CASE("traffic that was not watched for long enough, or whose counter stuck, is unknown") {
  SampledNode node;
  node.sample(0s);
  node.sample(5min);
  CHECK(node.traffic().front().status == unsure);
  node.sample(10min);
  CHECK(node.traffic().front().status == fail);
  node.node.count(3, "port_rcv_data", 0xffffffff);
  SampledNode stuck = node;
  stuck.history = CounterHistory();
  stuck.sample(0s);
  stuck.sample(10min);
  CHECK(stuck.traffic().front().status == unsure);
  stuck.node.break_file(FakeInfiniband::port_path(3, "counters/port_rcv_data"), "Stale");
  CHECK(stuck.traffic().front().status == unsure);
}

TEST_CASE("every counter that is judged is among the sources of a reader") {
  const auto sources = infiniband_counter_sources();
  for (const CounterRule& rule : infiniband_counter_rules()) {
    const std::string path = "/sys/class/infiniband/*/ports/*/" + std::string(rule.file);
    INFO(path);
    CHECK(std::ranges::find(sources, path) != sources.end());
  }
}

TEST_CASE("all checks of a healthy node pass, round after round") {
  SampledNode node;
  const LinkFlaps flaps;
  for (int round = 0; round < 30; ++round) {
    for (int n = 0; n < 8; ++n) {
      const std::uint64_t moved = 1000000000ull * static_cast<std::uint64_t>(round + 1);
      node.node.count(n, "port_xmit_data", moved);
      node.node.count(n, "port_xmit_wait", moved % 0xfffffff);
      node.node.count_hw(n, "out_of_sequence", moved / 1000);
    }
    node.sample(round * 30s);
  }
  const InfinibandFacts facts{
      node.node.files(), node.history, flaps, sampling_start + 15min, "", 10min, {}};
  const auto findings = judge_infiniband(facts, node.profile);
  CHECK(findings.size() == 1 + 8 * (7 + 3 + 1 + 14 + 1) + 1);
  for (const HealthFinding& one : findings) {
    INFO(one.check << " " << one.device);
    CHECK(one.status == (one.check == "ib.xmit_wait" ? one.status : pass));
    CHECK(one.status != fail);
  }
}
