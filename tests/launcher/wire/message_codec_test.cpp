#include "launcher/wire/message_codec.h"

#include <random>
#include <string>

#include "tests/catch.h"
#include "tests/launcher/wire/only_frame.h"

namespace muster {
namespace {

StartRanks a_start() {
  StartRanks start;
  start.job = {"brave_otter"};
  start.attempt = {2};
  start.command = "echo \"$RANK\" '\x01inputs.data\x02'";
  start.resume_from = CheckpointRef{1200, "/ckpt/s000001200-g3"};
  start.environment["HOSTILE"] = "quote' \" $HOME \n\t end";
  start.environment["LONG"] = std::string(100'000, 'x');
  start.ranks.push_back({{3}, 1, {{"RANK", "3"}}});
  start.mpi = MpiLaunch{{"h01", "h02"}, 2, {3, 1}};
  start.inputs["data"].path = "/data";
  start.elastic = true;
  start.members = "{\"epoch\":1}\n";
  return start;
}

// The message as the other side of the wire has it.
template <class Message>
Message heard(const Message& message) {
  using All = std::conditional_t<std::is_constructible_v<FromAgent, Message>, FromAgent, ToAgent>;
  const auto received = decode<All>(only_frame(encode(All{message})));
  REQUIRE(received);
  return std::get<Message>(received->message);
}

TEST_CASE("a message and its payload survive the wire byte for byte") {
  std::string payload;
  for (int i = 0; i < 256; ++i) payload.push_back(static_cast<char>(i));
  auto received = decode<ToAgent>(only_frame(encode(ToAgent{a_start()}, payload)));
  REQUIRE(received);
  CHECK(received->payload == payload);
  const auto& start = std::get<StartRanks>(received->message);
  CHECK(start.job.value == "brave_otter");
  CHECK(start.attempt.value == 2);
  CHECK(start.command == a_start().command);
  CHECK(start.environment == a_start().environment);
  REQUIRE(start.resume_from);
  CHECK(start.resume_from->step == 1200);
  REQUIRE(start.ranks.size() == 1);
  CHECK(start.ranks[0].environment.at("RANK") == "3");
  REQUIRE(start.mpi);
  CHECK(start.mpi->hosts.size() == 2);
  CHECK(start.mpi->processes == std::vector<int>{3, 1});
  CHECK(start.elastic);
  CHECK(start.members == a_start().members);
}

TEST_CASE("what is kept for ever is so beyond the wire, too") {
  Hello hello;
  hello.retention = usual_retention;
  hello.retention.blobs.reset();
  CHECK(heard(hello).retention == hello.retention);
}

TEST_CASE("who takes part in an elastic attempt survives the wire, and what became of it") {
  const SetMembers change{{"job"}, {3}, 7, "{\"epoch\":7}\n"};
  CHECK(heard(change).members_epoch == 7);
  CHECK(heard(change).content == change.content);
  const MembersSet set{{"job"}, {3}, 7, "disk full"};
  CHECK(heard(set).members_epoch == 7);
  CHECK(heard(set).error == "disk full");
}

TEST_CASE("what an agent says of its machine survives the wire") {
  Welcome welcome;
  welcome.cores = 96;
  welcome.memory_bytes = std::int64_t{2} << 40;
  welcome.gpus = 8;
  const Welcome read = heard(welcome);
  CHECK(read.cores == 96);
  CHECK(read.memory_bytes == welcome.memory_bytes);
  CHECK(read.gpus == 8);
}

TEST_CASE("a value that is absent stays absent") {
  CHECK_FALSE(heard(Progress{}).step);
  CHECK_FALSE(heard(Progress{}).checkpoint);
}

TEST_CASE("what ranks do survives the wire") {
  RankActivity news{{"job"}, {3}, {{{7}, Doing::stopped, 1500, "12 (python)"}}, {}};
  const RankActivity read = heard(news);
  REQUIRE(read.ranks.size() == 1);
  CHECK(read.ranks[0].rank == RankId{7});
  CHECK(read.ranks[0].doing == Doing::stopped);
  CHECK(read.ranks[0].age_ms == 1500);
  CHECK(read.ranks[0].process == "12 (python)");
  CHECK_FALSE(read.network_moves);
  RanksLookedAt seen{{"job"}, {3}, {{{7}, {"waits in futex"}}}};
  CHECK(heard(seen).ranks.at(0).lines.at(0) == "waits in futex");
  const LookAtRanks look{{"job"}, {3}, {{7}, {9}}, {}};
  CHECK(heard(look).ranks.at(1) == RankId{9});
}

TEST_CASE("a message of an unknown kind is refused by name") {
  Frame frame = only_frame(encode(ToController{Watch{{"job"}}}));
  const auto received = decode<ToAgent>(frame);
  REQUIRE_FALSE(received);
  CHECK_THAT(received.error().message, ContainsSubstring("watch"));
}

TEST_CASE("mutated headers are refused or read, never a crash") {
  const std::string header = only_frame(encode(ToAgent{a_start()})).header.substr(0, 4000);
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    Frame frame{header, {}};
    const int changes = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < changes; ++i) {
      frame.header[random() % frame.header.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) frame.header.resize(random() % frame.header.size());
    (void)decode<ToAgent>(frame);
    (void)decode<FromAgent>(frame);
  }
}

}  // namespace
}  // namespace muster
