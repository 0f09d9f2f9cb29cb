#include "runtime/train/run.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/data/sampler.h"
#include "runtime/layer/gemm.h"
#include "runtime/memory/bf16.h"
#include "runtime/protocol/heartbeat.h"
#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"
#include "runtime/report/spent_time.h"
#include "runtime/train/profile.h"
#include "runtime/train/restore/restore.h"
#include "runtime/train/run_report.h"
#include "runtime/train/save/checkpoints.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/data_parallel_step.h"
#include "runtime/train/step/guard.h"
#include "runtime/train/step/stop_request.h"
#include "runtime/train/step/training_data.h"

namespace muster {
namespace {

// A launcher that this build does not understand: each process would train the whole model.
void check_alone(const RankVariables& variables, const Communicator& ranks) {
  const bool is_said = variables.world_size || !variables.members_path.empty();
  if (is_said || ranks.size() > 1 || variables.launched < 2) return;
  throw StartError(
      "the launcher began several processes, which found as many separate worlds of one rank: use "
      "Open MPI's mpirun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (WORLD_SIZE=1 where "
      "separate runs are meant)");
}

void check_world(const RankVariables& variables, const Communicator& ranks) {
  if (!variables.world_size || *variables.world_size == ranks.size()) return;
  throw StartError("WORLD_SIZE says " + std::to_string(*variables.world_size) + " ranks, but " +
                   std::to_string(ranks.size()) +
                   " came together: let one launcher start all of them");
}

class Run {
 public:
  Run(const TrainOptions& options, std::optional<TokenDataset> dataset,
      const RankVariables& variables, Communicator& ranks,
      const std::function<void()>& before_steps)
      : options_(options),
        variables_(variables),
        ranks_(ranks),
        before_steps_(before_steps),
        plan_(on_all_ranks(ranks, [&] { return checked_plan(); })),
        data_(open_training_data(options, std::move(dataset),
                                 {options.out, checkpoint_root(options, variables)}, host_name(),
                                 ranks)),
        sampler_(*data_.tokens, options.shape.context, options.seed),
        space_(gpt_flat_space(options.shape)),
        state_(make_training_state(space_, options.zero, ranks.rank(), ranks.size())),
        heartbeat_(variables.heartbeat_path),
        guard_(options, ranks.rank(), variables.attempt.value_or(0), ranks) {
    check_windows(data_, sampler_, options.shape.context);
  }

  int go() {
    restore();
    open_report();
    if (!options_.profile.empty()) profile_.emplace(options_, host_name(), state_.step, ranks_);
    begin_saving();
    heartbeat_.beat(state_.step);
    if (before_steps_) before_steps_();
    return take_steps();
  }

 private:
  BatchPlan checked_plan() {
    check_alone(variables_, ranks_);
    check_world(variables_, ranks_);
    if (options_.model.precision == Precision::bf16 && !has_bf16_gemm()) {
      throw StartError(
          "--precision: this processor has no bf16 matrix products (AVX-512 is needed)");
    }
    const std::string fault = gpt_shape_fault(options_.shape);
    if (!fault.empty()) throw StartError(fault);
    return make_batch_plan(options_, ranks_.size());
  }

  void restore() {
    const SpentTime spent(restore_s_);
    restored_ = restore_checkpoint({options_, plan_, space_, data_.fingerprint}, variables_, ranks_,
                                   state_, remarks_);
    if (restored_) return;
    state_ = {};  // both at once would be the peak of the whole run
    state_ = make_training_state(space_, options_.zero, ranks_.rank(), ranks_.size());
    const ElementRange held =
        state_.holds_own_only(state_.weights) ? state_.owned : ElementRange{0, space_.numel};
    initialize_gpt(options_.shape, space_, options_.seed, held, state_.weights);
  }

