#include "templates/settings/setting_table.h"

#include <algorithm>
#include <set>

#include "health/checks/check_names.h"
#include "scheduler/model/names.h"
#include "scheduler/restart/pattern.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/yaml/host_list.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

// ---- restart rules

// Every failure asks every rule; more than this is a program, not a list of exceptions.
constexpr std::size_t most_rules = 100;
constexpr std::size_t longest_id = 40;
constexpr std::size_t longest_advice = 300;
constexpr int last_exit_code = 255;
constexpr int last_signal = 64;
constexpr int last_xid = 100000;

constexpr std::pair<const char*, int> signal_numbers[] = {
    {"SIGHUP", 1},   {"SIGINT", 2},   {"SIGQUIT", 3},  {"SIGILL", 4},   {"SIGTRAP", 5},
    {"SIGABRT", 6},  {"SIGBUS", 7},   {"SIGFPE", 8},   {"SIGKILL", 9},  {"SIGUSR1", 10},
    {"SIGSEGV", 11}, {"SIGUSR2", 12}, {"SIGPIPE", 13}, {"SIGALRM", 14}, {"SIGTERM", 15},
    {"SIGXCPU", 24}, {"SIGXFSZ", 25}, {"SIGSYS", 31}};

std::optional<NumberRange> range_of(const std::string& text) {
  const std::size_t dash = text.find('-', 1);
  const auto low = whole_number(std::string_view(text).substr(0, dash));
  const auto high = dash == text.npos ? low : whole_number(std::string_view(text).substr(dash + 1));
  if (!low || !high || *low > *high || *low < 1 || *high > last_xid) return std::nullopt;
  return NumberRange{static_cast<int>(*low), static_cast<int>(*high)};
}

// A failure has no code 0.
std::vector<NumberRange> read_ranges(const Value& value, int last) {
  std::vector<NumberRange> ranges;
  for (const Value& each : value.list_or_one()) {
    const auto text = each.text();
    if (!text) continue;
    const auto range = range_of(*text);
    if (range && range->high <= last) {
      ranges.push_back(*range);
    } else {
      each.misfit("a number from 1 to " + std::to_string(last) +
                  ", a range such as 40-49 or a list of them");
    }
  }
  return ranges;
}

std::optional<int> read_signal(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  if (whole_number(*text)) return value.integer(1, last_signal);
  std::string wanted = folded(*text);
  if (!wanted.starts_with("sig")) wanted = "sig" + wanted;
  std::vector<std::string> names;
  for (const auto& [name, number] : signal_numbers) {
    if (folded(name) == wanted) return number;
    names.emplace_back(name);
  }
  return value.misfit("a signal such as SIGTERM or its number", value.suggest(*text, names));
}

std::vector<int> read_signals(const Value& value) {
  std::vector<int> signals;
  for (const Value& each : value.list_or_one()) {
    if (const auto signal = read_signal(each)) signals.push_back(*signal);
  }
  return signals;
}

std::string read_regex(const Value& value) {
  const auto text = value.text();
  if (!text) return "";
  const auto pattern = Pattern::compile(*text);
  if (!pattern) {
    value.error("not a regular expression: " + quoted_text(*text) + ": " + pattern.error().message);
  }
  return *text;
}

void read_condition(const Value& value, RestartRule& rule) {
  MapReader when(value);
  rule.exit_codes = read_ranges(when.take("exit_code"), last_exit_code);
  rule.signals = read_signals(when.take("signal"));
  rule.stderr_regex = read_regex(when.take("stderr_regex"));
  rule.xids = read_ranges(when.take("xid"), last_xid);
  when.finish();
  if (value.is_map() && value.node().entries.empty()) {
    value.error("expected at least one of exit_code, signal, stderr_regex and xid");
  }
  if (!rule.exit_codes.empty() && !rule.signals.empty()) {
    value.error("exit_code and signal never hold together; make two rules");
  }
}

std::string read_id(const Value& value, std::set<std::string>& taken) {
  const auto text = value.text();
  if (!text) return "";
  if (!is_word_of(*text, "-") || lower_case(*text) != *text || text->size() > longest_id) {
    value.misfit("at most " + std::to_string(longest_id) + " small letters, digits and '-'");
  } else if (!taken.insert(*text).second) {
    value.error("another rule has the id " + quoted_text(*text));
  }
  return *text;
}

