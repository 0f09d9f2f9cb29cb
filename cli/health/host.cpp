#include "cli/health/host.h"

#include <algorithm>
#include <thread>

#include "health/checks/infiniband/counter_checks.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

constexpr Phase phases[] = {Phase::prolog,     Phase::periodic,  Phase::epilog,
                            Phase::on_failure, Phase::on_demand, Phase::qualification};

bool is_same_fault(const HealthFinding& one, const HealthFinding& other) {
  return one.check == other.check && one.device == other.device;
}

}  // namespace

std::string_view name_of(Phase phase) {
  return phase_names[std::ranges::find(phases, phase) - std::begin(phases)];
}

std::optional<Phase> phase_of(std::string_view name) {
  const auto* found = std::ranges::find(phase_names, folded(name), folded);
  return found == std::end(phase_names) ? std::nullopt
                                        : std::optional(phases[found - std::begin(phase_names)]);
}

RunFindings run_checks(NodeMonitor& monitor, HealthSources& sources,
                       const CheckSituation& situation) {
  CheckRun run(monitor, situation);
  while (true) {
    const RunStep step = run.next();
    if (const auto* read = std::get_if<ReadNext>(&step)) {
      const NodeReadings readings = sources.read(read->request);
      run.read(readings, sources.now());
    } else if (const auto* pause = std::get_if<PauseNext>(&step)) {
      std::this_thread::sleep_for(pause->time);
      run.paused();
    } else {
      break;
    }
  }
  RunFindings found{run.findings(), {}};
  for (const HealthFinding& finding : found.findings) {
    found.took_ms.push_back(run.took_ms(finding));
  }
  return found;
}

NodeLook::NodeLook(HealthSources& sources, LookOptions options, HealthState saved)
    : sources_(sources),
      options_(std::move(options)),
      monitor_(options_.profile, {.root = sources.root(), .nvml_library = {}},
               std::move(saved.monitor)),
      health_(options_.profile, std::move(saved.health)),
      saved_profile_(std::move(saved.profile)),
      judged_boot_id_(std::move(saved.judged_boot_id)),
      judged_at_(saved.judged_at) {
  const CheckMoment now = sources_.now();
  monitor_.begin(sources_.boot_id(), now);
  health_.begin(sources_.boot_id(), now);
}

CheckSituation NodeLook::situation() const {
  CheckSituation situation;
  situation.phase = options_.phase;
  situation.is_idle = options_.is_idle;
  situation.ended_uids = options_.ended_uids;
  situation.helper = sources_.helper_facts();
  situation.kernel_log_error = sources_.log_error();
  situation.may_pause = options_.may_pause;
  return situation;
}

void NodeLook::take(std::vector<HealthFinding> findings, const FindingsTaken& taken) {
  std::erase_if(findings, [&](const HealthFinding& one) {
    return !is_asked_for(options_.checks, one.check);
  });
  if (taken.groups == 0 && findings.empty()) return;
  health_.take(findings, taken);
  if (taken.groups == 0) std::ranges::move(findings, std::back_inserter(events_));
}

void NodeLook::look() {
  ++looks_;
  const std::vector<KernelLine> lines = sources_.kernel_lines();
  take(monitor_.on_kernel_lines(lines, sources_.now()), {sources_.now(), 0, {}});
  const CheckSituation now = situation();
  RunFindings run = run_checks(monitor_, sources_, now);
  take(monitor_.tick(sources_.now()), {sources_.now(), 0, {}});
  take(run.findings, {sources_.now(), now.groups, {}});
  run_ = std::move(run);
  judged_boot_id_ = sources_.boot_id();
  judged_at_ = sources_.now().since_boot;
}

NodeVerdict NodeLook::verdict() const {
  NodeVerdict verdict = health_.verdict(sources_.now().wall);
  keep_checks(verdict,
              [&](const std::string& check) { return is_asked_for(options_.checks, check); });
  return verdict;
}

