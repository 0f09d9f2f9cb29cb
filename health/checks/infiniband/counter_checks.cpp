#include "health/checks/infiniband/counter_checks.h"

#include <algorithm>
#include <cmath>

#include "health/checks/infiniband/port_finding.h"
#include "health/checks/infiniband/port_text.h"
#include "health/model/check.h"

namespace muster {

namespace {

constexpr const char* first_reading = "seen once as yet: nothing to compare with";

constexpr std::string_view data_files[] = {"counters/port_xmit_data", "counters/port_rcv_data"};
// 64 in the extended set; a value above 32 bits shows which one it is.
constexpr int data_bits = 32;
constexpr double bytes_per_data_unit = 4;

constexpr std::string_view reset_advice = "reset it with perfquery -R";

CounterKey key_of(const SourceFiles& files, const InfinibandPort& port, std::string_view file) {
  return {boot_id_of(files), port.name(), std::string(file)};
}

// Everything that the port's counters are judged by.
struct CounterView {
  const SourceFiles& files;
  const HealthProfile& profile;
  const CounterHistory& history;
  const InfinibandPort& port;
};

// Samples of 30 s each: a burst of a second is no rate. A longer limit needs its whole time.
std::chrono::seconds window_of(const HealthProfile& profile, const CounterRule& rule,
                               const CounterLimit& limit) {
  constexpr double usual_s = 30;
  const double window_s = limit_of(profile, rule.check, "window_s", usual_s);
  return std::max(limit.per, std::chrono::seconds(std::lround(std::clamp(window_s, 1.0, 3600.0))));
}

// Within `limit.per`; not extrapolated from a time that is shorter than the window. Samples rarely
// lie on the window's edge: a tenth more is still the window, so that 3 in it are not 2.99.
double rate_of(const CounterGrowth& growth, const CounterLimit& limit,
               std::chrono::seconds window) {
  using Seconds = std::chrono::duration<double>;
  const Seconds elapsed = growth.elapsed;
  const Seconds counted = elapsed > 1.1 * Seconds(window) ? elapsed : Seconds(window);
  return static_cast<double>(growth.amount()) * (Seconds(limit.per) / counted);
}

std::string unit_of(const CounterLimit& limit) {
  if (limit.per == std::chrono::hours(1)) return "1/h";
  return limit.per == std::chrono::minutes(1) ? "1/min" : "1/s";
}

std::string growth_text(const CounterRule& rule, const CounterGrowth& growth) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(growth.elapsed);
  return std::string(rule.file) + " from " + std::to_string(growth.from) + " to " +
         std::to_string(growth.to) + " in " + std::to_string(seconds.count()) + " s";
}

std::string saturation_text(std::string_view file, std::uint64_t value) {
  return std::string(file) + " stands at its maximum, " + std::to_string(value) + ": " +
         std::string(reset_advice);
}

HealthFinding judge_growth(const CounterView& view, const CounterRule& rule,
                           const CounterLimit& limit, const CounterGrowth& growth,
                           HealthFinding finding) {
  const double most = limit_of(view.profile, rule.check, limit.name, limit.usual);
  const double rate = rate_of(growth, limit, window_of(view.profile, rule, limit));
  finding.value = shown_number(rate);
  finding.unit = unit_of(limit);
  finding.expected = (limit.fails_at ? "< " : "<= ") + shown_number(most);
  if (std::isinf(most)) finding.expected = "any";
  if (limit.fails_at ? rate < most : rate <= most) return finding;
  finding.evidence.push_back(growth_text(rule, growth));
  return as_failed(std::move(finding), limit.severity);
}

HealthFinding judge_limit(const CounterView& view, const CounterRule& rule,
                          const CounterLimit& limit) {
  HealthFinding finding = port_finding(rule.check, view.port, rule.file);
  const auto window = window_of(view.profile, rule, limit);
  const GrowthReading read =
      view.history.growth(key_of(view.files, view.port, rule.file), window, rule.bits);
  if (const auto* growth = std::get_if<CounterGrowth>(&read))
    return judge_growth(view, rule, limit, *growth, std::move(finding));
  const auto* saturated = std::get_if<SaturatedCounter>(&read);
  if (!saturated) return as_unknown(std::move(finding), first_reading);
  // What it grew by until it stuck may be enough; that it grows no more tells nothing.
  finding = judge_growth(view, rule, limit, saturated->at_least, std::move(finding));
  std::string why = saturation_text(rule.file, saturated->at_least.to);
  if (finding.status != CheckStatus::fail) return as_unknown(std::move(finding), std::move(why));
  finding.evidence.push_back(std::move(why));
  return finding;
}

int rank_of(const HealthFinding& finding) {
  if (finding.status == CheckStatus::fail) return 2;
  return finding.status == CheckStatus::unknown ? 1 : 0;
}

// The one that says more; what the other adds stays as evidence.
HealthFinding worse_of(HealthFinding left, HealthFinding right) {
  const bool is_right =
      rank_of(right) > rank_of(left) ||
      (rank_of(right) == 2 && rank_of(left) == 2 && is_severer(right.severity, left.severity));
  if (is_right) std::swap(left, right);
  if (rank_of(right) == 0) return left;
  for (std::string& line : right.evidence) {
    if (std::ranges::find(left.evidence, line) == left.evidence.end())
      left.evidence.push_back(std::move(line));
  }
  return left;
}

// Nothing: the driver does not have the counter, and need not.
std::optional<HealthFinding> judge_rule(const CounterView& view, const CounterRule& rule) {
  HealthFinding finding = port_finding(rule.check, view.port, rule.file);
  const FileReading& read = view.files.reading(finding.source);
  if (rule.is_optional && read.is_missing) return std::nullopt;
  if (!read.ok()) return as_unreadable(std::move(finding), read);
  if (!parse_counter(read.text)) return as_not_understood(std::move(finding), read.text);
  std::optional<HealthFinding> worst;
  for (const auto& limit : rule.limits) {
    if (!limit) continue;
    HealthFinding judged = judge_limit(view, rule, *limit);
    worst = worst ? worse_of(std::move(*worst), std::move(judged)) : std::move(judged);
  }
  return worst;
}

bool has_limit(const HealthProfile& profile, const CounterRule& rule) {
  return std::ranges::any_of(rule.limits, [&](const auto& limit) {
    return limit && std::isfinite(limit_of(profile, rule.check, limit->name, limit->usual));
  });
}

// Of the counters that something is judged by; one that stands at its maximum hides what comes.
HealthFinding judge_saturation(const CounterView& view) {
  HealthFinding finding = port_finding("ib.saturated", view.port, "counters");
  bool is_any_read = false;
  std::size_t saturated = 0;
  for (const CounterRule& rule : infiniband_counter_rules()) {
    if (!has_limit(view.profile, rule)) continue;
    const auto value = parse_counter(view.files.text(view.port.path(rule.file)).value_or(""));
    is_any_read = is_any_read || value;
    if (!value || !is_saturated(*value, rule.bits)) continue;
    ++saturated;
    finding.evidence.push_back(saturation_text(rule.file, *value));
  }
  if (!is_any_read) return as_unknown(std::move(finding), finding.source + ": none could be read");
  finding.value = std::to_string(saturated);
  finding.expected = "0";
  finding.unit = "counters";
  if (saturated > 0) finding.status = CheckStatus::unknown;
  return finding;
}

void judge_port(const CounterView& view, std::vector<HealthFinding>& findings) {
  if (is_judged(view.profile, "ib.saturated", view.port))
    findings.push_back(judge_saturation(view));
  const std::size_t first = findings.size();
  for (const CounterRule& rule : infiniband_counter_rules()) {
    if (!is_judged(view.profile, rule.check, view.port)) continue;
    auto judged = judge_rule(view, rule);
    if (!judged) continue;
    const bool is_another_file = findings.size() > first && findings.back().check == rule.check;
    if (is_another_file) {
      findings.back() = worse_of(std::move(findings.back()), std::move(*judged));
    } else {
      findings.push_back(std::move(*judged));
    }
  }
}

void note(CounterHistory& history, const SourceFiles& files, const InfinibandPort& port,
          std::string_view file, std::chrono::milliseconds now) {
  const auto value = parse_counter(files.text(port.path(file)).value_or(""));
  if (value) history.observe(key_of(files, port, file), {now, *value});
}

// What the ports moved within a window, as far as it is known.
struct TrafficSum {
  double bytes = 0;
  std::vector<std::string> unknown;  // why a part of it is not
};

void add_traffic(const CounterView& view, std::string_view file, std::chrono::seconds window,
                 TrafficSum& sum) {
  const std::string path = view.port.path(file);
  const FileReading& read = view.files.reading(path);
  const auto say = [&](const std::string& why) { sum.unknown.push_back(path + ": " + why); };
  if (!read.ok()) return say(read.error);
  if (!parse_counter(read.text)) return say("not understood: " + shown_text(read.text));
  const GrowthReading growth =
      view.history.growth(key_of(view.files, view.port, file), window, data_bits);
  if (std::holds_alternative<SaturatedCounter>(growth)) return say(std::string(reset_advice));
  const auto* known = std::get_if<CounterGrowth>(&growth);
  if (!known || known->elapsed < window) say("not watched for the whole window");
  if (known) sum.bytes += static_cast<double>(known->amount()) * bytes_per_data_unit;
}

}  // namespace

