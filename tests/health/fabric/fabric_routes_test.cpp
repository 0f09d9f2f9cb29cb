#include <random>

#include "health/fabric/fabric_router.h"
#include "health/fabric/readers.h"
#include "tests/catch.h"
#include "tests/health/fabric_samples.h"
#include "tests/health/fabric_text.h"

using namespace muster;
using namespace muster::fabric_samples;

namespace {

constexpr std::uint64_t leaf1 = 0x200000;
constexpr std::uint64_t leaf4 = 0x200003;
constexpr const char* head =
    "Unicast lids [0x0-0x18] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000200003 "
    "(leaf4):\n  Lid  Out   Destination\n       Port     Info \n";

ForwardingTables tables_of(const std::string& text) {
  return read_dump_fts(said(text));
}

Fabric cabling() {
  return read_ibnetdiscover(said(fabric_text(one_rail, "cables")));
}

FabricEnd port_of(const Fabric& fabric, const std::string& description) {
  for (const auto& [guid, node] : fabric.nodes) {
    if (node.name == description) return {guid, 1};
  }
  FAIL("no " + description);
  return {};
}

// "leaf1[5]-spine1[1] spine1[4]-leaf4[5]", as ibtracert tells it; "none".
std::string way(const FabricRouter& router, const Fabric& fabric, const std::string& from,
                const std::string& to) {
  const auto out = router.door(port_of(fabric, from));
  const auto in = router.door(port_of(fabric, to));
  std::vector<CableHop> hops;
  if (!out || !in || !router.add_hops(*out, *in, hops)) return "none";
  std::string text;
  for (const CableHop& hop : hops) {
    const auto& [first, second] = router.cables()[hop.cable];
    text += (text.empty() ? "" : " ") + text_of(fabric, hop.from_first ? first : second) + "-" +
            text_of(fabric, hop.from_first ? second : first);
  }
  return text;
}

}  // namespace

TEST_CASE("ibnetdiscover -p tells the address of each adapter and switch") {
  const Fabric fabric = cabling();
  CHECK(fabric.lids.at(0x100001) == 1);
  CHECK(fabric.lids.size() == 24);
  CHECK(read_ibnetdiscover(said(topology)).lids.empty());
}

TEST_CASE("dump_fts tells by which port each switch sends to each address") {
  const ForwardingTables tables = tables_of(fabric_text(one_rail, "tables"));
  CHECK(tables.reading.is_whole());
  CHECK(tables.out_ports.size() == 8);
  CHECK(tables.out_ports.at(leaf4).at(1) == 5);
  CHECK(tables.out_ports.at(leaf4).at(0x15) == 1);
  CHECK(tables.out_ports.at(leaf4).at(0) == no_out_port);
  const std::string named =
      std::string(head) +
      "0x0001 033 : (Channel Adapter portguid 0x0000000000100001: 'n1 mlx5_0')\n"
      "0x0004 000 : (Switch portguid 0x0000000000200003: 'leaf4')\n2 valid lids dumped \n";
  CHECK(tables_of(named).reading.is_whole());
  CHECK(tables_of(named).out_ports.at(leaf4).at(1) == 33);
}

TEST_CASE("a table that is cut, counted otherwise or comes twice is none, and is told") {
  const std::string line = "0x0001 005 \n";
  const std::string end = "1 valid lids dumped \n";
  CHECK(tables_of(head + line + end).reading.is_whole());
  for (const std::string& text :
       {head + line, head + line + "1 valid li", head + line + "2 valid lids dumped \n",
        head + line + line + end, head + line + "rubbish\n" + end, line + end, end,
        head + line + end + head + line + end, head + line + head + line + end,
        head + std::string("0xc001 005 \n") + end, head + std::string("0x0001 256 \n") + end,
        head + std::string("0x0001 \n") + end, head + std::string("0x0001 005 x\n") + end,
        std::string("Multicast mlids [0xc000-0xc0ff] of switch Lid 2 guid 0x1 (a):\n"),
        std::string("Unicast lids [0x0-0x18] of switch Lid 2 guid 0x0 (a):\n")}) {
    CAPTURE(text);
    CHECK_FALSE(tables_of(text).reading.is_whole());
  }
  const ForwardingTables half = tables_of(head + line);
  CHECK(half.out_ports.empty());
  CHECK_FALSE(half.reading.complaints.empty());
  CHECK(read_dump_fts(failed("not installed")).reading.error == "not installed");
  CHECK(tables_of("").out_ports.empty());
}

TEST_CASE("the cables that packets take are those of ibtracert") {
  const Fabric fabric = cabling();
  const FabricRouter router(fabric, tables_of(fabric_text(one_rail, "tables")));
  CHECK(router.cables().size() == 16);
  // From {n1}[1], [1] -> {leaf1}[1], [5] -> {spine1}[1] and so on.
  CHECK(way(router, fabric, "n1 mlx5_0", "n2 mlx5_0").empty());
  CHECK(way(router, fabric, "n1 mlx5_0", "n13 mlx5_0") == "leaf1[5]-spine1[1] spine1[4]-leaf4[5]");
  CHECK(way(router, fabric, "n13 mlx5_0", "n1 mlx5_0") == "leaf4[5]-spine1[4] spine1[1]-leaf1[5]");
  CHECK(way(router, fabric, "n1 mlx5_0", "n16 mlx5_0") == "leaf1[8]-spine4[1] spine4[4]-leaf4[8]");
}

