// The node's health while the agent serves: follows the kernel's log, has the node's sources read
// as often as they are worth it, and says what it believes to be wrong. Owned by Agent, on its
// thread; whatever may hang is read by a helper process that can be killed.
//
//   gate (CheckNode) ─► while ranks run ─► a rank failed ─► the last one is gone: epilog ─► idle
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "health/monitor/check_run.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "health/verdict/prolog.h"
#include "launcher/agent/health/reader_deaths.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/wire/agent_report.h"
#include "launcher/wire/agent_request.h"
#include "runtime/protocol/boot_clock.h"
#include "scheduler/model/health_profile.h"
#include "scheduler/model/result.h"
#include "scheduler/text/fields.h"

namespace muster {

class KernelLog;
class NodeMonitor;
class NodeReader;
struct SavedHealth;

class HealthWatch {
 public:
  struct Site {
    std::string root;                 // where /proc, /sys and /dev are found
    std::string state_file;           // what is remembered over a restart of the agent
    std::vector<std::string> helper;  // argv of the reading helper
    std::string boot_id;
    std::function<void()> on_decided{};  // is_deciding() is over
    // The node is being measured: what uses its GPUs then, and some seconds after, is nothing that
    // a job left.
    std::function<bool()> is_measured{};
  };
  using Tell = std::function<void(const FaultsTold&)>;
  using Gated = std::function<void(std::vector<CheckFailure>)>;

  HealthWatch(boost::asio::io_context& io, Site site, Tell tell);
  ~HealthWatch();

  // From each greeting, and when it changes. Without a profile what needs none is judged, on nodes
  // that have GPUs or InfiniBand; the kernel's log is followed on all.
  void follow(const std::optional<HealthProfile>& profile);
  // What is believed now; nothing: no greeting yet.
  std::optional<FaultsTold> state() const;
  const std::optional<HealthProfile>& profile() const { return profile_; }
  // The job whose gate, ranks and end are next.
  void begin_job(const JobHealth& job);
  // May it start here? Answered from the last verdict when it is young, else from a quick run:
  // within prolog_deadline. Faults of the `excused` checks do not keep it away.
  void ask(std::vector<std::string> excused, Gated done);
  // A person has seen to these faults.
  void mended(const std::vector<std::string>& faults);
  // Of the device, or (empty) the node: what a reset ends is over when its checks pass.
  void was_reset(const std::string& device);
  // Somebody resets or reboots what is read: until it is over no helper of ours has a GPU open,
  // which would be in the way. The kernel's log is followed.
  void let_go();
  void take_up();
  // At each poll, and when a measurement begins or is ended between them.
  void note_measuring();
  // At least so often.
  static constexpr Milliseconds poll_pause{500};
  void poll();
  // No rank is here, and nothing that one left. At the end of the last: the epilog.
  void set_idle(bool is_idle);
  void ranks_killed();
  // By itself. The first of an attempt has what may have killed it looked for.
  void rank_died(const AttemptKey& attempt);
  // What killed a rank of it is still looked for; for failure_limit at most.
  bool is_deciding(const AttemptKey& attempt) const;
  // A dead child of the agent; true: it was the helper.
  bool reaped(pid_t pid, int wait_status);
  pid_t helper() const;  // no process of any attempt; 0: none

 private:
  enum class Purpose { gate, pace, failure };
  struct Question {
    BootTime asked_at{};
    std::vector<std::string> excused;
    Gated done;
  };
  struct FailureLook {
    AttemptKey attempt;
    BootTime until{};
    bool is_over = false;  // the run; what it found is confirmed yet
  };
  struct Epilog {
    BootTime until{};
    bool is_judged = false;  // all but the processes; those take seconds
  };

  static CheckMoment moment();
  void begin_reading();
  void open_reader();
  SavedHealth load();
  void save();
  void read_log(const CheckMoment& now);
  void take(std::vector<HealthFinding> findings, const CheckMoment& now);
  void step();
  void step_after(Milliseconds pause);
  void step_when_read();
  void wait_for_timer();
  void advance();
  void go_on_after_run_step();
  bool is_calm() const;
  void begin_run(Purpose purpose, SourceGroups groups, const CheckMoment& now);
  void begin_due(const CheckMoment& now);
  void step_run(const CheckMoment& now);
  void end_run(const CheckMoment& now);
  void answer_questions();
  void answer(const PrologAnswer& answer, const NodeVerdict& verdict);
  // health_watch_phases.cpp
  Phase phase_of(Purpose purpose) const;
  CheckChoice choice_in(Phase phase) const;
  NodeVerdict verdict_for(const Question& question) const;
  bool awaits_confirmation(Phase phase) const;
  void go_on_deciding();
  void go_on_with_epilog();
  void epilog_read(SourceGroups read);
  bool is_concluding() const;
  bool must_wait(const Question& question) const;
  bool was_measured_lately() const;
  bool is_settled() const;
  FaultsTold told_now() const;
  void tell_if_news();

  Site site_;
  Tell tell_;
  boost::asio::steady_timer timer_;
  // The helper's socket while it is waited for; it says something when it is done.
  std::unique_ptr<boost::asio::posix::stream_descriptor> helper_says_;
  std::optional<HealthProfile> profile_;
  bool reads_sources_ = false;
  bool has_let_go_ = false;
  bool remembers_ = false;  // what an earlier agent believed on this boot
  std::unique_ptr<NodeMonitor> monitor_;
  std::unique_ptr<NodeHealth> health_;
  std::unique_ptr<KernelLog> log_;
  std::unique_ptr<NodeReader> reader_;

  std::unique_ptr<CheckRun> run_;
  SourceGroups groups_ = 0;  // that it is a read of
  Purpose purpose_ = Purpose::pace;
  bool is_reading_ = false;
  std::optional<BootTime> paused_until_;
  std::map<SourceGroup, int> looks_;
  std::optional<BootTime> judged_at_;  // the latest run
  ReaderDeaths dead_;
  std::vector<Question> questions_;
  FaultsTold told_;
  BootTime saved_at_{};
  std::string saved_;  // what the file holds
  bool is_idle_ = true;
  std::optional<BootTime> idle_since_;
  std::optional<BootTime> measured_at_;  // when it was last known to be
  JobHealth job_;
  std::optional<AttemptKey> failed_;  // the latest attempt of which a rank did
  std::optional<FailureLook> failure_;
  bool owes_epilog_ = false;
  std::optional<Epilog> epilog_;
};

// What an agent keeps of its node's health in a file: JSON with a version (versioned_json.h).

struct SavedHealth {
  std::string boot_id;
  bool is_settled = false;  // NodeFaultsSeen::settled
  MonitorMemory monitor;
  NodeHealthMemory health;

  MUSTER_FIELDS(boot_id, is_settled, monitor, health)
};

std::string encode_health(const SavedHealth& saved);
// The Error says what is wrong with the text.
Result<SavedHealth> decode_health(std::string_view text);

}  // namespace muster
