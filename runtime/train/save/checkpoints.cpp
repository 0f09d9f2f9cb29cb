#include "runtime/train/save/checkpoints.h"

#include <algorithm>
#include <utility>

#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/number_text.h"
#include "runtime/report/spent_time.h"
#include "runtime/train/save/background.h"

namespace muster {
namespace {

std::string tale_of(const SaveOutcome& outcome, double gigabytes) {
  return "checkpoint " + outcome.directory +
         printed(", %.3f GB, copied after %.3f s, durable after %.3f s", gigabytes,
                 outcome.copied_s, outcome.durable_s);
}

// What became of it, for a person.
std::string write_certificate_of(const std::string& path, std::uint64_t generation,
                                 const DueCertificate& due) {
  const std::string steps =
      "steps " + std::to_string(due.step + 1) + " to " + std::to_string(due.at_step);
  const auto done = certify(
      path, {due.at_step,
             generation,
             {steps + ": every loss finite and within 6 deviations of the median, every gradient "
                      "norm below 10 times its median"}});
  if (!done) return "warning: checkpoint " + due.directory + ": no certificate: " + done.reason();
  return "checkpoint " + due.directory + " is certified by " + steps;
}

}  // namespace

Certification::Certification(std::uint64_t checkpoint_every)
    : steps_(std::max(least_certification_steps, checkpoint_every)) {}

void Certification::committed(const std::string& directory, std::uint64_t step) {
  if (step < last_doubt_) return;
  if (waiting_.size() > 1) waiting_.pop_back();
  waiting_.push_back({directory, step});
}

std::optional<std::string> Certification::oldest() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().directory;
}

std::optional<DueCertificate> Certification::step_done(std::uint64_t step, LossWindow::Look look) {
  if (look != LossWindow::Look::usual) {
    last_doubt_ = step;
    waiting_.clear();
    return std::nullopt;
  }
  std::optional<DueCertificate> proved;
  while (!waiting_.empty() && waiting_.front().step + steps_ <= step) {
    proved = due = {waiting_.front().directory, waiting_.front().step, step};
    waiting_.erase(waiting_.begin());
  }
  return proved;
}

Checkpoints::Checkpoints(const TrainOptions& options, SaveContext context, const FlatSpace& space,
                         Communicator& ranks, Say say)
    : options_(options),
      context_(std::move(context)),
      space_(space),
      ranks_(ranks),
      say_(std::move(say)),
      certificates_(options.checkpoint_every) {
  context_.writes.way = options.write_way;
  std::string warning;
  if (saves_in_background(options, context_.host, space, ranks, warning)) {
    background_.emplace(context_, space, ranks);
  }
  if (!warning.empty()) say_("warning: " + warning);
}

Checkpoints::~Checkpoints() {
  if (certificate_.valid()) certificate_.wait();
}

void Checkpoints::continued_from(const std::string& directory, std::uint64_t step) {
  certificates_.committed(directory, step);
  saved_step_ = step;
}

void Checkpoints::take_over(Certification work, std::optional<std::uint64_t> saved_step) {
  certificates_ = std::move(work);
  saved_step_ = saved_step;
}

std::string Checkpoints::note() {
  const SpentTime spent(waited_s_);
  return background_ ? background_->note() : "";
}

void Checkpoints::wait_for_copy() {
  const SpentTime spent(waited_s_);
  if (background_) background_->wait_for_copy();
}

void Checkpoints::step_done(const TrainingState& state, const StepOutcome& outcome,
                            LossWindow::Look look, bool goes_on) {
  const SpentTime spent(waited_s_);
  if (is_saving()) {
    if (const auto saved = background_->hear(outcome.notes)) tell(*saved);
  }
  certificates_.step_done(state.step, look);
  tend_certificates();
  due_ = due_ || (options_.checkpoint_every > 0 && state.step % options_.checkpoint_every == 0);
  if (outcome.stop) return save_at_once(state);
  if (!due_ || !goes_on || is_saving()) return;
  if (!background_) return save_at_once(state);
  begin_save(state);
}

// In the background.
void Checkpoints::begin_save(const TrainingState& state) {
  spare_candidate();
  background_->begin(state);
  saved_step_ = state.step;
  due_ = false;
}

// Between saves only: a save under way reads what is changed here.
void Checkpoints::spare_candidate() {
  context_.spared = {certifying_};
  if (certificates_.due) context_.spared.insert(certificates_.due->directory);
  if (const auto oldest = certificates_.oldest()) context_.spared.insert(*oldest);
}

void Checkpoints::save_now(const TrainingState& state) {
  const SpentTime spent(waited_s_);
  save_at_once(state);
}

void Checkpoints::save_at_once(const TrainingState& state) {
  finish_saving();
  if (saved_step_ == state.step) return;
  if (background_) {
    begin_save(state);
    return tell(background_->finish());
  }
  spare_candidate();
  tell(save_checkpoint(context_, space_, state, ranks_));
  saved_step_ = state.step;
  due_ = false;
}

void Checkpoints::save_within(const TrainingState& state, std::chrono::milliseconds limit) {
  if (!background_) return save_now(state);
  const Stopwatch watch;
  const auto finish = [&] {
    const std::chrono::duration<double> left =
        limit - std::chrono::duration<double>(watch.seconds());
    const auto saved =
        background_->finish_within(std::chrono::duration_cast<std::chrono::milliseconds>(left));
    if (saved) tell(*saved);
    return saved.has_value();
  };
  if (is_saving() && !finish()) return;
  if (saved_step_ == state.step) return;
  begin_save(state);
  finish();
}

void Checkpoints::tell(const SaveOutcome& outcome) {
  if (outcome.committed) {
    certificates_.committed(outcome.directory, outcome.step);
    const auto bytes = static_cast<double>(space_.numel * flat_planes * sizeof(float));
    say_(tale_of(outcome, bytes / 1e9));
    report_engine();
  }
  if (!outcome.committed && outcome.trouble.find(taken_over_words) != std::string::npos) {
    taken_over_ = outcome.trouble;
  }
  if (!outcome.trouble.empty()) {
    say_("warning: checkpoint " + outcome.directory + ": " + outcome.trouble);
  }
}

void Checkpoints::report_engine() {
  if (context_.writes.reason == engine_told_) return;
  engine_told_ = context_.writes.reason;
  say_(std::string("checkpoints of rank 0 are written by ") +
       write_way_name(context_.writes.way.value_or(WriteWay::buffered)) + ": " + engine_told_);
}

// One at a time; of those that wait the newest.
void Checkpoints::tend_certificates() {
  if (certificate_.valid()) {
    if (!is_ready(certificate_)) return;
    say_(certificate_.get());
    certifying_.clear();
  }
  if (!certificates_.due || ranks_.rank() != 0) return;
  certifying_ = certificates_.due->directory;
  const std::string path = context_.root + "/" + certifying_;
  certificate_ = std::async(std::launch::async, write_certificate_of, path,
                            context_.identity.generation, *certificates_.due);
  certificates_.due.reset();
}

}  // namespace muster
