#include "cli/health_pairs_fabric.h"

#include <algorithm>

#include "health/fabric/fabric_subject.h"
#include "health/fabric/judges.h"

namespace muster {

namespace {

constexpr const char* ways_changed =
    "packets went other ways before the measurement than after it, so that none is named";

bool is_of_links(const LocaliseVerdict& verdict) {
  return verdict.kind == LocaliseKind::link || verdict.kind == LocaliseKind::fabric_switch;
}

std::string text_of(const HealthFinding& finding, const std::string& evidence) {
  return finding.check + ": " + evidence;
}

// Of a cable between switches.
std::vector<std::string> failures_of(const FabricFindings& findings, const std::string& cable) {
  std::vector<std::string> found;
  for (const FabricFinding& one : findings) {
    const HealthFinding& finding = one.finding;
    if (!one.host.empty() || finding.device != cable || finding.status != CheckStatus::fail) {
      continue;
    }
    for (const std::string& line : finding.evidence) found.push_back(text_of(finding, line));
  }
  return found;
}

// It was looked at, whatever came of it.
bool is_known(const FabricFindings& findings, const std::string& cable) {
  return std::ranges::any_of(findings, [&](const FabricFinding& one) {
    return one.host.empty() && one.finding.device == cable &&
           one.finding.status != CheckStatus::unknown;
  });
}

}  // namespace

AskFabric ask_fabrics_by(const std::vector<HcaPort>& ports) {
  return [ports](FabricTool tool, std::size_t port) {
    FabricToolOptions options;
    if (port < ports.size()) options.port = ports[port];
    return ask_fabric_tool(tool, options);
  };
}

std::vector<Fabric> PairsFabric::ask_cabling() {
  std::vector<Fabric> fabrics;
  for (std::size_t i = 0; i < port_count_; ++i) {
    fabrics.push_back(read_ibnetdiscover(ask_(FabricTool::discover, i).said));
  }
  return fabrics;
}

void PairsFabric::look(const std::vector<RailGuids>& nodes, const std::vector<std::string>& rails) {
  fabrics_ = ask_cabling();
  for (const RailGuids& node : nodes) node_names_.push_back(node.node);
  ports_ = rail_ports(nodes, rails, fabrics_);
  for (const Fabric& fabric : fabrics_) {
    if (!fabric.reading.error.empty()) ports_ = Error{fabric.reading.error};
  }
}

Result<LeafOfNode> PairsFabric::leaves() const {
  if (ports_) {
    const auto found = leaves_by_cabling(*ports_, fabrics_);
    if (found) {
      LeafOfNode leaves;
      for (std::size_t i = 0; i < node_names_.size(); ++i) leaves[node_names_[i]] = (*found)[i];
      return leaves;
    }
  }
  LeafOfNode leaves;
  std::string why;
  for (const Fabric& fabric : fabrics_) {
    auto found = leaves_in(fabric);
    if (found) leaves.merge(*found);
    if (!found && why.empty()) why = found.error().message;
  }
  if (leaves.empty()) return Error{why};
  return leaves;
}

Result<NodeRoutes> PairsFabric::ask_routes(const std::vector<Fabric>& fabrics) {
  std::vector<ForwardingTables> tables;
  for (std::size_t i = 0; i < fabrics.size(); ++i) {
    tables.push_back(read_dump_fts(ask_(FabricTool::tables, i).said));
  }
  return routes_between(nodes_, *ports_, fabrics, std::move(tables));
}

Result<FabricRoutes> PairsFabric::routes(const std::vector<LocaliseNode>& nodes) {
  if (!ports_) return ports_.error();
  nodes_ = nodes;
  auto found = ask_routes(fabrics_);
  if (!found) return found.error();
  routes_ = std::move(*found);
  for (std::size_t i = 0; i < fabrics_.size(); ++i) {
    errors_before_.push_back(read_ibqueryerrors(ask_(FabricTool::errors, i).said));
  }
  counted_at_ = std::chrono::steady_clock::now();
  return routes_->routes;
}

SwitchPort PairsFabric::port_of(const FabricEnd& end) const {
  SwitchPort port{"", text_of_guid(end.guid), end.port, {}};
  for (const Fabric& fabric : fabrics_) {
    if (const FabricNode* node = find_node(fabric, end.guid)) port.switch_name = node->name;
    const FabricPort* found = find_port(fabric, end);
    if (found == nullptr || !found->lanes || !found->lane_gbps) continue;
    port.gbps = *found->lanes * *found->lane_gbps;
  }
  return port;
}

NamedLink PairsFabric::link_of(std::size_t place) const {
  const FabricLink& cable = routes_->cables[place];
  return {
      routes_->routes.links[place].name, port_of(cable.first), port_of(cable.second), false, {}};
}

void PairsFabric::explain(PairsResult& result) {
  if (!routes_ || std::ranges::none_of(result.verdicts, is_of_links)) return;
  const auto now = ask_routes(ask_cabling());
  if (!now || now->digest != routes_->digest) {
    std::erase_if(result.verdicts, is_of_links);
    result.why_no_link =
        now ? ways_changed
            : "whether packets still go the same ways is not known: " + now.error().message;
    return;
  }
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < routes_->routes.links.size(); ++i) {
    places[routes_->routes.links[i].name] = i;
  }
  for (const LocaliseVerdict& verdict : result.verdicts) {
    if (!is_of_links(verdict)) continue;
    for (const std::string& name : verdict.names) {
      const auto place = places.find(name);
      if (place != places.end()) result.links.emplace(name, link_of(place->second));
      const auto one = routes_->switches.find(name);
      if (one != routes_->switches.end()) result.switch_guids[name] = text_of_guid(one->second);
    }
  }
  std::vector<NamedLink*> links;
  for (auto& [name, link] : result.links) links.push_back(&link);
  if (!links.empty()) add_checks(links);
}

// Without a golden topology fab.links knows the width alone; the speed is told with the port.
void PairsFabric::add_checks(std::vector<NamedLink*>& links) {
  const auto between = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now() - counted_at_);
  for (std::size_t i = 0; i < fabrics_.size(); ++i) {
    const Fabric now = read_iblinkinfo(ask_(FabricTool::links, i).said);
    const FabricErrors errors = read_ibqueryerrors(ask_(FabricTool::errors, i).said);
    const FabricFindings of_links = judge_fabric_links(now, nullptr, profile_);
    const FabricFindings of_errors = judge_fabric_errors(
        errors_before_[i], errors, std::max(std::chrono::seconds(1), between), now, profile_);
    const FabricNames names(now);
    for (NamedLink* link : links) {
      const auto place = std::ranges::find(routes_->routes.links, link->name, &SwitchLink::name);
      const FabricLink& cable =
          routes_->cables[static_cast<std::size_t>(place - routes_->routes.links.begin())];
      // Two cables may have the name that the checks give.
      const std::string name = names.cable(cable).front().device;
      if (name != link->name) continue;
      link->is_checked = is_known(of_links, name) && is_known(of_errors, name);
      link->confirms = failures_of(of_links, name);
      const auto errors_of = failures_of(of_errors, name);
      link->confirms.insert(link->confirms.end(), errors_of.begin(), errors_of.end());
    }
  }
}

}  // namespace muster
