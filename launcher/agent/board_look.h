// What the board's controller has against the node: asked after an attempt failed here, once nobody
// wants the node, for its answer takes seconds. While a fault of it stands it is asked again now
// and then. A reader of its own, so that nothing waits for it; ended when a job comes. Owned by
// HealthWatch, on its thread.
//
//   calm ── owe ──► owed ── left alone for quiet_time ──► looking ──► calm
//                    ▲ stop ─────────────────────────────────┘
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "health/monitor/check_run.h"
#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/health/reader_deaths.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

class BoardLook {
 public:
  // Since the last word of a job: the next attempt comes sooner.
  static constexpr std::chrono::seconds quiet_time{10};
  static constexpr std::chrono::minutes again_after{10};

  // `helper`: argv of the reading helper.
  explicit BoardLook(std::vector<std::string> helper, std::chrono::milliseconds quiet = quiet_time);
  ~BoardLook();
  BoardLook(const BoardLook&) = delete;
  BoardLook& operator=(const BoardLook&) = delete;

  void owe() { is_owed_ = true; }
  // A job comes, or the monitor goes: what is under way is killed, and owed.
  void stop();
  // Whether it has something to do on a node that is left alone. `has_fault`: asked when it would
  // be time to look again.
  bool is_due(const std::function<bool()>& has_fault);
  bool is_looking() const { return run_ != nullptr; }
  void begin(NodeMonitor& monitor, const CheckSituation& situation);
  // Twice a second. The findings, when it is over.
  std::optional<std::vector<HealthFinding>> poll(const CheckMoment& now);

  // A dead child of the agent; true: it was the helper.
  bool reaped(pid_t pid, int wait_status);
  // Of its helpers, until all of their processes are gone: no processes of any attempt.
  std::set<pid_t> sessions() const;

 private:
  void end_reader();

  std::vector<std::string> helper_;
  std::chrono::milliseconds quiet_;
  std::unique_ptr<NodeReader> reader_;
  std::unique_ptr<CheckRun> run_;
  bool is_reading_ = false;
  bool is_owed_ = false;
  BootTime quiet_since_{};
  BootTime looked_at_ = boot_time();  // or was seen to have no fault
  ReaderDeaths dead_;
  EndingSessions ending_;
};

}  // namespace muster
