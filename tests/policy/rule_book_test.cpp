#include <csignal>

#include "scheduler/restart/rule_book.h"
#include "tests/catch.h"

using namespace muster;

namespace {

RestartRule rule_for(const std::string& pattern) {
  RestartRule rule;
  rule.stderr_regex = pattern;
  rule.action = Reaction::retry;
  return rule;
}

RestartRule on_codes(NumberRange codes) {
  RestartRule rule;
  rule.exit_codes = {codes};
  rule.failure_class = FailureClass::infra;
  return rule;
}

std::string decides(const MusterSettings& settings, const KnownExit& evidence) {
  const RuleVerdict verdict = judge_exit(settings, evidence);
  return verdict.rule ? verdict.rule->id : "";
}

KnownExit says(const std::string& line) {
  return {{1, 0}, {"step 1", line}};
}

}  // namespace

TEST_CASE("the job's rules come before the site's and these before the built-in ones") {
  MusterSettings settings;
  CHECK(decides(settings, says("CUDA out of memory")) == "cuda-oom");
  settings.site_rules = {rule_for("out of memory")};
  settings.site_rules[0].id = "of-the-site";
  CHECK(decides(settings, says("CUDA out of memory")) == "of-the-site");
  settings.rules = {rule_for("memory")};
  const RuleVerdict verdict = judge_exit(settings, says("CUDA out of memory"));
  REQUIRE(verdict.rule);
  CHECK(verdict.rule->id == "1");
  CHECK(verdict.rule->origin == RuleOrigin::job);
}

TEST_CASE("the first rule of a list that holds decides") {
  MusterSettings settings;
  settings.rules = {on_codes({40, 49}), on_codes({42, 42}), on_codes({50, 50})};
  CHECK(decides(settings, {{42, 0}, {}}) == "1");
  CHECK(decides(settings, {{50, 0}, {}}) == "3");
  CHECK(decides(settings, {{39, 0}, {}}) == "");
}

TEST_CASE("every given condition has to hold") {
  MusterSettings settings;
  RestartRule rule = rule_for("no tokens");
  rule.exit_codes = {{42, 42}};
  settings.rules = {rule};
  CHECK(decides(settings, {{42, 0}, {"no tokens"}}) == "1");
  CHECK(decides(settings, {{41, 0}, {"no tokens"}}) == "");
  CHECK(decides(settings, {{42, 0}, {"tokens"}}) == "");
}

TEST_CASE("a signal fits as itself and as a shell reports it") {
  MusterSettings settings;
  RestartRule rule;
  rule.signals = {SIGUSR1};
  settings.rules = {rule};
  CHECK(decides(settings, {{0, SIGUSR1}, {}}) == "1");
  CHECK(decides(settings, {{128 + SIGUSR1, 0}, {}}) == "1");
  CHECK(decides(settings, {{SIGUSR1, 0}, {}}) == "");
}

TEST_CASE("an exit code does not fit a death by signal") {
  MusterSettings settings;
  settings.rules = {on_codes({0, 255})};
  CHECK(decides(settings, {{0, SIGKILL}, {}}) == "");
}

TEST_CASE("an Xid is taken from the kernel's line") {
  MusterSettings settings;
  RestartRule rule;
  rule.xids = {{45, 45}};
  settings.rules = {rule};
  CHECK(decides(settings, says("NVRM: Xid (PCI:0000:3b:00): 45, pid=1, Ch 3")) == "1");
  CHECK(decides(settings, says("NVRM: Xid (PCI:0000:45:00): 62, pid=1")) == "");
  CHECK(xids_in({"Xid (PCI:", "Xid (PCI:0): ", "Xid (PCI:0): x", "Xid 45"}).empty());
}

TEST_CASE("a rule that only logs is named and lets the next one decide") {
  MusterSettings settings;
  settings.rules = {rule_for("memory")};
  settings.rules[0].enforce = false;
  const RuleVerdict verdict = judge_exit(settings, says("CUDA out of memory"));
  CHECK(verdict.only_logged == std::vector<std::string>{"1"});
  REQUIRE(verdict.rule);
  CHECK(verdict.rule->id == "cuda-oom");
}

TEST_CASE("all rules that only log are named, before the one that decides and not after it") {
  MusterSettings settings;
  settings.rules = {rule_for("memory"), rule_for("no such"), rule_for("out"), rule_for("CUDA"),
                    rule_for("of")};
  for (const std::size_t logs : {0u, 1u, 2u, 4u}) settings.rules[logs].enforce = false;
  settings.rules[3].delay = Seconds{7};
  settings.rules[3].advice = "look";
  const RuleVerdict verdict = judge_exit(settings, says("CUDA out of memory"));
  CHECK(verdict.only_logged == std::vector<std::string>{"1", "3"});
  REQUIRE(verdict.rule);
  CHECK(verdict.rule->id == "4");
  CHECK(verdict.rule->action == Reaction::retry);
  CHECK(verdict.rule->delay == Seconds{7});
  CHECK(verdict.rule->advice == "look");
}

TEST_CASE("what a stopped rank ended with fits no rule, what it had said does") {
  MusterSettings settings;
  settings.rules = {on_codes({1, 1}), rule_for("no tokens")};
  settings.rules.emplace_back().signals = {15};
  KnownExit stopped{{0, 15}, {"no tokens"}, true};
  CHECK(decides(settings, stopped) == "2");
  stopped.last_lines = {"step 17"};
  CHECK(decides(settings, stopped) == "");
}

TEST_CASE("a rule without a condition or with a broken pattern never holds") {
  MusterSettings settings;
  settings.rules = {RestartRule{}, rule_for("(")};
  settings.rules[0].action = Reaction::stop;
  CHECK(decides(settings, says("(")) == "");
}

TEST_CASE("no rule speaks of a rank that ended well") {
  MusterSettings settings;
  settings.rules = {rule_for(".")};
  CHECK(decides(settings, {{0, 0}, {"CUDA out of memory"}}) == "");
}

TEST_CASE("every rule that holds is found with its line, the deciding one first") {
  MusterSettings settings;
  settings.rules = {rule_for("memory")};
  const RuleBook book(settings);
  const auto hits = book.hits(says("CUDA out of memory"));
  REQUIRE(hits.size() == 2);
  CHECK(hits[0].entry->origin == RuleOrigin::job);
  CHECK(hits[1].entry->rule.id == "cuda-oom");
  CHECK(hits[1].line == 1);
}

TEST_CASE("a condition is put into words") {
  RestartRule rule = rule_for("x y");
  rule.exit_codes = {{3, 3}, {40, 49}};
  rule.xids = {{79, 79}};
  CHECK(condition_text(rule) == "exit_code 3 or 40-49, xid 79, stderr_regex 'x y'");
  RestartRule by_signal;
  CHECK(condition_text(by_signal) == "");
  by_signal.signals = {9, 15};
  CHECK(condition_text(by_signal) == "signal 9 or 15");
}
