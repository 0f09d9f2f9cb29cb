#include "launcher/controller/main.h"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "launcher/controller/clients/server.h"
#include "launcher/controller/controller.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/os/timers.h"
#include "launcher/relay/fan_out_tree.h"
#include "launcher/transport/transport_selector.h"
#include "runtime/protocol/keyed_hash.h"

namespace muster {

namespace {

constexpr int cannot_work = static_cast<int>(ExitCode::internal);

int fail(const std::string& sentence) {
  log_error(sentence);
  return cannot_work;
}

// Nobody finds a controller whose state directory was removed, and what it journals is lost. It
// ends; the ranks end with their leases. The lock's time says when this controller lived last.
class HomeWatch {
 public:
  HomeWatch(boost::asio::io_context& io, const Fd& lock) : io_(io), lock_(lock) { look_later(); }
  bool is_gone() const { return is_unlinked(lock_); }

 private:
  static constexpr std::chrono::seconds interval = controller_sign_of_life;

  void look_later() {
    ::futimens(lock_.get(), nullptr);
    next_look_ = call_after(io_, interval, [this] {
      if (is_gone()) return io_.stop();
      look_later();
    });
  }

  boost::asio::io_context& io_;
  std::unique_ptr<Alarm> next_look_;
  const Fd& lock_;
};

// A link a node and a log a rank: the soft limit of 1024 is too small for 64 nodes of 8 ranks. More
// than this is not needed, and programs that close every descriptor there could be inherit it.
void raise_descriptor_limit() {
  constexpr rlim_t enough = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  limit.rlim_cur = std::min(limit.rlim_max, enough);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// A random word that is the same for every controller of one state directory.
Result<std::string> kept_word(const std::filesystem::path& path, std::size_t random_bytes) {
  std::string word = text_of_file(path);
  word.resize(std::min(word.find('\n'), word.size()));
  if (!word.empty()) return word;
  std::string random(random_bytes, '\0');
  if (::getentropy(random.data(), random.size()) != 0) {
    return Error{"the system gives no randomness"};
  }
  word = hex_text(random);
  if (replace_file(path, word + '\n', 0600, Durable::on_disk)) return word;
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
                      return commands.run(argv, limit, std::move(done));
                    }}),
        requests(controller.request_context()),
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
             const std::function<void()>& started) try {
  auto id = kept_word(options.home.controller_id(), 8);  // names agents' directories on nodes
  if (!id) return id.error();
  auto secret_key = kept_word(options.home.secret_key(), 32);
  if (!secret_key) return secret_key.error();
  auto store = Store::open(options.home.root, Store::Mode::read_write);
  if (!store) return store.error();
  ::umask(users_mask);  // the ranks' that are started on this machine
  boost::asio::io_context io(1);
  ControllerSettings settings;
  settings.home = options.home;
  settings.launch.binary = options.binary;
  settings.launch.build_id = options.build_id;
  settings.launch.controller_id = *id;
  settings.secret_key = *secret_key;
  settings.launch.retention = options.retention;
  settings.idle_limit = Seconds{options.idle_limit_s};
  settings.clean_command = {options.binary, "clean", "--only-show-errors"};
  AsioTimers timers(io);
  const auto reach = transport_settings_from_environment(options.home.root.string());
  auto transport = std::make_unique<FanOut>(timers, make_transport(io, reach), log_warning);
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
} catch (const std::exception& failure) {
  return Error{std::string("the controller stopped: ") + failure.what()};
}

void report_supervisor(const ControllerOptions& options) {
  if (options.supervisor < 0) return;
  [[maybe_unused]] const bool told = write_all(options.supervisor, {&controller_serves, 1});
  ::close(options.supervisor);
}

constexpr std::size_t log_limit_bytes = 4u << 20;

// Each that a rotation makes too, whatever the mask is by then: it is the ranks'. A device is
// everybody's and stays as it is: root who logs to /dev/null must not take it from the others.
spdlog::file_event_handlers for_owner_alone() {
  spdlog::file_event_handlers handlers;
  handlers.after_open = [](const std::string&, std::FILE* file) {
    struct stat facts {};
    const int descriptor = ::fileno(file);
    if (::fstat(descriptor, &facts) != 0 ||
        (S_ISREG(facts.st_mode) && ::fchmod(descriptor, 0600) != 0)) {
      throw spdlog::spdlog_ex("cannot set mode 0600");
    }
  };
  return handlers;
}

}  // namespace

int controller_main(const ControllerOptions& options) {
  if (auto ours = own_home(options.home); !ours) {
    std::cerr << "muster: " << ours.error().message << "\n";
    return cannot_work;
  }
  ::signal(SIGPIPE, SIG_IGN);
  const bool is_child = options.supervisor >= 0;
  if (is_child) ::fcntl(options.supervisor, F_SETFD, FD_CLOEXEC);
  const mode_t users_mask = ::umask(0077);  // while the log, the store and the lock are made
  auto locked = take_lock_file(options.home.lock());
  open_log(options.home.log(), !is_child);
  if (!locked) return fail(locked.error().message);
  if (!*locked) {
    log_info("another controller serves " + options.home.root.string());
    return is_child ? another_controller_serves : 0;
  }
  raise_descriptor_limit();
  const auto served =
      serve(options, **locked, users_mask, [&options] { report_supervisor(options); });
  return served ? 0 : fail(served.error().message);
}

void open_log(const std::filesystem::path& path, bool to_terminal) {
  try {
    auto sink = to_terminal
                    ? spdlog::sink_ptr(std::make_shared<spdlog::sinks::stderr_sink_st>())
                    : spdlog::sink_ptr(std::make_shared<spdlog::sinks::rotating_file_sink_st>(
                          path.string(), log_limit_bytes, 1, false, for_owner_alone()));
    auto logger = std::make_shared<spdlog::logger>("controller", std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    logger->flush_on(spdlog::level::info);
    logger->set_error_handler([](const std::string&) {});  // a full disk must not end the job
    spdlog::set_default_logger(std::move(logger));
  } catch (const std::exception&) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("none"));  // no log is better than no controller
  }
}

void log_info(const std::string& sentence) {
  spdlog::info("{}", sentence);
}
void log_warning(const std::string& sentence) {
  spdlog::warn("{}", sentence);
}
void log_error(const std::string& sentence) {
  spdlog::error("{}", sentence);
}

}  // namespace muster
