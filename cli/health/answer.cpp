// What a node wrote when its health was asked, of cli/health/result.h.
#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "cli/health/result.h"
#include "health/model/check.h"
#include "launcher/agent/health/gate_benchmark.h"
#include "launcher/wire/json_fields.h"

namespace muster {

// For read_json of launcher/wire/json_fields.h, which throws for a wrong type.
static void read_json(const Json& in, HealthExit& exit) {
  const auto text = in.get<std::string>();
  for (const HealthExit known : {HealthExit::healthy, HealthExit::drained, HealthExit::unclear}) {
    if (text == word(known)) {
      exit = known;
      return;
    }
  }
  throw std::runtime_error("it has no known state");
}

static void read_json(const Json& in, ReportValue& value) {
  if (in.is_number_integer()) {
    value.whole = whole<std::int64_t>(in);
  } else if (in.is_number_float()) {
    value.number = in.get<double>();
  } else if (!in.is_null()) {
    value.text = in.get<std::string>();
  }
}

namespace {

// An answer of ours is nested a handful deep.
constexpr int depth_most = 32;
// More than any host has.
constexpr std::int64_t counters_most = 1'000'000;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// As code_of: a status of no known word is unknown.
MonitorCode code_of(const FindingReport& finding) {
  if (finding.status == word_of(CheckStatus::pass)) return MonitorCode::ok;
  if (finding.status != word_of(CheckStatus::fail)) return MonitorCode::unknown;
  const bool is_serious = !finding.severity.starts_with(word_of(Remedy::warn));
  const bool drains = is_serious && finding.fault_class != word_of(FaultClass::user);
  return drains && finding.mode == "enforce" ? MonitorCode::critical : MonitorCode::warning;
}

Json parsed(const std::string& text) {
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) {
    require(depth <= depth_most, "it is nested too deeply");
    return true;
  };
  Json in = Json::parse(text, is_shallow, false);
  require(!in.is_discarded(), "it is no JSON");
  require(in.is_object(), "it is no object");
  return in;
}

const Json& part(const Json& in, const std::string& name) {
  const auto found = in.find(name);
  require(found != in.end() && !found->is_null(), "no \"" + name + "\"");
  return *found;
}

// Without what the library puts before its words.
std::string plain(std::string why) {
  const std::size_t begin = why.find("[json.exception.");
  const std::size_t end = why.find("] ", begin);
  if (begin != why.npos && end != why.npos) why.erase(begin, end + 2 - begin);
  return why;
}

// Throws for what is no answer.
HostHealth read_host(const std::string& text) {
  const Json in = parsed(text);
  for (const char* name : {"beside_ranks", "versions", "findings"}) part(in, name);
  part(part(in, "verdict"), "state");
  HostHealth host;
  HostHealth::fields(host, [&](const std::string& name, auto& member) {
    const auto found = in.find(name);
    if (found == in.end()) return;
    try {
      read_json(*found, member);
    } catch (const std::exception& wrong) {
      throw std::runtime_error("\"" + name + "\": " + wrong.what());
    }
  });
  const std::int64_t counters = host.counts.first_readings;
  require(counters >= 0 && counters <= counters_most, "\"first_readings\": no number of counters");
  if (!in.contains("figures")) return host;
  auto metrics = read_measured(text);
  if (!metrics) throw std::runtime_error(metrics.error().message);
  host.metrics = std::move(*metrics);
  return host;
}

// What a node says of itself beside what follows from the rest of its answer; empty: it agrees.
std::string contradiction(const VerdictReport& said, const VerdictReport& found) {
  if (said.state == found.state) return {};
  const std::string open = open_questions(found);
  // Other nodes may tell more of a silent one.
  if (found.state == HealthExit::unclear && open.empty() && !said.is_drained()) return {};
  std::string what = open.empty() || said.is_drained() ? "nothing says so" : open;
  if (found.is_drained()) {
    what = on_host(found.drains.front().check, found.drains.front().device) + " drains it";
  }
  return std::string("its answer contradicts itself: ") + word(said.state) + ", but " + what;
}

HostHealth unanswered(const std::string& node, const std::string& target, const std::string& why) {
  HostHealth host;
  host.phase.clear();
  host.node = node;
  host.target = target;
  host.why = why;
  return host;
}

FindingReport unknown_finding(const std::string& node, const std::string& check,
                              const std::string& why, const std::string& now) {
  FindingReport finding = asked_report(node, check, CheckStatus::unknown, now);
  finding.evidence = {why};
  return finding;
}

FindingReport agent_finding(const std::string& node, const std::string& why,
                            const std::string& now) {
  FindingReport finding = unknown_finding(node, "host.agent", why, now);
  finding.expected = "an answer";
  finding.source = "the controller";
  return finding;
}

void judge_answer(HostHealth& host, const std::string& now) {
  const VerdictReport found = concluded(host);
  const std::string wrong = contradiction(host.verdict, found);
  if (!wrong.empty()) {
    host.fitness = NodeFitness::unclear;
    host.why = wrong;
    host.findings.push_back(agent_finding(host.node, wrong, now));
  } else if (found.is_drained()) {
    host.fitness = NodeFitness::drained;
    host.why = found.reason.value_or("");
  } else {
    host.why = open_questions(found);
    host.fitness = host.why.empty() ? NodeFitness::ok : NodeFitness::unclear;
    if (host.versions.empty()) doubt_silent(host, now);
  }
}

}  // namespace

HostHealth read_answer(const std::string& node, const std::string& target, const std::string& text,
                       const std::string& now) {
  try {
    HostHealth host = read_host(text);
    host.node = node;
    host.target = target;
    host.has_answered = true;
    for (FindingReport& finding : host.findings) {
      finding.host = node;
      finding.code = code_of(finding);
    }
    judge_answer(host, now);
    return host;
  } catch (const std::exception& wrong) {
    HostHealth host =
        no_answer(node, target, "its answer cannot be read: " + plain(wrong.what()), now);
    host.fitness = NodeFitness::unclear;  // it was reached
    return host;
  }
}

FindingReport asked_report(const std::string& node, const std::string& check, CheckStatus status,
                           const std::string& now) {
  const CheckSpec* spec = find_check(check);
  FindingReport finding;
  finding.ts = now;
  finding.host = node;
  finding.check = check;
  finding.status = word_of(status);
  finding.severity = text_of(spec->severity);
  finding.fault_class = word_of(spec->fault);
  finding.source = spec->source;
  finding.mode = "observe";
  finding.code = code_of(finding);
  return finding;
}

HostHealth no_answer(const std::string& node, const std::string& target, const std::string& why,
                     const std::string& now) {
  HostHealth host = unanswered(node, target, why);
  host.findings = {agent_finding(node, why, now)};
  return host;
}

void doubt_silent(HostHealth& host, const std::string& now) {
  const std::string why = why_silent(host);
  if (why.empty()) return;
  if (host.findings.empty()) host.findings.push_back(agent_finding(host.node, why, now));
  if (host.fitness != NodeFitness::ok) return;
  host.fitness = NodeFitness::unclear;
  host.why = why;
}

HostHealth not_measured(const std::string& node, const std::string& target, const std::string& why,
                        const std::vector<std::string>& checks, const std::string& now) {
  HostHealth host = unanswered(node, target, why);
  host.fitness = NodeFitness::unclear;
  host.phase = "not measured";
  for (const std::string& check : checks) {
    host.findings.push_back(unknown_finding(node, check, why, now));
  }
  return host;
}

}  // namespace muster
