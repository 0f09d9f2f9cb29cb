// Tables in the form of ibdiagnet 2 (ibdiagnet2.db_csv): synthetic, with the columns and events of
// its releases; the fabric is that of fabric_samples.h.
#include "health/fabric/ber.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "health/fabric/ber_tool.h"
#include "tests/catch.h"
#include "tests/health/fabric_finding.h"
#include "tests/health/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;
using namespace std::chrono_literals;

namespace {

// Every port of the fabric, as measured.
std::string measured_ports() {
  std::string table = "START_PHY_DB16\nNodeGuid,PortGuid,PortNum,field0,field1\n";
  const Fabric fabric = read_iblinkinfo(said(linked));
  for (const auto& [end, port] : fabric.ports) {
    const std::string guid = text_of_guid(end.guid);
    table += guid + "," + guid + "," + std::to_string(end.port) + ",1,2\n";
  }
  return table + "END_PHY_DB16\n";
}

std::string warnings(const std::string& kind, const std::string& rows) {
  return "START_WARNINGS_" + kind +
         "_BER_CHECK\nScope,NodeGUID,PortGUID,PortNumber,EventName,"
         "Summary\n" +
         rows + "END_WARNINGS_" + kind + "_BER_CHECK\n";
}
const std::string n2_row = "PORT,0x0000000000100004,0x0000000000100005,1,";
const std::string n2_exceeds =
    n2_row + "BER_THRESHOLD_EXCEEDED,\"BER exceeds the threshold, 1.5e-10\"\n";

BerReading read_ber(std::string_view text) {
  BerReader reader;
  reader.feed(text);
  return reader.done();
}
FabricFindings judged_ber(const std::string& text, const HealthProfile& profile = {}) {
  return judge_fabric_ber(read_ber(text), read_iblinkinfo(said(linked)), profile);
}

}  // namespace

TEST_CASE("a fabric without warnings passes on every cable") {
  const auto findings = judged_ber("ibdiagnet\n" + measured_ports());
  CHECK(findings.size() == 8);
  CHECK(std::ranges::all_of(
      findings, [](const FabricFinding& one) { return one.finding.status == CheckStatus::pass; }));
}

TEST_CASE("a rate beyond the threshold drains the host at the end of the cable") {
  const auto findings = judged_ber(measured_ports() + warnings("SYMBOL", n2_exceeds));
  const HealthFinding& n2 = finding_at(findings, "n2", "mlx5_0:1");
  CHECK(n2.status == CheckStatus::fail);
  CHECK(n2.severity.remedy == Remedy::drain);
  CHECK(n2.fault_class == FaultClass::node);
  CHECK(n2.value == "BER_THRESHOLD_EXCEEDED");
  REQUIRE(n2.evidence.size() == 1);
  CHECK(n2.evidence[0] + "\n" == n2_exceeds);
  CHECK(std::ranges::count_if(findings, [](const FabricFinding& one) {
          return one.finding.status != CheckStatus::pass;
        }) == 1);
}

TEST_CASE("the switch's end of the cable is the host's cable, one between switches nobody's") {
  const std::string at_leaf = "PORT,0x200000,0x200000,3,BER_EXCEEDS_THRESHOLD,x\n";
  CHECK(finding_at(judged_ber(measured_ports() + warnings("SYMBOL", at_leaf)), "n2", "mlx5_0:1")
            .status == CheckStatus::fail);
  const std::string uplink = "PORT,0x200000,0x200000,8,BER_THRESHOLD_EXCEEDED,x\n";
  const auto findings = judged_ber(measured_ports() + warnings("SYMBOL", uplink));
  CHECK(finding_at(findings, "", "leaf1[8]-spine1[2]").status == CheckStatus::fail);
  CHECK(finding_at(findings, "", "leaf1[8]-spine1[2]").fault_class == FaultClass::infra);
}

