// The agent of one node: hears the controller, keeps the lease, and sees to it that nothing is left
// when it goes. One thread, one io_context; every handler runs there. The work on each noun is in
// the classes below.
//
//   serving -> leaving (lease over, SIGINT, Retire while no attempt is held)
//   serving -> ending (SIGTERM: the host shuts down): ranks stopped, then leaving
//   leaving: ranks killed and confirmed stopped, then the io_context is stopped
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "launcher/agent/attempts.h"
#include "launcher/agent/exec/sessions.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/lease.h"
#include "launcher/agent/node/child_tasks.h"
#include "launcher/agent/node/peer.h"
#include "launcher/agent/node_use.h"
#include "launcher/agent/preemption_notice.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

// Where an agent lives: what it sees of the machine, and who looks after its ranks when it cannot.
struct AgentHost {
  ProcessTable& processes;
  const AgentClock& clock;
  Keeper& keeper;
  Lease& lease;
};

class Agent {
 public:
  // Takes over what an earlier agent left, the pipes that its keeper holds until somebody listens.
  Agent(boost::asio::io_context& io, const RunDirectory& run, AgentHost host, std::string build_id);
  ~Agent();

  // From here on it answers.
  void open(Fd listener);
  // What there is to do as time passes: twice a second, and more often while something ends.
  void tick();
  // Of no attempt there are processes or output that only pipes hold.
  bool has_left_nothing() const { return !attempts_.need_keeper(); }

 private:
  struct Serving {};
  struct Ending {       // the host told its processes to end
    BootTime stops_at;  // ranks that nobody has told to stop by then are told by the agent
    BootTime leaves_at;
  };
  struct Leaving {};

  // requests.cpp
  void first_frame(const std::shared_ptr<PeerConnection>& peer, Frame frame);
  void greet(const std::shared_ptr<PeerConnection>& peer, const Hello& hello);
  void controller_frame(Frame frame);
  void line_lost();
  void handle(const Hello&, std::string_view) {}
  void handle(const Ping& ping, std::string_view);
  void handle(const StartRanks& request, std::string_view);
  void handle(const StopAttempt& request, std::string_view);
  void handle(const ForgetAttempt& request, std::string_view);
  void handle(const ExecStart& request, std::string_view);
  void handle(const ExecStop& request, std::string_view);
  void handle(const Retire&, std::string_view);

  void watch_signals();
  void child_died(const DeadChild& child);
  void schedule_tick();
  void step_attempts();
  void move_output();
  void look_for_notice();
  void grant_lease();
  void end_with_lease();  // once it is over
  bool is_leaving() const { return !std::holds_alternative<Serving>(phase_); }
  void host_shuts_down();
  void go_on_ending();
  void leave(const char* why);

  boost::asio::io_context& io_;
  AgentHost host_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer tick_timer_;
  Listener listener_;
  ControllerLine line_;
  AgentLease lease_;
  Welcome welcome_;
  OomWatch oom_;
  AgentSite site_;
  ChildTasks tasks_;
  ExecSessions execs_;
  Attempts attempts_;
  ChildReaper reaper_;
  NodeUse node_;
  NodeCleaning cleaning_;
  PreemptionNotice notice_;
  std::variant<Serving, Ending, Leaving> phase_;
};

}  // namespace muster
