#include "templates/settings/setting_table.h"

#include "templates/cluster/file.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string rules_head = "command: x\nmuster:\n  rules:\n";

JobFile with_rules(const std::string& rules) {
  return read_job(rules_head + rules);
}

RestartRule only_rule(const std::string& text) {
  const JobFile job = with_rules(text);
  INFO(printed(job.findings));
  REQUIRE(!has_errors(job.findings));
  REQUIRE(job.spec.muster.rules.size() == 1);
  return job.spec.muster.rules[0];
}

std::string findings(const std::string& rules) {
  return printed(with_rules(rules).findings);
}

TEST_CASE("a rule has conditions, a class, a reaction, a mode and advice") {
  const RestartRule rule = only_rule(R"(    - id: out-of-tokens
      when:
        exit_code: [3, 40-49]
        stderr_regex: 'no (more )?tokens'
        xid: 79
      class: infra
      action: backoff
      delay: 10m
      mode: enforce
      advice: ask for more tokens
)");
  CHECK(rule.id == "out-of-tokens");
  REQUIRE(rule.exit_codes.size() == 2);
  CHECK(rule.exit_codes[0].holds(3));
  CHECK(!rule.exit_codes[0].holds(4));
  CHECK(rule.exit_codes[1].holds(40));
  CHECK(rule.exit_codes[1].holds(49));
  CHECK(rule.stderr_regex == "no (more )?tokens");
  REQUIRE(rule.xids.size() == 1);
  CHECK(rule.failure_class == FailureClass::infra);
  CHECK(rule.action == Reaction::backoff);
  CHECK(rule.delay == Milliseconds{600000});
  CHECK(rule.enforce);
  CHECK(rule.advice == "ask for more tokens");
}

TEST_CASE("a signal is a name, a number or a list of both") {
  const auto signals = [](const std::string& text) {
    return only_rule("    - {when: {signal: " + text + "}, action: retry}\n").signals;
  };
  CHECK(signals("SIGSEGV") == std::vector<int>{11});
  CHECK(signals("segv") == std::vector<int>{11});
  CHECK(signals("[15, SIGUSR1]") == std::vector<int>{15, 10});
}

TEST_CASE("a rule that stops jobs only logs until it is told to act, and says so") {
  const std::string rule = "    - {when: {exit_code: 3}, action: stop}\n";
  CHECK(!only_rule(rule).enforce);
  CHECK_THAT(findings(rule), ContainsSubstring("note: muster.rules[0]: a rule that stops jobs "
                                               "begins as 'mode: log'"));
  CHECK(only_rule("    - {when: {exit_code: 3}, action: stop, mode: enforce}\n").enforce);
  CHECK(only_rule("    - {when: {exit_code: 3}, action: retry}\n").enforce);
}

TEST_CASE("a pattern that is none is an error where it stands, with the part that is wrong") {
  const std::string out =
      findings("    - when: {stderr_regex: 'out of (memory'}\n      action: retry\n");
  CHECK_THAT(out, ContainsSubstring("job.yml:4:28: error: muster.rules[0].when.stderr_regex: not "
                                    "a regular expression: 'out of (memory': missing )"));
  CHECK_THAT(findings("    - {when: {stderr_regex: '(a)\\1'}, action: retry}\n"),
             ContainsSubstring("invalid escape sequence"));
}

TEST_CASE("mistakes in a rule are errors that say what to write") {
  const auto says = [](const std::string& rule, const std::string& message) {
    const std::string out = findings("    - " + rule + "\n");
    INFO(rule);
    CHECK_THAT(out, ContainsSubstring(message));
    CHECK_THAT(out, ContainsSubstring("error: "));
  };
  says("{when: {exit_code: 0}, action: retry}", "expected a number from 1 to 255");
  says("{when: {exit_code: 9-3}, action: retry}", "a range such as 40-49");
  says("{when: {exit_code: 256}, action: retry}", "expected a number from 1 to 255");
  says("{when: {exit_code: [3, x]}, action: retry}", "muster.rules[0].when.exit_code[1]");
  says("{when: {exit_code: 3, signal: 9}, action: retry}", "never hold together");
  says("{when: {signal: SIGTREM}, action: retry}", "did you mean 'SIGTERM'?");
  says("{when: {exit_cod: 3}, action: retry}", "did you mean 'exit_code'?");
  says("{when: {exit_code: 3}, acton: retry}", "did you mean 'action'?");
  says("{when: {exit_code: 3}, action: retri}", "did you mean 'retry'?");
  says("{when: {}, action: retry}", "expected at least one of exit_code");
  says("{when: 3, action: retry}", "muster.rules[0].when: expected a map");
  says("{action: retry}", "'muster.rules[0].when' is required");
  says("{when: {exit_code: 3}}", "expected 'class' or 'action'");
  says("{when: {exit_code: 3}, action: stop, delay: 1m}", "'delay' needs");
  says("{id: A b, when: {exit_code: 3}, action: retry}", "small letters, digits");
  says("{when: {exit_code: 3}, action: retry, advice: \"a\\nb\"}", "expected one line");
}

TEST_CASE("rules that stand under another key are sent to their place") {
  const JobFile job = read_job("command: x\nmuster:\n  restart:\n    rules: []\n");
  CHECK_THAT(printed(job.findings), ContainsSubstring("did you mean 'muster.rules'?"));
}

TEST_CASE("two rules of one list do not share an id") {
  CHECK_THAT(findings("    - {id: a, when: {exit_code: 3}, action: retry}\n"
                      "    - {id: a, when: {exit_code: 4}, action: retry}\n"),
             ContainsSubstring("job.yml:5:12: error: muster.rules[1].id: another rule has the id"));
}

TEST_CASE("a cluster file holds the rules of its site, with or without targets") {
  const std::string policy =
      "policy:\n  rules:\n    - {when: {exit_code: 75}, class: infra}\n    - {when: {xid: 63}}\n";
  const ClusterFile file = read_cluster_file("site.yml", policy, in_project());
  REQUIRE(file.rules.size() == 2);
  CHECK(file.rules[0].exit_codes[0].holds(75));
  CHECK_THAT(printed(file.findings), ContainsSubstring("site.yml:4:7: error: policy.rules[1]: "
                                                       "expected 'class' or 'action'"));
  CHECK(read_job(policy).kind == FileKind::cluster);
  CHECK_THAT(printed(read_cluster_file("site.yml", "policy: {rulse: []}", in_project()).findings),
             ContainsSubstring("did you mean 'rules'?"));
}

}  // namespace
}  // namespace muster
