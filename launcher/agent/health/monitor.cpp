#include "launcher/agent/health/monitor.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "health/model/check.h"
#include "health/monitor/node_health.h"
#include "health/monitor/node_monitor.h"
#include "health/read/kernel_log.h"
#include "health/read/node_reader.h"
#include "launcher/agent/health/fault_report.h"
#include "launcher/agent/node/log.h"
#include "launcher/os/clocks.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

constexpr std::chrono::seconds save_pause{60};
// For a helper.
constexpr std::chrono::milliseconds shortest_wait{1};
constexpr std::chrono::seconds longest_wait{1};
// Of the kernel's log, at a time: a storm of lines must not hold up the lease.
constexpr int log_parts_most = 4;
// What the driver tells ends the wait for it; a read does not, and waits for a slice. Beside ranks
// that nothing is said against none is in a hurry.
constexpr std::chrono::milliseconds usual_event_slice{100};
constexpr std::chrono::milliseconds calm_event_slice{1000};
// With all sources read so often since the agent knows nothing of before, what fails has failed
// often enough to be believed, and what is not believed is sound.
constexpr int looks_until_settled = usual_samples;
// A driver that hangs does so for a part of the gate's time only.
constexpr NodeReaderLimits reader_limits{std::chrono::milliseconds(2000),
                                         std::chrono::milliseconds(5000),
                                         std::chrono::milliseconds(8000)};

bool has_devices(const std::string& root) {
  std::error_code ignored;
  const std::filesystem::path base(root);
  return std::filesystem::exists(base / "proc/driver/nvidia", ignored) ||
         std::filesystem::exists(base / "sys/class/infiniband", ignored);
}

constexpr int version = 1;

}  // namespace

HealthWatch::HealthWatch(boost::asio::io_context& io, Site site, Tell tell)
    : site_(std::move(site)),
      tell_(std::move(tell)),
      timer_(io) {}

HealthWatch::~HealthWatch() {
  reader_.reset();  // asks for the dead
}

CheckMoment HealthWatch::moment() {
  return {std::chrono::time_point_cast<Milliseconds>(std::chrono::system_clock::now()), raw_time()};
}

// ---- beginning --------------------------------------------------------------------------------

void HealthWatch::follow(const std::optional<HealthProfile>& profile) {
  if (health_ && profile == profile_) return;
  save();
  run_.reset();
  profile_ = profile;
  const CheckMoment now = moment();
  SavedHealth saved = load();
  const HealthProfile used = profile.value_or(HealthProfile{});
  reads_sources_ = profile || has_devices(site_.root);
  remembers_ = saved.boot_id == site_.boot_id && saved.is_settled;
  MonitorOptions options;
  options.root = site_.root;
  monitor_ = std::make_unique<NodeMonitor>(used, options, std::move(saved.monitor));
  health_ = std::make_unique<NodeHealth>(used, std::move(saved.health));
  monitor_->begin(site_.boot_id, now);
  health_->begin(site_.boot_id, now);
  log_ = std::make_unique<KernelLog>(site_.root + "/dev/kmsg");
  told_ = told_now();
  begin_reading();
  looks_.clear();
  judged_at_.reset();
}

// Only a passed check ends a fault; and a driver may be loaded at any time.
void HealthWatch::begin_reading() {
  reads_sources_ = reads_sources_ || !told_.faults.empty() || has_devices(site_.root);
  if (reads_sources_ && !reader_ && !has_let_go_) open_reader();
}

void HealthWatch::open_reader() {
  NodeReader::Options options;
  options.helper = site_.helper;
  options.limits = reader_limits;
  options.wants_events = true;
  options.wait = dead_.wait();
  reader_ = std::make_unique<NodeReader>(std::move(options));
}

bool HealthWatch::reaped(pid_t pid, int wait_status) {
  return dead_.reaped(reader_.get(), pid, wait_status);
}

