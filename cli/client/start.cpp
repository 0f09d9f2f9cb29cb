#include "cli/client/start.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "cli/client/log_follower.h"
#include "cli/terminal/terminal.h"
#include "launcher/controller/main.h"
#include "launcher/controller/supervisor.h"
#include "launcher/os/child.h"
#include "launcher/os/read_file.h"
#include "runtime/protocol/keyed_hash.h"
#include "scheduler/model/record.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A cold start opens the store and listens; on a loaded machine that has taken two seconds.
constexpr auto start_limit = 10s;
// One is turned away by the lock of a controller that is about to end, or dies; more is no
// accident.
constexpr int start_attempts = 5;
// A controller busy with a thousand nodes answers within a loop turn; more means it is stuck.
constexpr Milliseconds answer_limit{30000};

// Linkers put headers and notes first.
constexpr std::size_t elf_head_bytes = 65536;

Milliseconds time_left(Clock::time_point deadline) {
  return std::max(Milliseconds{0}, std::chrono::ceil<Milliseconds>(deadline - Clock::now()));
}

Error lost() {
  return Error{std::string("connection to the controller lost: ") + std::strerror(errno)};
}

Status check_peer(const Fd& fd, const std::filesystem::path& path) {
  const auto user = peer_user(fd.get());
  if (!user) {
    return Error{"cannot see who listens on " + path.string() + ": " + std::strerror(errno)};
  }
  if (*user == ::geteuid() || *user == 0) return Done{};
  return Error{"the controller on " + path.string() + " runs as user " + std::to_string(*user) +
               ", not as you; set MUSTER_HOME to a directory of your own"};
}

// The child: a session of its own, no terminal, output to the log.
[[noreturn]] void become_controller(const std::string& program, const Home& home) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR);
  const int log = ::open(home.log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (null < 0) ::_exit(1);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log < 0 ? null : log, STDOUT_FILENO);
  if (log >= 0) ::dup2(log, STDERR_FILENO);  // else the controller says itself what is wrong
  ::close_range(3, ~0u, 0);
  if (::chdir("/") != 0) ::_exit(1);
  ::setenv("MUSTER_HOME", home.root.c_str(), 1);
  ::execl(program.c_str(), "muster", "controller", "--detached", nullptr);
  ::_exit(1);
}

Error ended_while_starting(const std::string& how, const Home& home) {
  const std::string message = "the controller " + how + " while starting; " + home.log().string();
  const std::string tail = last_lines_of_file(home.log(), 5);
  return Error{message + (tail.empty() ? " says nothing" : " ends with:\n" + tail)};
}

// One attempt at having a controller: our child until it detaches, then whoever supervises one.
class ControllerStart {
 public:
  explicit ControllerStart(const Home& home) : home_(home) {}

  // Called until a controller answers; the Error ends it.
  Status look() {
    if (child_ > 0) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) != child_) return Done{};
      child_ = 0;
      if (WIFSIGNALED(status)) {
        return ended_while_starting("was killed by signal " + std::to_string(WTERMSIG(status)),
                                    home_);
      }
      if (WEXITSTATUS(status) != 0) {
        return ended_while_starting("ended with " + std::to_string(WEXITSTATUS(status)), home_);
      }
    }
    return is_locked(supervisor_lock(home_)) ? Status(Done{}) : spawn();
  }
  bool has_child() const { return child_ > 0; }

 private:
  Status spawn() {
    if (starts_ == start_attempts) return ended_while_starting("keeps exiting", home_);
    ++starts_;
    const std::string program = muster_program();
    child_ = ::fork();
    if (child_ < 0)
      return Error{std::string("cannot start the controller: ") + std::strerror(errno)};
    if (child_ == 0) become_controller(program, home_);
    return Done{};
  }

  const Home& home_;
  pid_t child_ = 0;
  int starts_ = 0;
};

Result<ControllerClient> start_controller(const Home& home) {
  ControllerStart starting(home);
  const auto deadline = Clock::now() + start_limit;
  auto pause = 1ms;
  while (Clock::now() < deadline) {
    const auto alive = starting.look();
    if (!alive) return alive.error();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + 1ms, 20ms);
    auto client = ControllerClient::connect(home);
    if (!client) return client.error();
    if (*client) return std::move(**client);
  }
  return Error{"the controller did not answer on " + home.socket().string() + " within " +
               std::to_string(start_limit.count()) + " s; " + home.log().string() +
               " ends with:\n" + last_lines_of_file(home.log(), 2)};
}

