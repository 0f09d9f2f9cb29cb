// TensorBoard's event files. Protobuf is read by hand: a few fields of four messages are wanted
// (tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto).
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "launcher/agent/foreign_checkpoints/files.h"
#include "launcher/agent/metric_sources/follow.h"
#include "runtime/protocol/crc32c.h"
#include "scheduler/restart/pattern.h"

namespace muster {

namespace {

// TFRecord's framing (tsl/lib/io/record_writer.h): u64 length, its masked CRC-32C, payload, its
// masked CRC-32C, little-endian.
constexpr std::uint64_t head_bytes = 12;
constexpr std::uint64_t frame_bytes = head_bytes + 4;
constexpr std::int64_t event_piece_bytes = 256 << 10;  // a longer record is a picture or a graph
constexpr std::uint64_t record_limit_bytes = 1u << 30;

template <class Number>
Number raw(std::string_view bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

bool is_sum_of(std::string_view sum, std::string_view covered) {
  return raw<std::uint32_t>(sum) == std::rotr(crc32c(covered), 15) + 0xa282ead8u;
}

struct WireField {
  std::uint64_t number = 0;
  std::uint64_t value = 0;      // of a varint
  std::string_view bytes = {};  // of all others
};

std::optional<std::uint64_t> take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Nothing: the end, or no protobuf.
std::optional<WireField> take_field(std::string_view& text) {
  enum : std::uint64_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5, none = 7 };
  const std::uint64_t key = take_varint(text).value_or(none);
  const std::uint64_t type = key & 7;
  std::optional<std::uint64_t> size;
  if (type == fixed64 || type == fixed32) size = type == fixed64 ? 8 : 4;
  if (type == varint || type == length) size = take_varint(text);
  WireField field{key >> 3, type == varint && size ? std::exchange(*size, 0) : 0};
  if (!size || *size > text.size()) return std::nullopt;
  field.bytes = text.substr(0, *size);
  text.remove_prefix(*size);
  return field;
}

WireField last_of(std::string_view message, std::uint64_t number) {
  WireField last;
  while (const auto field = take_field(message)) {
    if (field->number == number) last = *field;
  }
  return last;
}

// 0.1, not 0.10000000149: the shortest text that is this float.
std::optional<double> float_of(std::string_view bytes) {
  if (bytes.size() != sizeof(float)) return std::nullopt;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, raw<float>(bytes)).ptr;
  return value_of({text, end});
}

// Of a value of a summary: simple_value, or a tensor of one float (float_val, or the bytes of it).
std::optional<double> scalar_of(std::string_view value) {
  const auto plugin = last_of(last_of(last_of(value, 9).bytes, 1).bytes, 1).bytes;
  if (!plugin.empty() && plugin != "scalars") return std::nullopt;
  if (const auto simple = float_of(last_of(value, 2).bytes)) return simple;
  const auto tensor = last_of(value, 8).bytes;
  if (last_of(tensor, 1).value != 1) return std::nullopt;  // DT_FLOAT
  const auto packed = float_of(last_of(tensor, 5).bytes);
  return packed ? packed : float_of(last_of(tensor, 4).bytes);
}

}  // namespace

void read_event(std::string_view payload, const SourceFile& file, MetricLook& look) {
  const auto time = last_of(payload, 1).bytes;
  const double time_s = time.size() == sizeof(double) ? raw<double>(time) : 0;
  const auto step = static_cast<std::int64_t>(last_of(payload, 2).value);
  if (!(time_s * 1000 >= static_cast<double>(file.places.since_ms)) || step < 0) return;
  auto summary = last_of(payload, 5).bytes;
  while (const auto value = take_field(summary)) {
    if (value->number != 1) continue;
    if (const auto number = scalar_of(value->bytes)) {
      look.points.push_back(file.point(last_of(value->bytes, 1).bytes, *number, step));
    }
  }
}

void read_event_file(const SourceFile& file, SourcePlace& place, MetricLook& look) {
  if (place.at > file.bytes) place.at = 0;  // written anew
  const std::int64_t before = place.at;
  const auto piece = read_part(file.path, place.at, event_piece_bytes);
  std::string_view left = piece ? *piece : std::string_view();
  while (left.size() >= head_bytes) {
    const auto length = raw<std::uint64_t>(left);
    const bool is_ok = length < record_limit_bytes && is_sum_of(left.substr(8), left.substr(0, 8));
    const auto bytes = static_cast<std::int64_t>(length + frame_bytes);
    const bool is_long = bytes > event_piece_bytes;
    if (is_ok && (place.at + bytes > file.bytes || (!is_long && bytes > std::ssize(left)))) break;
    const auto payload = left.substr(head_bytes, is_ok && !is_long ? length : 0);
    const auto end = left.substr(head_bytes + payload.size());
    place.is_damaged = !is_ok || (!is_long && !is_sum_of(end, payload));
    if (place.is_damaged) break;
    read_event(payload, file, look);
    left.remove_prefix(std::min(left.size(), length + frame_bytes));
    place.at += bytes;
  }
  look.is_cut |= piece && std::ssize(*piece) == event_piece_bytes && place.at > before;
  if (!place.is_damaged) return;
  file.note("damaged at byte " + std::to_string(place.at) + "; the rest is not read", place, look);
}

std::string writer_of(std::string_view name) {
  static const auto known =
      Pattern::compile(R"(^[a-z.]+\d+\.(?P<process>.*?\.\d+)(\.\d+)?(\.v2)?$)");
  const auto found = known->named_in(name);
  return std::string(found.empty() ? name : found.at("process"));
}

}  // namespace muster
