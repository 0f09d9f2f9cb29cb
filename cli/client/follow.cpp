#include "cli/client/follow.h"
#include <cerrno>

#include <unistd.h>

#include "cli/client/find.h"
#include "cli/client/start.h"
#include "cli/terminal/escape.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// How long a look at the logs may be put off: short while there is output, longer when idle.
constexpr Milliseconds busy_pause{15};
constexpr Milliseconds idle_pause{100};
// A controller that dies again and again is not started for ever.
constexpr int follow_reconnect_limit = 5;
constexpr std::int64_t mpirun_lines_shown = 20;

// What mpirun says about being stopped explains nothing.
bool muster_stopped_it(const Ended& ended) {
  const auto code = static_cast<ExitCode>(ended.exit_code);
  return code == ExitCode::canceled || code == ExitCode::preempted_saved ||
         code == ExitCode::preempted_unsaved || code == ExitCode::time_limit;
}

// A rank that failed by itself explains more than mpirun, which ends, and may crash, because of it.
bool is_failed_rank_known(const Home& home, const JobId& job) {
  const auto found = open_job(home, job.value);
  const auto records = found ? found->store->records_of(job) : found.error();
  if (!records) return false;
  const JobSummary summary = summarize(*records);
  const auto& attempts = summary.attempts;
  return !attempts.empty() && attempts.back().cause && attempts.back().cause->first_rank;
}

class Following {
 public:
  Following(const Home& home, const FollowRequest& request, const CommonOptions& common)
      : home_(home),
        request_(request),
        common_(common),
        logs_(home.job(request.job), request.logs),
        display_(common, request.ranks_to, request.several_ranks) {}

  Followed run();

 private:
  bool connect();
  bool read_logs();
  // False: the connection is over.
  bool take_messages(Milliseconds pause);
  void take(const FromController& message);
  void interrupted();
  void cancel();
  Followed detached();
  Followed finished();

  const Home& home_;
  const FollowRequest& request_;
  const CommonOptions& common_;
  LogFollower logs_;
  FollowDisplay display_;
  InterruptWatch watch_;
  std::optional<ControllerClient> client_;
  std::optional<Ended> ended_;
  std::optional<Refused> refused_;
  std::string last_sentence_;
  std::string why_unconnected_ = "the controller keeps exiting";  // told when it lasts
  bool detach_ = false;
  int failures_ = 0;
};

bool Following::connect() {
  auto client = ensure_controller(home_, common_);
  if (!client) {
    why_unconnected_ = client.error().message;
    return false;
  }
  client_.emplace(std::move(*client));
  return static_cast<bool>(client_->send(Watch{request_.job}));
}

bool Following::read_logs() {
  return logs_.poll(
      [this](AttemptId, RankId rank, std::string_view bytes) { display_.output(rank, bytes); });
}

void Following::take(const FromController& message) {
  failures_ = 0;
  if (const auto* event = std::get_if<JobEvent>(&message)) {
    JobEvent shown = *event;
    // After a reconnection the controller says again where the job stands.
    if (shown.sentence == last_sentence_) shown.sentence.clear();
    if (!shown.sentence.empty()) last_sentence_ = shown.sentence;
    if (!shown.sentence.empty()) read_logs();  // what was printed before it comes before it
    display_.event(shown, wall_clock_now());
  } else if (const auto* ended = std::get_if<Ended>(&message)) {
    ended_ = *ended;
    // A job that ended before it was watched has told nobody why.
    if (!mentions(last_sentence_, ended->reason)) {
      display_.sentence("ended: " + ended->state + ", exit code " +
                        std::to_string(ended->exit_code) + ": " + ended->reason);
    }
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    refused_ = *refused;
  }
}

bool Following::take_messages(Milliseconds pause) {
  auto message = client_->receive(pause);
  while (message && *message) {
    take((*message)->message);
    if (ended_ || refused_) return true;
    message = client_->receive(Milliseconds{0});
  }
  return static_cast<bool>(message);
}

void Following::cancel() {
  const Cancel request{request_.job, std::nullopt};
  try {
    accepted_or_end(home_, request, "cannot cancel: ", common_);
    display_.sentence("cancelling; waiting until every rank is confirmed stopped");
  } catch (const VerbEnd& refused) {  // the job is followed all the same
    print_error(refused.what(), common_);
  }
}

void Following::interrupted() {
  const bool person = ::isatty(STDIN_FILENO) == 1 && is_terminal(Stream::err);
  if (!request_.may_cancel || !person || watch_.is_terminated()) {
    detach_ = true;
    return;
  }
  const InterruptChoice choice = ask_what_was_meant(watch_);
  if (choice == InterruptChoice::cancel) cancel();
  detach_ = choice == InterruptChoice::detach;
}

Followed Following::detached() {
  display_.finish();
  const std::string come_back = "job " + request_.job.value +
                                " continues; come back with: muster logs -f " + request_.job.value;
  notice(request_.on_detach.empty() ? come_back : request_.on_detach, common_);
  return {std::nullopt, interrupted_exit_code};
}

Followed Following::finished() {
  read_logs();
  display_.finish();
  if (ended_->exit_code != 0 && !muster_stopped_it(*ended_) && logs_.attempt() &&
      !is_failed_rank_known(home_, request_.job)) {
    const auto mpirun = home_.attempt(request_.job, *logs_.attempt()) / "mpirun.log";
    const std::string lines = last_lines_of_file(mpirun, mpirun_lines_shown);
    if (!lines.empty()) print_error("mpirun said:\n" + lines, common_);
  }
  return {ended_, ended_->exit_code};
}

