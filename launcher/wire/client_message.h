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
#include "scheduler/text/fields.h"

namespace muster {

// The job as understood and as written. The code snapshot has been taken into the state directory.
struct Submit {
  JobSpec spec;  // name filled in by the submitter
  ComputeTarget target;
  std::string user;
  std::string source_text;  // the file as submitted

  MUSTER_MESSAGE("submit", spec, target, user, source_text)
};

struct Cancel {
  JobId job;
  std::optional<Milliseconds> grace;

  MUSTER_MESSAGE("cancel", job, grace)
};

struct Resume {
  JobId job;
  std::optional<std::int64_t> from_step;
  bool from_certified = false;  // from the newest certified checkpoint

  MUSTER_MESSAGE("resume", job, from_step, from_certified)
};

struct SetDrain {
  NodeId node;
  bool drained = true;
  std::string reason;
  std::optional<Milliseconds> move_after{};  // absent: what runs there may finish

  MUSTER_MESSAGE("set_drain", node, drained, reason, move_after)
};

// Sends JobEvent for every change of the job from now on, and ends with Ended when it is over.
struct Watch {
  JobId job;

  MUSTER_MESSAGE("watch", job)
};

// A command beside a rank: Accepted, then ExecOutput/ExecEnded; ExecInput from the client. With a
// channel also ExecTaken, and ExecControl from the client.
struct Exec {
  JobId job;
  std::optional<RankId> rank;
  std::vector<std::string> argv;
  std::optional<std::int64_t> node{};  // by its index in the attempt, in place of a rank
  std::optional<ExecChannel> channel{};

  MUSTER_MESSAGE("exec", job, rank, argv, node, channel)
};

// Somebody has looked at why so many nodes of a target were set aside or drained: muster may go on.
struct ResetBreaker {
  std::string target;  // or "ib.phys@lab"; "ib.phys": of all targets

  MUSTER_MESSAGE("reset_breaker", target)
};

struct AskNodes : NoFields {
  static constexpr const char* kind = "ask_nodes";
};

// Nodes of one target, all that it has here, and what a healthy one of them is.
struct NodesMeant {
  ComputeTarget target;
  std::string profile;  // a file of health profiles; empty: each node finds its own

  MUSTER_FIELDS(target, profile)
};

// A look at nodes' health: NodeLooked for each as it answers, then the connection ends.
struct LookAtNodes {
  std::vector<NodesMeant> nodes;
  HealthWanted wanted;
  Milliseconds timeout{15000};  // a node

  MUSTER_MESSAGE("look_at_nodes", nodes, wanted, timeout)
};

// A probe on one of the nodes that are meant.
struct NodeProbe {
  NodeId node;
  std::vector<std::string> words;  // behind `muster agent probe`
  Milliseconds limit{0};           // from its start; it is killed then

  MUSTER_FIELDS(node, words, limit)
};

// A measurement of nodes that are idle: NodeLooked for each node, or for each probe, as it ends,
// then the connection ends. A node that a job holds, or that somebody else measures, is refused.
struct MeasureNodes {
  std::vector<NodesMeant> nodes;
  std::vector<std::string> words{};  // more of `muster health active`, as --only cpu
  std::vector<NodeProbe> probes{};   // these instead of that, all at the same time
  std::string token{};               // of the benchmarks of one run, which may have a node together
  Milliseconds timeout{15000};       // until a node is reached
  Milliseconds limit{600000};        // of `muster health active`, from its start

  MUSTER_MESSAGE("measure_nodes", nodes, words, probes, token, timeout, limit)
};

struct AskVersion : NoFields {
  static constexpr const char* kind = "ask_version";
};

struct Shutdown {  // ends the controller; agents and ranks go on until their lease ends
  bool retire_agents = false;  // and ask idle agents to exit first

  MUSTER_MESSAGE("shutdown", retire_agents)
};

using ToController =
    std::variant<Submit, Cancel, Resume, SetDrain, Watch, Exec, ExecInput, AskNodes, AskVersion,
                 Shutdown, ResetBreaker, LookAtNodes, MeasureNodes, ExecControl>;

struct Accepted {
  JobId job;
  std::string note;

