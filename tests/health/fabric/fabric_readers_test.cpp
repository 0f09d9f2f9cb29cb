#include "health/fabric/readers.h"

#include <algorithm>
#include <random>

#include "health/fabric/leaf_groups.h"
#include "tests/catch.h"
#include "tests/health/fabric/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;

namespace {

constexpr std::uint64_t leaf1 = 0x200000;
constexpr std::uint64_t leaf2 = 0x200001;
constexpr std::uint64_t n1 = 0x100001;

}  // namespace

TEST_CASE("ibnetdiscover -p tells nodes, cables and speeds") {
  const Fabric fabric = read_ibnetdiscover(said(discovered));
  CHECK(fabric.reading.is_whole());
  CHECK(fabric.nodes.size() == 8);
  CHECK(*find_node(fabric, n1) == FabricNode{"n1 mlx5_0", FabricNodeKind::adapter});
  CHECK(find_node(fabric, leaf1)->kind == FabricNodeKind::switch_node);
  const FabricPort* port = find_port(fabric, {leaf1, 1});
  REQUIRE(port != nullptr);
  CHECK(port->peer == FabricEnd{n1, 1});
  CHECK(port->lanes == 4);
  CHECK(port->lane_gbps == 50);
  CHECK_FALSE(find_port(fabric, {leaf2, 8})->peer);
  CHECK_FALSE(find_port(fabric, {leaf2, 8})->lanes);
  CHECK(text_of(fabric, {leaf1, 7}) == "leaf1[7]");
  CHECK(text_of(fabric, {0x77, 1}) == "0x0000000000000077[1]");
}

TEST_CASE("ibnetdiscover's topology names an adapter by its port, as the other tools do") {
  const Fabric fabric = read_ibnetdiscover(said(topology));
  CHECK(fabric.reading.is_whole());
  CHECK(fabric.nodes.size() == 3);
  CHECK(*find_node(fabric, n1) == FabricNode{"n1 mlx5_0", FabricNodeKind::adapter});
  const FabricPort* port = find_port(fabric, {n1, 1});
  REQUIRE(port != nullptr);
  CHECK(port->peer == FabricEnd{leaf1, 1});
  CHECK(port->lane_gbps == 50);
  CHECK(find_port(fabric, {leaf1, 1})->peer == FabricEnd{n1, 1});
  CHECK(find_port(fabric, {leaf1, 7})->lane_gbps == 2.5);
}

TEST_CASE("iblinkinfo tells states, widths and speeds") {
  const Fabric fabric = read_iblinkinfo(said(linked));
  CHECK(fabric.reading.is_whole());
  CHECK(fabric.nodes.size() == 8);
  CHECK(fabric.ports.size() == 17);
  CHECK(*find_port(fabric, {leaf1, 1}) ==
        FabricPort{PortState::active, "LinkUp", 4, 50, FabricEnd{n1, 1}});
  CHECK(text_of_state(*find_port(fabric, {leaf2, 8})) == "Down/Polling");
  CHECK(find_node(fabric, leaf1)->kind == FabricNodeKind::switch_node);
  CHECK(find_node(fabric, n1)->kind == FabricNodeKind::adapter);
}

TEST_CASE("forms of iblinkinfo that are rare") {  // from the tool's source
  struct Row {
    const char* text;
    FabricPort port;
  };
  const std::vector<Row> rows{
      {"==( 4X 10.0 Gbps (FDR10) Active/  LinkUp)==>  0x1 3 2[17] \"a \"b\" c\" ( )",
       {PortState::active, "LinkUp", 4, 10, FabricEnd{1, 2}}},
      {"==( 1X     106.25 Gbps  Armed/  LinkUp)==>    \"Port not available\"",
       {PortState::armed, "LinkUp", 1, 100, {}}},
      {"==( undefined (7)  undefined (9) Initialize/  LinkUp)==>  0x1 3 2[  ] \"\" ( )",
       {PortState::initialize, "LinkUp", {}, {}, FabricEnd{1, 2}}},
      {"==(                Down/Disabled)==>             [  ] \"\" ( )",
       {PortState::down, "Disabled", {}, {}, {}}},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const std::string head = "0x00000000000000ff \"  s [1] \"x\" \"  3  9[17] ";
    const Fabric fabric = read_iblinkinfo(said(head + row.text + "\n"));
    REQUIRE(fabric.reading.is_whole());
    CHECK(*find_port(fabric, {0xff, 9}) == row.port);
    CHECK(find_node(fabric, 0xff)->name == "s [1] \"x\"");
  }
}

