// Which generation may write when attempts and members change.

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/train/restore/restore.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

using Epoch = std::optional<std::uint64_t>;

GenerationLine a_line(std::uint64_t generation, Epoch epoch, Epoch members_epoch) {
  GenerationLine line;
  line.generation = generation;
  line.reason = "start";
  line.run_id = "run";
  line.epoch = epoch;
  line.members_epoch = members_epoch;
  return line;
}

// 0: it must not write.
std::uint64_t chosen(const GenerationLine& mine, const std::vector<GenerationLine>& before,
                     std::uint64_t known_to_ranks = 0) {
  ResumeLog log;
  log.generations = before;
  const auto number = choose_generation(mine, {known_to_ranks, 0}, log);
  return number ? number.value() : 0;
}

}  // namespace

TEST_CASE("a later epoch of the members takes the next generation, an earlier one none") {
  const auto mine = [](std::uint64_t members_epoch) { return a_line(0, 4, members_epoch); };
  CHECK(chosen(mine(1), {}) == 4);
  CHECK(chosen(mine(2), {a_line(4, 4, 1)}) == 5);
  CHECK(chosen(mine(9), {a_line(4, 4, 1), a_line(5, 4, 3)}) == 6);
  CHECK(chosen(mine(3), {a_line(4, 4, 1), a_line(5, 4, 3)}) == 0);
  CHECK(chosen(mine(2), {a_line(4, 4, 1), a_line(5, 4, 3)}) == 0);
  CHECK(chosen(mine(2), {a_line(4, 4, 1), a_line(5, 4, 3)}, 5) == 0);  // whatever it knows
}

TEST_CASE("a later attempt begins its epochs anew, an earlier one is passed") {
  CHECK(chosen(a_line(0, 5, 1), {a_line(9, 4, 8)}) == 10);
  CHECK(chosen(a_line(0, 4, 9), {a_line(9, 5, 1)}) == 0);
  CHECK(chosen(a_line(0, 4, 9), {a_line(9, 5, {})}) == 0);
  CHECK(chosen(a_line(0, 5, {}), {a_line(9, 4, 8)}) == 10);
  CHECK(chosen(a_line(0, 4, {}), {a_line(9, 4, 8)}) == 0);
  CHECK(chosen(a_line(0, 4, {}), {a_line(4, 4, {})}) == 0);
  // Another run's generations are not its own attempts.
  GenerationLine other = a_line(9, 5, 3);
  other.run_id = "other";
  CHECK(chosen(a_line(0, 4, 1), {other}) == 10);
}

TEST_CASE("without epochs of a launcher, what the ranks knew before is of an earlier attempt") {
  const std::vector<GenerationLine> log{a_line(1, {}, 1), a_line(2, {}, 7)};
  CHECK(chosen(a_line(0, {}, 1), log, 2) == 3);
  CHECK(chosen(a_line(0, {}, 7), log, 1) == 0);
  CHECK(chosen(a_line(0, {}, 3), log, 1) == 0);
  CHECK(chosen(a_line(0, {}, 8), log, 1) == 3);
  CHECK(chosen(a_line(0, {}, {}), log, 0) == 3);
  CHECK(chosen(a_line(0, {}, 1), {}, 41) == 42);
}

TEST_CASE("a generation that was taken is in the log, and the one who comes too late is not") {
  Folder folder;
  const std::string root = folder / "ckpt";
  REQUIRE(take_generation(root, a_line(0, {}, 2), 0).value() == 1);
  CHECK_THAT(take_generation(root, a_line(0, {}, 1), 0).reason(),
             ContainsSubstring("epoch 2 of the members has already written here"));
  REQUIRE(take_generation(root, a_line(0, {}, 3), 0).value() == 2);
  const ResumeLog log = read_resume_log(root);
  REQUIRE(log.generations.size() == 2);
  CHECK(log.generations[0].members_epoch == 2u);
  CHECK(log.generations[1].generation == 2);
}

TEST_CASE("logs without the epoch of members keep reading, and a wrong one is a damaged line") {
  const std::string body =
      R"({"gen":3,"fork_step":7,"from":"","reason":"start","world":1,"nodes":[],"epoch":null)";
  const ResumeLog old = parse_resume_log(seal_json(body + "}"));
  REQUIRE(old.generations.size() == 1);
  CHECK_FALSE(old.generations[0].members_epoch);
  CHECK(parse_resume_log(seal_json(body + R"(,"members_epoch":null})")).generations.size() == 1);
  for (const char* wrong : {"-1", "\"x\"", "1.5", "[1]", "{}"}) {
    const ResumeLog log = parse_resume_log(seal_json(body + R"(,"members_epoch":)" + wrong + "}"));
    CAPTURE(wrong);
    CHECK(log.generations.empty());
    CHECK(log.damaged_lines == 1);
  }
}
