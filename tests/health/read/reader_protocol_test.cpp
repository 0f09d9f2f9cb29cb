#include "health/read/reader_protocol.h"

#include <random>

#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

const std::string binary("\0\xff\n;\x80", 5);

std::vector<HelperMessage> all_messages() {
  return {FileBegins{"/sys/a"},
          FileIsRead{"/sys/a", {"4: ACTIVE\n", {}, false}},
          FileIsRead{"/proc/x" + binary, {{}, "No such file or directory", true}},
          FileIsRead{"/binary", {binary, {}, false}},
          FilesOver{},
          GpuCallBegins{"gpu3.nvmlDeviceGetEccMode"},
          GpuIsRead{"gpu3.uuid", {0, "GPU-5d2f"}},
          GpuIsRead{"gpu3.serial", {999, {}}},
          ReadOver{},
          EventsKnown{},
          EventsKnown{"no GPU reports events"},
          EventIsTold{{7, gpu_event_xid, 79}},
          EventIsTold{{std::nullopt, ~0ull, 1ull << 63}},
          EventCallBegins{event_wait_call}};
}

HelperCommand a_command() {
  ReadCommand command;
  command.request = {"/root", {"/a", "/b/*", binary}, GpuReadingScope{false, true}, "lib.so"};
  command.skip = {"/b/1", "/b/2"};
  return command;
}

std::string body(const std::string& frame) {
  return frame.substr(4);
}

std::string noise(std::mt19937& random, std::size_t most) {
  std::string bytes(random() % most, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace

TEST_CASE("messages come out as they went in") {
  for (const HelperMessage& message : all_messages()) {
    const std::string frame = encode(message);
    const auto again = decode_message(body(frame));
    REQUIRE(again);
    CHECK(again->index() == message.index());
    CHECK(encode(*again) == frame);
  }
  const auto file = decode_message(body(encode(all_messages()[2])));
  CHECK(std::get<FileIsRead>(*file).path == "/proc/x" + binary);
  CHECK(std::get<FileIsRead>(*file).reading.is_missing);
  const auto event = decode_message(body(encode(all_messages()[11])));
  CHECK(std::get<EventIsTold>(*event).event == GpuEvent{7, gpu_event_xid, 79});
}

TEST_CASE("commands come out as they went in") {
  const auto again = decode_command(body(encode(a_command())));
  REQUIRE(again);
  const auto& read = std::get<ReadCommand>(*again);
  CHECK(read.request.root == "/root");
  CHECK(read.request.sources == std::vector<std::string>{"/a", "/b/*", binary});
  CHECK(read.request.nvml_library == "lib.so");
  REQUIRE(read.request.gpus);
  CHECK_FALSE(read.request.gpus->processes);
  CHECK(read.request.gpus->inforom);
  CHECK(read.skip.contains("/b/2"));

  const auto without = decode_command(body(encode(ReadCommand{})));
  REQUIRE(without);
  CHECK_FALSE(std::get<ReadCommand>(*without).request.gpus);
  const auto watch = decode_command(body(encode(WatchCommand{"w.so", 500ms})));
  CHECK(std::get<WatchCommand>(*watch).library == "w.so");
  CHECK(std::get<WatchCommand>(*watch).slice == 500ms);
}

TEST_CASE("a frame that is cut short, or goes on, is none") {
  std::vector<std::string> bodies;
  for (const HelperMessage& message : all_messages()) bodies.push_back(body(encode(message)));
  for (const std::string& whole : bodies) {
    for (std::size_t size = 0; size < whole.size(); ++size)
      CHECK_FALSE(decode_message(std::string_view(whole).substr(0, size)));
    CHECK_FALSE(decode_message(whole + "x"));
    CHECK_FALSE(decode_command(whole));
  }
  const std::string command = body(encode(a_command()));
  for (std::size_t size = 0; size < command.size(); ++size)
    CHECK_FALSE(decode_command(std::string_view(command).substr(0, size)));
  CHECK_FALSE(decode_message(command));
}

TEST_CASE("frames are cut from a stream of any pieces") {
  std::string stream;
  for (const HelperMessage& message : all_messages()) stream += encode(message);
  for (const std::size_t piece : {1u, 3u, 7u, 64u, 4096u}) {
    FrameCutter cutter(message_bytes_max);
    std::string again;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      cutter.feed(std::string_view(stream).substr(at, piece));
      while (const auto frame = cutter.next()) again += encode(*decode_message(*frame));
    }
    CHECK(again == stream);
    CHECK_FALSE(cutter.is_broken());
  }
}

TEST_CASE("an empty frame and one that is too long break the stream for good") {
  for (const std::string& start : {std::string(4, '\0'), std::string("\x01\x01\0\0", 4)}) {
    FrameCutter cutter(256);
    cutter.feed(start);
    CHECK_FALSE(cutter.next());
    CHECK(cutter.is_broken());
    cutter.feed(encode(FilesOver{}));
    CHECK_FALSE(cutter.next());
  }
  FrameCutter cutter(256);
  cutter.feed(std::string("\0\x01\0\0", 4) + std::string(256, 'x'));
  CHECK(cutter.next()->size() == 256);
}

TEST_CASE("noise is refused, or is a message that says it") {
  std::mt19937 random(11);
  int understood = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string bytes = noise(random, 40);
    if (!bytes.empty() && round % 2 == 0) bytes[0] = static_cast<char>(16 + random() % 9);
    if (const auto message = decode_message(bytes)) ++understood;
    static_cast<void>(decode_command(bytes));
  }
  CHECK(understood > 0);  // or this would be no test
}

TEST_CASE("messages with a byte changed do no harm") {
  std::mt19937 random(12);
  const auto messages = all_messages();
  for (int round = 0; round < 20'000; ++round) {
    std::string frame = encode(messages[random() % messages.size()]);
    frame[random() % frame.size()] = static_cast<char>(random());
    FrameCutter cutter(message_bytes_max);
    cutter.feed(frame);
    while (const auto cut = cutter.next()) static_cast<void>(decode_message(*cut));
    std::string command = body(encode(a_command()));
    command[random() % command.size()] = static_cast<char>(random());
    static_cast<void>(decode_command(command));
  }
}
