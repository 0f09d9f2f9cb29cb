#include "runtime/train/elastic/run.h"

#include <omp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "runtime/checkpoint/choose.h"
#include "runtime/communicator/mesh/mesh.h"
#include "runtime/data/sampler.h"
#include "runtime/layer/gemm.h"
#include "runtime/protocol/heartbeat.h"
#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"
#include "runtime/train/elastic/checkpoints.h"
#include "runtime/train/restore/restore.h"
#include "runtime/train/run.h"
#include "runtime/train/run_report.h"
#include "runtime/train/save/save.h"
#include "runtime/train/step/data_parallel_step.h"
#include "runtime/train/step/guard.h"
#include "runtime/train/step/stop_request.h"
#include "runtime/train/step/training_data.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto look_pause = std::chrono::milliseconds(5);

// After a meeting that came to nothing: the others may not have seen the newest epoch yet.
constexpr auto meeting_pause = std::chrono::milliseconds(20);

// So far apart the ranks of a run that is to end may get SIGTERM.
constexpr auto leave_pause = std::chrono::milliseconds(300);

// What is told of a step, as it goes from one rank to another.
struct ToldStep {
  StepNumbers numbers;
  bool is_known = false;
};

// What all members must have alike for their gradients to belong together.
std::string work_text(const TrainOptions& options, const TrainingData& data) {
  const SamplerState& sampler = data.fingerprint;
  return agreed_text(options) + "data=" + sampler.kind + " of " +
         std::to_string(sampler.data_bytes) + " bytes with checksum " +
         std::to_string(sampler.data_crc32c) + "\n";
}

// The highest step in a metrics file; 0: none.
std::uint64_t last_told_step(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t last = 0;
  constexpr std::string_view key = "\"step\":";
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(key);
    if (at == std::string::npos) continue;
    last = std::max<std::uint64_t>(last, std::strtoull(&line[at + key.size()], nullptr, 10));
  }
  return last;
}

std::span<char> bytes_of(std::vector<float>& plane) {
  return {reinterpret_cast<char*>(plane.data()), plane.size() * sizeof(float)};
}

class ElasticRun {
 public:
  ElasticRun(const TrainOptions& options, const RankVariables& variables,
             std::optional<TokenDataset> dataset, Communicator& alone)
      : options_(options),
        variables_(variables),
        plan_(make_batch_plan(options, 1)),
        data_(open_training_data(options, std::move(dataset),
                                 {options.out, checkpoint_root(options, variables)}, host_name(),
                                 alone)),
        sampler_(*data_.tokens, options.shape.context, options.seed),
        space_(gpt_flat_space(options.shape)),
        state_(make_training_state(space_, ZeroStage::nothing, 0, 1)),
        heartbeat_(variables.heartbeat_path),
        watch_(variables.members_path) {
    check_windows(data_, sampler_, options.shape.context);
    restore(alone);
    prepare_checkpoints();
    peak_ = run_peak(options, alone);
  }

  int go(const std::function<void()>& before_steps) {
    waits_since_ = Clock::now();
    heartbeat_.beat(state_.step);  // ready to be made a member
    while (true) {
      if (const auto code = wait_for_epoch()) return *code;
      const EpochMembers epoch = watch_.newest();
      if (std::exchange(met_for_, epoch.epoch) != epoch.epoch) waits_since_ = Clock::now();
      const auto ranks = connect(epoch);
      if (!ranks) {
        sleep_unless_stopped(meeting_pause);
        continue;
      }
      if (before_steps) before_steps();
      const auto code = take_part(epoch, *ranks);
      if (code) return *code;
      ended_epoch_ = epoch.epoch;
      waits_since_ = Clock::now();
    }
  }

 private:
  using ExitCode = std::optional<int>;  // or the run continues in another epoch

