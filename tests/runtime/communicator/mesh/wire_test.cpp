// The handshake and the messages after it: what is believed, and bytes that no rank wrote. Seeds
// are fixed: a failure repeats; the sanitizers of the dev preset watch for reads past an end.

#include "runtime/communicator/mesh/wire.h"

#include <cstring>
#include <functional>
#include <optional>
#include <random>

#include "runtime/communicator/mesh/rendezvous.h"
#include "tests/catch.h"

using namespace muster;
using Side = Handshake::Side;

namespace {

const std::vector<WireMessage> messages{
    RankHello{{"job", 7, 1, 2, "work"}, {"10.0.0.1", 29500, "boot", "name"}},
    RankRefusal{"no", true},
    MeshTable{99, {{"", 1, "a", "b"}, {"::1", 2, "", ""}}},
    Greeting{5, 1, LinkUse::same_node, 17},
    PairWelcome{true},
    Farewell{},
    RankLost{3, "gone"},
    RunAborted{-1}};

const std::string own_nonce(nonce_bytes, 'c');
const std::string other_nonce(nonce_bytes, 'o');

// What one side has made of all that the other said.
struct Outcome {
  std::optional<MessageKeys> keys;
  std::string fault;
};

// Lets both talk to each other; `spoil` may change the flight with that number.
std::pair<Outcome, Outcome> talk(Handshake caller, Handshake opener,
                                 const std::function<void(int, std::string&)>& spoil = {}) {
  Outcome at_caller, at_opener;
  std::string flight = caller.opening();
  for (int number = 0; number < 4; ++number) {
    if (spoil) spoil(number, flight);
    const bool to_opener = number % 2 == 0;
    Outcome& at = to_opener ? at_opener : at_caller;
    std::string answer;
    const auto next = (to_opener ? opener : caller).hear(flight, answer);
    if (const auto* fault = std::get_if<WireFault>(&next)) {
      at.fault = fault->reason;
      CHECK(answer.empty());
      break;
    }
    if (const auto* keys = std::get_if<MessageKeys>(&next)) at.keys = *keys;
    flight = answer;
  }
  return {at_caller, at_opener};
}

Handshake caller(const std::string& secret = "secret", const std::string& place = "29500") {
  return {Side::caller, secret, place, own_nonce};
}
Handshake opener(const std::string& secret = "secret", const std::string& place = "29500") {
  return {Side::opener, secret, place, other_nonce};
}

Seal a_seal() {
  return Seal("key");
}

}  // namespace

TEST_CASE("two that have the same secret believe each other and have the same two keys") {
  const auto [at_caller, at_opener] = talk(caller(), opener());
  REQUIRE(at_caller.keys);
  REQUIRE(at_opener.keys);
  CHECK(at_caller.keys->sending == at_opener.keys->receiving);
  CHECK(at_caller.keys->receiving == at_opener.keys->sending);
  CHECK(at_caller.keys->sending != at_caller.keys->receiving);
  const auto other =
      talk({Side::caller, "secret", "29500", std::string(nonce_bytes, 'x')}, opener());
  CHECK(other.first.keys->sending != at_caller.keys->sending);
  const auto again =
      talk(caller(), {Side::opener, "secret", "29500", std::string(nonce_bytes, 'x')});
  CHECK(again.first.keys->sending != at_caller.keys->sending);
}

TEST_CASE("another secret, another place and a copied proof are refused in the same words") {
  for (const auto& [who, from] :
       {std::pair{caller("other"), opener()}, std::pair{caller(""), opener()},
        std::pair{caller("secret", "29501"), opener()}}) {
    const auto [at_caller, at_opener] = talk(who, from);
    CHECK_FALSE(at_caller.keys);
    CHECK_FALSE(at_opener.keys);
    CHECK(at_opener.fault == not_of_the_attempt);
  }
  // Who opens and says the caller's own words back to it.
  Handshake deceived = caller();
  std::string answer, unsaid;
  deceived.hear(deceived.opening(), answer);
  CHECK(std::holds_alternative<WireFault>(deceived.hear(answer, unsaid)));
  CHECK(unsaid.empty());
  // A proof that was heard in another handshake.
  std::string proof;
  talk(caller(), opener(), [&](int number, std::string& flight) {
    if (number == 2) proof = flight;
  });
  REQUIRE_FALSE(proof.empty());
  const Handshake later(Side::opener, "secret", "29500", std::string(nonce_bytes, 'l'));
  CHECK_FALSE(talk(caller(), later, [&](int number, std::string& flight) {
                if (number == 2) flight = proof;
              }).second.keys);
}

