#include "runtime/train/background_save.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/vitals.h"
#include "runtime/train/save_parts.h"

namespace muster {
namespace {

// First letter of a note.
constexpr char is_done = '+';      // then the rank's part, or the trouble after the commit
constexpr char has_failed = '-';   // then the reason
constexpr char needs_fetch = '?';  // rank 0 does not see all shards

std::string note_of(const Checked<std::string>& result) {
  return result ? result.value() : has_failed + result.reason();
}

// Where no core is free, computing goes first once the copy is made.
void step_back() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10);
}

}  // namespace

BackgroundSave::BackgroundSave(SaveContext& context, const FlatSpace& space, Communicator& ranks)
    : context_(context),
      space_(space),
      ranks_(ranks),
      slot_(flat_planes * owned_elements(space, ranks.rank(), ranks.size()).size()) {}

BackgroundSave::~BackgroundSave() {
  if (work_.valid()) work_.wait();
}

void BackgroundSave::begin(const TrainingState& state) {
  progress_ = state;
  owned_ = state.owned;
  phase_ = Phase::writing;
  note_.clear();
  std::promise<void> copied;
  copied_ = copied.get_future();
  work_ = std::async(std::launch::async, [this, &state, copied = std::move(copied)]() mutable {
    return copy_and_write(state, std::move(copied));
  });
}

void BackgroundSave::wait_for_copy() {
  if (copied_.valid()) copied_.get();
}

Checked<std::string> BackgroundSave::copy_and_write(const TrainingState& state,
                                                    std::promise<void> copied) {
  const std::uint64_t count = owned_.size();
  const std::span<float> slot(slot_);
  std::ranges::copy(state.own(state.weights), slot.begin());
  std::ranges::copy(state.own(state.exp_avg), slot.subspan(count).begin());
  std::ranges::copy(state.own(state.exp_avg_sq), slot.subspan(2 * count).begin());
  const std::uint64_t weights_hash = copies_hash(state);
  copied.set_value();
  step_back();
  const auto part = write_part(
      context_, space_, progress_.step, {ranks_.rank(), ranks_.size(), owned_},
      {slot.first(count), slot.subspan(count, count), slot.subspan(2 * count)}, weights_hash);
  return part ? is_done + part.value() : part;
}

// The commit, or the wish to fetch shards first.
Checked<std::string> BackgroundSave::commit_unless_missing(const Manifest& manifest) {
  step_back();
  if (!missing_shards(path_of_save(context_, progress_.step), manifest).empty())
    return std::string(1, needs_fetch);
  const auto trouble = commit_and_collect(context_, manifest);
  return trouble ? is_done + trouble.value() : trouble;
}

std::string BackgroundSave::note() {
  using namespace std::chrono_literals;
  if (work_.valid() && work_.wait_for(0s) == std::future_status::ready) {
    note_ = note_of(work_.get());
  }
  return note_;
}

std::optional<SaveOutcome> BackgroundSave::hear(const std::vector<std::string>& notes) {
  if (phase_ == Phase::writing) return hear_parts(notes);
  if (phase_ == Phase::committing) return hear_commit(notes.front());
  return std::nullopt;
}

std::optional<SaveOutcome> BackgroundSave::hear_parts(const std::vector<std::string>& notes) {
  if (std::any_of(notes.begin(), notes.end(), [](const auto& note) { return note.empty(); })) {
    return std::nullopt;
  }
  parts_.clear();
  for (std::size_t r = 0; r < notes.size(); ++r) {
    if (notes[r].front() == has_failed) {
      return end(CheckpointFault{"rank " + std::to_string(r) + ": " + notes[r].substr(1)});
    }
    parts_.push_back(notes[r].substr(1));
  }
  phase_ = Phase::committing;
  note_.clear();
  auto manifest = make_manifest(context_, space_, progress_, parts_);
  if (!manifest) return end(manifest.fault());
  if (ranks_.rank() == 0) {
    work_ = std::async(std::launch::async, [this, manifest = std::move(manifest.value())] {
      return commit_unless_missing(manifest);
    });
  }
  return std::nullopt;
}

std::optional<SaveOutcome> BackgroundSave::hear_commit(const std::string& note) {
  if (note.empty()) return std::nullopt;
  if (note.front() == has_failed) return end(CheckpointFault{note.substr(1)});
  if (note.front() == is_done) return end(note.substr(1));
  const auto manifest = make_manifest(context_, space_, progress_, parts_);
  return end(fetch_and_commit(context_, manifest.value(), ranks_));
}

SaveOutcome BackgroundSave::end(const Checked<std::string>& trouble) {
  phase_ = Phase::idle;
  return conclude_save(context_, progress_.step, trouble);
}

SaveOutcome BackgroundSave::finish() {
  while (true) {
    if (work_.valid()) work_.wait();
    if (auto outcome = hear(ranks_.gather_texts(note()))) return std::move(*outcome);
  }
}

}  // namespace muster