TEST_CASE("tables that lead nowhere, in a circle or to another adapter lead to no way") {
  const Fabric fabric = cabling();
  const ForwardingTables good = tables_of(fabric_text(one_rail, "tables"));
  const auto with = [&](std::uint64_t guid, int lid, std::uint8_t port) {
    ForwardingTables tables = good;
    tables.out_ports.at(guid).at(static_cast<std::size_t>(lid)) = port;
    return way(FabricRouter(fabric, tables), fabric, "n1 mlx5_0", "n13 mlx5_0");
  };
  const int n13 = fabric.lids.at(port_of(fabric, "n13 mlx5_0").guid);
  const std::uint64_t spine1 = port_of(fabric, "spine1").guid;
  CHECK(with(leaf4, 1, 5) != "none");
  CHECK(with(leaf1, n13, no_out_port) == "none");
  CHECK(with(leaf1, n13, 0) == "none");   // the switch itself
  CHECK(with(leaf1, n13, 99) == "none");  // no such port
  CHECK(with(leaf1, n13, 2) == "none");   // n2
  CHECK(with(spine1, n13, 1) == "none");  // back to leaf1, for ever
  CHECK(with(leaf4, n13, 2) == "none");   // n14
  ForwardingTables without = good;
  without.out_ports.erase(spine1);
  CHECK(way(FabricRouter(fabric, without), fabric, "n1 mlx5_0", "n13 mlx5_0") == "none");
  CHECK(way(FabricRouter(fabric, {}), fabric, "n1 mlx5_0", "n13 mlx5_0") == "none");
}

TEST_CASE("an address of two, a cable that one end denies and an end without address are no way") {
  const ForwardingTables tables = tables_of(fabric_text(one_rail, "tables"));
  const Fabric fabric = cabling();
  const FabricEnd n1 = port_of(fabric, "n1 mlx5_0");
  const FabricEnd n13 = port_of(fabric, "n13 mlx5_0");
  Fabric other = fabric;
  other.lids[n13.guid] = other.lids.at(n1.guid);
  CHECK_FALSE(FabricRouter(other, tables).door(n13));
  CHECK_FALSE(FabricRouter(other, tables).door(n1));
  other = fabric;
  other.lids.erase(n13.guid);
  CHECK_FALSE(FabricRouter(other, tables).door(n13));
  other = fabric;
  other.ports.at({leaf1, 5}).peer = FabricEnd{leaf4, 6};
  CHECK(way(FabricRouter(other, tables), other, "n1 mlx5_0", "n13 mlx5_0") == "none");
  CHECK_FALSE(FabricRouter(fabric, tables).door({0x77, 1}));
}

TEST_CASE("rubbish among the tables and cables is survived, and never a way to somebody else") {
  const std::string tables = fabric_text(one_rail, "tables");
  const std::string cables = fabric_text(one_rail, "cables");
  std::mt19937 random(17);
  int whole = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bad = i % 2 == 0 ? tables : cables;
    for (int k = 0; k <= i % 5; ++k) {
      const std::size_t at = random() % bad.size();
      if (k % 3 == 0) bad[at] = static_cast<char>(random() % 256);
      if (k % 3 == 1) bad.erase(at, random() % 40);
      if (k % 3 == 2) bad.insert(at, bad.substr(random() % bad.size(), random() % 200));
    }
    if (i % 7 == 0) bad.resize(random() % bad.size());
    const Fabric fabric = read_ibnetdiscover(said(i % 2 == 0 ? cables : bad));
    const ForwardingTables read = tables_of(i % 2 == 0 ? bad : tables);
    whole += read.reading.is_whole() && fabric.reading.is_whole();
    const FabricRouter router(fabric, read);
    for (const auto& [from, from_node] : fabric.nodes) {
      for (const auto& [to, to_node] : fabric.nodes) {
        const auto out = router.door({from, 1});
        const auto in = router.door({to, 1});
        std::vector<CableHop> hops;
        if (!out || !in || from == to || !router.add_hops(*out, *in, hops)) continue;
        // Each hop begins where the last one ended, and the last one at the receiver's switch.
        std::uint64_t at = router.switch_guid(*out);
        for (const CableHop& hop : hops) {
          const auto& [first, second] = router.cables().at(hop.cable);
          REQUIRE((hop.from_first ? first : second).guid == at);
          at = (hop.from_first ? second : first).guid;
        }
        REQUIRE(at == router.switch_guid(*in));
      }
    }
  }
  CHECK(whole < 150);
}