  void open_report() {
    const PeakRate peak = run_peak(options_, ranks_);
    on_all_ranks(ranks_, [&] {
      if (ranks_.rank() == 0) report_.emplace(options_, variables_, host_name(), state_.step, peak);
      return 0;
    });
    say("muster-train: " + std::to_string(ranks_.size()) + " ranks, " +
        std::to_string(space_.numel) + " elements, " + std::to_string(sampler_.windows()) +
        " windows of " + data_.unit);
    if (!data_.remark.empty()) say(data_.remark);
    for (const std::string& remark : sharing_remarks(options_, ranks_.size())) {
      say("warning: " + remark);
    }
    for (const std::string& remark : remarks_) say("warning: " + remark);
    if (restored_) {
      say("resumed from " + restored_->path + " at step " + std::to_string(state_.step) +
          printed(", read in %.3f s", restore_s_));
    }
    if (heartbeat_.failed())
      say("warning: MUSTER_HEARTBEAT: cannot write " + variables_.heartbeat_path);
  }

  void begin_saving() {
    if (checkpoint_root(options_, variables_).empty()) return;
    SaveContext context =
        make_save_context(options_, variables_, plan_, data_.fingerprint, sampler_.windows());
    const auto hosts = ranks_.gather_texts(context.host);
    const std::set<std::string> distinct(hosts.begin(), hosts.end());
    context.nodes.assign(distinct.begin(), distinct.end());
    if (restored_) context.previous = std::filesystem::path(restored_->path).filename().string();
    context.identity.generation = std::stoull(on_all_generation(context));
    context.lineage = restored_ ? restored_->manifest.lineage : std::vector<GenerationFork>();
    context.lineage.push_back({context.identity.generation, state_.step});
    if (ranks_.rank() == 0) {
      const std::string trouble = keep_tokenizer(data_, context.root);
      if (!trouble.empty()) say("warning: " + trouble);
    }
    const std::string previous = context.previous;
    checkpoints_.emplace(options_, std::move(context), space_, ranks_,
                         [this](const std::string& line) { say(line); });
    if (restored_) checkpoints_->continued_from(previous, state_.step);
  }

  std::string on_all_generation(const SaveContext& context) {
    const std::uint64_t highest = highest_generation(context.root, restored_, ranks_);
    const std::string mine = on_all_ranks(ranks_, [&] {
      if (ranks_.rank() != 0) return std::string();
      GenerationLine line;
      line.fork_step = state_.step;
      line.from = context.previous;
      line.reason = restored_ ? "resume" : "start";
      line.world = ranks_.size();
      line.nodes = context.nodes;
      line.run_id = context.identity.run_id;
      line.epoch = variables_.epoch;
      return std::to_string(needed(take_generation(context.root, line, highest)));
    });
    return from_rank_0(ranks_, mine);
  }

  int take_steps() {
    DataParallelStep step = make_step();
    while (state_.step < options_.steps) {
      if (const auto doubt = guard_.before_step(state_)) return end_in_doubt_of(*doubt);
      const StepOutcome outcome = run_step(step);
      if (outcome.doubt) return end_in_doubt_of(*outcome.doubt);
      heartbeat_.beat(state_.step);
      const LossWindow::Look look = guard_.step_done(outcome, state_);
      if (report_) {
        report_->step_done(state_.step, outcome, checkpoints_ ? checkpoints_->take_waited_s() : 0);
      }
      if (const auto diverged = find_divergence(state_, options_.most_far_above)) {
        return give_up(*diverged);
      }
      if (checkpoints_) {
        const TraceSpan span(trace(), SpanKind::checkpoint);
        checkpoints_->step_done(state_, outcome, look);
        if (!checkpoints_->taken_over().empty()) {
          return end_taken_over(checkpoints_->taken_over());
        }
      }
      if (profile_) say_if_any(profile_->end_step(state_.step));
      if (outcome.stop) {
        end_report();
        return exit_after_sigterm;
      }
      sleep_unless_stopped(std::chrono::milliseconds(options_.step_delay_ms));
    }
    const auto diverged = find_divergence_at_end(state_, options_.most_far_above, ranks_);
    if (diverged) return give_up(*diverged);
    if (checkpoints_) checkpoints_->save_now(state_);
    end_report();
    return write_weights();
  }

