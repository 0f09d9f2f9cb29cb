#include "cli/health/cluster/health_fabric_look.h"

#include <algorithm>
#include <tuple>

#include "health/fabric/host_device.h"
#include "health/model/check.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr std::string_view links_check = "fab.links";
constexpr std::string_view errors_check = "fab.errors";
constexpr std::string_view discover_check = "fab.discover";
constexpr std::string_view manager_check = "fab.sm";
constexpr std::size_t said_most = 200;

// What it requires of a node's own devices is not looked at here.
HealthProfile of_the_fabric(HealthProfile profile) {
  std::erase_if(profile.required,
                [](const std::string& check) { return !check.starts_with("fab."); });
  return profile;
}

// Of a check that could not be made at all.
FabricFindings unknown(std::string_view check, const FileReading& said) {
  HealthFinding finding = make_finding(*find_check(check), "", CheckStatus::unknown);
  finding.fault_class = said.is_missing ? FaultClass::setup : FaultClass::infra;
  finding.evidence.push_back(said.error);
  return {{"", std::move(finding)}};
}

bool is_of_the_whole(const FabricFinding& one) {
  return one.host.empty() && one.finding.device.empty();
}

// A tool that never answers keeps jobs from no host: what it would have said is not known.
void tools_to_questions(NodeVerdict& verdict) {
  std::erase_if(verdict.drains, [&](const StandingFault& one) {
    const bool is_unknown = one.finding.status == CheckStatus::unknown;
    if (is_unknown) verdict.unclear.push_back({one.finding.check, one.finding.device});
    return is_unknown;
  });
}

}  // namespace

bool is_nothing_known(const FabricResult& result) {
  return result.look.first_readings == 0 &&
         std::ranges::all_of(result.look.reports, [](const FindingReport& one) {
           return one.status == word_of(CheckStatus::unknown);
         });
}

HealthExit fabric_exit(const FabricResult& result) {
  HealthExit worst = is_nothing_known(result) ? HealthExit::unclear : HealthExit::healthy;
  for (const auto& [host, verdict] : result.verdicts) {
    const HealthExit exit = health_exit(verdict);
    if (exit == HealthExit::drained) return exit;
    if (exit == HealthExit::unclear) worst = exit;
  }
  return worst;
}

FabricLook::FabricLook(FabricLookOptions options, FabricState saved)
    : options_(std::move(options)), rules_(rules_of(options_.profile)), state_(std::move(saved)) {
  options_.profile = of_the_fabric(std::move(options_.profile));
}

bool FabricLook::is_asked_for(std::string_view check) const {
  if (mode_of(rules_, check, "") == CheckMode::off) return false;
  return options_.checks.empty() ||
         std::ranges::any_of(options_.checks, [&](const std::string& pattern) {
           return fits_pattern(pattern, check);
         });
}

void FabricLook::look() {
  ++looks_;
  Findings findings;
  const bool wants_links = is_asked_for(links_check) || is_asked_for(errors_check);
  if (wants_links) look_at_links(findings);
  if (looks_ == 1 && is_asked_for(errors_check)) look_at_errors(at_once_);
  if (options_.golden && is_asked_for(discover_check)) look_at_adapters(findings);
  if (is_asked_for(manager_check)) look_at_manager(findings);
  Findings seen = findings;
  if (looks_ == 1) seen.insert(seen.end(), at_once_.begin(), at_once_.end());
  remember(seen);
  findings.insert(findings.end(), at_once_.begin(), at_once_.end());
  findings_ = std::move(findings);
}

namespace {

// A tool's time is shared by what it told of.
template <class Findings>
void add(Findings& all, FabricFindings findings, const FabricToolAnswer& answer) {
  const double took_ms = static_cast<double>(answer.took.count()) /
                         static_cast<double>(std::max<std::size_t>(1, findings.size()));
  for (FabricFinding& one : findings) {
    if (one.finding.source.empty()) one.finding.source = find_check(one.finding.check)->source;
    all.emplace_back(std::move(one), took_ms);
  }
}

}  // namespace

void FabricLook::look_at_links(Findings& findings) {
  const FabricToolAnswer answer = options_.ask(FabricTool::links);
  links_ = read_iblinkinfo(answer.said);
  for (const auto& [guid, node] : links_->nodes) {
    if (const auto named = host_device_of(node.name)) hosts_.insert(named->host);
  }
  if (!is_asked_for(links_check)) return;
  add(findings,
      answer.said.ok() ? judge_fabric_links(*links_, options_.golden ? &*options_.golden : nullptr,
                                            options_.profile)
                       : unknown(links_check, answer.said),
      answer);
}

void FabricLook::look_at_errors(Findings& findings) {
  const FabricToolAnswer answer = options_.ask(FabricTool::errors);
  const FabricErrors now = read_ibqueryerrors(answer.said);
  if (!now.is_whole()) {
    FileReading why = answer.said;
    const auto& complaints = now.reading.complaints;
    if (why.ok()) {
      why.error = "the list of counters is not whole" +
                  (complaints.empty() ? std::string() : ": " + complaints.front());
    }
    return add(findings, unknown(errors_check, why), answer);
  }
  // Of ports that are not known nobody could say later whether they are new.
  if (links_->ports.empty()) {
    return add(findings, unknown(errors_check, {{}, "the links are not known", false}), answer);
  }
  const Milliseconds at{to_ms(options_.now())};
  const auto before = baseline_of(state_.counts, now, at);
  keep_count(state_.counts, count_of(now, *links_, at));
  if (!before) {
    first_readings_ = static_cast<int>(links_->ports.size());
    return;
  }
  const auto age = std::max(std::chrono::seconds(1),
                            std::chrono::duration_cast<std::chrono::seconds>(before->age));
  add(findings, judge_fabric_errors(before->errors, now, age, *links_, options_.profile), answer);
}

