#include "health/read/node_reader.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <span>
#include <utility>
#include <variant>

#include "health/model/source_files.h"
#include "health/read/files.h"

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
  const std::time_t unix_time = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&unix_time, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

milliseconds time_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration_cast<milliseconds>(to - from);
}

// Three times what one helper reads, for the next may have to read some of it again.
constexpr std::size_t bytes_max = 96u << 20;

std::ptrdiff_t components_of(std::string_view path) {
  const std::string_view words = source_pattern_of(path).path;
  return words == "/" ? 0 : std::ranges::count(words, '/');
}

}  // namespace

// ---- a read

void NodeReader::begin(NodeReadRequest request) {
  check(!reading_, "a node is read once at a time");
  listen();  // to one that died meanwhile
  look();
  said_.reset();
  reading_.emplace(ReadUnderWay{NodeRead(std::move(request)), steady_now(), {}});
  if (auto* alive = std::get_if<Alive>(&helper_)) return ask(*alive);
  read_on();
}

void NodeReader::ask(Alive& alive) {
  const auto command = reading_->read.command();
  if (!command) return finish();
  alive.heard_at = alive.listened_at = steady_now();
  alive.process.send(encode(*command));
  alive.process.send_on();
}

// What can be done for the read when no helper works for it. One that was killed is waited for.
void NodeReader::read_on() {
  if (!reading_ || std::holds_alternative<Killed>(helper_)) return;
  if (const auto* abandoned = std::get_if<Abandoned>(&helper_)) {
    return give_up("not read: an earlier helper hangs in " + abandoned->stuck_in + " since " +
                   abandoned->since);
  }
  if (!reading_->read.command()) return finish();
  if (is_paused_) return give_up("not read: somebody else has the devices");
  if (const Status started = start(); !started)
    return give_up("not read: " + started.error().message);
  ask(std::get<Alive>(helper_));
}

void NodeReader::give_up(const std::string& why) {
  reading_->read.give_up(why);
  finish();
}

void NodeReader::finish() {
  const SteadyTime now = steady_now();
  const SteadyTime files_over_at = reading_->files_over_at.value_or(now);
  said_ = std::move(reading_->read.readings());
  said_->files_took = time_between(reading_->began_at, files_over_at);
  said_->gpus_took = time_between(files_over_at, now);
  reading_.reset();
}

// ---- the helper lives

Status NodeReader::start() {
  const SteadyTime now = steady_now();
  auto process = HelperProcess::start(options_.helper);
  if (!process) {
    helper_ = NoHelper{now + event_pause};
    return process.error();
  }
  if (was_started_) restarts_.push_back(now);
  while (!restarts_.empty() && restarts_.front() < now - std::chrono::hours(1))
    restarts_.pop_front();
  was_started_ = true;
  helper_.emplace<Alive>(Alive{std::move(*process), now, now, now});
  return Done{};
}

