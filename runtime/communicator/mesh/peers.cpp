#include "runtime/communicator/mesh/peers.h"

#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

namespace muster {
namespace {

constexpr std::chrono::milliseconds knock_pause(20);

std::string rank_name(std::uint64_t rank) {
  return "rank " + std::to_string(rank);
}

class Connecting {
 public:
  Connecting(const MeshSeat& seat, const PeerSet& met, const MeshOptions& options,
             const Patience& patience)
      : seat_(seat),
        met_(met),
        options_(options),
        patience_(patience),
        peers_(seat.size),
        strangers_(met.secret, 2 * seat.size) {}

  std::vector<std::unique_ptr<MeshPeer>> all() {
    for (std::uint64_t rank = 0; rank < seat_.rank; ++rank) knock(rank);
    while (const auto rank = first_missing()) open_to_next(*rank);
    return std::move(peers_);
  }

 private:
  void knock(std::uint64_t rank) {
    const RankListener& door = met_.table.doors[rank];
    if (options_.shares_memory && door.boot_id == met_.own.door.boot_id) {
      if (auto news = reach_on_node(door.unix_name)) return offer_memory(rank, std::move(*news));
    }
    MessageStream news = connect_tcp(rank, LinkUse::tcp_news);
    MessageStream data = connect_tcp(rank, LinkUse::tcp_data);
    add(rank, std::move(news), make_tcp_lane(data.release(), data.rest()));
  }

  std::optional<MessageStream> reach_on_node(const std::string& name) {
    auto socket = try_connect_unix(name);
    if (!socket || !is_of_same_user(*socket)) return std::nullopt;
    std::string why;
    return introduce(std::move(*socket), met_.secret, name, patience_, why);
  }

  MessageStream connect_tcp(std::uint64_t rank, LinkUse use) {
    const RankListener& door = met_.table.doors[rank];
    const std::string& address = door.address.empty() ? met_.rank_0_address : door.address;
    const std::string place = std::to_string(door.port);
    std::string why;
    while (auto socket = try_connect_tcp(address, door.port, patience_, why)) {
      if (auto stream = introduce(std::move(*socket), met_.secret, place, patience_, why)) {
        stream->send(Greeting{met_.table.session, seat_.rank, use, 0}, patience_.deadline());
        return std::move(*stream);
      }
      // Strangers may have crowded it out.
      if (patience_.deadline().passed()) break;
      patience_.check();
      std::this_thread::sleep_for(knock_pause);
    }
    throw MeetingFailed(rank_name(seat_.rank) + " cannot reach " + rank_name(rank) + ": " + why +
                        ": ranks of different nodes need TCP between all nodes, on any port");
  }

  void offer_memory(std::uint64_t rank, MessageStream news) {
    const std::uint64_t nonce = met_.table.session ^ seat_.rank;
    PairMemory memory = PairMemory::make(nonce);
    news.send(Greeting{met_.table.session, seat_.rank, LinkUse::same_node, nonce},
              patience_.deadline(), &memory.descriptor());
    const bool other_reads = await_welcome(news, rank);
    share_memory(rank, std::move(news), std::move(memory), other_reads);
  }

  void take_memory(const Greeting& greeting, MessageStream news) {
    PairMemory memory = PairMemory::open(news.take_passed(), greeting.nonce);
    const int pid = peer_process(news.socket());
    const bool reads = options_.reads_memory && memory.can_read_from(pid);
    news.send(PairWelcome{reads}, patience_.deadline());
    const bool other_reads = await_welcome(news, greeting.rank);
    add(greeting.rank, std::move(news),
        make_memory_lane(std::move(memory), pid, reads, other_reads));
  }

  // The side that made the segment answers last: by then the other one has left its probe there.
  void share_memory(std::uint64_t rank, MessageStream news, PairMemory memory, bool other_reads) {
    const int pid = peer_process(news.socket());
    const bool reads = options_.reads_memory && memory.can_read_from(pid);
    news.send(PairWelcome{reads}, patience_.deadline());
    add(rank, std::move(news), make_memory_lane(std::move(memory), pid, reads, other_reads));
  }

  bool await_welcome(MessageStream& news, std::uint64_t rank) const {
    const WireMessage answer = await_message(news, rank_name(rank), patience_);
    const auto* welcome = std::get_if<PairWelcome>(&answer);
    if (welcome == nullptr) throw SocketError(rank_name(rank) + " sent no welcome");
    return welcome->reads_memory;
  }

  std::optional<std::uint64_t> first_missing() const {
    for (std::uint64_t rank = seat_.rank + 1; rank < seat_.size; ++rank) {
      if (!peers_[rank]) return rank;
    }
    return std::nullopt;
  }

  void open_to_next(std::uint64_t missing) {
    std::vector<pollfd> watched{{met_.own.tcp.get(), POLLIN, 0},
                                {met_.own.unix_socket.get(), POLLIN, 0}};
    strangers_.watch(watched);
    if (!patience_.wait_for(watched)) {
      throw MeetingFailed(rank_name(missing) + " did not connect to " + rank_name(seat_.rank) +
                          " in time: ranks of different nodes need TCP between all nodes");
    }
    strangers_.let_in(met_.own.tcp, std::to_string(met_.own.door.port));
    strangers_.let_in(met_.own.unix_socket, met_.own.door.unix_name);
    for (auto& [said, stream] : strangers_.take_first_words()) {
      const auto* greeting = std::get_if<Greeting>(&said);
      if (greeting != nullptr && is_expected(*greeting)) let_in(*greeting, std::move(stream));
    }
  }

  bool is_expected(const Greeting& greeting) const {
    return greeting.session == met_.table.session && greeting.rank > seat_.rank &&
           greeting.rank < seat_.size && !peers_[greeting.rank];
  }

  // Of the two connections over TCP, the first waits for the second.
  void let_in(const Greeting& greeting, MessageStream stream) {
    if (greeting.use == LinkUse::same_node) return take_memory(greeting, std::move(stream));
    auto& pair = tcp_pairs_[greeting.rank];
    (greeting.use == LinkUse::tcp_news ? pair.news : pair.data) = std::move(stream);
    if (!pair.news || !pair.data) return;
    add(greeting.rank, std::move(*pair.news),
        make_tcp_lane(pair.data->release(), pair.data->rest()));
  }

  void add(std::uint64_t rank, MessageStream news, std::unique_ptr<PeerLane> lane) {
    peers_[rank] = std::make_unique<MeshPeer>(seat_.rank, rank, std::move(news), std::move(lane));
  }

  struct TcpPair {
    std::optional<MessageStream> news;
    std::optional<MessageStream> data;
  };

  const MeshSeat& seat_;
  const PeerSet& met_;
  const MeshOptions& options_;
  const Patience& patience_;
  std::vector<std::unique_ptr<MeshPeer>> peers_;
  Strangers strangers_;
  std::map<std::uint64_t, TcpPair> tcp_pairs_;
};

}  // namespace

std::vector<std::unique_ptr<MeshPeer>> connect_peers(const MeshSeat& seat, const PeerSet& met,
                                                     const MeshOptions& options,
                                                     const Patience& patience) {
  try {
    return Connecting(seat, met, options, patience).all();
  } catch (const SocketError& error) {
    throw MeetingFailed(rank_name(seat.rank) + ": " + error.what());
  }
}

}  // namespace muster
