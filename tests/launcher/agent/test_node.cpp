#include "tests/launcher/agent/test_node.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "launcher/agent/node/process_scan.h"
#include "tests/catch.h"

namespace muster {

std::string agent_program() {
  return MUSTER_AGENT_PROGRAM;
}

TestNode::TestNode(std::string node) : node_(std::move(node)) {
  char pattern[] = "/tmp/muster-agent-test.XXXXXX";
  REQUIRE(::mkdtemp(pattern) != nullptr);
  home_ = pattern;
  controller_ = "c" + std::to_string(::getpid());
}

TestNode::~TestNode() {
  const pid_t pid = agent_pid();
  if (pid > 0) {
    ::kill(pid, SIGINT);  // at once: SIGTERM gives the ranks time
    eventually([pid] { return !is_running(pid); });
  }
  std::error_code ignored;
  std::filesystem::remove_all(home_, ignored);
}

int TestNode::serve() {
  const std::string program = agent_program();
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(program.c_str(), program.c_str(), "agent", "serve", "--home", home_.c_str(),
            "--controller", controller_.c_str(), "--node", node_.c_str(), nullptr);
    ::_exit(126);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

AgentClient TestNode::greeted() const {
  AgentClient client = connect();
  client.hello(controller_, node_);
  return client;
}

AgentClient TestNode::begin() {
  REQUIRE(serve() == 0);
  return greeted();
}

// The agent wrote its own pid into each line of its log.
pid_t TestNode::agent_pid() const {
  std::istringstream log(read_file(run_directory() + "/agent.log"));
  pid_t pid = 0;
  for (std::string line; std::getline(log, line);) {
    if (line.find(" serves ") == std::string::npos) continue;
    pid = static_cast<int>(std::strtol(line.c_str() + line.find(' ') + 1, nullptr, 10));
  }
  return pid > 0 && is_running(pid) ? pid : 0;
}

pid_t TestNode::keeper_pid() const {
  const pid_t agent = agent_pid();
  for (const ProcessInfo& process : scan_processes()) {
    const bool is_keeper = process.name == "muster-keeper" && process.session == process.pid;
    if (is_keeper && process.parent == agent) return process.pid;
  }
  return 0;
}

void TestNode::kill_agent() {
  const pid_t pid = agent_pid();
  REQUIRE(pid > 0);
  ::kill(pid, SIGKILL);
  REQUIRE(eventually([pid] { return !is_running(pid); }));
}

StartRanks a_start(const std::string& command, int ranks, const std::string& job) {
  StartRanks start;
  start.job.value = job;
  start.command = command;
  for (int i = 0; i < ranks; ++i) {
    start.ranks.push_back({RankId{i}, i, {{"RANK", std::to_string(i)}}});
  }
  return start;
}

StartRanks a_program(const std::string& script) {
  StartRanks start =
      a_start("cp \"$(command -v bash)\" trainer && exec ./trainer -c \"$SCRIPT\"");
  start.environment["SCRIPT"] = script;
  return start;
}

StopAttempt a_stop(std::chrono::milliseconds grace, const std::string& job) {
  return {JobId{job}, AttemptId{}, "SIGTERM", grace};
}

bool eventually(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_running(pid_t pid) {
  const auto process = read_process(pid);
  return process && !process->is_dead();
}

}  // namespace muster
