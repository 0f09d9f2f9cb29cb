// Builders for the scheduler's tests: `a_job("x").on_nodes(4)`, made into what a submission
// journals.
#pragma once

#include <string>
#include <utility>

#include "scheduler/state/state.h"

namespace muster::test {

using Names = std::vector<std::string>;

inline std::string node_name(int number) {
  return (number < 10 ? "h0" : "h") + std::to_string(number);
}

// The target `lab`: h01, h02, …
inline ComputeTarget lab(int nodes) {
  ComputeTarget target;
  target.name = "lab";
  for (int i = 1; i <= nodes; ++i) {
    NodeAddress address;
    address.id = NodeId{node_name(i)};
    address.transport = TransportKind::ssh;
    target.nodes.push_back(address);
  }
  return target;
}

// Sets what a test is about; everything else is the job file's default, with short delays.
class JobBuilder {
 public:
  explicit JobBuilder(std::string name) {
    submitted_.job = JobId{name};
    submitted_.user = "ada";
    submitted_.spec.name = name;
    submitted_.spec.command = "true";
    submitted_.spec.distribution.type = DistributionType::pytorch;
    submitted_.target = lab(4);
  }

  JobBuilder& on_nodes(int count) {
    submitted_.spec.instance_count = count;
    return *this;
  }
  JobBuilder& elastic(int least, int most) {
    submitted_.spec.instance_count = least;
    submitted_.spec.muster.nodes_min = least;
    submitted_.spec.muster.nodes_max = most;
    return *this;
  }
  JobBuilder& of_cluster(int nodes) {
    submitted_.target = lab(nodes);
    return *this;
  }
  JobBuilder& ranks_per_node(int count) {
    submitted_.spec.distribution.processes_per_node = count;
    return *this;
  }
  JobBuilder& ranks_by_gpus() {
    submitted_.spec.distribution.process_per_gpu = true;
    return *this;
  }
  JobBuilder& gpus_per_node(int count) {
    submitted_.spec.muster.nodes_gpus = count;
    return *this;
  }
  JobBuilder& without_distribution() {
    submitted_.spec.distribution.type = DistributionType::none;
    return *this;
  }
  JobBuilder& spares(int count) {
    submitted_.spec.muster.nodes_spares = count;
    return *this;
  }
  JobBuilder& preemptible() {
    submitted_.spec.muster.preemptible = true;
    return *this;
  }
  JobBuilder& priority(int value) {
    submitted_.spec.muster.priority = value;
    return *this;
  }
  JobBuilder& restarts(int attempts) {
    submitted_.spec.muster.restart.attempts = attempts;
    return *this;
  }
  JobBuilder& reschedules(int attempts) {
    submitted_.spec.muster.reschedule.attempts = attempts;
    return *this;
  }
  JobBuilder& no_progress_cycles(int cycles) {
    submitted_.spec.muster.no_progress_cycles = cycles;
    return *this;
  }
  JobBuilder& rule(RestartRule rule) {
    submitted_.spec.muster.rules.push_back(std::move(rule));
    return *this;
  }
  JobBuilder& timeout(int seconds) {
    submitted_.spec.timeout = Seconds{seconds};
    return *this;
  }
  JobBuilder& nodes_wait(int seconds) {
    submitted_.spec.muster.nodes_wait = Seconds{seconds};
    return *this;
  }
  JobBuilder& resume_from(ResumeFrom from, std::string path = "") {
    submitted_.spec.muster.resume_from = from;
    submitted_.spec.muster.resume_path = std::move(path);
    return *this;
  }
  JobSpec& spec() { return submitted_.spec; }
  ComputeTarget& target() { return submitted_.target; }

  operator JobSubmitted() const { return submitted_; }

 private:
  JobSubmitted submitted_;
};

inline JobBuilder a_job(std::string name = "train") {
  return JobBuilder(std::move(name));
}

inline CheckpointRef sealed(std::int64_t step, std::int64_t generation = 1) {
  const std::string digits = std::to_string(step);
  const std::string padded = std::string(9 - digits.size(), '0') + digits;
  return {step, "/ckpt/s" + padded + "-g" + std::to_string(generation)};
}

}  // namespace muster::test
