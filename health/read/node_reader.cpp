#include "health/read/node_reader.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <utility>
#include <variant>

#include "health/read/helper_process.h"
#include "health/read/node_read.h"
#include "health/read/reader_protocol.h"

namespace muster {

namespace {

using std::chrono::milliseconds;

// A read in which so many sources hang or kill is not worth its end.
constexpr int losses_max = 32;
// Helpers in a row that are lost without a word of what they do: the next would be too.
constexpr int speechless_max = 3;
// Until a helper says what it does it is being started, which no source is to blame for.
constexpr milliseconds speech_patience{5'000};
// A helper that only waits for events is not started more often, nor a driver asked again that hung
// when it was asked to tell them.
constexpr std::chrono::seconds event_pause{60};
constexpr std::chrono::seconds restart_pause{1};
constexpr milliseconds look_pause_min{1};
constexpr milliseconds look_pause_max{20};
constexpr std::chrono::seconds abandoned_look_pause{1};
constexpr milliseconds send_pause{1};
// Of a storm the first ones tell enough.
constexpr std::size_t events_max = 4096;

SteadyTime steady_now() {
  return std::chrono::steady_clock::now();
}

std::string utc_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

milliseconds time_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration_cast<milliseconds>(to - from);
}

}  // namespace

struct NodeReader::Parts {
  // Why a helper is killed, or found dead.
  struct Loss {
    std::string at_hand;                 // path or call; empty: it told none
    std::optional<milliseconds> waited;  // for its answer
    std::string how;                     // else; empty: as its end tells
    bool concerns_read = false;          // the one that is under way
  };

  // Events alone need a helper before there is something to read.
  struct NoHelper {
    SteadyTime start_at;
  };
  struct Alive {
    HelperProcess process;
    SteadyTime started_at;
    SteadyTime heard_at;
    SteadyTime listened_at;
    FrameCutter cutter{message_bytes_max};
    std::string event_call{};  // that it is in; empty: none
    bool is_watching = false;
    bool has_events = false;
  };
  struct Killed {
    pid_t pid;
    SteadyTime at;
    SteadyTime look_at;
    milliseconds pause;
    Loss loss;
    SteadyTime start_at;  // of the next one, when there is nothing to read
  };
  struct Abandoned {
    pid_t pid;
    SteadyTime killed_at;
    SteadyTime look_at;
    std::string stuck_in;
    std::string since;
  };

  struct ReadUnderWay {
    NodeRead read;
    SteadyTime began_at;
    std::optional<SteadyTime> files_over_at;
    int losses = 0;
    int speechless = 0;
  };

  explicit Parts(Options given) : options(std::move(given)) {
    if (!options.wait) options.wait = ::waitpid;
  }

  Options options;
  std::variant<NoHelper, Alive, Killed, Abandoned> helper = NoHelper{steady_now()};
  std::optional<ReadUnderWay> reading;
  std::optional<NodeReadings> said;
  std::vector<GpuEvent> events;
  SteadyTime watch_at = steady_now();  // not before
  bool was_started = false;
  bool is_paused = false;
  std::deque<SteadyTime> restarts;

  // ---- a read

  void begin(NodeReadRequest request) {
    check(!reading, "a node is read once at a time");
    listen();  // to one that died meanwhile
    look();
    said.reset();
    reading.emplace(ReadUnderWay{NodeRead(std::move(request)), steady_now(), {}});
    if (auto* alive = std::get_if<Alive>(&helper)) return ask(*alive);
    read_on();
  }

  void ask(Alive& alive) {
    const auto command = reading->read.command();
    if (!command) return finish();
    alive.heard_at = alive.listened_at = steady_now();
    alive.process.send(encode(*command));
    alive.process.send_on();
  }

  // What can be done for the read when no helper works for it. One that was killed is waited for.
  void read_on() {
    if (!reading || std::holds_alternative<Killed>(helper)) return;
    if (const auto* abandoned = std::get_if<Abandoned>(&helper)) {
      return give_up("not read: an earlier helper hangs in " + abandoned->stuck_in + " since " +
                     abandoned->since);
    }
    if (!reading->read.command()) return finish();
    if (is_paused) return give_up("not read: somebody else has the devices");
    if (const Status started = start(); !started)
      return give_up("not read: " + started.error().message);
    ask(std::get<Alive>(helper));
  }

  void give_up(const std::string& why) {
    reading->read.give_up(why);
    finish();
  }

