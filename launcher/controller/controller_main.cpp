#include "launcher/controller/controller_main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <system_error>

#include "launcher/controller/controller.h"
#include "launcher/controller/controller_log.h"
#include "launcher/transport/transport_selector.h"

namespace muster {

namespace {

int fail(const std::string& sentence) {
  log_error(sentence);
  std::cerr << "muster: " << sentence << "\n";
  return static_cast<int>(ExitCode::internal);
}

// Held for the life of the process; the kernel lets go when it dies, however it dies.
Result<bool> take_lock(const Home& home) {
  const int descriptor = ::open(home.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return Error{"cannot write the state directory " + home.root.string() + ": " +
                 std::strerror(errno) + " (set MUSTER_HOME to a directory you can write)"};
  }
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return false;
  return true;
}

void detach() {
  if (::fork() > 0) ::_exit(0);
  ::setsid();
  if (::fork() > 0) ::_exit(0);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  if (null > STDERR_FILENO) ::close(null);
  if (::chdir("/") != 0) ::_exit(static_cast<int>(ExitCode::internal));
}

// A link a node and a log a rank: the soft limit of 1024 is too small for 64 nodes of 8 ranks.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
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
  FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr || std::fprintf(file, "%s\n", id.c_str()) < 0 || std::fclose(file) != 0) {
    return Error{"cannot write " + path.string() + ": " + std::strerror(errno)};
  }
  return id;
}

int serve(const ControllerOptions& options) {
  auto id = controller_id(options.home);
  if (!id) return fail(id.error().message);
  auto store = Store::open(options.home.root, Store::Mode::read_write);
  if (!store) return fail(store.error().message);
  boost::asio::io_context io(1);
  ControllerSettings settings;
  settings.home = options.home;
  settings.launch.binary = options.binary;
  settings.launch.build_id = options.build_id;
  settings.launch.controller_id = *id;
  settings.idle_limit = Seconds{options.idle_limit_s};
  auto transport =
      make_transport(io, transport_settings_from_environment(options.home.root.string()));
  Controller controller(io, settings, std::move(*store), std::move(transport));
  if (auto started = controller.start(); !started) return fail(started.error().message);
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&io](const boost::system::error_code& error, int) {
    if (!error) io.stop();
  });
  log_info("controller " + std::to_string(::getpid()) + " serves " + options.home.root.string());
  io.run();
  ::unlink(options.home.socket().c_str());
  log_info("controller " + std::to_string(::getpid()) + " ends");
  return 0;
}

}  // namespace

int controller_main(const ControllerOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.home.root, error);
  if (!error) ::chmod(options.home.root.c_str(), 0700);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(0077);
  auto locked = take_lock(options.home);
  open_log(options.home.log(), !options.detached);
  if (!locked) return fail(locked.error().message);
  if (!*locked) {
    log_info("another controller serves " + options.home.root.string());
    return 0;
  }
  if (options.detached) detach();
  raise_descriptor_limit();
  try {
    return serve(options);
  } catch (const std::exception& failure) {
    return fail(std::string("the controller stopped: ") + failure.what());
  }
}

}  // namespace muster