TEST_CASE("ibqueryerrors tells the counters of each port") {
  const FabricErrors errors = read_ibqueryerrors(said(counted));
  CHECK(errors.is_whole());
  CHECK(errors.counters.size() == 2);
  CHECK(errors.counters.at({0x200002, 3}).at("PortRcvErrors") == 7);
  CHECK(errors.counters.at({0x200002, 3}).at("PortRcvData") == 8208);
  CHECK(errors.counters.at({0x100005, 1}).at("SymbolErrorCounter") == 42);
  CHECK(errors.names.at(0x100005) == "n2 mlx5_0");
  CHECK(errors.thresholds.empty());
  CHECK(read_ibqueryerrors(said(no_errors)).is_whole());
}

TEST_CASE("ibqueryerrors tells what it leaves out and who did not answer") {
  const std::string text =
      "ibwarn: [7] query_cap_mask: classportinfo query failed on n9 mlx5_1, Lid 17 port 1\n"
      "Errors for \"n2 mlx5_0\"\n"
      "   GUID 0x100005 port 1: [PortXmitDiscards == 900 (900.000)] [PortInactiveDiscards == 3]\n"
      "\n## Summary: 8 nodes checked, 1 bad nodes found\n"
      "## Thresholds: [SymbolErrorCounter = 10][PortXmitWait = 1000]\n"
      "##          1 PMA query failures\n"
      "## Suppressed: PortXmitWait VL15Dropped\n";
  const FabricErrors errors = read_ibqueryerrors(said(text));
  CHECK(errors.is_whole());
  CHECK(errors.counters.at({0x100005, 1}).at("PortXmitDiscards") == 900);
  CHECK(errors.thresholds.at("SymbolErrorCounter") == 10);
  CHECK(errors.suppressed == std::set<std::string>{"PortXmitWait", "VL15Dropped"});
  CHECK(errors.unanswered == std::set<std::pair<std::string, int>>{{"n9 mlx5_1", 1}});
  CHECK(errors.failed_queries == 1);
}

TEST_CASE("sminfo tells the subnet manager, that nobody answers, or nothing") {
  CHECK(read_sminfo(said(manager))->state == "SMINFO_MASTER");
  CHECK(read_sminfo(said(manager))->guid == 0x100001);
  const auto silent =
      read_sminfo(said("ibwarn: [3] mad_rpc: _do_madrpc failed; dport (Lid 1)\n"
                       "sminfo: iberror: failed: query\n"));
  REQUIRE(silent);
  CHECK(silent->state.empty());
  for (const char* text :
       {"", "sminfo:", "sminfo: sm lid 1 sm guid 0x0, activity count 1 priority 0",
        "ibpanic: [3] can't open UMAD port\n", "\xff\x00sminfo"}) {
    CHECK_FALSE(read_sminfo(said(text)));
  }
  const auto by_path = read_sminfo(said("/usr/sbin/sminfo: iberror: failed: query\n"));
  REQUIRE(by_path);
  CHECK(by_path->state.empty());
  CHECK_FALSE(read_sminfo(failed("no such program")));
}

TEST_CASE("a description names a host and its device") {
  struct Row {
    const char* description;
    std::optional<HostDevice> wanted;
  };
  const std::vector<Row> rows{
      {"n17 mlx5_3", HostDevice{"n17", "mlx5_3"}},
      {"n17 HCA-4", HostDevice{"n17", "mlx5_3"}},
      {"gpu-01.site.org mlx5_bond_0", HostDevice{"gpu-01.site.org", "mlx5_bond_0"}},
      {"n17 ibp26s0", HostDevice{"n17", "ibp26s0"}},
      {"n17 HCA-0", std::nullopt},
      {"n17 HCA-", std::nullopt},
      {"n17 HCA-99999999999", std::nullopt},
      {"n17", std::nullopt},
      {"", std::nullopt},
      {" ", std::nullopt},
      {"n17 ", std::nullopt},
      {"leaf1", std::nullopt},
      {"MT4129 ConnectX7   Mellanox Technologies", std::nullopt},
      {"Mellanox Technologies Aggregation Node", std::nullopt},
      {"MF0;sw-ib1:MQM8700/U1", std::nullopt},
      {"n17 mlx5_3 extra", std::nullopt},
      {"kn\xc3\xb6ten mlx5_0", std::nullopt},
  };
  for (const Row& row : rows) {
    INFO(row.description);
    CHECK(host_device_of(row.description) == row.wanted);
  }
}

