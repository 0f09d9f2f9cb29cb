#include "launcher/agent/health/claim.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "launcher/agent/node/log.h"

namespace muster {

namespace {

// A gate measures for 13 min at most, a person for an hour, who may begin again; nobody burns a
// host in for longer than a shift and says nothing.
constexpr std::chrono::hours believed_for{8};
// Who was not asked for meanwhile may have given it back and taken it again.
constexpr std::chrono::minutes forgotten_after{2};

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// An abstract name: of no file system, the same for all users of the host's network.
Name claimed_name() {
  constexpr std::string_view text("\0muster-measures-this-host", 26);
  Name name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  return name;
}

Fd new_socket() {
  return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Whoever listened at the name. Nothing: nobody does, or too many have asked.
std::optional<ucred> listener(const Name& name) {
  const Fd socket = new_socket();
  ucred who{};
  socklen_t size = sizeof who;
  if (!socket || ::connect(socket.get(), name.raw(), name.size) != 0) return std::nullopt;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return std::nullopt;
  return who;
}

// "7 min", "8 h 5 min"
std::string minutes_text(std::chrono::minutes time) {
  const auto hours = std::chrono::duration_cast<std::chrono::hours>(time);
  const std::string rest = std::to_string((time - hours).count()) + " min";
  return hours.count() == 0 ? rest : std::to_string(hours.count()) + " h " + rest;
}

}  // namespace

bool BenchmarkClaim::take(BootTime now) {
  if (is_held_) return true;
  const Name name = claimed_name();
  Fd socket = new_socket();
  const bool is_taken = ::bind(socket.get(), name.raw(), name.size) != 0 && errno == EADDRINUSE;
  if (is_taken && believes(now)) return false;
  if (is_taken) log_line("measures all the same: this host is claimed" + whose());
  // Nobody is let in: the kernel tells who asks whose it is. Whatever went wrong is no reason not
  // to measure.
  if (!is_taken) static_cast<void>(::listen(socket.get(), SOMAXCONN));
  socket_ = std::move(socket);
  is_held_ = true;
  ++claims_held_;
  holder_.reset();
  return true;
}

void BenchmarkClaim::give_back() {
  if (!is_held_) return;
  is_held_ = false;
  --claims_held_;
  socket_.reset();
}

bool BenchmarkClaim::believes(BootTime now) {
  const auto who = listener(claimed_name());
  const bool is_same = holder_ && now - holder_->asked_at < forgotten_after &&
                       (!who || holder_->pid == 0 || holder_->pid == who->pid);
  if (!is_same) holder_ = Holder{0, std::nullopt, now, now};
  holder_->asked_at = now;
  if (who) {
    holder_->pid = who->pid;
    holder_->user = who->uid;
  }
  return now - holder_->since < believed_for;
}

std::string BenchmarkClaim::whose() const {
  if (!holder_) return {};
  std::string text;
  if (holder_->user && *holder_->user != ::geteuid()) {
    text += ", by ";
    if (holder_->pid != 0) text += "process " + std::to_string(holder_->pid) + " of ";
    text += "user " + std::to_string(*holder_->user);
  }
  const auto time =
      std::chrono::duration_cast<std::chrono::minutes>(holder_->asked_at - holder_->since);
  if (time.count() > 0) text += ", for " + minutes_text(time) + " at least";
  return text;
}

}  // namespace muster
