#include "runtime/report/tensorboard.h"

#include <bit>
#include <cstring>

#include "runtime/protocol/crc32c.h"
#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

enum WireType : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class Number>
void append_raw(std::string& text, Number value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  text.append(raw, sizeof value);
}

void append_varint(std::string& text, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text.push_back(static_cast<char>(value | 0x80));
  text.push_back(static_cast<char>(value));
}

void append_key(std::string& text, unsigned field, WireType type) {
  append_varint(text, field << 3 | type);
}

void append_bytes(std::string& text, unsigned field, const std::string& content) {
  append_key(text, field, bytes);
  append_varint(text, content.size());
  text += content;
}

std::string event_at(double wall_time_s) {
  std::string event;
  append_key(event, 1, fixed64);
  append_raw(event, wall_time_s);
  return event;
}

std::uint32_t masked(const std::string& text) {
  return std::rotr(crc32c(text), 15) + 0xa282ead8u;
}

}  // namespace

std::string event_record(const std::string& payload) {
  std::string length;
  append_raw(length, static_cast<std::uint64_t>(payload.size()));
  std::string record = length;
  append_raw(record, masked(length));
  record += payload;
  append_raw(record, masked(payload));
  return record;
}

std::string version_event(double wall_time_s) {
  std::string event = event_at(wall_time_s);
  append_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time_s, std::uint64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_key(value, 2, fixed32);
    append_raw(value, scalar.value);
    append_bytes(summary, 1, value);
  }
  std::string event = event_at(wall_time_s);
  append_key(event, 2, varint);
  append_varint(event, step);
  append_bytes(event, 5, summary);
  return event;
}

std::string session_start_event(double wall_time_s, std::uint64_t step) {
  std::string session;
  append_key(session, 1, varint);
  append_varint(session, 1);
  std::string event = event_at(wall_time_s);
  append_key(event, 2, varint);
  append_varint(event, step);
  append_bytes(event, 7, session);
  return event;
}

EventWriter::EventWriter(const std::string& directory, double wall_time_s, const std::string& host,
                         long pid, std::uint64_t first_step)
    : file_(directory + "/events.out.tfevents." +
                std::to_string(static_cast<std::uint64_t>(wall_time_s)) + "." + host + "." +
                std::to_string(pid),
            std::ios::binary | std::ios::app) {
  file_ << event_record(version_event(wall_time_s))
        << event_record(session_start_event(wall_time_s, first_step)) << std::flush;
  if (!file_) throw StartError("--out: cannot write event files in " + directory);
}

}  // namespace muster
