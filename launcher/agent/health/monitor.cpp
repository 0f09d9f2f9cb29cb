#include "launcher/agent/health/monitor.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "health/model/check.h"
#include "launcher/agent/health/fault_report.h"
#include "launcher/agent/node/log.h"
#include "launcher/os/clocks.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

// Of the kernel's log, at a time: a storm of lines must not hold up the lease.
constexpr int log_parts_most = 4;
// What the driver tells ends the wait for it; a read does not, and waits for a slice. Beside ranks
// that nothing is said against none is in a hurry.
constexpr std::chrono::milliseconds usual_event_slice{100};
constexpr std::chrono::milliseconds calm_event_slice{1000};
// With all sources read so often since the agent knows nothing of before, what fails has failed
// often enough to be believed, and what is not believed is sound.
constexpr int looks_until_settled = usual_samples;

constexpr std::chrono::seconds save_pause{60};
constexpr int version_of_beliefs = 1;

bool has_devices(const std::string& root) {
  std::error_code ignored;
  const std::filesystem::path base(root);
  return std::filesystem::exists(base / "proc/driver/nvidia", ignored) ||
         std::filesystem::exists(base / "sys/class/infiniband", ignored);
}

// For a helper.
constexpr std::chrono::milliseconds shortest_wait{1};
constexpr std::chrono::seconds longest_wait{1};
// A driver that hangs does so for a part of the gate's time only.
constexpr NodeReaderLimits reader_limits{std::chrono::milliseconds(2000),
                                         std::chrono::milliseconds(5000),
                                         std::chrono::milliseconds(8000)};

}  // namespace

HealthMonitor::HealthMonitor(boost::asio::io_context& io, Site site, Tell tell)
    : site_(std::move(site)),
      tell_(std::move(tell)),
      reader_(io, site_.helper, [this] { step(); }) {}

CheckMoment HealthMonitor::moment() {
  return {wall_clock_now(), raw_time()};
}

// ---- beginning --------------------------------------------------------------------------------

HealthMonitor::Followed::Followed(const HealthProfile& profile, const Site& site, SavedHealth saved)
    : monitor(profile, MonitorOptions{.root = site.root}, std::move(saved.monitor)),
      health(profile, std::move(saved.health)),
      log(site.root + "/dev/kmsg"),
      remembers(saved.boot_id == site.boot_id && saved.is_settled) {
  const CheckMoment now = moment();
  monitor.begin(site.boot_id, now);
  health.begin(site.boot_id, now);
}

void HealthMonitor::follow(const std::optional<HealthProfile>& profile) {
  if (node_ && profile == profile_) return;
  save();
  run_.reset();
  profile_ = profile;
  reads_sources_ = profile || has_devices(site_.root);
  node_.emplace(profile.value_or(HealthProfile{}), site_, load());
  node_->told = reported_now();
  begin_reading();
}

// Only a passed check ends a fault; and a driver may be loaded at any time.
void HealthMonitor::begin_reading() {
  reads_sources_ = reads_sources_ || !node_->told.faults.empty() || has_devices(site_.root);
  if (reads_sources_) reader_.open();
}

Result<SavedHealth> decode_health(std::string_view text) {
  return read_versioned_json<SavedHealth>(text, version_of_beliefs);
}

SavedHealth HealthMonitor::load() const {
  const std::string text = text_of_file(site_.state_file);
  if (text.empty()) return {};
  auto saved = decode_health(text);
  if (saved) return std::move(*saved);
  log_line(site_.state_file + ": starting with empty state: " + saved.error().message);
  return {};
}

void HealthMonitor::save() {
  if (!node_) return;
  saved_at_ = boot_time();
  std::string text = versioned_json(
      SavedHealth{site_.boot_id, is_settled(), node_->monitor.memory(), node_->health.memory()},
      version_of_beliefs);
  if (text == saved_text_) return;
  saved_text_ = std::move(text);
  if (!replace_file(site_.state_file, saved_text_, 0600, Durable::in_cache)) {
    log_line("cannot write " + site_.state_file);
  }
}

// ---- going on ---------------------------------------------------------------------------------

void HealthMonitor::poll() {
  if (!node_) return;
  note_benchmark();
  const bool is_calm =
      !is_idle() && !is_concluding() && questions_.empty() && node_->health.wanted().empty();
  if (reader_.is_open()) reader_->set_event_slice(is_calm ? calm_event_slice : usual_event_slice);
  const CheckMoment now = moment();
  read_log(now);
  take(node_->monitor.tick(now), now);
  if (is_idle()) take(node_->monitor.on_jobs_over(now), now);
  step();
  if (boot_time() - saved_at_ > save_pause) {
    save();
    begin_reading();
  }
}

