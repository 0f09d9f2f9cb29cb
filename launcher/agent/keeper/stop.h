// Ending an attempt's processes and proving it. Knows processes only through the table and the
// function that it is given; time is an input.
//
//   Idle -> Grace -> Terminating -> Killing -> Proven
//     Grace:        the ranks were signalled and may save; their workers are left alone. It is
//                   extended while they save, up to its limit
//     Terminating:  SIGKILL to the ranks that are left, SIGTERM to everything else, unless that
//                   shall be killed at once
//     Killing:      SIGKILL until no process is found, or the kernel does not let them go
//   kill_now goes to Killing from anywhere.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/agent/node/process_table.h"

namespace muster {

class AttemptStop {
 public:
  using Clock = std::chrono::steady_clock;
  using Find = std::function<std::vector<ProcessInfo>()>;

  struct Proven {
    std::vector<std::string> unkillable;
  };

  struct Limits {
    std::chrono::milliseconds grace{0};
    std::chrono::milliseconds grace_max{0};  // less than `grace` counts as `grace`
    bool kills = false;  // ranks that are left at its end, which is then all that they are told
  };

  explicit AttemptStop(ProcessTable& table) : table_(table) {}

  // `signalled`: the ranks, already told to stop, or about to end by themselves. Again: the sooner
  // ends count.
  void begin(std::vector<ProcessInfo> signalled, Limits limits, Clock::time_point now);
  // The ranks are saving: they have at least until then, as far as `grace_max` allows.
  void extend(Clock::time_point until);
  void kill_now(Clock::time_point now);
  // Goes as far as it can at `now`.
  void step(Clock::time_point now, const Find& find);

  bool is_killing() const { return std::holds_alternative<Killing>(phase_); }
  bool is_in_grace() const { return std::holds_alternative<Grace>(phase_); }
  bool is_idle() const { return std::holds_alternative<Idle>(phase_); }
  bool is_active() const { return !is_idle() && proven() == nullptr; }
  const Proven* proven() const { return std::get_if<Proven>(&phase_); }

 private:
  struct Idle {};
  struct Grace {
    std::vector<ProcessInfo> signalled;
    Clock::time_point deadline;
    Clock::time_point limit;  // of every extension
    bool kills = false;
  };
  struct Terminating {
    Clock::time_point deadline;
  };
  struct Killing {
    Clock::time_point deadline;
    int empty_scans = 0;
  };

  bool step_once(Clock::time_point now, const Find& find);

  ProcessTable& table_;
  std::variant<Idle, Grace, Terminating, Killing, Proven> phase_;
};

// Kills what `find` finds and waits for the proof; the names of those that survive SIGKILL.
std::vector<std::string> kill_until_gone(ProcessTable& table, const AttemptStop::Find& find);

}  // namespace muster
