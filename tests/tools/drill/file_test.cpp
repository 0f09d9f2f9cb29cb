// A drill file as it is read: what each key becomes, and what is said about a wrong one.
#include "tools/drill/file.h"

#include "tests/catch.h"
#include "tools/verbs.h"

namespace muster {
namespace {

DrillFile read(const std::string& text) {
  return read_drill("drill.yml", text, ReadOptions{"/home/me", {}, {}});
}

// The findings as a person sees them, without source lines.
std::string findings(const DrillFile& file) {
  std::string text;
  for (const Finding& each : file.findings) {
    text += std::to_string(each.line) + ":" + std::to_string(each.column) + ": " + each.message +
            (each.suggestion.empty() ? "" : "; " + each.suggestion) + "\n";
  }
  return text;
}

std::string findings_of_step(const std::string& step) {
  return findings(read("job: a.yml\nsandbox: {hosts: 2}\nexpect: {}\nsteps:\n  - " + step + "\n"));
}

DrillStep step_of(const std::string& step) {
  const DrillFile file =
      read("job: a.yml\nsandbox: {hosts: 2}\nexpect: {}\nsteps:\n  - " + step + "\n");
  INFO(step << "\n" << findings(file));
  REQUIRE(file.findings.empty());
  REQUIRE(file.drill.steps.size() == 1);
  return file.drill.steps[0];
}

TEST_CASE("a drill file becomes steps and expectations") {
  const DrillFile file = read(R"(job: sub/train.yml
set: [a.b=1]
sandbox: {hosts: 3, private_home: true}
seed: 7
limit: 90s
steps:
  - when: step >= 20
    kill: {rank: 1, signal: TERM}
  - after: 3s
    crash: h02
expect:
  status: Completed
  exit_code: 0
  attempts: '>= 2'
  explain: [one, two]
  no_process_left: true
  outputs_equal: [model/a.bin]
  log_counts: tick {n}
)");
  CHECK(findings(file) == "");
  const Drill& drill = file.drill;
  CHECK(drill.job == "/home/me/sub/train.yml");
  CHECK(drill.sets == std::vector<std::string>{"a.b=1"});
  REQUIRE(drill.sandbox);
  CHECK(drill.sandbox->hosts == 3);
  CHECK(drill.sandbox->private_home);
  CHECK(drill.seed == 7u);
  CHECK(drill.limit == Seconds{90});
  REQUIRE(drill.steps.size() == 2);
  CHECK(drill.steps[0].line == 7);
  CHECK(describe(drill.steps[0].action) == "kill rank 1 with TERM");
  CHECK(drill.steps[1].after.least == Seconds{3});
  CHECK(describe(drill.steps[1].action) == "crash h02");
  CHECK(drill.expect.status == "Completed");
  CHECK(drill.expect.exit_code->text() == "0");
  CHECK(drill.expect.attempts->text() == ">= 2");
  CHECK(drill.expect.explain == std::vector<std::string>{"one", "two"});
  CHECK(drill.expect.no_process_left);
  CHECK(drill.expect.outputs_equal);
  CHECK(drill.expect.equal_paths == std::vector<std::string>{"model/a.bin"});
  CHECK(drill.expect.log_counts == "tick {n}");
}

TEST_CASE("every action is written in one way and says what it does") {
  CHECK(describe(step_of("kill: rank").action) == "kill a rank with KILL");
  CHECK(describe(step_of("kill: {rank: random, signal: SIGSEGV}").action) ==
        "kill a rank with SEGV");
  CHECK(describe(step_of("kill: agent").action) == "kill an agent with KILL");
  CHECK(describe(step_of("kill: {agent: local-1}").action) ==
        "kill the agent of local-1 with KILL");
  CHECK(describe(step_of("kill: controller").action) == "kill the controller with KILL");
  CHECK(describe(step_of("kill: {controller: true, signal: TERM}").action) ==
        "kill the controller with TERM");
  CHECK(describe(step_of("kill: {connection: h01}").action) ==
        "kill the connection to h01 with KILL");
  CHECK(describe(step_of("stop: {agent: random, for: 5s}").action) == "stop an agent for 5s");
  CHECK(describe(step_of("stop: {rank: 0, for: 5s}").action) == "stop rank 0 for 5s");
  CHECK(describe(step_of("partition: h01").action) == "partition h01");
  CHECK(describe(step_of("partition: {host: h01, for: 5s}").action) == "partition h01 for 5s");
  CHECK(describe(step_of("heal: h01").action) == "heal h01");
  CHECK(describe(step_of("fill: {host: h01, for: 2s}").action) == "fill the disk of h01 for 2s");
  CHECK(describe(step_of("boot: h01").action) == "boot h01");
  CHECK(describe(step_of("drain: n1").action) == "drain n1");
  CHECK(describe(step_of("undrain: n1").action) == "undrain n1");
  CHECK(describe(step_of("cancel: true").action) == "cancel the job");
}

TEST_CASE("conditions compare step, attempt and state") {
  const auto step = step_of("{when: step >= 20, kill: rank}");
  CHECK(std::get<StepTest>(*step.when).test.text() == ">= 20");
  const auto attempt = step_of("{when: attempt == 1, kill: rank}");
  CHECK(std::get<AttemptTest>(*attempt.when).test.number == 1);
  const auto state = step_of("{when: state != Queued, kill: rank}");
  CHECK(std::get<StateTest>(*state.when).state == "Queued");
  CHECK_FALSE(std::get<StateTest>(*state.when).equal);
  const auto checkpoint = step_of("{when: checkpoint, after: 1s..4s, kill: rank}");
  CHECK(std::holds_alternative<CheckpointCommitted>(*checkpoint.when));
  CHECK(std::holds_alternative<SaveBegun>(*step_of("{when: saving, kill: rank}").when));
  CHECK(std::holds_alternative<OutputBegun>(*step_of("{when: output, kill: rank}").when));
  CHECK(checkpoint.after.most == Seconds{4});
}

TEST_CASE("a wrong key is named with its place and what was meant") {
  CHECK(findings_of_step("kil: rank").find("5:5: ") != std::string::npos);
  CHECK(findings_of_step("kil: rank").find("did you mean 'kill'?") != std::string::npos);
  CHECK(findings_of_step("{when: stepp >= 2, kill: rank}").find("did you mean 'step'?") !=
        std::string::npos);
  CHECK(findings_of_step("{when: state == Runing, kill: rank}").find("did you mean 'Running'?") !=
        std::string::npos);
  CHECK(findings_of_step("kill: {rank: 0, signal: TREM}").find("did you mean 'TERM'?") !=
        std::string::npos);
  CHECK(findings_of_step("kill: contoller").find("did you mean 'controller'?") !=
        std::string::npos);
  CHECK(findings(read("job: a.yml\nexpct: {}\n")).find("did you mean 'expect'?") !=
        std::string::npos);
}

TEST_CASE("a step that cannot be played is refused") {
  CHECK(findings_of_step("after: 3s").find("a step needs an action") != std::string::npos);
  CHECK(findings_of_step("{kill: rank, cancel: true}").find("one action") != std::string::npos);
  CHECK(findings_of_step("{when: step 20, kill: rank}").find("step >= 2") != std::string::npos);
  CHECK(findings_of_step("{after: 4s..1s, kill: rank}").find("1s..4s") != std::string::npos);
  CHECK(findings_of_step("kill: {rank: 0, agent: n1}").find("one of them") != std::string::npos);
  CHECK(findings_of_step("kill:").find("expected what to kill") != std::string::npos);
  CHECK(findings_of_step("stop: {rank: 0}").find("for") != std::string::npos);
  CHECK(findings(read("job: a.yml\nexpect: {log_counts: tick}\n")).find("{n}") !=
        std::string::npos);
  CHECK(findings(read("steps: []\n")).find("job") != std::string::npos);
}

TEST_CASE("hosts are only broken by a drill that has its own") {
  const DrillFile file = read("job: a.yml\nexpect: {}\nsteps:\n  - crash: h01\n");
  CHECK(findings(file).find("add 'sandbox: {hosts: 3}'") != std::string::npos);
  CHECK(findings(read("job: a.yml\nexpect: {}\nsteps:\n  - kill: agent\n")) == "");
}

TEST_CASE("the help shows every key that can be written") {
  CommandLine line(sandbox_program);
  add_drill(line);
  const std::string help = line.parse({"drill", "--help"}).text;
  for (const char* key : {"job:",
                          "set:",
                          "sandbox:",
                          "seed:",
                          "limit:",
                          "steps:",
                          "when:",
                          "after:",
                          "expect:",
                          "kill:",
                          "stop:",
                          "partition:",
                          "heal:",
                          "crash:",
                          "boot:",
                          "drain:",
                          "undrain:",
                          "cancel:",
                          "status:",
                          "exit_code:",
                          "attempts:",
                          "explain:",
                          "no_process_left:",
                          "outputs_equal:",
                          "log_counts:",
                          "private_home:",
                          "home_mib:",
                          "fill:"}) {
    const std::string bare = std::string(key).substr(0, std::string(key).size() - 1);
    CHECK(help.find(bare) != std::string::npos);
  }
}

}  // namespace
}  // namespace muster