// Its supervisor was killed, or it was started without one. The new one waits for its end. Where
// none can be started the controller serves all the same, and the next command tries again.
void supervise(const Home& home) {
  if (is_locked(supervisor_lock(home))) return;
  ControllerStart starting(home);
  const auto deadline = Clock::now() + start_limit;
  while (starting.look() && starting.has_child() && Clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
}

// Waits until the old controller has let go of its socket.
Status replace_controller(const Home& home) {
  auto client = ControllerClient::connect(home);
  if (!client) return client.error();
  if (!*client) return Done{};
  // The answer, if any, does not matter: the end of the connection does.
  if (auto sent = (*client)->send(Shutdown{.retire_agents = true}); !sent) return Done{};
  const auto deadline = Clock::now() + start_limit;
  while (Clock::now() < deadline) {
    auto gone = ControllerClient::connect(home);
    if (!gone) return gone.error();
    if (!*gone) return Done{};
    std::this_thread::sleep_for(5ms);
  }
  return Error{"the running controller (another build of muster) did not stop; see " +
               home.log().string()};
}

Result<ControllerClient> connect_or_start(const Home& home) {
  if (auto ours = own_home(home); !ours) return ours.error();
  auto client = ControllerClient::connect(home);
  if (!client) return client.error();
  if (!*client) return start_controller(home);
  supervise(home);
  return std::move(**client);
}

// A controller that ends for idleness just then closes the connection: the next one is asked.
Result<VersionAnswer> version_of_running(const Home& home) {
  Error why;
  for (int tries = 0; tries < 2; ++tries) {
    auto client = connect_or_start(home);
    if (!client) return client.error();
    auto answer = ask(*client, AskVersion{}, answer_limit);
    const auto* version = answer ? std::get_if<VersionAnswer>(&*answer) : nullptr;
    if (version != nullptr) return *version;
    why = answer ? Error{"the controller answered something else than its version; it may be too "
                         "old"}
                 : answer.error();
  }
  return why;
}

// `head`: the beginning of an ELF file for little-endian machines, which has the linker's note:
// sizes, its type and its name before the id itself.
std::string build_id_in(std::string_view head) {
  constexpr std::string_view type_and_name("\3\0\0\0GNU", 8);  // NT_GNU_BUILD_ID
  const std::size_t at = head.find(type_and_name);
  std::uint32_t size = 0;
  if (at == head.npos || at < sizeof size) return "";
  std::memcpy(&size, head.data() + at - sizeof size, sizeof size);
  return hex_text(head.substr(at + type_and_name.size(), size));
}

constexpr std::size_t jobs_named = 5;

std::optional<Time> last_sign_of_life(const Home& home) {
  struct stat facts {};
  if (::stat(home.lock().c_str(), &facts) != 0) return std::nullopt;
  return from_ms(std::int64_t{facts.st_mtim.tv_sec} * 1000 + facts.st_mtim.tv_nsec / 1'000'000);
}

Milliseconds lease_of(const Store& store, const JobId& job) {
  std::optional<Milliseconds> lease;  // nothing: far_lease at the most
  const auto records = store.records_of(job);
  for (const Record& record : records ? *records : std::vector<Record>()) {
    if (const auto* begun = record_as<JobSubmitted>(record)) lease = begun->target.lease;
    if (const auto* again = record_as<ResumeRequested>(record)) lease = again->target.lease;
  }
  return lease.value_or(far_lease);
}

std::string names_of(const std::vector<JobRow>& jobs) {
  if (jobs.size() == 1) return "job " + jobs.front().name;
  std::vector<std::string> names;
  for (const JobRow& job : jobs) names.push_back(job.name);
  if (names.size() > jobs_named) {
    names.resize(jobs_named);
    names.push_back("…");
  }
  return std::to_string(jobs.size()) + " unfinished jobs (" + joined(names) + ")";
}

// A lease was renewed until the controller died, which is later than it was last seen.
std::string unserved_text(const Store& store, const std::vector<JobRow>& jobs, Time since,
                          Time now) {
  Milliseconds lease{0};
  for (const JobRow& job : jobs) lease = std::max(lease, lease_of(store, JobId{job.name}));
  const Time end = since + controller_sign_of_life + lease;
  return "no controller has served " + names_of(jobs) + " since " + local_text(since) + " (" +
         ago_text(since, now) + "); " +
         (end > now ? "ranks end by " : "ranks ended with their leases by ") + local_text(end);
}

bool is_answered(const Home& home) {
  const auto client = ControllerClient::connect(home);
  return !client || *client;
}

}  // namespace