  // Every process for itself; who is behind the others gets their state when it joins them.
  void restore(Communicator& alone) {
    std::vector<std::string> remarks;
    const auto restored = restore_checkpoint({options_, plan_, space_, data_.fingerprint},
                                             variables_, alone, state_, remarks);
    if (restored) {
      started_from_ = "resumed from " + restored->path;
      for (const std::string& remark : remarks) started_from_ += "\nwarning: " + remark;
      news_.previous = std::filesystem::path(restored->path).filename().string();
      news_.lineage = restored->manifest.lineage;
      news_.from_generation = news_.known_generation = restored->manifest.generation;
      for (const GenerationFork& fork : news_.lineage) {
        news_.known_generation = std::max(news_.known_generation, fork.generation);
      }
      return;
    }
    state_ = make_training_state(space_, ZeroStage::nothing, 0, 1);
    initialize_gpt(options_.shape, space_, options_.seed, state_.weights);
  }

  void prepare_checkpoints() {
    news_.host = host_name();
    const std::string root = checkpoint_root(options_, variables_);
    if (root.empty()) return;
    const CheckpointSearch search = search_checkpoints(root);
    news_.forks = search.forks;
    news_.known_generation = std::max(news_.known_generation, search.highest_generation);
    SaveContext context =
        make_save_context(options_, variables_, plan_, data_.fingerprint, sampler_.windows());
    GenerationLine line;
    line.run_id = context.identity.run_id;
    line.epoch = variables_.epoch;
    checkpoints_.emplace(options_, std::move(context), std::move(line), space_,
                         [this](const std::string& text) { say(text); });
  }

  bool is_member(const EpochMembers& epoch) const {
    return epoch.place_of(*variables_.rank).has_value();
  }

  // Until there is an epoch to take part in.
  ExitCode wait_for_epoch() {
    while (true) {
      if (stop_requested()) return exit_after_sigterm;
      const EpochMembers& newest = watch_.newest();
      if (newest.epoch > ended_epoch_) {
        if (is_member(newest)) return std::nullopt;
        if (ended_epoch_ > 0) return 0;
      }
      if (has_waited_too_long()) {
        throw StartError("MUSTER_MEMBERS: " + variables_.members_path +
                         " names no newer epoch with rank " + std::to_string(*variables_.rank) +
                         " for " + std::to_string(options_.peer_timeout_s) + " s (--peer-timeout)");
      }
      std::this_thread::sleep_for(look_pause);
    }
  }

  bool has_waited_too_long() const {
    const std::chrono::seconds limit(options_.peer_timeout_s);
    return limit.count() > 0 && Clock::now() - waits_since_ > limit;
  }

  // Nothing when not all members of the epoch came together; there may be a newer one by then.
  // Throws MeetingFailed when none comes, nor they, for the peer timeout.
  std::unique_ptr<Communicator> connect(const EpochMembers& epoch) {
    MeshSeat seat;
    seat.job = variables_.job;
    seat.work = work_text(options_, data_);
    seat.name = "rank " + std::to_string(*variables_.rank);
    seat.epoch = epoch.epoch;
    seat.rank = *epoch.place_of(*variables_.rank);
    seat.size = epoch.members.size();
    if (seat.size == 1) return make_single_communicator();
    const std::chrono::seconds limit(options_.peer_timeout_s);
    MeetingPlace place{epoch.members[0].host, epoch.members[0].port, limit};
    place.secret = variables_.rendezvous_secret;
    if (seat.rank == 0 && variables_.member_port) {
      place.port = static_cast<std::uint16_t>(*variables_.member_port);
    }
    place.is_over = [&] { return stop_requested() || watch_.newest().epoch > epoch.epoch; };
    try {
      return make_mesh_communicator(seat, place, {limit});
    } catch (const MeetingFailed&) {
      const bool is_newest = watch_.newest().epoch == epoch.epoch;
      if (is_newest && has_waited_too_long()) throw;
      return nullptr;
    }
  }