void HealthMonitor::read_log(const CheckMoment& now) {
  for (int part = 0; part < log_parts_most; ++part) {
    const auto lines = node_->log.read();
    if (!lines.empty()) take(node_->monitor.on_kernel_lines(lines, now), now);
    if (!node_->log.may_have_more()) break;
  }
  if (!reader_.is_open()) return;
  reader_->advance();
  const auto events = reader_->take_events();
  if (!events.empty()) take(node_->monitor.on_gpu_events(events, now), now);
  const bool is_urgent = node_->monitor.take_look_wanted();
  if (is_urgent) node_->health.hurry(static_cast<SourceGroups>(SourceGroup::gpu));
}

void HealthMonitor::take(std::vector<HealthFinding> findings, const CheckMoment& now) {
  if (findings.empty()) return;
  node_->health.take(findings, {now, 0, {}});
  report_if_news();
}

void HealthMonitor::step() {
  if (!node_) return;
  if (reader_.is_released()) return answer_questions();
  const CheckMoment now = moment();
  if (run_) step_run(now);
  // What was asked for a profile that is no more is waited for.
  const bool is_busy = !run_ && reader_.is_open() && !reader_->is_idle();
  if (is_busy) return reader_.wake_when_read();
  go_on_deciding();
  go_on_with_epilog();
  answer_questions();
  const FailureLook* failure = failure_look();
  const bool looks_for_cause = failure != nullptr && !failure->is_read && reads_sources_;
  if (looks_for_cause && !run_) begin_run(Purpose::failure, all_source_groups, now);
  const bool is_watched = is_idle() || ranks_.job.run || failure_look() != nullptr;
  if (!run_ && reads_sources_ && is_watched) begin_due(now);
  if (run_) go_on_after_run_step();
}

void HealthMonitor::go_on_after_run_step() {
  if (std::holds_alternative<Reading>(run_->step)) return reader_.wake_when_read();
  const BootTime now = boot_time();
  const auto* paused = std::get_if<Paused>(&run_->step);
  const BootTime until = paused != nullptr ? std::max(paused->until, now) : now;
  step_after(std::chrono::ceil<Milliseconds>(until - now));
}

void HealthMonitor::begin_due(const CheckMoment& now) {
  const SourcesDue due = node_->health.pace(now, is_idle());
  SourceGroups groups = due.groups;
  constexpr auto processes = static_cast<SourceGroups>(SourceGroup::processes);
  const bool has_others = (groups & ~processes) != 0;
  const bool is_epilog = std::holds_alternative<Epilog>(ranks_.phase);
  if (is_epilog && has_others) groups = static_cast<SourceGroups>(groups & ~processes);
  if (groups != 0) begin_run(Purpose::pace, groups, now);
  // Polls are too rare for what is due a second after the last read.
  if (groups == 0 && due.next_in > Milliseconds{0}) step_after(due.next_in);
}

// No ended_uids: ranks are of the agent's own user, who goes on running the agent. What they left
// is found, and ended, by their token.
void HealthMonitor::begin_run(Purpose purpose, SourceGroups groups, const CheckMoment& now) {
  note_benchmark();
  CheckSituation situation;
  situation.phase = phase_of(purpose);
  situation.choice = choice_in(situation.phase);
  // A node that is drained gets no job, so that some checks would never be asked again.
  if (is_idle()) situation.standing = node_->health.checks_with_faults();
  situation.groups = groups;
  situation.is_idle = is_idle() && !was_benchmarked_lately();
  situation.helper = reader_->facts();
  situation.kernel_log_error = node_->log.error();
  situation.has_gpu_events = reader_->has_events();
  situation.may_pause = questions_.empty();
  situation.is_sound = node_->health.is_sound();
  run_.emplace(Run{purpose, groups, CheckRun(node_->monitor, std::move(situation))});
  // Those without checks on this node are not due at once again; those that a gate or a failure
  // leaves out are.
  if (purpose != Purpose::pace) run_->groups = run_->checks.groups();
  step_run(now);
}

void HealthMonitor::step_run(const CheckMoment& now) {
  while (run_) {
    if (std::holds_alternative<Reading>(run_->step)) {
      auto readings = reader_->take();
      if (!readings) return;
      run_->step = Ready{};
      run_->checks.read(*readings, now);
    }
    if (const auto* paused = std::get_if<Paused>(&run_->step)) {
      if (boot_time() < paused->until) return;
      run_->step = Ready{};
      run_->checks.paused();
    }
    const RunStep next = run_->checks.next();
    if (const auto* read = std::get_if<ReadNext>(&next)) {
      reader_->begin(read->request);
      run_->step = Reading{};
      reader_->advance();
    } else if (const auto* pause = std::get_if<PauseNext>(&next)) {
      run_->step = Paused{boot_time() + pause->time};
    } else {
      end_run(now);
    }
  }
}

