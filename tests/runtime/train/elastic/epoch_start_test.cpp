// Whose state an epoch of an elastic run begins with.

#include "runtime/train/elastic/checkpoints.h"

#include "runtime/protocol/packed_fields.h"
#include "tests/catch.h"

using namespace muster;

namespace {

MemberNews at_step(std::uint64_t step) {
  MemberNews news;
  news.step = step;
  news.host = "here";
  return news;
}

MemberNews trained_to(std::uint64_t step) {
  MemberNews news = at_step(step);
  news.has_trained = true;
  return news;
}

MemberNews read_from(std::uint64_t step, std::uint64_t generation) {
  MemberNews news = at_step(step);
  news.from_generation = generation;
  return news;
}

std::size_t source_of(std::vector<MemberNews> members) {
  return EpochStart{std::move(members)}.source();
}

}  // namespace

TEST_CASE("news of a member survive the way to the others") {
  MemberNews news = trained_to(12);
  news.from_generation = 3;
  news.known_generation = 5;
  news.owes_save = true;
  news.previous = "s000000010-g4";
  news.lineage = {{1, 0}, {4, 8}};
  news.forks = {{5, 11}};
  const MemberNews heard = unpacked<MemberNews>(packed(news)).value();
  CHECK(packed(heard) == packed(news));
  CHECK(heard.lineage == news.lineage);
  CHECK(heard.forks == news.forks);
  CHECK(heard.previous == news.previous);
  CHECK(heard.host == "here");
  CHECK(unpacked<MemberNews>(packed(at_step(0)))->previous.empty());
  CHECK_FALSE(unpacked<MemberNews>(packed(news) + "x"));
}

TEST_CASE("an epoch begins with the newest state that was trained, else the newest that was read") {
  CHECK(source_of({at_step(0)}) == 0);
  CHECK(source_of({trained_to(4), trained_to(5), trained_to(5)}) == 1);
  CHECK(source_of({read_from(50, 1), trained_to(40)}) == 1);
  CHECK(source_of({at_step(0), read_from(20, 1)}) == 1);
  // The second one's directory shows that a later generation began at step 40.
  MemberNews later = read_from(45, 2);
  later.forks = {{1, 0}, {2, 40}};
  CHECK(source_of({read_from(50, 1), later}) == 1);
  CHECK(source_of({read_from(40, 1), at_step(0)}) == 0);
}

TEST_CASE("members of one state have nothing to send, and all hear what one knows") {
  CHECK_FALSE(EpochStart{{trained_to(5), read_from(5, 1)}}.differs());
  CHECK(EpochStart{{trained_to(5), trained_to(6)}}.differs());
  MemberNews later = read_from(20, 2);
  later.forks = {{2, 10}};
  CHECK(EpochStart{{read_from(20, 1), later}}.differs());
  EpochStart start{{at_step(0), at_step(0), at_step(0)}};
  CHECK_FALSE(start.owes_save());
  start.members[1].owes_save = true;
  start.members[2].known_generation = 7;
  start.members[2].host = "there";
  CHECK(start.owes_save());
  CHECK(start.known_generation() == 7);
  CHECK(start.hosts() == std::vector<std::string>{"here", "there"});
}
