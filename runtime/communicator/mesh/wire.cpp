#include "runtime/communicator/mesh/wire.h"

#include <cstring>
#include <iterator>
#include <type_traits>

#include "runtime/protocol/keyed_hash.h"
#include "runtime/protocol/packed_fields.h"

namespace muster {
namespace {

constexpr std::size_t envelope_bytes = 12;

template <std::size_t kind = 0>
std::optional<WireMessage> read_payload(std::size_t wanted, std::string_view payload) {
  if constexpr (kind < std::variant_size_v<WireMessage>) {
    if (kind != wanted) return read_payload<kind + 1>(wanted, payload);
    using Message = std::variant_alternative_t<kind, WireMessage>;
    auto message = unpacked<Message>(payload);
    if constexpr (std::is_same_v<Message, Greeting>) {
      if (message && (message->use < LinkUse::tcp_news || message->use > LinkUse::same_node)) {
        return std::nullopt;
      }
    }
    if (message) return std::move(*message);
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
  Packer whole;
  whole.put(wire_magic);
  whole.put(wire_version);
  whole.put(static_cast<std::uint16_t>(message.index()));
  whole.put(std::visit([](const auto& fields) { return packed(fields); }, message));
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
