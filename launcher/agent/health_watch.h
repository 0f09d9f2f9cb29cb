// The node's health while the agent serves: follows the kernel's log, has the node's sources read
// as often as they are worth it, and says what it believes to be wrong. Owned by Agent, on its
// thread; whatever may hang is read by a helper process that can be killed.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "health/monitor/check_run.h"
#include "health/monitor/node_health.h"
#include "health/verdict/prolog.h"
#include "launcher/agent/boot_clock.h"
#include "launcher/wire/agent_report.h"
#include "scheduler/model/health_profile.h"

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
  };
  using Tell = std::function<void(const FaultsTold&)>;
  using Gated = std::function<void(std::vector<CheckFailure>)>;

  HealthWatch(boost::asio::io_context& io, Site site, Tell tell);
  ~HealthWatch();

  // From each greeting. Without a profile what needs none is judged, on nodes that have GPUs or
  // InfiniBand; the kernel's log is followed on all.
  void follow(const std::optional<HealthProfile>& profile);
  // What is believed now; nothing: no greeting yet.
  std::optional<FaultsTold> state() const;
  // May a job start here? Answered from the last verdict when it is young, else from a quick run:
  // within prolog_deadline.
  void ask(Gated done);
  // A person has seen to these faults.
  void mended(const std::vector<std::string>& faults);
  // Twice a second, or oftener. `is_idle`: no ranks are here.
  void poll(bool is_idle);
  void ranks_killed();
  void rank_died();
  // A dead child of the agent; true: it was the helper.
  bool reaped(pid_t pid, int wait_status);
  pid_t helper() const;  // no process of any attempt; 0: none

 private:
  enum class Purpose { gate, pace };
  struct Question {
    BootTime asked_at{};
    Gated done;
  };

  void begin_reading();
  void open_reader();
  SavedHealth load();
  void save();
  void read_log(const CheckMoment& now);
  void take(std::vector<HealthFinding> findings, const CheckMoment& now);
  void step();
  void step_after(Milliseconds pause);
  void begin_run(Purpose purpose, SourceGroups groups, const CheckMoment& now);
  void step_run(const CheckMoment& now);
  void end_run(const CheckMoment& now);
  void answer_questions();
  void answer(const PrologAnswer& answer, const NodeVerdict& verdict);
  bool is_settled() const;
  FaultsTold told_now() const;
  void tell_if_news();

  Site site_;
  Tell tell_;
  boost::asio::steady_timer timer_;
  std::optional<HealthProfile> profile_;
  bool reads_sources_ = false;
  bool remembers_ = false;  // what an earlier agent believed on this boot
  std::unique_ptr<NodeMonitor> monitor_;
  std::unique_ptr<NodeHealth> health_;
  std::unique_ptr<KernelLog> log_;
  std::unique_ptr<NodeReader> reader_;

  std::unique_ptr<CheckRun> run_;
  SourceGroups groups_ = 0;  // that it is a read of
  bool is_reading_ = false;
  std::optional<BootTime> paused_until_;
  std::map<SourceGroup, int> looks_;
  std::optional<BootTime> judged_at_;  // the latest run
  std::map<pid_t, int> dead_;          // children that the agent reaped, until the reader asks
  std::vector<Question> questions_;
  FaultsTold told_;
  BootTime saved_at_{};
  std::string saved_;  // what the file holds
  bool is_idle_ = true;
};

}  // namespace muster
