// Rules of the profile that one node is judged by alone: `value` and `count_of`.
#include "health/node_rules.h"

#include <cmath>
#include <random>

#include "health/benchmark/plan.h"
#include "health/benchmark/samples.h"
#include "health/model/check.h"
#include "health/profile_rules.h"
#include "tests/catch.h"

using namespace muster;

namespace {

HealthProfile with_rules(std::vector<ProfileRule> rules) {
  HealthProfile profile;
  profile.rules = std::move(rules);
  return profile;
}

ProfileRule value_rule(const char* metric, double arg, const char* severity = "drain") {
  return {"warm", metric, RuleOperator::value, arg, severity};
}

ProfileRule count_rule(const char* metric, double arg, const char* severity = "drain") {
  return {"eight", metric, RuleOperator::count_of, arg, severity};
}

HealthFinding found(const char* check, const std::string& device, CheckStatus status,
                    const char* value = "", const char* expected = "") {
  HealthFinding finding = make_finding(check, device, status);
  finding.value = value;
  finding.expected = expected;
  return finding;
}

HealthFinding temperature(const char* margin) {
  return found("gpu.temp", "gpu0", CheckStatus::pass, margin, "> 0");
}

HealthFinding judged(const ProfileRule& rule, HealthFinding finding) {
  std::vector<HealthFinding> findings{std::move(finding)};
  judge_by_rules(
      with_rules({rule}), [](std::string_view) { return true; }, findings);
  REQUIRE(findings.size() == 1);
  return findings.front();
}

// "fail 7 of 8"
std::string count_verdict(const std::vector<HealthFinding>& all, double arg, bool has_run = true) {
  std::vector<HealthFinding> findings = all;
  judge_by_rules(
      with_rules({count_rule("ib.state", arg)}), [&](std::string_view) { return has_run; },
      findings);
  if (findings.size() == all.size()) return "";
  const HealthFinding& one = findings.back();
  CHECK(one.check == "ib.state");
  CHECK(one.device.empty());
  CHECK(one.evidence.front().starts_with("ib.state, rule eight"));
  return std::string(word_of(one.status)) + " " + one.value + " of " + one.expected;
}

std::vector<HealthFinding> ports(int pass, int fail, int unknown) {
  std::vector<HealthFinding> findings;
  const auto add = [&](int count, CheckStatus status) {
    for (int i = 0; i < count; ++i) {
      findings.push_back(
          found("ib.state", "mlx5_" + std::to_string(findings.size()) + ":1", status));
    }
  };
  add(pass, CheckStatus::pass);
  add(fail, CheckStatus::fail);
  add(unknown, CheckStatus::unknown);
  return findings;
}

std::vector<PerformanceSample> of_gpus(const std::vector<std::optional<double>>& values) {
  std::vector<PerformanceSample> samples;
  for (const auto& value : values) {
    samples.push_back({"h2d_gb_per_s", "gpu" + std::to_string(samples.size()), value,
                       value ? "" : "the probe was killed"});
  }
  return samples;
}

const HealthFinding* of_node(const std::vector<HealthFinding>& findings) {
  for (const HealthFinding& one : findings) {
    if (one.device.empty()) return &one;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a value beyond the rule's number fails with the rule's severity") {
  const HealthFinding hot = judged(value_rule("gpu.temp", 10, "!reset>rma"), temperature("9"));
  CHECK(hot.status == CheckStatus::fail);
  CHECK(text_of(hot.severity) == "!reset>rma");
  CHECK(hot.value == "9");
  CHECK(hot.expected == ">= 10");
  CHECK(hot.evidence == std::vector<std::string>{"gpu.temp, rule warm, expected >= 10"});
  CHECK(judged(value_rule("gpu.temp", 10), temperature("10")) == temperature("10"));
  CHECK(judged(value_rule("ib.rate", 1), temperature("-3")) == temperature("-3"));
}

TEST_CASE("which way is worse says the bound of the check itself") {
  struct Row {
    const char* expected;
    const char* value;
    CheckStatus status;
  };
  for (const Row& row :
       {Row{"<= 120", "10", CheckStatus::pass}, Row{"<= 120", "11", CheckStatus::fail},
        Row{"no new error, at most 9 corrected ones", "11", CheckStatus::fail},
        Row{"synchronised, less than 50 ms", "9 ms", CheckStatus::pass},
        Row{"fewer than 3 in 24 h", "11", CheckStatus::fail},
        Row{">= 200", "400 Gb/sec (4X NDR)", CheckStatus::pass},
        Row{">= 200", "9 Gb/sec", CheckStatus::fail}, Row{"at least 5", "9", CheckStatus::fail},
        Row{"8", "9", CheckStatus::unknown}, Row{"> 0", "up", CheckStatus::unknown},
        Row{"> 0", "28.40.1", CheckStatus::unknown}, Row{"> 0", "nan", CheckStatus::unknown},
        Row{"> 0", "", CheckStatus::unknown}}) {
    INFO(row.expected << ", " << row.value);
    const HealthFinding finding =
        judged(value_rule("gpu.temp", 10),
               found("gpu.temp", "gpu0", CheckStatus::pass, row.value, row.expected));
    CHECK(finding.status == row.status);
    CHECK(finding.evidence.empty() == (row.status == CheckStatus::pass));
  }
}

TEST_CASE("no rule makes a failure milder, or an unknown a failure") {
  HealthFinding worse = temperature("-1");
  worse.status = CheckStatus::fail;
  worse.severity = {Remedy::rma, {}};
  const HealthFinding kept = judged(value_rule("gpu.temp", 10, "drain"), worse);
  CHECK(kept.severity.remedy == Remedy::rma);
  CHECK(kept.expected == "> 0");
  CHECK(kept.evidence.size() == 1);
  worse.severity = {Remedy::warn, {}};
  CHECK(judged(value_rule("gpu.temp", 10, "drain"), worse).severity.remedy == Remedy::drain);
  HealthFinding text = temperature("up");
  text.status = CheckStatus::fail;
  CHECK(judged(value_rule("gpu.temp", 10), text).status == CheckStatus::fail);
  HealthFinding open = temperature("");
  open.status = CheckStatus::unknown;
  CHECK(judged(value_rule("gpu.temp", 10), open) == open);
}

TEST_CASE("so many devices pass as the rule says, no fewer and no more") {
  CHECK(count_verdict(ports(8, 0, 0), 8) == "pass 8 of 8");
  CHECK(count_verdict(ports(7, 1, 0), 8) == "fail 7 of 8");
  CHECK(count_verdict(ports(9, 0, 0), 8) == "fail 9 of 8");
  CHECK(count_verdict(ports(7, 0, 0), 8) == "fail 7 of 8");
  CHECK(count_verdict(ports(7, 0, 1), 8) == "unknown 7 of 8");
  CHECK(count_verdict(ports(8, 0, 1), 8) == "unknown 8 of 8");
  CHECK(count_verdict(ports(6, 1, 1), 8) == "fail 6 of 8");
  CHECK(count_verdict(ports(9, 0, 5), 8) == "fail 9 of 8");
  CHECK(count_verdict({}, 8) == "unknown  of 8");
  CHECK(count_verdict({}, 8, false).empty());
  CHECK(count_verdict(ports(0, 3, 0), 0) == "pass 0 of 0");
}

TEST_CASE("what counts against a device is named, and a broken value is no pass") {
  std::vector<HealthFinding> findings;
  for (const char* gpu : {"gpu0", "gpu1", "gpu2"}) {
    findings.push_back(found("gpu.temp", gpu, CheckStatus::pass, "20", "> 0"));
  }
  findings[1].value = "3";
  findings.push_back(found("gpu.temp", "gpu3", CheckStatus::unknown));
  judge_by_rules(
      with_rules({count_rule("gpu.temp", 3, "reset"), value_rule("gpu.temp", 10, "warn")}),
      [](std::string_view) { return true; }, findings);
  REQUIRE(findings.size() == 5);
  const HealthFinding& count = findings.back();
  CHECK(count.status == CheckStatus::unknown);
  CHECK(count.value == "2");
  CHECK(count.unit == "devices");
  CHECK(count.evidence ==
        std::vector<std::string>{"gpu.temp, rule eight", "fail: gpu1", "unknown: gpu3"});
  findings.resize(4);
  judge_by_rules(
      with_rules({count_rule("gpu.temp", 4, "reset")}), [](std::string_view) { return true; },
      findings);
  CHECK(findings.back().status == CheckStatus::fail);
  CHECK(text_of(findings.back().severity) == "reset");
}

TEST_CASE("one line for a check and device: the worse, with what the other says") {
  std::vector<HealthFinding> findings{found("host.mem", "", CheckStatus::pass, "1")};
  put_finding(findings, found("host.mem", "", CheckStatus::pass, "2"));
  CHECK(findings.front().value == "1");
  put_finding(findings, found("host.mem", "", CheckStatus::unknown, "3"));
  CHECK(findings.front().value == "3");
  HealthFinding mild = found("host.mem", "", CheckStatus::fail, "4");
  mild.severity = {Remedy::warn, {}};
  put_finding(findings, mild);
  CHECK(findings.front().value == "4");
  mild.evidence = {"and this"};
  mild.value = "5";
  put_finding(findings, mild);
  CHECK(findings.front().value == "4");
  CHECK(findings.front().evidence == std::vector<std::string>{"and this"});
  put_finding(findings, found("host.mem", "", CheckStatus::fail, "6"));
  CHECK(findings.front().value == "6");
  CHECK(findings.size() == 1);
}

TEST_CASE("a figure is judged by the rule of its name or its check, without a floor") {
  const auto judge = [](const ProfileRule& rule, const char* metric, double value) {
    const HealthProfile profile = with_rules({rule});
    const auto finding = judge_performance(profile, {metric, "gpu1", value, ""}, {});
    return finding ? std::string(word_of(finding->status)) + " " + finding->expected : "";
  };
  CHECK(judge(value_rule("perf.p2p", 300), "p2p_gb_per_s", 299) == "fail >= 300");
  CHECK(judge(value_rule("p2p_gb_per_s", 300), "p2p_gb_per_s", 300) == "pass >= 300");
  CHECK(judge(value_rule("tcp_latency_us", 30), "tcp_latency_us", 31) == "fail <= 30");
  CHECK(judge(value_rule("tcp_latency_us", 30), "tcp_gbps", 1).empty());
  HealthProfile profile = with_rules({value_rule("p2p_gb_per_s", 350, "warn")});
  profile.floors["p2p_gb_per_s"] = 300;
  const auto slow = judge_performance(profile, {"p2p_gb_per_s", "", 320, ""}, {});
  REQUIRE(slow);
  CHECK(text_of(slow->severity) == "warn");
  CHECK(slow->evidence == std::vector<std::string>{"p2p_gb_per_s, rule warm"});
  const auto broken = judge_performance(profile, {"p2p_gb_per_s", "", 100, ""}, {});
  REQUIRE(broken);
  CHECK(text_of(broken->severity) == "reset>rma");
  const auto untold = judge_performance(profile, {"p2p_gb_per_s", "", {}, "killed"}, {});
  REQUIRE(untold);
  CHECK(untold->status == CheckStatus::unknown);
}

TEST_CASE("what a rule judges on one node is measured there") {
  const auto probes = [](std::vector<ProfileRule> rules) {
    const HealthProfile profile = with_rules(std::move(rules));
    ProbeSituation situation;
    situation.gpus = 8;
    std::string names;
    for (const PlannedProbe& probe : plan_probes(profile, situation).probes) {
      names += std::string(probe.spec->name) + " ";
    }
    return names;
  };
  CHECK(probes({}).empty());
  CHECK(probes({value_rule("stream_mb_per_s", 1)}) == "memory ");
  CHECK(probes({count_rule("perf.p2p", 8)}) == "gpu-peer ");
  CHECK(probes({{"same", "perf.stream", RuleOperator::all_equal, 0, "warn"}}).empty());
}

TEST_CASE("devices are counted whose figures pass, or were measured where nothing bounds them") {
  const HealthProfile plain = with_rules({count_rule("perf.h2d_d2h", 3)});
  const auto status = [](const HealthProfile& profile,
                         const std::vector<PerformanceSample>& samples) {
    const auto findings = judge_samples(profile, samples, {});
    const HealthFinding* count = of_node(findings);
    return count ? std::string(word_of(count->status)) + " " + count->value : "";
  };
  CHECK(status(plain, of_gpus({50, 50, 50})) == "pass 3");
  CHECK(status(plain, of_gpus({50, 50})) == "fail 2");
  CHECK(status(plain, of_gpus({50, 50, std::nullopt})) == "unknown 2");
  CHECK(status(plain, {{"h2d_gb_per_s", "", {}, "the probe was killed"}}) == "unknown 0");
  CHECK(status(plain, {{"stream_mb_per_s", "", 1, ""}}).empty());
  HealthProfile bounded = with_rules({count_rule("h2d_gb_per_s", 3)});
  bounded.floors["h2d_gb_per_s"] = 40;
  CHECK(status(bounded, of_gpus({50, 50, 50, 30})) == "pass 3");
  CHECK(status(bounded, of_gpus({50, 30, 50})) == "fail 2");
  bounded.exclude.push_back({"perf.*", "gpu1", "known"});
  bounded.rules[0].arg = 2;
  CHECK(status(bounded, of_gpus({50, 30, 50})) == "pass 2");
}

TEST_CASE("rules that say nothing, ever, are told with the reason") {
  struct Row {
    RuleOperator op;
    const char* metric;
    const char* why;
  };
  using enum RuleOperator;
  for (const Row& row :
       {Row{value, "gpu.xid", "events"}, Row{all_equal, "host.oops", "events"},
        Row{count_of, "gpu.lost", "events"}, Row{below_median_pct, "gpu.temp", "no figure"},
        Row{value, "perf.h2d_d2h", "h2d_gb_per_s, d2h_gb_per_s"},
        Row{value, "perf.sdc", "counts faults"},
        Row{majority, "sdc_wrong_products", "counts faults"},
        Row{majority, "fab.links", "fabric"}}) {
    INFO(row.metric);
    const auto why = why_never_judged(row.op, row.metric);
    REQUIRE(why);
    CHECK_THAT(*why, ContainsSubstring(row.why));
  }
  for (const Row& row :
       {Row{value, "gpu.temp", ""}, Row{value, "perf.stream", ""}, Row{value, "d2h_gb_per_s", ""},
        Row{below_median_pct, "perf.h2d_d2h", ""}, Row{count_of, "perf.h2d_d2h", ""},
        Row{all_equal, "gpu.power_limit", ""}, Row{majority, "host.mem", ""}}) {
    INFO(row.metric);
    CHECK_FALSE(why_never_judged(row.op, row.metric));
  }
}

TEST_CASE("any text is a number or none") {
  std::mt19937 random(7);
  const std::string letters = "0123456789.-+eE naif<>=x ";
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (unsigned i = random() % 12; i > 0; --i) text += letters[random() % letters.size()];
    if (const auto number = number_of(text)) REQUIRE(std::isfinite(*number));
    static_cast<void>(worse_way(text));
  }
}