pid_t HealthWatch::helper() const {
  return reader_ ? reader_->helper() : 0;
}

SavedHealth HealthWatch::load() {
  const std::string text = text_of_file(site_.state_file);
  if (text.empty()) return {};
  auto saved = decode_health(text);
  if (saved) return std::move(*saved);
  log_line(site_.state_file + " is begun anew: " + saved.error().message);
  return {};
}

void HealthWatch::save() {
  if (!health_) return;
  saved_at_ = boot_time();
  const std::string text =
      encode_health({site_.boot_id, is_settled(), monitor_->memory(), health_->memory()});
  if (text == saved_) return;
  saved_ = text;
  if (!replace_file(site_.state_file, text, 0600, Durable::in_cache)) {
    log_line("cannot write " + site_.state_file);
  }
}

// ---- going on ---------------------------------------------------------------------------------

void HealthWatch::poll() {
  if (!health_) return;
  note_measuring();
  if (reader_) reader_->set_event_slice(is_calm() ? calm_event_slice : usual_event_slice);
  const CheckMoment now = moment();
  read_log(now);
  take(monitor_->tick(now), now);
  if (is_idle_) take(monitor_->on_jobs_over(now), now);
  step();
  if (boot_time() - saved_at_ > save_pause) {
    save();
    begin_reading();
  }
}

void HealthWatch::read_log(const CheckMoment& now) {
  for (int part = 0; part < log_parts_most; ++part) {
    const auto lines = log_->read();
    if (!lines.empty()) take(monitor_->on_kernel_lines(lines, now), now);
    if (!log_->may_have_more()) break;
  }
  if (!reader_) return;
  reader_->advance();
  const auto events = reader_->take_events();
  if (!events.empty()) take(monitor_->on_gpu_events(events, now), now);
  if (monitor_->take_look_wanted()) health_->hurry(static_cast<SourceGroups>(SourceGroup::gpu));
}

void HealthWatch::take(std::vector<HealthFinding> findings, const CheckMoment& now) {
  if (findings.empty()) return;
  health_->take(findings, {now, 0, {}});
  tell_if_news();
}

void HealthWatch::step() {
  if (!health_) return;
  if (has_let_go_) return answer_questions();
  const CheckMoment now = moment();
  if (run_) step_run(now);
  // What was asked for a profile that is no more is waited for.
  const bool is_busy = !run_ && reader_ && !reader_->is_idle();
  if (is_busy) return step_when_read();
  go_on_deciding();
  go_on_with_epilog();
  answer_questions();
  const bool looks_for_cause = failure_ && !failure_->is_over && reads_sources_;
  if (looks_for_cause && !run_) begin_run(Purpose::failure, all_source_groups, now);
  const bool is_watched = is_idle_ || job_.run || failure_;
  if (!run_ && reads_sources_ && is_watched) begin_due(now);
  if (run_) go_on_after_run_step();
}

bool HealthWatch::is_calm() const {
  return !is_idle_ && !is_concluding() && questions_.empty() && health_->wanted().empty();
}

void HealthWatch::go_on_after_run_step() {
  if (is_reading_) return step_when_read();
  const BootTime now = boot_time();
  step_after(std::chrono::ceil<Milliseconds>(std::max(paused_until_.value_or(now), now) - now));
}

void HealthWatch::begin_due(const CheckMoment& now) {
  const SourcesDue due = health_->pace(now, is_idle_);
  SourceGroups groups = due.groups;
  constexpr auto processes = static_cast<SourceGroups>(SourceGroup::processes);
  const bool has_others = (groups & ~processes) != 0;
  if (epilog_ && has_others) groups = static_cast<SourceGroups>(groups & ~processes);
  if (groups != 0) begin_run(Purpose::pace, groups, now);
  // Polls are too rare for what is due a second after the last read.
  if (groups == 0 && due.next_in > Milliseconds{0}) step_after(due.next_in);
}

