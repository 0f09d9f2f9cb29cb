// Prints the ways of packets as they are read from the fabric that this host is on: for each two
// arguments HOST:DEVICE a line with both addresses and the ends of each cable between switches,
// `1 14 0x0000000000200000[5]-0x0000000000200004[1] …`, or `none` and why.
#include <cstdio>

#include "health/fabric/readers.h"
#include "health/fabric/tools.h"
#include "health/fault_isolation/pair.h"

namespace {

using namespace muster;

struct Named {
  std::string host;
  std::string device;
};

Named named(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 1)};
}

std::string text_of_end(const FabricEnd& end) {
  return text_of_guid(end.guid) + "[" + std::to_string(end.port) + "]";
}

std::string way(const Named& from, const Named& to, const std::vector<Fabric>& fabrics,
                const ForwardingTables& tables) {
  // One rail: the device may be another on each.
  const auto one = rail_ports({{from.host, {}}}, {from.device}, fabrics);
  const auto other = rail_ports({{to.host, {}}}, {to.device}, fabrics);
  if (!one || !other) return "none: " + (one ? other : one).error().message;
  const RailPorts ports{{one->ports[0], other->ports[0]}, {0}};
  const auto leaves = leaves_by_cabling(ports, fabrics);
  if (!leaves) return "none: " + leaves.error().message;
  const std::vector<LocaliseNode> nodes{{from.host, (*leaves)[0], {from.device}},
                                        {to.host, (*leaves)[1], {to.device}}};
  const auto routes = routes_between(nodes, ports, fabrics, {tables});
  if (!routes) return "none: " + routes.error().message;
  std::vector<LinkHop> hops;
  routes->routes.hops(0, 1, 0, hops);
  const auto lid = [&](const RailPorts& of) {
    return std::to_string(fabrics[0].lids.at(of.ports[0][0].guid));
  };
  std::string text = lid(*one) + " " + lid(*other);
  for (const LinkHop& hop : hops) {
    const auto& [a, b] = routes->cables[hop.link];
    text += " " + text_of_end(hop.from_a ? a : b) + "-" + text_of_end(hop.from_a ? b : a);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Fabric> fabrics{
      read_ibnetdiscover(ask_fabric_tool(FabricTool::discover, {}).said)};
  const ForwardingTables tables = read_dump_fts(ask_fabric_tool(FabricTool::tables, {}).said);
  for (int i = 1; i + 1 < argc; i += 2) {
    std::puts(way(named(argv[i]), named(argv[i + 1]), fabrics, tables).c_str());
  }
}
