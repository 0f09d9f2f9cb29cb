// `muster-sandbox drill FILE`: does the job survive the faults that the file injects?
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/client/targets.h"
#include "cli/job/submission.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "scheduler/model/exit_code.h"
#include "templates/yaml/reader.h"
#include "tools/drill/run.h"
#include "tools/verbs.h"

namespace muster {

namespace {

constexpr const char* drill_format = R"(The file:
  job: train.yml              the job; a path from this file on
  set: [a.b=value]            as --set of `muster run`
  sandbox: {hosts: 3}         hosts of its own, where the job then runs; also
                              private_home: true, home_mib: 1100 (for `fill`; jobs need 1024 free)
  seed: 7                     of everything random; chosen and printed
  limit: 10m                  the job must have ended by then
  steps:                      one after the other, each:
    - when: step >= 20        also attempt, state == Running, checkpoint (a new one is committed),
                              saving (muster-train begins to write a new one), output (the
                              attempt's first byte)
      after: 1s..4s           a pause from then on, or from the step before; drawn, or fixed: 3s
      kill: {rank: 1}         and one action
  expect:                     what must hold when the job is over

Actions:
  kill: {rank: R, signal: TERM}  the first process of a rank; default KILL
  kill: {agent: NODE}            the agent of a node
  kill: {connection: NODE}       the sshd that the controller speaks to there
  kill: {controller: true}       also, for one that is drawn, `kill: rank` and so on
  stop: {rank: R, for: 5s}       SIGSTOP, then SIGCONT; also an agent, a connection, the controller
  partition: {host: H, for: 5s}  disconnect it; also `partition: H`, until `heal: H`
  crash: H, boot: H              power a host off and on
  fill: {host: H, for: 5s}       no space in the home of a host; also `fill: H`
  drain: NODE, undrain: NODE     give a node no new jobs; undone at the end
  cancel: true                   as `muster cancel`
R and NODE may be `random`. A step that finds nothing to hit is tried again for a minute.

Expectations:
  status: Completed              or Failed, Canceled
  exit_code: 0                   a number or a comparison: '>= 2'
  attempts: '>= 2'
  explain: [resumes from step]   each is somewhere in `muster explain`
  no_process_left: true          by the job's name in the environment, on this machine's hosts
  outputs_equal: true            to those of a reference run, done first; or [paths]
  log_counts: 'tick {n}'         in every rank's log such lines count up by one, none lost or twice

Exit code 0: every step was done and every expectation holds; 1: not; 90: the file is wrong.
Files to start from: configs/drills.)";

int drill(const DrillOptions& options, const CommonOptions& common) {
  constexpr int invalid = static_cast<int>(ExitCode::invalid_job);
  const auto text = read_input(options.file, max_file_bytes);
  if (!text) return print_error(text.error().message, invalid, common);
  const ReadOptions reading{std::filesystem::current_path().string(), {}, real_files()};
  const DrillFile file = read_drill(options.file, *text, reading);
  print_findings(file.findings, common);
  if (has_errors(file.findings)) return invalid;
  const DrillOutcome outcome = run_drill(file.drill, options, common);
  if (!outcome.report) return outcome.exit_code;
  if (wants_table(common)) {
    print_drill_report(*outcome.report, common);
    return outcome.exit_code;
  }
  const int printed = print_document(report_document(*outcome.report), common);
  return outcome.exit_code != 0 ? outcome.exit_code : printed;
}

}  // namespace

void add_drill(CommandLine& line) {
  VerbTexts texts{"drill", "Inject faults while a job runs, as a file says, and check the outcome"};
  texts.footer = drill_format;
  line.verb<DrillOptions>(texts, drill, [](Arguments& of, DrillOptions& options) {
    of.argument("FILE", options.file, "Drill file (YAML)");
    of.option("--seed", options.seed, "Of everything random, instead of the file's");
    of.option("--name", options.name, "Name of the job that is disturbed");
  });
}

}  // namespace muster
