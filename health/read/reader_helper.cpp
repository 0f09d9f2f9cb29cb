// The helper's side: one thread, one command after the other, and between them the driver's events.
// Whatever hangs here takes the process with it; so each step is announced before it is taken.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "health/nvml/library.h"
#include "health/read/files.h"
#include "health/read/helper_process.h"
#include "health/read/node_reader.h"
#include "health/read/reader_protocol.h"

namespace muster {

namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds event_retry{60};

// Says all things in memory that is shared with the owner, and wakes it only for what it waits for.
class Teller {
 public:
  Teller(int socket, SharedStream stream) : socket_(socket), stream_(std::move(stream)) {}

  void say(const HelperMessage& message) {
    stream_.write(encode(message), [this] { wake(); });
  }
  void tell(const HelperMessage& message) {
    say(message);
    wake();
  }

 private:
  // Without an owner there is nothing to do. One that has not listened to so much will.
  void wake() const {
    constexpr char something = '!';
    while (::send(socket_, &something, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      if (errno == EAGAIN) return;
      if (errno != EINTR) ::_exit(0);
    }
  }

  int socket_;
  SharedStream stream_;
};

void read_and_tell(const ReadCommand& command, Teller& teller) {
  const NodeReadRequest& asked = command.request;
  read_files({asked.root, asked.sources, command.skip},
             {[&](std::string_view path) { teller.say(FileBegins{std::string(path)}); },
              [&](std::string path, FileReading reading) {
                teller.say(FileIsRead{std::move(path), std::move(reading)});
              }});
  // Now, when more is asked: how long they took is heard.
  if (asked.gpus) return teller.tell(FilesOver{});
  teller.say(FilesOver{});
}

void ask_and_tell(const NodeReadRequest& asked, Teller& teller) {
  teller.say(GpuCallBegins{"dlopen"});
  const auto library = NvmlLibrary::load(asked.nvml_library);
  if (!library) return teller.say(GpuIsRead{"init", {nvml_library_not_found, {}}});
  read_gpus(*library, *asked.gpus,
            {[&](const std::string& call) { teller.say(GpuCallBegins{call}); },
             [&](const std::string& key, const GpuReading& reading) {
               teller.say(GpuIsRead{key, reading});
             }});
  teller.say(GpuCallBegins{"dlclose"});
}

// The driver's events, from a library that stays loaded and initialised for them.
class EventWatch {
 public:
  explicit EventWatch(Teller& teller) : teller_(teller) {}

  void want(const WatchCommand& command) {
    slice_ = command.slice;
    if (path_ == command.library) return;
    path_ = command.library;
    retry_at_ = std::chrono::steady_clock::now();
  }

  // How long there is nothing to do but to hear commands; -1: for ever.
  int pause_ms() const {
    if (source_) return 0;
    if (!path_) return -1;
    const auto left = std::chrono::ceil<milliseconds>(retry_at_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
  }

  // Waits for a slice when there is something to wait for.
  void step() {
    if (!source_ && (!path_ || std::chrono::steady_clock::now() < retry_at_)) return;
    if (!source_) return open();
    if (!std::exchange(is_announced_, true)) teller_.tell(EventCallBegins{event_wait_call});
    const auto event = source_->wait(slice_);
    if (!event) return fail(event.error().message);
    if (*event) teller_.tell(EventIsTold{**event});
  }

  // Something else was announced meanwhile.
  void is_interrupted() { is_announced_ = false; }

 private:
  void open() {
    teller_.tell(EventCallBegins{"dlopen"});
    auto library = NvmlLibrary::load(*path_);
    if (!library) return fail(library.error().message);
    library_ = std::make_unique<NvmlLibrary>(std::move(*library));
    teller_.tell(EventCallBegins{"nvmlInit"});
    const NvmlReturn begun = library_->call(nvml_init);
    is_initialised_ = begun == nvml_success;
    if (!is_initialised_) return fail("nvmlInit: " + nvml_code_text(begun));
    teller_.tell(EventCallBegins{"nvmlDeviceRegisterEvents"});
    auto source = GpuEventSource::open(*library_, gpu_event_usual);
    if (!source) return fail(source.error().message);
    source_.emplace(std::move(*source));
    is_announced_ = false;
    teller_.tell(EventsKnown{});
  }

  // Closed to its ground: what comes later may be another driver.
  void fail(const std::string& why) {
    teller_.tell(EventCallBegins{"nvmlShutdown"});
    source_.reset();
    if (is_initialised_) static_cast<void>(library_->call(nvml_shutdown));
    is_initialised_ = false;
    library_.reset();
    retry_at_ = std::chrono::steady_clock::now() + event_retry;
    teller_.tell(EventsKnown{why});
  }

  Teller& teller_;
  std::optional<std::string> path_;
  milliseconds slice_{};
  std::chrono::steady_clock::time_point retry_at_;
  std::unique_ptr<NvmlLibrary> library_;  // the source refers to it
  std::optional<GpuEventSource> source_;
  bool is_initialised_ = false;
  bool is_announced_ = false;
};

void obey(const HelperCommand& command, Teller& teller, EventWatch& watch) {
  if (const auto* wanted = std::get_if<WatchCommand>(&command)) return watch.want(*wanted);
  const auto& read = std::get<ReadCommand>(command);
  read_and_tell(read, teller);
  if (read.request.gpus) ask_and_tell(read.request, teller);
  teller.tell(ReadOver{});
  watch.is_interrupted();
}

int serve(int socket, SharedStream stream) {
  Teller teller(socket, std::move(stream));
  EventWatch watch(teller);
  FrameCutter cutter(command_bytes_max);
  std::array<char, 65536> part{};
  while (true) {
    pollfd one{socket, POLLIN, 0};
    const int ready = ::poll(&one, 1, watch.pause_ms());
    if (ready == 0) watch.step();
    if (ready <= 0) continue;
    const ssize_t size = ::recv(socket, part.data(), part.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return 0;
    cutter.feed({part.data(), static_cast<std::size_t>(size)});
    while (const auto frame = cutter.next()) {
      const auto command = decode_command(*frame);
      if (!command) return 2;
      obey(*command, teller, watch);
    }
    if (cutter.is_broken()) return 2;
  }
}

}  // namespace

int serve_node_reads(int socket) {
  // An owner that is gone already has closed the socket.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A driver's library that crashes at each read would fill the disk.
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  auto stream = SharedStream::open(socket + 1);
  return stream ? serve(socket, std::move(*stream)) : 2;
}

}  // namespace muster