  void finish() {
    const SteadyTime now = steady_now();
    const SteadyTime files_over_at = reading->files_over_at.value_or(now);
    said = std::move(reading->read.readings());
    said->files_took = time_between(reading->began_at, files_over_at);
    said->gpus_took = time_between(files_over_at, now);
    reading.reset();
  }

  // ---- the helper lives

  Status start() {
    const SteadyTime now = steady_now();
    auto process = HelperProcess::start(options.helper);
    if (!process) {
      helper = NoHelper{now + event_pause};
      return process.error();
    }
    if (was_started) restarts.push_back(now);
    while (!restarts.empty() && restarts.front() < now - std::chrono::hours(1))
      restarts.pop_front();
    was_started = true;
    helper.emplace<Alive>(Alive{std::move(*process), now, now, now});
    return Done{};
  }

  void listen() {
    auto* alive = std::get_if<Alive>(&helper);
    if (alive == nullptr) return;
    alive->process.send_on();
    std::string bytes;
    const auto heard = alive->process.hear(bytes);
    alive->listened_at = steady_now();
    if (heard == HelperProcess::Heard::nonsense) return lose(ill_loss());
    // What it says of the time is believed within reason.
    if (heard == HelperProcess::Heard::something)
      alive->heard_at = std::clamp(alive->process.said_at(), alive->heard_at, alive->listened_at);
    alive->cutter.feed(bytes);
    while (const auto frame = alive->cutter.next()) {
      const auto message = decode_message(*frame);
      if (!message || !take(*alive, *message)) return lose(ill_loss());
    }
    if (alive->cutter.is_broken()) return lose(ill_loss());
    if (heard == HelperProcess::Heard::end) lose(loss_of(*alive));
  }

  bool take(Alive& alive, const HelperMessage& message) {
    if (const auto* known = std::get_if<EventsKnown>(&message)) {
      alive.has_events = known->error.empty();
      alive.event_call.clear();
    } else if (const auto* told = std::get_if<EventIsTold>(&message)) {
      if (events.size() < events_max) events.push_back(told->event);
    } else if (const auto* begins = std::get_if<EventCallBegins>(&message)) {
      alive.event_call = begins->call;
    } else {
      return take_reading(alive, message);
    }
    return true;
  }

  bool take_reading(Alive& alive, const HelperMessage& message) {
    alive.event_call.clear();
    if (!reading || !reading->read.take(message)) return false;
    if (!reading->files_over_at && reading->read.has_files())
      reading->files_over_at = alive.heard_at;
    if (reading->read.is_over()) finish();
    return true;
  }

  Loss loss_of(const Alive& alive) const {
    Loss loss;
    loss.concerns_read = reading.has_value();
    loss.at_hand = alive.event_call;
    if (loss.at_hand.empty() && reading) loss.at_hand = reading->read.at_hand();
    return loss;
  }

  Loss ill_loss() const {
    Loss loss = loss_of(std::get<Alive>(helper));
    loss.how = "the helper said what no helper says";
    return loss;
  }

  // How long it may be silent now; nothing: for ever.
  std::optional<milliseconds> patience(const Alive& alive) const {
    if (!reading && (alive.event_call.empty() || alive.event_call == event_wait_call))
      return std::nullopt;
    if (!alive.event_call.empty()) return options.limits.gpu_call;
    if (reading->read.at_hand().empty()) return std::max(options.limits.source, speech_patience);
    return reading->read.is_call() ? options.limits.gpu_call : options.limits.source;
  }

  void kill_late() {
    const SteadyTime now = steady_now();
    auto* alive = std::get_if<Alive>(&helper);
    if (reading && now >= reading->began_at + options.limits.run) {
      std::optional<Loss> loss;
      if (alive != nullptr) loss = loss_of(*alive);
      give_up("not read: the time for all of a read was over");
      if (!loss) return;
      loss->concerns_read = false;
      return lose(*std::move(loss));
    }
    if (alive == nullptr) return;
    const auto most = patience(*alive);
    if (!most || now < alive->heard_at + *most) return;
    Loss loss = loss_of(*alive);
    loss.waited = *most;
    lose(std::move(loss));
  }