void FabricLook::look_at_adapters(Findings& findings) {
  const FabricToolAnswer answer = options_.ask(FabricTool::discover);
  add(findings,
      answer.said.ok() ? judge_fabric_discovery(read_ibnetdiscover(answer.said), *options_.golden,
                                                options_.profile)
                       : unknown(discover_check, answer.said),
      answer);
}

void FabricLook::look_at_manager(Findings& findings) {
  FabricToolAnswer answer = options_.ask(FabricTool::manager);
  const auto manager = read_sminfo(answer.said);
  if (answer.said.ok() && !manager) {
    answer.said.error =
        "sminfo could not ask: " +
        answer.said.text.substr(0, std::min(answer.said.text.find('\n'), said_most));
  }
  add(findings, manager ? judge_subnet_manager(manager) : unknown(manager_check, answer.said),
      answer);
}

// A host that nothing was ever wrong with has nothing to be remembered.
void FabricLook::remember(const Findings& findings) {
  std::map<std::string, std::vector<HealthFinding>> of_hosts;
  for (const auto& [one, took_ms] : findings) {
    const auto known = state_.hosts.find(one.host);
    const bool is_remembered =
        known != state_.hosts.end() &&
        find_streak(known->second, one.finding.check, one.finding.device) != nullptr;
    const bool counts = one.finding.status != CheckStatus::pass || is_remembered ||
                        is_required(options_.profile, one.finding.check);
    if (counts) of_hosts[one.host].push_back(one.finding);
  }
  const SampleMoment at{options_.now(), std::nullopt, {}};
  for (const auto& [host, found] : of_hosts) add_findings(state_.hosts[host], found, rules_, at);
  forget_what_left(findings);
}

// What a look that was whole says nothing of is no longer there: a host that was taken out.
void FabricLook::forget_what_left(const Findings& findings) {
  std::set<std::string> whole;
  std::set<std::tuple<std::string, std::string, std::string>> told;
  for (const auto& [one, took_ms] : findings) {
    whole.insert(one.finding.check);
    told.emplace(one.host, one.finding.check, one.finding.device);
  }
  for (const auto& [one, took_ms] : findings) {
    const bool is_unknown = one.finding.status == CheckStatus::unknown && is_of_the_whole(one);
    if (is_unknown) whole.erase(one.finding.check);
  }
  for (auto& [host, streaks] : state_.hosts) {
    std::erase_if(streaks.by_key, [&, &of = host](const auto& one) {
      const Streak& streak = one.second;
      return whole.contains(streak.check) && !told.contains({of, streak.check, streak.device});
    });
  }
  std::erase_if(state_.hosts, [](const auto& one) { return one.second.by_key.empty(); });
}

std::map<std::string, NodeVerdict> FabricLook::verdicts() const {
  std::map<std::string, NodeVerdict> all;
  for (const auto& [host, streaks] : state_.hosts) {
    NodeVerdict verdict = judge_node(streaks, rules_, options_.now());
    if (host.empty()) tools_to_questions(verdict);
    const auto not_asked_of = [&](const StandingFault& one) {
      return !is_asked_for(one.finding.check);
    };
    for (auto* faults : {&verdict.drains, &verdict.would_drain, &verdict.warnings}) {
      std::erase_if(*faults, not_asked_of);
    }
    // Of a host without the device that a required check is about nothing is asked.
    const auto is_no_question = [&, &of = streaks](const SampleWanted& one) {
      return !is_asked_for(one.check) || find_streak(of, one.check, one.device) == nullptr;
    };
    std::erase_if(verdict.unclear, is_no_question);
    std::erase_if(verdict.unconfirmed, is_no_question);
    all.emplace(host, std::move(verdict));
  }
  return all;
}

bool FabricLook::is_open() const {
  for (const auto& [host, verdict] : verdicts()) {
    // A tool that gave no answer gives none a second later.
    if (host.empty()) continue;
    if (!verdict.is_drained() && (!verdict.unclear.empty() || !verdict.unconfirmed.empty())) {
      return true;
    }
  }
  return false;
}

FabricResult FabricLook::result() const {
  FabricResult result;
  HealthLook& look = result.look;
  look.run = {options_.now(), options_.host, {}, {}, utc_text};
  look.profile = options_.profile.name;
  look.phase = "on-demand";
  look.looks = std::max(1, looks_);
  look.took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began_);
  look.first_readings = first_readings_;
  static const Streaks none;
  for (const auto& [one, took_ms] : findings_) {
    RunFacts run = look.run;
    run.host = one.host;
    const auto known = state_.hosts.find(one.host);
    const Streaks& streaks = known == state_.hosts.end() ? none : known->second;
    look.reports.push_back(report_of(one.finding, took_ms, run, rules_, streaks));
  }
  result.hosts = hosts_.size();
  result.verdicts = verdicts();
  return result;
}

}  // namespace muster
