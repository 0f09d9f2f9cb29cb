#include "health/read/reader_protocol.h"

#include <utility>

namespace muster {

namespace {

constexpr std::size_t length_bytes = 4;

enum class Kind : std::uint8_t {
  read = 1,
  watch = 2,
  file_begins = 16,
  file = 17,
  files_over = 18,
  gpu_call = 19,
  gpu = 20,
  read_over = 21,
  events = 22,
  event = 23,
  event_call = 24
};

constexpr std::uint8_t scope_gpus = 1;
constexpr std::uint8_t scope_processes = 2;
constexpr std::uint8_t scope_inforom = 4;

std::uint8_t scope_bits(const std::optional<GpuReadingScope>& scope) {
  if (!scope) return 0;
  return static_cast<std::uint8_t>(scope_gpus | (scope->processes ? scope_processes : 0) |
                                   (scope->inforom ? scope_inforom : 0));
}

std::optional<GpuReadingScope> scope_of(std::uint8_t bits) {
  if ((bits & scope_gpus) == 0) return std::nullopt;
  return GpuReadingScope{(bits & scope_processes) != 0, (bits & scope_inforom) != 0};
}

class FrameWriter {
 public:
  explicit FrameWriter(Kind kind) : bytes_(length_bytes, '\0') {
    byte(static_cast<std::uint8_t>(kind));
  }

  void byte(std::uint8_t value) { bytes_ += static_cast<char>(value); }
  template <class Number>
  void number(Number value) {
    for (std::size_t at = 0; at < sizeof(Number); ++at)
      byte(static_cast<std::uint8_t>(value >> 8 * at));
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
  }
  template <class Texts>
  void texts(const Texts& values) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const std::string& value : values) text(value);
  }

  std::string done() {
    const auto size = static_cast<std::uint32_t>(bytes_.size() - length_bytes);
    for (std::size_t at = 0; at < length_bytes; ++at)
      bytes_[at] = static_cast<char>(size >> 8 * at & 0xff);
    return std::move(bytes_);
  }

 private:
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
    if (!has(sizeof(Number))) return 0;
    return number_at<Number>(take(sizeof(Number)));
  }
  std::string text() {
    const auto size = number<std::uint32_t>();
    return has(size) ? std::string(take(size)) : std::string();
  }
  template <class Add>
  void texts(const Add& add) {
    for (auto count = number<std::uint32_t>(); count > 0 && is_good_; --count) add(text());
  }
  bool is_whole() const { return is_good_ && rest_.empty(); }

 private:
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

std::string one_text(Kind kind, std::string_view text) {
  FrameWriter frame(kind);
  frame.text(text);
  return frame.done();
}

std::string encoded(const ReadCommand& command) {
  FrameWriter frame(Kind::read);
  frame.text(command.request.root);
  frame.text(command.request.nvml_library);
  frame.texts(command.request.sources);
  frame.texts(command.skip);
  frame.byte(scope_bits(command.request.gpus));
  return frame.done();
}
std::string encoded(const WatchCommand& command) {
  FrameWriter frame(Kind::watch);
  frame.text(command.library);
  frame.number(static_cast<std::uint32_t>(command.slice.count()));
  return frame.done();
}
std::string encoded(const FileBegins& message) {
  return one_text(Kind::file_begins, message.path);
}
std::string encoded(const FileIsRead& message) {
  FrameWriter frame(Kind::file);
  frame.text(message.path);
  frame.text(message.reading.error);
  frame.byte(message.reading.is_missing ? 1 : 0);
  frame.text(message.reading.text);
  return frame.done();
}
std::string encoded(const FilesOver&) {
  return FrameWriter(Kind::files_over).done();
}
std::string encoded(const GpuCallBegins& message) {
  return one_text(Kind::gpu_call, message.call);
}
std::string encoded(const GpuIsRead& message) {
  FrameWriter frame(Kind::gpu);
  frame.text(message.key);
  frame.number(static_cast<std::uint32_t>(message.reading.rc));
  frame.text(message.reading.value);
  return frame.done();
}
std::string encoded(const ReadOver&) {
  return FrameWriter(Kind::read_over).done();
}
std::string encoded(const EventsKnown& message) {
  return one_text(Kind::events, message.error);
}
std::string encoded(const EventIsTold& message) {
  FrameWriter frame(Kind::event);
  frame.number(static_cast<std::uint32_t>(message.event.gpu ? *message.event.gpu + 1 : 0));
  frame.number(message.event.type);
  frame.number(message.event.data);
  return frame.done();
}
std::string encoded(const EventCallBegins& message) {
  return one_text(Kind::event_call, message.call);
}

ReadCommand read_command(FieldCursor& fields) {
  ReadCommand command;
  command.request.root = fields.text();
  command.request.nvml_library = fields.text();
  fields.texts([&](std::string text) { command.request.sources.push_back(std::move(text)); });
  fields.texts([&](std::string text) { command.skip.insert(std::move(text)); });
  command.request.gpus = scope_of(fields.number<std::uint8_t>());
  return command;
}

FileIsRead file_message(FieldCursor& fields) {
  FileIsRead message;
  message.path = fields.text();
  message.reading.error = fields.text();
  message.reading.is_missing = fields.number<std::uint8_t>() != 0;
  message.reading.text = fields.text();
  return message;
}

GpuIsRead gpu_message(FieldCursor& fields) {
  GpuIsRead message;
  message.key = fields.text();
  message.reading.rc = static_cast<int>(fields.number<std::uint32_t>());
  message.reading.value = fields.text();
  return message;
}

EventIsTold event_message(FieldCursor& fields) {
  constexpr std::uint32_t gpus_max = 64;
  EventIsTold message;
  const auto place = fields.number<std::uint32_t>();
  if (place > 0 && place <= gpus_max) message.event.gpu = static_cast<int>(place - 1);
  message.event.type = fields.number<std::uint64_t>();
  message.event.data = fields.number<std::uint64_t>();
  return message;
}

std::optional<HelperMessage> message_of(Kind kind, FieldCursor& fields) {
  switch (kind) {
    case Kind::file_begins:
      return FileBegins{fields.text()};
    case Kind::file:
      return file_message(fields);
    case Kind::files_over:
      return FilesOver{};
    case Kind::gpu_call:
      return GpuCallBegins{fields.text()};
    case Kind::gpu:
      return gpu_message(fields);
    case Kind::read_over:
      return ReadOver{};
    case Kind::events:
      return EventsKnown{fields.text()};
    case Kind::event:
      return event_message(fields);
    case Kind::event_call:
      return EventCallBegins{fields.text()};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string encode(const HelperCommand& command) {
  return std::visit([](const auto& one) { return encoded(one); }, command);
}

std::string encode(const HelperMessage& message) {
  return std::visit([](const auto& one) { return encoded(one); }, message);
}

std::optional<HelperCommand> decode_command(std::string_view frame) {
  FieldCursor fields(frame);
  const Kind kind{fields.number<std::uint8_t>()};
  std::optional<HelperCommand> command;
  if (kind == Kind::read) command = read_command(fields);
  if (kind == Kind::watch) {
    std::string library = fields.text();
    const auto slice = fields.number<std::uint32_t>();
    command = WatchCommand{std::move(library), std::chrono::milliseconds(slice)};
  }
  return fields.is_whole() ? std::move(command) : std::nullopt;
}

std::optional<HelperMessage> decode_message(std::string_view frame) {
  FieldCursor fields(frame);
  const Kind kind{fields.number<std::uint8_t>()};
  std::optional<HelperMessage> message = message_of(kind, fields);
  return fields.is_whole() ? std::move(message) : std::nullopt;
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
