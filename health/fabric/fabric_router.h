// Which cables between switches a packet takes from one adapter to another: followed from switch to
// switch by their forwarding tables. Pure, and fast: pairs are asked for a million times.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "health/fabric/fabric.h"
#include "health/fabric/forwarding_tables.h"

namespace muster {

// Where packets of an adapter's port enter and leave the switches.
struct FabricDoor {
  std::uint32_t place = 0;  // of the switch, in the router
  int port = 0;
  int lid = 0;
  friend bool operator==(const FabricDoor&, const FabricDoor&) = default;
};

struct CableHop {
  std::size_t cable = 0;   // the place in cables()
  bool from_first = true;  // from the first end of it to the second
  friend bool operator==(const CableHop&, const CableHop&) = default;
};

class FabricRouter {
 public:
  FabricRouter(const Fabric& cabling, ForwardingTables tables);

  // Nothing: it is cabled to no switch, or has no address of its own.
  std::optional<FabricDoor> door(const FabricEnd& adapter) const;
  std::uint64_t switch_guid(const FabricDoor& door) const { return guids_[door.place]; }
  // Between switches, both ends of which tell of it.
  const std::vector<FabricLink>& cables() const { return cables_; }

  // Appends. False: the tables lead nowhere, to somebody else or in a circle; what was appended
  // then means nothing.
  bool add_hops(const FabricDoor& from, const FabricDoor& to, std::vector<CableHop>& hops) const;

 private:
  struct Exit {
    enum class Kind { none, adapter, cable };
    Kind kind = Kind::none;
    std::uint32_t place = 0;  // of the switch behind a cable
    CableHop hop;
  };
  std::optional<std::uint32_t> place_of(std::uint64_t guid) const;
  void add_exit(const Fabric& cabling, const FabricEnd& end, const FabricEnd& peer);

  std::vector<std::uint64_t> guids_;  // of switches, sorted
  std::vector<std::vector<std::uint8_t>> tables_;
  std::vector<std::vector<Exit>> exits_;  // by the switch's place and port
  std::vector<FabricLink> cables_;
  std::map<FabricEnd, FabricDoor> doors_;
};

}  // namespace muster
