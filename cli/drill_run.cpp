#include "cli/drill_run.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "cli/client/find.h"
#include "cli/client/interrupt.h"
#include "cli/client/start.h"
#include "cli/drill_hands.h"
#include "cli/drill_processes.h"
#include "cli/drill_sight.h"
#include "cli/job/missing_program.h"
#include "cli/job/submission.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "launcher/sandbox/requirements.h"
#include "launcher/sandbox/sandbox.h"
#include "scheduler/explain/explain.h"
#include "scheduler/explain/summary.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

constexpr int interrupted = 130;

// How fine the times of a drill are.
constexpr Milliseconds look_pause{20};
// A step that is due and finds nothing to hit is tried again for so long: between two attempts
// there is no rank, and after a kill no controller.
constexpr Milliseconds hit_limit{60000};
// Cancelling a job that ran too long takes its stop grace and, at worst, the lease.
constexpr Milliseconds cancel_limit{180000};

constexpr std::string_view hosts_folder = "drill-";  // and the process that plays the drill

// Hosts of drills that were killed.
void sweep_hosts() {
  std::error_code ignored;
  std::vector<std::filesystem::path> dead;
  for (const auto& entry : std::filesystem::directory_iterator(sandbox_root, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(hosts_folder)) continue;
    const auto player = std::strtol(name.c_str() + hosts_folder.size(), nullptr, 10);
    if (player > 0 && !read_process(static_cast<pid_t>(player))) dead.push_back(entry.path());
  }
  for (const auto& folder : dead) (void)sandbox_down(SandboxLayout(folder));
}

// Hosts of the drill's own, for as long as this object lives.
class DrillHosts {
 public:
  DrillHosts()
      : layout_(std::filesystem::path(sandbox_root) /
                (std::string(hosts_folder) + std::to_string(::getpid()))) {}
  ~DrillHosts() { (void)sandbox_down(layout_); }
  DrillHosts(const DrillHosts&) = delete;

  Status up(const DrillSandbox& wanted) {
    widen_path();
    sweep_hosts();
    SandboxRequest request;
    request.hosts = wanted.hosts;
    request.private_home = wanted.private_home;
    request.home_mib = wanted.home_mib;
    InterruptWatch watch;
    return sandbox_up(layout_, request, [&] { return watch.take(); });
  }
  const SandboxLayout& layout() const { return layout_; }

 private:
  SandboxLayout layout_;
};

// One run of the job, with the steps of the drill or without.
class DrilledRun {
 public:
  DrilledRun(const Home& home, JobId job, const CommonOptions& common, Milliseconds limit)
      : home_(home), job_(job), common_(common), limit_(limit), sight_(home, job, common) {}

  // The end of the job, whatever it was. An Error: it could not be followed, or had to be
  // cancelled.
  Result<Ended> calm() {
    while (!sight_.ended()) {
      if (auto seen = look(); !seen) return give_up(seen.error());
    }
    return *sight_.ended();
  }

  Result<Ended> disturbed(const std::vector<DrillStep>& steps, DrillHands& hands, DrillDice& dice,
                          std::vector<DrilledStep>& outcomes) {
    DrillPlayer player(steps, dice);
    for (const DrillStep& step : steps) {
      if (step.when && std::holds_alternative<SaveBegun>(*step.when)) sight_.watch_saves();
    }
    while (!sight_.ended()) {
      if (auto seen = look(); !seen) return give_up(seen.error());
      hands.undo_what_is_due(sight_.elapsed());
      const DrillStep* step = player.due(sight_.view());
      if (step != nullptr && !sight_.ended()) try_step(*step, player, hands, outcomes);
    }
    for (std::size_t i = player.done_count(); i < steps.size(); ++i) {
      outcomes.push_back({steps[i].line, describe(steps[i].action), std::nullopt,
                          "the job was over before", false});
    }
    return *sight_.ended();
  }

 private:
  Status look() {
    if (watch_.take()) return Error{"interrupted"};
    if (sight_.elapsed() > limit_) {
      return Error{"job " + job_.value + " has not ended within " + elapsed_text(limit_)};
    }
    return sight_.look(look_pause);
  }

  void try_step(const DrillStep& step, DrillPlayer& player, DrillHands& hands,
                std::vector<DrilledStep>& outcomes) {
    const Milliseconds now = sight_.elapsed();
    if (!due_since_) due_since_ = now;
    const auto hit = hands.perform(step.action, now);
    if (hit && !*hit && now - *due_since_ < hit_limit) return;
    const bool done = hit && *hit;
    const std::string outcome = !hit   ? hit.error().message
                                : *hit ? **hit
                                       : "there was nothing to hit";
    outcomes.push_back({step.line, describe(step.action), now, outcome, done});
    notice(elapsed_text(now) + ": " + describe(step.action) + ": " + outcome, common_);
    due_since_.reset();
    player.done();
  }

  // A drill that stops leaves no job behind.
  Error give_up(const Error& why) {
    (void)ask_controller(home_, Cancel{job_, Milliseconds{0}}, common_);
    const Milliseconds until = sight_.elapsed() + cancel_limit;
    while (!sight_.ended() && sight_.elapsed() < until && sight_.look(look_pause)) {
    }
    return Error{why.message + (sight_.ended() ? "; it was cancelled" : "; it may still run")};
  }

  const Home& home_;
  JobId job_;
  const CommonOptions& common_;
  Milliseconds limit_;
  DrillSight sight_;
  InterruptWatch watch_;
  std::optional<Milliseconds> due_since_;
};

