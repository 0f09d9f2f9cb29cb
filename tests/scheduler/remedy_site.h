// A site with commands that reset and reboot its nodes. What its core decides is audited, and
// replayed at the end.
#pragma once

#include "scheduler/node/status.h"
#include "scheduler/state/limits.h"
#include "tests/catch.h"
#include "tests/scheduler/bench.h"
#include "tests/sim/model/replay.h"

namespace muster::test {

inline const std::vector<std::string> reset_words{"sudo", "-n", "smi", "-i", "{gpu}"};
inline const std::vector<std::string> reboot_words{"sudo", "-n", "systemctl", "reboot"};
inline const std::vector<std::string> power_words{"ipmitool", "-H", "{node}-bmc", "power", "cycle"};

inline NodeId id_of(int number) {
  return NodeId{node_name(number)};
}

inline NodeFault gpu_fault(Time since, Remedy remedy = Remedy::reset,
                           std::optional<Remedy> on_recurrence = Remedy::rma) {
  NodeFault fault;
  fault.id = "6f01ab95";
  fault.check = "gpu.xid";
  fault.device = "gpu3";
  fault.serial = "165";
  fault.code = "95";
  fault.remedy = remedy;
  fault.on_recurrence = on_recurrence;
  fault.stops_job = true;
  fault.since = since;
  fault.what = "XID 95 on gpu3";
  return fault;
}

// Three jobs' worth of nodes, of which a job has the first; the site has all three commands.
struct Site {
  Bench bench;

  explicit Site(RemedyCommands commands = {reset_words, reboot_words, power_words}, int nodes = 4) {
    JobBuilder job = a_job().on_nodes(1).of_cluster(nodes);
    job.target().remedies = std::move(commands);
    bench.start(job);
    REQUIRE(bench.is_in<Running>());
  }
  void tell(int number, std::vector<NodeFault> faults, bool settled = true) {
    bench.report_faults(number, std::move(faults), settled);
  }
  const Node& node(int number) { return bench.node(number); }
  void ended(int number, ExitStatus status, const std::string& error = "") {
    bench.observe(
        RemedyEnded{id_of(number), node(number).remedy->what.id, status, error, {"it is in use"}});
  }
  // Another controller begins, and has looked for nobody yet.
  void restart(int number) {
    bench.observe(LinkDown{id_of(number), {LinkFailureKind::lost, "restarted"}, {}, true});
  }
  std::string failure() { return bench.last<RemedyOver>()->failure; }
  int begun() { return bench.count<RemedyBegun>(); }
  const RemedyBegun& latest() { return *bench.last<RemedyBegun>(); }
  std::string refusal(int number) {
    Moment moment(bench.now);
    return refusal_of(&node(number), moment).value_or("");
  }
  ~Site() {
    bench.rebuilt();
    CHECK(replay(bench.journal).disagreements.empty());
  }
};

}  // namespace muster::test
