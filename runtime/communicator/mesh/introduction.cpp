#include "runtime/communicator/mesh/introduction.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>

#include "runtime/protocol/keyed_hash.h"
#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

constexpr std::size_t opening_bytes = 8 + nonce_bytes;

// In an order that both sides make alike; each text with its length, so that no two lists look the
// same.
std::string joined(std::initializer_list<std::string_view> texts) {
  std::string all;
  for (const std::string_view text : texts) {
    const auto length = static_cast<std::uint32_t>(text.size());
    all.append(reinterpret_cast<const char*>(&length), sizeof length);
    all += text;
  }
  return all;
}

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

// Hears and answers what is there. More is to come, or the other end has proven itself, or never
// will, as when it is gone.
std::variant<std::monostate, MessageKeys, WireFault> proceed(Handshake& handshake,
                                                             const Descriptor& socket,
                                                             std::string& heard) {
  while (true) {
    const std::size_t wanted = handshake.wanted_bytes();
    if (!receive_up_to(socket, wanted, heard)) return WireFault{not_of_the_attempt};
    if (heard.size() < wanted) return std::monostate();
    std::string answer;
    const auto next = handshake.hear(heard, answer);
    heard.clear();
    if (std::holds_alternative<WireFault>(next)) return next;
    if (!answer.empty() && !send_now(socket, answer)) return WireFault{not_of_the_attempt};
    if (std::holds_alternative<MessageKeys>(next)) return next;
  }
}

}  // namespace

Handshake::Handshake(Side side, std::string secret, std::string place, std::string own_nonce)
    : side_(side),
      secret_(std::move(secret)),
      place_(std::move(place)),
      own_nonce_(std::move(own_nonce)) {}

std::string Handshake::opening() const {
  const std::uint16_t none = 0;
  std::string bytes(reinterpret_cast<const char*>(&wire_magic), sizeof wire_magic);
  bytes.append(reinterpret_cast<const char*>(&wire_version), sizeof wire_version);
  bytes.append(reinterpret_cast<const char*>(&none), sizeof none);
  return bytes + own_nonce_;
}

std::size_t Handshake::wanted_bytes() const {
  return other_nonce_.empty() ? opening_bytes : keyed_hash_bytes;
}

std::string Handshake::keyed(std::string_view purpose) const {
  const bool calls = side_ == Side::caller;
  return keyed_hash(secret_, joined({purpose, place_, calls ? own_nonce_ : other_nonce_,
                                     calls ? other_nonce_ : own_nonce_}));
}

std::variant<std::monostate, MessageKeys, WireFault> Handshake::hear_opening(std::string_view bytes,
                                                                             std::string& answer) {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  std::memcpy(&version, bytes.data() + sizeof magic, sizeof version);
  if (magic != wire_magic) return WireFault{not_of_the_attempt};
  if (version != wire_version) {
    return WireFault{"it speaks version " + std::to_string(version) + ", not " +
                     std::to_string(wire_version) + ": install one muster-train on all nodes"};
  }
  other_nonce_ = bytes.substr(opening_bytes - nonce_bytes);
  answer = side_ == Side::caller ? keyed("caller") : opening();
  return std::monostate();
}

std::variant<std::monostate, MessageKeys, WireFault> Handshake::hear(std::string_view bytes,
                                                                     std::string& answer) {
  if (bytes.size() != wanted_bytes()) return WireFault{not_of_the_attempt};
  if (other_nonce_.empty()) return hear_opening(bytes, answer);
  const bool calls = side_ == Side::caller;
  if (!equal_secrets(bytes, keyed(calls ? "opener" : "caller"))) {
    return WireFault{not_of_the_attempt};
  }
  if (!calls) answer = keyed("opener");
  const MessageKeys keys{keyed("messages of the caller"), keyed("messages of the opener")};
  return calls ? keys : MessageKeys{keys.receiving, keys.sending};
}

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
  if (!send_now(socket, handshake.opening())) return std::nullopt;
  std::string heard;
  while (true) {
    const auto next = proceed(handshake, socket, heard);
    if (const auto* keys = std::get_if<MessageKeys>(&next)) {
      return MessageStream(std::move(socket), *keys);
    }
    if (const auto* fault = std::get_if<WireFault>(&next)) {
      why = fault->reason;
      return std::nullopt;
    }
    std::vector<pollfd> watched{{socket.get(), POLLIN, 0}};
    if (!patience.wait_for(watched)) return std::nullopt;
  }
}

Strangers::Strangers(std::string secret, std::size_t welcome, std::chrono::milliseconds limit)
    : secret_(std::move(secret)), most_(welcome + spare_places), limit_(limit) {}

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
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& item) { return item.second; });
  strangers_.erase(std::ranges::find(strangers_, most->first, &Stranger::address));
}

bool Strangers::is_still_unknown(Stranger& stranger, std::vector<MessageStream>& proven) const {
  if (stranger.deadline.passed()) return false;
  const auto next = proceed(stranger.handshake, stranger.socket, stranger.heard);
  if (const auto* keys = std::get_if<MessageKeys>(&next)) {
    proven.emplace_back(std::move(stranger.socket), *keys);
  }
  return std::holds_alternative<std::monostate>(next);
}

std::vector<MessageStream> Strangers::take_proven() {
  std::vector<MessageStream> proven;
  for (auto one = strangers_.begin(); one != strangers_.end();) {
    one = is_still_unknown(*one, proven) ? std::next(one) : strangers_.erase(one);
  }
  return proven;
}

std::vector<Strangers::Newcomer> Strangers::take_first_words() {
  for (MessageStream& stream : take_proven()) silent_.push_back(std::move(stream));
  std::vector<Newcomer> came;
  for (auto one = silent_.begin(); one != silent_.end();) {
    const bool there = one->fill();
    auto next = one->next();
    if (there && std::holds_alternative<std::monostate>(next)) {
      ++one;
      continue;
    }
    if (auto* said = std::get_if<WireMessage>(&next)) {
      came.push_back({std::move(*said), std::move(*one)});
    }
    one = silent_.erase(one);
  }
  return came;
}

}  // namespace muster
