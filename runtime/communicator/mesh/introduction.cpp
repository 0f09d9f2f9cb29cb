#include "runtime/communicator/mesh/introduction.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>

#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

// Few at a time, so that who came before is heard before later ones displace him.
constexpr int let_in_at_once = 16;

// What is there of `wanted` bytes, and not one more; false: the other end is gone.
bool receive_up_to(const Descriptor& socket, std::size_t wanted, std::string& heard) {
  std::array<char, 64> buffer;
  while (heard.size() < wanted) {
    const std::size_t count = std::min(buffer.size(), wanted - heard.size());
    const ssize_t got = ::recv(socket.get(), buffer.data(), count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    heard.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

// Nobody waits for a stranger who does not read: an empty connection holds the few bytes at once.
bool send_now(const Descriptor& socket, const std::string& bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (::getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count)) {
    throw StartError("the kernel gives no random bytes");
  }
  return bytes;
}

std::optional<MessageStream> introduce(Descriptor socket, const std::string& secret,
                                       const std::string& place, const Patience& patience,
                                       std::string& why) {
  why = not_of_the_attempt;
  Handshake handshake(Handshake::Side::caller, secret, place, random_bytes(nonce_bytes));
  std::string saying = handshake.opening();
  std::string heard;
  while (true) {
    if (!saying.empty() && !send_now(socket, saying)) return std::nullopt;
    saying.clear();
    const std::size_t wanted = handshake.wanted_bytes();
    const bool is_there = receive_up_to(socket, wanted, heard);
    if (heard.size() == wanted) {
      const auto next = handshake.hear(heard, saying);
      heard.clear();
      if (const auto* keys = std::get_if<MessageKeys>(&next)) {
        return MessageStream(std::move(socket), *keys);
      }
      if (const auto* fault = std::get_if<WireFault>(&next)) {
        why = fault->reason;
        return std::nullopt;
      }
      continue;
    }
    if (!is_there) return std::nullopt;
    std::vector<pollfd> watched{{socket.get(), POLLIN, 0}};
    if (!patience.wait_for(watched)) return std::nullopt;
  }
}

Strangers::Strangers(std::string secret, std::size_t welcome, std::chrono::milliseconds limit)
    : secret_(std::move(secret)), most_(welcome + spare_places), limit_(limit) {}

void Strangers::watch(std::vector<pollfd>& watched) const {
  for (const Stranger& one : strangers_) watched.push_back({one.socket.get(), POLLIN, 0});
}

void Strangers::let_in(const Descriptor& listener, const std::string& place) {
  for (int i = 0; i < let_in_at_once; ++i) {
    auto caller = accept_one(listener);
    if (!caller) return;
    if (caller->address.empty() && !is_of_same_user(caller->socket)) continue;
    Handshake handshake(Handshake::Side::opener, secret_, place, random_bytes(nonce_bytes));
    strangers_.push_back({std::move(caller->socket), std::move(caller->address),
                          std::move(handshake), Deadline(limit_), std::string()});
    if (strangers_.size() > most_) drop_one();
  }
}

void Strangers::drop_one() {
  std::map<std::string, std::size_t> counts;
  for (const Stranger& one : strangers_) ++counts[one.address];
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& item) { return item.second; });
  strangers_.erase(std::ranges::find(strangers_, most->first, &Stranger::address));
}

bool Strangers::is_still_unknown(Stranger& stranger, std::vector<MessageStream>& proven) const {
  if (stranger.deadline.passed()) return false;
  while (true) {
    const std::size_t wanted = stranger.handshake.wanted_bytes();
    const bool is_there = receive_up_to(stranger.socket, wanted, stranger.heard);
    if (stranger.heard.size() < wanted) return is_there;
    std::string answer;
    const auto next = stranger.handshake.hear(stranger.heard, answer);
    stranger.heard.clear();
    const bool is_fault = std::holds_alternative<WireFault>(next);
    if (is_fault || !send_now(stranger.socket, answer)) return false;
    if (const auto* keys = std::get_if<MessageKeys>(&next)) {
      proven.emplace_back(std::move(stranger.socket), *keys);
      return false;
    }
  }
}

std::vector<MessageStream> Strangers::take_proven() {
  std::vector<MessageStream> proven;
  for (auto one = strangers_.begin(); one != strangers_.end();) {
    one = is_still_unknown(*one, proven) ? std::next(one) : strangers_.erase(one);
  }
  return proven;
}

}  // namespace muster
