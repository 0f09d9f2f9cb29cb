// What `muster health pairs` takes from the InfiniBand fabric: leaves, the routes of packets
// between the nodes, and what the fabric's own checks say of a link that pairs named. Blocks while
// a tool runs, which its deadline bounds.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/health/cluster/health_pairs_report.h"
#include "cli/health/cluster/leaf_file.h"
#include "health/fabric/readers.h"
#include "health/fabric/tools.h"
#include "health/fault_isolation/pair.h"
#include "health/model/profile.h"

namespace muster {

// By the port of this host of that place; one when nobody named any.
using AskFabric = std::function<FabricToolAnswer(FabricTool, std::size_t port)>;
AskFabric ask_fabrics_by(const std::vector<HcaPort>& ports);

class PairsFabric {
 public:
  PairsFabric(AskFabric ask, std::size_t ports, HealthProfile profile)
      : ask_(std::move(ask)), port_count_(ports), profile_(std::move(profile)) {}

  // Asks how the fabric is cabled; the others rest on that.
  void look(const std::vector<RailGuids>& nodes, const std::vector<std::string>& rails);

  // By the rails' own cables; by the names of hosts, where a rail is not found.
  Result<LeafOfNode> leaves() const;

  // Asks the switches for their tables, and for counters to compare with later.
  Result<FabricRoutes> routes(const std::vector<LocaliseNode>& nodes);

  // Says of named links and switches which they are, and what the fabric's checks say of them.
  // When packets go other ways than before, no link of the old ways stays named.
  void explain(PairsResult& result);

 private:
  std::vector<Fabric> ask_cabling();
  Result<NodeRoutes> ask_routes(const std::vector<Fabric>& fabrics);
  NamedLink link_of(std::size_t place) const;
  SwitchPort port_of(const FabricEnd& end) const;
  void add_checks(std::vector<NamedLink*>& links);

  AskFabric ask_;
  std::size_t port_count_;
  HealthProfile profile_;
  std::vector<Fabric> fabrics_;
  std::vector<std::string> node_names_;
  std::vector<LocaliseNode> nodes_;
  Result<RailPorts> ports_ = Error{"the fabric was not asked"};
  std::optional<NodeRoutes> routes_;
  std::vector<FabricErrors> errors_before_;
  std::chrono::steady_clock::time_point counted_at_;
};

}  // namespace muster
