// What a watch of the kernel's log remembers between lines and over a restart of its reader: plain
// fields to be saved and given back. Of one boot, except for the last two fields. Every map has a
// limit, of which the oldest entries give way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "health/checks/kernel/xid.h"
#include "health/model/finding.h"
#include "health/read/kmsg.h"
#include "scheduler/text/fields.h"

namespace muster {

// An event of one kind on one device.
struct SeenEvent {
  SinceBoot at{};             // told last
  int weight = 0;             // of what was told: a heavier one is told at once
  std::uint64_t repeats = 0;  // since, left out
  SinceBoot hour{};           // when the count began
  int in_hour = 0;            // told
  friend bool operator==(const SeenEvent&, const SeenEvent&) = default;

  MUSTER_FIELDS(at, weight, repeats, hour, in_hour)
};

// An NVML event that waits for its line in the log.
struct HeldXid {
  std::string address;
  int xid = 0;
  SinceBoot at{};
  friend bool operator==(const HeldXid&, const HeldXid&) = default;

  MUSTER_FIELDS(address, xid, at)
};

// An SXid that counts for more if a job dies.
struct OpenSxid {
  std::string address;
  int sxid = 0;
  SinceBoot at{};
  std::string line;
  friend bool operator==(const OpenSxid&, const OpenSxid&) = default;

  MUSTER_FIELDS(address, sxid, at, line)
};

// The driver's own verdict on a GPU.
struct StatedAction {
  SinceBoot at{};
  DriverAction action = DriverAction::none;
  std::string line;
  friend bool operator==(const StatedAction&, const StatedAction&) = default;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("at", self.at);
    visit("line", self.line);
    int action = static_cast<int>(self.action);  // the driver's own number
    visit("action", action);
    if constexpr (!std::is_const_v<Self>) self.action = static_cast<DriverAction>(action);
  }
};

// A failure that has not been seen to.
struct StandingFailure {
  SinceBoot at{};
  std::optional<SinceBoot> until;
  std::string address;  // of a GPU: a reset clears it
  HealthFinding finding;
  friend bool operator==(const StandingFailure&, const StandingFailure&) = default;

  MUSTER_FIELDS(at, until, address, finding)
};

struct KernelWatchState {
  std::string boot_id;
  std::optional<std::uint64_t> sequence;  // of the last line
  SinceBoot latest{};                     // time of the last line
  SinceBoot history{};                    // what is older was logged before anyone watched
  std::uint64_t lost_lines = 0;           // overwritten before they were read
  std::optional<SinceBoot> old_records;   // when those of the boot before were written
  std::string last_end;                   // of the last line: some messages come in two
  std::string last_gpu;                   // that the driver wrote about

  std::map<std::string, SeenEvent> seen;            // "gpu.xid 0000:3b:00.0 79"
  std::map<std::string, StandingFailure> standing;  // "gpu.xid 0000:3b:00.0"
  std::map<std::string, SinceBoot> resets;          // of GPUs, by address
  std::optional<SinceBoot> driver_loaded;           // a reset of them all
  std::map<std::string, SinceBoot> kills;           // of ranks on a GPU; "": on all
  std::map<std::string, SinceBoot> faults;          // the last Xid of a GPU that is no removal
  std::map<std::string, StatedAction> actions;      // by GPU
  std::vector<HeldXid> held;
  std::vector<OpenSxid> open_sxids;
  std::optional<SinceBoot> job_death;
  std::set<std::string, std::less<>> resets_at_epilog;
  std::map<std::string, int> nvlink_faults;  // of a link: "0000:3b:00.0 6"; of all boots
  std::set<std::string> switches;            // that ever had an SXid; of all boots

  friend bool operator==(const KernelWatchState&, const KernelWatchState&) = default;

  MUSTER_FIELDS(boot_id, sequence, latest, history, lost_lines, old_records, last_end, last_gpu,
                seen, standing, resets, driver_loaded, kills, faults, actions, held, open_sxids,
                job_death, resets_at_epilog, nvlink_faults, switches)
};

}  // namespace muster
