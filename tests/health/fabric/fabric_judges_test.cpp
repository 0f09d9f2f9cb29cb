#include "health/fabric/judges.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/health/fabric/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;

namespace {

constexpr std::string_view n2_at_leaf1 =
    "0x0000000000200000 \"                         leaf1\"      2    3[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000100005      6    1[  ] \"n2 mlx5_0\" (Could be 12X )\n";

// "n2 mlx5_0:1 fail drain Down/Polling", those that pass left out.
std::vector<std::string> told(const FabricFindings& findings) {
  std::vector<std::string> lines;
  for (const auto& [host, finding] : findings) {
    if (finding.status == CheckStatus::pass) continue;
    std::string line = host + " " + finding.device + " " + std::string(word_of(finding.status));
    if (finding.status == CheckStatus::fail) {
      line += " " + text_of(finding.severity) + " " + finding.value;
    }
    lines.push_back(line);
  }
  return lines;
}
using Lines = std::vector<std::string>;

const Fabric& golden() {
  static const Fabric fabric = read_ibnetdiscover(said(discovered));
  return fabric;
}
HealthProfile hdr() {
  HealthProfile profile;
  profile.ib.rate_gbps = 200;
  return profile;
}
FabricFindings links(const std::string& text, const HealthProfile& profile = hdr()) {
  return judge_fabric_links(read_iblinkinfo(said(text)), &golden(), profile);
}
FabricFindings discovery(const std::string& text) {
  return judge_fabric_discovery(read_ibnetdiscover(said(text)), golden(), {});
}
// The cable of `leaf1[3]` pulled: the switch says so, the adapter is out of sight.
std::string unplugged() {
  const std::string gone = without(linked, "0x0000000000100005 \"");
  return replaced(
      gone, n2_at_leaf1,
      "0x0000000000200000 \"  leaf1\"  2  3[  ] ==(                Down/ Polling)==>    "
      "         [  ] \"\" ( )\n");
}

}  // namespace

TEST_CASE("a fabric where all is well passes, cable by cable") {
  const auto findings = links(std::string(linked));
  CHECK(told(findings).empty());
  CHECK(findings.size() == 8);  // five adapters, three cables between switches
  CHECK(std::ranges::any_of(findings, [](const FabricFinding& one) {
    return one.host == "n1" && one.finding.device == "mlx5_1:1" &&
           one.finding.serial == "0x0000000000100003" && one.finding.value == "200";
  }));
  CHECK(told(discovery(std::string(discovered))).empty());
}

TEST_CASE("a cable that is down is its host's, though only the switch is seen") {
  CHECK(told(links(unplugged())) == Lines{"n2 mlx5_0:1 fail drain Down/Polling"});
  const auto unknown_cables = judge_fabric_links(read_iblinkinfo(said(unplugged())), nullptr, {});
  CHECK(told(unknown_cables).empty());  // an open port and a pulled cable look the same
}

TEST_CASE("a link that is narrow or slow") {
  const std::string narrow = replaced(n2_at_leaf1, "4X        53.125", "1X        53.125");
  const std::string slow = replaced(n2_at_leaf1, "53.125 Gbps", "25.78125 Gbps");
  CHECK(told(links(replaced(linked, n2_at_leaf1, narrow))) == Lines{"n2 mlx5_0:1 fail drain 1X"});
  CHECK(told(links(replaced(linked, n2_at_leaf1, slow))) == Lines{"n2 mlx5_0:1 fail drain 100"});
  HealthProfile edr;
  edr.ib.rate_gbps = 100;
  CHECK(told(links(replaced(linked, n2_at_leaf1, slow), edr)).empty());
  edr.ib.width = "1X";
  edr.ib.rate_gbps = 50;
  CHECK(told(links(replaced(linked, n2_at_leaf1, narrow), edr)).empty());
  // The golden topology says what it was, where the profile does not.
  CHECK(told(links(replaced(linked, n2_at_leaf1, slow), {})) ==
        Lines{"n2 mlx5_0:1 fail drain 100"});
}

TEST_CASE("a link that no subnet manager brought up is a warning") {
  const std::string early = replaced(n2_at_leaf1, "Active/", "Initialize/");
  CHECK(told(links(replaced(linked, n2_at_leaf1, early))) ==
        Lines{"n2 mlx5_0:1 fail warn Initialize/LinkUp"});
}

TEST_CASE("an adapter that does not answer over a link that is up") {
  const std::string silent =
      "0x0000000000200000 \"  leaf1\"  2  3[  ] ==( 4X 53.125 Gbps Active/  LinkUp)==>    \"Port "
      "not "
      "available\"\n";
  const std::string text = without(replaced(linked, n2_at_leaf1, silent), "0x0000000000100005 \"");
  CHECK(told(links(text)) == Lines{"n2 mlx5_0:1 fail drain no answer"});
}