  ExitCode take_part(const EpochMembers& epoch, Communicator& ranks) {
    ExitCode code;
    try {
      const EpochStart start = share_state(ranks);
      open_report(epoch);
      if (checkpoints_) checkpoints_->begin_epoch(epoch.epoch, start, ranks);
      code = take_steps(epoch, ranks);
    } catch (const PeerLost& lost) {
      say("rank " + std::to_string(epoch.members.at(lost.rank).rank) + " is lost: " + lost.why);
    }
    if (checkpoints_) checkpoints_->end_epoch(news_);
    return code;
  }

  EpochStart share_state(Communicator& ranks) {
    state_.owned = owned_elements(space_, ranks.rank(), ranks.size());
    news_.step = state_.step;
    const EpochStart start{gather_values(ranks, news_)};
    const std::size_t source = start.source();
    if (start.differs()) receive_state(source, ranks);
    news_.has_trained = start.members[source].has_trained;
    news_.previous = start.members[source].previous;
    news_.lineage = start.members[source].lineage;
    return start;
  }

  // Beside the own state, which is still needed when the source is lost half way.
  void receive_state(std::size_t source, Communicator& ranks) {
    TrainingState newest = state_;
    TrainingProgress progress = state_;
    ranks.broadcast({reinterpret_cast<char*>(&progress), sizeof progress}, source);
    static_cast<TrainingProgress&>(newest) = progress;
    for (auto* plane : {&newest.weights, &newest.exp_avg, &newest.exp_avg_sq}) {
      ranks.broadcast(bytes_of(*plane), source);
    }
    // What its last step found, too: the line about it may be still to be written.
    ToldStep told;
    if (last_outcome_) told = {*last_outcome_, true};
    ranks.broadcast({reinterpret_cast<char*>(&told), sizeof told}, source);
    state_ = std::move(newest);
    last_outcome_.reset();
    if (told.is_known) static_cast<StepNumbers&>(last_outcome_.emplace()) = told.numbers;
  }

  // The first member tells; a new one goes on where the one before ended.
  void open_report(const EpochMembers& epoch) {
    if (epoch.members[0].rank != *variables_.rank) {
      report_.reset();
      return;
    }
    if (!report_) {
      // That one may have been lost between its last step and the line about it.
      const bool is_untold = last_outcome_ && last_told_step(metrics_path()) < state_.step;
      report_.emplace(options_, variables_, host_name(), state_.step - (is_untold ? 1 : 0), peak_);
      if (is_untold) report_->step_done(state_.step, *last_outcome_, 0);
      if (!started_from_.empty()) say(started_from_);
      const std::string trouble =
          checkpoints_ ? keep_tokenizer(data_, checkpoint_root(options_, variables_)) : "";
      if (!trouble.empty()) say("warning: " + trouble);
    }
    const auto members = static_cast<double>(epoch.members.size());
    report_->peak_is({peak_.flops * members, peak_.origin});
    say("epoch " + std::to_string(epoch.epoch) + ": " + std::to_string(epoch.members.size()) +
        " ranks from step " + std::to_string(state_.step));
    if (epoch.members.size() <= plan_.leaves) return;
    say("warning: --batch feeds " + std::to_string(plan_.leaves) + " ranks (one each of its " +
        std::to_string(plan_.leaves) +
        " accumulation chunks); the others are idle: use fewer nodes, or a " +
        "larger --batch or --accumulation-chunks");
  }

  std::string metrics_path() const { return options_.out + "/metrics.jsonl"; }

