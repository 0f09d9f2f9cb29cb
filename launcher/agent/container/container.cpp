#include "launcher/agent/container/container.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "launcher/agent/node/process_scan.h"
#include "launcher/hold/protocol.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

// What `ld -b binary` calls the two ends of a file.
extern "C" const char _binary_muster_hold_start[], _binary_muster_hold_end[];

namespace muster {

namespace {

constexpr Milliseconds begin_limit{10'000};
constexpr pid_t never_ran = 0;  // how it ended is no news

void add(std::string& text, char kind, const std::string& value) {
  text += kind;
  text += value;
  text += '\0';
}

Result<Fd> file_of(const SpawnRequest& request) {
  std::string text;
  for (const auto& [name, value] : request.environment) {
    const bool is_module = name == "PYTHONPATH";  // muster's comes last
    const bool is_list = name == "PATH" || name == "LD_LIBRARY_PATH";
    const bool is_open = is_list && value.ends_with(':');  // the image's own follows
    const std::string entry = name + "=" + value.substr(0, value.size() - (is_open ? 1 : 0));
    add(text, is_module ? hold_last : is_open ? hold_first : hold_variable, entry);
  }
  add(text, hold_directory, request.directory);
  for (const std::string& word : request.argv) add(text, hold_argument, word);
  if (request.has_terminal) add(text, hold_terminal, "");
  Fd file = memory_file(text);
  if (!file) return system_error("describe a process");
  return file;
}

using SteadyClock = std::chrono::steady_clock;

// A signal, of a child that ended for instance, ends no wait.
bool is_readable(int descriptor, SteadyClock::time_point until) {
  pollfd wanted{descriptor, POLLIN, 0};
  while (true) {
    const auto left = std::chrono::ceil<Milliseconds>(until - SteadyClock::now());
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::max(left, Milliseconds{0}).count()));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

bool send(int socket, const std::string& id, const int (&files)[hold_descriptors]) {
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof files)] = {};
  iovec place{const_cast<char*>(id.data()), id.size()};
  const msghdr message{nullptr, 0, &place, 1, space, sizeof space, 0};
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(header), files, sizeof files);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

std::string namespace_path(pid_t pid) {
  return "/proc/" + std::to_string(pid) + "/ns/pid";
}

std::uint64_t namespace_of(pid_t pid) {
  struct stat facts {};
  return ::stat(namespace_path(pid).c_str(), &facts) == 0 ? facts.st_ino : 0;
}

std::string holder_note(const std::string& spool) {
  return spool + "/holder";
}

// Numbers of processes come again; with the time when it began it is that very one.
std::string note_of(const ProcessInfo& holder, const std::string& boot_id) {
  return boot_id + " " + std::to_string(holder.pid) + " " + std::to_string(holder.start_ticks);
}

}  // namespace

std::string_view Holder::program() {
  return {_binary_muster_hold_start, _binary_muster_hold_end};
}

Result<Holder> Holder::prepare(const std::string& directory) {
  Holder holder;
  const Fd place(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place) return system_error("open " + directory);
  if (!replace_file(directory + "/hold", program(), 0755, Durable::in_cache)) {
    return system_error("write " + directory + "/hold");
  }
  const sockaddr_un address = unix_address(place, "sock");
  ::unlink(address.sun_path);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  holder.listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listens = ::bind(holder.listener_.get(), name, sizeof address) == 0 &&
                       ::listen(holder.listener_.get(), 1) == 0;
  if (!listens) return system_error("listen in " + directory);
  return holder;
}

bool Holder::accept() {
  socket_ = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket_) return false;
  listener_.reset();
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  ucred peer{};
  socklen_t size = sizeof peer;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  pid_ = peer.pid;
  return true;
}

// False: there is none in that time.
bool Holder::take_message(Milliseconds patience) {
  if (is_gone_ || !is_readable(socket_.get(), SteadyClock::now() + patience)) return false;
  char text[hold_message_bytes];
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(ucred))];
  iovec place{text, sizeof text};
  msghdr message{nullptr, 0, &place, 1, space, sizeof space, 0};
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) {
    is_gone_ = true;
    return false;
  }
  ucred sender{};
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  const bool is_known = header != nullptr && header->cmsg_type == SCM_CREDENTIALS;
  if (is_known) std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  const auto words = words_in(std::string_view(text, static_cast<std::size_t>(got)));
  is_silent_ = false;
  if (words.size() == 2 && words[0] == "begun") {
    if (given_up_.erase(std::string(words[1])) == 0) {
      begun_.emplace(words[1], sender.pid);
    } else if (sender.pid > 0) {
      ::kill(sender.pid, SIGKILL);
    }
  }
  if (words.size() == 3 && words[0] == "ended") {
    const auto begun = begun_.find(std::string(words[1]));
    const auto status = read_integer(words[2]);
    if (begun == begun_.end() || !status) return true;
    if (begun->second != never_ran) ended_.push_back({begun->second, static_cast<int>(*status)});
    begun_.erase(begun);
  }
  return true;
}

std::vector<Holder::Ended> Holder::read() {
  while (socket_ && take_message(Milliseconds{0})) {
  }
  return std::exchange(ended_, {});
}

