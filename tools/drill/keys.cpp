#include "tools/drill/keys.h"

#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::array<std::pair<std::string_view, Comparison>, 6> comparisons{{
    {"==", Comparison::equal},
    {"!=", Comparison::not_equal},
    {"<=", Comparison::at_most},
    {">=", Comparison::at_least},
    {"<", Comparison::less},
    {">", Comparison::more},
}};

constexpr std::array<std::pair<const char*, int>, 8> signals{{
    {"KILL", SIGKILL},
    {"TERM", SIGTERM},
    {"INT", SIGINT},
    {"HUP", SIGHUP},
    {"ABRT", SIGABRT},
    {"SEGV", SIGSEGV},
    {"USR1", SIGUSR1},
    {"USR2", SIGUSR2},
}};

// "step >= 20" as "step" and ">= 20".
std::pair<std::string, std::string_view> split_field(std::string_view text) {
  text = trimmed(text);
  const std::size_t end = std::min(text.find_first_of(" =!<>"), text.size());
  return {std::string(text.substr(0, end)), trimmed(text.substr(end))};
}

const std::vector<std::string> fields{"step", "attempt", "state", "checkpoint", "saving", "output"};
const std::vector<std::string> states{"NotStarted", "Queued",  "Preparing",  "Provisioning",
                                      "Starting",   "Running", "Finalizing", "Completed",
                                      "Failed",     "Canceled"};

std::optional<DrillCondition> read_state_test(const Value& value, std::string_view rest) {
  const bool equal = rest.starts_with("==");
  if (!equal && !rest.starts_with("!=")) {
    value.error("expected 'state == Running' or 'state != Running'");
    return std::nullopt;
  }
  const std::string state(trimmed(rest.substr(2)));
  for (const std::string& known : states) {
    if (known == state) return StateTest{state, equal};
  }
  value.error("there is no state " + quoted_text(state), value.suggest(state, states));
  return std::nullopt;
}

std::optional<int> signal_number(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  const std::string name = text->starts_with("SIG") ? text->substr(3) : *text;
  std::vector<std::string> names;
  for (const auto& [known, number] : signals) {
    if (name == known) return number;
    names.push_back(known);
  }
  value.error("unknown signal " + quoted_text(*text), value.suggest(name, names));
  return std::nullopt;
}

std::optional<int> read_rank(const Value& value) {
  if (value.is_scalar() && value.node().text == "random") return std::nullopt;
  constexpr int most = 1000000;
  return value.integer(0, most);
}

std::optional<std::string> read_node(const Value& value) {
  const auto node = value.text();
  return node && *node == "random" ? std::nullopt : node;
}

DrillTarget any_target(const Value& word) {
  const auto kind = word.word({"rank", "agent", "connection", "controller"});
  if (kind && *kind == "agent") return AgentTarget{};
  if (kind && *kind == "connection") return ConnectionTarget{};
  if (kind && *kind == "controller") return ControllerTarget{};
  return RankTarget{};
}

// `rank: 1`, `agent: local-1`, `connection: random`, `controller: true`
DrillTarget read_target(MapReader& map, const Value& whole) {
  const Value rank = map.take("rank");
  const Value agent = map.take("agent");
  const Value connection = map.take("connection");
  const Value controller = map.take("controller");
  const int given = rank.present() + agent.present() + connection.present() + controller.present();
  if (given != 1) {
    whole.error("expected 'rank', 'agent', 'connection' or 'controller', one of them");
    return RankTarget{};
  }
  if (agent.present()) return AgentTarget{read_node(agent)};
  if (connection.present()) return ConnectionTarget{read_node(connection)};
  if (rank.present()) return RankTarget{read_rank(rank)};
  if (!controller.boolean().value_or(false)) controller.error("write 'controller: true'");
  return ControllerTarget{};
}

// `kill: {rank: 1, signal: TERM}`, `kill: {agent: local-1}`, `kill: controller`
std::optional<DrillAction> read_kill(const Value& value) {
  if (value.is_scalar()) return KillProcess{any_target(value)};
  MapReader map(value);
  KillProcess kill;
  kill.target = read_target(map, value);
  kill.signal = signal_number(map.take("signal")).value_or(SIGKILL);
  map.finish();
  return kill;
}

std::optional<DrillAction> read_stop(const Value& value) {
  MapReader map(value);
  StopProcess stop;
  stop.target = read_target(map, value);
  stop.time = map.require("for").duration().value_or(stop.time);
  map.finish();
  return stop;
}

// `partition: h01`, `partition: {host: h01, for: 5s}`
template <class Action>
std::optional<DrillAction> read_for_a_time(const Value& value) {
  if (value.is_scalar()) return Action{value.text().value_or(""), std::nullopt};
  MapReader map(value);
  Action action;
  action.host = map.require("host").text().value_or("");
  action.time = map.take("for").duration();
  map.finish();
  return action;
}

template <class Action>
std::optional<DrillAction> read_named(const Value& value) {
  const auto name = value.text();
  if (!name) return std::nullopt;
  return Action{*name};
}

std::optional<DrillAction> read_cancel(const Value& value) {
  if (!value.boolean().value_or(false)) value.error("write 'cancel: true'");
  return CancelDrilled{};
}

