#include "runtime/communicator/mesh/wire.h"

#include <cstring>
#include <iterator>
#include <type_traits>

#include "runtime/protocol/keyed_hash.h"

namespace muster {
namespace {

constexpr std::size_t envelope_bytes = 12;

// Every message lists its fields once, for writing and for reading.
template <class Visit>
void fields(Visit& visit, MeshSeat& seat) {
  visit(seat.job), visit(seat.epoch), visit(seat.rank), visit(seat.size), visit(seat.work),
      visit(seat.name);
}
template <class Visit>
void fields(Visit& visit, RankListener& door) {
  visit(door.address), visit(door.port), visit(door.boot_id), visit(door.unix_name);
}
template <class Visit>
void fields(Visit& visit, RankHello& hello) {
  fields(visit, hello.seat), fields(visit, hello.door);
}
template <class Visit>
void fields(Visit& visit, RankRefusal& refusal) {
  visit(refusal.why), visit(refusal.for_good);
}
template <class Visit>
void fields(Visit& visit, MeshTable& table) {
  visit(table.session), visit(table.doors);
}
template <class Visit>
void fields(Visit& visit, Greeting& greeting) {
  visit(greeting.session), visit(greeting.rank), visit(greeting.use), visit(greeting.nonce);
}
template <class Visit>
void fields(Visit& visit, PairWelcome& welcome) {
  visit(welcome.reads_memory);
}
template <class Visit>
void fields(Visit&, Farewell&) {}
template <class Visit>
void fields(Visit& visit, RankLost& lost) {
  visit(lost.rank), visit(lost.why);
}
template <class Visit>
void fields(Visit& visit, RunAborted& aborted) {
  visit(aborted.exit_code);
}

class Writer {
 public:
  template <class Number>
  requires(std::is_integral_v<Number> || std::is_enum_v<Number>) void operator()(
      const Number& number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  void operator()(std::vector<RankListener>& doors) {
    (*this)(static_cast<std::uint32_t>(doors.size()));
    for (RankListener& door : doors) fields(*this, door);
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <class Number>
  requires(std::is_integral_v<Number> || std::is_enum_v<Number>) void operator()(Number& number) {
    const std::string_view raw = take(sizeof number);
    if (raw.size() == sizeof number) std::memcpy(&number, raw.data(), sizeof number);
  }
  void operator()(bool& flag) {
    std::uint8_t byte = 0;
    (*this)(byte);
    flag = byte == 1;
    good_ = good_ && byte <= 1;
  }
  void operator()(LinkUse& use) {
    std::uint8_t byte = 0;
    (*this)(byte);
    use = static_cast<LinkUse>(byte);
    good_ = good_ && byte >= 1 && byte <= 3;
  }
  void operator()(std::string& text) {
    std::uint32_t length = 0;
    (*this)(length);
    text = take(length);
  }
  void operator()(std::vector<RankListener>& doors) {
    std::uint32_t count = 0;
    (*this)(count);
    for (std::uint32_t i = 0; i < count && good_; ++i) fields(*this, doors.emplace_back());
  }
  bool read_all() const { return good_ && left_.empty(); }

 private:
  std::string_view take(std::size_t count) {
    good_ = good_ && count <= left_.size();
    if (!good_) return {};
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  std::string_view left_;
  bool good_ = true;
};

template <std::size_t kind = 0>
std::optional<WireMessage> read_payload(std::size_t wanted, std::string_view payload) {
  if constexpr (kind < std::variant_size_v<WireMessage>) {
    if (kind != wanted) return read_payload<kind + 1>(wanted, payload);
    std::variant_alternative_t<kind, WireMessage> message;
    Reader reader(payload);
    fields(reader, message);
    if (reader.read_all()) return message;
  }
  return std::nullopt;
}

std::string described(const FrameHeader& frame, bool tells_bytes) {
  return operation_name(frame.operation) + " number " + std::to_string(frame.sequence) +
         (tells_bytes ? " of " + std::to_string(frame.bytes) + " bytes" : "");
}

}  // namespace

std::string Seal::of_next(std::string_view message) {
  std::string sealed(reinterpret_cast<const char*>(&messages_), sizeof messages_);
  ++messages_;
  return keyed_hash(key_, sealed.append(message)).substr(0, bytes);
}

std::string format_message(const WireMessage& message, Seal& seal) {
  Writer payload;
  WireMessage copy = message;
  std::visit([&](auto& fielded) { fields(payload, fielded); }, copy);
  Writer whole;
  whole(wire_magic);
  whole(wire_version);
  whole(static_cast<std::uint16_t>(message.index()));
  whole(payload.bytes);
  return whole.bytes + seal.of_next(whole.bytes);
}

std::variant<std::monostate, WireMessage, WireFault> take_message(std::string& bytes, Seal& seal) {
  if (bytes.size() < envelope_bytes) return std::monostate();
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t kind = 0;
  std::uint32_t length = 0;
  std::memcpy(&magic, &bytes[0], sizeof magic);
  std::memcpy(&version, &bytes[4], sizeof version);
  std::memcpy(&kind, &bytes[6], sizeof kind);
  std::memcpy(&length, &bytes[8], sizeof length);
  if (magic != wire_magic) return WireFault{"it does not speak as muster-train does"};
  if (version != wire_version) {
    return WireFault{"it speaks version " + std::to_string(version) + ", not " +
                     std::to_string(wire_version) + ": install one muster-train on all nodes"};
  }
  if (length > message_limit_bytes) return WireFault{"its message is too long"};
  const std::size_t whole = envelope_bytes + length;
  if (bytes.size() < whole + Seal::bytes) return std::monostate();
  const std::string_view sealed = std::string_view(bytes).substr(0, whole);
  if (!equal_secrets(seal.of_next(sealed), std::string_view(bytes).substr(whole, Seal::bytes))) {
    return WireFault{"its message was changed on the way"};
  }
  auto message = read_payload(kind, sealed.substr(envelope_bytes));
  if (!message) return WireFault{"its message is malformed"};
  bytes.erase(0, whole + Seal::bytes);
  return std::move(*message);
}

std::string operation_name(Operation operation) {
  constexpr const char* names[] = {"all_to_all", "all_gather", "gather_texts", "broadcast"};
  const auto number = static_cast<std::size_t>(operation);
  if (number == 0 || number > std::size(names)) return "operation " + std::to_string(number);
  return names[number - 1];
}

std::string frame_fault(const FrameHeader& expected, const FrameHeader& got, std::uint64_t mine,
                        std::uint64_t from, bool any_length) {
  const std::string ranks = "rank " + std::to_string(from);
  if (got.magic != expected.magic || got.version != expected.version) {
    return ranks + " sent what is no frame to rank " + std::to_string(mine);
  }
  if (got.epoch != expected.epoch) {
    return ranks + " is of epoch " + std::to_string(got.epoch) + ", rank " + std::to_string(mine) +
           " of epoch " + std::to_string(expected.epoch);
  }
  const bool is_too_long = any_length && got.bytes > text_limit_bytes;
  const bool is_same_operation =
      got.operation == expected.operation && got.sequence == expected.sequence;
  if (is_same_operation && !is_too_long && (any_length || got.bytes == expected.bytes)) return "";
  if (is_too_long) {
    return ranks + " sends " + std::to_string(got.bytes) + " bytes to rank " +
           std::to_string(mine) + ": more than a text may have";
  }
  // A rank that waits for a text knows no length: then the other one tells none either.
  std::pair higher{from, described(got, is_same_operation)};
  std::pair lower{mine, described(expected, is_same_operation)};
  if (higher < lower) std::swap(higher, lower);
  return "rank " + std::to_string(higher.first) + " is in " + higher.second + ", rank " +
         std::to_string(lower.first) + " in " + lower.second +
         ": the ranks do not take the same steps; start all with the same options";
}

}  // namespace muster