Followed Following::run() {
  bool connected = connect();
  bool busy = true;
  while (true) {
    if (watch_.take()) interrupted();
    if (detach_) return detached();
    if (!connected) {
      if (++failures_ > follow_reconnect_limit) break;
      connected = connect();
      continue;
    }
    connected = take_messages(busy ? busy_pause : idle_pause);
    if (ended_) return finished();
    if (refused_) break;
    busy = read_logs();
    display_.draw(wall_clock_now());
  }
  display_.finish();
  if (refused_) return {std::nullopt, print_error(refused_->message, refused_->exit_code, common_)};
  return {std::nullopt,
          print_error("lost connection to job " + request_.job.value + ": " + why_unconnected_,
                      internal_error, common_)};
}

// Often enough to look alive, seldom enough for a slow terminal over ssh.
constexpr Milliseconds redraw_interval{100};

volatile std::sig_atomic_t interrupts = 0;
volatile std::sig_atomic_t terminations = 0;

void count_signal(int number) {
  interrupts = 1;
  if (number == SIGTERM) terminations = 1;
}

// Ignored from outside (`nohup`, `command &`): stays so.
void count(int number, struct sigaction& before) {
  struct sigaction counting {};
  counting.sa_handler = count_signal;
  ::sigaction(number, &counting, &before);
  if (before.sa_handler == SIG_IGN) ::sigaction(number, &before, nullptr);
}

}  // namespace

Followed follow_job(const Home& home, const FollowRequest& request, const CommonOptions& common) {
  return Following(home, request, common).run();
}

FollowDisplay::FollowDisplay(const CommonOptions& common, Stream ranks_to, bool several)
    : common_(common),
      ranks_to_(ranks_to),
      ranks_({several, is_terminal(ranks_to), wants_color(common.color, ranks_to)},
             [ranks_to](std::string_view bytes) { write_all(ranks_to, bytes); }),
      shows_progress_(can_redraw(Stream::err) && !common.only_show_errors) {}

FollowDisplay::~FollowDisplay() {
  erase();
}

bool FollowDisplay::shares_screen() const {
  return ranks_to_ == Stream::err || is_terminal(ranks_to_) || are_one_file();
}

void FollowDisplay::erase() {
  if (drawn_.empty()) return;
  write_all(Stream::err, "\r\x1b[K");
  drawn_.clear();
}

void FollowDisplay::turn_color_off() {
  if (shares_screen() && ranks_.leaves_color()) write_all(Stream::err, "\x1b[0m");
}

void FollowDisplay::output(RankId rank, std::string_view bytes) {
  if (shares_screen()) erase();
  ranks_.feed(rank, bytes);
}

void FollowDisplay::sentence(std::string_view text) {
  if (common_.only_show_errors) return;
  erase();
  turn_color_off();
  if (shares_screen() && !ranks_.at_line_start()) write_all(Stream::err, "\n");
  ranks_.begin_line();
  notice(text, common_);
}

void FollowDisplay::event(const JobEvent& event, Time now) {
  if (event.attempt != attempt_) {
    numbers_ = {};
    rate_ = {};
    attempt_ = event.attempt;
  }
  if (event.state != state_) {
    state_ = event.state;
    state_since_ = now;
  }
  if (!event.metrics.empty()) read_metrics_line(event.metrics, numbers_);
  if (event.step) numbers_.step = event.step;
  if (numbers_.step) rate_.saw(*numbers_.step, now);
  if (!event.sentence.empty()) sentence(event.sentence);
}

void FollowDisplay::draw(Time now) {
  if (!shows_progress_ || now - drawn_at_ < redraw_interval) return;
  if (shares_screen() && !ranks_.at_line_start()) return;
  drawn_at_ = now;
  const std::string label = state_ + " " + elapsed_text(now - state_since_);
  const std::string line = printable(
      progress_line(label, numbers_, rate_.time_left(numbers_), terminal_width(Stream::err)));
  if (line == drawn_ || state_.empty()) return;
  turn_color_off();
  write_all(Stream::err, "\r" + line + "\x1b[K");
  drawn_ = line;
}

void FollowDisplay::finish() {
  erase();
  ranks_.finish();
  if (shows_progress_ && shares_screen() && !ranks_.at_line_start()) write_all(Stream::err, "\n");
}

// No SA_RESTART: a wait or a read in progress returns, so that the count is looked at.
InterruptWatch::InterruptWatch() {
  interrupts = 0;
  terminations = 0;
  count(SIGINT, before_);
  count(SIGTERM, before_termination_);
}

InterruptWatch::~InterruptWatch() {
  ::sigaction(SIGINT, &before_, nullptr);
  ::sigaction(SIGTERM, &before_termination_, nullptr);
}

bool InterruptWatch::is_terminated() const {
  return terminations != 0;
}

bool InterruptWatch::take() {
  if (interrupts == 0) return false;
  interrupts = 0;
  return true;
}

InterruptChoice ask_what_was_meant(InterruptWatch& watch) {
  write_all(Stream::err,
            "\n[d]etach and leave the job to muster, [c]ancel it, "
            "or [Enter] to go on? (Ctrl-C again: detach) ");
  char answer = '\n';
  bool first = true;
  while (true) {
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    const bool interrupted = watch.take();
    if (interrupted || got == 0 || (got < 0 && errno != EINTR)) {
      write_all(Stream::err, "\n");
      return InterruptChoice::detach;
    }
    if (got < 0) continue;
    if (byte != '\n') {
      if (first) answer = byte;
      first = false;
      continue;
    }
    if (answer == 'd' || answer == 'D') return InterruptChoice::detach;
    if (answer == 'c' || answer == 'C') return InterruptChoice::cancel;
    if (first) return InterruptChoice::go_on;
    write_all(Stream::err, "type d, c or [Enter]: ");
    answer = '\n';
    first = true;
  }
}

}  // namespace muster
