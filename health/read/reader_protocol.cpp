#include "health/read/reader_protocol.h"

#include <type_traits>
#include <utility>

namespace muster {

namespace {

constexpr std::size_t length_bytes = 4;
constexpr std::size_t first_command = 1;
constexpr std::size_t first_message = 16;

constexpr std::uint8_t scope_gpus = 1;
constexpr std::uint8_t scope_processes = 2;
constexpr std::uint8_t scope_inforom = 4;

class FrameWriter {
 public:
  explicit FrameWriter(std::size_t kind) : bytes_(length_bytes, '\0') {
    number(static_cast<std::uint8_t>(kind));
  }

  template <class Message>
  void fields_of(const Message& message) {
    if constexpr (!std::is_empty_v<Message>)
      Message::fields(message, [this](const char*, const auto& field) { this->put(field); });
  }

  std::string done() {
    const auto size = static_cast<std::uint32_t>(bytes_.size() - length_bytes);
    for (std::size_t at = 0; at < length_bytes; ++at)
      bytes_[at] = static_cast<char>(size >> 8 * at & 0xff);
    return std::move(bytes_);
  }

 private:
  template <class Number>
  void number(Number value) {
    for (std::size_t at = 0; at < sizeof(Number); ++at)
      bytes_ += static_cast<char>(value >> 8 * at & 0xff);
  }

  void put(bool value) { number(static_cast<std::uint8_t>(value)); }
  void put(int value) { number(static_cast<std::uint32_t>(value)); }
  void put(std::uint64_t value) { number(value); }
  void put(std::chrono::milliseconds value) { put(static_cast<int>(value.count())); }
  void put(const std::string& value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
  }
  void put(const std::optional<int>& gpu) { put(gpu ? *gpu + 1 : 0); }
  void put(const std::optional<GpuReadingScope>& scope) {
    const int parts = !scope ? 0
                             : scope_gpus | (scope->processes ? scope_processes : 0) |
                                   (scope->inforom ? scope_inforom : 0);
    number(static_cast<std::uint8_t>(parts));
  }
  template <class Texts>
  void put(const Texts& values) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const std::string& value : values) put(value);
  }

  std::string bytes_;
};

template <class Number>
Number number_at(std::string_view bytes) {
  Number value = 0;
  for (std::size_t at = 0; at < sizeof(Number); ++at)
    value |= static_cast<Number>(static_cast<unsigned char>(bytes[at])) << 8 * at;
  return value;
}

// Takes fields off the front. What is not there is empty, and the frame is no good.
class FieldCursor {
 public:
  explicit FieldCursor(std::string_view bytes) : rest_(bytes) {}

  template <class Number>
  Number number() {
    return has(sizeof(Number)) ? number_at<Number>(take(sizeof(Number))) : Number{0};
  }
  template <class Message>
  void fields_of(Message& message) {
    if constexpr (!std::is_empty_v<Message>)
      Message::fields(message, [this](const char*, auto& field) { this->get(field); });
  }
  bool is_whole() const { return is_good_ && rest_.empty(); }

 private:
  void get(bool& value) { value = number<std::uint8_t>() != 0; }
  void get(int& value) { value = static_cast<int>(number<std::uint32_t>()); }
  void get(std::uint64_t& value) { value = number<std::uint64_t>(); }
  void get(std::chrono::milliseconds& value) {
    value = std::chrono::milliseconds(number<std::uint32_t>());
  }
  void get(std::string& value) {
    const auto size = number<std::uint32_t>();
    if (has(size)) value = take(size);
  }
  void get(std::optional<int>& gpu) {
    constexpr std::uint32_t gpus_max = 64;
    const auto place = number<std::uint32_t>();
    if (place > 0 && place <= gpus_max) gpu = static_cast<int>(place - 1);
  }
  void get(std::optional<GpuReadingScope>& scope) {
    const auto parts = number<std::uint8_t>();
    if ((parts & scope_gpus) == 0) return;
    scope = {(parts & scope_processes) != 0, (parts & scope_inforom) != 0};
  }
  template <class Texts>
  void get(Texts& values) {
    for (auto count = number<std::uint32_t>(); count > 0 && is_good_; --count) {
      std::string value;
      get(value);
      values.insert(values.end(), std::move(value));
    }
  }

  bool has(std::size_t size) {
    is_good_ = is_good_ && size <= rest_.size();
    return is_good_;
  }
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool is_good_ = true;
};

template <class Variant>
std::string encoded(const Variant& one, std::size_t first_kind) {
  FrameWriter frame(first_kind + one.index());
  std::visit([&](const auto& message) { frame.fields_of(message); }, one);
  return frame.done();
}

template <class Variant, std::size_t place = 0>
std::optional<Variant> message_at(std::size_t wanted, FieldCursor& fields) {
  if constexpr (place < std::variant_size_v<Variant>) {
    if (wanted != place) return message_at<Variant, place + 1>(wanted, fields);
    std::variant_alternative_t<place, Variant> message;
    fields.fields_of(message);
    return Variant(std::in_place_index<place>, std::move(message));
  } else {
    return std::nullopt;
  }
}

template <class Variant>
std::optional<Variant> decoded(std::string_view frame, std::size_t first_kind) {
  FieldCursor fields(frame);
  const std::size_t kind = fields.number<std::uint8_t>();
  auto message = message_at<Variant>(kind - first_kind, fields);  // below it no place is that far
  return fields.is_whole() ? std::move(message) : std::nullopt;
}

}  // namespace

std::string encode(const HelperCommand& command) {
  return encoded(command, first_command);
}

std::string encode(const HelperMessage& message) {
  return encoded(message, first_message);
}

std::optional<HelperCommand> decode_command(std::string_view frame) {
  return decoded<HelperCommand>(frame, first_command);
}

std::optional<HelperMessage> decode_message(std::string_view frame) {
  return decoded<HelperMessage>(frame, first_message);
}

void FrameCutter::feed(std::string_view bytes) {
  bytes_.erase(0, taken_);
  taken_ = 0;
  if (!is_broken_) bytes_ += bytes;
}

std::optional<std::string_view> FrameCutter::next() {
  const std::string_view rest = std::string_view(bytes_).substr(taken_);
  if (is_broken_ || rest.size() < length_bytes) return std::nullopt;
  const std::size_t size = number_at<std::uint32_t>(rest);
  is_broken_ = size == 0 || size > frame_bytes_max_;
  if (is_broken_ || rest.size() - length_bytes < size) return std::nullopt;
  taken_ += length_bytes + size;
  return rest.substr(length_bytes, size);
}

}  // namespace muster
