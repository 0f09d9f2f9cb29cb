// How often the cables of a fabric went down, as the log of events of NVIDIA's Unified Fabric
// Manager (UFM) has it: event.log, one event a line, in the local time of its host. The form is
// that of NVIDIA's own reader of it (Mellanox/ufm_sdk_3.0, plugins/ufm_log_analyzer_plugin,
// event_log_regex.py), the words of a link that goes down those of imbue-ai/cluster-health,
// ufm_events/find_problematic_events.py:
//
//   2023-12-20 07:46:24.442 [12] [329] WARNING [Fabric_Notification] Link [DESCRIPTION]: Link went
//   down: (Switch:leaf1:1/17/1)9c0591030090e000:33 - (Computer:n17 mlx5_3)fc6a1c0300244e00:1, cable
//   S/N: MT2330FT09118
//
// Plain data, of bounded size, and pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "health/fabric/fabric.h"
#include "health/fabric/judges.h"
#include "health/fabric/line_feed.h"

namespace muster {

using UfmTime = std::chrono::local_time<std::chrono::milliseconds>;

inline constexpr std::chrono::hours flap_window{24};

struct CableFlaps {
  std::deque<UfmTime> down;  // the latest hundred
  std::string line;          // the latest
};

struct UfmEvents {
  std::map<FabricLink, CableFlaps> cables;
  Fabric named;  // the ends' nodes, as the log calls them
  std::optional<UfmTime> first;
  std::optional<UfmTime> last;
  std::int64_t events = 0;         // lines that were understood
  std::int64_t skipped_lines = 0;  // lines that were not
  bool is_full = false;            // cables beyond what is kept
  std::string error;               // why there is none; empty: it was read
};

// The log as it comes.
class UfmEventReader {
 public:
  void feed(std::string_view bytes);
  UfmEvents done();  // nothing more comes

 private:
  void take_line(std::string_view line);
  void take_link_down(std::string_view message, UfmTime at, std::string_view line);

  UfmEvents events_;
  LineFeed lines_;
};

// fab.events: cables that went down `flaps` times (of the profile; usually 3) or more in the last
// 24 hours. `now`: local time of the log's host. A log that does not reach over them passes
// nothing.
FabricFindings judge_fabric_events(const UfmEvents& events, const Fabric& links, UfmTime now,
                                   const HealthProfile& profile);

}  // namespace muster