std::string unique_name(const std::string& file) {
  std::string name = "drill-";
  for (const char c : std::filesystem::path(file).stem().string()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += plain ? c : '-';
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return name + "-" + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

std::uint64_t seed_of(const Drill& drill, const DrillOptions& options) {
  if (options.seed) return static_cast<std::uint64_t>(*options.seed);
  if (drill.seed) return *drill.seed;
  return std::random_device()() % 1000000;  // short enough to be typed again
}

Submitted submit(const Home& home, const Drill& drill, const std::string& name,
                 const CommonOptions& common) {
  SubmitRequest request;
  request.check.path = drill.job;
  request.check.sets = drill.sets;
  if (drill.sandbox) request.check.sets.push_back(std::string("compute=") + sandbox_target);
  request.name = name;
  return submit_job(home, request, common);
}

Result<DrillFacts> gather(const Home& home, const Ended& ended) {
  DrillFacts facts;
  facts.status = ended.state;
  facts.exit_code = ended.exit_code;
  for (const ProcessInfo& each : job_processes(ended.job))
    facts.leftovers.push_back(describe(each));
  const auto found = open_job(home, ended.job.value);
  if (!found) return found.error();
  const auto records = found->store->records_of(ended.job);
  if (!records) return records.error();
  facts.attempts = static_cast<std::int64_t>(summarize(*records).attempts.size());
  facts.explain = explain_text(*records);
  facts.job = home.job(ended.job);
  return facts;
}

// What became of the job of a drill that failed, in short.
void tell_story(const Home& home, const JobId& job, const CommonOptions& common) {
  const auto found = open_job(home, job.value);
  const auto records = found ? found->store->records_of(job) : found.error();
  if (!records) return;
  notice("what happened (muster explain --brief " + job.value + "):", common);
  std::vector<std::string> lines = explain_text(*records, true);
  lines.push_back(missing_program_text(*records, find_here));
  for (const std::string& line : lines) {
    if (!line.empty()) write_all(Stream::err, printable(line) + "\n");
  }
}

int told(const Error& error, const CommonOptions& common) {
  complain(error.message, common);
  return error.message.starts_with("interrupted") ? interrupted : plain_failure;
}

// The undisturbed run; 0 when it went well.
int run_calmly(const Home& home, const Drill& drill, const std::string& name,
               const CommonOptions& common) {
  notice("undisturbed run " + name, common);
  const Submitted calm = submit(home, drill, name, common);
  if (!calm.job) return calm.exit_code;
  const auto ended = DrilledRun(home, *calm.job, common, drill.limit).calm();
  if (ended && ended->exit_code == 0) return 0;
  tell_story(home, *calm.job, common);
  if (!ended) return told(ended.error(), common);
  complain("the undisturbed run " + name + " " + ended->state + ": " + ended->reason +
               "; a drill needs a job that works when it is left alone",
           common);
  return plain_failure;
}

DrillOutcome play(const Drill& drill, const DrillOptions& options,
                  const std::optional<SandboxLayout>& sandbox, const CommonOptions& common) {
  const Home home = Home::from_environment();
  DrillReport report;
  report.seed = seed_of(drill, options);
  report.sandbox = sandbox.has_value();
  report.job = options.name.empty() ? unique_name(options.file) : options.name;
  if (drill.expect.outputs_equal) {
    report.calm_job = report.job + "-calm";
    const int outcome = run_calmly(home, drill, report.calm_job, common);
    if (outcome != 0) return {std::nullopt, outcome};
  }
  notice("disturbed run " + report.job + ", seed " + std::to_string(report.seed), common);
  const Submitted submitted = submit(home, drill, report.job, common);
  if (!submitted.job) return {std::nullopt, submitted.exit_code};
  DrillDice dice(report.seed);
  DrillHands hands({home, *submitted.job, common, sandbox}, dice);
  const auto ended = DrilledRun(home, *submitted.job, common, drill.limit)
                         .disturbed(drill.steps, hands, dice, report.steps);
  if (!ended) tell_story(home, *submitted.job, common);
  if (!ended) return {std::nullopt, told(ended.error(), common)};
  auto facts = gather(home, *ended);
  if (!facts) return {std::nullopt, told(facts.error(), common)};
  if (!report.calm_job.empty()) facts->calm = home.job(JobId{report.calm_job});
  report.verdicts = judge(drill.expect, *facts);
  const int exit_code = report.passed() ? 0 : plain_failure;
  if (exit_code != 0) tell_story(home, *submitted.job, common);
  return {std::move(report), exit_code};
}

}  // namespace

DrillOutcome run_drill(const Drill& drill, const DrillOptions& options,
                       const CommonOptions& common) {
  if (!drill.sandbox) return play(drill, options, std::nullopt, common);
  if (!is_administrator()) {
    complain("this drill makes hosts of its own, which needs root; run it with sudo", common);
    return {std::nullopt, plain_failure};
  }
  DrillHosts hosts;
  notice("making " + std::to_string(drill.sandbox->hosts) + " hosts", common);
  if (const auto up = hosts.up(*drill.sandbox); !up) {
    return {std::nullopt, told(up.error(), common)};
  }
  CommonOptions here = common;
  here.cluster_files = {hosts.layout().cluster_file().string()};
  return play(drill, options, hosts.layout(), here);
}

}  // namespace muster
