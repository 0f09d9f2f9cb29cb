// muster_decide_speed: how long one `decide` takes at rest, in ms, with
// 10,000 nodes: 900 jobs of 11 nodes run and 100 wait; then one job of all nodes, 64 ranks each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "scheduler/apply/apply.h"
#include "scheduler/decide/decide.h"

using namespace muster;

namespace {

constexpr int all_nodes = 10'000;
const Time now = from_ms(1'000'000);

NodeId node_id(int number) { return NodeId{"node" + std::to_string(number)}; }

class Cluster {
 public:
  Cluster() {
    target_.name = "lab";
    for (int i = 0; i < all_nodes; ++i) {
      NodeAddress address;
      address.id = node_id(i);
      target_.nodes.push_back(address);
      know(LinkUp{node_id(i), "boot", "agent", node_id(i).value, "10.0.0.1"});
    }
  }

  void submit(const std::string& name, int nodes, int ranks_per_node) {
    JobSubmitted job;
    job.job = JobId{name};
    job.spec.name = name;
    job.spec.instance_count = nodes;
    job.spec.distribution.type = DistributionType::pytorch;
    job.spec.distribution.processes_per_node = ranks_per_node;
    job.target = target_;
    know(job);
  }

  void run(const std::string& name, int first, int nodes) {
    AttemptPlaced placed{JobId{name}, AttemptId{0}, {}, ""};
    for (int i = 0; i < nodes; ++i) placed.nodes.push_back(node_id(first + i));
    choose(placed);
    for (const NodeId& id : placed.nodes) know(NodeChecked{placed.job, {0}, id, {}, {}});
    choose(StagingBegun{placed.job, {0}});
    for (const NodeId& id : placed.nodes) know(NodeStaged{placed.job, {0}, id, ""});
    choose(PortsAsked{placed.job, {0}});
    know(PortsReserved{placed.job, {0}, placed.nodes.front(), {20000}, ""});
    choose(LaunchBegun{placed.job, {0}, {}, "", false});
    for (const NodeId& id : placed.nodes) know(NodeStarted{placed.job, {0}, id, ""});
  }

  void settle() {
    for (auto made = decide(state_, now); !made.empty(); made = decide(state_, now)) {
      for (const Decision& each : made) choose(each);
    }
  }

  // The middle of eleven.
  double milliseconds() const {
    std::vector<double> times;
    for (int i = 0; i < 11; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const bool at_rest = decide(state_, now).empty();
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      times.push_back(at_rest ? took.count() : -1);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  void know(const Observation& what) { apply(state_, {now, what}); }
  void choose(const Decision& what) { apply(state_, {now, what}); }

  ComputeTarget target_;
  State state_;
};

}  // namespace

int main() {
  {
    Cluster cluster;
    for (int i = 0; i < 900; ++i) {
      cluster.submit("job" + std::to_string(i), 11, 8);
      cluster.run("job" + std::to_string(i), i * 11, 11);
    }
    for (int i = 0; i < 100; ++i) cluster.submit("wide" + std::to_string(i), 200, 8);
    cluster.settle();
    std::printf("decide_many_jobs %.2f\n", cluster.milliseconds());
  }
  Cluster cluster;
  cluster.submit("large", all_nodes, 64);
  cluster.run("large", 0, all_nodes);
  cluster.settle();
  std::printf("decide_one_job %.2f\n", cluster.milliseconds());
  return 0;
}