std::string read_advice(const Value& value) {
  const auto text = value.text();
  if (!text) return "";
  if (text->size() > longest_advice || text->find('\n') != text->npos) {
    value.error("expected one line of at most " + std::to_string(longest_advice) + " characters");
  }
  return *text;
}

// A rule that ends jobs is watched before it is let loose.
void read_mode(const Value& value, const Value& map, RestartRule& rule) {
  const bool stops = rule.action == Reaction::stop;
  rule.enforce = value.choice<bool>({{"log", false}, {"enforce", true}}).value_or(!stops);
  if (stops && !value.present()) {
    map.note(
        "a rule that stops jobs begins as 'mode: log'; write 'mode: enforce' once `muster "
        "policy test --replay` shows what it would have stopped");
  }
}

void read_delay(const Value& value, RestartRule& rule) {
  rule.delay = value.duration();
  if (rule.delay && rule.action != Reaction::backoff && rule.action != Reaction::retry) {
    value.error("'delay' needs 'action: backoff' or 'action: retry'");
  }
}

RestartRule read_rule(const Value& value, std::set<std::string>& taken) {
  RestartRule rule;
  MapReader map(value);
  rule.id = read_id(map.take("id"), taken);
  read_condition(map.require("when"), rule);
  rule.failure_class = map.take("class").choice<FailureClass>(EnumWords<FailureClass>::words);
  rule.action = map.take("action").choice<Reaction>(EnumWords<Reaction>::words);
  read_delay(map.take("delay"), rule);
  read_mode(map.take("mode"), value, rule);
  rule.advice = read_advice(map.take("advice"));
  map.finish();
  if (value.is_map() && !value.node().find("class") && !value.node().find("action")) {
    value.error("expected 'class' or 'action'");
  }
  return rule;
}

// ---- settings

constexpr int most_attempts = 1000000;
constexpr int most_ranks = 65536 * 4096;  // nodes, and ranks of one

void store_seconds(Seconds& field, const Value& value) {
  if (const auto duration = value.duration()) {
    field = std::chrono::duration_cast<Seconds>(*duration);
  }
}

// Longer than nothing.
std::optional<Milliseconds> real_time(const Value& value) {
  const auto duration = value.duration();
  if (!duration || duration->count() > 0) return duration;
  value.error("expected a duration of at least 1ms, got " + value.node().text);
  return std::nullopt;
}

bool is_word(const Value& value, const char* word) {
  return value.is_scalar() && folded(value.node().text) == word;
}

// Settings that are checked and kept as text, under their path.
void keep(const Value& value, JobSpec& spec, const char* path, bool good) {
  if (good && value.is_scalar()) spec.muster.other[path] = value.node().text;
}

std::vector<std::string> hosts(const Value& value) {
  const std::string list = joined(value.texts(), ",");
  if (list.empty()) return {};
  const auto expanded = expand_hosts(list);
  if (expanded) return *expanded;
  value.error(expanded.error().message);
  return {};
}

std::optional<std::string> path_text(const Value& value) {
  const auto text = value.text();
  if (!text || value.is_to_be_replaced(*text, "a path")) return std::nullopt;
  const auto form = path_form(*text);
  if (!form || text->empty()) {
    return value.misfit("a path");
  }
  return form->kind == PathKind::local ? Reading::local_path(value, form->path) : form->path;
}

void read_resume_from(const Value& value, JobSpec& spec) {
  const auto from =
      value.is_scalar() ? from_word<ResumeFrom>(folded(value.node().text)) : std::nullopt;
  if (from && *from != ResumeFrom::path) {
    spec.muster.resume_from = *from;
  } else if (const auto path = path_text(value)) {
    spec.muster.resume_from = ResumeFrom::path;
    spec.muster.resume_path = *path;
  }
}

