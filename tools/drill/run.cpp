#include "tools/drill/run.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>

#include "cli/client/find.h"
#include "cli/client/follow.h"
#include "cli/client/start.h"
#include "cli/job/submission.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/controller/store/store.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "scheduler/explain/explain.h"
#include "scheduler/explain/summary.h"
#include "scheduler/text/duration.h"
#include "tools/drill/fault_injector.h"
#include "tools/drill/processes.h"
#include "tools/sandbox/requirements.h"
#include "tools/sandbox/sandbox.h"

namespace muster {

namespace {

// How fine the times of a drill are.
constexpr Milliseconds look_pause{20};
// A step that is due and finds nothing to hit is tried again for so long: between two attempts
// there is no rank, and after a kill no controller.
constexpr Milliseconds hit_limit{60000};
// Cancelling a job that ran too long takes its stop grace and, at worst, the lease.
constexpr Milliseconds cancel_limit{180000};

// A drill kills controllers; one that cannot be had so often in a row is broken otherwise.
constexpr int drill_reconnect_limit = 5;

// The job as the drill sees it: watched through the controller, which is started again when it is
// gone, as the next command of a person would do.
class Observer {
 public:
  // The job has been queued, now.
  Observer(const Home& home, JobId job, const CommonOptions& common);

  // From then on the view has the newest save; a look costs more.
  void watch_saves() { watches_saves_ = true; }
  // Waits for news, at most `pause`. The Error: the job cannot be followed any more.
  Status look(Milliseconds pause);
  const DrillView& view() const { return view_; }
  const std::optional<Ended>& ended() const { return ended_; }
  // Since the job was queued.
  Milliseconds elapsed() const;

 private:
  Status connect();
  void take(const FromController& message);
  void look_for_output();
  void look_for_saves();

  const Home& home_;
  JobId job_;
  const CommonOptions& common_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::unique_ptr<Store> store_;
  std::optional<ControllerClient> client_;
  DrillView view_;
  bool watches_saves_ = false;
  std::string checkpoints_;  // of the rank last found, as this process sees it; empty: none
  std::optional<Ended> ended_;
  std::optional<Error> lost_;
  int failures_ = 0;  // to connect, in a row
};

Observer::Observer(const Home& home, JobId job, const CommonOptions& common)
    : home_(home), job_(std::move(job)), common_(common) {}

Milliseconds Observer::elapsed() const {
  return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begun_);
}

// One that dies in the middle of this is met by the next look; one that dies each time is not.
Status Observer::connect() {
  auto client = ensure_controller(home_, common_);
  if (!client && ++failures_ > drill_reconnect_limit) return client.error();
  if (!client) return Done{};
  client_.emplace(std::move(*client));
  if (!client_->send(Watch{job_})) client_.reset();
  return Done{};
}

void Observer::take(const FromController& message) {
  failures_ = 0;
  if (const auto* event = std::get_if<JobEvent>(&message)) {
    if (view_.attempt != event->attempt) {
      view_.step.reset();
      view_.has_output = false;
    }
    view_.attempt = event->attempt;
    if (event->step) view_.step = event->step;
  } else if (const auto* ended = std::get_if<Ended>(&message)) {
    ended_ = *ended;
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    lost_ = Error{refused->message};
  }
}

void Observer::look_for_output() {
  if (view_.has_output || !view_.attempt) return;
  std::error_code none;
  for (const auto& file :
       std::filesystem::directory_iterator(home_.attempt(job_, AttemptId{*view_.attempt}), none)) {
    if (file.path().extension() == ".log" && file.file_size(none) > 0) view_.has_output = true;
  }
}

void Observer::look_for_saves() {
  std::error_code error;
  std::filesystem::directory_iterator folder(checkpoints_, error);
  if (error) {
    checkpoints_ = checkpoints_of(job_);
    folder = std::filesystem::directory_iterator(checkpoints_, error);
  }
  for (const auto& entry : folder) {
    const std::string name = entry.path().filename().string();
    if (parse_checkpoint_directory_name(name)) view_.save = std::max(view_.save, name);
  }
}

Status Observer::look(Milliseconds pause) {
  if (!client_) {
    if (auto connected = connect(); !connected) return connected;
  }
  auto wait = pause;
  while (client_ && !ended_ && !lost_) {
    const auto message = client_->receive(wait);
    if (!message) client_.reset();
    if (!message || !*message) break;
    take((*message)->message);
    wait = Milliseconds{0};
  }
  if (lost_) return *lost_;
  if (!store_) {
    if (auto found = open_job(home_, job_.value)) store_ = std::move(found->store);
  }
  if (const auto row = store_ ? store_->job(job_) : Result<std::optional<JobRow>>(std::nullopt);
      row && *row) {
    view_.state = (*row)->state;  // events come only with something to tell
    view_.checkpoint = (*row)->checkpoint_step;
  }
  look_for_output();
  if (watches_saves_) look_for_saves();
  view_.now = elapsed();
  return Done{};
}

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
      : home_(home), job_(job), common_(common), limit_(limit), observer_(home, job, common) {}

