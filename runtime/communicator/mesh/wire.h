// What ranks that know each other by addresses alone say over sockets and shared memory.
//
// Two forms. A message is for joining and for news about ranks: u32 magic, u16 version, u16 kind,
// u32 length, the fields of one struct below, and a seal of 16 bytes; numbers little-endian, a text
// is u32 length and bytes. A frame opens the data that one rank sends to another in one operation:
// FrameHeader as it lies in memory, then its bytes. Both follow a handshake (rendezvous.h).
// Reading trusts nothing: what is not well-formed is no message. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scheduler/text/fields.h"

namespace muster {

inline constexpr std::uint32_t wire_magic = 0x4d54524d;  // "MRTM"
inline constexpr std::uint16_t wire_version = 3;
inline constexpr std::size_t message_limit_bytes = 16 << 20;  // a table of 10^5 ranks has 10 MB

// What a gathered text may have; the largest one is a trace of many steps.
inline constexpr std::uint64_t text_limit_bytes = std::uint64_t{1} << 30;

// Which run a rank is part of, and its place in it.
struct MeshSeat {
  std::string job;
  std::uint64_t epoch = 0;  // of the run: one more at every restart
  std::uint64_t rank = 0;
  std::uint64_t size = 1;
  std::string work = {};  // what all ranks must be given alike (train/run.h), if it is known
  std::string name = {};  // by which a person knows the rank; empty: "rank" and its number
  MUSTER_FIELDS(job, epoch, rank, size, work, name)
};

// Where the other ranks reach a rank.
struct RankListener {
  std::string address;  // numeric; empty: where rank 0 was reached
  std::uint16_t port = 0;
  std::string boot_id;    // of the machine's kernel
  std::string unix_name;  // in the abstract namespace, for ranks of the same node
  MUSTER_FIELDS(address, port, boot_id, unix_name)
};

// A rank to rank 0, which answers with a RankRefusal or, once all are there, with the Table.
struct RankHello {
  MeshSeat seat;
  RankListener door;
  MUSTER_FIELDS(seat, door)
};
struct RankRefusal {
  std::string why;
  bool for_good = false;  // it makes no sense to come again
  MUSTER_FIELDS(why, for_good)
};
struct MeshTable {
  std::uint64_t session = 0;        // random, so that two meetings of one attempt do not mix
  std::vector<RankListener> doors;  // by rank
  MUSTER_FIELDS(session, doors)
};

// What a connection between two ranks is for.
enum class LinkUse : std::uint8_t { tcp_news = 1, tcp_data = 2, same_node = 3 };

// The first words on a connection between two ranks. On one node the shared memory comes with it as
// a file descriptor.
struct Greeting {
  std::uint64_t session = 0;
  std::uint64_t rank = 0;
  LinkUse use = LinkUse::tcp_news;
  std::uint64_t nonce = 0;  // of the shared memory
  MUSTER_FIELDS(session, rank, use, nonce)
};
// The answer to a greeting on the same node: whether this rank can read the other's memory.
struct PairWelcome {
  bool reads_memory = false;
  MUSTER_FIELDS(reads_memory)
};

// News, at any time later.
struct Farewell {  // the sender is done with all operations
  template <class Self, class Visit>
  static void fields(Self&, Visit) {}
};
struct RankLost {
  std::uint64_t rank = 0;
  std::string why;
  MUSTER_FIELDS(rank, why)
};
struct RunAborted {
  std::int32_t exit_code = 0;
  MUSTER_FIELDS(exit_code)
};

using WireMessage = std::variant<RankHello, RankRefusal, MeshTable, Greeting, PairWelcome, Farewell,
                                 RankLost, RunAborted>;

// What proves of each message of one connection and direction that who took part in its handshake
// said it, whole and in this place: the beginning of an HMAC over the message and its number.
class Seal {
 public:
  static constexpr std::size_t bytes = 16;
  explicit Seal(std::string key) : key_(std::move(key)) {}
  std::string of_next(std::string_view message);

 private:
  std::string key_;
  std::uint64_t messages_ = 0;
};

// Of the messages of one connection, by direction.
struct MessageKeys {
  std::string sending;
  std::string receiving;
};

std::string format_message(const WireMessage& message, Seal& seal);

// Takes the first message off `bytes`. Nothing: more bytes are needed. A fault: this is no message
// of this version and connection, and nothing after it can be understood.
struct WireFault {
  std::string reason;
};
std::variant<std::monostate, WireMessage, WireFault> take_message(std::string& bytes, Seal& seal);

enum class Operation : std::uint16_t { all_to_all = 1, all_gather = 2, texts = 3, broadcast = 4 };
std::string operation_name(Operation operation);

// `address` says where the bytes lie in the sender's memory; 0: they follow.
struct FrameHeader {
  std::uint32_t magic = wire_magic;
  std::uint16_t version = wire_version;
  Operation operation = Operation::all_to_all;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;  // counts the operations of a communicator, from 1
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
};
static_assert(sizeof(FrameHeader) == 40);

// Why `got` from rank `from` is not what rank `mine` waits for; empty: it is. `any_length`: the
// receiver does not know the length. Both ranks say the same when they wait for each other.
std::string frame_fault(const FrameHeader& expected, const FrameHeader& got, std::uint64_t mine,
                        std::uint64_t from, bool any_length);

}  // namespace muster
