// Bytes that no muster wrote. What is wanted of the decoders: an Error or a value, soon, in little
// memory; the sanitizers of the dev preset watch the rest. Seeds are fixed: a failure repeats.
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "launcher/wire/message_codec.h"
#include "launcher/wire/record_codec.h"
#include "tests/catch.h"
#include "tests/launcher/wire/only_frame.h"

namespace muster {
namespace {

using Json = nlohmann::json;

void decode_everywhere(const Frame& frame) {
  (void)decode<ToAgent>(frame);
  (void)decode<FromAgent>(frame);
  (void)decode<ToController>(frame);
  (void)decode<FromController>(frame);
  (void)decode<ToRelay>(frame);
  (void)decode<FromRelay>(frame);
}

// One message of every kind.
template <class Variant, std::size_t... I>
void add_all(std::vector<Json>& headers, std::index_sequence<I...>) {
  (headers.push_back(Json::from_cbor(
       only_frame(encode(Variant{std::variant_alternative_t<I, Variant>{}})).header)),
   ...);
}

std::vector<Json> every_header() {
  std::vector<Json> headers;
  add_all<ToAgent>(headers, std::make_index_sequence<std::variant_size_v<ToAgent>>{});
  add_all<FromAgent>(headers, std::make_index_sequence<std::variant_size_v<FromAgent>>{});
  add_all<ToController>(headers, std::make_index_sequence<std::variant_size_v<ToController>>{});
  add_all<FromController>(headers, std::make_index_sequence<std::variant_size_v<FromController>>{});
  add_all<ToRelay>(headers, std::make_index_sequence<std::variant_size_v<ToRelay>>{});
  add_all<FromRelay>(headers, std::make_index_sequence<std::variant_size_v<FromRelay>>{});
  return headers;
}

template <class Side, std::size_t... I>
void add_records(std::vector<RecordText>& texts, std::index_sequence<I...>) {
  (texts.push_back(
       encode_record(Record{from_ms(1), Side{std::variant_alternative_t<I, Side>{}}})),
   ...);
}

std::vector<RecordText> every_record() {
  std::vector<RecordText> texts;
  add_records<Observation>(texts, std::make_index_sequence<std::variant_size_v<Observation>>{});
  add_records<Decision>(texts, std::make_index_sequence<std::variant_size_v<Decision>>{});
  return texts;
}

// Values at the edges of every type.
Json odd_value(std::mt19937& random) {
  switch (random() % 13) {
    case 0: return nullptr;
    case 1: return true;
    case 2: return -1;
    case 3: return std::numeric_limits<std::int64_t>::min();
    case 4: return std::numeric_limits<std::uint64_t>::max();
    case 5: return 1e300;
    case 6: return std::numeric_limits<double>::quiet_NaN();
    case 7: return std::string("\xff\x00../", 5);
    case 8: return std::string(random() % 3000, 'x');
    case 9: return Json::array({1, "a", nullptr, Json::object()});
    case 10: return Json{{"", Json::object({{"job", 1}})}};
    case 11: return Json::binary({1, 2, 3});
    default: return 5000000000;
  }
}

// Some value somewhere in `json`, replaced by an odd one.
void spoil(Json& json, std::mt19937& random) {
  if (json.is_structured() && !json.empty() && random() % 4 != 0) {
    auto at = json.begin();
    std::advance(at, random() % json.size());
    return spoil(*at, random);
  }
  if (json.is_object() && random() % 2 == 0) {
    json["field_of_tomorrow"] = odd_value(random);
  } else {
    json = odd_value(random);
  }
}

TEST_CASE("a stream of random bytes ends in an error or waits for more") {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    FrameReader reader;
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    // Every other stream has lengths that are met, so that the headers are looked at.
    if (round % 2 == 0) bytes = encode_frame(bytes, "x") + bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 40, bytes.size() - at);
      reader.feed(std::as_bytes(std::span(bytes.data() + at, piece)));
      at += piece;
      auto frame = reader.next();
      if (!frame) break;
      if (*frame) decode_everywhere(**frame);
    }
  }
}

TEST_CASE("messages of every kind with odd values in their fields are read or refused") {
  std::mt19937 random(13);
  const std::vector<Json> headers = every_header();
  for (int round = 0; round < 20'000; ++round) {
    Json header = headers[random() % headers.size()];
    spoil(header, random);
    std::string bytes;
    Json::to_cbor(header, bytes);
    if (random() % 8 == 0) bytes[random() % bytes.size()] = static_cast<char>(random());
    decode_everywhere({bytes, {}});
  }
}

TEST_CASE("records of every kind with odd values in their fields are read or refused") {
  std::mt19937 random(17);
  const std::vector<RecordText> records = every_record();
  for (int round = 0; round < 20'000; ++round) {
    const RecordText& record = records[random() % records.size()];
    Json payload = Json::parse(record.payload);
    spoil(payload, random);
    std::string text = payload.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (random() % 8 == 0) text.resize(random() % text.size());
    (void)decode_record(record.kind, text, from_ms(1));
  }
}

TEST_CASE("a header that nests a million levels deep is refused and does not end the process") {
  for (const char byte : {'\x81', '\x9f'}) {
    const auto message = decode<FromAgent>({std::string(1'000'000, byte), {}});
    REQUIRE_FALSE(message);
    CHECK_THAT(message.error().message, ContainsSubstring("nests too deeply"));
  }
}

TEST_CASE("a header of millions of empty values is refused before they are built") {
  std::string header = "\x9f";
  header.append(20'000'000, '\x80');
  const auto message = decode<ToController>({header, {}});
  REQUIRE_FALSE(message);
  CHECK_THAT(message.error().message, ContainsSubstring("too many values"));
}

TEST_CASE("a number that does not fit its field is refused, never cut or rounded") {
  const auto ports = [](const Json& port) {
    std::string bytes;
    Json::to_cbor(Json{{"kind", "ports_done"}, {"ports", Json::array({port})}}, bytes);
    return decode<FromAgent>({bytes, {}});
  };
  CHECK(ports(20000));
  CHECK_FALSE(ports(std::int64_t{1} << 40));
  CHECK_FALSE(ports(1e300));
  CHECK_FALSE(ports(20000.5));
  CHECK_FALSE(ports(true));
}

TEST_CASE("a client's request with a field of a newer muster is refused by name") {
  Json header = Json::from_cbor(only_frame(encode(ToController{Submit{}})).header);
  header["spec"]["muster"]["warp"] = 9;
  std::string bytes;
  Json::to_cbor(header, bytes);
  const auto request = decode<ToController>({bytes, {}});
  REQUIRE_FALSE(request);
  CHECK_THAT(request.error().message, ContainsSubstring("spec.muster.warp"));
}

}  // namespace
}  // namespace muster