void read_signal(const Value& value, JobSpec& spec) {
  static const std::vector<std::string> names = {"SIGTERM", "SIGINT",  "SIGUSR1", "SIGUSR2",
                                                 "SIGHUP",  "SIGQUIT", "SIGCONT", "SIGKILL"};
  const auto text = value.text();
  if (!text) return;
  const auto is_it = [&](const std::string& name) {
    return folded(*text) == folded(name.substr(3));
  };
  const auto named = std::ranges::find_if(names, is_it);
  store(spec.muster.stop.signal, named == names.end() ? value.word(names) : std::optional(*named));
}

void read_master_port(const Value& value, JobSpec& spec) {
  if (is_word(value, "auto")) return;
  spec.muster.master_port = value.integer(1024, 65535);
  if (spec.muster.master_port == 6000) {
    value.error("6000 is the port that AZ_BATCH_MASTER_NODE names; choose another");
  }
}

void read_every(const Value& value, JobSpec& spec) {
  const auto text = value.text();
  if (!text) return;
  bool good = is_word(value, "auto") || parse_duration(*text).has_value();
  if (text->ends_with("steps")) {
    const auto steps = whole_number(std::string_view(*text).substr(0, text->size() - 5));
    good = steps && *steps > 0;
  }
  if (!good) value.misfit("auto, <n>steps or a duration");
  spec.muster.checkpoint_every = good && !is_word(value, "auto") ? *text : "";
}

// For each input how its data come to the node.
void read_data_modes(const Value& value, JobSpec& spec) {
  for (const Value& each : MapReader(value).entries()) {
    const auto mode = each.word({"auto", "stage", "stream"});
    if (mode) spec.muster.other["data." + each.key()] = *mode;
  }
}

void read_marker(const Value& value, JobSpec& spec) {
  const auto text = value.text();
  const bool is_name = text && !text->empty() && text->find('/') == text->npos;
  if (text && !is_name) value.error("expected a file's name or a pattern of names such as *.done");
  if (is_name) spec.muster.checkpoint_marker = *text;
}

void read_processes(const Value& value, JobSpec& spec) {
  const DistributionType type = spec.distribution.type;
  const bool has_effect = type == DistributionType::pytorch || type == DistributionType::mpi;
  if (is_word(value, "gpus")) {
    spec.distribution.process_per_gpu = has_effect;
  } else {
    store(spec.distribution.processes_per_node, value.integer(1, 4096));
  }
}

void read_export(const Value& value, JobSpec& spec) {
  for (const Value& each : value.list_or_one()) {
    if (const auto word = each.word({"torch", "ompi", "slurm"})) {
      spec.muster.env_export.push_back(*word);
    }
  }
}

template <class E>
std::optional<E> one_of(const Value& value) {
  return value.choice<E>(EnumWords<E>::words);
}

template <FailureClass failure>
void read_class_action(const Value& value, JobSpec& spec) {
  if (const auto action = one_of<Reaction>(value)) {
    spec.muster.class_actions[std::string(word(failure))] = *action;
  }
}

using V = const Value&;
using S = JobSpec&;

std::vector<Setting> scheduling_settings() {
  const auto words = SettingShape::words;
  return {
      {"priority", [](V v, S s) { store(s.muster.priority, v.integer(-1000, 1000)); }},
      {"preemptible", [](V v, S s) { store(s.muster.preemptible, v.boolean()); }},
      {"nodes.min", [](V v, S s) { store(s.muster.nodes_min, v.integer(1, most_nodes)); }},
      {"nodes.max", [](V v, S s) { store(s.muster.nodes_max, v.integer(1, most_nodes)); }},
      {"elastic.mode", [](V v, S s) { store(s.muster.elastic.mode, one_of<ElasticMode>(v)); }},
      {"elastic.wait", [](V v, S s) { store(s.muster.elastic.wait, v.duration()); }},
      {"elastic.grow_after", [](V v, S s) { store(s.muster.elastic.grow_after, v.duration()); }},
      {"nodes.wait", [](V v, S s) { store(s.muster.nodes_wait, v.duration()); }},
      {"nodes.spares", [](V v, S s) { store(s.muster.nodes_spares, v.integer(0, most_nodes)); }},
      {"nodes.gpus",
       [](V v, S s) {
         if (!is_word(v, "all")) s.muster.nodes_gpus = v.integer(0, 1024);
       }},
      {"processes_per_node", read_processes},
      {"elastic.micro_batches",
       [](V v, S s) { keep(v, s, "elastic.micro_batches", v.integer(1, 1 << 30).has_value()); }},
      {"elastic.deterministic",
       [](V v, S s) { keep(v, s, "elastic.deterministic", v.boolean().has_value()); }},
      {"placement.labels", [](V v, S s) { s.muster.labels = v.texts(); }, words},
      {"placement.include", [](V v, S s) { s.muster.include_nodes = hosts(v); }, words},
      {"placement.exclude", [](V v, S s) { s.muster.exclude_nodes = hosts(v); }, words},
      {"placement.fabric",
       [](V v, S s) {
         keep(v, s, "placement.fabric", v.word({"any", "prefer_leaf", "require_leaf"}).has_value());
       }},
      {"master_port", read_master_port},
      {"mpi.launcher", [](V v, S s) { store(s.muster.mpi_launcher, one_of<MpiLauncher>(v)); }},
      {"mpi.arguments", [](V v, S s) { s.muster.mpi_arguments = v.texts(); }, words},
      {"env.export", read_export, words},
      {"data", read_data_modes, SettingShape::structure},
      {"remote_start", [](V v, S s) { store(s.muster.remote_start, v.boolean()); }},
  };
}