TEST_CASE("what is near the threshold is a warning, what was not measured unknown") {
  const auto with = [](const std::string& event) {
    return finding_at(judged_ber(measured_ports() + warnings("SYMBOL", n2_row + event + ",x\n")),
                      "n2", "mlx5_0:1");
  };
  CHECK(with("BER_NEAR_THRESHOLD").status == CheckStatus::fail);
  CHECK(with("BER_NEAR_THRESHOLD").severity.remedy == Remedy::warn);
  CHECK(with("BER_RS_FEC_EXCESSIVE_ERRORS").severity.remedy == Remedy::drain);
  CHECK(with("BER_NO_THRESHOLD_IS_SUPPORTED").status == CheckStatus::unknown);
  CHECK(with("BER_NO_RCV_DATA").status == CheckStatus::unknown);
  CHECK(with("BER_VALUE_ZERO").status == CheckStatus::pass);
}

TEST_CASE("of HDR the symbol errors count, of EDR the effective ones") {
  const std::string effective = measured_ports() + warnings("EFFECTIVE", n2_exceeds);
  CHECK(finding_at(judged_ber(effective), "n2", "mlx5_0:1").status == CheckStatus::pass);
  const std::string edr = replaced(linked, "53.125 Gbps", "25.78125 Gbps");
  const Fabric slower = read_iblinkinfo(said(edr));
  const auto at_edr = [&](const std::string& kind) {
    return finding_at(judge_fabric_ber(read_ber(measured_ports() + warnings(kind, n2_exceeds)),
                                       slower, {}),
                      "n2", "mlx5_0:1")
        .status;
  };
  CHECK(at_edr("EFFECTIVE") == CheckStatus::fail);
  CHECK(at_edr("SYMBOL") == CheckStatus::pass);
}

TEST_CASE("a cable that was not measured at both ends is unknown") {
  const std::string ports = without(measured_ports(), "0x0000000000100005,1,");
  const auto findings = judged_ber(ports);
  const HealthFinding& n2 = finding_at(findings, "n2", "mlx5_0:1");
  CHECK(n2.status == CheckStatus::unknown);
  CHECK(n2.evidence.front() == "n2 mlx5_0[1] was not measured");
}

TEST_CASE("a port that no cable is known of is named all the same") {
  const std::string row = "PORT,0x300000,0x300000,5,BER_THRESHOLD_EXCEEDED,x\n";
  const auto findings = judged_ber(measured_ports() + warnings("SYMBOL", row));
  CHECK(finding_at(findings, "", "0x0000000000300000[5]").status == CheckStatus::fail);
}

TEST_CASE("without links nothing passes") {
  const auto findings = judge_fabric_ber(read_ber(measured_ports()), Fabric{}, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].finding.status == CheckStatus::unknown);
  CHECK(findings[0].finding.fault_class == FaultClass::infra);
  CHECK(findings[0].finding.evidence.front() == "the links are not known");
}

TEST_CASE("nothing measured, and what is not whole, passes nothing") {
  for (const std::string& text :
       {std::string(), std::string("START_NODES\na,b\n1,2\nEND_NODES\n")}) {
    const auto findings = judged_ber(text);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].finding.status == CheckStatus::unknown);
    CHECK(findings[0].finding.fault_class == FaultClass::infra);
  }
  const std::string whole = measured_ports() + warnings("SYMBOL", n2_exceeds);
  const auto cut = judged_ber(whole.substr(0, whole.size() - 30));
  CHECK(finding_at(cut, "n2", "mlx5_0:1").status == CheckStatus::fail);
  CHECK(finding_at(cut, "n4", "mlx5_0:1").status == CheckStatus::unknown);
  const auto odd = judged_ber(measured_ports() + warnings("SYMBOL", "PORT,what,is,this,?\n"));
  CHECK(finding_at(odd, "n4", "mlx5_0:1").status == CheckStatus::unknown);
}

TEST_CASE("a profile leaves a device out") {
  HealthProfile profile;
  profile.exclude.push_back({"fab.*", "mlx5_0:1", "a test"});
  for (const FabricFinding& one : judged_ber(measured_ports(), profile))
    CHECK(one.finding.device != "mlx5_0:1");
}

