#include "tests/catch.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"
#include "runtime/protocol/environment.h"
#include "runtime/protocol/heartbeat.h"
#include "runtime/protocol/keyed_hash.h"
#include "runtime/protocol/packed_fields.h"
#include "scheduler/text/fields.h"
#include "tests/runtime/folder.h"

using namespace muster;

namespace {

RankVariables read(std::map<std::string, std::string> variables, std::string& error) {
  return read_rank_variables(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      error);
}

}  // namespace

TEST_CASE("CRC-32C gives the values of RFC 3720, by instruction and by table") {
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  for (int i = 31; i >= 0; --i) descending.push_back(static_cast<char>(i));
  const std::pair<std::string, std::uint32_t> known[] = {{std::string(32, '\0'), 0x8A9136AA},
                                                         {std::string(32, '\xff'), 0x62A8AB43},
                                                         {ascending, 0x46DD794E},
                                                         {descending, 0x113FDB5C},
                                                         {"123456789", 0xE3069283},
                                                         {"", 0}};
  for (const auto& [text, crc] : known) {
    CHECK(crc32c(text) == crc);
    CHECK(crc32c_extend_by_table(0, text.data(), text.size()) == crc);
  }
}

TEST_CASE("CRC-32C of a text does not depend on where it is cut") {
  const std::string text = "muster gathers the ranks, and counts them";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const auto first = crc32c_extend(0, text.data(), cut);
    CHECK(crc32c_extend(first, text.data() + cut, text.size() - cut) == crc32c(text));
  }
}

TEST_CASE(
    "a checkpoint's directory name tells step and generation, and nothing else passes for one") {
  CHECK(checkpoint_directory_name({1200, 3}) == "s000001200-g3");
  CHECK(parse_checkpoint_directory_name("s000001200-g3") == CheckpointName{1200, 3});
  const CheckpointName large{12345678901, 18446744073709551615u};
  CHECK(parse_checkpoint_directory_name(checkpoint_directory_name(large)) == large);
  for (const char* text :
       {"", "s1200-g3", "s000001200-g", "s000001200-g03", "s000001200-g3x", "x000001200-g3", "s-g",
        "s00000120000-g3", "s000001200-g-3", "s99999999999999999999-g1", ".trash-s000001200-g3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_checkpoint_directory_name(text));
  }
}

TEST_CASE("a sealed text ends in 22 bytes, and any changed byte breaks the seal") {
  const std::string text = seal_json(R"({"gen":3,"fork_step":1200})");
  CHECK(text == R"({"gen":3,"fork_step":1200,"crc32c":")" + text.substr(text.size() - 11));
  CHECK(text.ends_with("\"}\n"));
  REQUIRE(is_committed_json(text));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 1;
    CHECK_FALSE(is_committed_json(changed));
    CHECK_FALSE(is_committed_json(text.substr(0, at)));
  }
}

TEST_CASE("a heartbeat says the last step, also after a step that is shorter") {
  test::Folder folder;
  CHECK_FALSE(read_heartbeat(folder / "beat"));
  HeartbeatFile beats(folder / "beat");
  CHECK_FALSE(read_heartbeat(folder / "beat"));
  for (const std::uint64_t step : {0ull, 9ull, 1000ull, 900ull, 18446744073709551615ull}) {
    beats.beat(step);
    CHECK(read_heartbeat(folder / "beat") == step);
  }
  CHECK_FALSE(beats.failed());
}

TEST_CASE("a heartbeat without a line end counts when two looks agree") {
  test::Folder folder;
  const auto write = [&](const std::string& text) { std::ofstream(folder / "beat") << text; };
  std::string seen;
  write("12");
  CHECK_FALSE(read_heartbeat(folder / "beat", seen));
  write("123");
  CHECK_FALSE(read_heartbeat(folder / "beat", seen));
  CHECK(read_heartbeat(folder / "beat", seen) == 123u);
  CHECK(read_heartbeat(folder / "beat", seen) == 123u);
  write("124\n");
  CHECK(read_heartbeat(folder / "beat", seen) == 124u);
  for (const char* text : {"12x", "", "-1", "1 2"}) {
    write(text);
    CHECK_FALSE(read_heartbeat(folder / "beat", seen));
    CHECK_FALSE(read_heartbeat(folder / "beat", seen));
  }
}

TEST_CASE("what is no heartbeat gives no step") {
  CHECK_FALSE(parse_heartbeat("12"));
  CHECK_FALSE(parse_heartbeat("12x\n"));
  CHECK_FALSE(parse_heartbeat("\n"));
  CHECK(HeartbeatFile("/nonexistent/beat").failed());
}

TEST_CASE("the epoch of a rank is MUSTER_EPOCH, or one more than its attempt") {
  std::string error;
  CHECK(read({{"MUSTER_EPOCH", "7"}, {"MUSTER_ATTEMPT", "2"}}, error).epoch == 7u);
  CHECK(read({{"MUSTER_ATTEMPT", "2"}}, error).epoch == 3u);
  CHECK_FALSE(read({}, error).epoch);
  CHECK_FALSE(read({{"MUSTER_ATTEMPT", ""}}, error).epoch);
  CHECK(error.empty());
  CHECK_FALSE(read({{"MUSTER_EPOCH", "two"}}, error).epoch);
  CHECK(error == "MUSTER_EPOCH: expected a number from 0, got \"two\"");
}

