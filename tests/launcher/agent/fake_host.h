// A machine that is only told of: processes that die when they are signalled, a clock that stands
// until it is moved, a keeper that only remembers. Pipes are real ones. And an agent in this very
// process that lives there, behind a real socket; nothing runs but what the test turns.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/keeper/files.h"
#include "launcher/agent/keeper/layout.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

namespace muster {

// Above every number that the kernel gives.
inline constexpr pid_t first_fake_pid = 5'000'000;

class FakeProcesses final : public ProcessTable {
 public:
  struct Process {
    ProcessInfo info;
    ProcessSigns signs;
    bool ignores_term = false;
    bool is_unkillable = false;
    int forks_left = 0;  // it forks when another is killed, unless it is stopped
  };
  struct Sent {
    pid_t pid;
    int signal;
    bool operator==(const Sent&) const = default;
  };

  Process& add(pid_t parent, ProcessSigns signs = {}) {
    const pid_t pid = next_pid_++;
    Process& process = processes[pid];
    process.info.pid = pid;
    process.info.parent = parent;
    process.info.group = process.info.session = pid;
    process.info.state = 'S';
    process.info.threads = 1;
    process.info.start_ticks = static_cast<std::uint64_t>(pid);
    process.info.name = "p" + std::to_string(pid);
    process.signs = std::move(signs);
    return process;
  }
  // By itself, or by a signal: a child of the agent waits to be reaped.
  void end(pid_t pid, int wait_status) {
    const auto found = processes.find(pid);
    if (found == processes.end()) return;
    if (found->second.info.parent == ::getpid()) dead.emplace_back(pid, wait_status);
    processes.erase(found);
  }
  std::vector<int> sent_to(pid_t pid) const {
    std::vector<int> signals;
    for (const Sent& one : sent) {
      if (one.pid == pid) signals.push_back(one.signal);
    }
    return signals;
  }
  bool is_alive_now(pid_t pid) const { return processes.contains(pid); }

  std::vector<ProcessInfo> scan() override {
    ++scans;
    std::vector<ProcessInfo> all;
    if (misses_next_scan) {
      misses_next_scan = false;
      return all;
    }
    for (const auto& [pid, process] : processes) all.push_back(process.info);
    return all;
  }
  std::optional<ProcessInfo> find(pid_t pid) override {
    const auto found = processes.find(pid);
    return found == processes.end() ? std::nullopt : std::optional(found->second.info);
  }
  ProcessSigns signs_of(const ProcessInfo& process) override {
    const auto found = processes.find(process.pid);
    return found == processes.end() ? ProcessSigns{} : found->second.signs;
  }
  bool signal(const ProcessInfo& process, int signal) override {
    const auto found = processes.find(process.pid);
    if (found == processes.end() || found->second.info.start_ticks != process.start_ticks) {
      return false;
    }
    sent.push_back({process.pid, signal});
    Process& hit = found->second;
    if (signal == SIGSTOP) hit.info.state = 'T';
    if (signal == SIGCONT) hit.info.state = 'S';
    const bool dies = (signal == SIGKILL && !hit.is_unkillable) ||
                      (signal == SIGTERM && !hit.ignores_term && !hit.is_unkillable);
    if (!dies) return true;
    end(process.pid, signal);
    if (signal == SIGKILL) fork_away();
    return true;
  }
  Result<pid_t> start(const SpawnRequest& request) override {
    if (!start_error.empty()) return Error{start_error};
    ProcessSigns signs;
    for (const auto& [name, value] : request.environment) {
      signs.environment += name + "=" + value + '\0';
    }
    started.push_back(request);
    return add(::getpid(), std::move(signs)).info.pid;
  }
  pid_t reap(int& wait_status) override {
    if (dead.empty()) return ::waitpid(-1, &wait_status, WNOHANG);
    const auto [pid, status] = dead.front();
    dead.pop_front();
    wait_status = status;
    return pid;
  }

  std::map<pid_t, Process> processes;
  std::deque<std::pair<pid_t, int>> dead;
  std::vector<Sent> sent;
  std::vector<SpawnRequest> started;
  std::string start_error;
  int scans = 0;
  bool misses_next_scan = false;

