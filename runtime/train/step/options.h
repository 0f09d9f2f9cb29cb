// What a person can choose about a run, and reading it from the command line.
//
// Defaults make a small model that trains on one core. Plain data; parsing prints help and
// complaints itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/checkpoint/file/write.h"
#include "runtime/model/gpt.h"
#include "runtime/optimizer/adamw.h"
#include "runtime/tokenize/text_blocks.h"
#include "runtime/train/step/training_state.h"
#include "runtime/zero/bucket.h"

namespace CLI {
class App;
}

namespace muster {

// Whether training goes on while a checkpoint is written. Automatic: only for a state that takes
// noticeably long.
enum class SaveMode { automatic, background, blocking };

// How ranks reach each other: by Open MPI, started by mpirun; or by muster's own shared memory and
// TCP, started by anybody with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Automatic: by what
// the environment says.
enum class CommunicatorKind { automatic, mpi, muster };

// Steps, counted from 1, both included.
struct StepRange {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
};

inline constexpr std::uint64_t usual_profile_steps = 10;

struct TrainOptions {
  std::vector<std::string> data;  // files and directories, of text or of tokens
  std::string jsonl_field = usual_jsonl_field;
  bool verify_data = true;                   // reads files of tokens whole before the first step
  std::string data_cache;                    // directory on this node; empty: none
  std::uint64_t data_cache_limit_bytes = 0;  // 0: what the disk holds
  std::string out = "outputs";
  GptShape shape;  // vocabulary 0: that of the data
  GptSettings model;
  std::uint64_t steps = 200;
  std::uint64_t batch = 16;             // sequences per step, over all ranks
  std::uint64_t micro_batch = 0;        // sequences per forward pass; 0: a whole leaf
  std::uint64_t leaves = 0;             // of the summation tree; 0: chosen by BatchPlan
  bool deterministic = false;           // same bits at any number of ranks
  ZeroStage zero = ZeroStage::moments;  // changes no bit
  BucketLimits buckets;                 // nor do these
  LearningRate learning_rate;
  AdamwSettings adamw;
  double clip = 1.0;  // largest gradient norm; 0: no clipping
  std::uint64_t seed = 1;
  std::uint64_t log_every = 10;
  std::optional<double> peak_tflops;       // of one rank; none: measured
  std::string profile;                     // file, or directory; empty: none
  std::optional<StepRange> profile_steps;  // none: the first ten of the run
  std::uint64_t checkpoint_every = 50;     // steps; 0: none but the last
  std::uint64_t keep = 3;
  std::uint64_t replica_check_every = 100;  // steps; 0: never
  std::uint64_t most_far_above = 100;       // steps in a row until training has diverged; 0: any
  SaveMode save_mode = SaveMode::automatic;
  std::optional<WriteWay> write_way;  // none: measured at the first large save
  std::string checkpoint_dir;
  std::string resume;  // "", "auto", "certified", "none" or a path
  int threads = 1;     // per rank
  CommunicatorKind communicator = CommunicatorKind::automatic;
  // A save to slow storage keeps the others waiting this long too.
  std::uint64_t peer_timeout_s = 1800;
  std::optional<std::uint64_t> fail_at_step;
  std::uint64_t fail_rank = 0;
  std::optional<std::uint64_t> flip_at_step;  // a bit on fail_rank
  bool flip_gradient = false;                 // of its gradient, otherwise of its weights
  std::uint64_t step_delay_ms = 0;
  bool updates_at_once = false;  // a step changes the state only when nothing can fail any more
};

// The options, or the exit code when there is nothing to run (help was printed, or a complaint).
std::variant<TrainOptions, int> parse_train_options(int argc, const char* const* argv);

// The same without a word to anybody: the options, or a sentence that says what is wrong. The words
// are those after the program's name.
std::variant<TrainOptions, std::string> read_train_options(std::vector<std::string> words);

// Adds all options of a run to another command; vocabulary becomes 0.
void add_run_options(CLI::App& app, TrainOptions& options);

// As every rank of a run takes them whose ranks come and go: all hold the whole state, and bits do
// not depend on who is there.
TrainOptions elastic_options(const TrainOptions& options);

// Options that decide the weights, by name and as text; kept in every checkpoint.
std::map<std::string, std::string> result_options(const TrainOptions& options);

// How the sequences of one step are cut: leaves of the summation tree, and micro-batches inside a
// leaf.
//
// Leaves are as equal as whole micro-batches allow, and ranks own as equal numbers of leaves. In
// deterministic mode the leaves are fixed by the batch, so the bits of a step do not depend on the
// ranks: one per micro-batch, so that any number of ranks gets its share. Otherwise there is one
// per rank, whose forward pass takes the whole of it unless --micro-batch says less, which makes
// the largest matrix products. Pure.

// Sequences [lo, hi) of a step.
struct SequenceRange {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  std::uint64_t size() const { return hi - lo; }
};

struct BatchPlan {
  std::uint64_t batch = 0;        // sequences per step
  std::uint64_t leaves = 1;       // at least the number of ranks
  std::uint64_t micro_batch = 0;  // sequences per forward pass; of the largest where they differ
  bool whole_leaves = false;      // a forward pass is a leaf, however large that is

  SequenceRange sequences(const LeafRange& of) const;
  // Sequences of a forward pass in these leaves.
  std::uint64_t pass_sequences(const LeafRange& of) const {
    return whole_leaves ? sequences({of.lo, of.lo + 1}).size() : micro_batch;
  }
  std::uint64_t passes(const LeafRange& of) const {
    return whole_leaves ? of.hi - of.lo : sequences(of).size() / micro_batch;
  }
  // Forward passes of all ranks.
  std::uint64_t micro_batches() const { return passes({0, leaves}); }
  // Of the rank that has most.
  std::uint64_t most_sequences(std::size_t ranks) const;
  bool has_one_pass_per_rank(std::size_t ranks) const {
    return leaves == ranks && micro_batches() == ranks;
  }
};

// Throws StartError when the options do not fit each other or the number of ranks.
BatchPlan make_batch_plan(const TrainOptions& options, std::size_t ranks);

// What a person might not expect of it, in sentences: gradients that --zero leaves whole, ranks
// that wait for the slowest.
std::vector<std::string> sharing_remarks(const TrainOptions& options, std::size_t ranks);

}  // namespace muster
