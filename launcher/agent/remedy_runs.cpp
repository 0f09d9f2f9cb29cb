#include "launcher/agent/remedy_runs.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "launcher/agent/exit_log.h"
#include "launcher/agent/spawn.h"
#include "launcher/agent/system_error_text.h"
#include "launcher/agent/utf8_lines.h"
#include "launcher/os/fd.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

constexpr std::size_t lines_told = 10;
constexpr std::size_t bytes_kept = 8192;

// How often it is looked whether a command that says nothing has ended.
constexpr int look_ms = 50;

// Those of one controller's life; an id is asked again within minutes.
constexpr std::size_t runs_kept = 100;

RemedyRun failed(const std::string& id, std::string why) {
  return {id, ExitStatus{127, 0}, std::move(why), {}};
}

void read_some(int from, std::string& text) {
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(from, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > 2 * bytes_kept) text.erase(0, text.size() - bytes_kept);
  }
}

int wait_for(pid_t child, int output, std::string& text) {
  int wait_status = 0;
  while (true) {
    pollfd ready{output, POLLIN, 0};
    ::poll(&ready, 1, look_ms);
    read_some(output, text);
    const pid_t ended = ::waitpid(child, &wait_status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    if ((ready.revents & POLLHUP) != 0) ::usleep(look_ms * 1000);  // it has closed its output
  }
  read_some(output, text);
  return wait_status;
}

Result<RemedyRun> answer_in(const std::string& frame) {
  FrameReader reader;
  reader.feed(std::as_bytes(std::span(frame.data(), frame.size())));
  auto next = reader.next();
  if (!next || !*next) return Error{"its answer was cut off"};
  auto received = decode_from_agent(std::move(**next));
  if (!received) return received.error();
  auto* run = std::get_if<RemedyRun>(&received->message);
  if (run == nullptr) return Error{"its answer is of something else"};
  return std::move(*run);
}

}  // namespace

RemedyRun run_command(const RunRemedy& request, const Environment& environment) {
  if (request.argv.empty()) return failed(request.id, "no command was given");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return failed(request.id, system_error("make a pipe").message);
  }
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  ::fcntl(write_end.get(), F_SETFL, 0);  // the command's own end blocks, as any program expects
  SpawnRequest spawned;
  spawned.argv = request.argv;
  spawned.environment = environment;
  spawned.directory = "/";
  spawned.output = spawned.errors = write_end.get();
  const auto child = spawn(spawned);
  write_end = Fd();
  if (!child) return failed(request.id, child.error().message);
  std::string text;
  const int wait_status = wait_for(*child, read_end.get(), text);
  return {request.id, exit_status_of(wait_status), {}, last_utf8_lines(text, lines_told)};
}

RemedyRuns::RemedyRuns(ChildTasks& tasks, Tell tell, OnDone on_done)
    : tasks_(tasks), tell_(std::move(tell)), on_done_(std::move(on_done)) {}

void RemedyRuns::ask(const RunRemedy& request, const std::optional<std::string>& refusal,
                     const Environment& environment) {
  const auto known = runs_.find(request.id);
  if (known != runs_.end()) {
    if (known->second) tell_(*known->second);
    return;
  }
  if (runs_.size() >= runs_kept) {
    std::erase_if(runs_, [](const auto& item) { return item.second.has_value(); });
  }
  runs_[request.id].reset();
  if (refusal) return ended(request, failed(request.id, *refusal));
  tasks_.run(
      [request, environment](const ChildTasks::Tell&) {
        return encode(FromAgent{run_command(request, environment)});
      },
      request.limit,
      [this, request](const Result<std::string>& frame) {
        auto run = frame ? answer_in(*frame) : Result<RemedyRun>(frame.error());
        if (run) return ended(request, std::move(*run));
        ended(request, failed(request.id, "its command was ended: " + run.error().message));
      });
}

bool RemedyRuns::is_running() const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [](const auto& item) { return !item.second.has_value(); });
}

void RemedyRuns::ended(const RunRemedy& request, RemedyRun run) {
  const bool is_done = run.error.empty() && run.status.ok();
  runs_[request.id] = run;
  if (is_done) on_done_(request);
  tell_(run);
}

}  // namespace muster
