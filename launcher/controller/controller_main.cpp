#include "launcher/controller/controller_main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iostream>
#include <system_error>

#include "launcher/controller/asio_timers.h"
#include "launcher/controller/controller.h"
#include "launcher/controller/controller_log.h"
#include "launcher/controller/request_server.h"
#include "launcher/controller/site_commands.h"
#include "launcher/controller/store.h"
#include "launcher/os/fd.h"
#include "launcher/os/whole_file.h"
#include "launcher/relay/fan_out.h"
#include "launcher/transport/transport_selector.h"

namespace muster {

namespace {

constexpr int cannot_work = static_cast<int>(ExitCode::internal);

int fail(const std::string& sentence) {
  log_error(sentence);
  std::cerr << "muster: " << sentence << "\n";
  return cannot_work;
}

// Held for the life of the process; the kernel lets go when it dies, however it dies. Nothing:
// another process has it.
Result<std::optional<Fd>> take_lock(const Home& home) {
  Fd lock(::open(home.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) {
    return Error{"cannot write the state directory " + home.root.string() + ": " +
                 std::strerror(errno) + " (set MUSTER_HOME to a directory you can write)"};
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::optional<Fd>();
  return std::optional(std::move(lock));
}

// Nobody finds a controller whose state directory was removed, and what it journals is lost. It
// ends; the ranks end with their leases.
class HomeWatch {
 public:
  HomeWatch(boost::asio::io_context& io, const Fd& lock) : io_(io), timer_(io), lock_(lock) {
    look_later();
  }
  bool is_gone() const {
    struct stat facts {};
    return ::fstat(lock_.get(), &facts) == 0 && facts.st_nlink == 0;
  }

 private:
  static constexpr std::chrono::seconds interval{5};

  void look_later() {
    timer_.expires_after(interval);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      if (is_gone()) return io_.stop();
      look_later();
    });
  }

  boost::asio::io_context& io_;
  boost::asio::steady_timer timer_;
  const Fd& lock_;
};

// What the process that was called waits for: it ends as the start of the daemon does.
constexpr char is_ready = 'R';
constexpr char has_failed = 'F';  // and has said why in the log

[[noreturn]] void end_like_the_start(int line) {
  char word = 0;
  ssize_t got = 0;
  do {
    got = ::read(line, &word, 1);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) log_error("the controller was killed while starting, or crashed");
  ::_exit(got == 1 && word == is_ready ? 0 : cannot_work);
}

// What the C library or a crash says goes to the log as well.
void leave_terminal(const Home& home) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int log = ::open(home.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log < 0 ? null : log, STDOUT_FILENO);
  ::dup2(log < 0 ? null : log, STDERR_FILENO);
  if (null > STDERR_FILENO) ::close(null);
  if (log > STDERR_FILENO) ::close(log);
  if (::chdir("/") != 0) ::_exit(cannot_work);
}

// In the daemon: where to say how the start went.
Result<int> detach(const Home& home) {
  int line[2];
  if (::pipe2(line, O_CLOEXEC) != 0) {
    return Error{std::string("cannot start the controller: ") + std::strerror(errno)};
  }
  const pid_t first = ::fork();
  if (first < 0) return Error{std::string("cannot start the controller: ") + std::strerror(errno)};
  if (first > 0) {
    ::close(line[1]);
    end_like_the_start(line[0]);
  }
  ::close(line[0]);
  ::setsid();
  if (const pid_t second = ::fork(); second != 0) ::_exit(second > 0 ? 0 : cannot_work);
  leave_terminal(home);
  return line[1];
}

// A link a node and a log a rank: the soft limit of 1024 is too small for 64 nodes of 8 ranks. More
// than this is not needed, and programs that close every descriptor there could be inherit it.
void raise_descriptor_limit() {
  constexpr rlim_t enough = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  limit.rlim_cur = std::min(limit.rlim_max, enough);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Names the agents' directories on nodes: the same for every controller of one state directory.
Result<std::string> controller_id(const Home& home) {
  const auto path = home.root / "controller.id";
  std::string id;
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    char text[33] = {};
    if (std::fscanf(file, "%32[a-z0-9]", text) == 1) id = text;
    std::fclose(file);
  }
  if (!id.empty()) return id;
  unsigned char random[8];
  if (::getentropy(random, sizeof random) != 0) return Error{"the system gives no randomness"};
  constexpr char digits[] = "0123456789abcdef";
  for (const unsigned char byte : random) {
    id += digits[byte >> 4];
    id += digits[byte & 15];
  }
  if (replace_file(path, id + '\n', 0600, Durable::on_disk)) return id;
  return Error{"cannot write " + path.string() + ": " + std::strerror(errno)};
}

// The controller with its socket: clients come in here.
struct Service {
  Service(boost::asio::io_context& io, Timers& timers, const ControllerSettings& settings,
          std::unique_ptr<Store> store, std::unique_ptr<Transport> transport)
      : commands(timers),
        controller(timers, settings, std::move(store), std::move(transport),
                   {[this] { return server.sessions() > 0; }, [&io] { io.stop(); },
                    [this](const auto& argv, Milliseconds limit, auto done) {
                      commands.run(argv, limit, std::move(done));
                    }}),
        requests(controller.desk()),
        server(
            io,
            [this](const std::shared_ptr<Session>& session, ToController request,
                   std::string payload) { requests.handle(session, std::move(request), payload); },
            [this](const std::shared_ptr<Session>& session) { controller.client_gone(session); }),
        socket(settings.home.socket()) {}

