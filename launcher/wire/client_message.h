// What the command line and the controller say to each other over the controller's Unix socket, in
// the frames of frame.h. One request per connection; `Watch` and `Exec` keep it open.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/compute.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/record.h"

namespace muster {

// The job as understood and as written. The code snapshot has been taken into the state directory.
struct Submit {
  static constexpr const char* kind = "submit";
  JobSpec spec;        // name filled in by the submitter
  ComputeTarget target;
  std::string user;
  std::string source_text;  // the file as submitted

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("spec", self.spec);
    visit("target", self.target);
    visit("user", self.user);
    visit("source_text", self.source_text);
  }
};

struct Cancel {
  static constexpr const char* kind = "cancel";
  JobId job;
  std::optional<Milliseconds> grace;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("grace", self.grace);
  }
};

struct Resume {
  static constexpr const char* kind = "resume";
  JobId job;
  std::optional<std::int64_t> from_step;
  bool from_certified = false;  // from the newest certified checkpoint

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("from_step", self.from_step);
    visit("from_certified", self.from_certified);
  }
};

struct SetDrain {
  static constexpr const char* kind = "set_drain";
  NodeId node;
  bool drained = true;
  std::string reason;
  std::optional<Milliseconds> move_after{};  // absent: what runs there may finish

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("drained", self.drained);
    visit("reason", self.reason);
    visit("move_after", self.move_after);
  }
};

// Sends JobEvent for every change of the job from now on, and ends with Ended when it is over.
struct Watch {
  static constexpr const char* kind = "watch";
  JobId job;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
  }
};

// A command beside a rank: Accepted, then ExecOutput/ExecEnded; ExecInput from the client.
struct Exec {
  static constexpr const char* kind = "exec";
  JobId job;
  std::optional<RankId> rank;
  std::vector<std::string> argv;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("rank", self.rank);
    visit("argv", self.argv);
  }
};

// Somebody has looked at why so many nodes of a target were set aside or drained: muster may go on.
struct ResetBreaker {
  static constexpr const char* kind = "reset_breaker";
  std::string target;  // or "ib.phys@lab"; "ib.phys": of all targets

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("target", self.target);
  }
};

struct AskNodes {
  static constexpr const char* kind = "ask_nodes";

  template <class Self, class Visit>
  static void fields(Self&, Visit) {}
};

// Nodes of one target, all that it has here, and what a healthy one of them is.
struct NodesMeant {
  ComputeTarget target;
  std::string profile;  // a file of health profiles; empty: each node finds its own

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("target", self.target);
    visit("profile", self.profile);
  }
};

// A look at nodes' health: NodeLooked for each as it answers, then the connection ends.
struct LookAtNodes {
  static constexpr const char* kind = "look_at_nodes";
  std::vector<NodesMeant> nodes;
  HealthWanted wanted;
  Milliseconds timeout{15000};  // a node

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("nodes", self.nodes);
    visit("wanted", self.wanted);
    visit("timeout", self.timeout);
  }
};

// A probe on one of the nodes that are meant.
struct NodeProbe {
  NodeId node;
  std::vector<std::string> words;  // behind `muster agent probe`
  Milliseconds limit{0};           // from its start; it is killed then

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("words", self.words);
    visit("limit", self.limit);
  }
};

// A measurement of nodes that are idle: NodeLooked for each node, or for each probe, as it ends,
// then the connection ends. A node that a job holds, or that somebody else measures, is refused.
struct MeasureNodes {
  static constexpr const char* kind = "measure_nodes";
  std::vector<NodesMeant> nodes;
  std::vector<std::string> words{};  // more of `muster health active`, as --only cpu
  std::vector<NodeProbe> probes{};   // these instead of that, all at the same time
  std::string token{};               // of the probes: MUSTER_PROBE_TOKEN, new for each run
  Milliseconds timeout{15000};       // until a node is reached
  Milliseconds limit{600000};        // of `muster health active`, from its start

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("nodes", self.nodes);
    visit("words", self.words);
    visit("probes", self.probes);
    visit("token", self.token);
    visit("timeout", self.timeout);
    visit("limit", self.limit);
  }
};

struct AskVersion {
  static constexpr const char* kind = "ask_version";

  template <class Self, class Visit>
  static void fields(Self&, Visit) {}
};

struct Shutdown {  // ends the controller; agents and ranks go on until their lease ends
  static constexpr const char* kind = "shutdown";
  bool retire_agents = false;  // and ask idle agents to exit first

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("retire_agents", self.retire_agents);
  }
};

using ToController =
    std::variant<Submit, Cancel, Resume, SetDrain, Watch, Exec, ExecInput, AskNodes, AskVersion,
                 Shutdown, ResetBreaker, LookAtNodes, MeasureNodes>;

struct Accepted {
  static constexpr const char* kind = "accepted";
  JobId job;
  std::string note;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("note", self.note);
  }
};

struct Refused {
  static constexpr const char* kind = "refused";
  std::string message;
  int exit_code = 1;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("message", self.message);
    visit("exit_code", self.exit_code);
  }
};

