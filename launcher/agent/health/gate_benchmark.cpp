#include "launcher/agent/health/gate_benchmark.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "health/benchmark/plan.h"
#include "health/benchmark/samples.h"
#include "health/benchmark/tools/tools.h"
#include "health/read/tool_process.h"
#include "launcher/agent/node/log.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/fields.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// Of the program beside its probes, and for more devices than were expected.
constexpr std::chrono::seconds margin{120};
// Of the child that kills it then.
constexpr std::chrono::seconds child_margin{10};
constexpr const char* figures_file = "/measured.json";
constexpr const char* profile_file = "/measured-profile.yml";
// Before what the program complains of.
constexpr std::string_view complaint_prefix = "muster: ";
// A child says first whether the program answered, said at once that it cannot, or did not do it.
constexpr char answered = '+';
constexpr char refused = '-';
constexpr char hung = '!';
// Of `muster health benchmark` on a host that is not idle.
constexpr int code_of_refusal = 3;

// 1 had no errors: what could not be had was taken for measured. 2 did not know what was measured
// twice.
constexpr int saved_version = 3;
// What is bad, and good the next time, shall show which it is.
constexpr int runs_most = 3;

struct SavedFigures {
  std::string boot_id;
  std::vector<GateFigure> figures;

  MUSTER_FIELDS(boot_id, figures)
};

std::chrono::milliseconds now_since_boot() {
  return std::chrono::milliseconds(boot_ms());
}

std::string complaint_in(std::string_view text) {
  const std::string line = last_tool_line(text);
  return line.starts_with(complaint_prefix) ? line.substr(complaint_prefix.size()) : line;
}

