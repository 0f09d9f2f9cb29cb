// The node's health while the agent serves: follows the kernel's log, has the node's sources read
// as often as they are worth it, and says what it believes to be wrong. Owned by Agent, on its
// thread; whatever may hang is read by a helper process that can be killed.
//
//   the node's ranks:  none ─► running ─► gone: epilog due ─► epilog ─► none
//   beside it:         a rank failed ─► what killed it is looked for ─► decided
//   a run of checks:   ready ⇄ reading, ready ⇄ paused
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "health/monitor/check_run.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "health/read/kmsg.h"
#include "health/read/node_reader.h"
#include "health/verdict/node_verdict.h"
#include "launcher/agent/keeper/layout.h"
#include "launcher/wire/agent_report.h"
#include "launcher/wire/agent_request.h"
#include "runtime/protocol/boot_clock.h"
#include "scheduler/model/health_profile.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"
#include "scheduler/text/fields.h"

namespace muster {

// The helper that reads the node's sources, as a child of the agent: the agent reaps all its
// children, this one too, and turns to it when its socket or the time says so. Owned by
// HealthMonitor, on the agent's thread.
//
//   closed ─► open ⇄ released: no helper of ours has a GPU open
class SourceReader {
 public:
  // `on_wake`: the reader has been advanced.
  SourceReader(boost::asio::io_context& io, std::vector<std::string> helper,
               std::function<void()> on_wake);
  SourceReader(const SourceReader&) = delete;

  bool is_open() const { return reader_ != nullptr; }
  void open();  // not while it is released
  void release();
  bool acquire();  // false: it was not released
  bool is_released() const { return is_released_; }
  NodeReader* operator->() const { return reader_.get(); }  // while it is open

  // Either ends the other. Not at all where it would be later than `most`.
  void wake_after(Milliseconds pause, Milliseconds most);
  void wake_when_read();

  bool reaped(pid_t pid, int wait_status);  // true: it was the helper
  pid_t helper() const { return reader_ ? reader_->helper() : 0; }

 private:
  pid_t wait(pid_t pid, int* status);
  void wait_for_timer();
  void wake();

  std::vector<std::string> helper_;
  std::function<void()> on_wake_;
  boost::asio::steady_timer timer_;
  // The helper's socket while it is waited for; it says something when it is done.
  std::unique_ptr<boost::asio::posix::stream_descriptor> helper_says_;
  std::map<pid_t, int> dead_;  // until the reader asks, when it is destroyed at the latest
  std::unique_ptr<NodeReader> reader_;
  bool is_released_ = false;
};

// What an agent keeps of its node's health for the agent after it: JSON with a version
// (launcher/wire/json_fields.h), replaced as a whole.
struct SavedHealth {
  std::string boot_id;
  bool is_settled = false;  // NodeFaultsSeen::settled
  MonitorMemory monitor;
  NodeHealthMemory health;

  MUSTER_FIELDS(boot_id, is_settled, monitor, health)
};

// The Error says what is wrong with the text.
Result<SavedHealth> decode_health(std::string_view text);

class HealthMonitor {
 public:
  struct Site {
    std::string root;                 // where /proc, /sys and /dev are found
    std::string state_file;           // what is remembered over a restart of the agent
    std::vector<std::string> helper;  // argv of the reading helper
    std::string boot_id;
    std::function<void()> on_decided{};  // is_deciding() is over
    // The node is being measured: what uses its GPUs then, and some seconds after, is nothing that
    // a job left.
    std::function<bool()> is_benchmarked{};
  };
  using Tell = std::function<void(const FaultsTold&)>;
  using Gated = std::function<void(std::vector<CheckFailure>)>;

