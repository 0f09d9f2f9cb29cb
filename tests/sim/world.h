// A cluster on virtual time under the production controller: its loop, pool, connections, inbox,
// sender, wire and (in some seeds) its SQLite store. A seed decides everything: what is submitted,
// what breaks when, where the controller is killed. After a time of faults comes calm, in which
// every job has to end.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/controller/controller.h"
#include "tests/sim/memory_journal.h"
#include "tests/sim/model_node.h"

namespace muster::sim {

struct WorldSettings {
  std::uint64_t seed = 1;
  int nodes = 16;
  int minutes = 8;          // of faults
  int ranks_per_node = 2;   // 0: one for each GPU of the node
  int jobs = 4;
  int faults_per_minute = 6;
  bool remedies = false;    // nodes fall sick, and muster resets and reboots them
  bool sqlite = false;      // the real store, on a disk
  bool verbose = false;
  Planted planted;
};

struct Outcome {
  std::vector<std::string> problems;  // broken promises, in order
  std::vector<std::string> last_events;
  std::uint64_t events = 0;
  std::size_t records = 0;
  int controllers = 0;                // lives of the controller
  int faults = 0;
  int remedies = 0;  // that were done
  std::map<JobId, std::string> ends;
  std::uint64_t fingerprint = 0;      // of all that was recorded: the same for the same seed
};

class World {
 public:
  explicit World(WorldSettings settings);
  ~World();
  World(const World&) = delete;

  Outcome run();

 private:
  // world.cpp
  void run_until(Milliseconds moment);
  bool is_over() const;
  void recorded(const std::vector<Record>& records);
  Outcome outcome();

  // controller_lives.cpp
  void start_controller();
  void kill_controller(const std::string& why);
  void controller_died();
  std::unique_ptr<Journal> open_journal();
  void maybe_kill();
  void connect(const std::shared_ptr<Life>& life, const NodeAddress& address,
               std::function<void(ConnectResult)> done);
  void check_replay();
  void run_here(const std::shared_ptr<Life>& life, const std::vector<std::string>& argv,
                const std::function<void(const CommandEnded&)>& done);

  // people.cpp
  void plan_people();
  void submit();
  void request(const std::string& what, Observation observation);
  JobSubmitted make_job();
  void write_trees(const JobId& job);
  void cancel_some();
  void drain_some();
  void resume_some();
  Program program_of(const AttemptName& name);

  // faults.cpp
  void plan_faults();
  void plan_sickness();
  void break_something();
  void break_network(ModelNode& node);
  void hold_back(ModelNode& node, Milliseconds lasts);
  void break_host(ModelNode& node);
  void break_many();
  void heal();
  void undrain(const NodeId& node);

  // aftermath.cpp
  void check_ends();
  void check_quiet();
  void check_logs();
  bool is_proven(const AttemptName& name, RankId rank) const;

  ModelNode& some_node();
  Time wall() const { return events_.wall_now(); }
  class VirtualTransport;
  friend class VirtualTransport;

  WorldSettings settings_;
  Dice dice_;
  EventQueue events_;
  Promises promises_;
  ModelNode::Cluster cluster_;
  std::vector<std::unique_ptr<ModelNode>> nodes_;
  std::map<NodeId, ModelNode*> by_id_;
  std::filesystem::path folder_;
  Disk disk_;
  bool disk_full_ = false;
  int kill_in_ = 0;  // at the so manieth place where it can be killed; 0: not
  std::shared_ptr<Life> life_;
  std::unique_ptr<VirtualTimers> timers_;
  std::unique_ptr<Controller> controller_;
  int controllers_ = 0;
  int faults_ = 0;
  int remedies_ = 0;
  bool calm_ = false;
  std::vector<JobId> submitted_;
  std::set<JobId> accepted_;  // the submission was answered
  std::vector<Record> journal_;  // for the replay at the end, of small worlds
  std::set<std::pair<AttemptName, NodeId>> clean_;  // proven, so that all output has arrived
  std::uint64_t fingerprint_ = 14695981039346656037u;
};

}  // namespace muster::sim
