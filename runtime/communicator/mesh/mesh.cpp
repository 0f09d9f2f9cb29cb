#include "runtime/communicator/mesh/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <thread>

#include "runtime/protocol/start_error.h"

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
    // The side that made the segment answers last: by then the other one has left its probe there.
    const bool other_reads = await_welcome(news, rank);
    const bool reads = send_welcome(news, memory);
    add_memory(rank, std::move(news), std::move(memory), reads, other_reads);
  }

  void take_memory(const Greeting& greeting, MessageStream news) {
    PairMemory memory = PairMemory::open(news.take_passed(), greeting.nonce);
    const bool reads = send_welcome(news, memory);
    const bool other_reads = await_welcome(news, greeting.rank);
    add_memory(greeting.rank, std::move(news), std::move(memory), reads, other_reads);
  }

  void add_memory(std::uint64_t rank, MessageStream news, PairMemory memory, bool reads,
                  bool other_reads) {
    const int pid = peer_process(news.socket());
    add(rank, std::move(news), make_memory_lane(std::move(memory), pid, reads, other_reads));
  }

  bool send_welcome(MessageStream& news, const PairMemory& memory) const {
    const bool reads = options_.reads_memory && memory.can_read_from(peer_process(news.socket()));
    news.send(PairWelcome{reads}, patience_.deadline());
    return reads;
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

using Clock = std::chrono::steady_clock;

constexpr auto spin_time = std::chrono::microseconds(200);
constexpr timespec nap{0, 50'000};
// Who waits for long is to look like it from outside, where processor time is taken for work.
constexpr auto long_wait = std::chrono::seconds(1);
constexpr timespec long_nap{0, 2'000'000};
// Time for a last word to those who would wait for it; a full pipe is no reason to stay.
constexpr auto last_word_limit = std::chrono::milliseconds(200);
constexpr const char* left_early = "it has ended while others went on";
// From so much on, a broadcast in parts is faster than one rank that sends all to everyone.
constexpr std::size_t broadcast_in_parts_bytes = 64 << 10;

// Of floats, const or not.
template <class Byte, class Number>
std::span<Byte> bytes_of(std::span<Number> values, const ElementRange& range) {
  const auto part = values.subspan(range.lo, range.size());
  return {reinterpret_cast<Byte*>(part.data()), part.size_bytes()};
}

// Part r of `size` equal ones.
std::span<char> part_of(std::span<char> bytes, std::size_t r, std::size_t size) {
  const std::size_t lo = bytes.size() * r / size;
  return bytes.subspan(lo, bytes.size() * (r + 1) / size - lo);
}

class MeshCommunicator final : public Communicator {
 public:
  MeshCommunicator(const MeshSeat& seat, const MeshOptions& options,
                   std::vector<std::unique_ptr<MeshPeer>> peers)
      : seat_(seat), peer_timeout_(options.peer_timeout), peers_(std::move(peers)) {}

  ~MeshCommunicator() override {
    if (!lost_) report_others(Farewell{});
  }
  MeshCommunicator(const MeshCommunicator&) = delete;
  MeshCommunicator& operator=(const MeshCommunicator&) = delete;

  std::size_t rank() const override { return seat_.rank; }
  std::size_t size() const override { return seat_.size; }

  std::unique_ptr<Transfer> start_all_to_all(
      std::span<const float> send, std::span<const ElementRange> send_ranges,
      std::span<float> receive, std::span<const ElementRange> receive_ranges) override {
    auto transfer = start(Operation::all_to_all, [&](std::size_t r) {
      return Exchanged{bytes_of<const char>(send, send_ranges[r]),
                       bytes_of<char>(receive, receive_ranges[r])};
    });
    const auto own = send.subspan(send_ranges[rank()].lo, send_ranges[rank()].size());
    std::copy(own.begin(), own.end(), receive.begin() + receive_ranges[rank()].lo);
    return transfer;
  }

  std::unique_ptr<Transfer> start_all_gather(std::span<float> whole,
                                             std::span<const ElementRange> owned) override {
    return start(Operation::all_gather, [&](std::size_t r) {
      return Exchanged{bytes_of<char>(whole, owned[rank()]), bytes_of<char>(whole, owned[r])};
    });
  }

  std::vector<std::string> gather_texts(std::string_view mine) override {
    std::vector<std::string> texts(size());
    texts[rank()] = mine;
    start(Operation::texts, [&](std::size_t r) { return Exchanged{mine, &texts[r]}; })->wait();
    return texts;
  }

  void broadcast(std::span<char> bytes, std::size_t root) override {
    const bool in_parts = size() > 2 && bytes.size() >= broadcast_in_parts_bytes;
    const auto part = [&](std::size_t r) { return in_parts ? part_of(bytes, r, size()) : bytes; };
    start(Operation::broadcast, [&](std::size_t r) {
      return Exchanged{rank() == root ? part(r) : std::span<char>(),
                       r == root ? part(rank()) : std::span<char>()};
    })->wait();
    if (!in_parts) return;
    start(Operation::broadcast, [&](std::size_t r) {
      return Exchanged{r == root ? std::span<char>() : part(rank()),
                       rank() == root ? std::span<char>() : part(r)};
    })->wait();
  }

  void abort(int exit_code) override {
    report_others(RunAborted{exit_code});
    std::_Exit(exit_code);
  }

 private:
  // What this rank and one other give each other in an operation.
  struct Exchanged {
    std::span<const char> outgoing;
    Inbox incoming;
  };

  // An operation under way. As frames of a pair come in order, it is over when the frames with its
  // number have come and gone.
  class MeshTransfer final : public Transfer {
   public:
    MeshTransfer(MeshCommunicator& world, std::uint64_t sequence)
        : world_(world), sequence_(sequence) {}
    // Others may already be writing to memory that is given up.
    ~MeshTransfer() override {
      if (!world_.lost_ && !world_.is_over(sequence_)) {
        world_.lost_.emplace(world_.rank(), "an operation was given up");
      }
    }
    bool done() override {
      world_.refuse_when_lost();
      if (world_.is_over(sequence_)) return true;
      if (!world_.move()) world_.hear_news();
      return world_.is_over(sequence_);
    }
    void wait() override { world_.wait_for(sequence_); }

   private:
    MeshCommunicator& world_;
    std::uint64_t sequence_;
  };

  template <class Part>
  std::unique_ptr<Transfer> start(Operation operation, Part part) {
    refuse_when_lost();
    FrameHeader header;
    header.operation = operation;
    header.epoch = seat_.epoch;
    header.sequence = ++sequence_;
    for (std::size_t r = 0; r < size(); ++r) {
      if (!peers_[r]) continue;
      const Exchanged exchanged = part(r);
      FrameHeader wanted = header;
      if (const auto* place = std::get_if<std::span<char>>(&exchanged.incoming)) {
        wanted.bytes = place->size();
      }
      peers_[r]->link.expect(wanted, exchanged.incoming);
      peers_[r]->link.send(header, exchanged.outgoing);
    }
    auto transfer = std::make_unique<MeshTransfer>(*this, sequence_);
    move();
    return transfer;
  }

  bool has_exchanged(MeshPeer& peer, std::uint64_t sequence) const {
    return peer.link.received() >= sequence && peer.link.sent() >= sequence;
  }

  bool is_over(std::uint64_t sequence) {
    return std::all_of(peers_.begin(), peers_.end(),
                       [&](const auto& peer) { return !peer || has_exchanged(*peer, sequence); });
  }

  bool move_link(std::size_t r) {
    try {
      return peers_[r]->link.move();
    } catch (const LaneEnded& end) {
      hear_news();  // its connection for news may know better
      lose(r, peers_[r]->has_left ? left_early : end.why);
    } catch (const RanksDiverged& error) {
      lost_.emplace(r, error.what());
      report_others(RankLost{r, error.what()});
      throw;
    }
  }

  // One turn for every link.
  bool move() {
    bool moved = false;
    for (std::size_t r = 0; r < size(); ++r) {
      if (peers_[r]) moved = move_link(r) || moved;
    }
    return moved;
  }

  void wait_for(std::uint64_t sequence) {
    refuse_when_lost();
    auto last_move = Clock::now();
    while (!is_over(sequence)) {
      if (move()) {
        last_move = Clock::now();
        continue;
      }
      const auto idle = Clock::now() - last_move;
      if (idle < spin_time) continue;
      hear_news();
      expect_nothing_of_who_left(sequence);
      if (peer_timeout_.count() > 0 && idle > peer_timeout_) give_up(sequence);
      sleep_shortly(sequence, idle > long_wait ? long_nap : nap);
    }
  }

  // Wakes up early for news, and for the operation's data from other nodes.
  void sleep_shortly(std::uint64_t sequence, const timespec& at_most) const {
    std::vector<pollfd> watched;
    for (const auto& peer : peers_) {
      if (!peer || peer->has_left) continue;
      watched.push_back({peer->news.socket().get(), POLLIN, 0});
      const int data = peer->link.lane().watched();
      if (data >= 0 && peer->link.received() < sequence) watched.push_back({data, POLLIN, 0});
    }
    ppoll(watched.data(), watched.size(), &at_most, nullptr);
  }

  void hear_news() {
    std::vector<pollfd> watched;
    for (const auto& peer : peers_) {
      watched.push_back({peer && !peer->has_left ? peer->news.socket().get() : -1, POLLIN, 0});
    }
    if (poll(watched.data(), watched.size(), 0) <= 0) return;
    for (std::size_t r = 0; r < size(); ++r) {
      if (watched[r].revents != 0) hear(r);
    }
  }

  void hear(std::size_t r) {
    MessageStream& news = peers_[r]->news;
    const bool there = news.fill();
    while (!peers_[r]->has_left) {
      const auto next = news.next();
      if (std::holds_alternative<std::monostate>(next)) break;
      if (const auto* fault = std::get_if<WireFault>(&next)) lose(r, fault->reason);
      heed(r, std::get<WireMessage>(next));
    }
    if (!there && !peers_[r]->has_left) {
      lose(r, "its connection ended: the process died, or its node did");
    }
  }

  void heed(std::size_t r, const WireMessage& message) {
    if (std::holds_alternative<Farewell>(message)) {
      peers_[r]->has_left = true;
    } else if (const auto* lost = std::get_if<RankLost>(&message)) {
      if (lost->rank >= size()) lose(r, "it says that a rank is lost that there is not");
      lose(lost->rank, lost->why);
    } else if (const auto* aborted = std::get_if<RunAborted>(&message)) {
      lose(r, "it ended the run with exit code " + std::to_string(aborted->exit_code));
    }
  }

  // What it sent before it left is here in shared memory. Over TCP it may still be on its way, and
  // comes before the connection ends.
  void expect_nothing_of_who_left(std::uint64_t sequence) {
    for (std::size_t r = 0; r < size(); ++r) {
      if (!peers_[r] || !peers_[r]->has_left) continue;
      while (move_link(r)) {
      }
      const bool may_come = peers_[r]->link.lane().watched() >= 0;
      if (!may_come && !has_exchanged(*peers_[r], sequence)) lose(r, left_early);
    }
  }

  [[noreturn]] void give_up(std::uint64_t sequence) {
    for (std::size_t r = 0; r < size(); ++r) {
      if (!peers_[r] || has_exchanged(*peers_[r], sequence)) continue;
      lose(r, "no answer for " + std::to_string(peer_timeout_.count() / 1000) +
                  " s (--peer-timeout): it hangs, or its node is gone");
    }
    std::abort();
  }

  [[noreturn]] void lose(std::uint64_t rank, const std::string& why) {
    lost_.emplace(rank, why);
    report_others(RankLost{rank, why});
    throw *lost_;
  }

  void refuse_when_lost() const {
    if (lost_) throw *lost_;
  }

  void report_others(const WireMessage& message) {
    for (const auto& peer : peers_) {
      if (peer && !peer->has_left) peer->news.send(message, Deadline(last_word_limit));
    }
  }

  MeshSeat seat_;
  std::chrono::milliseconds peer_timeout_;
  std::vector<std::unique_ptr<MeshPeer>> peers_;
  std::uint64_t sequence_ = 0;
  std::optional<PeerLost> lost_;
};

// Nodes copy code and data before their ranks start, each at its own pace.
constexpr std::chrono::seconds meeting_limit = std::chrono::minutes(10);

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

std::unique_ptr<Communicator> make_mesh_communicator(const MeshSeat& seat,
                                                     const MeetingPlace& place,
                                                     const MeshOptions& options) {
  const Patience patience(place.limit, place.is_over);
  const PeerSet met = meet(seat, place, patience);
  return std::make_unique<MeshCommunicator>(seat, options,
                                            connect_peers(seat, met, options, patience));
}

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<MeshCommunicator>(MeshSeat{}, MeshOptions{},
                                            std::vector<std::unique_ptr<MeshPeer>>(1));
}

std::optional<MeshStart> mesh_start(const RankVariables& variables,
                                    std::chrono::seconds peer_timeout) {
  if (variables.world_size.value_or(1) <= 1) return std::nullopt;
  const std::string size = std::to_string(*variables.world_size);
  if (!variables.rank || variables.master_address.empty() || !variables.master_port) {
    throw StartError("WORLD_SIZE says " + size +
                     " ranks, but RANK, MASTER_ADDR and MASTER_PORT are not all set: let muster "
                     "start them (distribution type pytorch), or mpirun");
  }
  if (*variables.rank >= *variables.world_size) {
    throw StartError("RANK: expected less than WORLD_SIZE, which is " + size + ", got " +
                     std::to_string(*variables.rank));
  }
  if (*variables.master_port == 0 || *variables.master_port > 65535) {
    throw StartError("MASTER_PORT: expected 1 to 65535, got " +
                     std::to_string(*variables.master_port));
  }
  MeshStart start;
  start.seat = {variables.job, variables.epoch.value_or(0), *variables.rank, *variables.world_size};
  start.place.host = variables.master_address;
  start.place.port = static_cast<std::uint16_t>(*variables.master_port);
  start.place.secret = variables.rendezvous_secret;
  start.place.limit =
      peer_timeout.count() == 0 ? meeting_limit : std::min(peer_timeout, meeting_limit);
  return start;
}

}  // namespace muster
