#include "runtime/communicator/mesh/rendezvous.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "runtime/communicator/communicator.h"
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

using namespace std::chrono_literals;

// The rank 0 of the attempt before may still be ending.
constexpr auto port_wait = 5s;
// After so long, other ports are thought of; connecting to one may take so long.
constexpr auto own_port_wait = 1s;
constexpr auto retry_pause = 20ms;
constexpr auto answer_limit = 10s;
// Who does not prove itself within that is taken for a stranger who has the port.
constexpr auto proof_limit = 5s;

// Some may be taken by chance. They lie near the given one, as networks may let only a range
// through.
constexpr std::size_t other_ports = 4;
constexpr std::uint32_t port_block = 1000;

std::uint64_t number_of(const std::string& bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::uint64_t random_number() {
  return number_of(random_bytes(sizeof(std::uint64_t)));
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string place_name(const MeetingPlace& place) {
  return "MASTER_ADDR:MASTER_PORT " + place.host + ":" + std::to_string(place.port);
}

std::string quoted_job(const MeshSeat& seat) {
  return seat.job.empty() ? "a run without MUSTER_JOB" : "job " + seat.job;
}

std::string name_of(const MeshSeat& seat) {
  return seat.name.empty() ? "rank " + std::to_string(seat.rank) : seat.name;
}

// Why `came` cannot sit at the table of rank 0's `seat`; empty: it can.
std::string refusal(const MeshSeat& seat, const MeshSeat& came) {
  const std::string who = name_of(came) + " ";
  if (came.job != seat.job) {
    return who + "is of " + quoted_job(came) + ", rank 0 of " + quoted_job(seat) +
           ": two runs use the same MASTER_PORT";
  }
  if (came.epoch != seat.epoch) {
    return who + "is of epoch " + std::to_string(came.epoch) + ", rank 0 of epoch " +
           std::to_string(seat.epoch) + " (MUSTER_EPOCH): one of them is left from another attempt";
  }
  if (came.work != seat.work) {
    return options_difference({{name_of(seat), seat.work}, {name_of(came), came.work}});
  }
  if (came.size != seat.size) {
    return who + "expects " + std::to_string(came.size) + " ranks, rank 0 " +
           std::to_string(seat.size) + ": WORLD_SIZE must be the same everywhere";
  }
  if (came.rank == 0 || came.rank >= seat.size) {
    return who + "has no place in a world of " + std::to_string(seat.size) +
           " beside rank 0: " + "every process needs a RANK of its own below WORLD_SIZE";
  }
  return "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

// Rank 0's side: lets ranks in until every seat is taken.
class Host {
 public:
  Host(const MeshSeat& seat, const MeetingPlace& place, const Patience& patience)
      : seat_(seat),
        patience_(patience),
        listener_(listen(place)),
        port_(std::to_string(port_of(listener_))),
        strangers_(place.secret, seat.size) {
    met_.secret = place.secret;
    met_.own = open_listener(family_of(listener_));
    met_.table.session = random_number();
    met_.table.doors.resize(seat.size);
    met_.table.doors[0] = met_.own.door;
  }

  PeerSet gather() {
    while (seated_.size() + 1 < seat_.size) {
      patience_.check();  // also while one who is refused comes again and again
      if (!wait()) give_up("not all ranks came in time: no word from " + missing());
      strangers_.let_in(listener_, port_);
      for (auto& [said, stream] : strangers_.take_first_words()) {
        if (const auto* hello = std::get_if<RankHello>(&said)) seat(*hello, std::move(stream));
      }
      for (auto& [rank, stream] : seated_) {
        if (!stream.fill()) give_up("rank " + std::to_string(rank) + " left before all had come");
      }
    }
    for (auto& [rank, stream] : seated_) {
      if (!stream.send(met_.table, patience_.deadline())) {
        throw MeetingFailed("rank " + std::to_string(rank) + " left before the first operation");
      }
    }
    return std::move(met_);
  }

 private:
  static Descriptor listen(const MeetingPlace& place) {
    const Deadline patience(place.limit.count() > 0
                                ? std::min<std::chrono::milliseconds>(port_wait, place.limit)
                                : port_wait);
    const Deadline own_only(own_port_wait);
    const std::vector<std::uint16_t> ports = meeting_ports(place);
    while (true) {
      for (const std::uint16_t port : ports) {
        try {
          return listen_tcp(place.host, port);
        } catch (const SocketError& error) {
          if (!own_only.passed()) break;
          if (!patience.passed() || port != ports.back()) continue;
          throw StartError(place_name(place) + ": " + error.what() +
                           ": another process holds it, of an earlier run or of another job");
        }
      }
      std::this_thread::sleep_for(retry_pause);
    }
  }

  bool wait() {
    std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
    for (const auto& [rank, stream] : seated_)
      watched.push_back({stream.socket().get(), POLLIN, 0});
    strangers_.watch(watched);
    return patience_.wait_for(watched);
  }

  void seat(const RankHello& hello, MessageStream stream) {
    std::string why = refusal(seat_, hello.seat);
    const bool for_good = !why.empty() && hello.seat.epoch == seat_.epoch;
    if (why.empty() && seated_.contains(hello.seat.rank)) {
      why = "there are two processes with RANK " + std::to_string(hello.seat.rank);
    }
    if (!why.empty()) {
      stream.send(RankRefusal{why, for_good}, Deadline(answer_limit));
      return;
    }
    RankListener& door = met_.table.doors[hello.seat.rank];
    door = hello.door;
    door.address = peer_address(stream.socket());
    if (is_loopback(door.address)) door.address.clear();
    seated_.emplace(hello.seat.rank, std::move(stream));
  }

  std::string missing() const {
    std::string list;
    for (std::uint64_t rank = 1; rank < seat_.size; ++rank) {
      if (seated_.contains(rank)) continue;
      list += (list.empty() ? "rank " : ", ") + std::to_string(rank);
    }
    return list;
  }

  [[noreturn]] void give_up(const std::string& why) {
    for (auto& [rank, stream] : seated_)
      stream.send(RankRefusal{why, false}, Deadline(answer_limit));
    throw MeetingFailed(why);
  }

  const MeshSeat& seat_;
  const Patience& patience_;
  Descriptor listener_;
  std::string port_;
  PeerSet met_;
  Strangers strangers_;
  std::map<std::uint64_t, MessageStream> seated_;
};

std::optional<MessageStream> try_rank_0(const MeetingPlace& place, std::uint16_t port,
                                        const Patience& patience, std::string& why) {
  auto socket = try_connect_tcp(place.host, port, patience, why);
  if (!socket) return std::nullopt;
  return introduce(std::move(*socket), place.secret, std::to_string(port),
                   patience.at_most(proof_limit), why);
}

MessageStream reach_rank_0(const MeetingPlace& place, const Patience& patience) {
  const std::vector<std::uint16_t> ports = meeting_ports(place);
  const Deadline own_only(own_port_wait);
  std::string why;
  while (true) {
    if (auto stream = try_rank_0(place, ports.front(), patience.at_most(proof_limit), why)) {
      return std::move(*stream);
    }
    for (std::size_t i = 1; i < ports.size() && own_only.passed(); ++i) {
      std::string ignored;
      auto stream = try_rank_0(place, ports[i], patience.at_most(own_port_wait), ignored);
      if (stream) return std::move(*stream);
    }
    if (patience.deadline().passed()) {
      throw MeetingFailed(place_name(place) + ": rank 0 did not answer in time: " + why);
    }
    patience.check();
    std::this_thread::sleep_for(retry_pause);
  }
}

PeerSet attend(const MeshSeat& seat, const MeetingPlace& place, const Patience& patience) {
  MessageStream stream = reach_rank_0(place, patience);
  PeerSet met;
  met.secret = place.secret;
  met.own = open_listener(family_of(stream.socket()));
  met.rank_0_address = peer_address(stream.socket());
  stream.send(RankHello{seat, met.own.door}, patience.deadline());
  // Rank 0 says when time is over; it knows who is missing.
  const auto grace = std::min<std::chrono::milliseconds>(place.limit, answer_limit);
  const WireMessage answer =
      await_message(stream, place_name(place), Patience(place.limit + grace, place.is_over));
  if (const auto* refused = std::get_if<RankRefusal>(&answer)) {
    if (refused->for_good) throw StartError(refused->why);
    throw MeetingFailed(refused->why);
  }
  const auto* table = std::get_if<MeshTable>(&answer);
  if (table == nullptr || table->doors.size() != seat.size) {
    throw StartError(place_name(place) + ": what listens there is no rank 0 of this run");
  }
  met.table = *table;
  return met;
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

std::vector<std::uint16_t> meeting_ports(const MeetingPlace& place) {
  std::vector<std::uint16_t> ports{place.port};
  const std::uint32_t lowest = std::max<std::uint32_t>(1024, place.port / port_block * port_block);
  const std::uint32_t count = std::min<std::uint32_t>(port_block, 65536 - lowest);
  for (std::size_t i = 0; !place.secret.empty() && i < other_ports; ++i) {
    const std::string name =
        "port " + std::to_string(i) + " instead of " + std::to_string(place.port);
    const std::uint64_t number = number_of(keyed_hash(place.secret, name));
    ports.push_back(static_cast<std::uint16_t>(lowest + number % count));
  }
  return ports;
}

OwnListener open_listener(int family) {
  OwnListener own;
  own.tcp = listen_tcp(family);
  own.door.port = port_of(own.tcp);
  own.door.boot_id = boot_id();
  own.door.unix_name = "muster-rank-" + std::to_string(random_number());
  own.unix_socket = listen_unix(own.door.unix_name);
  return own;
}

PeerSet meet(const MeshSeat& seat, const MeetingPlace& place, const Patience& patience) {
  try {
    if (seat.rank != 0) return attend(seat, place, patience);
    return Host(seat, place, patience).gather();
  } catch (const SocketError& error) {
    throw MeetingFailed(error.what());
  }
}

}  // namespace muster
