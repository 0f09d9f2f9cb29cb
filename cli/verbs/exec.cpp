// `muster exec JOB -- CMD`: a command beside a rank, in its directory and environment.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "cli/client/find.h"
#include "cli/client/start.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

constexpr int not_launched = static_cast<int>(ExitCode::launch);

struct ExecOptions {
  std::string job;
  std::optional<std::int64_t> rank;
  std::vector<std::string> command;
};

class ExecSession {
 public:
  ExecSession(ControllerClient client, const CommonOptions& common)
      : client_(std::move(client)), common_(common) {}

  int run(const Exec& request) {
    if (const auto sent = client_.send(request); !sent) return lost(sent.error());
    while (!exit_code_) {
      // Input waits until the command is there to take it.
      const bool takes_input = started_ && input_open_;
      std::array<pollfd, 2> wanted{pollfd{client_.descriptor(), POLLIN, 0},
                                   pollfd{takes_input ? STDIN_FILENO : -1, POLLIN, 0}};
      if (::poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR) break;
      if (wanted[0].revents != 0) {
        if (const auto taken = take_messages(); !taken) return lost(taken.error());
      }
      if (!exit_code_ && wanted[1].revents != 0) pass_input();
    }
    return exit_code_.value_or(internal_error);
  }

 private:
  int lost(const Error& error) const { return print_error(error.message, internal_error, common_); }

  Status take_messages() {
    auto message = client_.receive(Milliseconds{0});
    while (message && *message) {
      take((*message)->message, (*message)->payload);
      if (exit_code_) return Done{};
      message = client_.receive(Milliseconds{0});
    }
    if (!message) return message.error();
    return Done{};
  }

  void take(const FromController& message, const std::string& payload) {
    if (std::holds_alternative<Accepted>(message)) {
      started_ = true;
    } else if (const auto* output = std::get_if<ExecOutput>(&message)) {
      write_all(output->is_stderr ? Stream::err : Stream::out, payload);
    } else if (const auto* ended = std::get_if<ExecEnded>(&message)) {
      end(*ended);
    } else if (const auto* refused = std::get_if<Refused>(&message)) {
      exit_code_ = print_error(refused->message, refused->exit_code, common_);
    }
  }

  void end(const ExecEnded& ended) {
    const ExitStatus& status = ended.status;
    exit_code_ = status.signal != 0 ? exit_code_of_signal(status.signal) : status.code;
    if (!ended.error.empty()) exit_code_ = print_error(ended.error, not_launched, common_);
  }

  // A connection that takes no more input still has the command's last words to give.
  void pass_input() {
    std::array<char, 16384> bytes;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    const auto size = static_cast<std::size_t>(std::max<ssize_t>(0, got));
    input_open_ = client_.send(ExecInput{}, {bytes.data(), size}) && size > 0;
  }

  ControllerClient client_;
  const CommonOptions& common_;
  std::optional<int> exit_code_;
  bool started_ = false;
  bool input_open_ = true;
};

// Why there is no rank to be beside; empty: there may be one.
std::string not_yet(const JobRow& row) {
  for (const char* state : {"NotStarted", "Queued", "Preparing", "Provisioning"}) {
    if (row.state != state) continue;
    return "job " + row.name + " is not running yet: it is " + state +
           (row.reason.empty() ? "" : ": " + row.reason);
  }
  return "";
}

int exec_beside(const ExecOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = open_job(home, options.job);
  if (!found) return without_job(home, found.error(), common);
  if (const std::string why = not_yet(found->row); !why.empty()) {
    return print_error(why, not_launched, common);
  }
  auto client = ensure_controller(home, common);
  if (!client) return print_error(client.error().message, internal_error, common);
  Exec request{found->id(), std::nullopt, options.command};
  if (options.rank) request.rank = RankId{*options.rank};
  return ExecSession(std::move(*client), common).run(request);
}

}  // namespace

void add_exec(CommandLine& line) {
  line.verb<ExecOptions>(
      {"exec", "Run a command on the node of a rank: muster exec JOB --rank 3 -- nvidia-smi"},
      exec_beside, [](Arguments& of, ExecOptions& options) {
        of.argument("JOB", options.job, "Job name, or the beginning of one");
        of.offer("JOB", {.words = {}, .unfinished_jobs = true});
        of.arguments("COMMAND", options.command, "Program and its arguments, after --");
        of.option("--rank", options.rank, "On the node of this rank (default 0)");
      });
}

}  // namespace muster
