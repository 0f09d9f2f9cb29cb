// Ranks as real processes that join as those of a run do, so that they can be killed and stopped.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/communicator/mesh/mesh.h"
#include "runtime/protocol/start_error.h"
#include "tests/catch.h"
#include "tests/runtime/free_port.h"

namespace muster::test {

// What a rank's process does before and after it has joined; its result is a text.
using RankPart = std::function<std::string(Communicator&, const std::function<void()>& is_ready)>;

class ProcessWorld {
 public:
  struct Settings {
    MeshOptions options = {std::chrono::seconds(60)};
    std::chrono::milliseconds join_limit{20000};
    std::string secret = {};
  };

  ProcessWorld(std::size_t size, const Settings& settings)
      : size_(size), settings_(settings), port_(free_port()) {}
  ~ProcessWorld() {
    for (const Child& child : children_) {
      if (child.pid > 0) ::kill(child.pid, SIGKILL);
    }
    for (Child& child : children_) reap(child);
  }

  // All ranks with the same part. A StartError or another exception is a rank's result too.
  void start(const RankPart& part) {
    for (std::size_t r = 0; r < size_; ++r) start_rank({"job", 1, r, size_}, part);
  }

  // One process, with any seat.
  void start_rank(const MeshSeat& seat, const RankPart& part) {
    start_process([&](int output) { return result_of(seat, part, output); });
  }

  // Any other process beside the ranks; what it is given is where its result goes in the end.
  void start_process(const std::function<std::string(int output)>& part) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      const std::string result = part(ends[1]);
      static_cast<void>(!::write(ends[1], result.data(), result.size()));
      ::_exit(0);
    }
    ::close(ends[1]);
    children_.push_back({pid, ends[0]});
  }

  // Until the rank's part has called is_ready().
  void wait_until_ready(std::size_t index) {
    char mark = 0;
    REQUIRE(::read(children_[index].output, &mark, 1) == 1);
    REQUIRE(mark == ready_mark);
  }

  void signal(std::size_t index, int number) { ::kill(children_[index].pid, number); }

  // The result of a process that ends by itself.
  std::string result(std::size_t index) {
    std::string text;
    char part[4096];
    ssize_t got = 0;
    while ((got = ::read(children_[index].output, part, sizeof part)) > 0) {
      text.append(part, static_cast<std::size_t>(got));
    }
    while (text.starts_with(ready_mark)) text.erase(0, 1);
    return text;
  }

  // 0, an exit code, or 128 + signal.
  int code(std::size_t index) { return reap(children_[index]); }

  std::uint16_t port() const { return port_; }

 private:
  static constexpr char ready_mark = '\1';
  struct Child {
    pid_t pid = 0;
    int output = -1;
    int code = 0;
  };

  std::string result_of(const MeshSeat& seat, const RankPart& part, int output) const {
    try {
      const MeetingPlace place{
          "127.0.0.1", port_, settings_.join_limit, {}, settings_.secret};
      const auto ranks = make_mesh_communicator(seat, place, settings_.options);
      return part(*ranks, [&] { static_cast<void>(!::write(output, &ready_mark, 1)); });
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  static int reap(Child& child) {
    if (child.pid <= 0) return child.code;
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    ::close(child.output);
    child.pid = 0;
    child.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return child.code;
  }

  std::size_t size_;
  Settings settings_;
  std::uint16_t port_;
  std::vector<Child> children_;
};

}  // namespace muster::test
