#include "scheduler/state/sentences.h"

#include <array>
#include <csignal>

#include "scheduler/model/names.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

struct SignalName {
  int number;
  const char* name;
};

constexpr std::array<SignalName, 20> signal_names{{
    {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
    {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"},
    {SIGXFSZ, "SIGXFSZ"}, {SIGSTOP, "SIGSTOP"}, {SIGCONT, "SIGCONT"}, {SIGSYS, "SIGSYS"},
}};

}  // namespace

std::string signal_name(int signal) {
  for (const SignalName& known : signal_names) {
    if (known.number == signal) return known.name;
  }
  return "signal " + std::to_string(signal);
}

std::string exit_text(const ExitStatus& status) {
  if (status.signal != 0) return "was killed by " + signal_name(status.signal);
  return "exited with code " + std::to_string(status.code);
}

std::string duration_text(Milliseconds duration) {
  const std::int64_t seconds = duration.count() / 1000;
  if (duration.count() % 1000 != 0 && seconds < 60) {
    return printed("%.1f s", static_cast<double>(duration.count()) / 1000);
  }
  if (seconds < 60) return std::to_string(seconds) + " s";
  const std::int64_t minutes = seconds / 60;
  if (minutes < 60) {
    const std::int64_t rest = seconds % 60;
    return std::to_string(minutes) + " min" + (rest ? " " + std::to_string(rest) + " s" : "");
  }
  const std::int64_t rest = minutes % 60;
  return std::to_string(minutes / 60) + " h" + (rest ? " " + std::to_string(rest) + " min" : "");
}

std::string count_text(std::size_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string names_text(const std::vector<NodeId>& nodes) {
  std::vector<std::string> parts;
  for (const NodeId& id : nodes) parts.push_back(id.value);
  if (parts.size() > static_cast<std::size_t>(nodes_named)) {
    parts.resize(static_cast<std::size_t>(nodes_named));
    parts.push_back(std::to_string(nodes.size() - parts.size()) + " more");
  }
  return enumerated(parts, " and ");
}

std::string link_text(const NodeId& node, const LinkFailure& failure) {
  return node.value + " cannot be reached: " + failure.message;
}

std::string rule_name(const MatchedRule& rule) {
  return "rule " + rule.id + " (" + std::string(word(rule.origin)) + ")";
}

std::string said_by_rules(const AttemptCause& cause) {
  const auto& rule = cause.rules.rule;
  std::string text = rule ? rule_name(*rule) + ": " : "";
  text += "class " + std::string(word(cause.failure_class));
  for (const std::string& id : cause.rules.only_logged) text += "; rule " + id + " only logs";
  return text;
}

std::string advice_of(const AttemptCause& cause) {
  const auto& rule = cause.rules.rule;
  return rule && !rule->advice.empty() ? ": " + rule->advice : "";
}

bool casts_doubt(const AttemptCause& cause) {
  if (cause.succeeded) return false;
  if (cause.failure_class == FailureClass::sdc) return true;
  const auto& rule = cause.rules.rule;
  return cause.failure_class == FailureClass::hw && rule && rule->doubts_state;
}

std::string doubt_text(const AttemptCause& cause) {
  return cause.sentence + " (class " + std::string(word(cause.failure_class)) +
         "), so what was saved may be wrong";
}

}  // namespace muster