  Trace* trace() { return profile_ ? &profile_->trace() : nullptr; }

  DataParallelStep make_step() {
    if (!profile_) return {options_, plan_, space_, sampler_, ranks_};
    return {options_, plan_, space_, sampler_, profile_->ranks(), trace()};
  }

  StepOutcome run_step(DataParallelStep& step) {
    if (profile_) profile_->begin_step(state_.step);
    const TraceSpan span(trace(), SpanKind::step, state_.step + 1);
    return step.run(state_, wishes());
  }

  void end_report() {
    if (profile_) say_if_any(profile_->end());
    if (report_) report_->end(checkpoints_ ? checkpoints_->take_waited_s() : 0);
  }

  StepWishes wishes() {
    StepWishes wishes;
    wishes.stop = stop_requested();
    if (checkpoints_) {
      wishes.note = checkpoints_->note();
      wishes.before_update = [this] {
        const TraceSpan span(trace(), SpanKind::checkpoint);
        checkpoints_->wait_for_copy();
      };
    }
    guard_.watch(state_, wishes);
    return wishes;
  }

  int end_in_doubt_of(const HardwareDoubt& doubt) {
    return end_in_doubt(doubt, ranks_.rank(), host_name(), ranks_);
  }

  int give_up(const Divergence& divergence) {
    if (checkpoints_) checkpoints_->finish_saving();
    end_report();
    const SaveContext* saves = checkpoints_ ? &checkpoints_->context() : nullptr;
    const CheckpointPlace place =
        saves ? CheckpointPlace{saves->root, saves->identity.generation} : CheckpointPlace{};
    return end_diverged(divergence, place, ranks_);
  }

  int write_weights() {
    const auto written = write_final_weights(options_.out, space_, state_, ranks_);
    if (written) say("wrote " + options_.out + "/" + weights_file_name);
    if (!written) say("error: the weights could not be written: " + written.reason());
    return written ? 0 : exit_failed;
  }

  void say(const std::string& line) {
    if (report_) report_->say(line);
  }

  void say_if_any(const std::string& line) {
    if (!line.empty()) say(line);
  }

