#include "launcher/agent/keeper/stop.h"

#include <algorithm>
#include <csignal>
#include <ctime>

#include "launcher/agent/keeper/processes.h"

namespace muster {

namespace {

// For workers and helpers after the ranks are gone: they have nothing to save.
constexpr std::chrono::seconds terminate_limit{5};
// After SIGKILL a process ends at once unless the kernel holds it (D state): waiting longer is
// vain.
constexpr std::chrono::seconds reap_limit{60};
// One scan can miss a process that forks while /proc is read.
constexpr int empty_scans_wanted = 2;
constexpr timespec scan_pause{0, 5'000'000};

}  // namespace

void AttemptStop::begin(std::vector<ProcessInfo> signalled, Limits limits, Clock::time_point now) {
  const Clock::time_point deadline = now + limits.grace;
  const Clock::time_point limit = now + std::max(limits.grace, limits.grace_max);
  if (auto* running = std::get_if<Grace>(&phase_)) {
    running->deadline = std::min(running->deadline, deadline);
    running->limit = std::min(running->limit, limit);
    running->kills = running->kills && limits.kills;
    return;
  }
  const Proven* before = proven();
  if (before != nullptr && !before->unkillable.empty()) return kill_now(now);
  if (is_idle()) phase_ = Grace{std::move(signalled), deadline, limit, limits.kills};
}

void AttemptStop::extend(Clock::time_point until) {
  auto* grace = std::get_if<Grace>(&phase_);
  if (grace != nullptr) grace->deadline = std::max(grace->deadline, std::min(until, grace->limit));
}

void AttemptStop::kill_now(Clock::time_point now) {
  if (std::holds_alternative<Killing>(phase_)) return;
  phase_ = Killing{now + reap_limit};
}

void AttemptStop::step(Clock::time_point now, const Find& find) {
  while (is_active() && step_once(now, find)) {
  }
}

// True when another step may follow at once.
bool AttemptStop::step_once(Clock::time_point now, const Find& find) {
  if (auto* grace = std::get_if<Grace>(&phase_)) {
    std::erase_if(grace->signalled,
                  [this](const ProcessInfo& rank) { return !table_.is_alive(rank); });
    if (!grace->signalled.empty() && now < grace->deadline) return false;
    if (grace->kills && !grace->signalled.empty()) {
      kill_now(now);
      return true;
    }
    const auto left = find();
    for (const ProcessInfo& process : left) {
      table_.signal(process, SIGTERM);
      table_.signal(process, SIGCONT);
    }
    for (const ProcessInfo& rank : grace->signalled) table_.signal(rank, SIGKILL);
    if (left.empty()) phase_ = Killing{now + reap_limit, 1};
    else phase_ = Terminating{now + terminate_limit};
    return true;
  }
  if (auto* terminating = std::get_if<Terminating>(&phase_)) {
    const bool is_empty = find().empty();
    if (!is_empty && now < terminating->deadline) return false;
    phase_ = Killing{now + reap_limit, is_empty ? 1 : 0};
    return true;
  }
  auto& killing = std::get<Killing>(phase_);
  const auto left = find();
  if (left.empty()) {
    if (++killing.empty_scans >= empty_scans_wanted) phase_ = Proven{};
    return true;
  }
  killing.empty_scans = 0;
  kill_processes(table_, left);
  if (now < killing.deadline) return false;
  Proven proven;
  for (const ProcessInfo& process : left) proven.unkillable.push_back(describe(process));
  phase_ = std::move(proven);
  return true;
}

std::vector<std::string> kill_until_gone(ProcessTable& table, const AttemptStop::Find& find) {
  AttemptStop stop(table);
  stop.kill_now(AttemptStop::Clock::now());
  while (stop.step(AttemptStop::Clock::now(), find), stop.is_active()) {
    ::nanosleep(&scan_pause, nullptr);
  }
  return stop.proven()->unkillable;
}

}  // namespace muster
