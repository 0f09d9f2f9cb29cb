#include "launcher/agent/health/remediation.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>
#include <vector>

#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node/spawn.h"
#include "launcher/os/child.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t lines_told = 10;

// Those of one controller's life; an id is asked again within minutes.
constexpr std::size_t runs_kept = 100;

RemedyRun failed(const std::string& id, std::string why) {
  return {id, ExitStatus{127, 0}, std::move(why), {}};
}

}  // namespace

Remediation::Remediation(Tell tell, OnDone on_done)
    : tell_(std::move(tell)), on_done_(std::move(on_done)) {}

bool Remediation::is_news(const RunRemedy& request) const {
  return !runs_.contains(request.id) && request.limit > Milliseconds{0};
}

void Remediation::ask(const RunRemedy& request, const std::optional<std::string>& refusal,
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
  if (request.limit <= Milliseconds{0}) {
    return ended(request, failed(request.id, "command not started"));
  }
  begin(request, environment);
}

void Remediation::begin(const RunRemedy& request, const Environment& environment) {
  if (request.argv.empty()) return ended(request, failed(request.id, "no command was given"));
  auto pipe = tail_pipe();
  if (!pipe) return ended(request, failed(request.id, system_error("make a pipe").message));
  SpawnRequest spawned;
  spawned.argv = request.argv;
  spawned.environment = environment;
  spawned.directory = "/";
  spawned.output = spawned.errors = pipe->write_end.get();
  const auto child = spawn(spawned);
  if (!child) return ended(request, failed(request.id, child.error().message));
  running_.emplace(*child,
                   Running{request, std::move(pipe->read_end), {}, boot_time() + request.limit});
}

// What it leaves in the background is not waited for.
bool Remediation::reaped(pid_t pid, int wait_status) {
  const auto found = running_.find(pid);
  if (found == running_.end()) return false;
  if (found->second.killed_at) return true;  // its session is waited for
  if (WIFSIGNALED(wait_status)) {
    found->second.died = exit_status_of(wait_status);
    kill_all_of(pid, found->second);
    return true;
  }
  Running running = std::move(found->second);
  running_.erase(found);
  read_tail(running.output.get(), running.text);
  ended(running.request, {running.request.id,
                          exit_status_of(wait_status),
                          {},
                          last_utf8_lines(running.text, lines_told)});
  return true;
}

void Remediation::poll() {
  std::vector<pid_t> killed;
  for (auto& [session, running] : running_) {
    read_tail(running.output.get(), running.text);
    if (boot_time() >= running.until) kill_all_of(session, running);
    if (running.killed_at) killed.push_back(session);
  }
  ending_.are_gone();
  for (const pid_t session : killed) end_killed(session);
}

void Remediation::kill_all_of(pid_t session, Running& running) {
  if (!running.killed_at) {
    running.killed_at = boot_time();
    ending_.add(session);
  }
  kill_session(session);
}

// The next step, or a rank, must not meet it.
void Remediation::end_killed(pid_t session) {
  const auto found = running_.find(session);
  const bool is_gone = !ending_.all().contains(session);
  if (!is_gone && boot_time() < *found->second.killed_at + ending_limit) return;
  const Running running = std::move(found->second);
  running_.erase(found);
  const auto limit_s = std::chrono::duration_cast<std::chrono::seconds>(running.request.limit);
  std::string why;
  if (!running.died) {
    why = "its command did not end within " + std::to_string(limit_s.count()) + " s";
  }
  if (!is_gone) why += running.died ? "what it started cannot be killed" : ", and cannot be killed";
  ended(running.request, {running.request.id, running.died.value_or(ExitStatus{0, SIGKILL}), why,
                          last_utf8_lines(running.text, lines_told)});
}

std::set<pid_t> Remediation::sessions() const {
  std::set<pid_t> sessions = ending_.all();
  for (const auto& [session, running] : running_) sessions.insert(session);
  return sessions;
}

void Remediation::ended(const RunRemedy& request, RemedyRun run) {
  const bool is_done = run.error.empty() && run.status.ok();
  runs_[request.id] = run;
  if (is_done) on_done_(request);
  tell_(run);
}

}  // namespace muster