// What is later than the next poll is set then: the agent looks for dead ranks 200 times a second,
// and each time one timer more is moved past.
void HealthWatch::step_after(Milliseconds pause) {
  helper_says_.reset();
  if (pause > poll_pause) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(pause);
  wait_for_timer();
}

void HealthWatch::wait_for_timer() {
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) advance();
  });
}

// Its own descriptor of the helper's socket: the reader closes the other one when it likes.
void HealthWatch::step_when_read() {
  const SteadyTime now = SteadyTime::clock::now();
  timer_.expires_at(std::max(reader_->wake_at().value_or(now + longest_wait), now + shortest_wait));
  wait_for_timer();
  helper_says_.reset();
  const int own =
      reader_->descriptor() < 0 ? -1 : ::fcntl(reader_->descriptor(), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return;
  helper_says_ =
      std::make_unique<boost::asio::posix::stream_descriptor>(timer_.get_executor(), own);
  helper_says_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [this](const boost::system::error_code& error) {
                             if (!error) advance();
                           });
}

void HealthWatch::advance() {
  if (reader_) reader_->advance();
  step();
}

void HealthWatch::begin_run(Purpose purpose, SourceGroups groups, const CheckMoment& now) {
  note_measuring();
  CheckSituation situation;
  const bool is_pace = purpose == Purpose::pace;
  situation.phase = phase_of(purpose);
  situation.choice = choice_in(situation.phase);
  // A node that is drained gets no job, so that some checks would never be asked again.
  if (is_idle_) situation.standing = health_->checks_with_faults();
  situation.groups = groups;
  situation.is_idle = is_idle_ && !was_measured_lately();
  situation.helper = reader_->facts();
  situation.kernel_log_error = log_->error();
  situation.has_gpu_events = reader_->has_events();
  situation.may_pause = questions_.empty();
  situation.is_sound = health_->is_sound();
  // No ended_uids: ranks are of the agent's own user, who goes on running the agent. What they left
  // is found, and ended, by their token.
  run_ = std::make_unique<CheckRun>(*monitor_, std::move(situation));
  // Those without checks on this node are not due at once again; those that a gate or a failure
  // leaves out are.
  groups_ = is_pace ? groups : run_->groups();
  purpose_ = purpose;
  is_reading_ = false;
  paused_until_.reset();
  step_run(now);
}

void HealthWatch::step_run(const CheckMoment& now) {
  while (run_) {
    if (is_reading_) {
      auto readings = reader_->take();
      if (!readings) return;
      is_reading_ = false;
      run_->read(*readings, now);
    }
    if (paused_until_) {
      if (boot_time() < *paused_until_) return;
      paused_until_.reset();
      run_->paused();
    }
    const RunStep next = run_->next();
    if (const auto* read = std::get_if<ReadNext>(&next)) {
      reader_->begin(read->request);
      is_reading_ = true;
      reader_->advance();
    } else if (const auto* pause = std::get_if<PauseNext>(&next)) {
      paused_until_ = boot_time() + pause->time;
    } else {
      end_run(now);
    }
  }
}

void HealthWatch::end_run(const CheckMoment& now) {
  const std::unique_ptr<CheckRun> run = std::move(run_);
  health_->take(run->findings(), {now, groups_, {}});
  for (const SourceGroup group : every_source_group) {
    if (has(groups_, group)) looks_[group] += 1;
  }
  judged_at_ = boot_time();
  if (purpose_ == Purpose::failure && failure_) failure_->is_over = true;
  epilog_read(groups_);
  if (!run->is_same()) tell_if_news();
  go_on_deciding();
}

// ---- the gate ---------------------------------------------------------------------------------

void HealthWatch::ask(std::vector<std::string> excused, Gated done) {
  if (!health_) return done({});
  questions_.push_back({boot_time(), std::move(excused), std::move(done)});
  step();
}