  ExitCode take_steps(const EpochMembers& epoch, Communicator& ranks) {
    DataParallelStep step(options_, plan_, space_, sampler_, ranks);
    StepGuard guard(options_, *variables_.rank, variables_.attempt.value_or(0), ranks);
    for (bool is_first = true; state_.step < options_.steps; is_first = false) {
      if (const auto doubt = guard.before_step(state_))
        return end_in_doubt_of(*doubt, epoch, ranks);
      const bool leaves = is_to_leave();
      StepWishes asked = wishes(leaves, epoch);
      guard.watch(state_, asked);
      StepOutcome outcome = step.run(state_, asked);
      if (outcome.doubt) return end_in_doubt_of(*outcome.doubt, epoch, ranks);
      news_.has_trained = true;
      heartbeat_.beat(state_.step);
      if (is_first) report_pause();
      last_step_ = Clock::now();
      const Heard heard = hear(epoch, outcome);
      const LossWindow::Look look = guard.step_done(outcome, state_);
      const auto diverged = find_divergence(state_, options_.most_far_above);
      step_done(outcome, look,
                !outcome.stop && !heard.changes && !heard.all_are_to_stop && !diverged);
      if (diverged) return give_up(*diverged, ranks);
      const std::string taken_over = checkpoints_ ? checkpoints_->taken_over() : "";
      if (!taken_over.empty()) return end_taken_over(taken_over);
      if (heard.all_are_to_stop) {
        if (checkpoints_) checkpoints_->save_at_end(state_);
        return exit_after_sigterm;
      }
      if (outcome.stop && checkpoints_) checkpoints_->save_before_change(state_);
      if (leaves) return exit_after_sigterm;
      if (outcome.stop || heard.changes) return std::nullopt;
      sleep_unless_stopped(std::chrono::milliseconds(options_.step_delay_ms));
    }
    const auto diverged = find_divergence_at_end(state_, options_.most_far_above, ranks);
    if (diverged) return give_up(*diverged, ranks);
    if (checkpoints_) checkpoints_->save_at_end(state_);
    return finish(ranks);
  }

  int give_up(const Divergence& divergence, Communicator& ranks) {
    const SaveContext* saves = checkpoints_ ? checkpoints_->finish_saving() : nullptr;
    const CheckpointPlace place = saves ? CheckpointPlace{saves->root, saves->identity.generation}
                                        : CheckpointPlace{checkpoint_root(options_, variables_), 0};
    return end_diverged(divergence, place, ranks);
  }

  int end_in_doubt_of(HardwareDoubt doubt, const EpochMembers& epoch, Communicator& ranks) {
    for (std::size_t& place : doubt.ranks) place = epoch.members.at(place).rank;
    return end_in_doubt(doubt, *variables_.rank, host_name(), ranks);
  }

  // Asked to stop, and not waiting any more for all others to be asked too.
  bool is_to_leave() {
    const auto before = std::exchange(last_look_, Clock::now());
    if (!stop_requested()) return false;
    if (!stop_asked_since_) stop_asked_since_ = before.value_or(*last_look_);  // or later
    return !checkpoints_ || *last_look_ - *stop_asked_since_ > leave_pause;
  }

  // A note: the epoch seen, '!' or ' ' for whether this rank was asked to stop, and the note of the
  // checkpoints.
  StepWishes wishes(bool leaves, const EpochMembers& epoch) {
    StepWishes wishes;
    wishes.stop = leaves;
    std::uint64_t seen = watch_.newest().epoch;
    if (seen != epoch.epoch && checkpoints_ && !checkpoints_->lets_change()) seen = epoch.epoch;
    wishes.note = std::to_string(seen) + (stop_asked_since_ ? '!' : ' ');
    if (!checkpoints_) return wishes;
    wishes.note += checkpoints_->note();
    wishes.before_update = [this] { checkpoints_->wait_for_copy(); };
    return wishes;
  }

  struct Heard {
    bool changes = false;  // all have seen the same newer epoch: only then all know it
    bool all_are_to_stop = false;
  };

  // Leaves the notes of the checkpoints.
  static Heard hear(const EpochMembers& epoch, StepOutcome& outcome) {
    std::set<std::uint64_t> seen;
    std::size_t asked = 0;
    for (std::string& note : outcome.notes) {
      const std::size_t end = note.find_first_of(" !");
      seen.insert(std::stoull(note.substr(0, end)));
      if (note[end] == '!') ++asked;
      note.erase(0, end + 1);
    }
    return {seen.size() == 1 && *seen.begin() != epoch.epoch, asked == outcome.notes.size()};
  }

