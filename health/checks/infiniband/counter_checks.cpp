
#include <algorithm>
#include <cmath>
#include <tuple>

#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/infiniband/port.h"
#include "health/model/check_words.h"

namespace muster {

namespace {

constexpr const char* first_reading = "first reading, no baseline";

constexpr std::string_view data_files[] = {"counters/port_xmit_data", "counters/port_rcv_data"};
// 64 in the extended set; a value above 32 bits shows which one it is.
constexpr int data_bits = 32;
constexpr double bytes_per_data_unit = 4;

constexpr std::string_view reset_advice = "reset it with perfquery -R";

CounterKey key_of(const SourceFiles& files, const InfinibandPort& port, std::string_view file) {
  return {boot_id_of(files), port.name(), std::string(file)};
}

// A port, and the input of the check that judges its counters.
struct CounterView {
  const CheckInput& input;
  const InfinibandPort& port;

  GrowthReading growth(std::string_view file, std::chrono::seconds window, int bits) const {
    return input.ib->facts.counters.growth(key_of(input.files, port, file), window, bits);
  }
};

// Samples of 30 s each: a burst of a second is no rate.
std::chrono::seconds window_of(const CheckInput& input) {
  return std::chrono::seconds(std::lround(std::clamp(input.limit("window_s"), 1.0, 3600.0)));
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
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(growth.elapsed);
  return std::string(rule.file) + " from " + std::to_string(growth.from) + " to " +
         std::to_string(growth.to) + " in " + std::to_string(took.count()) + " s";
}

std::string saturation_text(std::string_view file, std::uint64_t value) {
  return std::string(file) + ": counter saturated, " + std::to_string(value) + ": " +
         std::string(reset_advice);
}

HealthFinding judge_growth(const CounterView& view, const CounterRule& rule,
                           const CounterLimit& limit, std::chrono::seconds window,
                           const CounterGrowth& growth, HealthFinding finding) {
  const auto most = view.input.limit_if_any(limit.name);
  const double rate = rate_of(growth, limit, window);
  finding.value = shown_number(rate);
  finding.unit = unit_of(limit);
  finding.expected = most ? (limit.fails_at ? "< " : "<= ") + shown_number(*most) : "any";
  if (!most || (limit.fails_at ? rate < *most : rate <= *most)) return finding;
  finding.evidence.push_back(growth_text(rule, growth));
  return as_failed(std::move(finding), limit.severity);
}

HealthFinding judge_limit(const CounterView& view, const CounterRule& rule,
                          const CounterLimit& limit) {
  HealthFinding finding = port_finding(view.input, view.port, rule.file);
  // A longer limit needs its whole time.
  const std::chrono::seconds window = std::max(limit.per, window_of(view.input));
  const GrowthReading read = view.growth(rule.file, window, rule.bits);
  if (const auto* growth = std::get_if<CounterGrowth>(&read))
    return judge_growth(view, rule, limit, window, *growth, std::move(finding));
  const auto* saturated = std::get_if<SaturatedCounter>(&read);
  if (!saturated) return as_unknown(std::move(finding), first_reading);
  // What it grew by until it stuck may be enough; that it grows no more tells nothing.
  finding = judge_growth(view, rule, limit, window, saturated->at_least, std::move(finding));
  std::string why = saturation_text(rule.file, saturated->at_least.to);
  if (finding.status != CheckStatus::fail) return as_unknown(std::move(finding), std::move(why));
  finding.evidence.push_back(std::move(why));
  return finding;
}

// The one that says more; what the other adds stays as evidence.
HealthFinding worse_of(HealthFinding left, HealthFinding right) {
  const auto rank = [](const HealthFinding& one) {
    const bool is_bad = one.status == CheckStatus::fail;
    return std::tuple(badness_of(one.status), is_bad ? one.severity.remedy : Remedy::warn,
                      is_bad && one.severity.stops_job);
  };
  const bool is_right = rank(right) > rank(left);
  if (is_right) std::swap(left, right);
  if (right.status == CheckStatus::pass) return left;
  for (std::string& line : right.evidence) {
    if (std::ranges::find(left.evidence, line) == left.evidence.end())
      left.evidence.push_back(std::move(line));
  }
  return left;
}

// Nothing: the driver does not have the counter, and need not.
std::optional<HealthFinding> judge_rule(const CounterView& view, const CounterRule& rule) {
  HealthFinding finding = port_finding(view.input, view.port, rule.file);
  if (rule.is_optional && view.input.files.reading(finding.source).is_missing) return std::nullopt;
  if (!read_as(view.input, finding, parse_counter)) return finding;
  std::optional<HealthFinding> worst;
  for (const auto& limit : rule.limits) {
    if (!limit) continue;
    HealthFinding judged = judge_limit(view, rule, *limit);
    worst = worst ? worse_of(std::move(*worst), std::move(judged)) : std::move(judged);
  }
  return worst;
}

bool has_limit(const HealthProfile& profile, const CounterRule& rule) {
  const CheckSpec* check = find_check(rule.check);
  return std::ranges::any_of(rule.limits, [&](const auto& limit) {
    return limit && limit_of(profile, *check, limit->name).has_value();
  });
}

// Of the counters that something is judged by; one that stands at its maximum hides what comes.
std::optional<HealthFinding> judge_saturation(const CounterView& view) {
  const auto& [input, port] = view;
  HealthFinding finding = port_finding(input, port, "counters");
  bool is_any_read = false;
  std::size_t saturated = 0;
  for (const CounterRule& rule : infiniband_counter_rules()) {
    if (!has_limit(input.profile, rule)) continue;
    const auto value = parse_counter(input.files.text(port.path(rule.file)).value_or(""));
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

// Of the latest samples. A count within an hour is not extrapolated from a shorter time.
std::optional<HealthFinding> judge_port(const CounterView& view) {
  std::optional<HealthFinding> worst;
  for (const CounterRule& rule : infiniband_counter_rules()) {
    if (rule.check != view.input.check().id) continue;
    auto judged = judge_rule(view, rule);
    if (worst && judged) judged = worse_of(*std::move(worst), *std::move(judged));
    if (judged) worst = std::move(judged);
  }
  return worst;
}

template <std::optional<HealthFinding> (*judge)(const CounterView&)>
std::vector<HealthFinding> on_each_view(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  for (const InfinibandPort& port : input.ib->ports) {
    if (is_judged(input.profile, input.check().id, port))
      append_findings(findings, judge({input, port}));
  }
  return findings;
}
constexpr auto judge_counters = &on_each_view<judge_port>;

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
  const FileReading& read = view.input.files.reading(path);
  const auto say = [&](const std::string& why) { sum.unknown.push_back(path + ": " + why); };
  if (!read.ok()) return say(read.error);
  if (!parse_counter(read.text)) return say("not understood: " + shown_text(read.text));
  const GrowthReading growth = view.growth(file, window, data_bits);
  if (std::holds_alternative<SaturatedCounter>(growth)) return say(std::string(reset_advice));
  const auto* known = std::get_if<CounterGrowth>(&growth);
  if (!known || known->elapsed < window) say("not watched for the whole window");
  if (known) sum.bytes += static_cast<double>(known->amount()) * bytes_per_data_unit;
}

// A hint that a job hangs: it runs on several nodes for so long, and no port moves data. No finding
// before it ran for the window.
std::vector<HealthFinding> judge_traffic(const CheckInput& input) {
  HealthFinding finding = make_finding(input.check(), "", CheckStatus::pass);
  const std::chrono::seconds window = window_of(input);
  if (setting_of(input.profile, finding.check).mode == CheckMode::off) return {};
  const auto job_runs = input.ib->facts.job_runs;
  if (!job_runs || *job_runs < window) return {};
  TrafficSum sum;
  std::size_t judged = 0;
  for (const InfinibandPort& port : input.ib->ports) {
    if (!is_judged(input.profile, finding.check, port)) continue;
    ++judged;
    for (const std::string_view file : data_files) add_traffic({input, port}, file, window, sum);
  }
  if (judged == 0) return {};
  // A fabric monitor's own queries move some bytes as well.
  const double least = input.limit("idle_bytes");
  finding.value = shown_number(sum.bytes);
  finding.expected = "> " + shown_number(least);
  finding.unit = "bytes in " + std::to_string(window.count()) + " s";
  if (sum.bytes > least) return {finding};
  finding.evidence = std::move(sum.unknown);
  finding.status = finding.evidence.empty() ? CheckStatus::fail : CheckStatus::unknown;
  return {finding};
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

std::vector<std::string_view> infiniband_counter_files() {
  std::vector<std::string_view> files(std::begin(data_files), std::end(data_files));
  for (const CounterRule& rule : infiniband_counter_rules())
    if (std::ranges::find(files, rule.file) == files.end()) files.push_back(rule.file);
  return files;
}

bool is_first_reading(const HealthFinding& finding) {
  return finding.status == CheckStatus::unknown && !finding.evidence.empty() &&
         std::ranges::all_of(finding.evidence,
                             [](const std::string& line) { return line == first_reading; });
}

std::span<const CounterRule> infiniband_counter_rules() {
  using namespace check_words;
  constexpr auto none_per_h = [](std::string_view name, CheckSeverity severity) {
    return CounterLimit{name, 1h, severity, false};
  };
  constexpr auto per_second = [](std::string_view name) {
    return CounterLimit{name, 1s, only_warn, false};
  };
  // What another end or the path did.
  constexpr CounterLimit below_per_h{"warn_per_h", 1h, only_warn, true};
  // Bits of the registers: PortCounters of the InfiniBand specification, volume 1, chapter 16.
  // clang-format off
  static const CounterRule rules[] = {
    {"ib.link_downed", "counters/link_downed", 8,
     {none_per_h("drain_per_h", drain), CounterLimit{"stop_per_h", 1h, stop_drain, true}}},
    {"ib.symbol", "counters/symbol_error", 16,
     {per_second("warn_per_s"), CounterLimit{"drain_per_h", 1h, drain, false}}},
    {"ib.recovery", "counters/link_error_recovery", 8,
     {CounterLimit{"warn_per_min", 1min, warn_then_drain, false}}},
    {"ib.rcv_err", "counters/port_rcv_errors", 16, {per_second("warn_per_s")}},
    {"ib.integrity", "counters/local_link_integrity_errors", 4, {none_per_h("drain_per_h", drain)}},
    {"ib.overrun", "counters/excessive_buffer_overrun_errors", 4,
     {none_per_h("drain_per_h", drain)}},
    {"ib.xmit_discards", "counters/port_xmit_discards", 16, {per_second("warn_per_s")}},
    {"ib.remote_phys", "counters/port_rcv_remote_physical_errors", 16, {below_per_h}},
    {"ib.relay", "counters/port_rcv_switch_relay_errors", 16, {below_per_h}},
    {"ib.vl15", "counters/VL15_dropped", 16, {below_per_h}},
    {"ib.constraint", "counters/port_rcv_constraint_errors", 8, {below_per_h}},
    {"ib.constraint", "counters/port_xmit_constraint_errors", 8, {below_per_h}},
    {"ib.xmit_wait", "counters/port_xmit_wait", 32, {per_second("warn_per_s")}},
    {"ib.transport", "hw_counters/rnr_nak_retry_err", 32, {none_per_h("rnr_per_h", drain)}},
    {"ib.transport", "hw_counters/local_ack_timeout_err", 32, {per_second("ack_timeout_per_s")}},
    {"ib.transport", "hw_counters/req_transport_retries_exceeded", 32,
     {none_per_h("retries_per_h", only_warn)}, true},
    {"ib.transport", "hw_counters/packet_seq_err", 32,
     {none_per_h("packet_seq_per_h", only_warn)}, true},
    {"ib.transport", "hw_counters/rx_icrc_encapsulated", 32,
     {none_per_h("icrc_per_h", only_warn)}, true},
    {"ib.transport", "hw_counters/out_of_sequence", 32,
     {per_second("out_of_sequence_per_s")}, true},
  };
  // clang-format on
  return rules;
}

std::span<const CheckSpec> infiniband_counter_checks() {
  using namespace check_words;
  // Of rates: a burst of a second is none.
  constexpr CheckLimit window{"window_s", "s", 30};
  // clang-format off
  static const CheckSpec all[] = {
    {.id = "ib.saturated", .source = "P/counters", .says = "below the maximum of the register",
     .believe = delta, .phases = when("T"), .cost = 80us, .group = infiniband_counters,
     .judge = on_each_view<judge_saturation>},
    {.id = "ib.link_downed", .source = "P/counters/link_downed", .says = "no growth",
     .severity = stop_drain, .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters,
     .limits = {boot_grace, window, {"drain_per_h", "1/h", 0}, {"stop_per_h", "1/h", 3}},
     .judge = judge_counters},
    // 120 an hour: a bit error rate of 1e-12. Behind forward error correction, on HDR and NDR.
    {.id = "ib.symbol", .source = "P/counters/symbol_error", .says = "<= 10/s and <= 120/h",
     .severity = drain, .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters,
     .limits = {boot_grace, window, {"warn_per_s", "1/s", 10}, {"drain_per_h", "1/h", 120}},
     .judge = judge_counters},
    {.id = "ib.recovery", .source = "P/counters/link_error_recovery", .says = "<= 5/min",
     .severity = warn_then_drain, .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters, .limits = {boot_grace, window, {"warn_per_min", "1/min", 5}},
     .judge = judge_counters},
    {.id = "ib.rcv_err", .source = "P/counters/port_rcv_errors", .says = "<= 10/s",
     .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters, .limits = {boot_grace, window, {"warn_per_s", "1/s", 10}},
     .judge = judge_counters},
    {.id = "ib.integrity", .source = "P/counters/local_link_integrity_errors", .says = "no growth",
     .severity = drain, .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters, .limits = {boot_grace, window, {"drain_per_h", "1/h", 0}},
     .judge = judge_counters},
    {.id = "ib.overrun", .source = "P/counters/excessive_buffer_overrun_errors",
     .says = "no growth", .severity = drain, .believe = delta, .phases = when("TEF"),
     .cost = 80us, .group = infiniband_counters,
     .limits = {boot_grace, window, {"drain_per_h", "1/h", 0}}, .judge = judge_counters},
    {.id = "ib.xmit_discards", .source = "P/counters/port_xmit_discards", .says = "<= 100/s",
     .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters, .limits = {boot_grace, window, {"warn_per_s", "1/s", 100}},
     .judge = judge_counters},
    // What another end or the path did: fewer than 100 an hour are of no account.
    {.id = "ib.remote_phys", .source = "P/counters/port_rcv_remote_physical_errors",
     .says = "< 100/h", .fault = infra, .believe = delta, .phases = when("TEF"),
     .cost = 80us, .group = infiniband_counters,
     .limits = {boot_grace, window, {"warn_per_h", "1/h", 100}}, .judge = judge_counters},
    {.id = "ib.relay", .source = "P/counters/port_rcv_switch_relay_errors", .says = "< 100/h",
     .fault = infra, .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters, .limits = {boot_grace, window, {"warn_per_h", "1/h", 100}},
     .judge = judge_counters},
    {.id = "ib.vl15", .source = "P/counters/VL15_dropped", .says = "< 100/h", .fault = infra,
     .believe = delta, .phases = when("TEF"), .cost = 80us,
     .group = infiniband_counters, .limits = {boot_grace, window, {"warn_per_h", "1/h", 100}},
     .judge = judge_counters},
    {.id = "ib.constraint", .source = "P/counters/port_{rcv,xmit}_constraint_errors",
     .says = "< 100/h", .believe = delta, .phases = when("TEF"), .cost = 160us,
     .group = infiniband_counters, .limits = {boot_grace, window, {"warn_per_h", "1/h", 100}},
     .judge = judge_counters},
    {.id = "ib.xmit_wait", .source = "P/counters/port_xmit_wait",
     .says = "normal under incast", .fault = infra, .believe = delta, .phases = when("TEF"),
     .cost = 80us, .group = infiniband_counters,
     .limits = {boot_grace, window, {"warn_per_s", "1/s"}}, .judge = judge_counters},
    // Whom a slow or dead peer keeps waiting, the same as the others that talk to it. Adaptive
    // routing reorders packets on a healthy fabric.
    {.id = "ib.transport", .source = "P/hw_counters",
     .says = "no rnr_nak_retry_err, local_ack_timeout_err <= 1/s", .severity = drain,
     .believe = delta, .phases = when("TF"), .cost = 480us, .is_often_shared = true,
     .group = infiniband_counters,
     .limits = {boot_grace, window, {"rnr_per_h", "1/h", 0}, {"ack_timeout_per_s", "1/s", 1},
                {"retries_per_h", "1/h", 0}, {"packet_seq_per_h", "1/h", 0},
                {"icrc_per_h", "1/h", 0}, {"out_of_sequence_per_s", "1/s"}},
     .judge = judge_counters},
    {.id = "ib.traffic", .source = "P/counters/port_{xmit,rcv}_data",
     .says = "> 0 in 10 min while a job runs", .believe = delta, .phases = when("T"),
     .cost = 160us, .group = infiniband_counters,
     .limits = {boot_grace, {"window_s", "s", 600}, {"idle_bytes", "bytes", 0}},
     .judge = judge_traffic},
    // A cable that flaps is quiet for hours in between.
    {.id = "ib.flap", .source = "kmsg", .says = "< 3 in 24 h", .severity = drain, .believe = event,
     .phases = when("T"), .cost = 1us, .group = infiniband_state,
     .limits = {boot_grace, {"window_h", "h", 24}, {"drain_per_window", "flaps", 3},
                {"clean_h", "h", 24}, {"clear_after_s", "s", 6 * 3600}},
     .judge = [](const CheckInput& input) { return input.ib->facts.flaps.judge(input); }},
  };
  // clang-format on
  return all;
}

}  // namespace muster
