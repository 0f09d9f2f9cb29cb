// Reads event files with a decoder of its own: bitwise CRC, general protobuf walk.

#include "runtime/report/tensorboard.h"

#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "tests/catch.h"
#include "tests/runtime/folder.h"

using namespace muster;

namespace {

std::uint32_t bitwise_crc32c(const std::string& text) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char letter : text) {
    crc ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8;
  return rotated << 15 | rotated >> 17;
}

struct Field {
  unsigned number;
  std::uint64_t bits;   // varint and fixed types
  std::string content;  // length-delimited
};

std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  const auto fixed = [&](std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, message.substr(at, bytes).data(), bytes);
    at += bytes;
    return value;
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    Field field{static_cast<unsigned>(key >> 3), 0, ""};
    switch (key & 7) {
      case 0:
        field.bits = varint();
        break;
      case 1:
        field.bits = fixed(8);
        break;
      case 2: {
        const std::uint64_t length = varint();
        field.content = message.substr(at, length);
        at += length;
        break;
      }
      case 5:
        field.bits = fixed(4);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields.push_back(field);
  }
  return fields;
}

struct FileEvent {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string version;
  std::uint64_t session_status = 0;
  std::map<std::string, float> scalars;
};

void read_value(const std::string& message, FileEvent& event) {
  std::string tag;
  float number = 0;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) tag = field.content;
    if (field.number == 2) std::memcpy(&number, &field.bits, 4);
  }
  event.scalars[tag] = number;
}

FileEvent read_event(const std::string& message) {
  FileEvent event;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) std::memcpy(&event.wall_time, &field.bits, 8);
    if (field.number == 2) event.step = field.bits;
    if (field.number == 3) event.version = field.content;
    if (field.number == 7) event.session_status = fields_of(field.content).at(0).bits;
    if (field.number == 5) {
      for (const Field& value : fields_of(field.content)) read_value(value.content, event);
    }
  }
  return event;
}

std::vector<FileEvent> read_events(const std::string& file) {
  std::vector<FileEvent> events;
  for (std::size_t at = 0; at < file.size();) {
    std::uint64_t length = 0;
    std::uint32_t length_crc = 0, payload_crc = 0;
    std::memcpy(&length, &file.at(at), 8);
    std::memcpy(&length_crc, &file.at(at + 8), 4);
    REQUIRE(unmasked(length_crc) == bitwise_crc32c(file.substr(at, 8)));
    const std::string payload = file.substr(at + 12, length);
    std::memcpy(&payload_crc, &file.at(at + 12 + length), 4);
    REQUIRE(unmasked(payload_crc) == bitwise_crc32c(payload));
    events.push_back(read_event(payload));
    at += 16 + length;
  }
  return events;
}

}  // namespace

TEST_CASE("an independent reader finds version, steps and values in an event file") {
  test::Folder folder;
  {
    EventWriter writer(folder.path(), 1700000000.25, "host-1", 42, 7);
    const Scalar first[] = {{"loss", 5.5f}, {"lr", 1e-3f}};
    const Scalar second[] = {{"loss", -0.25f}};
    writer.write(1700000001.5, 1, first);
    writer.write(1700000002.0, 300, second);
  }
  const auto events =
      read_events(test::content_of(folder / "events.out.tfevents.1700000000.host-1.42"));
  REQUIRE(events.size() == 4);
  CHECK(events[1].session_status == 1);
  CHECK(events[1].step == 7);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].wall_time == 1700000000.25);
  CHECK(events[2].step == 1);
  CHECK(events[2].wall_time == 1700000001.5);
  CHECK(events[2].scalars == std::map<std::string, float>{{"loss", 5.5f}, {"lr", 1e-3f}});
  CHECK(events[3].step == 300);
  CHECK(events[3].scalars == std::map<std::string, float>{{"loss", -0.25f}});
}