void NodeReader::listen() {
  auto* alive = std::get_if<Alive>(&helper_);
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

bool NodeReader::take(Alive& alive, const HelperMessage& message) {
  if (const auto* known = std::get_if<EventsKnown>(&message)) {
    alive.has_events = known->error.empty();
    alive.event_call.clear();
  } else if (const auto* told = std::get_if<EventIsTold>(&message)) {
    if (events_.size() < events_max) events_.push_back(told->event);
  } else if (const auto* begins = std::get_if<EventCallBegins>(&message)) {
    alive.event_call = begins->call;
  } else {
    return take_reading(alive, message);
  }
  return true;
}

bool NodeReader::take_reading(Alive& alive, const HelperMessage& message) {
  alive.event_call.clear();
  if (!reading_ || !reading_->read.take(message)) return false;
  if (!reading_->files_over_at && reading_->read.has_files())
    reading_->files_over_at = alive.heard_at;
  if (reading_->read.is_over()) finish();
  return true;
}

NodeReader::Loss NodeReader::loss_of(const Alive& alive) const {
  Loss loss;
  loss.concerns_read = reading_.has_value();
  loss.at_hand = alive.event_call;
  if (loss.at_hand.empty() && reading_) loss.at_hand = reading_->read.at_hand();
  return loss;
}

NodeReader::Loss NodeReader::ill_loss() const {
  Loss loss = loss_of(std::get<Alive>(helper_));
  loss.how = "the helper said what no helper says";
  return loss;
}

// How long it may be silent now; nothing: for ever.
std::optional<milliseconds> NodeReader::patience(const Alive& alive) const {
  if (!reading_ && (alive.event_call.empty() || alive.event_call == event_wait_call))
    return std::nullopt;
  if (!alive.event_call.empty()) return options_.limits.gpu_call;
  if (reading_->read.at_hand().empty()) return std::max(options_.limits.source, speech_patience);
  return reading_->read.is_call() ? options_.limits.gpu_call : options_.limits.source;
}

void NodeReader::kill_late() {
  const SteadyTime now = steady_now();
  auto* alive = std::get_if<Alive>(&helper_);
  if (reading_ && now >= reading_->began_at + options_.limits.run) {
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

void NodeReader::lose(Loss loss) {
  const Alive& alive = std::get<Alive>(helper_);
  const SteadyTime now = steady_now();
  if (loss.waited && !alive.event_call.empty()) watch_at_ = now + event_pause;
  const SteadyTime start_at = std::max(now + restart_pause, alive.started_at + event_pause);
  const pid_t pid = alive.process.pid();
  helper_ = Killed{pid, now, now, look_pause_min, std::move(loss), start_at};
  // One that is reaped must not be killed: its number may be another process's by now.
  if (const auto how = reaped(options_.wait, pid)) return after(*how);
  ::kill(pid, SIGKILL);
}

// ---- the helper dies

void NodeReader::look() {
  const SteadyTime now = steady_now();
  if (auto* killed = std::get_if<Killed>(&helper_); killed != nullptr && now >= killed->look_at) {
    if (const auto how = reaped(options_.wait, killed->pid)) return after(*how);
    if (now >= killed->at + options_.limits.reaping) return abandon();
    killed->look_at = std::min(now + killed->pause, killed->at + options_.limits.reaping);
    killed->pause = std::min(2 * killed->pause, look_pause_max);
  }
  if (auto* abandoned = std::get_if<Abandoned>(&helper_)) {
    abandoned->look_at = now + abandoned_look_pause;
    if (reaped(options_.wait, abandoned->pid)) helper_ = NoHelper{now + restart_pause};
  }
}

void NodeReader::after(const std::string& how) {
  const Killed killed = std::get<Killed>(std::move(helper_));
  helper_ = NoHelper{killed.start_at};
  if (!reading_) return;
  if (killed.loss.concerns_read) note(killed.loss, "the helper " + how);
  if (reading_->losses <= losses_max && reading_->speechless < speechless_max) return read_on();
  reading_->read.give_up_unreached();
  finish();
}

void NodeReader::note(const Loss& loss, const std::string& how) {
  ++reading_->losses;
  reading_->speechless = loss.at_hand.empty() ? reading_->speechless + 1 : 0;
  if (loss.waited) {
    reading_->read.unanswered(*loss.waited);
  } else {
    reading_->read.helper_ended(loss.how.empty() ? how : loss.how);
  }
}

void NodeReader::abandon() {
  const Killed killed = std::get<Killed>(std::move(helper_));
  const auto age =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(steady_now() - killed.at);
  helper_ = Abandoned{killed.pid, killed.at, steady_now() + abandoned_look_pause,
                      killed.loss.at_hand.empty() ? "what it did not report" : killed.loss.at_hand,
                      utc_text(std::chrono::system_clock::now() - age)};
  if (!reading_) return;
  if (!killed.loss.concerns_read || reading_->read.at_hand().empty()) return read_on();
  note(killed.loss, "the helper does not end");
  reading_->read.give_up_unreached();
  finish();
}

// ---- events

void NodeReader::watch() {
  const SteadyTime now = steady_now();
  const auto* none = std::get_if<NoHelper>(&helper_);
  const bool may_start = !reading_ && !is_paused_ && options_.wants_events;
  if (none != nullptr && may_start && now >= start_for_events(*none))
    static_cast<void>(start());  // it is tried again
  auto* alive = std::get_if<Alive>(&helper_);
  if (alive == nullptr || !options_.wants_events || alive->is_watching || now < watch_at_) return;
  alive->is_watching = true;
  command_watch(*alive);
}

void NodeReader::command_watch(Alive& alive) {
  alive.process.send(encode(WatchCommand{options_.nvml_library, options_.event_slice}));
  alive.process.send_on();
}

void NodeReader::set_event_slice(milliseconds slice) {
  if (std::exchange(options_.event_slice, slice) == slice) return;
  auto* alive = std::get_if<Alive>(&helper_);
  if (alive != nullptr && alive->is_watching) command_watch(*alive);
}

SteadyTime NodeReader::start_for_events(const NoHelper& none) const {
  return std::max(none.start_at, watch_at_);
}

// ---- when

std::optional<SteadyTime> NodeReader::wake_at() const {
  auto at = SteadyTime::max();
  if (reading_) at = reading_->began_at + options_.limits.run;
  const auto* none = std::get_if<NoHelper>(&helper_);
  if (none != nullptr && options_.wants_events && !is_paused_)
    at = std::min(at, start_for_events(*none));
  if (const auto* alive = std::get_if<Alive>(&helper_)) at = std::min(at, wake_for(*alive));
  if (const auto* killed = std::get_if<Killed>(&helper_)) at = std::min(at, killed->look_at);
  if (const auto* abandoned = std::get_if<Abandoned>(&helper_))
    at = std::min(at, abandoned->look_at);
  return at == SteadyTime::max() ? std::nullopt : std::optional(at);
}

SteadyTime NodeReader::wake_for(const Alive& alive) const {
  auto at = SteadyTime::max();
  if (const auto most = patience(alive)) at = alive.heard_at + *most;
  // What it does meanwhile it says without waking anybody.
  const auto soonest = std::min(options_.limits.source, options_.limits.gpu_call);
  if (reading_) at = std::min(at, alive.listened_at + soonest);
  if (alive.process.has_unsent()) at = std::min(at, steady_now() + send_pause);
  if (options_.wants_events && !alive.is_watching) at = std::min(at, watch_at_);
  return at;
}

// ---- the end

void NodeReader::end_helper() {
  reading_.reset();
  if (std::holds_alternative<Alive>(helper_)) lose({});
  while (std::holds_alternative<Killed>(helper_)) {
    look();
    ::poll(nullptr, 0, static_cast<int>(look_pause_min.count()));
  }
  look();
}
NodeReader::NodeReader(Options options)
    : options_(std::move(options)), helper_(NoHelper{steady_now()}), watch_at_(steady_now()) {
  if (!options_.wait) options_.wait = ::waitpid;
}

NodeReader::~NodeReader() {
  end_helper();
}

int NodeReader::descriptor() const {
  const auto* alive = std::get_if<Alive>(&helper_);
  return alive == nullptr ? -1 : alive->process.socket();
}

void NodeReader::advance() {
  listen();
  kill_late();
  look();
  watch();
}

void NodeReader::pause() {
  is_paused_ = true;
  end_helper();
  said_.reset();
  was_started_ = false;  // the next one is no restart
}

void NodeReader::resume() {
  is_paused_ = false;
  if (auto* none = std::get_if<NoHelper>(&helper_)) none->start_at = steady_now();
}

std::optional<NodeReadings> NodeReader::take() {
  return std::exchange(said_, std::nullopt);
}

std::vector<GpuEvent> NodeReader::take_events() {
  return std::exchange(events_, {});
}

pid_t NodeReader::helper() const {
  if (const auto* alive = std::get_if<Alive>(&helper_)) return alive->process.pid();
  if (const auto* killed = std::get_if<Killed>(&helper_)) return killed->pid;
  const auto* abandoned = std::get_if<Abandoned>(&helper_);
  return abandoned ? abandoned->pid : 0;
}

HelperFacts NodeReader::facts() const {
  HelperFacts facts;
  const SteadyTime now = steady_now();
  if (const auto* abandoned = std::get_if<Abandoned>(&helper_))
    facts.unreaped = time_between(abandoned->killed_at, now);
  facts.restarts = static_cast<int>(std::ranges::count_if(
      restarts_, [now](SteadyTime at) { return at >= now - std::chrono::hours(1); }));
  return facts;
}

const std::string& NodeReader::stuck_in() const {
  static const std::string nowhere;
  const auto* abandoned = std::get_if<Abandoned>(&helper_);
  return abandoned == nullptr ? nowhere : abandoned->stuck_in;
}

bool NodeReader::has_events() const {
  const auto* alive = std::get_if<Alive>(&helper_);
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

NodeRead::NodeRead(NodeReadRequest request) : request_(std::move(request)) {
  if (request_.gpus) readings_.gpus.emplace();
}

std::optional<ReadCommand> NodeRead::command() const {
  if (is_over_ || (!wants_files() && !wants_gpus())) return std::nullopt;
  ReadCommand command{request_, unanswered_};
  command.request.sources.erase(
      command.request.sources.begin(),
      command.request.sources.begin() + static_cast<std::ptrdiff_t>(files_left_));
  if (!wants_gpus()) command.request.gpus.reset();
  for (const auto& [path, reading] : readings_.files.all()) {
    if (!reading.text.empty() || !is_listed(path)) command.skip.insert(path);
  }
  return command;
}

// A directory that is left alone hides what is below it.
bool NodeRead::is_listed(std::string_view path) const {
  const auto left = std::span(request_.sources).subspan(files_left_);
  return std::ranges::any_of(left, [&](const std::string& source) {
    return covers(source, path) && components_of(path) < components_of(source);
  });
}

bool NodeRead::take(const HelperMessage& message) {
  if (part_ == Part::files) {
    if (const auto* begins = std::get_if<FileBegins>(&message)) return file_begins(*begins);
    if (const auto* file = std::get_if<FileIsRead>(&message)) return file_is_read(*file);
  } else if (readings_.gpus) {
    if (const auto* begins = std::get_if<GpuCallBegins>(&message)) return gpu_call_begins(*begins);
    if (const auto* gpu = std::get_if<GpuIsRead>(&message)) return gpu_is_read(*gpu);
  }
  return part_over(message);
}

bool NodeRead::file_begins(const FileBegins& message) {
  at_hand_ = message.path;
  return true;
}

bool NodeRead::file_is_read(const FileIsRead& message) {
  if (!has_room(message.path, message.reading.text)) return false;
  readings_.files.add(message.path, message.reading);
  at_hand_.clear();
  return true;
}

bool NodeRead::gpu_call_begins(const GpuCallBegins& message) {
  gpus_begun_ = true;
  readings_.gpus->begin_call(message.call);
  at_hand_ = message.call;
  return true;
}

bool NodeRead::gpu_is_read(const GpuIsRead& message) {
  if (!has_room(message.key, message.reading.value)) return false;
  readings_.gpus->add(message.key, message.reading);
  at_hand_.clear();
  return true;
}

bool NodeRead::part_over(const HelperMessage& message) {
  const bool are_files = part_ == Part::files;
  const bool is_meant = are_files ? std::holds_alternative<FilesOver>(message)
                                  : std::holds_alternative<ReadOver>(message);
  if (!is_meant) return false;
  at_hand_.clear();
  part_ = Part::gpus;
  files_left_ = request_.sources.size();
  is_over_ = !are_files;
  if (is_over_ && readings_.gpus) readings_.gpus->complete();
  return true;
}

bool NodeRead::has_room(std::string_view name, std::string_view text) {
  bytes_ += name.size() + text.size();
  return bytes_ <= bytes_max;
}

void NodeRead::unanswered(std::chrono::milliseconds waited) {
  if (at_hand_.empty()) return helper_ended("the helper stood still");
  const FileReading reading = unanswered_reading(waited);
  if (part_ == Part::files) readings_.files.add(at_hand_, reading);
  lose(reading.error);
}

void NodeRead::helper_ended(const std::string& how) {
  if (part_ == Part::gpus && gpus_begun_)
    readings_.gpus->stop(at_hand_.empty() ? how : how + " in " + at_hand_);
  if (part_ == Part::files && !at_hand_.empty())
    readings_.files.add(at_hand_, FileReading{{}, how, false});
  lose(how);
}

// The next helper begins with the source that the path was read for: each path is read for the
// first one that covers it, so that those before are finished.
void NodeRead::lose(const std::string& why) {
  lost_ = at_hand_.empty() ? why : at_hand_ + ": " + why;
  if (part_ == Part::files && !at_hand_.empty()) {
    unanswered_.insert(at_hand_);
    const auto left = std::span(request_.sources).subspan(files_left_);
    const auto covering = std::ranges::find_if(
        left, [&](const std::string& source) { return covers(source, at_hand_); });
    if (covering != left.end()) {
      const bool is_whole = place_of(*covering) == *covering;
      files_left_ += static_cast<std::size_t>(covering - left.begin()) + (is_whole ? 1 : 0);
    }
  }
  part_ = Part::files;
  at_hand_.clear();
}

void NodeRead::give_up(const std::string& why) {
  helper_ended(why);
  is_over_ = true;
  for (const std::string& source : std::span(request_.sources).subspan(files_left_)) {
    const std::string place = place_of(source);
    const bool is_whole = place == source && readings_.files.all().contains(place);
    if (is_whole || unanswered_.contains(place)) continue;
    readings_.files.add(place, FileReading{{}, why, false});
  }
  if (readings_.gpus && !gpus_begun_) readings_.gpus->stop(why);
}

void NodeRead::give_up_unreached() {
  give_up("not reached: " + lost_);
}

}  // namespace muster