  const TrainOptions& options_;
  const RankVariables& variables_;
  Communicator& ranks_;
  const std::function<void()>& before_steps_;
  BatchPlan plan_;
  TrainingData data_;
  Sampler sampler_;
  FlatSpace space_;
  TrainingState state_;
  HeartbeatFile heartbeat_;
  std::optional<Restored> restored_;
  double restore_s_ = 0;
  std::vector<std::string> remarks_;
  std::optional<RunReport> report_;  // rank 0
  StepGuard guard_;
  std::optional<Checkpoints> checkpoints_;
  std::optional<Profile> profile_;
};

constexpr std::size_t probe_size = 512;  // operands and result fit the cache of a core
constexpr double probe_s = 0.01;

PeakRate measure_bf16_peak() {
  const std::size_t n = probe_size;
  const std::vector<Bf16> a(n * n, to_bf16(0.5f));
  std::vector<float> c(n * n);
  const GemmShape shape{.m = n, .n = n, .k = n};
  gemm(shape, a.data(), a.data(), c.data());  // compiles it
  double best_s = 1;
  for (const Stopwatch whole; whole.seconds() < probe_s;) {
    const Stopwatch one;
    gemm(shape, a.data(), a.data(), c.data());
    best_s = std::min(best_s, one.seconds());
  }
  return {2.0 * static_cast<double>(n * n * n) / best_s, "measured by a bf16 matrix product"};
}

PeakRate own_peak(const TrainOptions& options) {
  if (options.peak_tflops) return {*options.peak_tflops * 1e12, "given"};
  if (options.model.precision == Precision::bf16) return measure_bf16_peak();
  return measure_fma_peak(options.threads);
}

using Given = std::map<std::string, std::string>;

std::string yes_or_no(bool flag) {
  return flag ? "given" : "not given";
}

std::string steps_text(const std::optional<StepRange>& steps) {
  if (!steps) return "not given";
  return std::to_string(steps->first) + "-" + std::to_string(steps->last);
}

Given agreed(const TrainOptions& options) {
  Given given = result_options(options);
  if (!options.deterministic) given.erase("threads");
  given.erase("tied");
  given["untied"] = yes_or_no(!options.shape.tied);
  given["recompute"] = yes_or_no(options.model.recompute);
  given["deterministic"] = yes_or_no(options.deterministic);
  given["steps"] = std::to_string(options.steps);
  given["micro-batch"] = std::to_string(options.micro_batch);
  given["leaves"] = std::to_string(options.leaves);
  given["zero"] = std::to_string(static_cast<int>(options.zero));
  given["bucket-bytes"] = std::to_string(options.buckets.least_bytes);
  given["bucket-limit-bytes"] = std::to_string(options.buckets.most_bytes);
  given["checkpoint-every"] = std::to_string(options.checkpoint_every);
  given["checkpoint-mode"] = options.save_mode == SaveMode::automatic    ? "auto"
                             : options.save_mode == SaveMode::background ? "background"
                                                                         : "blocking";
  given["keep"] = std::to_string(options.keep);
  given["replica-check-every"] = std::to_string(options.replica_check_every);
  given["divergence-steps"] = std::to_string(options.most_far_above);
  given["verify-data"] = options.verify_data ? "all" : "headers";
  given["jsonl-field"] = options.jsonl_field;
  given["profile"] = yes_or_no(!options.profile.empty());
  given["profile-steps"] = steps_text(options.profile_steps);
  return given;
}

std::string without_newlines(std::string value) {
  std::ranges::replace(value, '\n', ' ');
  return value;
}

}  // namespace

int end_taken_over(const std::string& why) {
  std::fprintf(stderr,
               "muster-train: ends, as another run writes to its checkpoint directory: %s: give "
               "each run a directory of its own (--checkpoint-dir)\n",
               why.c_str());
  return exit_taken_over;
}

int run_training(const TrainOptions& options, const RankVariables& variables, Communicator& ranks,
                 const std::function<void()>& before_steps) {
  omp_set_num_threads(options.threads);  // of the calling thread's parallel regions
  check_sharing_options(options, ranks);
  const TrainingDataPlan data = plan_training_data(options, ranks);
  return Run(data.options, data.dataset, variables, ranks, before_steps).go();
}

PeakRate run_peak(const TrainOptions& options, Communicator& ranks) {
  PeakRate peak = own_peak(options);
  for (const double one : gather_values(ranks, std::exchange(peak.flops, 0))) peak.flops += one;
  return peak;
}

std::string agreed_text(const TrainOptions& options) {
  std::string text;
  for (const auto& [name, value] : agreed(options)) {
    text += name + "=" + without_newlines(value) + "\n";
  }
  return text;
}

void check_sharing_options(const TrainOptions& options, Communicator& ranks) {
  std::vector<GivenOptions> all;
  for (std::string& text : ranks.gather_texts(agreed_text(options))) {
    all.push_back({"rank " + std::to_string(all.size()), std::move(text)});
  }
  const std::string difference = options_difference(all);
  if (!difference.empty()) throw StartError(difference);
  const BucketLimits& buckets = options.buckets;
  if (buckets.least_bytes > buckets.most_bytes) {
    throw StartError("--bucket-bytes: " + std::to_string(buckets.least_bytes) +
                     " is more than the " + std::to_string(buckets.most_bytes) +
                     " of --bucket-limit-bytes");
  }
}

}  // namespace muster