Result<std::optional<ControllerClient>> ControllerClient::connect(const Home& home) {
  const std::filesystem::path path = home.socket();
  Fd fd = connect_unix(path);
  if (!fd) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR) {
      return std::optional<ControllerClient>();
    }
    return Error{"cannot connect to the controller on " + path.string() + ": " +
                 std::strerror(errno)};
  }
  if (const auto peer = check_peer(fd, path); !peer) return peer.error();
  return std::optional(ControllerClient(std::move(fd)));
}

Status ControllerClient::send(const ToController& message, std::string_view payload) {
  const std::string frame = encode(message, payload);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      return lost();
    }
  }
  return Done{};
}

Result<std::optional<Received<FromController>>> ControllerClient::receive(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::array<std::byte, 65536> buffer;
  while (true) {
    auto frame = reader_.next();
    if (!frame) return frame.error();
    if (*frame) {
      auto message = decode<FromController>(std::move(**frame));
      if (!message) return message.error();
      return std::optional<Received<FromController>>(std::move(*message));
    }
    pollfd wanted{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(time_left(deadline).count()));
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      return std::optional<Received<FromController>>();
    }
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return lost();
    if (got == 0) return Error{"the controller closed the connection"};
    reader_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
}

Result<FromController> ask(ControllerClient& client, const ToController& question,
                           Milliseconds timeout) {
  const auto sent = client.send(question);
  if (!sent) return sent.error();
  const auto deadline = Clock::now() + timeout;
  for (auto left = timeout; left.count() > 0; left = time_left(deadline)) {
    auto answer = client.receive(left);
    if (!answer) return answer.error();
    if (*answer) return std::move((*answer)->message);
  }
  return Error{"the controller did not answer within " + std::to_string(timeout.count() / 1000) +
               " s; see controller.log"};
}

Status prepare_home(const Home& home) {
  if (auto ours = own_home(home); !ours) return ours;
  const std::filesystem::path probe = home.root / (".write-test-" + std::to_string(::getpid()));
  const Fd file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const bool written = file && write_all(file.get(), "muster\n");
  const std::string why = std::strerror(errno);
  ::unlink(probe.c_str());
  if (written) return Done{};
  return Error{"cannot write to the state directory " + home.root.string() + ": " + why +
               "; free space or set MUSTER_HOME to a directory that can be written"};
}

Result<ControllerClient> ensure_controller(const Home& home, const CommonOptions& common) {
  const auto version = version_of_running(home);
  if (!version) return version.error();
  if (version->build_id != own_build_id()) {
    if (version->live_jobs > 0) {
      notice("the running controller is another build of muster; it is kept: it manages " +
                 std::to_string(version->live_jobs) + " job(s)",
             common);
    } else if (const auto replaced = replace_controller(home); !replaced) {
      return replaced.error();
    }
  }
  return connect_or_start(home);  // one request per connection
}

Result<FromController> ask_controller(const Home& home, const ToController& question,
                                      const CommonOptions& common) {
  auto client = ensure_controller(home, common);
  if (!client) return client.error();
  return ask(*client, question, answer_limit);
}

Accepted accepted_or_end(const Home& home, const ToController& question, const std::string& attempt,
                         const CommonOptions& common) {
  const auto answer = or_end(ask_controller(home, question, common), internal_error, attempt);
  if (const auto* yes = std::get_if<Accepted>(&answer)) return *yes;
  if (const auto* no = std::get_if<Refused>(&answer)) throw VerbEnd(no->exit_code, no->message);
  throw VerbEnd(internal_error, "the controller gave an unexpected answer");
}

std::string muster_program() {
  const std::filesystem::path own = self_exe();
  return own.filename() == "muster-sandbox" ? own.parent_path() / "muster" : own;
}

std::string own_build_id() {
  const Fd file(::open(muster_program().c_str(), O_RDONLY | O_CLOEXEC));
  std::string head;
  return read_at(file.get(), 0, elf_head_bytes, head) ? build_id_in(head) : "";
}

void serve_unfinished(const Home& home, const Store& store, const std::vector<JobRow>& rows,
                      const CommonOptions& common) {
  std::vector<JobRow> jobs;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(jobs),
               [](const JobRow& row) { return !row.ended_at; });
  if (jobs.empty()) return;
  const auto since = last_sign_of_life(home);
  if (!since) return notice("no controller serves " + names_of(jobs) + " from here", common);
  const bool was_served = is_answered(home);
  const bool is_supervised = is_locked(supervisor_lock(home));  // and so is started again
  const std::string sentence =
      was_served ? "" : unserved_text(store, jobs, *since, wall_clock_now());
  const auto served = ensure_controller(home, common);
  if (!served)
    return print_error(sentence + ", and none can be started: " + served.error().message, common);
  if (!was_served && !is_supervised) notice(sentence + "; one has been started", common);
}

}  // namespace muster