  // The end of the job, whatever it was. An Error: it could not be followed, or had to be
  // cancelled.
  Result<Ended> reference() {
    while (!observer_.ended()) {
      if (auto seen = look(); !seen) return give_up(seen.error());
    }
    return *observer_.ended();
  }

  Result<Ended> disturbed(const std::vector<DrillStep>& steps, FaultInjector& injector,
                          DrillDice& dice, std::vector<DrilledStep>& outcomes) {
    DrillPlayer player(steps, dice);
    for (const DrillStep& step : steps) {
      if (step.when && std::holds_alternative<SaveBegun>(*step.when)) observer_.watch_saves();
    }
    while (!observer_.ended()) {
      if (auto seen = look(); !seen) return give_up(seen.error());
      injector.undo_what_is_due(observer_.elapsed());
      const DrillStep* step = player.due(observer_.view());
      if (step != nullptr && !observer_.ended()) try_step(*step, player, injector, outcomes);
    }
    for (std::size_t i = player.done_count(); i < steps.size(); ++i) {
      outcomes.push_back({steps[i].line, describe(steps[i].action), std::nullopt,
                          "the job was over before", false});
    }
    return *observer_.ended();
  }

 private:
  Status look() {
    if (watch_.take()) return Error{"interrupted"};
    if (observer_.elapsed() > limit_) {
      return Error{"job " + job_.value + " has not ended within " + elapsed_text(limit_)};
    }
    return observer_.look(look_pause);
  }

  void try_step(const DrillStep& step, DrillPlayer& player, FaultInjector& injector,
                std::vector<DrilledStep>& outcomes) {
    const Milliseconds now = observer_.elapsed();
    if (!due_since_) due_since_ = now;
    const auto hit = injector.perform(step.action, now);
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
    const Milliseconds until = observer_.elapsed() + cancel_limit;
    while (!observer_.ended() && observer_.elapsed() < until && observer_.look(look_pause)) {
    }
    return Error{why.message + (observer_.ended() ? "; it was cancelled" : "; it may still run")};
  }

  const Home& home_;
  JobId job_;
  const CommonOptions& common_;
  Milliseconds limit_;
  Observer observer_;
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
void report_story(const Home& home, const JobId& job, const CommonOptions& common) {
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

int complain_of(const Error& error, const CommonOptions& common) {
  print_error(error.message, common);
  return error.message.starts_with("interrupted") ? interrupted_exit_code : plain_failure;
}

// The reference run; 0 when it went well.
int run_reference(const Home& home, const Drill& drill, const std::string& name,
                  const CommonOptions& common) {
  notice("reference run " + name, common);
  const Submitted reference = submit(home, drill, name, common);
  const auto ended = DrilledRun(home, reference.job, common, drill.limit).reference();
  if (ended && ended->exit_code == 0) return 0;
  report_story(home, reference.job, common);
  if (!ended) return complain_of(ended.error(), common);
  print_error("the reference run " + name + " " + ended->state + ": " + ended->reason +
                  "; fault injection needs a job that works without faults",
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
    const int outcome = run_reference(home, drill, report.calm_job, common);
    if (outcome != 0) return {std::nullopt, outcome};
  }
  notice("disturbed run " + report.job + ", seed " + std::to_string(report.seed), common);
  const Submitted submitted = submit(home, drill, report.job, common);
  DrillDice dice(report.seed);
  FaultInjector injector({home, submitted.job, common, sandbox}, dice);
  const auto ended = DrilledRun(home, submitted.job, common, drill.limit)
                         .disturbed(drill.steps, injector, dice, report.steps);
  if (!ended) report_story(home, submitted.job, common);
  if (!ended) return {std::nullopt, complain_of(ended.error(), common)};
  auto facts = gather(home, *ended);
  if (!facts) return {std::nullopt, complain_of(facts.error(), common)};
  if (!report.calm_job.empty()) facts->calm = home.job(JobId{report.calm_job});
  report.verdicts = judge(drill.expect, *facts);
  const int exit_code = report.passed() ? 0 : plain_failure;
  if (exit_code != 0) report_story(home, submitted.job, common);
  return {std::move(report), exit_code};
}

}  // namespace

DrillOutcome run_drill(const Drill& drill, const DrillOptions& options,
                       const CommonOptions& common) {
  if (const std::string muster = muster_program(); ::access(muster.c_str(), X_OK) != 0) {
    print_error("there is no " + muster + "; install muster beside muster-sandbox", common);
    return {std::nullopt, plain_failure};
  }
  if (!drill.sandbox) return play(drill, options, std::nullopt, common);
  if (!is_administrator()) {
    print_error("this file simulates hosts, which needs root; run it with sudo", common);
    return {std::nullopt, plain_failure};
  }
  DrillHosts hosts;
  notice("making " + std::to_string(drill.sandbox->hosts) + " hosts", common);
  if (const auto up = hosts.up(*drill.sandbox); !up) {
    return {std::nullopt, complain_of(up.error(), common)};
  }
  CommonOptions here = common;
  here.cluster_files = {hosts.layout().cluster_file().string()};
  return play(drill, options, hosts.layout(), here);
}

}  // namespace muster
