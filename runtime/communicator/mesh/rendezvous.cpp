#include "runtime/communicator/mesh/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "runtime/communicator/given_options.h"
#include "runtime/protocol/keyed_hash.h"

namespace muster {
namespace {

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