  MUSTER_MESSAGE("accepted", job, note)
};

struct Refused {
  std::string message;
  int exit_code = 1;

  MUSTER_MESSAGE("refused", message, exit_code)
};

struct JobEvent {
  std::string state;     // Azure's job state names
  std::string sentence;  // what happened, for a person; empty: only progress
  std::int64_t attempt = 0;
  std::optional<std::int64_t> step;
  std::string metrics;  // newest metrics line (JSON), empty: none

  MUSTER_MESSAGE("job_event", state, sentence, attempt, step, metrics)
};

struct Ended {
  JobId job;
  std::string state;
  int exit_code = 0;
  std::string reason;

  MUSTER_MESSAGE("ended", job, state, exit_code, reason)
};

struct NodeLine {
  std::string node;
  std::string link;                 // `up`, `down: why`, `not connected`
  std::optional<NodeId> through{};  // by which other node it is reached; none: directly
  std::string host_name;
  std::string owner;  // job that holds it
  bool drained = false;
  std::string drain_reason;
  std::map<std::string, Milliseconds> profile;  // time per phase of the last connection
  bool spare = false;                           // held by the job as one
  std::string leaves{};                         // why it will be taken away; empty: it stays
  std::string set_aside{};                      // why muster gives it nothing new; empty: it does
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
  std::string remedy{};     // "is being reset", "is rebooting", by muster; empty: neither
  std::optional<Time> remedy_since{};
  std::vector<RemedyTry> remedies{};  // of the last day, the newest last
  std::string not_remedied{};  // why muster cannot do what is due; empty: nothing is, or it can
  std::optional<Milliseconds> silent{};   // its last word, where that is unusually long ago
  std::optional<Milliseconds> lost_at{};  // so silent, its link or its job's attempt is given up

  MUSTER_FIELDS(node, link, through, host_name, owner, drained, drain_reason, profile, spare,
                leaves, set_aside, set_aside_since, set_aside_until, evidence, suspicion, gpus,
                faults, unfit, unfit_reason, unfit_since, next_look, remedy, remedy_since, remedies,
                not_remedied, silent, lost_at)
};

// Of a target whose nodes muster sets aside no more, or "ib.phys@lab": a health check that drains
// no more there.
struct BreakerLine {
  std::string target;
  std::string reason;
  Time since;
  bool is_check = false;

  MUSTER_FIELDS(target, reason, since, is_check)
};

struct NodesAnswer {
  std::vector<NodeLine> nodes;
  std::vector<BreakerLine> breakers;  // that are open

  MUSTER_MESSAGE("nodes_answer", nodes, breakers)
};

// Payload: what `muster health run -o json`, `active -o json` or the probe wrote there.
struct NodeLooked {
  NodeId node;
  // Why there is no answer; empty: there is one. A probe's payload is what it wrote all the same.
  std::string error;
  std::string drained{};   // why the node gets no job, whatever it says itself; empty: it gets them
  std::int64_t place = 0;  // of the probe in MeasureNodes::probes
  bool is_reached = true;  // its agent answers, or a job holds it
  // Of a measurement: it was refused, could not be started, or did not run alone or to its end: a
  // job or another measurement had the node. What it wrote counts for nothing.
  bool is_void = false;
  bool is_started = true;  // of a measurement: something of it ran there

  MUSTER_MESSAGE("node_looked", node, error, drained, place, is_reached, is_void, is_started)
};

struct VersionAnswer {
  std::string build_id;
  std::int64_t pid = 0;
  std::int64_t live_jobs = 0;

  MUSTER_MESSAGE("version_answer", build_id, pid, live_jobs)
};

using FromController = std::variant<Accepted, Refused, JobEvent, Ended, NodesAnswer, VersionAnswer,
                                    ExecOutput, ExecEnded, NodeLooked, ExecTaken>;

}  // namespace muster