// One that has no check leaves out nothing, and nobody would notice.
std::vector<std::string> check_ids(const Value& value, const std::vector<std::string>& names,
                                   const std::string& none) {
  std::vector<std::string> out;
  for (const Value& each : value.list_or_one()) {
    const auto text = each.text();
    if (!text) continue;
    if (std::ranges::count(names, *text) > 0) {
      out.push_back(*text);
    } else {
      each.error(none + quoted_text(*text), each.suggest(*text, names));
    }
  }
  return out;
}

// In the words of HealthLevel.
std::optional<std::string> level_word(const Value& value) {
  const auto word = value.word({"off", "false", "quick", "full"});
  return word == "false" ? std::optional<std::string>("off") : word;
}

std::vector<Setting> health_settings() {
  const auto words = SettingShape::words;
  return {
      {"health.start",
       [](V v, S s) {
         if (const auto level = level_word(v)) {
           store(s.muster.health_start, from_word<HealthLevel>(*level));
         }
       }},
      {"health.failure",
       [](V v, S s) {
         if (const auto level = level_word(v)) s.muster.other["health.failure"] = *level;
       }},
      {"health.run",
       [](V v, S s) {
         if (const auto runs = v.boolean()) s.muster.other["health.run"] = *runs ? "true" : "false";
       }},
      {"health.skip",
       [](V v, S s) {
         s.muster.health_skip = check_ids(v, names_of_gate_checks(), "there is no check ");
       },
       words},
      {"health.only",
       [](V v, S s) {
         s.muster.health_only =
             check_ids(v, names_of_checks_at_gates(), "no start gate runs a check ");
       },
       words},
      {"hang.timeout",
       [](V v, S s) {
         s.muster.hang.off = is_word(v, "off") || is_word(v, "false");
         const bool learned = s.muster.hang.off || is_word(v, "auto");
         s.muster.hang.timeout = learned ? std::nullopt : real_time(v);
       }},
      {"hang.first_step", [](V v, S s) { store(s.muster.hang.first_step, real_time(v)); }},
      {"hang.watch", [](V v, S s) { store(s.muster.hang.watch, one_of<HangWatch>(v)); }},
      {"debug.rank",
       [](V v, S s) {
         const auto rank = v.integer(0, most_ranks - 1);
         if (rank) s.muster.other["debug.rank"] = std::to_string(*rank);
       }},
      {"debug.wait", [](V v, S s) { keep(v, s, "debug.wait", real_time(v).has_value()); }},
  };
}

void read_metrics_regex(const Value& value, JobSpec& spec) {
  for (const Value& each : value.list_or_one()) {
    const auto text = each.text();
    if (!text) continue;
    const auto pattern = Pattern::compile(*text);
    if (*text != "hf" && !(pattern && mentions(*text, "(?P<"))) {
      each.error("expected hf or a pattern with named groups such as loss=(?P<loss>\\S+), got " +
                 quoted_text(*text) + (pattern ? "" : ": " + pattern.error().message));
    }
    spec.muster.metrics_regex.push_back(*text);
  }
  if (spec.muster.metrics_regex.size() > 16) value.error("expected at most 16 expressions");
}