 private:
  void fork_away() {
    std::vector<Process*> parents;
    for (auto& [pid, process] : processes) {
      if (process.forks_left > 0 && process.info.state != 'T') parents.push_back(&process);
    }
    for (Process* parent : parents) {
      add(parent->info.pid, parent->signs).forks_left = --parent->forks_left;
    }
  }
  pid_t next_pid_ = first_fake_pid;
};

class FakeClock final : public AgentClock {
 public:
  BootTime boot() const override { return std::chrono::hours{100} + passed; }
  std::chrono::steady_clock::time_point steady() const override {
    return std::chrono::steady_clock::time_point(std::chrono::hours{50} + passed);
  }
  std::chrono::milliseconds passed{0};
};

class FakeKeeper final : public Keeper {
 public:
  Status ensure(const std::vector<int>&) override {
    if (!error.empty()) return Error{error};
    ++ensured;
    return Done{};
  }
  void hold(const std::vector<int>& pipes) override {
    for (const int pipe : pipes) held.emplace_back(::dup(pipe));
  }
  bool reaped(pid_t) override { return false; }
  std::optional<pid_t> pid() const override { return std::nullopt; }
  std::string error;
  int ensured = 0;
  std::vector<Fd> held;
};

class FakeHost {
 public:
  FakeHost() {
    char pattern[] = "/tmp/muster-fake-host.XXXXXX";
    REQUIRE(::mkdtemp(pattern) != nullptr);
    home = pattern;
    auto opened = open_run_directory(home, "c" + std::to_string(::getpid()), NodeId{"n1"});
    REQUIRE(opened);
    run = std::make_unique<RunDirectory>(std::move(*opened));
    lease = Lease::create();
    REQUIRE(lease);
    serve();
  }
  ~FakeHost() {
    agent.reset();
    for (const AttemptKey& key : attempts_below(spools_root(*run))) {
      remove_scratch(layout_of(*run, key));
    }
    std::filesystem::remove_all(home);
  }
  FakeHost(const FakeHost&) = delete;

  // Another agent in the place of this one, which is gone as if by SIGKILL.
  void serve() {
    client.reset();
    agent.reset();
    io = std::make_unique<boost::asio::io_context>(1);
    agent = std::make_unique<Agent>(*io, *run, AgentHost{processes, clock, keeper, *lease}, "test");
    auto listener = listen_in(*run);
    REQUIRE(listener);
    agent->open(std::move(*listener));
  }
  bool is_gone() const { return io->stopped(); }

  // Whatever can be done now is done; `holds` is waited for.
  bool turn_until(AgentClient& with, const std::function<bool()>& holds,
                  std::chrono::milliseconds limit = std::chrono::seconds{10}) {
    return eventually(
        [&] {
          if (!io->stopped()) io->poll();
          with.take(std::chrono::milliseconds{0});
          return holds();
        },
        limit);
  }
  void turn() {
    for (int i = 0; i < 20; ++i) {
      if (!io->stopped()) io->poll();
      if (client) client->take(std::chrono::milliseconds{0});
    }
  }
  void pass(std::chrono::milliseconds time) {
    clock.passed += time;
    agent->tick();
    turn();
  }
  template <class T>
  std::optional<T> await(AgentClient& from,
                         std::chrono::milliseconds limit = std::chrono::seconds{10}) {
    std::optional<T> found;
    const std::chrono::milliseconds now{0};
    turn_until(from, [&] { return (found = from.await<T>(now)).has_value(); }, limit);
    return found;
  }
  template <class T>
  std::optional<T> await() {
    return await<T>(*client);
  }
  template <class T>
  T expect(AgentClient& from) {
    return await<T>(from).value();  // throws, which fails the test
  }
  template <class T>
  T expect() {
    return expect<T>(*client);
  }
  template <class T>
  T ask(const ToAgent& request) {
    client->send(request);
    return expect<T>();
  }
  // None comes, whatever is turned.
  template <class T>
  bool is_silent_about() {
    turn();
    return !client->await<T>(std::chrono::milliseconds{0});
  }

  // Over a connection of its own.
  Welcome hello(Milliseconds how_long = Milliseconds{60'000}) {
    client = std::make_unique<AgentClient>(run->socket_path());
    client->send(Hello{wire_version, run->controller, NodeId{"n1"}, how_long, {}});
    const auto welcome = await<Welcome>();
    REQUIRE(welcome);
    return *welcome;
  }
  // A rank of an attempt that has begun.
  pid_t start(const StartRanks& request = a_start("true")) {
    client->send(request);
    const auto done = await<StartDone>();
    REQUIRE(done);
    REQUIRE(done->error == "");
    REQUIRE_FALSE(processes.started.empty());
    return processes.processes.rbegin()->first;
  }
  void say(const std::string& text, int rank = 0) {  // as the rank does
    const std::string path = run->path + "/attempts/job/0/rank-" + std::to_string(rank) + ".pipe";
    const Fd pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    REQUIRE(write_all(pipe.get(), text));
  }
  void exits(pid_t rank, int code) {
    processes.end(rank, code << 8);
    ::raise(SIGCHLD);
  }

  std::string home;
  std::unique_ptr<RunDirectory> run;
  FakeProcesses processes;
  FakeClock clock;
  FakeKeeper keeper;
  std::optional<Lease> lease;
  std::unique_ptr<boost::asio::io_context> io;
  std::unique_ptr<Agent> agent;
  std::unique_ptr<AgentClient> client;
};

// With a controller.
struct GreetedHost : FakeHost {
  GreetedHost() { hello(); }
};

}  // namespace muster