TEST_CASE("a rank finds in its environment what its launcher put there, each under its name") {
  const std::pair<const char*, std::string RankVariables::*> texts[] = {
      {"MUSTER_JOB", &RankVariables::job},
      {"MASTER_ADDR", &RankVariables::master_address},
      {"MUSTER_RENDEZVOUS_SECRET", &RankVariables::rendezvous_secret},
      {"MUSTER_MEMBERS", &RankVariables::members_path},
      {"MUSTER_CHECKPOINT_DIR", &RankVariables::checkpoint_dir},
      {"MUSTER_RESUME_FROM", &RankVariables::resume_from},
      {"MUSTER_HEARTBEAT", &RankVariables::heartbeat_path},
      {"MUSTER_METRICS", &RankVariables::metrics_path}};
  const std::pair<const char*, std::optional<std::uint64_t> RankVariables::*> numbers[] = {
      {"MUSTER_ATTEMPT", &RankVariables::attempt},
      {"MUSTER_EPOCH", &RankVariables::epoch},
      {"WORLD_SIZE", &RankVariables::world_size},
      {"RANK", &RankVariables::rank},
      {"MASTER_PORT", &RankVariables::master_port},
      {"MUSTER_MEMBER_PORT", &RankVariables::member_port}};
  std::map<std::string, std::string> all;
  std::uint64_t count = 0;
  for (const auto& [name, field] : texts) all[name] = "text " + std::to_string(++count);
  for (const auto& [name, field] : numbers) all[name] = std::to_string(++count);
  std::string error;
  const RankVariables found = read(all, error), none = read({}, error);
  CHECK(error.empty());
  count = 0;
  for (const auto& [name, field] : texts) {
    INFO(name);
    CHECK(found.*field == "text " + std::to_string(++count));
    CHECK((none.*field).empty());
  }
  for (const auto& [name, field] : numbers) {
    INFO(name);
    CHECK(found.*field == ++count);
    CHECK_FALSE(none.*field);
  }
}

TEST_CASE("a variable that is no number is told with its name and value, and counts as not set") {
  for (const char* odd : {"-1", "+1", "1.5", "1 ", " 1", "0x1", "one", "18446744073709551616"}) {
    std::string error;
    CHECK_FALSE(read({{"RANK", odd}}, error).rank);
    CHECK(error == "RANK: expected a number from 0, got \"" + std::string(odd) + "\"");
  }
  std::string error;
  CHECK(read({{"RANK", "18446744073709551615"}}, error).rank == 18446744073709551615u);
  CHECK(read({{"RANK", "0"}}, error).rank == 0u);
  CHECK(error.empty());
}

TEST_CASE("a keyed hash is HMAC-SHA256, and secrets are equal when every byte is") {
  // RFC 4231, cases 1 and 2.
  CHECK(hex_text(keyed_hash(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex_text(keyed_hash("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(equal_secrets("", ""));
  CHECK(equal_secrets("secret", "secret"));
  for (const char* other : {"", "secre", "secret2", "Secret", "secreT", "terces"}) {
    CHECK_FALSE(equal_secrets("secret", other));
    CHECK_FALSE(equal_secrets(other, "secret"));
  }
}

namespace {

struct PackedSample {
  double number = 0;
  std::uint64_t count = 0;
  bool is_right = false;
  std::optional<std::uint64_t> limit;
  std::vector<double> losses;
  std::vector<std::string> notes;
  MUSTER_FIELDS(number, count, is_right, limit, losses, notes)
};

}  // namespace

TEST_CASE("what ranks pack keeps every bit, and no other bytes are read as it") {
  const double least = std::numeric_limits<double>::denorm_min();
  const PackedSample sample{0.1 + 0.2,
                            ~std::uint64_t{0},
                            true,
                            std::uint64_t{1} << 53 | 1,
                            {least, -0.0, 1.0 / 3},
                            {"", "a\nb"}};
  const std::string bytes = packed(sample);
  const auto read = unpacked<PackedSample>(bytes);
  REQUIRE(read);
  CHECK(read->number == 0.1 + 0.2);
  CHECK(read->count == ~std::uint64_t{0});
  CHECK(read->limit == (std::uint64_t{1} << 53 | 1));
  CHECK(read->losses == std::vector<double>{least, -0.0, 1.0 / 3});
  CHECK(std::signbit(read->losses[1]));
  CHECK(read->notes == std::vector<std::string>{"", "a\nb"});
  CHECK(packed(*read) == bytes);
  CHECK(std::isnan(unpacked<double>(packed(std::nan(""))).value()));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(unpacked<PackedSample>(bytes.substr(0, length)));
  }
  CHECK_FALSE(unpacked<PackedSample>(bytes + "x"));
  CHECK_FALSE(unpacked<bool>("\2"));
  CHECK_FALSE(unpacked<std::vector<double>>(std::string("\xff\xff\xff\xff", 4)));
  CHECK_FALSE(unpacked<std::vector<std::string>>(std::string("\xff\xff\xff\xff", 4)));
}