void note_counters(CounterHistory& history, const SourceFiles& files, const HealthProfile& profile,
                   std::span<const InfinibandPort> ports, std::chrono::milliseconds now) {
  const auto uptime = uptime_of(files);
  for (const InfinibandPort& port : ports) {
    for (const CounterRule& rule : infiniband_counter_rules()) {
      if (uptime && *uptime < link_grace(profile, rule.check)) continue;
      note(history, files, port, rule.file, now);
    }
    for (const std::string_view file : data_files) note(history, files, port, file, now);
  }
}

std::vector<HealthFinding> judge_counters(const SourceFiles& files, const HealthProfile& profile,
                                          std::span<const InfinibandPort> ports,
                                          const CounterHistory& history) {
  std::vector<HealthFinding> findings;
  for (const InfinibandPort& port : ports) judge_port({files, profile, history, port}, findings);
  return findings;
}

std::vector<HealthFinding> judge_traffic(const SourceFiles& files, const HealthProfile& profile,
                                         std::span<const InfinibandPort> ports,
                                         const CounterHistory& history,
                                         std::optional<std::chrono::seconds> job_runs) {
  constexpr double usual_window_s = 600;
  HealthFinding finding = make_finding("ib.traffic", "", CheckStatus::pass);
  const double window_s = limit_of(profile, finding.check, "window_s", usual_window_s);
  const std::chrono::seconds window(std::lround(std::clamp(window_s, 1.0, 3600.0)));
  if (setting_of(profile, finding.check).mode == CheckMode::off) return {};
  if (!job_runs || *job_runs < window) return {};
  TrafficSum sum;
  std::size_t judged = 0;
  for (const InfinibandPort& port : ports) {
    if (!is_judged(profile, finding.check, port)) continue;
    ++judged;
    for (const std::string_view file : data_files)
      add_traffic({files, profile, history, port}, file, window, sum);
  }
  if (judged == 0) return {};
  // A fabric monitor's own queries move some bytes as well.
  const double least = limit_of(profile, finding.check, "idle_bytes", 0);
  finding.value = shown_number(sum.bytes);
  finding.expected = "> " + shown_number(least);
  finding.unit = "bytes in " + std::to_string(window.count()) + " s";
  if (sum.bytes > least) return {finding};
  finding.evidence = std::move(sum.unknown);
  finding.status = finding.evidence.empty() ? CheckStatus::fail : CheckStatus::unknown;
  return {finding};
}

bool is_first_reading(const HealthFinding& finding) {
  return finding.status == CheckStatus::unknown && !finding.evidence.empty() &&
         std::ranges::all_of(finding.evidence,
                             [](const std::string& line) { return line == first_reading; });
}

}  // namespace muster
