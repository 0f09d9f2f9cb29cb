#include "cli/health/result.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "health/model/check.h"
#include "health/output/nagios.h"
#include "health/output/prometheus.h"
#include "launcher/agent/health/gate_benchmark.h"
#include "launcher/os/read_file.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

constexpr const char* fitness_words[] = {"drained", "unreachable", "unclear", "ok"};

std::string text_at(const Document& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  return found->get<std::string>();
}

ReportValue value_at(const Document& object, const char* key) {
  ReportValue value;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return value;
  if (found->is_number_integer()) {
    value.whole = found->get<std::int64_t>();
  } else if (found->is_number()) {
    value.number = found->get<double>();
  } else {
    value.text = found->get<std::string>();
  }
  return value;
}

// As code_of: a status of no known word is unknown.
MonitorCode code_of(const FindingReport& report) {
  if (report.status == word_of(CheckStatus::pass)) return MonitorCode::ok;
  if (report.status != word_of(CheckStatus::fail)) return MonitorCode::unknown;
  const bool is_serious = !report.severity.starts_with(word_of(Remedy::warn));
  const bool drains = is_serious && report.fault_class != word_of(FaultClass::user);
  return drains && report.mode == "enforce" ? MonitorCode::critical : MonitorCode::warning;
}

FindingReport read_report(const Document& in, const std::string& node) {
  FindingReport report;
  report.ts = text_at(in, "ts");
  report.host = node;
  report.boot_id = text_at(in, "boot_id");
  report.check = text_at(in, "check");
  report.device = text_at(in, "device");
  report.serial = text_at(in, "serial");
  report.status = text_at(in, "status");
  report.severity = text_at(in, "severity");
  report.fault_class = text_at(in, "class");
  report.value = value_at(in, "value");
  report.expected = text_at(in, "expected");
  report.unit = text_at(in, "unit");
  report.source = text_at(in, "source");
  if (const auto took = in.find("duration_ms"); took != in.end()) {
    report.duration_ms = took->get<double>();
  }
  report.mode = text_at(in, "mode");
  report.finding = text_at(in, "finding");
  if (in.contains("first_seen")) report.first_seen = text_at(in, "first_seen");
  if (in.contains("job")) report.job = value_at(in, "job");
  if (in.contains("evidence")) report.evidence = in.at("evidence").get<std::vector<std::string>>();
  report.code = code_of(report);
  return report;
}

std::string names_at(const Document& verdict, const char* key) {
  std::string names;
  for (const Document& one : verdict.at(key)) {
    const std::string device = text_at(one, "device");
    names += (names.empty() ? "" : ", ") + text_at(one, "check");
    if (!device.empty()) names += " " + device;
  }
  return names;
}

std::string why_unclear(const Document& verdict) {
  const std::string unclear = names_at(verdict, "unclear");
  const std::string unconfirmed = names_at(verdict, "unconfirmed");
  std::string why = unclear.empty() ? "" : "required check did not pass: " + unclear;
  if (unconfirmed.empty()) return why;
  return why + (why.empty() ? "" : "; ") + "not yet confirmed: " + unconfirmed;
}

// Throws for what is no answer.
void read_verdict(const Document& verdict, NodeAnswer& answer) {
  const std::string state = verdict.at("state").get<std::string>();
  if (state == "healthy") {
    answer.fitness = NodeFitness::ok;
  } else if (state == "unclear") {
    answer.fitness = NodeFitness::unclear;
    answer.why = why_unclear(verdict);
  } else if (state == "drained") {
    answer.fitness = NodeFitness::drained;
    answer.why = text_at(verdict, "reason");
  } else {
    throw std::runtime_error("its verdict is of no known state");
  }
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

// An answer of ours is nested a handful deep. What is written out again is gone through by
// recursion, and what a node says must not be able to end that on the end of the stack.
constexpr int depth_most = 32;

Document parsed(const std::string& text) {
  return Document::parse(text, [](int depth, Document::parse_event_t, Document&) {
    require(depth <= depth_most, "it is nested too deeply");
    return true;
  });
}

NodeVersions read_versions(const Document& in) {
  NodeVersions versions;
  require(in.is_object(), "its versions are no object");
  for (const auto& [check, facts] : in.items()) {
    require(facts.is_object(), "its versions are no object");
    for (const auto& [what, version] : facts.items()) {
      versions[check][what] = version.get<std::string>();
    }
  }
  return versions;
}

std::vector<PerformanceSample> figures_of(const std::string& text) {
  auto figures = read_measured(text);
  if (!figures) throw std::runtime_error(figures.error().message);
  return std::move(*figures);
}

void read_document(const std::string& text, NodeAnswer& answer) {
  const Document in = parsed(text);
  require(in.is_object(), "it is no object");
  read_verdict(in.at("verdict"), answer);
  answer.boot_id = text_at(in, "boot_id");
  answer.profile = text_at(in, "profile");
  answer.phase = text_at(in, "phase");
  answer.beside_ranks = in.at("beside_ranks").get<bool>();
  answer.versions = read_versions(in.at("versions"));
  if (in.contains("figures")) answer.figures = figures_of(text);
  require(in.at("findings").is_array(), "its findings are no list");
  for (const Document& finding : in.at("findings")) {
    require(finding.is_object(), "a finding is no object");
    answer.reports.push_back(read_report(finding, answer.node));
  }
  const bool is_unexplained = answer.fitness == NodeFitness::unclear && answer.why.empty();
  if (is_unexplained && answer.reports.empty()) answer.why = "nothing was checked";
}

FindingReport unknown_report(const std::string& node, const std::string& check,
                             const std::string& why, const std::string& now) {
  const CheckSpec* spec = find_check(check);
  FindingReport report;
  report.ts = now;
  report.host = node;
  report.check = check;
  report.status = word_of(CheckStatus::unknown);
  report.severity = text_of(spec->severity);
  report.fault_class = word_of(spec->fault);
  report.mode = "observe";  // whoever asks drains nothing
  report.evidence = {why};
  report.code = MonitorCode::unknown;
  return report;
}

}  // namespace

