// The world's part that asks: what is submitted, cancelled, drained and resumed, and how the
// programs of the jobs behave.
#include "launcher/staging/blob_store.h"
#include "launcher/staging/trees_file.h"
#include "scheduler/restart/policy.h"
#include "scheduler/state/lookup.h"
#include "tests/sim/time_units.h"
#include "tests/sim/world.h"

namespace muster::sim {

namespace {

constexpr Milliseconds ask_again{5'000};  // nobody is there to be asked

}  // namespace

void World::plan_people() {
  const Milliseconds span = settings_.minutes * minute;
  for (int i = 0; i < settings_.jobs; ++i) {
    const Milliseconds when = i == 0 ? second : dice_.time(second, span * 3 / 4);
    events_.after(when, [this] { submit(); });
  }
  for (int i = 0; i < settings_.minutes; ++i) {
    const Milliseconds when = dice_.time(second, span);
    const int what = dice_.upto(10);
    if (what < 2) events_.after(when, [this] { cancel_some(); });
    if (what >= 2 && what < 6) events_.after(when, [this] { drain_some(); });
    if (what >= 6 && what < 8) events_.after(when, [this] { resume_some(); });
  }
}

void World::request(const std::string& what, Observation observation) {
  promises_.event("somebody asks: " + what);
  life_->enter([&] {
    const auto* submitted = std::get_if<JobSubmitted>(&observation);
    const std::optional<JobId> job = submitted ? std::optional(submitted->job) : std::nullopt;
    controller_->observe(std::move(observation), [this, job](const Status& done) {
      if (done && job) accepted_.insert(*job);
    });
  });
}

void World::submit() {
  if (!controller_ || life_->is_over()) {
    return events_.after(ask_again, [this] { submit(); });
  }
  JobSubmitted job = make_job();
  write_trees(job.job);
  submitted_.push_back(job.job);
  request("submit " + job.job.value + " on " + std::to_string(job.spec.instance_count) + " nodes",
          std::move(job));
}

JobSubmitted World::make_job() {
  JobSubmitted job;
  job.job = JobId{"job" + std::to_string(submitted_.size())};
  job.user = "ada";
  job.spec.name = job.job.value;
  job.spec.command = "python train.py";
  const bool is_gang = dice_.chance(80);
  job.spec.distribution.type = is_gang ? DistributionType::pytorch : DistributionType::none;
  job.spec.distribution.processes_per_node = std::max(1, settings_.ranks_per_node);
  job.spec.distribution.process_per_gpu = is_gang && settings_.ranks_per_node == 0;
  const int most = dice_.chance(50) ? settings_.nodes : std::max(1, settings_.nodes / 4);
  job.spec.instance_count = is_gang ? 1 + dice_.upto(most) : 1;
  MusterSettings& muster = job.spec.muster;
  muster.priority = dice_.upto(3);
  muster.restart.attempts = dice_.upto(5);
  muster.reschedule.attempts = dice_.upto(8);
  muster.stop.grace = dice_.time(second, 30 * second);
  if (dice_.chance(40)) muster.nodes_spares = 1 + dice_.upto(std::max(1, settings_.nodes / 4));
  muster.preemptible = dice_.chance(30);
  muster.nodes_wait = dice_.time(minute, 15 * minute);
  if (dice_.chance(10)) job.spec.timeout = Seconds{60 + dice_.upto(300)};
  job.target.name = "lab";
  if (settings_.remedies) {
    job.target.remedies = {{"reset", "{gpu}"}, {"reboot"}, {"power-cycle", "{node}"}};
  }
  if (dice_.chance(50)) job.target.lease = dice_.chance(50) ? minute : 20 * second;
  job.target.unreachable = dice_.chance(50) ? 30 * second : 15 * second;
  for (const auto& node : nodes_) {
    NodeAddress address;
    address.id = node->id();
    address.transport = TransportKind::ssh;
    address.host = node->id().value;
    job.target.nodes.push_back(std::move(address));
  }
  return job;
}

void World::write_trees(const JobId& job) {
  const Home home{folder_};
  std::filesystem::create_directories(home.job(job));
  std::vector<Tree> trees;
  if (dice_.chance(50)) {
    const auto blobs = BlobStore::open(home.blobs());
    const auto blob = blobs ? blobs->put_bytes("print(" + std::to_string(dice_.upto(3)) + ")\n")
                            : Result<StoredBlob>(blobs.error());
    if (!blob) return promises_.broken(blob.error().message);
    TreeEntry entry;
    entry.path = "train.py";
    entry.size_bytes = blob->size_bytes;
    entry.hash = blob->hash;
    trees.push_back({"code", {entry}, true});
  }
  if (auto saved = save_trees(home.trees(job), trees); !saved) {
    promises_.broken(saved.error().message);
  }
}

void World::cancel_some() {
  const auto& jobs = promises_.state().jobs;
  if (jobs.empty() || !controller_ || life_->is_over()) return;
  const auto chosen = std::next(jobs.begin(), dice_.upto(static_cast<int>(jobs.size())));
  CancelRequested cancel{chosen->first, {}};
  if (dice_.chance(50)) cancel.grace = dice_.time(Milliseconds{0}, 10 * second);
  request("cancel " + chosen->first.value, cancel);
}

void World::drain_some() {
  if (!controller_ || life_->is_over()) return;
  const NodeId node = some_node().id();
  NodeDrainSet drain{node, true, "fan", {}};
  if (dice_.chance(50)) drain.move_after = dice_.time(Milliseconds{0}, minute);
  request("drain " + node.value, drain);
}

void World::resume_some() {
  if (!controller_ || life_->is_over() || submitted_.empty()) return;
  const JobId job =
      submitted_[static_cast<std::size_t>(dice_.upto(static_cast<int>(submitted_.size())))];
  if (find_job(promises_.state(), job) != nullptr) return;
  Requests::Context context = controller_->request_context();
  const auto records = context.journal.records_of(job);
  const auto row = context.journal.job(job);
  if (!records || !row || !*row || find_job(context.state, job) != nullptr) return;
  auto resumed = resume_request(*records, std::nullopt);
  if (!resumed) return;
  context.rows.restore(**row);
  request("resume " + job.value, std::move(*resumed));
}

// Drawn from the attempt's name, so that it does not matter which node asks first.
Program World::program_of(const AttemptName& name) {
  std::uint64_t mixed = settings_.seed;
  for (const char letter : name.first.value) {
    mixed = mixed * 131 + static_cast<unsigned char>(letter);
  }
  Dice dice(mixed * 131 + static_cast<std::uint64_t>(name.second.value));
  Program program;
  program.runs_for = dice.time(10 * second, calm_ ? minute : 4 * minute);
  const bool fails = dice.chance(20), hangs = dice.chance(5);
  const int rank = dice.upto(2 * std::max(1, settings_.ranks_per_node));
  program.fails_after = dice.time(second, minute);
  if (calm_) return program;
  if (fails) {
    program.failing = RankId{rank};
    program.failure = dice.chance(50) ? ExitStatus{1, 0} : ExitStatus{0, 11};
  }
  program.hangs = hangs;
  return program;
}

}  // namespace muster::sim
