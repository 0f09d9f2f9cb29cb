// By which port each switch sends on a packet to an address, as the subnet manager set it up.
// Plain data, from `dump_fts -n`. With adaptive routing a packet may take other ports as well.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "health/fabric/fabric.h"
#include "health/model/source_files.h"

namespace muster {

inline constexpr std::uint8_t no_out_port = 255;

struct ForwardingTables {
  // Of each switch, by its GUID; the place is the address, the LID.
  std::map<std::uint64_t, std::vector<std::uint8_t>> out_ports;
  ToolReading reading;
};

// A table of which the end is missing, or not what was counted, is left out, and the reading is not
// whole. Nothing here throws.
ForwardingTables read_dump_fts(const FileReading& said);

}  // namespace muster