TEST_CASE("without any secret the steps are the same") {
  const auto [at_caller, at_opener] = talk(caller(""), opener(""));
  CHECK(at_caller.keys);
  CHECK(at_opener.keys);
}

TEST_CASE("an opening of another version says which is installed where") {
  const auto newer = [](int number, std::string& flight) {
    if (number == 1) flight[4] = static_cast<char>(wire_version + 1);
  };
  CHECK_THAT(talk(caller(), opener(), newer).first.fault,
             ContainsSubstring("it speaks version 4, not 3: install one muster-train"));
}

TEST_CASE("any byte that is changed in a handshake, and any length, ends it") {
  std::mt19937 random(1);
  for (int flight = 0; flight < 4; ++flight) {
    const std::size_t length = flight < 2 ? 8 + nonce_bytes : 32;
    for (std::size_t at = 0; at < length; ++at) {
      if (flight < 2 && (at == 6 || at == 7)) continue;  // of no meaning yet
      const auto [at_caller, at_opener] = talk(caller(), opener(), [&](int number, auto& bytes) {
        if (number == flight) bytes[at] = static_cast<char>(bytes[at] + 1 + random() % 255);
      });
      INFO("flight " << flight << ", byte " << at);
      CHECK_FALSE((at_caller.keys && at_opener.keys));
    }
    for (const std::size_t other : {std::size_t{0}, length - 1, length + 1, std::size_t{5000}}) {
      const auto [at_caller, at_opener] = talk(caller(), opener(), [&](int number, auto& bytes) {
        if (number == flight) bytes.resize(other);
      });
      CHECK_FALSE((at_caller.keys && at_opener.keys));
    }
  }
  for (int round = 0; round < 3000; ++round) {
    Handshake hearing = round % 2 == 0 ? caller() : opener();
    for (int flight = 0; flight < 2; ++flight) {
      std::string bytes(random() % 8 == 0 ? random() % 90 : hearing.wanted_bytes(), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      if (random() % 2 == 0) bytes.replace(0, 8, hearing.opening().substr(0, 8));
      std::string answer;
      const auto next = hearing.hear(bytes, answer);
      CHECK_FALSE(std::holds_alternative<MessageKeys>(next));
      if (std::holds_alternative<WireFault>(next)) break;
    }
  }
}

TEST_CASE("messages survive the wire, and wait until they are whole") {
  for (const WireMessage& message : messages) {
    Seal sending = a_seal();
    const std::string bytes = format_message(message, sending);
    const std::string second = format_message(message, sending);
    std::string two = bytes + second;
    Seal receiving = a_seal();
    Seal again = a_seal();
    for (const std::string& left : {second, std::string()}) {
      const auto taken = take_message(two, receiving);
      REQUIRE(std::holds_alternative<WireMessage>(taken));
      const std::string& said = left.empty() ? second : bytes;
      CHECK(format_message(std::get<WireMessage>(taken), again) == said);
      CHECK(two == left);
    }
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      std::string part = bytes.substr(0, length);
      Seal fresh = a_seal();
      CHECK(std::holds_alternative<std::monostate>(take_message(part, fresh)));
    }
  }
}

TEST_CASE("a message that was changed, repeated, left out or made with another key is refused") {
  const auto is_refused = [](std::string bytes, Seal seal) {
    return std::holds_alternative<WireFault>(take_message(bytes, seal));
  };
  for (const WireMessage& message : messages) {
    Seal sending = a_seal();
    const std::string first = format_message(message, sending);
    const std::string second = format_message(message, sending);
    CHECK_FALSE(is_refused(first, a_seal()));
    CHECK(is_refused(first, Seal("other")));
    CHECK(is_refused(second, a_seal()));
    Seal later = a_seal();
    std::string taken = first;
    take_message(taken, later);
    CHECK(is_refused(first, later));
    for (std::size_t at = 0; at < first.size(); ++at) {
      if (at >= 8 && at < 12) continue;  // the length: it may wait for more
      std::string changed = first;
      changed[at] = static_cast<char>(changed[at] ^ 64);
      INFO("byte " << at);
      CHECK(is_refused(changed, a_seal()));
    }
  }
}

