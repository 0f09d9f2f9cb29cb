// An elastic run of the real muster-train, with the test as its launcher.
#pragma once

#include <signal.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/protocol/heartbeat.h"
#include "runtime/protocol/membership.h"
#include "tests/catch.h"
#include "tests/runtime/a_trainer.h"
#include "tests/runtime/folder.h"
#include "tests/runtime/free_port.h"

namespace muster::test {

class ElasticJob {
 public:
  // `usual` options are those of all processes.
  explicit ElasticJob(std::uint64_t steps = 60, std::vector<std::string> usual = {})
      : training_{"--steps", std::to_string(steps), "--batch", "8"}, usual_(std::move(usual)) {}
  ~ElasticJob() {
    for (auto& [rank, process] : processes_) {
      if (process.pid > 0) ::kill(process.pid, SIGKILL);
      if (process.pid > 0) process.trainer->wait(process.pid);
    }
  }

  // A process that waits to be made a member, and is ready for it.
  void start(std::uint64_t rank, const std::vector<std::string>& more = {},
             const std::string& secret = "the attempt's") {
    const std::string beat = folder_ / ("beat" + std::to_string(rank));
    auto& process = processes_[rank];
    process.port = free_port();
    process.trainer = std::make_unique<Trainer>(process.log);
    process.trainer->with("RANK", std::to_string(rank))
        .with("MUSTER_MEMBERS", folder_ / "members.json")
        .with("MUSTER_MEMBER_PORT", std::to_string(process.port))
        .with("MUSTER_HEARTBEAT", beat)
        .with("MUSTER_RENDEZVOUS_SECRET", secret);
    std::vector<std::string> options = training_;
    options.insert(options.end(),
                   {"--step-delay-ms", "5", "--peer-timeout", "60", "--out", folder_ / "out"});
    options.insert(options.end(), usual_.begin(), usual_.end());
    options.insert(options.end(), more.begin(), more.end());
    process.pid = process.trainer->start(0, options);
    CHECK(eventually([&] { return read_heartbeat(beat).has_value(); }));
  }

  void members(const std::vector<std::uint64_t>& ranks) {
    EpochMembers epoch{++epoch_, {}};
    for (const std::uint64_t rank : ranks) {
      epoch.members.push_back({rank, "127.0.0.1", processes_.at(rank).port, "here"});
    }
    std::ofstream(folder_ / "members.tmp") << format_membership(epoch);
    std::filesystem::rename(folder_ / "members.tmp", folder_ / "members.json");
  }

  std::uint64_t step(std::uint64_t rank) const {
    return read_heartbeat(folder_ / ("beat" + std::to_string(rank))).value_or(0);
  }
  void wait_for_step(std::uint64_t rank, std::uint64_t wanted) const {
    CHECK(eventually([&] { return step(rank) >= wanted; }));
  }
  bool said(std::uint64_t rank, const std::string& words) const {
    return content_of(processes_.at(rank).log / "output").find(words) != std::string::npos;
  }
  void signal(std::uint64_t rank, int number) { ::kill(processes_.at(rank).pid, number); }
  Ended wait(std::uint64_t rank) {
    auto& process = processes_.at(rank);
    return process.trainer->wait(std::exchange(process.pid, 0));
  }
  // They end as they should.
  void wait_for_all(const std::vector<std::uint64_t>& ranks) {
    for (const std::uint64_t rank : ranks) {
      const Ended ended = wait(rank);
      INFO("rank " << rank << ":\n" << ended.output);
      CHECK(ended.code == 0);
    }
  }
  void kill(const std::vector<std::uint64_t>& ranks) {
    for (const std::uint64_t rank : ranks) signal(rank, SIGKILL);
    for (const std::uint64_t rank : ranks) CHECK(wait(rank).code == 137);
  }
  std::string final_weights() const { return weights(folder_, "out"); }

  // Of a process that trains alone.
  std::string undisturbed_weights() { return fixed_weights({}); }
  std::string fixed_weights(const std::vector<std::string>& more) {
    std::vector<std::string> options = training_;
    options.insert(options.end(), {"--deterministic", "--out", folder_ / "fixed"});
    options.insert(options.end(), more.begin(), more.end());
    const Ended ended = Trainer(folder_).run(0, options);
    INFO(ended.output);
    REQUIRE(ended.code == 0);
    return weights(folder_, "fixed");
  }

 private:
  struct Process {
    Folder log;
    std::unique_ptr<Trainer> trainer;
    std::uint16_t port = 0;
    pid_t pid = 0;
  };
  Folder folder_;
  std::vector<std::string> training_;
  std::vector<std::string> usual_;
  std::map<std::uint64_t, Process> processes_;
  std::uint64_t epoch_ = 0;
};

}  // namespace muster::test