TEST_CASE("tables are the same in whatever parts they come") {
  const std::string whole = "junk\n" + measured_ports() + warnings("SYMBOL", n2_exceeds);
  const BerReading at_once = read_ber(whole);
  for (std::size_t size = 1; size < 64; ++size) {
    BerReader reader;
    for (std::size_t at = 0; at < whole.size(); at += size)
      reader.feed(std::string_view(whole).substr(at, size));
    const BerReading read = reader.done();
    CHECK(read.measured == at_once.measured);
    CHECK(read.warnings.size() == at_once.warnings.size());
    CHECK(read.is_whole());
  }
}

TEST_CASE("any bytes give a reading and findings") {
  std::mt19937 random(20261123);  // NOLINT: the same bytes each time
  const std::string whole = measured_ports() + warnings("SYMBOL", n2_exceeds);
  for (int round = 0; round < 500; ++round) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (std::size_t spoiled = random() % 20; spoiled > 0 && !text.empty(); --spoiled)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    CHECK_FALSE(judged_ber(text).empty());
  }
  BerReader reader;
  for (int i = 0; i < 100; ++i) reader.feed(std::string(10'000, 'x'));
  CHECK(reader.done().warnings.empty());
}

namespace {

// ibdiagnet as a script, which writes what it was asked and the tables of the second run.
class FakeIbdiagnet {
 public:
  explicit FakeIbdiagnet(const std::string& script, const std::string& tables = {})
      : before_(::getenv("PATH")) {
    std::string name = (std::filesystem::temp_directory_path() / "muster-ber-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    std::ofstream(path_ + "/tables") << tables;
    const std::string file = path_ + "/ibdiagnet";
    std::ofstream(file)
        << "#!/bin/sh\nhere=$(dirname $0)\nfolder() { while [ $1 != -o ]; do shift; "
           "done; echo $2; }\necho \"$* $LC_ALL\" | sed 's/ -o [^ ]*//' "
           ">>$here/asked\n"
        << script << "\n";
    ::chmod(file.c_str(), 0755);
    ::setenv("PATH", (path_ + ":" + before_).c_str(), 1);
    options.limit = 10s;
  }
  ~FakeIbdiagnet() {
    ::setenv("PATH", before_.c_str(), 1);
    std::filesystem::remove_all(path_);
  }
  std::string asked() const {
    std::ifstream file(path_ + "/asked");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  BerToolOptions options;

 private:
  std::string before_;
  std::string path_;
};
constexpr const char* writes_tables = "cat $here/tables >$(folder $*)/ibdiagnet2.db_csv; exit 1";

}  // namespace

TEST_CASE("counters are cleared, the load goes on, and then the rates are asked") {
  FakeIbdiagnet tool(writes_tables, measured_ports() + warnings("SYMBOL", n2_exceeds));
  std::string waited;
  tool.options.port = HcaPort{"mlx5_2", 1};
  tool.options.wait = [&] { waited = tool.asked(); };
  const BerReading read = measure_ber(tool.options);
  CHECK(read.error == "");
  CHECK(read.is_whole());
  CHECK(read.warnings.size() == 1);
  CHECK(waited == "--pc --reset_phy_info -i mlx5_2 -p 1 C\n");
  CHECK(tool.asked() == waited + "--get_phy_info -i mlx5_2 -p 1 C\n");
}

TEST_CASE("without ibdiagnet nothing is known, and the setup is to blame") {
  FakeIbdiagnet tool("exit 127");
  bool has_waited = false;
  tool.options.wait = [&] { has_waited = true; };
  const BerReading read = measure_ber(tool.options);
  CHECK(read.is_missing);
  CHECK_FALSE(has_waited);
  const auto findings = judge_fabric_ber(read, read_iblinkinfo(said(linked)), {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].finding.status == CheckStatus::unknown);
  CHECK(findings[0].finding.fault_class == FaultClass::setup);
}

TEST_CASE("an ibdiagnet that fails or hangs says why") {
  FakeIbdiagnet fails("echo '-E- Failed to open port mlx5_9'; exit 2");
  CHECK(measure_ber(fails.options).error ==
        "ibdiagnet ended with 2 and wrote no ibdiagnet2.db_csv: -E- Failed to open port mlx5_9");
  FakeIbdiagnet hangs("exec sleep 60");
  hangs.options.limit = 300ms;
  CHECK(measure_ber(hangs.options).error == "ibdiagnet gave no answer within 300 ms");
}