Result<pid_t> Holder::start(const SpawnRequest& request) {
  if (const std::string why = lasting_hindrance(request.argv, request.environment); !why.empty()) {
    return Error{why};
  }
  if (!socket_) return Error{"the container is not there yet"};
  if (is_gone_) return Error{"the container has ended"};
  while (is_silent_ && take_message(Milliseconds{0})) {
  }
  if (is_silent_) return Error{"the container does not answer"};
  const auto file = file_of(request);
  if (!file) return file.error();
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto pipe = make_pipe();
  if (!pipe) return system_error("make a pipe");
  const std::string id = std::to_string(++last_id_);
  const int files[hold_descriptors] = {file->get(), request.input.value_or(nothing.get()),
                                       request.output, request.errors, pipe->write_end.get()};
  if (!send(socket_.get(), id, files)) return system_error("ask the container for a process");
  pipe->write_end.reset();
  return begun(id, pipe->read_end);
}

Result<pid_t> Holder::begun(const std::string& id, const Fd& failure) {
  const auto deadline = SteadyClock::now() + begin_limit;
  if (!is_readable(failure.get(), deadline)) {
    given_up_.insert(id);
    while (take_message(Milliseconds{0})) {
    }
    is_silent_ = true;
    return Error{"the container did not start a process within 10 s"};
  }
  char why[hold_message_bytes];
  const ssize_t got = ::read(failure.get(), why, sizeof why);
  if (got > 0) {
    begun_[id] = never_ran;
    const std::string_view text(why, static_cast<std::size_t>(got));
    const std::size_t space = std::min(text.find(' '), text.size() - 1);
    return system_error(std::string(text.substr(space + 1)) + " in the container",
                        static_cast<int>(read_integer(text.substr(0, space)).value_or(0)));
  }
  while (!begun_.contains(id) && SteadyClock::now() < deadline) {
    if (!take_message(begin_limit) && is_gone_) return Error{"the container has ended"};
  }
  const auto found = begun_.find(id);
  if (found == begun_.end()) {
    given_up_.insert(id);
    return Error{"the container did not tell of a process"};
  }
  return found->second;
}

void Container::watch(Handlers handlers) {
  handlers_ = std::move(handlers);
  wait();
}

void Container::forget() {
  handlers_ = {};
  boost::system::error_code ignored;
  watch_.close(ignored);
}

void Container::wait() {
  boost::system::error_code ignored;
  if (watch_.is_open()) watch_.close(ignored);
  watch_.assign(::dup(holder_.descriptor()), ignored);
  watch_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const boost::system::error_code& error) {
                      if (!error && self->handlers_.on_gone) self->look();
                    });
}

// A handler may be the end of all of them.
void Container::look() {
  if (!is_ready_ && holder_.has_come()) {
    is_ready_ = true;
    handlers_.on_ready(holder_.pid());
  }
  for (const Holder::Ended& ended : holder_.read()) {
    if (handlers_.on_ended) handlers_.on_ended(ended);
  }
  if (!handlers_.on_gone) return;
  if (!holder_.is_gone()) return wait();
  handlers_.on_gone();
}

Result<ContainerProcesses> ContainerProcesses::of(pid_t holder, const std::string& spool,
                                                  const std::string& boot_id) {
  const auto process = read_process(holder);
  if (!process) return Error{"the container has ended"};
  const std::string note = note_of(*process, boot_id);
  if (!replace_file(holder_note(spool), note, 0600, Durable::in_cache)) {
    return system_error("write " + holder_note(spool));
  }
  ContainerProcesses found = noted(spool, boot_id);
  if (found.namespace_) return found;
  return Error{"the container has ended, or no process namespace of its own"};
}

ContainerProcesses ContainerProcesses::noted(const std::string& spool, const std::string& boot_id) {
  ContainerProcesses found;
  const std::string note = text_of_file(holder_note(spool));
  const auto words = words_in(note);
  const auto number = words.size() == 3 ? read_integer(words[1]) : std::nullopt;
  if (!number) return found;
  const auto pid = static_cast<pid_t>(*number);
  Fd opened(::open(namespace_path(pid).c_str(), O_RDONLY | O_CLOEXEC));
  const auto holder = read_process(pid);  // lives: what was opened is its own
  struct stat facts {};
  const bool is_its = opened && holder && !holder->is_dead() && note_of(*holder, boot_id) == note &&
                      ::fstat(opened.get(), &facts) == 0;
  if (!is_its || facts.st_ino == namespace_of(::getpid())) return found;
  found.namespace_ = std::move(opened);
  found.number_ = facts.st_ino;
  return found;
}

std::set<pid_t> ContainerProcesses::list() const {
  std::set<pid_t> inside;
  if (!namespace_) return inside;
  for (const ProcessInfo& process : scan_processes()) {
    if (namespace_of(process.pid) == number_) inside.insert(process.pid);
  }
  return inside;
}

pid_t ContainerProcesses::outside(pid_t inside) const {
  for (const pid_t pid : list()) {
    const std::string status = text_of_file("/proc/" + std::to_string(pid) + "/status");
    const auto numbers = value_in_lines(status, "NSpid", ':');
    if (numbers && numbers->ends_with("\t" + std::to_string(inside))) return pid;
  }
  return 0;
}

}  // namespace muster