TEST_CASE("names of any bytes are kept, or their line is counted") {
  const std::string odd = replaced(linked, "n4 mlx5_0", "kn\xc3\xb6ten \xff 'x'");
  const Fabric links = read_iblinkinfo(said(odd));
  CHECK(links.reading.is_whole());
  CHECK(find_node(links, 0x100009)->name == "kn\xc3\xb6ten \xff 'x'");
  const Fabric found = read_ibnetdiscover(said(replaced(discovered, "n4 mlx5_0", "it's [4]")));
  CHECK(found.reading.is_whole());
  CHECK(find_node(found, 0x100009)->name == "it's [4]");
}

TEST_CASE("lines that are malformed, endless or cut are counted and told") {
  for (const auto read : {read_ibnetdiscover, read_iblinkinfo}) {
    const std::string good(read == read_iblinkinfo ? linked : discovered);
    const std::size_t nodes = read(said(good)).nodes.size();

    const Fabric rubbish = read(said("0x12 rubbish\n" + good + std::string(1 << 20, 'x') + "\n"));
    CHECK(rubbish.nodes.size() == nodes);
    CHECK(rubbish.reading.skipped_lines == 2);
    CHECK(rubbish.reading.complaints.size() == 2);
    CHECK(rubbish.reading.complaints.back().size() < 200);

    const Fabric cut = read(said(good.substr(0, good.size() - 1)));
    CHECK(cut.reading.is_cut);
    CHECK_FALSE(cut.reading.is_whole());

    CHECK(read(said("ibwarn: [1] mad_rpc: _do_madrpc failed; dport\n" + good)).reading.is_whole());
    CHECK(read(failed("no answer within 30 s")).reading.error == "no answer within 30 s");
    CHECK(read(said("")).nodes.empty());
  }
  CHECK_FALSE(read_ibqueryerrors(said(counted.substr(0, counted.size() - 20))).is_whole());
  CHECK(read_ibqueryerrors(said("   GUID 0x5 port 1: [A == x]\n")).reading.skipped_lines == 1);
  CHECK(read_ibqueryerrors(said("   GUID 0x5 port 999: [A == 1]\n")).reading.skipped_lines == 1);
}

TEST_CASE("no bytes make a reader fail") {
  std::mt19937 random(7);  // NOLINT: the same bytes each time
  const auto any_of = [&](std::size_t count) { return random() % count; };
  for (int round = 0; round < 2000; ++round) {
    const std::string_view text =
        std::array{discovered, linked, topology, counted, manager}.at(any_of(5));
    std::string bytes(text.substr(any_of(text.size())));
    bytes.resize(std::min<std::size_t>(bytes.size(), 400));
    for (int change = 0; change < 4 && !bytes.empty(); ++change) {
      bytes[any_of(bytes.size())] = static_cast<char>(random());
    }
    for (const auto read : {read_ibnetdiscover, read_iblinkinfo}) {
      const Fabric fabric = read(said(bytes));
      for (const auto& [end, port] : fabric.ports) CHECK((end.port >= 0 && end.port < 255));
      (void)leaves_by_names({fabric});
    }
    const auto errors = read_ibqueryerrors(said(bytes));
    const auto lines = static_cast<int>(std::ranges::count(bytes, '\n')) + 1;
    CHECK(errors.failed_queries <= lines);
    CHECK(errors.reading.skipped_lines <= lines);
    const auto found = read_sminfo(said(bytes));
    CHECK((!found || (found->lid >= 0 && found->lid <= 0xffff)));
  }
}
