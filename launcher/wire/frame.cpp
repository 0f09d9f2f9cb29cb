#include "launcher/wire/frame.h"

namespace muster {

namespace {

constexpr std::size_t lengths_bytes = 8;

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

std::uint32_t read_u32(const char* bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string encode_frame(std::string_view header, std::string_view payload) {
  std::string out;
  out.reserve(lengths_bytes + header.size() + payload.size());
  append_u32(out, static_cast<std::uint32_t>(header.size()));
  append_u32(out, static_cast<std::uint32_t>(payload.size()));
  out.append(header);
  out.append(payload);
  return out;
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  if (consumed_ > 0 && (consumed_ == buffer_.size() || consumed_ > (1u << 20))) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::size_t available = buffer_.size() - consumed_;
  if (available < lengths_bytes) return std::optional<Frame>{};
  const char* start = buffer_.data() + consumed_;
  const std::uint32_t header_bytes = read_u32(start);
  const std::uint32_t payload_bytes = read_u32(start + 4);
  if (header_bytes > frame_header_limit_bytes || payload_bytes > frame_payload_limit_bytes) {
    return Error{"the peer sent a frame longer than allowed: it does not speak this protocol"};
  }
  const std::size_t whole = lengths_bytes + header_bytes + payload_bytes;
  if (available < whole) return std::optional<Frame>{};
  Frame frame{std::string(start + lengths_bytes, header_bytes),
              std::string(start + lengths_bytes + header_bytes, payload_bytes)};
  consumed_ += whole;
  return std::optional<Frame>{std::move(frame)};
}

}  // namespace muster