struct JobEvent {
  static constexpr const char* kind = "job_event";
  std::string state;     // Azure's job state names
  std::string sentence;  // what happened, for a person; empty: only progress
  std::int64_t attempt = 0;
  std::optional<std::int64_t> step;
  std::string metrics;   // newest metrics line (JSON), empty: none

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("state", self.state);
    visit("sentence", self.sentence);
    visit("attempt", self.attempt);
    visit("step", self.step);
    visit("metrics", self.metrics);
  }
};

struct Ended {
  static constexpr const char* kind = "ended";
  JobId job;
  std::string state;
  int exit_code = 0;
  std::string reason;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("job", self.job);
    visit("state", self.state);
    visit("exit_code", self.exit_code);
    visit("reason", self.reason);
  }
};

struct NodeLine {
  std::string node;
  std::string link;  // `up`, `down: why`, `not connected`
  std::optional<NodeId> through{};  // by which other node it is reached; none: directly
  std::string host_name;
  std::string owner;  // job that holds it
  bool drained = false;
  std::string drain_reason;
  std::map<std::string, Milliseconds> profile;  // time per phase of the last connection
  bool spare = false;       // held by the job as one
  std::string leaves{};     // why it will be taken away; empty: it stays
  std::string set_aside{};  // why muster gives it nothing new; empty: it does
  std::optional<Time> set_aside_since{};
  std::optional<Time> set_aside_until{};
  std::vector<NodeEvidence> evidence{};  // jobs that it broke, the newest last
  std::int64_t suspicion = 0;            // what they weigh now, in thousandths of a job
  std::optional<int> gpus{};             // as its agent said last
  std::vector<NodeFault> faults{};       // that stand, worst first
  std::optional<NodeFault> unfit{};      // the one that keeps new jobs from it
  std::string unfit_reason{};
  std::optional<Time> unfit_since{};
  std::string next_look{};  // when an unfit node is looked at again
  std::string remedy{};  // "is being reset", "is rebooting", by muster; empty: neither
  std::optional<Time> remedy_since{};
  std::vector<RemedyTry> remedies{};  // of the last day, the newest last
  std::string not_remedied{};  // why muster cannot do what is due; empty: nothing is, or it can
  std::optional<Milliseconds> silent{};   // its last word, where that is unusually long ago
  std::optional<Milliseconds> lost_at{};  // so silent, its link or its job's attempt is given up

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("link", self.link);
    visit("through", self.through);
    visit("host_name", self.host_name);
    visit("owner", self.owner);
    visit("drained", self.drained);
    visit("drain_reason", self.drain_reason);
    visit("profile", self.profile);
    visit("spare", self.spare);
    visit("leaves", self.leaves);
    visit("set_aside", self.set_aside);
    visit("set_aside_since", self.set_aside_since);
    visit("set_aside_until", self.set_aside_until);
    visit("evidence", self.evidence);
    visit("suspicion", self.suspicion);
    visit("gpus", self.gpus);
    visit("faults", self.faults);
    visit("unfit", self.unfit);
    visit("unfit_reason", self.unfit_reason);
    visit("unfit_since", self.unfit_since);
    visit("next_look", self.next_look);
    visit("remedy", self.remedy);
    visit("remedy_since", self.remedy_since);
    visit("remedies", self.remedies);
    visit("not_remedied", self.not_remedied);
    visit("silent", self.silent);
    visit("lost_at", self.lost_at);
  }
};

// Of a target whose nodes muster sets aside no more, or "ib.phys@lab": a health check that drains
// no more there.
struct BreakerLine {
  std::string target;
  std::string reason;
  Time since;
  bool is_check = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("target", self.target);
    visit("reason", self.reason);
    visit("since", self.since);
    visit("is_check", self.is_check);
  }
};

struct NodesAnswer {
  static constexpr const char* kind = "nodes_answer";
  std::vector<NodeLine> nodes;
  std::vector<BreakerLine> breakers;  // that are open

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("nodes", self.nodes);
    visit("breakers", self.breakers);
  }
};

// Payload: what `muster health run -o json`, `active -o json` or the probe wrote there.
struct NodeLooked {
  static constexpr const char* kind = "node_looked";
  NodeId node;
  // Why there is no answer; empty: there is one. A probe's payload is what it wrote all the same.
  std::string error;
  std::string drained{};  // why the node gets no job, whatever it says itself; empty: it gets them
  std::int64_t place = 0;  // of the probe in MeasureNodes::probes
  bool is_reached = true;  // its agent answers, or a job holds it
  // Of a measurement: it was refused, could not be started, or did not run alone or to its end: a
  // job or another measurement had the node. What it wrote counts for nothing.
  bool is_void = false;
  bool is_started = true;  // of a measurement: something of it ran there

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("node", self.node);
    visit("error", self.error);
    visit("drained", self.drained);
    visit("place", self.place);
    visit("is_reached", self.is_reached);
    visit("is_void", self.is_void);
    visit("is_started", self.is_started);
  }
};

struct VersionAnswer {
  static constexpr const char* kind = "version_answer";
  std::string build_id;
  std::int64_t pid = 0;
  std::int64_t live_jobs = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("build_id", self.build_id);
    visit("pid", self.pid);
    visit("live_jobs", self.live_jobs);
  }
};

using FromController = std::variant<Accepted, Refused, JobEvent, Ended, NodesAnswer, VersionAnswer,
                                    ExecOutput, ExecEnded, NodeLooked>;

}  // namespace muster