  void lose(Loss loss) {
    const Alive& alive = std::get<Alive>(helper);
    const SteadyTime now = steady_now();
    if (loss.waited && !alive.event_call.empty()) watch_at = now + event_pause;
    const SteadyTime start_at = std::max(now + restart_pause, alive.started_at + event_pause);
    const pid_t pid = alive.process.pid();
    helper = Killed{pid, now, now, look_pause_min, std::move(loss), start_at};
    // One that is reaped must not be killed: its number may be another process's by now.
    if (const auto how = reaped(options.wait, pid)) return after(*how);
    kill_process(pid);
  }

  // ---- the helper dies

  void look() {
    const SteadyTime now = steady_now();
    if (auto* killed = std::get_if<Killed>(&helper); killed != nullptr && now >= killed->look_at) {
      if (const auto how = reaped(options.wait, killed->pid)) return after(*how);
      if (now >= killed->at + options.limits.reaping) return abandon();
      killed->look_at = std::min(now + killed->pause, killed->at + options.limits.reaping);
      killed->pause = std::min(2 * killed->pause, look_pause_max);
    }
    if (auto* abandoned = std::get_if<Abandoned>(&helper)) {
      abandoned->look_at = now + abandoned_look_pause;
      if (reaped(options.wait, abandoned->pid)) helper = NoHelper{now + restart_pause};
    }
  }

  void after(const std::string& how) {
    const Killed killed = std::get<Killed>(std::move(helper));
    helper = NoHelper{killed.start_at};
    if (!reading) return;
    if (killed.loss.concerns_read) note(killed.loss, "the helper " + how);
    if (reading->losses <= losses_max && reading->speechless < speechless_max) return read_on();
    reading->read.give_up_unreached();
    finish();
  }

  void note(const Loss& loss, const std::string& how) {
    ++reading->losses;
    reading->speechless = loss.at_hand.empty() ? reading->speechless + 1 : 0;
    if (loss.waited) {
      reading->read.unanswered(*loss.waited);
    } else {
      reading->read.helper_ended(loss.how.empty() ? how : loss.how);
    }
  }

  void abandon() {
    const Killed killed = std::get<Killed>(std::move(helper));
    const auto age =
        std::chrono::duration_cast<std::chrono::system_clock::duration>(steady_now() - killed.at);
    helper = Abandoned{killed.pid, killed.at, steady_now() + abandoned_look_pause,
                       killed.loss.at_hand.empty() ? "what it did not report" : killed.loss.at_hand,
                       utc_text(std::chrono::system_clock::now() - age)};
    if (!reading) return;
    if (!killed.loss.concerns_read || reading->read.at_hand().empty()) return read_on();
    note(killed.loss, "the helper does not end");
    reading->read.give_up_unreached();
    finish();
  }

  // ---- events

  bool is_watch_due(SteadyTime now) const {
    const auto* alive = std::get_if<Alive>(&helper);
    return alive != nullptr && options.wants_events && !alive->is_watching && now >= watch_at;
  }

  void watch() {
    const SteadyTime now = steady_now();
    const auto* none = std::get_if<NoHelper>(&helper);
    const bool may_start = !reading && !is_paused && options.wants_events;
    if (none != nullptr && may_start && now >= start_for_events(*none))
      static_cast<void>(start());  // it is tried again
    if (!is_watch_due(now)) return;
    auto& alive = std::get<Alive>(helper);
    alive.is_watching = true;
    command_watch(alive);
  }

  void command_watch(Alive& alive) {
    alive.process.send(encode(WatchCommand{options.nvml_library, options.event_slice}));
    alive.process.send_on();
  }

  void set_event_slice(milliseconds slice) {
    if (std::exchange(options.event_slice, slice) == slice) return;
    auto* alive = std::get_if<Alive>(&helper);
    if (alive != nullptr && alive->is_watching) command_watch(*alive);
  }

  SteadyTime start_for_events(const NoHelper& none) const {
    return std::max(none.start_at, watch_at);
  }

  // ---- when

  std::optional<SteadyTime> wake_at() const {
    auto at = SteadyTime::max();
    if (reading) at = reading->began_at + options.limits.run;
    const auto* none = std::get_if<NoHelper>(&helper);
    if (none != nullptr && options.wants_events && !is_paused)
      at = std::min(at, start_for_events(*none));
    if (const auto* alive = std::get_if<Alive>(&helper)) at = std::min(at, wake_for(*alive));
    if (const auto* killed = std::get_if<Killed>(&helper)) at = std::min(at, killed->look_at);
    if (const auto* abandoned = std::get_if<Abandoned>(&helper))
      at = std::min(at, abandoned->look_at);
    return at == SteadyTime::max() ? std::nullopt : std::optional(at);
  }