TEST_CASE("whatever a rank of the attempt sends is a message or none, never past its end") {
  std::mt19937_64 random(1);
  std::size_t read = 0;
  for (const WireMessage& message : messages) {
    Seal sending = a_seal();
    const std::string bytes = format_message(message, sending);
    for (int i = 0; i < 3000; ++i) {
      std::string damaged = bytes.substr(0, bytes.size() - Seal::bytes);
      for (std::size_t flips = random() % 4; flips > 0; --flips) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      if (random() % 2 == 0) damaged.resize(12 + random() % (damaged.size() + 40));
      const auto length = static_cast<std::uint32_t>(damaged.size() - 12);
      if (random() % 8 != 0) std::memcpy(&damaged[8], &length, sizeof length);
      damaged += a_seal().of_next(damaged);
      Seal receiving = a_seal();
      const auto next = take_message(damaged, receiving);
      read += std::holds_alternative<WireMessage>(next) ? 1 : 0;
    }
  }
  CHECK(read > 1000);
}

TEST_CASE("a message longer than any may be is refused before it is waited for") {
  Seal sending = a_seal();
  std::string bytes = format_message(Farewell{}, sending);
  const std::uint32_t length = message_limit_bytes + 1;
  std::memcpy(&bytes[8], &length, sizeof length);
  Seal receiving = a_seal();
  const auto next = take_message(bytes, receiving);
  REQUIRE(std::holds_alternative<WireFault>(next));
  CHECK(std::get<WireFault>(next).reason == "its message is too long");
}

TEST_CASE("two ranks in different operations say the same of it, whoever sees it first") {
  FrameHeader gather;
  gather.operation = Operation::texts;
  gather.sequence = 2;
  FrameHeader all = gather;
  all.operation = Operation::all_gather;
  const std::string said =
      "rank 1 is in all_gather number 2, rank 0 in gather_texts number 2: the "
      "ranks do not take the same steps; start all with the same options";
  CHECK(frame_fault(gather, all, 0, 1, true) == said);
  CHECK(frame_fault(all, gather, 1, 0, true) == said);
  gather.bytes = 5;
  all.bytes = 16;
  CHECK(frame_fault(gather, all, 0, 1, true) == said);
  CHECK(frame_fault(all, gather, 1, 0, false) == said);
  CHECK(frame_fault(all, all, 1, 0, false).empty());
}

TEST_CASE("a frame of another number, length, epoch or form is named, and a text has a limit") {
  FrameHeader wanted;
  wanted.sequence = 5;
  wanted.epoch = 3;
  wanted.bytes = 16;
  const auto fault = [&](auto change, bool any_length = false) {
    FrameHeader got = wanted;
    change(got);
    return frame_fault(wanted, got, 0, 1, any_length);
  };
  CHECK_THAT(fault([](FrameHeader& got) { got.sequence = 6; }), ContainsSubstring("number 6"));
  CHECK_THAT(fault([](FrameHeader& got) { got.bytes = 20; }), ContainsSubstring("of 20 bytes"));
  CHECK_THAT(fault([](FrameHeader& got) { got.epoch = 2; }), ContainsSubstring("is of epoch 2"));
  CHECK_THAT(fault([](FrameHeader& got) { got.magic = 0; }), ContainsSubstring("is no frame"));
  CHECK_THAT(fault([](FrameHeader& got) { got.version = 9; }), ContainsSubstring("is no frame"));
  CHECK(fault([](FrameHeader& got) { got.bytes = text_limit_bytes; }, true).empty());
  CHECK_THAT(fault([](FrameHeader& got) { got.bytes = text_limit_bytes + 1; }, true),
             ContainsSubstring("more than a text may have"));
}