// Each is asked anew whenever a run has ended, until it has its answer.
void HealthWatch::answer_questions() {
  while (!questions_.empty() && !must_wait(questions_.front())) {
    const BootTime now = boot_time();
    const NodeVerdict verdict = verdict_for(questions_.front());
    PrologQuestion question;
    const bool is_known = judged_at_ || !reads_sources_;
    if (is_known) question.verdict = &verdict;
    if (judged_at_)
      question.verdict_age = std::chrono::duration_cast<Milliseconds>(now - *judged_at_);
    question.is_running = run_ != nullptr;
    question.waited = std::chrono::duration_cast<Milliseconds>(now - questions_.front().asked_at);
    const PrologStep step = next_prolog_step(question);
    if (const auto* answered = std::get_if<PrologAnswer>(&step)) {
      answer(*answered, verdict);
      continue;
    }
    const auto* run = std::get_if<RunQuick>(&step);
    const bool must_wait = run == nullptr || run_ || run->after > Milliseconds{0} || has_let_go_;
    if (must_wait) return;  // asked again at the next poll
    begin_run(Purpose::gate, all_source_groups, moment());
  }
}

void HealthWatch::answer(const PrologAnswer& answer, const NodeVerdict& verdict) {
  std::vector<CheckFailure> failures;
  if (std::holds_alternative<RefuseNode>(answer)) {
    for (const NodeFault& fault : faults_of(verdict)) {
      if (fault.enforced && fault.remedy >= Remedy::drain)
        failures.push_back({fault.check, fault.what});
    }
  }
  if (const auto* spare = std::get_if<TakeSpare>(&answer)) {
    failures.push_back({"health", spare->why});
  }
  const Gated done = std::move(questions_.front().done);
  questions_.erase(questions_.begin());
  done(std::move(failures));
}

// ---- what is believed -------------------------------------------------------------------------

bool HealthWatch::is_settled() const {
  if (remembers_ || !reads_sources_) return true;
  return std::ranges::all_of(every_source_group, [&](SourceGroup group) {
    const auto found = looks_.find(group);
    return found != looks_.end() && found->second >= looks_until_settled;
  });
}

FaultsTold HealthWatch::told_now() const {
  FaultsTold told;
  const Time now = moment().wall;
  told.now_ms = to_ms(now);
  told.faults = faults_of(health_->verdict(now));
  told.settled = is_settled();
  return told;
}

std::optional<FaultsTold> HealthWatch::state() const {
  if (!health_) return std::nullopt;
  return told_now();
}

void HealthWatch::tell_if_news() {
  FaultsTold told = told_now();
  const bool is_same = call_for_the_same(told.faults, told_.faults);
  if (is_same && told.settled == told_.settled) return;
  told_ = told;
  save();
  tell_(told);
}

void HealthWatch::mended(const std::vector<std::string>& faults) {
  if (!health_) return;
  for (const NodeFault& fault : told_now().faults) {
    if (std::ranges::find(faults, fault.id) == faults.end()) continue;
    monitor_->on_cleared(fault.check, fault.device);
    std::erase_if(health_->streaks().by_key, [&](const auto& item) {
      return item.second.check == fault.check && item.second.device == fault.device;
    });
  }
  tell_if_news();
}

void HealthWatch::let_go() {
  has_let_go_ = true;
  run_.reset();
  if (reader_) reader_->pause();
}

void HealthWatch::take_up() {
  if (!std::exchange(has_let_go_, false) || !health_) return;
  if (reader_) reader_->resume();
  begin_reading();
  step();
}

void HealthWatch::was_reset(const std::string& device) {
  if (!health_) return;
  const CheckMoment now = moment();
  if (!device.empty()) monitor_->on_reset(device, now);
  health_->on_reset(device, now.wall);
  save();
  tell_if_news();
}

std::string encode_health(const SavedHealth& saved) {
  return versioned_json(saved, version);
}

Result<SavedHealth> decode_health(std::string_view text) {
  return read_versioned_json<SavedHealth>(text, version);
}

}  // namespace muster