void HealthMonitor::end_run(const CheckMoment& now) {
  const Run run = std::move(*run_);
  run_.reset();
  node_->health.take(run.checks.findings(), {now, run.groups, {}});
  for (const SourceGroup group : every_source_group) {
    if (has(run.groups, group)) node_->looks[group] += 1;
  }
  node_->judged_at = boot_time();
  FailureLook* failure = failure_look();
  if (run.purpose == Purpose::failure && failure != nullptr) failure->is_read = true;
  epilog_read(run.groups);
  if (!run.checks.is_same()) report_if_news();
  go_on_deciding();
}

// ---- what is believed -------------------------------------------------------------------------

bool HealthMonitor::is_settled() const {
  if (node_->remembers || !reads_sources_) return true;
  return std::ranges::all_of(every_source_group, [&](SourceGroup group) {
    const auto found = node_->looks.find(group);
    return found != node_->looks.end() && found->second >= looks_until_settled;
  });
}

FaultsTold HealthMonitor::reported_now() const {
  FaultsTold told;
  const Time now = moment().wall;
  told.now_ms = to_ms(now);
  told.faults = faults_of(node_->health.verdict(now));
  told.settled = is_settled();
  return told;
}

std::optional<FaultsTold> HealthMonitor::state() const {
  return node_ ? std::optional(reported_now()) : std::nullopt;
}

void HealthMonitor::report_if_news() {
  FaultsTold told = reported_now();
  const bool is_same = call_for_the_same(told.faults, node_->told.faults);
  if (is_same && told.settled == node_->told.settled) return;
  node_->told = told;
  save();
  tell_(told);
}

void HealthMonitor::faults_fixed(const std::vector<std::string>& faults) {
  if (!node_) return;
  for (const NodeFault& fault : reported_now().faults) {
    if (std::ranges::find(faults, fault.id) == faults.end()) continue;
    node_->monitor.on_cleared(fault.check, fault.device);
    std::erase_if(node_->health.streaks().by_key, [&](const auto& item) {
      return item.second.check == fault.check && item.second.device == fault.device;
    });
  }
  report_if_news();
}

void HealthMonitor::release() {
  run_.reset();
  reader_.release();
}

void HealthMonitor::acquire() {
  if (!reader_.acquire() || !node_) return;
  begin_reading();
  step();
}

void HealthMonitor::was_reset(const std::string& device) {
  if (!node_) return;
  const CheckMoment now = moment();
  if (!device.empty()) node_->monitor.on_reset(device, now);
  node_->health.on_reset(device, now.wall);
  save();
  report_if_news();
}

SourceReader::SourceReader(boost::asio::io_context& io, std::vector<std::string> helper,
                           std::function<void()> on_wake)
    : helper_(std::move(helper)), on_wake_(std::move(on_wake)), timer_(io) {}

void SourceReader::open() {
  if (reader_ || is_released_) return;
  NodeReader::Options options;
  options.helper = helper_;
  options.limits = reader_limits;
  options.wants_events = true;
  options.wait = [this](pid_t pid, int* status, int) { return wait(pid, status); };
  reader_ = std::make_unique<NodeReader>(std::move(options));
}

void SourceReader::release() {
  is_released_ = true;
  if (reader_) reader_->pause();
}

bool SourceReader::acquire() {
  if (!std::exchange(is_released_, false)) return false;
  if (reader_) reader_->resume();
  return true;
}

pid_t SourceReader::wait(pid_t pid, int* status) {
  const auto found = dead_.find(pid);
  if (found == dead_.end()) return ::waitpid(pid, status, WNOHANG);
  if (status != nullptr) *status = found->second;
  dead_.erase(found);
  return pid;
}

bool SourceReader::reaped(pid_t pid, int wait_status) {
  if (!reader_ || reader_->helper() != pid) return false;
  dead_[pid] = wait_status;
  reader_->advance();  // before the number is somebody else's
  return true;
}

// The agent looks for dead ranks 200 times a second, and each time one timer more is moved past.
void SourceReader::wake_after(Milliseconds pause, Milliseconds most) {
  helper_says_.reset();
  if (pause > most) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(pause);
  wait_for_timer();
}

void SourceReader::wait_for_timer() {
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) wake();
  });
}

// Its own descriptor of the helper's socket: the reader closes the other one when it likes.
void SourceReader::wake_when_read() {
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
                             if (!error) wake();
                           });
}

void SourceReader::wake() {
  if (reader_) reader_->advance();
  on_wake_();
}

}  // namespace muster
