// Saving a checkpoint while training goes on.
//
//   begin()           a thread copies what this rank owns into the slot; what has been copied is
//                     on its way to the disk at once
//   wait_for_copy()   before the optimizer changes the state: usually nothing is left to wait for
//   meanwhile         the thread takes checksums and vitals of the slot and ends the shard
//   note(), hear()    with every step ranks tell each other how far they are; once all shards are
//                     durable a thread of rank 0 commits, and the next notes carry the outcome.
//                     A single rank commits at once.
//
// One save at a time: a second begin() needs !busy(). The slot is memory for three planes of the
// owned elements, allocated and touched once. Ranks without a shared directory fetch and commit
// together, in hear(), while training waits. All methods are the training thread's; hear(),
// finish() and finish_within() are collective.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/flat_space.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/report/spent_time.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/options.h"
#include "scheduler/text/fields.h"

namespace muster {

// Whether there is something to wait for, and it would not be waited for.
template <class T>
bool is_ready(const std::future<T>& result) {
  return result.valid() && result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// A large array of floats that begins at a page, in huge pages where the system has them, all of it
// touched: using it later never waits for the system to find a page. Zeros at first.
class PageMemory {
 public:
  // Throws std::bad_alloc.
  explicit PageMemory(std::size_t floats);

  std::span<float> floats() { return floats_; }
  std::span<const float> floats() const { return floats_; }

 private:
  Mapping memory_;
  std::span<float> floats_;
};

class BackgroundSave {
 public:
  // The arguments outlive this object.
  BackgroundSave(SaveContext& context, const FlatSpace& space, Communicator& ranks);
  ~BackgroundSave();  // waits for the threads; what was not committed is an orphan

  bool busy() const { return phase_ != Phase::idle; }

  // Takes the state as it is now. It must not change before wait_for_copy().
  void begin(const TrainingState& state);
  void wait_for_copy() {
    if (copied_.valid()) copied_.get();
  }

  // What the other ranks have to know now; never waits.
  std::string note();
  // The notes of all ranks, by rank. The outcome when the save has ended, the same on all ranks.
  std::optional<SaveOutcome> hear(const std::vector<std::string>& notes);
  // Goes on until the save has ended.
  SaveOutcome finish();
  // Or until rank 0 finds that it has taken so long.
  std::optional<SaveOutcome> finish_within(std::chrono::milliseconds limit);

  // The other ranks may be gone: what has not been committed is not to be. Threads go on for a
  // while, without the state and the ranks. Only at_work() and the destructor follow.
  void give_up();
  bool at_work() const { return work_.valid() && !is_ready(work_); }

 private:
  enum class Phase { idle, writing, committing };

  PlaneSpans slot_planes() const;
  SourceHashes copy(const TrainingState& state, const std::function<void(std::uint64_t)>& filled);
  Checked<std::string> copy_and_write(const TrainingState& state, std::promise<void> copied);
  Checked<std::string> commit_unless_missing(const Manifest& manifest);
  std::optional<SaveOutcome> hear_parts(const std::vector<std::string>& notes);
  std::optional<SaveOutcome> hear_commit(const std::string& note);
  SaveOutcome end(const Checked<std::string>& trouble);

  SaveContext& context_;
  const FlatSpace& space_;
  Communicator& ranks_;
  const std::size_t rank_;
  const std::size_t size_;
  PageMemory slot_;
  std::atomic<bool> given_up_ = false;
  Phase phase_ = Phase::idle;
  TrainingProgress progress_;
  ElementRange owned_;
  Stopwatch since_begin_;
  // Written by this rank's thread, read once it is done.
  double copied_s_ = 0;
  double durable_s_ = 0;
  std::future<void> copied_;
  std::future<Checked<std::string>> work_;  // of this rank's thread in this phase
  std::string note_;                        // of this phase, once the thread is done
  std::vector<std::string> parts_;          // of all ranks
};

// Of a rank, from which on saving automatically is saving in the background.
inline constexpr std::uint64_t background_save_bytes = 16 << 20;

// What one rank knows of its host.
struct HostMemory {
  std::string host;
  std::uint64_t slot_bytes = 0;                  // that this rank wants
  std::optional<std::uint64_t> available_bytes;  // to all ranks of the host together
  MUSTER_FIELDS(host, slot_bytes, available_bytes)
};

// The host on which the copies of all its ranks do not leave a twentieth of its free memory, with
// the figures as a sentence; empty: there is none. Pure.
std::string lack_of_memory(const std::vector<HostMemory>& ranks);

// Whether checkpoints are written in the background: the mode that was asked for; blocking, with a
// warning, where the host lacks the memory for a copy of the state: it would end the run, hours
// after its start and at the hand of the kernel. The same on all ranks. Collective.
bool saves_in_background(const TrainOptions& options, const std::string& host,
                         const FlatSpace& space, Communicator& ranks, std::string& warning);

// How much memory this process may still take on its host: the smaller one of what the system calls
// available, and what the limits of the control groups above this process leave (version 2; files
// in the page cache count as free). None: nothing could be found out. Any thread.
std::optional<std::uint64_t> available_memory_bytes(const std::string& proc = "/proc",
                                                    const std::string& cgroups = "/sys/fs/cgroup");

}  // namespace muster