// Of what a program saves and says.
std::vector<Setting> checkpoint_settings() {
  return {
      {"checkpoint.path", [](V v, S s) { store(s.muster.checkpoint_path, path_text(v)); }},
      {"checkpoint.local",
       [](V v, S s) {
         if (is_word(v, "off")) {
           keep(v, s, "checkpoint.local", true);
         } else if (const auto path = path_text(v)) {
           s.muster.other["checkpoint.local"] = *path;
         }
       }},
      {"checkpoint.format",
       [](V v, S s) { store(s.muster.checkpoint_format, v.word(checkpoint_formats)); }},
      {"checkpoint.marker", read_marker},
      {"checkpoint.quarantine",
       [](V v, S s) { store(s.muster.checkpoint_quarantine, v.boolean()); }},
      {"checkpoint.every", read_every},
      {"checkpoint.keep",
       [](V v, S s) { keep(v, s, "checkpoint.keep", v.integer(1, 1000000).has_value()); }},
      {"metrics.mlflow", [](V v, S s) { store(s.muster.metrics_mlflow, v.boolean()); }},
      {"metrics.regex", read_metrics_regex, SettingShape::structure},
      {"resume.from", read_resume_from},
      {"resume.argument", [](V v, S s) { store(s.muster.resume_argument, v.text()); }},
  };
}

std::vector<Setting> restart_settings() {
  return {
      {"restart.attempts",
       [](V v, S s) { store(s.muster.restart.attempts, v.integer(0, most_attempts)); }},
      {"restart.interval", [](V v, S s) { store_seconds(s.muster.restart.interval, v); }},
      {"restart.delay", [](V v, S s) { store(s.muster.restart.delay, v.duration()); }},
      {"restart.delay_function",
       [](V v, S s) { store(s.muster.restart.delay_function, one_of<DelayFunction>(v)); }},
      {"restart.max_delay", [](V v, S s) { store(s.muster.restart.max_delay, v.duration()); }},
      {"reschedule.attempts",
       [](V v, S s) { store(s.muster.reschedule.attempts, v.integer(0, most_attempts)); }},
      {"reschedule.interval", [](V v, S s) { store_seconds(s.muster.reschedule.interval, v); }},
      {"reschedule.unlimited", [](V v, S s) { store(s.muster.reschedule.unlimited, v.boolean()); }},
      {"no_progress.cycles",
       [](V v, S s) { store(s.muster.no_progress_cycles, v.integer(1, most_attempts)); }},
      {"classes.user.action", read_class_action<FailureClass::user>},
      {"classes.infra.action", read_class_action<FailureClass::infra>},
      {"classes.hw.action", read_class_action<FailureClass::hw>},
      {"classes.hang.action", read_class_action<FailureClass::hang>},
      {"classes.sdc.action", read_class_action<FailureClass::sdc>},
      {"classes.preempted.action", read_class_action<FailureClass::preempted>},
      {"classes.divergence.action", read_class_action<FailureClass::divergence>},
      {"rules", [](V v, S s) { s.muster.rules = read_rule_list(v); }, SettingShape::structure},
      {"stop.signal", read_signal},
      {"stop.grace", [](V v, S s) { store(s.muster.stop.grace, v.duration()); }},
      {"stop.grace_max", [](V v, S s) { store(s.muster.stop.grace_max, v.duration()); }},
  };
}

std::vector<Setting> whole_table() {
  std::vector<Setting> out;
  for (const auto& part :
       {scheduling_settings(), health_settings(), checkpoint_settings(), restart_settings()}) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace

const std::vector<Setting>& setting_table() {
  static const std::vector<Setting> table = whole_table();
  return table;
}

std::vector<RestartRule> read_rule_list(const Value& value) {
  std::vector<RestartRule> rules;
  const std::vector<Value> entries = value.list();
  if (entries.size() > most_rules) {
    value.error("expected at most " + std::to_string(most_rules) + " rules");
    return rules;
  }
  std::set<std::string> taken;
  for (const Value& each : entries) rules.push_back(read_rule(each, taken));
  return rules;
}

}  // namespace muster