TEST_CASE("a cable between switches is nobody's node") {
  std::string text =
      replaced(without(linked, "0x0000000000200000      2    8[  ] \"leaf1\""), "\x01", "");
  text += "0x0000000000200002 \"spine1\"  4  2[  ] ==(    Down/ Polling)==>  [  ] \"\" ( )\n";
  text = without(text, "4    2[  ] \"spine1\"");
  text += "0x0000000000200000 \"leaf1\"  2  8[  ] ==(    Down/ Polling)==>  [  ] \"\" ( )\n";
  const auto findings = links(text);
  CHECK(told(findings) == Lines{" leaf1[8]-spine1[2] fail warn Down/Polling"});
  CHECK(std::ranges::all_of(findings, [](const FabricFinding& one) {
    return one.finding.fault_class == (one.host.empty() ? FaultClass::infra : FaultClass::node);
  }));
}

TEST_CASE("a cable in another socket is told, and drains nobody") {
  // n2 moved from leaf1[3] to leaf1[4].
  const std::string moved = replaced(replaced(linked, "2    3[  ] ==(", "2    4[  ] ==("),
                                     "2    3[  ] \"leaf1\"", "2    4[  ] \"leaf1\"");
  const std::string open =
      "0x0000000000200000 \"leaf1\"  2  3[  ] ==(    Down/ Polling)==>  [  ] \"\" ( )\n";
  CHECK(told(links(moved + open)) == Lines{"n2 mlx5_0:1 fail warn leaf1[4]"});
}

TEST_CASE("what the tool did not tell is unknown") {
  CHECK(told(judge_fabric_links(read_iblinkinfo(failed("killed")), &golden(), hdr())) ==
        Lines{"  unknown"});
  CHECK(told(links("")) == Lines{"  unknown"});
  CHECK(told(judge_fabric_discovery(read_ibnetdiscover(failed("x")), golden(), {})) ==
        Lines{"  unknown"});
  CHECK(told(judge_fabric_discovery(golden(), Fabric{}, {})) == Lines{"  unknown"});
  const std::string of_leaf1 = without(without(linked, "leaf2\""), "n3 ");
  const auto half = told(links(without(of_leaf1, "n4 ")));
  CHECK(std::ranges::count(half, "n3 mlx5_0:1 unknown") == 1);
}

TEST_CASE("an adapter that is missing drains its host, in a list that is whole") {
  const std::string gone = without(discovered, "n2 mlx5_0");
  CHECK(told(discovery(gone)) == Lines{"n2 mlx5_0:1 fail drain missing"});
  CHECK(told(discovery(gone + "CA 9")) == Lines{"n2 mlx5_0:1 unknown"});
  CHECK(told(discovery(gone + "rubbish\n")) == Lines{"n2 mlx5_0:1 unknown"});
}

TEST_CASE("a switch that is missing is the fault, its hosts are not") {
  const std::string gone = without(without(without(discovered, "leaf2"), "n3 "), "n4 ");
  CHECK(told(discovery(gone)) == Lines{" leaf2 0x0000000000200001 fail warn missing",
                                       "n3 mlx5_0:1 unknown", "n4 mlx5_0:1 unknown"});
}

TEST_CASE("a new adapter and another board are warnings") {
  const std::string added =
      "CA     9  1 0x0000000000100011 4x HDR - SW     3  3 0x0000000000200001 "
      "( 'n5 mlx5_0' - 'leaf2' )\n";
  CHECK(told(discovery(std::string(discovered) + added)) == Lines{"n5 mlx5_0:1 fail warn new"});
  const std::string other = replaced(discovered, "0x0000000000100005", "0x0000000000100055");
  CHECK(told(discovery(other)) == Lines{"n2 mlx5_0:1 fail warn another"});
  const std::string renamed = replaced(discovered, "n2 mlx5_0", "n6 mlx5_0");
  CHECK(told(discovery(renamed)) == Lines{"n6 mlx5_0:1 fail warn renamed"});
}

TEST_CASE("devices that the profile leaves out, and checks that it turns off") {
  HealthProfile profile = hdr();
  profile.exclude = {{"fab.*", "mlx5_0:*", "management"}};
  CHECK(told(links(unplugged(), profile)).empty());
  profile = hdr();
  profile.checks["fab.links"].mode = CheckMode::off;
  CHECK(links(unplugged(), profile).empty());
}

TEST_CASE("the subnet manager") {
  CHECK(told(judge_subnet_manager(read_sminfo(said(manager)))).empty());
  const auto standby = judge_subnet_manager(
      read_sminfo(said(replaced(manager, "3 SMINFO_MASTER", "2 SMINFO_STANDBY"))));
  CHECK(told(standby) == Lines{"  fail warn SMINFO_STANDBY"});
  CHECK(standby.front().finding.fault_class == FaultClass::infra);
  CHECK(told(judge_subnet_manager(read_sminfo(said("sminfo: iberror: failed: query\n")))) ==
        Lines{"  fail warn no answer"});
  CHECK(told(judge_subnet_manager({})) == Lines{"  unknown"});
}
