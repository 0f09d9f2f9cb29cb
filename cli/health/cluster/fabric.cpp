#include "cli/health/cluster/fabric.h"

#include <algorithm>
#include <thread>
#include <tuple>

#include <nlohmann/json.hpp>

#include "cli/health/profile.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/checks/host/facts.h"
#include "health/model/check.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr int looks_most = 5;
constexpr std::size_t golden_bytes_max = 64u << 20;

void check_fabric_patterns(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const auto fits = [&](const CheckSpec& spec) { return fits_pattern(pattern, spec.id); };
    if (std::ranges::any_of(fabric_checks(), fits)) continue;
    throw VerbEnd(usage_error, "--check: no check of the fabric is called '" + pattern +
                                   "'; `muster health checks` lists them, as fab.…");
  }
}

// What was kept when all was well, read as the tool's own answer.
std::optional<Fabric> golden_of(const std::string& file) {
  if (file.empty()) return std::nullopt;
  Fabric golden =
      read_ibnetdiscover({or_end(read_input(file, golden_bytes_max), invalid_file), "", false});
  if (!golden.nodes.empty()) return golden;
  throw VerbEnd(invalid_file,
                file + ": this is not what ibnetdiscover -p says; --save-baseline writes it");
}

int save_golden(const std::string& file, const FabricToolOptions& tools,
                const CommonOptions& common) {
  const FileReading said = ask_fabric_tool(FabricTool::discover, tools).said;
  const Fabric fabric = read_ibnetdiscover(said);
  if (!said.ok()) throw VerbEnd(static_cast<int>(HealthExit::unclear), said.error);
  if (!fabric.reading.is_whole() || fabric.nodes.empty()) {
    throw VerbEnd(internal_error, "what ibnetdiscover said is not whole: nothing was saved");
  }
  write_new_file(file, said.text);
  notice("wrote " + file + ", " + std::to_string(fabric.nodes.size()) +
             " nodes; next: muster health fabric --baseline " + file,
         common);
  return 0;
}

FabricToolOptions tools_of(const HealthFabricOptions& options) {
  FabricToolOptions tools;
  if (options.deadline) tools.deadline = *options.deadline;
  if (tools.deadline <= Milliseconds{0}) {
    throw VerbEnd(usage_error, "--deadline: expected more than 0");
  }
  if (!options.hca.empty()) tools.port = or_end(read_hca_port(options.hca), usage_error, "--hca: ");
  return tools;
}

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
  std::erase_if(verdict.drains, [&](const ActiveFault& one) {
    const bool is_unknown = one.finding.status == CheckStatus::unknown;
    if (is_unknown) verdict.unclear.push_back({one.finding.check, one.finding.device});
    return is_unknown;
  });
}

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

// Into what is told of the fabric as a whole.
template <class Told>
void tell_of(const std::string& host, const std::vector<Told>& of_host, std::vector<Told>& all) {
  for (Told one : of_host) {
    one.device = on_host(host, one.device);
    all.push_back(std::move(one));
  }
}

// No tool that was asked gave an answer.
bool is_nothing_known(const FabricResult& result) {
  return result.look.counts.first_readings == 0 &&
         std::ranges::all_of(result.look.findings, [](const FindingReport& one) {
           return one.status == word_of(CheckStatus::unknown);
         });
}

std::string fabric_last_line(const FabricResult& result, bool color) {
  std::string drained;
  std::size_t count = 0;
  for (const auto& [host, verdict] : result.verdicts) {
    if (!verdict.is_drained()) continue;
    drained += " " + one_line(host.empty() ? "(no host)" : host);
    ++count;
  }
  if (count > 0) {
    return inked(plural(count, "host") + " unavailable", Ink::red, color) + ":" + drained + "\n";
  }
  if (fabric_exit(result) == HealthExit::unclear) {
    const char* what = is_nothing_known(result) ? "nothing is known of the fabric"
                                                : "the state of the fabric is unknown";
    return inked(what, Ink::yellow, color) + "\n";
  }
  return inked("nothing in the fabric keeps jobs from its " + plural(result.hosts, "host"),
               Ink::green, color) +
         "\n";
}

}  // namespace

HealthExit fabric_exit(const FabricResult& result) {
  HealthExit worst = is_nothing_known(result) ? HealthExit::unclear : HealthExit::healthy;
  for (const auto& [host, verdict] : result.verdicts) {
    if (verdict.is_drained()) return verdict.state;
    if (verdict.state == HealthExit::unclear) worst = verdict.state;
  }
  return worst;
}

FabricLook::FabricLook(FabricLookOptions options, FabricState saved)
    : options_(std::move(options)), rules_(rules_of(options_.profile)), state_(std::move(saved)) {
  options_.profile = of_the_fabric(std::move(options_.profile));
}

