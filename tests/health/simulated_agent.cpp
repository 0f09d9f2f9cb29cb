#include "tests/health/simulated_agent.h"

#include <span>

namespace muster {

SimulatedAgent::SimulatedAgent(FakeNode& node, const HealthProfile& profile, SinceBoot up)
    : node_(node),
      profile_(profile),
      now_{from_ms(1'750'000'000'000), up},
      monitor_(std::make_unique<NodeMonitor>(profile, MonitorOptions{})),
      health_(std::make_unique<NodeHealth>(profile)) {
  monitor_->begin(node_.boot_id(), now_);
  health_->begin(node_.boot_id(), now_);
}

void SimulatedAgent::take(const std::vector<HealthFinding>& findings, SourceGroups groups) {
  said_ += groups != 0 || !findings.empty();
  health_->take(findings, {now_, groups, job});
}

void SimulatedAgent::pass(std::chrono::milliseconds time) {
  now_.wall += time;
  now_.since_boot += time;
}

void SimulatedAgent::live() {
  take(monitor_->tick(now_));
  if (monitor_->take_look_wanted()) health_->hurry(static_cast<SourceGroups>(SourceGroup::gpu));
}

void SimulatedAgent::run_for(std::chrono::seconds time) {
  const SinceBoot end = now_.since_boot + time;
  while (now_.since_boot < end) {
    live();
    const SourcesDue due = health_->pace(now_, situation.is_idle);
    if (due.groups != 0) run(phase, due.groups);
    pass(std::chrono::seconds(1));
  }
}

std::vector<HealthFinding> SimulatedAgent::run(Phase in_phase, SourceGroups groups) {
  CheckSituation asked = situation;
  asked.phase = in_phase;
  asked.groups = groups;
  if (situation.is_idle) asked.standing.merge(health_->checks_with_faults());
  CheckRun check_run(*monitor_, asked);
  while (true) {
    const RunStep step = check_run.next();
    if (const auto* read = std::get_if<ReadNext>(&step)) {
      node_.set_uptime(std::chrono::duration<double>(now_.since_boot).count());
      check_run.read(node_.read(read->request), now_);
    } else if (const auto* pause = std::get_if<PauseNext>(&step)) {
      pass(pause->time);
      live();
      check_run.paused();
    } else {
      break;
    }
  }
  ++runs_;
  // Groups without checks in the phase were asked for as well: they are not due again at once.
  take(check_run.findings(), groups);
  return check_run.findings();
}

KernelLine SimulatedAgent::line_of(SinceBoot at, const std::string& text,
                                   const std::string& device) {
  KernelLine line;
  line.priority = 3;
  line.sequence = sequence_++;
  line.since_boot = at;
  line.text = text;
  line.device = device;
  return line;
}

void SimulatedAgent::logs(const std::string& text, const std::string& device) {
  const KernelLine line = line_of(now_.since_boot, text, device);
  take(monitor_->on_kernel_lines({&line, 1}, now_));
}

void SimulatedAgent::logged(std::chrono::seconds ago, const std::string& text) {
  const KernelLine line = line_of(now_.since_boot - ago, text, {});
  take(monitor_->on_kernel_lines({&line, 1}, now_));
}

void SimulatedAgent::had_logged(const std::vector<LoggedBefore>& before) {
  std::vector<KernelLine> lines;
  for (const auto& [ago, text] : before) lines.push_back(line_of(now_.since_boot - ago, text, {}));
  take(monitor_->on_kernel_lines(lines, now_));
}

void SimulatedAgent::tells(const GpuEvent& event) {
  take(monitor_->on_gpu_events({&event, 1}, now_));
}

void SimulatedAgent::kills(const std::vector<std::string>& gpus) {
  monitor_->on_kill(gpus, now_);
}

void SimulatedAgent::resets(const std::string& gpu) {
  monitor_->on_reset(gpu, now_);
  health_->on_reset(gpu, now_.wall);
}

void SimulatedAgent::loses_job() {
  take(monitor_->on_job_death(now_));
}

void SimulatedAgent::ends_job() {
  take(monitor_->on_jobs_over(now_));
}

void SimulatedAgent::boots(const std::string& boot_id) {
  node_.set_boot(boot_id);
  now_.since_boot = std::chrono::seconds(20);
  now_.wall += std::chrono::minutes(5);
  sequence_ = 1;
  restarts();
}

void SimulatedAgent::restarts() {
  const MonitorMemory memory = monitor_->memory();
  const NodeHealthMemory faults = health_->memory();
  monitor_ = std::make_unique<NodeMonitor>(profile_, MonitorOptions{}, memory);
  health_ = std::make_unique<NodeHealth>(profile_, faults);
  monitor_->begin(node_.boot_id(), now_);
  health_->begin(node_.boot_id(), now_);
}

}  // namespace muster