const char* word(NodeFitness fitness) {
  return fitness_words[static_cast<std::size_t>(fitness)];
}

NodeAnswer read_answer(const std::string& node, const std::string& target, std::string text,
                       const std::string& now) {
  NodeAnswer answer;
  answer.node = node;
  answer.target = target;
  try {
    read_document(text, answer);
    answer.text = std::move(text);
    return answer;
  } catch (const std::exception& wrong) {
    return no_answer(node, target, std::string("its answer cannot be read: ") + wrong.what(), now);
  }
}

NodeAnswer no_answer(const std::string& node, const std::string& target, const std::string& why,
                     const std::string& now) {
  NodeAnswer answer;
  answer.node = node;
  answer.target = target;
  answer.why = why;
  FindingReport report = unknown_report(node, "host.agent", why, now);
  report.expected = "an answer";
  report.source = "the controller";
  answer.reports = {std::move(report)};
  return answer;
}

NodeAnswer not_measured(const std::string& node, const std::string& target, const std::string& why,
                        const std::vector<std::string>& checks, const std::string& now) {
  NodeAnswer answer;
  answer.node = node;
  answer.target = target;
  answer.fitness = NodeFitness::unclear;
  answer.why = why;
  answer.phase = "not measured";
  for (const std::string& check : checks) {
    FindingReport report = unknown_report(node, check, answer.why, now);
    report.source = find_check(check)->source;
    answer.reports.push_back(std::move(report));
  }
  return answer;
}

std::string misused_query(const CommonOptions& common) {
  const bool is_for_monitors = common.output == OutputFormat::nagios ||
                               common.output == OutputFormat::prometheus ||
                               common.output == OutputFormat::jsonl;
  return is_for_monitors && !common.query.empty() ? "--query goes with json, yaml and tsv" : "";
}

int tell_health(const HealthForms& forms, HealthExit code, bool all, const CommonOptions& common) {
  if (common.output == OutputFormat::nagios) {
    const PluginAnswer answer =
        nagios_answer(forms.for_monitors, HostNames::left_out, forms.first_readings,
                      monitor_code(code, forms.when_named));
    write_all(Stream::out, answer.line + "\n");
    return answer.exit_code;
  }
  if (common.output == OutputFormat::prometheus) {
    write_all(Stream::out, prometheus_text(forms.for_monitors, forms.at));
  } else if (common.output == OutputFormat::jsonl) {
    write_all(Stream::out, forms.lines());
  } else if (wants_table(common)) {
    const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
    const bool color = wants_color(common.color, Stream::out);
    write_all(Stream::out, forms.text({all, width, color}));
  } else {
    const Document document = forms.document();
    const bool is_lines = common.output == OutputFormat::tsv && common.query.empty();
    const int printed = print_document(is_lines ? document["findings"] : document, common);
    if (printed != 0) return printed;
  }
  return static_cast<int>(code);
}

int write_prometheus_file(const std::string& path, const HealthForms& forms,
                          const CommonOptions& common) {
  if (path.empty()) return 0;
  constexpr mode_t readable = 0644;
  const std::string text = prometheus_text(forms.for_monitors, forms.at);
  if (replace_file(path, text, readable, Durable::in_cache)) return 0;
  complain("cannot write " + path + ": " + std::strerror(errno), common);
  return static_cast<int>(ExitCode::internal);
}

}  // namespace muster
