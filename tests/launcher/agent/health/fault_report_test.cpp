// What a controller is told of faults, for people and for what follows from them.
#include "launcher/agent/health/fault_report.h"

#include "tests/catch.h"

using namespace muster;

namespace {

HealthFinding a_failure(const std::string& check, const std::string& device,
                        const std::string& value) {
  HealthFinding finding;
  finding.check = check;
  finding.device = device;
  finding.status = CheckStatus::fail;
  finding.value = value;
  return finding;
}

ActiveFault a_fault(const std::string& id, HealthFinding finding) {
  ActiveFault fault;
  fault.id = id;
  fault.finding = std::move(finding);
  return fault;
}

}  // namespace

TEST_CASE("what was computed is in doubt after an error of memory that was not contained alone") {
  for (const char* xid : {"48", "64", "95", "140", "171", "172"}) {
    CHECK(casts_doubt(a_failure("gpu.xid", "gpu3", xid)));
  }
  for (const char* xid : {"79", "63", "94", "0", ""}) {
    CHECK_FALSE(casts_doubt(a_failure("gpu.xid", "gpu3", xid)));
  }
  for (const char* check : {"gpu.ecc_dbe", "gpu.sram_unc", "host.edac", "perf.sdc"}) {
    HealthFinding finding = a_failure(check, "", "1");
    CHECK(casts_doubt(finding));
    finding.status = CheckStatus::unknown;
    CHECK_FALSE(casts_doubt(finding));
    finding.status = CheckStatus::pass;
    CHECK_FALSE(casts_doubt(finding));
  }
  for (const char* check : {"ib.state", "gpu.count", "host.mem"}) {
    CHECK_FALSE(casts_doubt(a_failure(check, "", "95")));
  }
}

TEST_CASE("a finding is a sentence with what was found, where, and what was expected") {
  CHECK(sentence_of(a_failure("gpu.xid", "gpu3", "79")).starts_with("XID 79 on gpu3: "));
  HealthFinding rate = a_failure("ib.rate", "mlx5_3:1", "200");
  CHECK(sentence_of(rate) == "ib.rate on mlx5_3:1: 200");
  rate.unit = "Gb/s";
  rate.expected = ">= 400";
  CHECK(sentence_of(rate) == "ib.rate on mlx5_3:1: 200 Gb/s, expected >= 400 Gb/s");
  rate.status = CheckStatus::unknown;
  CHECK(sentence_of(rate) == "ib.rate on mlx5_3:1 is unknown");
  rate.device = "";
  rate.evidence = {"no such file", "another"};
  CHECK(sentence_of(rate) == "ib.rate is unknown: no such file");
  CHECK(sentence_of(a_failure("host.mem", "", std::string(900, '7'))).size() == 300);
}

TEST_CASE("faults are told worst first, each with its call and whether it is enforced") {
  HealthFinding memory = a_failure("gpu.ecc_dbe", "gpu2", "1");
  memory.serial = "1234";
  memory.severity = {Remedy::reboot, Remedy::rma, true};
  memory.evidence = {"one", "two", std::string(400, '3'), "four"};
  NodeVerdict verdict;
  verdict.drains.push_back(a_fault("a", memory));
  verdict.drains[0].since = from_ms(5000);
  verdict.would_drain.push_back(a_fault("b", a_failure("host.disk", "", "3")));
  verdict.warnings.push_back(a_fault("c", a_failure("ib.lid", "mlx5_0:1", "0")));
  const auto faults = faults_of(verdict);
  REQUIRE(faults.size() == 3);
  CHECK(faults[0].id == "a");
  CHECK(faults[0].check == "gpu.ecc_dbe");
  CHECK(faults[0].device == "gpu2");
  CHECK(faults[0].serial == "1234");
  CHECK(faults[0].remedy == Remedy::reboot);
  CHECK(faults[0].on_recurrence == Remedy::rma);
  CHECK(faults[0].stops_job);
  CHECK(faults[0].in_doubt);
  CHECK(faults[0].since == from_ms(5000));
  CHECK(faults[0].evidence == std::vector<std::string>{"one", "two", std::string(300, '3')});
  CHECK(faults[0].enforced);
  CHECK(faults[1].id == "b");
  CHECK_FALSE(faults[1].enforced);
  CHECK_FALSE(faults[1].in_doubt);
  CHECK(faults[2].id == "c");
  CHECK(faults[2].enforced);
}
