// A node of its own for a test: a fresh home, a real agent process, and the ways to harm it. What
// is left of it ends with the object.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "launcher/agent/node/run_directory.h"
#include "tests/launcher/agent/agent_client.h"

namespace muster {

class TestNode {
 public:
  explicit TestNode(std::string node = "n1");
  ~TestNode();
  TestNode(const TestNode&) = delete;

  // `muster agent serve`, which returns when the agent listens; its exit code.
  int serve();
  pid_t agent_pid() const;
  pid_t keeper_pid() const;  // of the present agent; 0 while there is none
  void kill_agent();         // SIGKILL, and waits until it is gone

  AgentClient connect() const { return AgentClient(socket_path()); }
  // A controller that has greeted its agent; `begin` has it served first.
  AgentClient greeted() const;
  AgentClient begin();
  const std::string& home() const { return home_; }
  const std::string& controller() const { return controller_; }
  const std::string& name() const { return node_; }
  std::string run_directory() const { return home_ + "/run/" + controller_ + "/" + node_; }
  std::string socket_path() const { return run_directory() + "/agent.sock"; }
  std::string job_directory(const std::string& job) const {
    return home_ + "/jobs/" + controller_ + "/" + node_ + "/" + job;
  }

 private:
  std::string home_;
  std::string controller_;
  std::string node_;
};

// A job of one rank that runs `command`; builders for the rest.
StartRanks a_start(const std::string& command, int ranks = 1, const std::string& job = "job");
// A program that is no shell, whatever it is written in: what it starts are its data workers.
StartRanks a_program(const std::string& script);
StopAttempt a_stop(std::chrono::milliseconds grace = std::chrono::milliseconds{10000},
                   const std::string& job = "job");

// Waits for a fact of the outside world.
bool eventually(const std::function<bool()>& holds,
                std::chrono::milliseconds limit = std::chrono::milliseconds{20000});

std::string read_file(const std::string& path);
bool is_running(pid_t pid);
std::string agent_program();

}  // namespace muster
