#include "health/fabric/leaf_groups.h"

#include "health/fabric/readers.h"
#include "tests/catch.h"
#include "tests/health/fabric/fabric_samples.h"
#include "tests/health/fabric/fabric_text.h"

using namespace muster;
using namespace muster::fabric_samples;

namespace {

using Words = std::vector<std::string>;

Fabric cables_of(const std::string& fabric) {
  return read_ibnetdiscover(said(fabric_text(fabric, "cables")));
}

std::vector<RailGuids> hosts(int count = 16) {
  std::vector<RailGuids> all;
  for (int i = 1; i <= count; ++i) all.push_back({"n" + std::to_string(i), {}});
  return all;
}

std::string why_none(const std::vector<RailGuids>& nodes, const Words& rails,
                     const std::vector<Fabric>& fabrics) {
  const auto leaves = leaves_by_rails(nodes, rails, fabrics);
  return leaves ? "" : leaves.error().message;
}

}  // namespace

TEST_CASE("a node is below the switch that its rails are cabled to") {
  const auto leaves = leaves_by_rails(hosts(), {"mlx5_0"}, {cables_of(one_rail)});
  REQUIRE(leaves);
  CHECK(leaves->size() == 16);
  CHECK(leaves->at("n1") == "leaf1");
  CHECK(leaves->at("n16") == "leaf4");
  const auto both = leaves_by_rails(hosts(), {"mlx5_0", "mlx5_1"}, {cables_of(two_rails)});
  REQUIRE(both);
  CHECK(both->at("n5") == "leaf2");
}

TEST_CASE("the port of a rail is what the node says, else what its description says") {
  const std::vector<Fabric> fabrics{cables_of(one_rail)};
  const auto leaf_of = [&](const RailGuids& node, const std::string& rail) {
    const auto leaves = leaves_by_rails({node}, {rail}, fabrics);
    return leaves ? leaves->at(node.node) : leaves.error().message;
  };
  CHECK(leaf_of({"n1", {}}, "mlx5_0") == "leaf1");
  CHECK(leaf_of({"n1", {}}, "mlx5_0:1") == "leaf1");
  for (const char* none : {"mlx5_0:2", "mlx5_0:x", "mlx5_0:", "mlx5_7"}) {
    CHECK(leaf_of({"n1", {}}, none) == std::string("the fabric has no port of n1 ") + none);
  }
  // A name that the fabric does not know, and the GUID of n16, whatever n1 is called there.
  const std::uint64_t n16 = find_port(fabrics[0], {0x200003, 4})->peer->guid;
  CHECK(leaf_of({"head", {{"mlx5_0", n16}}}, "mlx5_0") == "leaf4");
  CHECK(leaf_of({"n1", {{"mlx5_0", n16}}}, "mlx5_0") == "leaf4");
  CHECK(leaf_of({"n1", {{"mlx5_0:1x", n16}}}, "mlx5_0:1x") ==
        "the fabric has no port of n1 mlx5_0:1x");
  CHECK(leaf_of({"n2", {{"mlx5_0", 0x77}}}, "mlx5_0") == "the fabric has no port of n2 mlx5_0");
  // A switch is below none.
  CHECK(leaf_of({"n1", {{"mlx5_0", 0x200000}}}, "mlx5_0") == "n1 mlx5_0 is below no switch");
  // Two hosts that call themselves the same.
  const std::vector<Fabric> twins{
      read_ibnetdiscover(said(replaced(fabric_text(one_rail, "cables"), "'n3 mlx5", "'n1 mlx5")))};
  CHECK(why_none(hosts(2), {"mlx5_0"}, twins) == "the fabric has no port of n1 mlx5_0");
}

TEST_CASE("rails in fabrics of their own are below the switches of each") {
  std::string cables = fabric_text(one_rail, "cables");
  cables = replaced(replaced(cables, "0x00000000002", "0x00000000012"), "mlx5_0", "mlx5_1");
  cables = replaced(cables, "0x00000000001000", "0x00000000011000");
  const std::vector<Fabric> fabrics{cables_of(one_rail), read_ibnetdiscover(said(cables))};
  const auto leaves = leaves_by_rails(hosts(), {"mlx5_0", "mlx5_1"}, fabrics);
  REQUIRE(leaves);
  // Switches of the same name are told apart.
  const std::string both = "leaf1 0x0000000000200000+leaf1 0x0000000001200000";
  CHECK(leaves->at("n1") == both);
  CHECK(leaves_by_names(fabrics)->at("n1") == both);
  CHECK(why_none(hosts(), {"mlx5_0", "mlx5_1"}, {fabrics[0]}) ==
        "the fabric has no port of n1 mlx5_1");
}

TEST_CASE("without a rail's port the names of hosts tell their leaves, without names nothing") {
  const Fabric fabric = cables_of(one_rail);
  CHECK(why_none({{"n1", {}}, {"elsewhere", {}}}, {"mlx5_0"}, {fabric}) ==
        "the fabric has no port of elsewhere mlx5_0");
  CHECK(leaves_by_names({fabric})->at("n16") == "leaf4");
  const Fabric silent = read_ibnetdiscover(failed("ibnetdiscover is not installed"));
  CHECK(why_none(hosts(), {"mlx5_0"}, {silent}) == "ibnetdiscover is not installed");
  CHECK(why_none(hosts(), {"mlx5_0"}, {fabric, silent}) == "ibnetdiscover is not installed");
  CHECK(leaves_by_names({silent}).error().message == "ibnetdiscover is not installed");
  CHECK(leaves_by_names({silent, fabric})->at("n1") == "leaf1");
  for (const char* text : {"", "nothing of the kind\n"}) {
    CHECK(leaves_by_names({read_ibnetdiscover(said(text))}).error().message ==
          "ibnetdiscover reported no host below a switch");
  }
}

TEST_CASE("a host with cables to several switches is below the group of them") {
  for (const Fabric& fabric :
       {read_ibnetdiscover(said(discovered)), read_iblinkinfo(said(linked))}) {
    CHECK(*leaves_by_names({fabric}) ==
          LeafOfNode{{"n1", "leaf1"}, {"n2", "leaf1"}, {"n3", "leaf2"}, {"n4", "leaf2"}});
  }
  // One of n1's two adapters moved.
  const std::string moved =
      replaced(replaced(discovered, "0x0000000000100003 4x HDR - SW     2  2 0x0000000000200000",
                        "0x0000000000100003 4x HDR - SW     3  8 0x0000000000200001"),
               "( 'n1 HCA-2' - 'leaf1' )", "( 'n1 HCA-2' - 'leaf2' )");
  CHECK(leaves_by_names({read_ibnetdiscover(said(moved))})->at("n1") == "leaf1+leaf2");
}
