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

namespace muster {

// An event of one kind on one device.
struct SeenEvent {
  SinceBoot at{};             // told last
  int weight = 0;             // of what was told: a heavier one is told at once
  std::uint64_t repeats = 0;  // since, left out
  SinceBoot hour{};           // when the count began
  int in_hour = 0;            // told
  friend bool operator==(const SeenEvent&, const SeenEvent&) = default;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("at", self.at);
    visit("weight", self.weight);
    visit("repeats", self.repeats);
    visit("hour", self.hour);
    visit("in_hour", self.in_hour);
  }
};

// An NVML event that waits for its line in the log.
struct HeldXid {
  std::string address;
  int xid = 0;
  SinceBoot at{};
  friend bool operator==(const HeldXid&, const HeldXid&) = default;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("address", self.address);
    visit("xid", self.xid);
    visit("at", self.at);
  }
};

// An SXid that counts for more if a job dies.
struct OpenSxid {
  std::string address;
  int sxid = 0;
  SinceBoot at{};
  std::string line;
  friend bool operator==(const OpenSxid&, const OpenSxid&) = default;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("address", self.address);
    visit("sxid", self.sxid);
    visit("at", self.at);
    visit("line", self.line);
  }
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

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("at", self.at);
    visit("until", self.until);
    visit("address", self.address);
    visit("finding", self.finding);
  }
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

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("boot_id", self.boot_id);
    visit("sequence", self.sequence);
    visit("latest", self.latest);
    visit("history", self.history);
    visit("lost_lines", self.lost_lines);
    visit("old_records", self.old_records);
    visit("last_end", self.last_end);
    visit("last_gpu", self.last_gpu);
    visit("seen", self.seen);
    visit("standing", self.standing);
    visit("resets", self.resets);
    visit("driver_loaded", self.driver_loaded);
    visit("kills", self.kills);
    visit("faults", self.faults);
    visit("actions", self.actions);
    visit("held", self.held);
    visit("open_sxids", self.open_sxids);
    visit("job_death", self.job_death);
    visit("resets_at_epilog", self.resets_at_epilog);
    visit("nvlink_faults", self.nvlink_faults);
    visit("switches", self.switches);
  }
};

}  // namespace muster
