// A simulated host and the agent on it. The host keeps its disk (spools, blobs) and its boot; an
// agent keeps its attempts in memory, greets, answers, ends ranks when it is told to or when its
// lease is over, and restores what an earlier one left. Speaks the real wire.
//
//   host:  up <-> off (power), each start is another boot
//   agent: none -> serving -> leaving (lease) -> none; crashed at any time
#pragma once

#include <array>
#include <memory>
#include <set>

#include "launcher/agent/lease.h"
#include "launcher/wire/frame.h"
#include "tests/sim/model_rank.h"
#include "tests/sim/network.h"
#include "tests/sim/promises.h"

namespace muster::sim {

// Mistakes that the simulation must notice; all off in a real run.
struct Planted {
  bool ignores_lease = false;     // agents go on without a controller
  bool lease_by_arrival = false;  // any frame renews the lease, however late it comes
  bool lies_clean = false;        // agents say that they are clean at once
  bool skips_output = false;      // agents leave out a line after a reconnection
  bool forgets_writes = false;    // the journal says that it has written
  bool slow_clocks = false;       // nodes' clocks are off by more than the lease's margin
};

struct Mistake {
  const char* name;
  bool Planted::*planted;
};
inline constexpr auto mistakes = std::to_array<Mistake>({
    {"ignores-lease", &Planted::ignores_lease},
    {"lease-by-arrival", &Planted::lease_by_arrival},
    {"lies-clean", &Planted::lies_clean},
    {"skips-output", &Planted::skips_output},
    {"forgets-writes", &Planted::forgets_writes},
    {"slow-clocks", &Planted::slow_clocks},
});

class ModelNode {
 public:
  // What all nodes share.
  struct Cluster {
    EventQueue& events;
    Dice& dice;
    Promises& promises;
    const Planted& planted;
    std::map<JobId, CheckpointRef> checkpoints;  // on storage that all see
    std::function<Program(const AttemptName&)> program;
    bool with_remedies = false;  // agents tell of faults
    int speaking_every = 1;      // one rank in so many writes output
    Milliseconds progress_interval{10'000};
    // Every byte that a rank wrote, for comparison with the logs.
    std::map<std::pair<AttemptName, RankId>, std::int64_t> written;
    std::map<std::pair<AttemptName, RankId>, NodeId> node_of;  // of the ranks that write
  };

  ModelNode(Cluster& cluster, NodeId id);
  ModelNode(const ModelNode&) = delete;

  // Somebody connects: the agent is started if there is none. Null: nobody answers.
  std::shared_ptr<Connection> accept();
  Milliseconds start_time();  // how long that takes

  void crash_agent(const std::string& why);
  void power_off();
  void power_on();
  void kill_a_rank();
  void heal();                                              // and whatever hangs goes on
  void give_notice(std::optional<Milliseconds> leaves_in);  // the host says that it will go
  void withdraw_notice();                                   // and that it stays
  void fall_sick();                 // a health check believes that a GPU needs a reset or a reboot
  void power_cycle_from_outside();  // by muster
  void was_not_reached();           // somebody tried to connect
  void reset_connections();
  void cut_connections();  // neither end notices

  int gpus_here() const;

  const NodeId& id() const { return id_; }
  bool is_on() const { return is_on_; }
  bool has_ranks() const;
  bool has_started(const AttemptName& attempt) const;

  Weather weather;
  bool is_healthy = true;
  bool lies = false;  // its checks say this and that
  bool disk_full = false;
  bool ports_taken = false;
  bool processes_stick = false;  // SIGKILL does not end them

 private:
  // model_node.cpp: the host, the agent's life, its connections
  void start_agent();
  void restore();
  void receive(const std::shared_ptr<Connection>& from, FrameReader& reader,
               const std::string& bytes);
  void greet(const std::shared_ptr<Connection>& from, const Hello& hello);
  void line_lost();
  void report_notice();
  void watch_lease();
  void leave();
  void agent_is_gone();
  void send(const FromAgent& message, std::string_view payload = {});
  void reply(Milliseconds delay, FromAgent message);           // on this connection, perhaps twice
  void later(Milliseconds delay, std::function<void()> call);  // while this agent lives
  std::int64_t raw_us(Milliseconds at) const;                  // the node's own clock at that time
  BootTime boot_now() const;                                   // by the clock that leases go by
  std::optional<ClockStamps> clock_stamps(std::optional<std::int64_t> sent_us) const;

  // model_requests.cpp: one function per message
  void on(const Hello&) {}
  void on(const Ping& ping);
  void on(const CheckNode& request);
  void on(const StageTrees& request);
  void on(const BlobData& piece);
  void on(const ReservePorts& request);
  void on(const StartRanks& request);
  void on(const StopAttempt& request);
  void on(const CollectOutputs& request);
  void on(const OutputAck& ack);
  void on(const ForgetAttempt& request);
  void on(const Retire&);
  void on(const RunRemedy& request);
  template <class Other>
  void on(const Other&) {}
  void stage_if_complete();

  // model_remedies.cpp
  void get_well();
  bool is_known_to_be_well() const;
  void report_faults();
  void begin_remedy(const std::string& what);
  void power_cycle();

  // model_processes.cpp: ranks and their end
  void run(const AttemptName& name, ModelAttempt& attempt);
  void plan_end(const AttemptName& name, RankId rank, Milliseconds delay, ExitStatus status);
  void end_rank(const AttemptName& name, ModelRank& rank, std::optional<ExitStatus> seen);
  void speak(const AttemptName& name, RankId rank);
  void go_on();
  void make_progress(const AttemptName& name);
  void pump(const AttemptName& name, ModelAttempt& attempt);
  void report_end(const AttemptName& name, const ModelRank& rank);
  void begin_stop(const AttemptName& name, ModelAttempt& attempt, Milliseconds grace);
  void kill(const AttemptName& name, ModelAttempt& attempt);
  void kill_ranks(const AttemptName& name, ModelAttempt& attempt);
  void prove(const AttemptName& name, int round);
  void report_clean(const AttemptName& name);
  void forget_if_clean(const AttemptName& name);
  ModelRank* find_rank(const AttemptName& name, RankId rank);
  ModelAttempt* find(const AttemptName& name);

  struct Staging {
    StageTrees request;
    std::set<std::string> missing;
  };

  Cluster& cluster_;
  NodeId id_;
  bool is_on_ = true;
  int boot_ = 1;
  bool is_leaving_ = false;
  std::optional<Milliseconds> leaves_at_;
  int agents_ = 0;  // started so far
  bool serving_ = false;
  bool leaving_ = false;
  int clock_permille_ = 1000;  // how fast its clock goes
  AgentLease lease_{BootTime{0}};
  int lease_watch_ = 0;  // an older watch's events are void
  std::shared_ptr<Connection> line_;
  int generation_ = 0;  // of the line
  std::vector<std::weak_ptr<Connection>> connections_;
  std::map<AttemptName, ModelAttempt> attempts_;
  std::optional<Staging> staging_;
  std::set<std::string> blobs_;
  std::optional<NodeFault> sick_;
  std::optional<Milliseconds> well_at_;         // since it was sick
  std::optional<Milliseconds> not_reached_at_;  // last
  int faults_ = 0;                              // so far
  bool being_mended_ = false;                   // a command that resets or reboots it runs
  std::map<std::string, std::optional<RemedyRun>> remedies_;  // that this agent ran, by id
};

}  // namespace muster::sim