  HealthMonitor(boost::asio::io_context& io, Site site, Tell tell);

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
  void faults_fixed(const std::vector<std::string>& faults);
  // Of the device, or (empty) the node: what a reset ends is over when its checks pass.
  void was_reset(const std::string& device);
  // Somebody resets or reboots what is read: until it is over no helper of ours has a GPU open,
  // which would be in the way. The kernel's log is followed.
  void release();
  void acquire();
  // At each poll, and when a measurement begins or is ended between them.
  void note_benchmark();
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
  bool reaped(pid_t pid, int wait_status) { return reader_.reaped(pid, wait_status); }
  pid_t helper() const { return reader_.helper(); }  // no process of any attempt; 0: none

 private:
  // Since the greeting that brought the profile.
  struct Followed {
    Followed(const HealthProfile& profile, const Site& site, SavedHealth saved);
    NodeMonitor monitor;
    NodeHealth health;
    KernelLog log;
    bool remembers;  // what an earlier agent believed on this boot
    FaultsTold told{};
    std::map<SourceGroup, int> looks{};
    std::optional<BootTime> judged_at{};  // the latest run
  };

  enum class Purpose { gate, pace, failure };
  struct Ready {};
  struct Reading {};
  struct Paused {
    BootTime until;
  };
  struct Run {
    Purpose purpose;
    SourceGroups groups;  // that it is a read of
    CheckRun checks;
    std::variant<Ready, Reading, Paused> step{};
  };

  struct Question {
    BootTime asked_at{};
    std::vector<std::string> excused;
    Gated done;
  };

  struct NoRanks {};
  struct Running {};
  struct EpilogDue {};  // once it is known what killed a rank
  struct Epilog {
    BootTime until;
    bool is_judged = false;  // all but the processes; those take seconds
  };
  struct NoFailure {};
  struct FailureLook {
    AttemptKey attempt;
    BootTime until;
    bool is_read = false;  // what was found is confirmed yet
  };
  struct Decided {  // the latest attempt of which a rank failed
    AttemptKey attempt;
  };
  struct Ranks {
    JobHealth job;
    std::variant<NoRanks, Running, EpilogDue, Epilog> phase;
    std::variant<NoFailure, FailureLook, Decided> failure;
    std::optional<BootTime> idle_since;
  };

  static CheckMoment moment();
  void begin_reading();
  SavedHealth load() const;  // nothing of a file that cannot be read
  void save();
  void read_log(const CheckMoment& now);
  void take(std::vector<HealthFinding> findings, const CheckMoment& now);
  void step();
  void step_after(Milliseconds pause) { reader_.wake_after(pause, poll_pause); }
  void go_on_after_run_step();
  void begin_run(Purpose purpose, SourceGroups groups, const CheckMoment& now);
  void begin_due(const CheckMoment& now);
  void step_run(const CheckMoment& now);
  void end_run(const CheckMoment& now);
  bool is_settled() const;
  FaultsTold reported_now() const;
  void report_if_news();
  // jobs.cpp
  void answer_questions();
  void answer(const PrologAnswer& answer, const NodeVerdict& verdict);
  bool must_wait(const Question& question) const;
  NodeVerdict verdict_for(const Question& question) const;
  Phase phase_of(Purpose purpose) const;
  CheckChoice choice_in(Phase phase) const;
  bool awaits_confirmation(Phase phase) const;
  bool is_idle() const { return !std::holds_alternative<Running>(ranks_.phase); }
  FailureLook* failure_look() { return std::get_if<FailureLook>(&ranks_.failure); }
  const FailureLook* failure_look() const { return std::get_if<FailureLook>(&ranks_.failure); }
  void go_on_deciding();
  void go_on_with_epilog();
  void epilog_read(SourceGroups read);
  bool is_concluding() const;
  bool was_benchmarked_lately() const;

  Site site_;
  Tell tell_;
  SourceReader reader_;
  std::optional<HealthProfile> profile_;
  bool reads_sources_ = false;
  std::optional<Followed> node_;
  std::optional<Run> run_;
  std::vector<Question> questions_;
  Ranks ranks_;
  std::string saved_text_;
  BootTime saved_at_{};
  std::optional<BootTime> benchmarked_at_;  // when the node was last known to be
};

}  // namespace muster