  void step_done(const StepOutcome& outcome, LossWindow::Look look, bool goes_on) {
    last_outcome_ = outcome;
    if (report_) {
      report_->step_done(state_.step, outcome, checkpoints_ ? checkpoints_->take_waited_s() : 0);
    }
    if (!checkpoints_) return;
    StepOutcome saved = outcome;
    saved.stop = false;  // what is saved then is decided here
    checkpoints_->step_done(state_, saved, look, goes_on && state_.step < options_.steps);
  }

  // How long no step was finished around a change.
  void report_pause() {
    if (!last_step_) return;
    const std::chrono::duration<double, std::milli> pause = Clock::now() - *last_step_;
    say(printed("step %llu after a pause of %.0f ms", static_cast<unsigned long long>(state_.step),
                pause.count()));
  }

  int finish(Communicator& ranks) {
    const auto written = write_final_weights(options_.out, space_, state_, ranks);
    if (!written) say("error: the weights could not be written: " + written.reason());
    if (report_) report_->end(0);
    return written ? 0 : exit_failed;
  }

  void say(const std::string& line) {
    if (report_) report_->say(line);
  }

  const TrainOptions& options_;
  const RankVariables& variables_;
  BatchPlan plan_;
  TrainingData data_;
  Sampler sampler_;
  FlatSpace space_;
  TrainingState state_;
  HeartbeatFile heartbeat_;
  MemberWatch watch_;
  MemberNews news_;                             // of this rank
  std::optional<Clock::time_point> last_look_;  // for SIGTERM
  std::optional<Clock::time_point> stop_asked_since_;
  std::string started_from_;
  std::uint64_t ended_epoch_ = 0;
  std::uint64_t met_for_ = 0;  // the latest epoch whose members it looked for
  Clock::time_point waits_since_;
  PeakRate peak_;                    // of this rank; the others are taken to be like it
  std::optional<RunReport> report_;  // of the first member
  std::optional<Clock::time_point> last_step_;
  std::optional<StepOutcome> last_outcome_;  // of the step that the state is after
  std::optional<ElasticCheckpoints> checkpoints_;
};

TrainOptions checked_options(const TrainOptions& options, const RankVariables& variables) {
  if (!variables.rank) throw StartError("MUSTER_MEMBERS is set, but RANK is not");
  if (!options.profile.empty()) {
    throw StartError(
        "--profile: a trace needs the same ranks from its first step to its last; with "
        "MUSTER_MEMBERS they may change: leave it out");
  }
  if (options.zero > ZeroStage::moments) {
    throw StartError("--zero: with MUSTER_MEMBERS every rank holds the whole state; leave it out");
  }
  if (options.model.precision == Precision::bf16 && !has_bf16_gemm()) {
    throw StartError("--precision: this processor has no bf16 matrix products");
  }
  return elastic_options(options);
}

}  // namespace

int run_elastic_training(const TrainOptions& options, const RankVariables& variables,
                         const std::function<void()>& before_steps) {
  omp_set_num_threads(options.threads);
  const auto alone = make_single_communicator();
  const TrainingDataPlan data = plan_training_data(checked_options(options, variables), *alone);
  const std::string fault = gpt_shape_fault(data.options.shape);
  if (!fault.empty()) throw StartError(fault);
  return ElasticRun(data.options, variables, data.dataset, *alone).go(before_steps);
}

const EpochMembers& MemberWatch::newest() {
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0) return newest_;
  const std::int64_t changed_ns =
      std::int64_t{found.st_ctim.tv_sec} * 1'000'000'000 + found.st_ctim.tv_nsec;
  if (found.st_ino == inode_ && changed_ns == changed_ns_) return newest_;
  const auto read = read_membership(path_);
  if (!read) return newest_;  // another look may find it whole
  inode_ = found.st_ino;
  changed_ns_ = changed_ns;
  if (read->epoch > newest_.epoch) newest_ = *read;
  return newest_;
}

}  // namespace muster
