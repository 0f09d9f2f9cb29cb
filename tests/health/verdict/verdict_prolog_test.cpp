#include "health/verdict/node_verdict.h"

#include "tests/catch.h"
#include "tests/health/verdict/verdict_builders.h"

using namespace muster;

namespace {

template <class Answer>
const Answer* answer_of(const PrologStep& step) {
  const auto* answer = std::get_if<PrologAnswer>(&step);
  return answer ? std::get_if<Answer>(answer) : nullptr;
}

NodeVerdict drained() {
  WatchedNode node;
  node.run(a_failure("event.a"));
  return node.verdict();
}

NodeVerdict unclear() {
  NodeVerdict verdict;
  verdict.unclear = {{"gpu.count", ""}, {"ib.state", "mlx5_0:1"}};
  return verdict;
}

constexpr Milliseconds ms(std::int64_t count) {
  return Milliseconds{count};
}

}  // namespace

TEST_CASE("a young verdict answers at once") {
  const NodeVerdict sound;
  const NodeVerdict bad = drained();
  for (const std::int64_t age : {0, 1'000, 60'000}) {
    CHECK(answer_of<StartJob>(next_prolog_step({&sound, ms(age), ms(0), false})));
    const PrologStep step = next_prolog_step({&bad, ms(age), ms(0), false});
    REQUIRE(answer_of<RefuseNode>(step));
    CHECK(answer_of<RefuseNode>(step)->reason == bad.reason());
  }
}

TEST_CASE("an old verdict, none, or one from the future asks for a quick run") {
  const NodeVerdict sound;
  for (const PrologQuestion& question :
       {PrologQuestion{&sound, ms(60'001), ms(0), false}, PrologQuestion{},
        PrologQuestion{&sound, ms(-1), ms(0), false}}) {
    const PrologStep step = next_prolog_step(question);
    REQUIRE(std::holds_alternative<RunQuick>(step));
    CHECK(std::get<RunQuick>(step).after == ms(0));
    CHECK(std::get<RunQuick>(step).limit == prolog_deadline - prolog_margin);
  }
}

TEST_CASE("while a run is under way it is waited for, until there is no time left") {
  const PrologStep step = next_prolog_step({nullptr, ms(0), ms(4'000), true});
  REQUIRE(std::holds_alternative<WaitForRun>(step));
  CHECK(std::get<WaitForRun>(step).most == ms(5'500));
  CHECK(answer_of<TakeSpare>(next_prolog_step({nullptr, ms(0), ms(9'500), true})));
}

TEST_CASE("what is unknown is sampled again after a second, then another node is taken") {
  const NodeVerdict verdict = unclear();
  const PrologStep step = next_prolog_step({&verdict, ms(200), ms(300), false});
  REQUIRE(std::holds_alternative<RunQuick>(step));
  CHECK(std::get<RunQuick>(step).after == ms(800));
  CHECK(std::get<RunQuick>(step).limit == ms(8'400));
  const PrologStep last = next_prolog_step({&verdict, ms(200), ms(9'000), false});
  REQUIRE(answer_of<TakeSpare>(last));
  CHECK(answer_of<TakeSpare>(last)->why == "no pass of gpu.count, ib.state on mlx5_0:1");
}

TEST_CASE("what is bad once too few times starts the job where nobody requires it") {
  NodeVerdict verdict;
  verdict.unconfirmed = {{"ib.phys", "p"}};
  CHECK(std::holds_alternative<RunQuick>(next_prolog_step({&verdict, ms(0), ms(0), false})));
  CHECK(answer_of<StartJob>(next_prolog_step({&verdict, ms(0), ms(9'600), false})));
}

TEST_CASE("at the deadline an old drain still holds, an old pass does not") {
  const NodeVerdict sound;
  const NodeVerdict bad = drained();
  CHECK(answer_of<RefuseNode>(next_prolog_step({&bad, ms(900'000), ms(9'500), true})));
  CHECK(answer_of<TakeSpare>(next_prolog_step({&sound, ms(900'000), ms(9'500), true})));
}

TEST_CASE("whatever the ages, there is an answer within the deadline") {
  const NodeVerdict sound;
  const NodeVerdict bad = drained();
  const NodeVerdict open = unclear();
  for (const NodeVerdict* verdict :
       {static_cast<const NodeVerdict*>(nullptr), &sound, &bad, &open}) {
    for (const std::int64_t age : {-5'000, 0, 500, 60'000, 60'001, 1'000'000}) {
      for (std::int64_t waited = -1'000; waited <= 12'000; waited += 100) {
        for (const bool runs : {false, true}) {
          const PrologStep step = next_prolog_step({verdict, ms(age), ms(waited), runs});
          const auto* run = std::get_if<RunQuick>(&step);
          const auto* wait = std::get_if<WaitForRun>(&step);
          const Milliseconds more = run ? run->after + run->limit : wait ? wait->most : ms(0);
          CHECK(ms(std::max<std::int64_t>(0, waited)) + more <=
                std::max(prolog_deadline, ms(waited)));
          if (waited >= 9'500) CHECK(std::holds_alternative<PrologAnswer>(step));
          if (run) CHECK(run->limit > ms(0));
        }
      }
    }
  }
}