  Status start() {
    if (auto started = controller.start(); !started) return started;
    return server.listen(socket);
  }

  SiteCommands commands;
  Controller controller;
  Requests requests;
  RequestServer server;
  std::filesystem::path socket;
};

// `started` is called once the controller listens.
Status serve(const ControllerOptions& options, const Fd& lock, mode_t users_mask,
             const std::function<void()>& started) {
  auto id = controller_id(options.home);
  if (!id) return id.error();
  auto store = Store::open(options.home.root, Store::Mode::read_write);
  if (!store) return store.error();
  ::umask(users_mask);  // the ranks' that are started on this machine
  boost::asio::io_context io(1);
  ControllerSettings settings;
  settings.home = options.home;
  settings.launch.binary = options.binary;
  settings.launch.build_id = options.build_id;
  settings.launch.controller_id = *id;
  settings.idle_limit = Seconds{options.idle_limit_s};
  AsioTimers timers(io);
  const auto reach = transport_settings_from_environment(options.home.root.string());
  auto transport = std::make_unique<FanOut>(timers, make_transport(io, reach),
                                            make_login_trust(io, reach.ssh), log_warning);
  Service service(io, timers, settings, std::move(*store), std::move(transport));
  if (auto listening = service.start(); !listening) return listening.error();
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&io](const boost::system::error_code& error, int) {
    if (!error) io.stop();
  });
  const HomeWatch watch(io, lock);
  log_info("controller " + std::to_string(::getpid()) + " serves " + options.home.root.string());
  started();
  io.run();
  if (!watch.is_gone()) ::unlink(options.home.socket().c_str());
  log_info("controller " + std::to_string(::getpid()) + " ends");
  return Done{};
}

Status serve_without_throwing(const ControllerOptions& options, const Fd& lock, mode_t users_mask,
                              const std::function<void()>& started) {
  try {
    return serve(options, lock, users_mask, started);
  } catch (const std::exception& failure) {
    return Error{std::string("the controller stopped: ") + failure.what()};
  }
}

int serve_in_foreground(const ControllerOptions& options, const Fd& lock, mode_t users_mask) {
  const auto served = serve_without_throwing(options, lock, users_mask, [] {});
  return served ? 0 : fail(served.error().message);
}

int serve_detached(const ControllerOptions& options, const Fd& lock, mode_t users_mask) {
  const auto line = detach(options.home);
  if (!line) return fail(line.error().message);
  const auto tell = [&line](char word) {
    [[maybe_unused]] const ssize_t told = ::write(*line, &word, 1);
  };
  const auto served = serve_without_throwing(options, lock, users_mask, [&] { tell(is_ready); });
  if (served) return 0;
  log_error(served.error().message);
  tell(has_failed);
  return cannot_work;
}

}  // namespace

int controller_main(const ControllerOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.home.root, error);
  if (!error) ::chmod(options.home.root.c_str(), 0700);
  ::signal(SIGPIPE, SIG_IGN);
  const mode_t users_mask = ::umask(0077);  // while the log, the store and the lock are made
  auto locked = take_lock(options.home);
  open_log(options.home.log(), !options.detached);
  if (!locked) return fail(locked.error().message);
  if (!*locked) {
    log_info("another controller serves " + options.home.root.string());
    return 0;
  }
  raise_descriptor_limit();
  return options.detached ? serve_detached(options, **locked, users_mask)
                          : serve_in_foreground(options, **locked, users_mask);
}

}  // namespace muster