// What the program needs of the profile: which devices there are. JSON is read as YAML.
std::string profile_text(const HealthProfile& profile) {
  Json json{{"profile", "gate"}};
  if (profile.gpu.count) json["gpu"]["count"] = *profile.gpu.count;
  if (!profile.ib.ports.empty()) json["ib"]["ports"] = profile.ib.ports;
  for (const CheckExclusion& one : profile.exclude) {
    Json exclusion{{"check", one.check}};
    if (!one.device.empty()) exclusion["device"] = one.device;
    json["exclude"].push_back(std::move(exclusion));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// In a child of the agent. What it starts is no process of any attempt.
std::string run_program(const std::vector<std::string>& argv, std::chrono::seconds limit) {
  ::setsid();  // by which the agent knows when all of it is gone
  ::setenv(token_name, "health", 1);
  const ToolRun run = ToolProcess(argv).wait(Clock::now() + limit);
  if (run.output.starts_with('{')) return answered + run.output;
  const std::string said = complaint_in(run.errors);
  const std::string ended = run.exit_code
                                ? "it ended with " + std::to_string(*run.exit_code)
                                : "it took more than " + std::to_string(limit.count()) + " s";
  const bool is_refused = run.exit_code == code_of_refusal;
  return (is_refused ? refused : hung) + (said.empty() ? ended : said);
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  return found->get<std::string>();
}

PerformanceSample read_figure(const Json& in) {
  require(in.is_object(), "a metric is no object");
  PerformanceSample sample;
  sample.metric = text_at(in, "metric");
  sample.device = text_at(in, "device");
  sample.error = text_at(in, "error");
  require(find_performance_metric(sample.metric) != nullptr, "a metric has no known name");
  const Json& value = in.at("value");
  if (value.is_null()) return sample;
  require(value.is_number(), "a metric is no number");
  sample.value = value.get<double>();
  require(std::isfinite(*sample.value) && *sample.value >= 0, "a metric is no number");
  return sample;
}

}  // namespace

GateBenchmark::GateBenchmark(ChildTasks& tasks, EndingSessions& ending, Site site)
    : tasks_(tasks), site_(std::move(site)), ending_(ending) {
  load();
}

void GateBenchmark::ask(const AttemptKey& attempt, Wanted wanted, Done done,
                        std::string hindrance) {
  const auto same = std::ranges::find(questions_, attempt, &Question::attempt);
  if (same != questions_.end()) {
    same->done = std::move(done);
    return;
  }
  ProbePlan plan = gate_plan(wanted.profile, wanted.choice);
  questions_.push_back({attempt, std::move(wanted), std::move(plan), std::move(done),
                        std::move(hindrance), boot_time() + gate_measuring_limit});
  poll();
}

bool GateBenchmark::is_asked(const AttemptKey& attempt) const {
  return std::ranges::find(questions_, attempt, &Question::attempt) != questions_.end();
}

void GateBenchmark::leave(const AttemptKey& attempt) {
  const bool was_first = !questions_.empty() && questions_.front().attempt == attempt;
  std::erase_if(questions_, [&](const Question& one) { return one.attempt == attempt; });
  if (!was_first) return;
  end_run();
  poll();
}

void GateBenchmark::job_comes(const JobId& job) {
  if (questions_.empty()) return;
  const AttemptKey first = questions_.front().attempt;
  std::erase_if(questions_, [&](const Question& one) { return one.attempt.job != job; });
  if (first.job != job) end_run();
}

void GateBenchmark::ranks_begin() {
  while (!questions_.empty()) answer("ranks began there");
}

void GateBenchmark::end() {
  questions_.clear();
  end_run();
}

void GateBenchmark::faults_fixed() {
  figures_.clear();
  save();
}

std::optional<pid_t> GateBenchmark::session() const {
  return run_ && session_ != 0 ? std::optional(session_) : std::nullopt;
}

// ---- one question after the other -------------------------------------------------------------

void GateBenchmark::give_back() {
  if (!run_ && ending_.are_gone()) claim_.give_back();
}

void GateBenchmark::poll() {
  give_back();
  while (!questions_.empty() && !run_) {
    Question& first = questions_.front();
    auto due = first.doubted;
    if (due.empty()) {
      due = probes_due(first.wanted.profile, first.plan, believed(first), now_since_boot());
    }
    const std::string hindrance = due.empty() ? "" : blocking_reason(first);
    if (due.empty() || !hindrance.empty()) {
      answer(hindrance);
    } else if (!measure(first, std::move(due))) {
      return;
    }
  }
}

std::string GateBenchmark::blocking_reason(const Question& question) const {
  if (!question.hindrance.empty()) return question.hindrance;
  if (question.runs >= runs_most) return "it is bad one time and good the next";
  if (boot_time() < question.until) return ending_.hung();
  return question.runs > 0 ? "there was no time for it"
                           : "another agent of the host measured all the time" + claim_.whose();
}

bool GateBenchmark::measure(Question& question, std::vector<std::string> probes) {
  if (!ending_.are_gone() || !claim_.take()) return false;
  // They have just been waited for, and for long enough.
  if (!ending_.hung().empty()) return false;
  ++question.runs;
  ProbePlan plan = question.plan;
  keep_only(plan, probes);
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(question.until - boot_time());
  const auto wanted =
      std::min<std::chrono::seconds>(longest_time_of(plan) + margin, gate_measuring_limit);
  const auto limit = std::min(wanted, left);
  is_cut_ = left + std::chrono::seconds(1) < wanted;
  const std::string profile = site_.directory + profile_file;
  if (!replace_file(profile, profile_text(question.wanted.profile), 0600, Durable::in_cache)) {
    log_line("cannot write " + profile);
  }
  std::vector<std::string> argv = site_.program;
  for (const char* word : {"health", "benchmark", "--output=json", "--color=never",
                           "--only-show-errors", "--no-state", "--gate", "--no-base-profile"}) {
    argv.emplace_back(word);
  }
  argv.push_back("--profile=" + profile);
  for (const std::string& probe : probes) argv.push_back("--only=" + probe);
  log_line("measures " + std::to_string(probes.size()) + " benchmarks for the gate of " +
           question.attempt.job.value + ", for " + std::to_string(limit.count()) + " s at most");
  run_ = tasks_.run([argv, limit](const ChildTasks::Tell&) { return run_program(argv, limit); },
                    std::chrono::duration_cast<Milliseconds>(limit + child_margin),
                    [this, number = ++runs_](const Result<std::string>& said) {
                      // One that was ended says so late: nobody waits for it then.
                      if (run_ && number == runs_) measured(said);
                    });
  session_ = tasks_.process_of(*run_);
  return true;
}

void GateBenchmark::measured(const Result<std::string>& said) {
  run_.reset();
  if (session_ != 0) ending_.add(session_);  // it may have killed a probe
  if (said && said->starts_with(answered)) {
    if (take(said->substr(1)) && questions_.front().doubted.empty()) answer("");
  } else {
    const std::string why = said ? said->substr(1) : said.error().message;
    if (!is_cut_ && said && said->starts_with(hung)) miss(why);
    answer(why);
  }
  poll();
}

// What a failure has shown to be wrong is not in figures from before it.
std::vector<GateFigure> GateBenchmark::believed(const Question& question) const {
  std::vector<GateFigure> figures = figures_;
  if (const auto& since = question.wanted.since) {
    std::erase_if(figures, [&](const GateFigure& one) { return one.at < *since; });
  }
  return figures;
}

bool GateBenchmark::take(const std::string& text) {
  const auto measured = read_measured(text);
  if (!measured) {
    const std::string why = "what it wrote cannot be read: " + measured.error().message;
    miss(why);
    answer(why);
    return false;
  }
  Question& first = questions_.front();
  const HealthProfile& profile = first.wanted.profile;
  auto taken = figures_taken(profile, believed(first), *measured, now_since_boot());
  for (const GateFigure& one : taken) {
    std::erase_if(figures_, [&](const GateFigure& known) {
      return known.sample.metric == one.sample.metric;
    });
  }
  std::ranges::move(taken, std::back_inserter(figures_));
  first.doubted = probes_doubted(profile, first.plan, believed(first));
  return true;
}

// The next gates need not wait as long for the same. A host that is not idle says so at once, and
// may be idle then.
void GateBenchmark::miss(const std::string& why) {
  const Question& first = questions_.front();
  const auto now = now_since_boot();
  const auto due = probes_due(first.wanted.profile, first.plan, believed(first), now);
  std::erase_if(figures_, [&](const GateFigure& one) { return now - one.at > figures_keep; });
  for (const PlannedProbe& probe : first.plan.probes) {
    if (std::ranges::find(due, probe.spec->name) == due.end()) continue;
    for (const std::string& metric : probe.metrics) {
      std::erase_if(figures_, [&](const GateFigure& one) {
        return one.sample.metric == metric && !one.sample.value;
      });
      figures_.push_back({{metric, "", std::nullopt, why}, now});
    }
  }
}

// The reason is a copy: it may be the hindrance of the question that goes here.
void GateBenchmark::answer(std::string why_not_measured) {
  end_run();
  const Question question = std::move(questions_.front());
  questions_.pop_front();
  std::vector<GateFigure> figures = believed(question);
  if (!why_not_measured.empty()) {
    log_line("not measured for the gate of " + question.attempt.job.value + ": " +
             why_not_measured);
    add_unmeasured(figures, question, why_not_measured);
  }
  save();
  question.done(judge_gate_figures(question.wanted.profile, question.plan, figures));
}

// What was found lately still counts: a slow node does not get fast by being busy.
void GateBenchmark::add_unmeasured(std::vector<GateFigure>& figures, const Question& question,
                                   const std::string& why) {
  const auto now = now_since_boot();
  std::erase_if(figures, [&](const GateFigure& one) { return now - one.at > figures_keep; });
  give_up_doubted(figures, question.wanted.profile, why);
  for (const PlannedProbe& probe : question.plan.probes) {
    for (const std::string& metric : probe.metrics) {
      const bool is_known = std::ranges::any_of(
          figures, [&](const GateFigure& one) { return one.sample.metric == metric; });
      if (!is_known) figures.push_back({{metric, "", std::nullopt, why}, now});
    }
  }
}

void GateBenchmark::end_run() {
  if (!run_) return;
  tasks_.stop(*std::exchange(run_, std::nullopt));
  if (session_ != 0) ending_.add(session_);
}

// ---- what is known of this boot ---------------------------------------------------------------

void GateBenchmark::load() {
  const std::string text = text_of_file(site_.directory + figures_file);
  if (text.empty()) return;
  auto saved = read_versioned_json<SavedFigures>(text, saved_version);
  if (!saved) return log_line("metrics of earlier gates are lost: " + saved.error().message);
  if (saved->boot_id != site_.boot_id) return;
  figures_ = std::move(saved->figures);
  std::erase_if(figures_, [](const GateFigure& one) {
    return find_performance_metric(one.sample.metric) == nullptr;
  });
}

void GateBenchmark::save() const {
  const std::string text = versioned_json(SavedFigures{site_.boot_id, figures_}, saved_version);
  if (!replace_file(site_.directory + figures_file, text, 0600, Durable::in_cache)) {
    log_line("cannot write " + site_.directory + figures_file);
  }
}

Result<std::vector<PerformanceSample>> read_measured(std::string_view text) {
  try {
    const Json document = Json::parse(text);
    require(document.is_object(), "it is no object");
    const Json& list = document.at("figures");
    require(list.is_array() && list.size() <= probe_samples_max, "its metrics are no list");
    std::vector<PerformanceSample> samples;
    for (const Json& one : list) samples.push_back(read_figure(one));
    return samples;
  } catch (const std::exception& wrong) {
    return Error{wrong.what()};
  }
}

}  // namespace muster