  SteadyTime wake_for(const Alive& alive) const {
    auto at = SteadyTime::max();
    if (const auto most = patience(alive)) at = alive.heard_at + *most;
    // What it does meanwhile it says without waking anybody.
    const auto soonest = std::min(options.limits.source, options.limits.gpu_call);
    if (reading) at = std::min(at, alive.listened_at + soonest);
    if (alive.process.has_unsent()) at = std::min(at, steady_now() + send_pause);
    if (options.wants_events && !alive.is_watching) at = std::min(at, watch_at);
    return at;
  }

  // ---- the end

  void end_helper() {
    reading.reset();
    if (std::holds_alternative<Alive>(helper)) lose({});
    while (std::holds_alternative<Killed>(helper)) {
      look();
      ::poll(nullptr, 0, static_cast<int>(look_pause_min.count()));
    }
    look();
  }
};

NodeReader::NodeReader(Options options) : parts_(std::make_unique<Parts>(std::move(options))) {}

NodeReader::~NodeReader() {
  parts_->end_helper();
}

void NodeReader::begin(NodeReadRequest request) {
  parts_->begin(std::move(request));
}

bool NodeReader::is_idle() const {
  return !parts_->reading;
}

int NodeReader::descriptor() const {
  const auto* alive = std::get_if<Parts::Alive>(&parts_->helper);
  return alive == nullptr ? -1 : alive->process.socket();
}

std::optional<SteadyTime> NodeReader::wake_at() const {
  return parts_->wake_at();
}

void NodeReader::advance() {
  parts_->listen();
  parts_->kill_late();
  parts_->look();
  parts_->watch();
}

void NodeReader::pause() {
  parts_->is_paused = true;
  parts_->end_helper();
  parts_->said.reset();
  parts_->was_started = false;  // the next one is no restart
}

void NodeReader::resume() {
  parts_->is_paused = false;
  if (auto* none = std::get_if<Parts::NoHelper>(&parts_->helper)) none->start_at = steady_now();
}

void NodeReader::set_event_slice(milliseconds slice) {
  parts_->set_event_slice(slice);
}

std::optional<NodeReadings> NodeReader::take() {
  return std::exchange(parts_->said, std::nullopt);
}

std::vector<GpuEvent> NodeReader::take_events() {
  return std::exchange(parts_->events, {});
}

pid_t NodeReader::helper() const {
  if (const auto* alive = std::get_if<Parts::Alive>(&parts_->helper)) return alive->process.pid();
  if (const auto* killed = std::get_if<Parts::Killed>(&parts_->helper)) return killed->pid;
  const auto* abandoned = std::get_if<Parts::Abandoned>(&parts_->helper);
  return abandoned ? abandoned->pid : 0;
}

HelperFacts NodeReader::facts() const {
  HelperFacts facts;
  const SteadyTime now = steady_now();
  if (const auto* abandoned = std::get_if<Parts::Abandoned>(&parts_->helper))
    facts.unreaped = time_between(abandoned->killed_at, now);
  facts.restarts = static_cast<int>(std::ranges::count_if(
      parts_->restarts, [now](SteadyTime at) { return at >= now - std::chrono::hours(1); }));
  return facts;
}

const std::string& NodeReader::stuck_in() const {
  static const std::string nowhere;
  const auto* abandoned = std::get_if<Parts::Abandoned>(&parts_->helper);
  return abandoned == nullptr ? nowhere : abandoned->stuck_in;
}

bool NodeReader::has_events() const {
  const auto* alive = std::get_if<Parts::Alive>(&parts_->helper);
  return alive != nullptr && alive->has_events;
}

NodeReadings read_node(NodeReader& reader, NodeReadRequest request) {
  reader.begin(std::move(request));
  while (!reader.is_idle()) {
    const auto left = time_between(
        steady_now(), reader.wake_at().value_or(steady_now() + std::chrono::seconds(1)));
    const auto most = std::clamp<milliseconds::rep>(left.count() + 1, 0, 60'000);
    pollfd one{reader.descriptor(), POLLIN, 0};
    ::poll(&one, 1, static_cast<int>(most));
    reader.advance();
  }
  return reader.take().value_or(NodeReadings{});
}

}  // namespace muster