using ReadAction = std::optional<DrillAction> (*)(const Value&);
const std::vector<std::pair<const char*, ReadAction>> actions{
    {"kill", read_kill},
    {"stop", read_stop},
    {"partition", read_for_a_time<PartitionHost>},
    {"fill", read_for_a_time<FillDisk>},
    {"heal", read_named<HealHost>},
    {"crash", read_named<CrashHost>},
    {"boot", read_named<BootHost>},
    {"drain", read_named<DrainNode>},
    {"undrain", read_named<UndrainNode>},
    {"cancel", read_cancel},
};

std::string signal_word(int signal) {
  for (const auto& [name, number] : signals) {
    if (number == signal) return name;
  }
  return std::to_string(signal);
}

std::string target_words(const DrillTarget& target) {
  if (const auto* it = std::get_if<RankTarget>(&target)) {
    return it->rank ? "rank " + std::to_string(*it->rank) : "a rank";
  }
  if (const auto* it = std::get_if<AgentTarget>(&target)) {
    return it->node ? "the agent of " + *it->node : "an agent";
  }
  if (const auto* it = std::get_if<ConnectionTarget>(&target)) {
    return it->node ? "the connection to " + *it->node : "a connection";
  }
  return "the controller";
}

struct Describe {
  std::string operator()(const KillProcess& it) const {
    return "kill " + target_words(it.target) + " with " + signal_word(it.signal);
  }
  std::string operator()(const StopProcess& it) const {
    return "stop " + target_words(it.target) + " for " + written_duration(it.time);
  }
  std::string operator()(const PartitionHost& it) const {
    return "partition " + it.host + (it.time ? " for " + written_duration(*it.time) : "");
  }
  std::string operator()(const HealHost& it) const { return "heal " + it.host; }
  std::string operator()(const FillDisk& it) const {
    return "fill the disk of " + it.host + (it.time ? " for " + written_duration(*it.time) : "");
  }
  std::string operator()(const CrashHost& it) const { return "crash " + it.host; }
  std::string operator()(const BootHost& it) const { return "boot " + it.host; }
  std::string operator()(const DrainNode& it) const { return "drain " + it.node; }
  std::string operator()(const UndrainNode& it) const { return "undrain " + it.node; }
  std::string operator()(const CancelDrilled&) const { return "cancel the job"; }
};

}  // namespace

bool NumberTest::holds(std::int64_t value) const {
  switch (comparison) {
    case Comparison::equal:
      return value == number;
    case Comparison::not_equal:
      return value != number;
    case Comparison::less:
      return value < number;
    case Comparison::at_most:
      return value <= number;
    case Comparison::more:
      return value > number;
    case Comparison::at_least:
      break;
  }
  return value >= number;
}

std::string NumberTest::text() const {
  if (comparison == Comparison::equal) return std::to_string(number);
  for (const auto& [sign, meaning] : comparisons) {
    if (meaning == comparison) return std::string(sign) + " " + std::to_string(number);
  }
  return "";
}

std::optional<NumberTest> parse_number_test(std::string_view text) {
  text = trimmed(text);
  NumberTest test;
  for (const auto& [sign, meaning] : comparisons) {
    if (!text.starts_with(sign)) continue;
    test.comparison = meaning;
    text = trimmed(text.substr(sign.size()));
    break;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), test.number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return test;
}

std::optional<DrillCondition> read_condition(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  const auto [field, rest] = split_field(*text);
  if (field == "state") return read_state_test(value, rest);
  if (field == "checkpoint" && rest.empty()) return CheckpointCommitted{};
  if (field == "saving" && rest.empty()) return SaveBegun{};
  if (field == "output" && rest.empty()) return OutputBegun{};
  if (field != "step" && field != "attempt") {
    value.error("expected a condition on step, attempt, state, checkpoint, saving or output, got " +
                    quoted_text(*text),
                value.suggest(field, fields));
    return std::nullopt;
  }
  const auto test = parse_number_test(rest);
  if (!test || rest.find_first_of("=<>") == rest.npos) {
    value.error("expected a comparison such as '" + field + " >= 2', got " + quoted_text(*text));
    return std::nullopt;
  }
  if (field == "step") return StepTest{*test};
  return AttemptTest{*test};
}

DrillPause read_pause(const Value& value) {
  const auto text = value.text();
  if (!text) return {};
  const std::size_t dots = text->find("..");
  const auto least = parse_duration(text->substr(0, dots));
  const auto most = dots == std::string::npos ? least : parse_duration(text->substr(dots + 2));
  if (least && most && *least <= *most) return {*least, *most};
  value.error("expected a duration such as 3s, or two such as 1s..4s, got " + quoted_text(*text));
  return {};
}

std::optional<DrillAction> read_action(MapReader& map, const Value& step) {
  std::optional<DrillAction> action;
  int found = 0;
  for (const auto& [name, read] : actions) {
    const Value value = map.take(name);
    if (!value.given()) continue;
    ++found;
    if (value.is_null()) {
      value.error("expected what to " + std::string(name));
    } else {
      action = read(value);
    }
  }
  if (found == 1) return action;
  step.error(found == 0 ? "a step needs an action: kill, stop, partition, heal, fill, crash, boot, "
                          "drain, undrain or cancel"
                        : "a step has one action; write a step for each");
  return std::nullopt;
}

std::string describe(const DrillAction& action) {
  return std::visit(Describe(), action);
}

}  // namespace muster
