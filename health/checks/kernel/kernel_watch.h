// Follows one node's kernel log and its GPUs' Xid events and says what they mean for the node:
// every event once. Owned by whoever reads the log, on that thread; opens nothing and knows no
// time but what it is told. All that it remembers is plain data, bounded however much is logged.
//
//   begin(boot id, now)  ->  feed(line), on_xid_event(…), tick(now) every second  ->  findings
//
// Told too: kills, resets and deaths of jobs, which change what an event means.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "health/checks/kernel/xid_table.h"
#include "health/model/finding.h"
#include "health/read/kmsg.h"
#include "scheduler/text/fields.h"

namespace muster {

struct KernelRule;

// How findings name devices, by PCI address as text/pattern.h writes it: "gpu3", "mlx5_0". One
// that is not named here goes by its address.
struct PciNames {
  std::map<std::string, std::string, std::less<>> names;
  // Functions that are not judged: virtual ones, management adapters.
  std::set<std::string, std::less<>> skipped;
};

// A port's link that went down or came back: what ib.flap counts.
struct LinkChange {
  std::string device;  // "mlx5_3" or the address
  bool is_up = false;
  SinceBoot at{};
  std::string line;
};

struct KernelEvents {
  std::vector<HealthFinding> findings;
  std::vector<LinkChange> links;
  std::vector<std::string> refused_registers;  // devices whose firmware refuses what we read
  std::vector<std::string> resets;             // GPUs that somebody reset, as the log tells
};

// What can be read on this node: what cannot is unknown, not good.
struct WatchSources {
  std::string log_error;  // empty: the log is read
  bool has_xid_events = false;
};

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
struct ActiveFailure {
  SinceBoot at{};
  std::optional<SinceBoot> until;
  std::string address;  // of a GPU: a reset clears it
  HealthFinding finding;
  friend bool operator==(const ActiveFailure&, const ActiveFailure&) = default;

  MUSTER_FIELDS(at, until, address, finding)
};

// What a watch remembers between lines and over a restart of its reader: plain fields to be saved
// and given back. Of one boot, except for the last two fields. Every map has a limit, of which the
// oldest entries give way.
struct KernelWatchState {
  std::string boot_id;
  std::optional<std::uint64_t> sequence;  // of the last line
  SinceBoot latest{};                     // time of the last line
  SinceBoot history{};                    // what is older was logged before anyone watched
  std::uint64_t lost_lines = 0;           // overwritten before they were read
  std::optional<SinceBoot> old_records;   // when those of the boot before were written
  std::string last_end;                   // of the last line: some messages come in two
  std::string last_gpu;                   // that the driver wrote about

  std::map<std::string, SeenEvent> seen;          // "gpu.xid 0000:3b:00.0 79"
  std::map<std::string, ActiveFailure> standing;  // "gpu.xid 0000:3b:00.0"
  std::map<std::string, SinceBoot> resets;        // of GPUs, by address
  std::optional<SinceBoot> driver_loaded;         // a reset of them all
  std::map<std::string, SinceBoot> kills;         // of ranks on a GPU; "": on all
  std::map<std::string, SinceBoot> faults;        // the last Xid of a GPU that is no removal
  std::map<std::string, StatedAction> actions;    // by GPU
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

class KernelWatch {
 public:
  explicit KernelWatch(PciNames names, KernelWatchState saved = {});

  // Before the first line. Another boot id than the saved one forgets what that boot logged.
  // Without a saved cursor the boot's whole log counts; but of what was logged more than ten
  // minutes ago, nothing that only warns or passes by itself.
  void begin(std::string_view boot_id, SinceBoot now);

  // What was told by address before goes by its name from now on; what is skipped stands no more.
  void set_names(PciNames names);

  KernelEvents feed(const KernelLine& line);
  KernelEvents feed(std::span<const KernelLine> lines);
  // NVML's event. While the log is followed it waits a second for its line, which says more.
  KernelEvents on_xid_event(std::string_view address, int xid, SinceBoot at);
  // NVML's event of what the driver wants done to a GPU; the same as its Xid 154.
  KernelEvents on_driver_action(std::string_view address, DriverAction action, SinceBoot at);
  // Judges the events that no line came for.
  KernelEvents tick(SinceBoot now);

  // We killed ranks on these GPUs; on all of them if none is named.
  void on_kill(std::span<const std::string> addresses, SinceBoot at);
  void on_reset(std::string_view address, SinceBoot at);
  // The driver, asked long after it wanted a reset of the GPU, wants none: it has had it. True: so
  // it is.
  bool on_no_action(std::string_view address, SinceBoot at);
  // A job on the node died, not by us.
  KernelEvents on_job_death(SinceBoot at);
  // No job is on the node any more: the resets that waited for that are called for.
  KernelEvents on_jobs_over(SinceBoot at);
  // A person or a repair has seen to a check; an empty device: on all of them.
  void on_cleared(std::string_view check, std::string_view device);

  // What is wrong at this time, and passes of the checks that only the log answers.
  std::vector<HealthFinding> standing(const WatchSources& sources, SinceBoot now) const;
  // GPUs with a reset to come when their job has ended.
  const std::set<std::string, std::less<>>& resets_at_epilog() const {
    return state_.resets_at_epilog;
  }
  const KernelWatchState& state() const { return state_; }

 private:
  struct Xid;
  bool is_new(const KernelLine& line);
  void feed_text(std::string_view text, const KernelLine& line, SinceBoot at, KernelEvents& out);
  void feed_xid(const XidLine& xid, std::string_view text, SinceBoot at, KernelEvents& out);
  void feed_sxid(const SxidLine& sxid, std::string_view text, SinceBoot at, KernelEvents& out);
  void feed_link(bool is_up, std::string_view text, const KernelLine& line, SinceBoot at,
                 KernelEvents& out);
  void feed_rule(const KernelRule& rule, std::string_view text, const KernelLine& line,
                 SinceBoot at, KernelEvents& out);
  bool is_of_old_records(std::string_view text, SinceBoot at);
  bool is_history(SinceBoot at) const { return at < state_.history; }
  void note_driver_line(std::string_view text);
  void note_driver_load(SinceBoot at, KernelEvents& out);

  void judge_xid(const Xid& xid, KernelEvents& out);
  void judge_driver_action(const Xid& xid, std::optional<DriverAction> action, KernelEvents& out);
  void override_by(const StatedAction& stated, const std::string& address, KernelEvents& out);
  XidVerdict final_verdict(const Xid& xid);
  bool is_silent(const Xid& xid, const XidVerdict& verdict) const;
  bool is_from_kill(const Xid& xid) const;
  bool is_reset_since(std::string_view address, SinceBoot at) const;
  bool follows_a_fault(const Xid& xid) const;
  std::optional<int> xid_before_reset(const std::string& address) const;

  // Nothing: it was told less than a minute ago. Else how many were left out since.
  std::optional<std::uint64_t> news(const std::string& key, int weight, SinceBoot at);
  void raise(ActiveFailure failure, const std::string& address, KernelEvents& out);
  void raise_sxid(const OpenSxid& sxid, CheckSeverity severity, std::uint64_t left_out,
                  KernelEvents& out);
  void forget(const std::string& key_begin);
  std::string device_of(std::string_view address) const;
  std::string subject_of(const KernelRule& rule, std::string_view text,
                         const KernelLine& line) const;

  PciNames names_;
  KernelWatchState state_;
};

}  // namespace muster
