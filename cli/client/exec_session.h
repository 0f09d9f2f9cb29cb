// A session on a node of a job, beside two descriptors of this process: a command, a terminal or a
// connection there. Blocks until it is over; never takes more than it can pass on, nor gives more
// than is taken. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <unistd.h>

#include "cli/client/start.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/raw_terminal.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/agent_request.h"
#include "scheduler/model/result.h"

namespace muster {

struct ExecEnds {
  int input = STDIN_FILENO;
  int output = STDOUT_FILENO;
  RawTerminal* terminal = nullptr;  // tells of its size
};

// What a session of the command line asks for: how much may be on its way.
ExecChannel exec_channel();

class ExecSession {
 public:
  ExecSession(ControllerClient client, ExecEnds ends, const CommonOptions& common)
      : client_(std::move(client)), ends_(ends), common_(common) {}

  // The exit code; why there is none of a command has been told.
  int run(const Exec& request);

 private:
  bool is_over() const { return exit_code_ && untaken_.empty(); }
  int refused(const std::string& why, int exit_code);
  Status take_messages();
  void take(const FromController& message, const std::string& payload);
  void take_output(const ExecOutput& output, const std::string& payload);
  void end(const ExecEnded& ended);
  void pass_input();
  void pass_output();
  void break_off(int signal);
  void pass_size();
  void tell_taken(std::int64_t bytes);
  void end_output();

  ControllerClient client_;
  ExecEnds ends_;
  const CommonOptions& common_;
  std::optional<ExecChannel> channel_;
  std::optional<int> exit_code_;
  std::string untaken_;          // output that waits for its reader
  std::size_t passed_ = 0;       // of that, to the reader
  std::int64_t untold_ = 0;      // output that was passed on, and the node does not know
  std::int64_t on_its_way_ = 0;  // input that the node has not taken
  bool started_ = false;
  bool input_open_ = true;
  bool output_ends_ = false;
};

// The keys with which OpenSSH reaches the nodes of one job over muster's own connection: of the
// person, and of the nodes. Made once, below the job's directory in the state directory, which is
// removed with the job. Private parts are 0600.

inline std::filesystem::path ssh_directory(const Home& home, const JobId& job) {
  return home.job(job) / "ssh";  // identity, identity.pub, host, host.pub, known_hosts
}

// What a node is given; made where there is none yet.
Result<SshKeys> ssh_keys_of(const Home& home, const JobId& job);

}  // namespace muster
