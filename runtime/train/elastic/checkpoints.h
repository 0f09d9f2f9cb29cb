// The checkpoints of an elastic run, from one epoch of its members to the next.
//
//   epoch begins   its first member takes a generation (restore.h) in a thread of its own, for
//                  no step waits for a disk
//   known to all   with a step; checkpoints.h does the rest, unless somebody's threads are still at
//                  work for the epoch before
//   a change       is put off, while steps go on, until a save under way has ended; a second at
//                  most, then the save is given up, and is due again in the next epoch
//   a loss         gives it up at once
//
// What was given up is not sealed any more: its shards are orphans, which retention of a later
// generation deletes. Its threads are not waited for, as they may hang in a disk; they hold the
// memory of one copy, and no other one is made meanwhile. All methods are the training thread's;
// step_done and the saves are collective.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/train/save/checkpoints.h"
#include "scheduler/text/fields.h"

namespace muster {

// What the members of an elastic run tell each other as an epoch begins, and whose state counts.
//
// A state that was trained in an earlier epoch comes before one that was read from a checkpoint:
// who joins never brings back what the others have left behind. Of equal kind, the one with the
// most steps; a checkpoint counts only when it is on the lineage of all forks that any member knows
// of (checkpoint/choose.h). All decide alike. Pure.
struct MemberNews {
  std::uint64_t step = 0;
  bool has_trained = false;            // in an epoch before, or has the state of one that has
  std::uint64_t from_generation = 0;   // of the checkpoint that was read; 0: none was
  std::uint64_t known_generation = 0;  // the highest that it knows of
  bool owes_save = false;              // one was due in the epoch before, or was given up
  std::string host;
  std::string previous;                    // directory name of the checkpoint before this state
  std::vector<GenerationFork> lineage;     // of this state
  std::vector<GenerationFork> forks = {};  // known from its directory
  MUSTER_FIELDS(step, has_trained, from_generation, known_generation, owes_save, host, previous,
                lineage, forks)
};

// By place. Never empty.
struct EpochStart {
  std::vector<MemberNews> members;

  // The place of the first one whose state counts.
  std::size_t source() const;
  // Some have another state.
  bool differs() const;
  std::uint64_t known_generation() const;
  bool owes_save() const;
  std::vector<std::string> hosts() const;  // each once
};

class ElasticCheckpoints {
 public:
  using Say = Checkpoints::Say;

  // `context` lacks what a generation adds, `line` all but the run and its epoch. Everything passed
  // by reference outlives this object. Throws StartError when there can be no such directory.
  ElasticCheckpoints(const TrainOptions& options, SaveContext context, GenerationLine line,
                     const FlatSpace& space, Say say);

  // `ranks` lives until end_epoch().
  void begin_epoch(std::uint64_t members_epoch, const EpochStart& start, Communicator& ranks);
  // Adds what the next epoch must know.
  void end_epoch(MemberNews& news);

  // As those of Checkpoints.
  std::string note();
  void wait_for_copy() {
    if (checkpoints()) checkpoints()->wait_for_copy();
  }
  void step_done(const TrainingState& state, const StepOutcome& outcome, LossWindow::Look look,
                 bool goes_on);
  double take_waited_s() { return checkpoints() ? checkpoints()->take_waited_s() : 0; }

  // The membership file wants a change; false: not yet.
  bool lets_change();
  // The state as it is now, when a rank leaves: within a bounded time, or not.
  void save_before_change(const TrainingState& state);
  // Why no save can succeed any more: another run, not only other members of this one, writes to
  // the directory; empty: none does.
  std::string taken_over();
  // Waits for the save under way; the context of those of this epoch, null before there is one.
  const SaveContext* finish_saving();
  // At the end, or when all leave: until it is saved, or could not be.
  void save_at_end(const TrainingState& state);

 private:
  using Clock = std::chrono::steady_clock;

  // Members are used in this order, and one of an epoch that is over may still be at work.
  struct Epoch {
    std::future<Checked<std::uint64_t>> taking;  // of the first member
    std::unique_ptr<Checkpoints> checkpoints;
    bool at_work() const;
  };

  Checkpoints* checkpoints() { return epoch_.checkpoints.get(); }
  void take();
  void hear_generation(const std::vector<std::string>& notes);
  void begin_saving(std::uint64_t generation);

  const TrainOptions& options_;
  const FlatSpace& space_;
  const Say say_;
  SaveContext context_;  // of the next generation
  GenerationLine line_;  // as above
  Certification certificates_;
  std::list<Epoch> left_behind_;

  Epoch epoch_;  // the one that goes on
  Communicator* ranks_ = nullptr;
  std::uint64_t known_generation_ = 0;
  std::string told_;  // note of the first member
  bool due_ = false;
  std::optional<Clock::time_point> change_wanted_since_;
};

}  // namespace muster
