#include "runtime/train/elastic/checkpoints.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/start_error.h"
#include "runtime/train/restore/restore.h"

namespace muster {
namespace {

// The higher one counts.
auto rank_of(const MemberNews& news, const std::vector<GenerationFork>& forks) {
  const bool counts = news.has_trained || is_on_lineage(news.step, news.from_generation, forks);
  return std::make_tuple(counts, news.has_trained, news.step);
}

std::vector<GenerationFork> all_forks(const std::vector<MemberNews>& members) {
  std::vector<GenerationFork> forks;
  for (const MemberNews& member : members) {
    forks.insert(forks.end(), member.forks.begin(), member.forks.end());
  }
  return forks;
}

// Half of what a change may take.
constexpr auto longest_wait_for_save = std::chrono::milliseconds(1000);

// First letter of a note before the generation is known to all; later ones are of Checkpoints.
constexpr char is_taken = '+';    // then its number
constexpr char is_refused = '-';  // then why
constexpr char is_at_work = 'w';  // for an earlier epoch

std::optional<std::uint64_t> step_of(const std::string& directory) {
  const auto name = parse_checkpoint_directory_name(directory);
  if (!name) return std::nullopt;
  return name->step;
}

}  // namespace

std::size_t EpochStart::source() const {
  const std::vector<GenerationFork> forks = all_forks(members);
  const auto newest = std::ranges::max_element(
      members, {}, [&](const MemberNews& news) { return rank_of(news, forks); });
  return static_cast<std::size_t>(newest - members.begin());
}

bool EpochStart::differs() const {
  const std::vector<GenerationFork> forks = all_forks(members);
  return std::ranges::any_of(members, [&](const MemberNews& news) {
    return news.step != members[0].step ||
           std::get<0>(rank_of(news, forks)) != std::get<0>(rank_of(members[0], forks));
  });
}

std::uint64_t EpochStart::known_generation() const {
  std::uint64_t highest = 0;
  for (const MemberNews& member : members) highest = std::max(highest, member.known_generation);
  return highest;
}

bool EpochStart::owes_save() const {
  return std::ranges::any_of(members, &MemberNews::owes_save);
}

std::vector<std::string> EpochStart::hosts() const {
  std::set<std::string> distinct;
  for (const MemberNews& member : members) distinct.insert(member.host);
  return {distinct.begin(), distinct.end()};
}

bool ElasticCheckpoints::Epoch::at_work() const {
  return (taking.valid() && !is_ready(taking)) || (checkpoints && checkpoints->at_work());
}

ElasticCheckpoints::ElasticCheckpoints(const TrainOptions& options, SaveContext context,
                                       GenerationLine line, const FlatSpace& space, Say say)
    : options_(options),
      space_(space),
      say_(std::move(say)),
      context_(std::move(context)),
      line_(std::move(line)),
      certificates_(options.checkpoint_every) {
  needed(make_checkpoint_directory(context_.root));
}

void ElasticCheckpoints::begin_epoch(std::uint64_t members_epoch, const EpochStart& start,
                                     Communicator& ranks) {
  const MemberNews& source = start.members[start.source()];
  ranks_ = &ranks;
  known_generation_ = start.known_generation();
  due_ = start.owes_save();
  told_.clear();
  change_wanted_since_.reset();
  // This rank has not seen all steps since then, but sees those that follow.
  if (!source.previous.empty() && source.previous != context_.previous) {
    certificates_.committed(source.previous, source.step);
  }
  context_.previous = source.previous;
  context_.lineage = source.lineage;
  context_.nodes = start.hosts();
  line_.fork_step = source.step;
  line_.from = source.previous;
  line_.reason = source.has_trained ? "members" : source.previous.empty() ? "start" : "resume";
  line_.world = ranks.size();
  line_.nodes = context_.nodes;
  line_.members_epoch = members_epoch;
  if (ranks.rank() == 0) take();
}

void ElasticCheckpoints::take() {
  epoch_.taking =
      std::async(std::launch::async, take_generation, context_.root, line_, known_generation_);
}

std::string ElasticCheckpoints::note() {
  left_behind_.remove_if([](const Epoch& epoch) { return !epoch.at_work(); });
  if (checkpoints()) return checkpoints()->note();
  if (!left_behind_.empty()) return {is_at_work};
  if (is_ready(epoch_.taking)) {
    const auto taken = epoch_.taking.get();
    told_ = taken ? is_taken + std::to_string(taken.value()) : is_refused + taken.reason();
  }
  return told_;
}

void ElasticCheckpoints::step_done(const TrainingState& state, const StepOutcome& outcome,
                                   LossWindow::Look look, bool goes_on) {
  if (checkpoints()) return checkpoints()->step_done(state, outcome, look, goes_on);
  certificates_.step_done(state.step, look);
  const bool is_due = options_.checkpoint_every > 0 && state.step % options_.checkpoint_every == 0;
  due_ = due_ || is_due;
  hear_generation(outcome.notes);
  const bool was_refused = !checkpoints() && told_.empty() && !epoch_.taking.valid();
  if (is_due && was_refused && ranks_->rank() == 0) take();
}

void ElasticCheckpoints::hear_generation(const std::vector<std::string>& notes) {
  const std::string& told = notes.front();
  if (told.empty() || told.front() == is_at_work) return;
  if (told.front() == is_refused) {
    say_("warning: no checkpoints are written: " + told.substr(1));
    told_.clear();
    return;
  }
  if (std::ranges::count(notes, std::string{is_at_work}) > 0) return;
  begin_saving(std::stoull(told.substr(1)));
}

void ElasticCheckpoints::begin_saving(std::uint64_t generation) {
  known_generation_ = generation;
  context_.lineage.push_back({generation, line_.fork_step});
  SaveContext context = context_;
  context.identity.generation = generation;
  epoch_.checkpoints =
      std::make_unique<Checkpoints>(options_, std::move(context), space_, *ranks_, say_);
  checkpoints()->take_over(certificates_, step_of(context_.previous));
  if (due_) checkpoints()->want_save();
}

bool ElasticCheckpoints::lets_change() {
  if (!checkpoints() || !checkpoints()->is_saving()) return true;
  if (!change_wanted_since_) change_wanted_since_ = Clock::now();
  return Clock::now() - *change_wanted_since_ > longest_wait_for_save;
}

void ElasticCheckpoints::save_before_change(const TrainingState& state) {
  if (checkpoints()) checkpoints()->save_within(state, longest_wait_for_save);
}

void ElasticCheckpoints::save_at_end(const TrainingState& state) {
  if (!checkpoints() && ranks_->rank() == 0 && !epoch_.taking.valid() && told_.empty()) take();
  while (!checkpoints()) {
    left_behind_.clear();  // waits for them
    if (epoch_.taking.valid()) epoch_.taking.wait();
    const auto notes = ranks_->gather_texts(note());
    hear_generation(notes);
    if (notes.front().front() == is_refused) return;
  }
  checkpoints()->save_now(state);
}

std::string ElasticCheckpoints::taken_over() {
  if (!checkpoints()) return "";
  const std::string& why = checkpoints()->taken_over();
  return why.ends_with(context_.identity.run_id) ? "" : why;
}

const SaveContext* ElasticCheckpoints::finish_saving() {
  if (!checkpoints()) return nullptr;
  checkpoints()->finish_saving();
  return &checkpoints()->context();
}

void ElasticCheckpoints::end_epoch(MemberNews& news) {
  if (std::exchange(ranks_, nullptr) == nullptr) return;  // it never began
  news.known_generation = std::max(news.known_generation, known_generation_);
  news.owes_save = due_;
  if (checkpoints()) {
    checkpoints()->give_up();
    news.owes_save = checkpoints()->owes_save();
    certificates_ = checkpoints()->certificates();
    context_.previous = checkpoints()->context().previous;
    if (!checkpoints()->at_work()) context_.writes = checkpoints()->context().writes;
  }
  news.previous = context_.previous;
  news.lineage = context_.lineage;
  if (epoch_.at_work()) left_behind_.push_back(std::move(epoch_));
  epoch_ = {};
}

}  // namespace muster
