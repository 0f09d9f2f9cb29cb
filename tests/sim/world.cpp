#include "tests/sim/world.h"

#include <unistd.h>

#include <cstdio>

#include "scheduler/model/record.h"
#include "tests/sim/model/dump.h"
#include "tests/sim/model/replay.h"
#include "tests/sim/time_units.h"

namespace muster::sim {

namespace {

// When the faults are over a job needs its leases, graces, backoffs, gates and a last run; none of
// them is longer than half an hour.
constexpr Milliseconds calm_limit{4 * 3600 * 1000};
// Beyond this many nodes the dear checks are made less often, and the replay at the end is left
// to smaller worlds.
constexpr int small_world = 200;

std::filesystem::path make_folder() {
  const char* base = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  std::string name = std::string(base) + "/muster-sim.XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  return name;
}

std::string clock_text(Milliseconds now) {
  char text[32];
  std::snprintf(text, sizeof text, "%5lld.%03lld", static_cast<long long>(now.count() / 1000),
                static_cast<long long>(now.count() % 1000));
  return text;
}

}  // namespace

World::World(WorldSettings settings)
    : settings_(settings),
      dice_(settings.seed),
      promises_(settings.nodes <= small_world ? 1 : 10'000),
      cluster_{events_,
               dice_,
               promises_,
               settings_.planted,
               {},
               [this](const AttemptName& name) { return program_of(name); },
               settings.remedies,
               settings.nodes <= small_world ? 1 : settings.ranks_per_node * 50,
               Milliseconds{settings.nodes <= small_world ? 10'000 : 60'000},
               {},
               {}},
      folder_(make_folder()) {
  promises_.set_clock([this] { return clock_text(events_.now()); });
  if (settings_.verbose) promises_.set_verbose();
  for (int i = 1; i <= settings_.nodes; ++i) {
    nodes_.push_back(std::make_unique<ModelNode>(cluster_, NodeId{"n" + std::to_string(i)}));
    by_id_[nodes_.back()->id()] = nodes_.back().get();
  }
}

World::~World() {
  controller_.reset();
  events_.forget_all();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Outcome World::run() {
  start_controller();
  plan_people();
  plan_faults();
  if (settings_.remedies) plan_sickness();
  run_until(settings_.minutes * minute);
  heal();
  const Milliseconds end = events_.now() + calm_limit;
  while (!is_over() && events_.now() < end && promises_.problems().empty()) {
    run_until(events_.now() + minute);
  }
  check_ends();
  run_until(events_.now() + 3 * minute);  // the leases of nodes that nobody asks about any more
  check_quiet();
  check_logs();
  return outcome();
}

void World::run_until(Milliseconds moment) {
  const auto reached = std::make_shared<bool>(false);
  events_.after(moment - events_.now(), [reached] { *reached = true; });
  while (!*reached && promises_.problems().empty() && events_.run_next()) {
  }
}

bool World::is_over() const { return promises_.state().jobs.empty(); }

void World::recorded(const std::vector<Record>& records) {
  promises_.recorded(records);
  for (const Record& record : records) {
    if (settings_.nodes <= small_world) journal_.push_back(record);
    for (const char* at = kind_of(record); *at != 0; ++at) {
      fingerprint_ = (fingerprint_ ^ static_cast<unsigned char>(*at)) * 1099511628211u;
    }
    fingerprint_ = (fingerprint_ ^ static_cast<std::uint64_t>(to_ms(record.at))) * 1099511628211u;
    const auto* over = record_as<RemedyOver>(record);
    if (over != nullptr && over->failure.empty()) remedies_ += 1;
    const auto* clean = record_as<NodeClean>(record);
    if (clean != nullptr && clean->unkillable.empty()) {
      clean_.insert({{clean->job, clean->attempt}, clean->node});
    }
  }
}

Outcome World::outcome() {
  Outcome outcome;
  outcome.problems = promises_.problems();
  outcome.last_events = promises_.last_events();
  outcome.events = events_.count();
  outcome.records = promises_.records();
  outcome.controllers = controllers_;
  outcome.faults = faults_;
  outcome.remedies = remedies_;
  outcome.ends = promises_.ends();
  outcome.fingerprint = fingerprint_;
  return outcome;
}

ModelNode& World::some_node() {
  return *nodes_[static_cast<std::size_t>(dice_.upto(settings_.nodes))];
}

}  // namespace muster::sim
