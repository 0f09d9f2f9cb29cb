#include "health/node_rules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "health/model/check.h"
#include "health/profile_rules.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

// Of two findings or devices the worse.
int badness(CheckStatus status) {
  if (status == CheckStatus::fail) return 2;
  return status == CheckStatus::unknown ? 1 : 0;
}

std::pair<bool, Remedy> weight_of(const CheckSeverity& severity) {
  return {severity.stops_job, severity.remedy};
}

bool counts_more(const HealthFinding& one, const HealthFinding& other) {
  if (badness(one.status) != badness(other.status)) {
    return badness(one.status) > badness(other.status);
  }
  return one.status == CheckStatus::fail && weight_of(one.severity) > weight_of(other.severity);
}

void leave_open(HealthFinding& finding, const std::string& why) {
  if (finding.status == CheckStatus::pass) finding.status = CheckStatus::unknown;
  finding.evidence.push_back(why);
}

// As bad as the check itself says, or as the rule does.
void break_rule(HealthFinding& finding, const CheckSeverity& severity, const std::string& bound,
                const std::string& said) {
  finding.evidence.push_back(said + ", expected " + bound);
  const bool is_bad_enough =
      finding.status == CheckStatus::fail && weight_of(finding.severity) >= weight_of(severity);
  if (is_bad_enough) return;
  finding.status = CheckStatus::fail;
  finding.severity = severity;
  finding.expected = bound;
}

void judge_value(const ProfileRule& rule, HealthFinding& finding) {
  const auto severity = severity_in(rule.severity);
  if (!severity || finding.status == CheckStatus::unknown) return;
  const std::string said = rule.metric + ", " + rule_words(rule.name);
  const auto number = number_of(finding.value);
  if (!number) return leave_open(finding, said + ": '" + finding.value + "' is no number");
  const auto way = worse_way(finding.expected);
  if (!way) {
    return leave_open(finding, said + ": '" + finding.expected + "' says not which way is worse");
  }
  const bool is_floor = *way == WorseWay::less;
  const bool is_met = is_floor ? *number >= rule.arg : *number <= rule.arg;
  const std::string bound = (is_floor ? ">= " : "<= ") + number_text(rule.arg);
  if (!is_met) break_rule(finding, *severity, bound, said);
}

std::vector<DeviceStatus> devices_of(const std::vector<HealthFinding>& findings,
                                     std::string_view check) {
  std::map<std::string, CheckStatus> worst;
  for (const HealthFinding& finding : findings) {
    if (finding.check != check) continue;
    const auto [known, is_new] = worst.emplace(finding.device, finding.status);
    if (!is_new) known->second = worse_of(known->second, finding.status);
  }
  std::vector<DeviceStatus> devices;
  for (const auto& [device, status] : worst) devices.push_back({device, status});
  return devices;
}

// "fail: gpu3, gpu5"; empty: there is none.
std::string named(const std::vector<DeviceStatus>& devices, CheckStatus status) {
  std::string text;
  for (const DeviceStatus& one : devices) {
    if (one.status != status) continue;
    text += (text.empty() ? std::string(word_of(status)) + ": " : ", ") +
            (one.device.empty() ? "the node" : one.device);
  }
  return text;
}

// Those that may pass as well. What is not known of the node itself may be any number of devices.
double open_of(const std::vector<DeviceStatus>& devices) {
  double open = 0;
  for (const DeviceStatus& one : devices) {
    if (one.status != CheckStatus::unknown) continue;
    open += one.device.empty() ? std::numeric_limits<double>::infinity() : 1;
  }
  return open;
}

CheckStatus count_status(double passes, double open, double wanted) {
  if (passes > wanted || passes + open < wanted) return CheckStatus::fail;
  return open > 0 ? CheckStatus::unknown : CheckStatus::pass;
}

}  // namespace

CheckStatus worse_of(CheckStatus one, CheckStatus other) {
  return badness(one) >= badness(other) ? one : other;
}

std::optional<WorseWay> worse_way(std::string_view expected) {
  constexpr std::string_view more[] = {"at most", "less than", "fewer than"};
  constexpr std::string_view less[] = {"at least", "more than"};
  const auto has_one_of = [&](const auto& words) {
    return std::ranges::any_of(words, [&](std::string_view word) {
      return expected.find(word) != std::string_view::npos;
    });
  };
  const std::size_t sign = expected.find_first_of("<>");
  if (sign != std::string_view::npos) {
    return expected[sign] == '<' ? WorseWay::more : WorseWay::less;
  }
  if (has_one_of(more)) return WorseWay::more;
  return has_one_of(less) ? std::optional(WorseWay::less) : std::nullopt;
}

std::optional<double> number_of(std::string_view value) {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, number);
  const bool is_whole_word = at == end || *at == ' ';
  if (error != std::errc() || !is_whole_word || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<HealthFinding> judge_count_of(const ProfileRule& rule,
                                            const std::vector<DeviceStatus>& devices) {
  const auto severity = severity_in(rule.severity);
  const std::string_view check = check_of_rule(rule);
  if (!severity || find_check(check) == nullptr) return std::nullopt;
  const auto count = [&](CheckStatus status) {
    return static_cast<double>(std::ranges::count(devices, status, &DeviceStatus::status));
  };
  const double passes = count(CheckStatus::pass);
  HealthFinding finding = make_finding(check, "", count_status(passes, open_of(devices), rule.arg));
  if (finding.status == CheckStatus::fail) finding.severity = *severity;
  finding.value = number_text(passes);
  finding.expected = number_text(rule.arg);
  finding.unit = "devices";
  finding.source = find_check(check)->source;
  finding.evidence.push_back(rule.metric + ", " + rule_words(rule.name));
  if (devices.empty()) {
    finding.status = CheckStatus::unknown;
    finding.value.clear();
    finding.evidence.front() += ": nothing was told of any device";
  }
  for (const CheckStatus status : {CheckStatus::fail, CheckStatus::unknown}) {
    if (std::string names = named(devices, status); !names.empty()) {
      finding.evidence.push_back(std::move(names));
    }
  }
  return finding;
}

void put_finding(std::vector<HealthFinding>& findings, HealthFinding finding) {
  const auto same = std::ranges::find_if(findings, [&](const HealthFinding& one) {
    return one.check == finding.check && one.device == finding.device;
  });
  if (same == findings.end()) {
    findings.push_back(std::move(finding));
  } else if (counts_more(finding, *same)) {
    *same = std::move(finding);
  } else if (finding.status != CheckStatus::pass) {
    std::ranges::move(finding.evidence, std::back_inserter(same->evidence));
  }
}

void judge_by_rules(const HealthProfile& profile,
                    const std::function<bool(std::string_view check)>& has_run,
                    std::vector<HealthFinding>& findings) {
  // A device that breaks a rule on its value is none that passes.
  for (const ProfileRule& rule : profile.rules) {
    if (rule.op != RuleOperator::value) continue;
    for (HealthFinding& finding : findings) {
      if (finding.check == rule.metric) judge_value(rule, finding);
    }
  }
  std::vector<HealthFinding> counted;
  for (const ProfileRule& rule : profile.rules) {
    if (rule.op != RuleOperator::count_of || !has_run(rule.metric)) continue;
    auto finding = judge_count_of(rule, devices_of(findings, rule.metric));
    if (finding) counted.push_back(*std::move(finding));
  }
  for (HealthFinding& finding : counted) put_finding(findings, std::move(finding));
}

}  // namespace muster