bool FabricLook::is_asked_for(std::string_view check) const {
  return mode_of(rules_, check, "") != CheckMode::off &&
         muster::is_asked_for(options_.checks, check);
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

void FabricLook::look_at_links(Findings& findings) {
  const FabricToolAnswer answer = options_.ask(FabricTool::links);
  links_ = read_iblinkinfo(answer.said);
  for (const auto& [guid, node] : links_->nodes) {
    if (const auto named = host_device_of(node.name)) hosts_.insert(named->host);
  }
  if (!is_asked_for(links_check)) return;
  const Fabric* golden = options_.golden ? &*options_.golden : nullptr;
  add(findings,
      answer.said.ok() ? judge_fabric_links(*links_, golden, options_.profile)
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
    keep_checks(verdict, [&](const std::string& check) { return is_asked_for(check); });
    // Of a host without the device that a required check is about nothing is asked.
    const auto is_no_question = [&of = streaks](const SampleWanted& one) {
      return find_streak(of, one.check, one.device) == nullptr;
    };
    std::erase_if(verdict.unclear, is_no_question);
    std::erase_if(verdict.unconfirmed, is_no_question);
    all.emplace(host, std::move(verdict));
  }
  return all;
}

bool FabricLook::is_open() const {
  return std::ranges::any_of(verdicts(), [](const auto& one) {
    // A tool that gave no answer gives none a second later.
    return !one.first.empty() && health_exit(one.second) == HealthExit::unclear;
  });
}

FabricResult FabricLook::result() const {
  const RunFacts at_head{options_.now(), options_.host, {}};
  const auto took = std::chrono::steady_clock::now() - began_;
  FabricResult result;
  HostHealth& look = result.look;
  look = health_of(at_head, options_.profile.name, std::chrono::duration_cast<Milliseconds>(took));
  look.looks = std::max(1, looks_);
  look.counts.first_readings = first_readings_;
  static const Streaks none;
  for (const auto& [one, took_ms] : findings_) {
    RunFacts run = at_head;
    run.host = one.host;
    const auto known = state_.hosts.find(one.host);
    const Streaks& streaks = known == state_.hosts.end() ? none : known->second;
    look.findings.push_back(report_of(one.finding, took_ms, run, rules_, streaks));
  }
  result.hosts = hosts_.size();
  for (const auto& [host, verdict] : verdicts()) {
    const VerdictReport& of_host = result.verdicts[host] = report_of(verdict);
    tell_of(host, of_host.drains, look.verdict.drains);
    tell_of(host, of_host.would_drain, look.verdict.would_drain);
    tell_of(host, of_host.unclear, look.verdict.unclear);
    tell_of(host, of_host.unconfirmed, look.verdict.unconfirmed);
  }
  look.verdict.state = fabric_exit(result);
  return result;
}

std::string fabric_text(const FabricResult& result, const HealthTextForm& form) {
  HealthTextForm with_hosts = form;
  with_hosts.hosts = true;
  return health_body(result.look, with_hosts) + fabric_last_line(result, form.color);
}

Document fabric_document(const FabricResult& result) {
  const Document look = health_document(result.look);
  Document out;
  for (const char* key : {"ts", "host", "profile", "looks", "took_ms"}) out[key] = look[key];
  out["state"] = look["verdict"]["state"];
  out["hosts"] = Document::object();
  for (const auto& [host, verdict] : result.verdicts)
    out["hosts"][host] = verdict_document(verdict);
  for (const char* key : {"counts", "findings"}) out[key] = look[key];
  return out;
}

int run_health_fabric(const HealthFabricOptions& options, const CommonOptions& common) {
  check_fabric_patterns(options.checks);
  const FabricToolOptions tools = tools_of(options);
  if (!options.save_golden.empty()) return save_golden(options.save_golden, tools, common);

  FabricLookOptions wanted;
  if (!options.profile.empty()) {
    wanted.profile = or_end(named_profile(options.profile, common), invalid_file);
  }
  wanted.golden = golden_of(options.golden);
  wanted.checks = options.checks;
  wanted.host = read_host_name();
  wanted.ask = [&](FabricTool tool) { return ask_fabric_tool(tool, tools); };
  wanted.now = wall_clock_now;
  // Two planes of a host are two fabrics.
  const std::string kind = options.hca.empty() ? "fabric" : "fabric-" + options.hca;
  const auto file = state_file_of(options, wanted.host, kind);
  FabricLook look(std::move(wanted), remembered_fabric(file, common));
  look.look();
  while (!options.quick && look.looks() < looks_most && look.is_open()) {
    std::this_thread::sleep_for(fast_sampling);
    look.look();
  }
  const FabricResult found = look.result();
  remember(file, look.state(), common);
  HealthResult result{wall_clock_now(), fabric_exit(found), {found.look}};
  result.monitor_hosts = MonitorHosts::in_device;
  result.text = [&](const HealthTextForm& form) { return fabric_text(found, form); };
  result.document = [&] { return fabric_document(found); };
  return give_health(result, options.all, options.prometheus_file, common);
}

}  // namespace muster