std::optional<Milliseconds> NodeLook::verdict_age() const {
  const CheckMoment now = sources_.now();
  const bool is_of_this_boot = !judged_boot_id_.empty() && judged_boot_id_ == sources_.boot_id();
  if (!is_of_this_boot || now.since_boot < judged_at_) return std::nullopt;
  return std::chrono::duration_cast<Milliseconds>(now.since_boot - judged_at_);
}

bool NodeLook::is_open() const {
  // What hangs was waited for, and would be again.
  return sources_.hung().empty() && health_exit(verdict()) == HealthExit::unclear;
}

// An event that still stands is told by the run as well.
RunFindings NodeLook::latest() const {
  RunFindings all;
  for (const HealthFinding& event : events_) {
    const bool is_reported = std::ranges::any_of(run_.findings, [&](const HealthFinding& one) {
      return is_same_fault(one, event) && one.status != CheckStatus::pass;
    });
    if (is_reported) continue;
    all.findings.push_back(event);
    all.took_ms.push_back(0);
  }
  for (std::size_t i = 0; i < run_.findings.size(); ++i) {
    const bool is_event = std::ranges::any_of(all.findings, [&](const HealthFinding& event) {
      return is_same_fault(event, run_.findings[i]);
    });
    if (is_event || !is_asked_for(options_.checks, run_.findings[i].check)) continue;
    // Some hundred counters of a node that nobody looked at before.
    if (is_first_reading(run_.findings[i]) &&
        !is_required(options_.profile, run_.findings[i].check)) {
      ++all.first_readings;
      continue;
    }
    all.findings.push_back(run_.findings[i]);
    all.took_ms.push_back(run_.took_ms[i]);
  }
  return all;
}

// What keeps jobs away has its row, though this run found nothing of it.
void NodeLook::show_fault(HostHealth& host, const ActiveFault& fault, const RunFacts& run) const {
  const auto is_of_fault = [&](const FindingReport& one) {
    return one.check == fault.finding.check && one.device == fault.finding.device;
  };
  const auto is_shown = [&](const FindingReport& one) {
    return is_of_fault(one) && one.status != word_of(CheckStatus::pass);
  };
  if (std::ranges::any_of(host.findings, is_shown)) return;
  std::erase_if(host.findings, is_of_fault);
  HealthFinding finding = fault.finding;
  finding.evidence.push_back("not seen in this run, last " + utc_text(fault.last_bad) +
                             "; active until " + stands_until(fault));
  host.findings.push_back(report_of(finding, 0, run, health_.rules(), health_.memory().streaks));
}

HostHealth NodeLook::result() const {
  const NodeHealthMemory memory = health_.memory();
  const RunFacts run{sources_.now().wall, sources_.host(), sources_.boot_id()};
  const auto took = std::chrono::steady_clock::now() - began_;
  HostHealth host =
      health_of(run, options_.profile.name, std::chrono::duration_cast<Milliseconds>(took));
  host.phase = name_of(options_.phase);
  host.looks = std::max(1, looks_);
  const RunFindings found = latest();
  for (std::size_t i = 0; i < found.findings.size(); ++i) {
    host.findings.push_back(
        report_of(found.findings[i], found.took_ms[i], run, health_.rules(), memory.streaks));
  }
  host.counts.first_readings = found.first_readings;
  const NodeVerdict verdict = this->verdict();
  for (const auto* faults : {&verdict.drains, &verdict.would_drain}) {
    for (const ActiveFault& fault : *faults) show_fault(host, fault, run);
  }
  host.hung = sources_.hung();
  host.beside_ranks = options_.beside_ranks;
  const NodeReadings& all = sources_.all();
  host.versions = node_versions(all.files, all.gpus ? &*all.gpus : nullptr);
  std::erase_if(host.versions,
                [&](const auto& one) { return !is_asked_for(options_.checks, one.first); });
  host.verdict = report_of(verdict);
  host.verdict = concluded(host);
  return host;
}

HealthState NodeLook::state() const {
  HealthState state;
  state.host = sources_.host();
  state.profile = saved_profile_;
  state.judged_boot_id = judged_boot_id_;
  state.judged_at = judged_at_;
  state.monitor = monitor_.memory();
  state.health = health_.memory();
  return state;
}

}  // namespace muster
