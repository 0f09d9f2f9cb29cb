#include "launcher/agent/health/command.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "launcher/agent/keeper/layout.h"
#include "launcher/agent/node/log.h"
#include "launcher/os/child.h"

namespace muster {

namespace {

// In the agent's directory: what looks on demand remember from one to the next.
constexpr const char* asked_state = "/health-asked.state";

// `muster health VERB` for a program that reads its answer; a profile comes on standard input.
std::vector<std::string> health_words(const char* verb, const std::string& state_file,
                                      const std::string& profile) {
  std::vector<std::string> words{"health",
                                 verb,
                                 "--output=json",
                                 "--color=never",
                                 "--only-show-errors",
                                 "--state=" + state_file};
  if (!profile.empty()) words.insert(words.end(), {"--profile=-", "--no-base-profile"});
  return words;
}

// A gate measures for 13 min at most, a person for an hour, who may begin again; nobody burns a
// host in for longer than a shift and says nothing.
constexpr std::chrono::hours believed_for{8};
// Who was not asked for meanwhile may have given it back and taken it again.
constexpr std::chrono::minutes forgotten_after{2};

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// An abstract name: of no file system, the same for all users of the host's network.
Name claimed_name() {
  constexpr std::string_view text("\0muster-measures-this-host", 26);
  Name name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  return name;
}

Fd new_socket() {
  return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Whoever listened at the name. Nothing: nobody does, or too many have asked.
std::optional<ucred> listener(const Name& name) {
  const Fd socket = new_socket();
  if (!socket || ::connect(socket.get(), name.raw(), name.size) != 0) return std::nullopt;
  return peer_of(socket.get());
}

// "7 min", "8 h 5 min"
std::string minutes_text(std::chrono::minutes time) {
  const auto hours = std::chrono::duration_cast<std::chrono::hours>(time);
  const std::string rest = std::to_string((time - hours).count()) + " min";
  return hours.count() == 0 ? rest : std::to_string(hours.count()) + " h " + rest;
}

}  // namespace

std::vector<std::string> health_run_arguments(const LookAtHealth& request, bool is_busy,
                                              const std::string& state_file) {
  const HealthWanted& wanted = request.wanted;
  std::vector<std::string> words = health_words("run", state_file, request.profile);
  if (is_busy) {
    words.emplace_back("--during-job");
  } else {
    if (!wanted.phase.empty()) words.push_back("--phase=" + wanted.phase);
    if (wanted.is_idle) words.emplace_back("--idle");
  }
  if (wanted.quick) words.emplace_back("--once");
  for (const std::string& pattern : wanted.checks) words.push_back("--check=" + pattern);
  return words;
}

std::vector<std::string> benchmark_arguments(const MeasureNode& request,
                                             const std::string& state_file) {
  std::vector<std::string> words{"agent", "probe"};
  if (!request.is_probe) words = health_words("benchmark", state_file, request.profile);
  words.insert(words.end(), request.words.begin(), request.words.end());
  return words;
}

void HealthCommand::start(const LookAtHealth& request, bool runs_ranks, Environment environment) {
  if (const std::string& asked = request.wanted.holdings; !asked.empty()) {
    run(request.id, {"agent", "probe", "holdings", run_.home, asked}, std::move(environment), "");
    return;
  }
  const bool is_busy = runs_ranks || request.is_held;
  const auto arguments = health_run_arguments(request, is_busy, run_.path + asked_state);
  const auto pid = run(request.id, arguments, std::move(environment), request.profile);
  if (pid && !is_busy) wide_[*pid] = {request.id, false, {}, false};
}

void HealthCommand::measure(const MeasureNode& request, bool runs_ranks, Environment environment) {
  const std::string forbidden = blocking_reason(request, runs_ranks);
  if (!forbidden.empty()) return execs_.refuse(request.id, forbidden);
  const std::string profile = request.is_probe ? "" : request.profile;
  const auto arguments = benchmark_arguments(request, run_.path + asked_state);
  const auto pid = run(request.id, arguments, std::move(environment), profile);
  if (pid) wide_[*pid] = {request.id, true, request.is_probe ? request.token : "", false};
  poll();  // when it could not be started
}

// Two would measure each other; the probes of one run know of each other.
std::string HealthCommand::blocking_reason(const MeasureNode& request, bool runs_ranks) {
  if (runs_ranks) return "ranks run there";
  const auto is_other = [&](const auto& item) {
    const Wide& wide = item.second;
    const bool is_same_run =
        request.is_probe && !request.token.empty() && wide.token == request.token;
    return wide.is_measurement && !is_same_run;
  };
  constexpr const char* is_measured = "it is being measured already";
  if (std::ranges::any_of(wide_, is_other)) return is_measured;
  if (const std::string hung = ending_.hung(); !hung.empty()) return hung;
  return claim_.take() ? "" : is_measured + claim_.whose();
}

std::optional<pid_t> HealthCommand::run(const std::string& id, std::vector<std::string> arguments,
                                        Environment environment, const std::string& profile) {
  environment[token_name] = "health";  // no process of any attempt, whoever its parent becomes
  ExecStart command;
  command.id = id;
  command.argv = std::move(arguments);
  command.argv.insert(command.argv.begin(), self_exe());
  const auto pid = execs_.start(command, environment, run_.path);
  if (!pid) {
    execs_.refuse(id, pid.error().message);
    return std::nullopt;
  }
  sessions_.insert(*pid);
  if (!profile.empty()) execs_.input(id, profile);
  execs_.input(id, {});
  return *pid;
}

void HealthCommand::end(pid_t pid, Wide& wide) {
  wide.is_ended = true;
  ending_.add(pid);
  execs_.stop(wide.id);
}

void HealthCommand::job_comes() {
  for (auto& [pid, wide] : wide_) {
    if (wide.is_measurement) end(pid, wide);
  }
}

void HealthCommand::end_wide() {
  for (auto& [pid, wide] : wide_) end(pid, wide);
}

void HealthCommand::stop(const std::string& id) {
  for (auto& [pid, wide] : wide_) {
    if (wide.id == id) end(pid, wide);
  }
}

// What it had started may be there yet.
void HealthCommand::reaped(pid_t pid) {
  if (sessions_.erase(pid) == 0) return;
  wide_.erase(pid);
  ending_.add(pid);
  poll();
}

void HealthCommand::poll() {
  if (!ending_.are_gone()) return;
  std::erase_if(wide_, [](const auto& item) { return item.second.is_ended; });
  const auto is_measurement = [](const auto& item) { return item.second.is_measurement; };
  if (std::ranges::none_of(wide_, is_measurement)) claim_.give_back();
}

bool BenchmarkClaim::take(BootTime now) {
  if (is_held_) return true;
  const Name name = claimed_name();
  Fd socket = new_socket();
  const bool is_taken = ::bind(socket.get(), name.raw(), name.size) != 0 && errno == EADDRINUSE;
  if (is_taken && believes(now)) return false;
  if (is_taken) log_line("measures all the same: this host is claimed" + whose());
  // Nobody is let in: the kernel tells who asks whose it is. Whatever went wrong is no reason not
  // to measure.
  if (!is_taken) static_cast<void>(::listen(socket.get(), SOMAXCONN));
  socket_ = std::move(socket);
  is_held_ = true;
  ++claims_held_;
  holder_.reset();
  return true;
}

void BenchmarkClaim::give_back() {
  if (!is_held_) return;
  is_held_ = false;
  --claims_held_;
  socket_.reset();
}

bool BenchmarkClaim::believes(BootTime now) {
  const auto who = listener(claimed_name());
  const bool is_same = holder_ && now - holder_->asked_at < forgotten_after &&
                       (!who || holder_->pid == 0 || holder_->pid == who->pid);
  if (!is_same) holder_ = Holder{0, std::nullopt, now, now};
  holder_->asked_at = now;
  if (who) {
    holder_->pid = who->pid;
    holder_->user = who->uid;
  }
  return now - holder_->since < believed_for;
}

std::string BenchmarkClaim::whose() const {
  if (!holder_) return {};
  std::string text;
  if (holder_->user && *holder_->user != ::geteuid()) {
    text += ", by ";
    if (holder_->pid != 0) text += "process " + std::to_string(holder_->pid) + " of ";
    text += "user " + std::to_string(*holder_->user);
  }
  const auto time =
      std::chrono::duration_cast<std::chrono::minutes>(holder_->asked_at - holder_->since);
  if (time.count() > 0) text += ", for " + minutes_text(time) + " at least";
  return text;
}

}  // namespace muster
