// The node's part that falls sick, tells of it, and is reset or rebooted by the site's commands.
#include "tests/sim/model_node.h"

namespace muster::sim {

namespace {

constexpr Milliseconds quick_reset{500};
constexpr Milliseconds quick_boot{5'000};
constexpr Milliseconds slow_boot{1'100'000};  // beyond the core's limit
// A link that is cut is noticed within a minute, and words of a slow one arrive.
constexpr Milliseconds hearsay{120'000};

}  // namespace

// A check of its own, so that no breaker takes it for a fault of many.
void ModelNode::fall_sick() {
  if (!is_on_ || sick_) return;
  NodeFault fault;
  fault.id = id_.value + "-" + std::to_string(++faults_);
  fault.check = "gpu.of." + id_.value;
  fault.device = "gpu" + std::to_string(cluster_.dice.upto(8));
  fault.serial = fault.id;
  fault.remedy = cluster_.dice.chance(50) ? Remedy::reset : Remedy::reboot;
  fault.on_recurrence = cluster_.dice.chance(50) ? Remedy::reboot : Remedy::rma;
  fault.stops_job = cluster_.dice.chance(50);
  fault.since = cluster_.events.wall_now();
  fault.what = "XID 95 on " + fault.device;
  sick_ = fault;
  report_faults();
}

void ModelNode::get_well() {
  if (!sick_) return;
  sick_.reset();
  well_at_ = cluster_.events.now();
  report_faults();
}

void ModelNode::was_not_reached() {
  not_reached_at_ = cluster_.events.now();
}

// To whoever looks: it says so, and nobody has tried in vain to hear it.
bool ModelNode::is_known_to_be_well() const {
  const Milliseconds now = cluster_.events.now();
  const bool was_sick = sick_ || (well_at_ && now - *well_at_ < hearsay);
  const bool is_lost =
      weather.blocked() || weather.refusal || (not_reached_at_ && now - *not_reached_at_ < hearsay);
  return is_on_ && !was_sick && !is_lost;
}

void ModelNode::report_faults() {
  FaultsTold told;
  told.now_ms = to_ms(cluster_.events.wall_now());
  if (sick_) told.faults.push_back(*sick_);
  told.settled = true;
  send(told);
}

void ModelNode::begin_remedy(const std::string& what) {
  if (has_ranks()) cluster_.promises.broken("I13: " + id_.value + ": " + what + " under its ranks");
  cluster_.promises.event(id_.value + ": " + what + " by muster");
  being_mended_ = true;
}

// Once for an id, as long as this agent lives.
void ModelNode::on(const RunRemedy& request) {
  const auto known = remedies_.find(request.id);
  if (known != remedies_.end()) {
    if (known->second) send(*known->second);
    return;
  }
  remedies_[request.id].reset();
  begin_remedy(request.step == RemedyStep::reset ? "is reset" : "is rebooted");
  const bool hangs = cluster_.dice.chance(15), fails = cluster_.dice.chance(20);
  const Milliseconds takes = cluster_.dice.time(quick_reset, 40 * quick_reset);
  const bool is_killed = hangs || takes > request.limit;
  later(is_killed ? request.limit : takes, [this, request, is_killed, fails] {
    RemedyRun run{request.id, {fails ? 3 : 0, 0}, is_killed ? "took too long" : "", {}};
    remedies_[request.id] = run;
    being_mended_ = false;
    send(run);
    if (is_killed || fails) return;
    if (request.step == RemedyStep::reset) return get_well();
    power_cycle();
  });
}

// A host that is switched off by a reboot comes back, sooner or later.
void ModelNode::power_cycle() {
  being_mended_ = false;
  if (sick_ && cluster_.dice.chance(80)) {
    sick_.reset();
    well_at_ = cluster_.events.now();
  }
  power_off();
  const Milliseconds most = cluster_.dice.one_in(8) ? slow_boot : 12 * quick_boot;
  cluster_.events.after(cluster_.dice.time(quick_boot, most), [this] { power_on(); });
}

void ModelNode::power_cycle_from_outside() {
  if (is_known_to_be_well()) {
    cluster_.promises.broken(id_.value + ": is switched off, though it is well and answers");
  }
  begin_remedy("is switched off and on");
  power_cycle();
}

}  // namespace muster::sim
