#include "scheduler/failure/stall_watch.h"

#include "tests/catch.h"
#include "tests/scheduler/stall_world.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr double minute_s = 60;
constexpr double hour_s = 3600;

// From the first ten minutes on; more is learned by then than is needed.
RunPlan with_fault(int rank, Doing becomes, RunPlan plan = {}) {
  plan.fault = Fault{10 * minute_s, rank, becomes};
  return plan;
}

double after_fault(const Told* told) {
  return told == nullptr ? 1e9 : told->at_s - 10 * minute_s;
}

const Told& the(const std::vector<Told>& told, StallKind kind) {
  REQUIRE(first_of(told, kind) != nullptr);
  return *first_of(told, kind);
}

// Of ranks on one node, from time 0 on.
StallWatch watch_of(std::size_t ranks) {
  const StallWatch::Subject subject{
      JobId{"j"}, AttemptId{0}, {}, std::vector<NodeId>(ranks, NodeId{"h"}), false};
  return StallWatch(subject, Milliseconds{0});
}

}  // namespace

TEST_CASE("a run that gets on is not spoken of") {
  StallWorld world({}, 1);
  CHECK(world.run(hour_s).empty());
  CHECK(world.steps() > 3000);
}

TEST_CASE("a stopped rank is named within three steps and acted on within twenty seconds") {
  const double step_s = GENERATE(1.0, 2.0, 5.0);
  RunPlan plan = with_fault(5, Doing::stopped);
  plan.step_s = step_s;
  const auto told = StallWorld(plan, 2).run(15 * minute_s);
  CHECK(after_fault(first_of(told, StallKind::suspect)) <= 3 * step_s);
  CHECK(the(told, StallKind::suspect).what.rank == RankId{5});
  CHECK(after_fault(first_of(told, StallKind::hung)) <= 10 + 4 * step_s);
  CHECK(the(told, StallKind::hung).what.rank == RankId{5});
  CHECK(the(told, StallKind::hung).what.blamed == NodeId{"h0"});
  CHECK_THAT(the(told, StallKind::hung).what.sentence,
             ContainsSubstring("rank 5 on h0 is stopped by a signal"));
}

TEST_CASE("a hang is told once and nothing after it") {
  const auto told = StallWorld(with_fault(5, Doing::stopped), 2).run(hour_s);
  CHECK(count_of(told, StallKind::hung) == 1);
  CHECK(told.back().what.stall == StallKind::hung);
}

TEST_CASE("a rank that goes on after a short stop costs a word and nothing else") {
  RunPlan plan = with_fault(5, Doing::stopped);
  plan.fault->heals_s = 8;
  const auto told = StallWorld(plan, 3).run(hour_s);
  CHECK(count_of(told, StallKind::hung) == 0);
  REQUIRE(count_of(told, StallKind::suspect) == 1);
  CHECK(told.back().what.stall == StallKind::over);
}

TEST_CASE("a stopped rank of a program that tells no steps is named and acted on within 60 s") {
  RunPlan plan = with_fault(63, Doing::stopped);
  plan.ranks = 64;
  plan.beats = false;
  plan.computing = GENERATE(Doing::working, Doing::quiet);
  plan.waiting = plan.computing;
  const auto told = StallWorld(plan, 4).run(20 * minute_s);
  CHECK(after_fault(first_of(told, StallKind::suspect)) <= 10);
  CHECK(after_fault(first_of(told, StallKind::hung)) <= 60);
  CHECK(the(told, StallKind::hung).what.rank == RankId{63});
}

TEST_CASE("of several stopped ranks the one that has got least far is named") {
  StallWatch watch = watch_of(4);
  for (int rank = 0; rank < 4; ++rank) {
    watch.stepped(RankId{rank}, rank == 2 ? 6 : 7, Milliseconds{1000});
  }
  watch.does({RankId{1}, Doing::stopped, 0, ""}, Milliseconds{2000});
  watch.does({RankId{2}, Doing::stopped, 0, ""}, Milliseconds{2000});
  std::optional<StallSeen> told;
  for (int t = 2500; !told && t < 60'000; t += 500) told = watch.look(Milliseconds{t});
  REQUIRE(told);
  CHECK(told->rank == RankId{2});
  CHECK_THAT(told->sentence, ContainsSubstring("at step 6"));
}

TEST_CASE("a program without steps that sleeps for hours is told of and never stopped") {
  RunPlan plan;
  plan.beats = false;
  plan.computing = Doing::quiet;
  const auto told = StallWorld(plan, 5).run(20 * hour_s);
  CHECK(count_of(told, StallKind::slow) == 1);
  CHECK(told.size() == 1);
}

TEST_CASE("a run whose every rank is stopped was paused by somebody") {
  StallWatch watch = watch_of(2);
  for (int rank = 0; rank < 2; ++rank) {
    watch.does({RankId{rank}, Doing::stopped, 0, ""}, Milliseconds{500});
  }
  int hung = 0, slow = 0;
  for (int t = 1000; t < 3'600'000; t += 500) {
    const auto told = watch.look(Milliseconds{t});
    hung += told && told->stall == StallKind::hung;
    slow += told && told->stall == StallKind::slow;
  }
  CHECK(hung == 0);
  CHECK(slow == 1);
}

TEST_CASE("steps that take ten times as long for ten minutes are warned of and not acted on") {
  RunPlan plan;
  plan.step_s = GENERATE(0.2, 1.0, 3.0, 6.0, 12.0, 30.0);
  plan.computing = GENERATE(Doing::working, Doing::quiet, Doing::moving);
  const double from_s = 30 + 40 * plan.step_s;
  plan.spell = {from_s, from_s + std::max(10 * minute_s, 80 * plan.step_s), 10};
  const auto told = StallWorld(plan, 6).run(plan.spell.to_s + hour_s);
  CHECK(count_of(told, StallKind::hung) == 0);
  CHECK(count_of(told, StallKind::slow) + count_of(told, StallKind::suspect) >= 1);
  CHECK(told.back().what.stall == StallKind::over);
  CHECK(told.size() <= 8);
}

TEST_CASE("a run that becomes slow for good is called slow once, with both paces") {
  RunPlan plan;
  plan.spell = {10 * minute_s, 100 * hour_s, 10};
  const auto told = StallWorld(plan, 7).run(5 * hour_s);
  CHECK(count_of(told, StallKind::hung) == 0);
  REQUIRE(count_of(told, StallKind::slow) == 1);
  const StallSeen& slow = told.back().what;  // still so, hours later
  CHECK(slow.stall == StallKind::slow);
  CHECK(slow.limit <= Milliseconds{1500});
  CHECK(slow.silent_for >= Milliseconds{8000});
}

TEST_CASE("saves and evaluations that the run gets over are not acted on") {
  RunPlan plan;
  plan.save = {100, 240, Doing::moving, Doing::quiet};
  plan.evaluation = {300, 900, Doing::working, Doing::working};
  const auto told = StallWorld(plan, 8).run(20 * hour_s);
  CHECK(count_of(told, StallKind::hung) == 0);
  CHECK(told.size() <= 40);
}

TEST_CASE("a silent hang of all ranks is acted on within two minutes, a spinning one later") {
  RunPlan plan = with_fault(0, Doing::quiet);
  plan.waiting = Doing::quiet;
  const auto quiet = StallWorld(plan, 9).run(hour_s);
  CHECK(after_fault(first_of(quiet, StallKind::hung)) <= 2 * minute_s);
  CHECK(!the(quiet, StallKind::hung).what.rank);

  const auto spinning = StallWorld(with_fault(0, Doing::working), 9).run(hour_s);
  CHECK(after_fault(first_of(spinning, StallKind::suspect)) <= 6);
  CHECK(after_fault(first_of(spinning, StallKind::hung)) >= 19 * minute_s);
  CHECK(after_fault(first_of(spinning, StallKind::hung)) <= 21 * minute_s);
}

TEST_CASE("the rank that alone does nothing while its peers spin is named") {
  const auto told = StallWorld(with_fault(3, Doing::quiet), 10).run(20 * minute_s);
  CHECK(the(told, StallKind::hung).what.rank == RankId{3});
  CHECK(after_fault(first_of(told, StallKind::hung)) <= 2 * minute_s);
}

TEST_CASE("of ranks that all fall idle the first is not named") {
  StallWatch watch = watch_of(4);
  int t = 0;
  for (int step = 1; step < 40; ++step, t += 1000) {
    for (int rank = 0; rank < 4; ++rank) watch.stepped(RankId{rank}, step, Milliseconds{t});
  }
  for (const int end = t + 60'000; t < end; t += 500) {
    for (int rank = 0; rank < 4; ++rank) {
      if (t == end - 60'000 + 10'000 + 1500 * rank) {
        watch.does({RankId{rank}, Doing::quiet, 10'000, ""}, Milliseconds{t});
      }
    }
    const auto told = watch.look(Milliseconds{t});
    CHECK(!(told && told->rank));
  }
}

TEST_CASE("the rank that is one step behind is named") {
  StallWatch watch = watch_of(4);
  int t = 0;
  for (int step = 1; step < 40; ++step, t += 1000) {
    for (int rank = 0; rank < 4; ++rank) {
      if (step < 39 || rank != 2) watch.stepped(RankId{rank}, step, Milliseconds{t});
    }
    CHECK(!watch.look(Milliseconds{t}));
  }
  std::optional<StallSeen> told;
  for (; !told && t < 100'000; t += 500) told = watch.look(Milliseconds{t});
  REQUIRE(told);
  CHECK(told->stall == StallKind::suspect);
  CHECK(told->rank == RankId{2});
  CHECK_THAT(told->sentence, ContainsSubstring("rank 2 on h computes, at step 38"));
}

TEST_CASE("the first steps are exempt: they teach nothing and have their own deadline") {
  RunPlan plan;
  plan.first_step_s = 15 * minute_s;
  plan.beat_before = true;
  CHECK(count_of(StallWorld(plan, 11).run(hour_s), StallKind::hung) == 0);
  plan.first_step_s = 100 * minute_s;
  plan.fault = Fault{minute_s, 0, Doing::quiet};  // not even loading
  const auto told = StallWorld(plan, 11).run(2 * hour_s);
  CHECK(the(told, StallKind::hung).at_s >= 20 * minute_s);
  CHECK(the(told, StallKind::hung).at_s <= 23 * minute_s);
  CHECK_THAT(the(told, StallKind::hung).what.sentence, ContainsSubstring("first_step"));
}

TEST_CASE("a hang after slow first steps is suspected as if they had not been") {
  StallWatch watch = watch_of(1);
  int t = 0, next = 0;
  for (int step = 0; step < 30; ++step) {
    for (next += step < 6 ? 100'000 : 1000; t < next; t += 500) CHECK(!watch.look(Milliseconds{t}));
    watch.stepped(RankId{0}, step, Milliseconds{t});
  }
  std::optional<StallSeen> told;
  for (; !told && t < next + 100'000; t += 500) told = watch.look(Milliseconds{t});
  CHECK(t - next <= 6000);
}

TEST_CASE("a first step that never comes is no hang where nobody knows that steps come") {
  RunPlan plan;
  plan.beats = false;
  CHECK(StallWorld(plan, 12).run(20 * hour_s).empty());
}

TEST_CASE("a rank that falls behind ranks that do not wait for it is named as a straggler") {
  StallWatch watch = watch_of(8);
  std::vector<StallSeen> told;
  const auto go = [&](int from, int to, int every) {
    for (int step = from; step < to; ++step) {
      for (int rank = 0; rank < 8; ++rank) {
        const int its = rank == 3 ? 1000 + (step - 1000) / every : step;
        watch.stepped(RankId{rank}, its, Milliseconds{step * 1000});
      }
      if (auto what = watch.look(Milliseconds{step * 1000})) told.push_back(*what);
    }
  };
  go(1000, 1300, 2);
  REQUIRE(told.size() == 1);
  CHECK(told[0].stall == StallKind::slow);
  CHECK(told[0].rank == RankId{3});
  CHECK_THAT(told[0].sentence, ContainsSubstring("rank 3 on h is at step 10"));
  CHECK(told[0].step < 1060);
  go(1300, 1400, 1);
  REQUIRE(told.size() == 2);
  CHECK(told[1].stall == StallKind::over);
}

TEST_CASE("a rank that writes all the time is not called hung, whatever its steps do") {
  RunPlan plan = with_fault(0, Doing::moving);
  const auto told = StallWorld(plan, 13).run(10 * hour_s);
  CHECK(count_of(told, StallKind::hung) == 0);
  CHECK(count_of(told, StallKind::suspect) >= 1);
}

TEST_CASE("muster.hang.timeout is taken to the letter") {
  RunPlan plan = with_fault(5, GENERATE(Doing::stopped, Doing::working, Doing::moving));
  plan.settings.timeout = Seconds{90};
  const auto told = StallWorld(plan, 14).run(hour_s);
  CHECK(after_fault(first_of(told, StallKind::hung)) >= 88);
  CHECK(after_fault(first_of(told, StallKind::hung)) <= 92);
  CHECK_THAT(the(told, StallKind::hung).what.sentence,
             ContainsSubstring("muster.hang.timeout: 1 min 30 s"));
}

TEST_CASE("muster.hang.watch: output counts from the latest output") {
  HangSettings settings;
  settings.timeout = Seconds{100};
  settings.first_step = Seconds{200};
  settings.watch = HangWatch::output;
  StallWatch watch({JobId{"j"}, AttemptId{0}, settings, {NodeId{"h"}}, false}, Milliseconds{0});
  for (int t = 0; t < 199'000; t += 500) {
    const auto told = watch.look(Milliseconds{t});
    CHECK(!(told && told->stall == StallKind::hung));
  }
  watch.printed(Milliseconds{199'000});
  std::optional<StallSeen> told;
  int t = 199'500;
  for (; !(told && told->stall == StallKind::hung) && t < 400'000; t += 500) {
    watch.stepped(RankId{0}, t, Milliseconds{t});  // steps are not what was requested
    told = watch.look(Milliseconds{t});
  }
  CHECK(t >= 299'000);
  CHECK(t <= 300'000);
}

TEST_CASE("with muster.hang.timeout: off nothing is ever told") {
  RunPlan plan = with_fault(5, Doing::stopped);
  plan.settings.off = true;
  CHECK(StallWorld(plan, 15).run(10 * hour_s).empty());
}

TEST_CASE("a time in which nobody asked is no time") {
  StallWorld world({}, 16);
  world.run(10 * minute_s);
  StallWatch& watch = world.watch();
  const Milliseconds later = Seconds{600 + 7200};  // the machine slept
  CHECK(!watch.look(later));
  CHECK(!watch.look(later + Seconds{2}));
}

TEST_CASE("a time in which an agent is not heard is no time, and its ranks are not named") {
  StallWorld world({}, 17);
  world.run(10 * minute_s);
  StallWatch& watch = world.watch();
  Milliseconds t = Seconds{600};
  watch.unheard(true, t);
  for (; t < Seconds{1200}; t += Milliseconds{500}) CHECK(!watch.look(t));
  watch.unheard(false, t);
  CHECK(!watch.look(t + Seconds{3}));
}

TEST_CASE("a time in which a debugger holds a rank is no time, and teaches nothing") {
  const bool has_timeout = GENERATE(false, true);
  RunPlan plan;
  if (has_timeout) plan.settings.timeout = Seconds{60};
  StallWorld world(plan, 19);
  world.run(10 * minute_s);
  StallWatch& watch = world.watch();
  Milliseconds t = Seconds{600};
  watch.does({RankId{1}, Doing::moving, 0, "4711 (gdbserver)"}, t);
  for (; t < Seconds{600 + 7200}; t += Milliseconds{500}) CHECK(!watch.look(t));
  watch.does({RankId{1}, Doing::working, 0, ""}, t);
  CHECK(!watch.look(t + Seconds{3}));
  // Let go, it is as any other.
  std::optional<StallSeen> told;
  for (int i = 0; i < 2 * 7200 && !(told && told->stall == StallKind::hung); ++i) {
    t += Milliseconds{500};
    if (auto news = watch.look(t)) told = news;
  }
  REQUIRE(told);
  CHECK(told->stall == StallKind::hung);
}

TEST_CASE("steps under a debugger are not the pace of the run") {
  StallWatch watch = watch_of(1);
  Milliseconds t{0};
  std::int64_t step = 0;
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      t += Seconds{2};
      watch.stepped(RankId{0}, ++step, t);
      watch.look(t);
    }
  };
  steps(50);
  watch.does({RankId{0}, Doing::moving, 0, "4711 (gdb)"}, t);
  steps(300);
  watch.does({RankId{0}, Doing::working, 0, ""}, t);
  steps(20);
  // Nobody is hurried after a debugger whose steps were usual before.
  for (int i = 0; i < 8; ++i) CHECK(!watch.look(t += Milliseconds{500}));
}

TEST_CASE("ranks that have ended are not waited for, and who is left may take its time") {
  StallWorld world({}, 18);
  world.run(10 * minute_s);
  StallWatch& watch = world.watch();
  Milliseconds t = Seconds{600};
  for (int rank = 1; rank < 8; ++rank) watch.ended(RankId{rank}, t);
  for (; t < Seconds{9000}; t += Milliseconds{500}) CHECK(!watch.look(t));
}

TEST_CASE("only rank 0 tells its steps: no other rank is behind") {
  RunPlan plan = with_fault(5, Doing::stopped);
  plan.only_rank0_beats = true;
  const auto told = StallWorld(plan, 19).run(20 * minute_s);
  REQUIRE(!told.empty());
  for (const Told& one : told) CHECK(one.what.rank == RankId{5});
  CHECK(told.back().what.stall == StallKind::hung);
}

TEST_CASE("steps that begin anew are steps") {
  StallWatch watch = watch_of(1);
  for (int t = 0; t < 3'600'000; t += 500) {
    if (t % 1000 == 0) watch.stepped(RankId{0}, (t / 1000) % 50, Milliseconds{t});
    CHECK(!watch.look(Milliseconds{t}));
  }
}

TEST_CASE("what a closer look shows is told with the suspicion and with the hang") {
  RunPlan plan = with_fault(5, Doing::quiet);
  StallWorld world(plan, 20);
  const auto first = world.run(11 * minute_s);
  REQUIRE(!first.empty());
  CHECK(world.watch().suspects().front() == RankId{5});
  CHECK(world.watch().suspects().size() == 4);
  world.watch().seen(RankId{5}, {"waits in futex_wait"});
  const auto then = world.run(10 * minute_s);
  REQUIRE(then.size() >= 2);
  CHECK(then.front().what.stall == StallKind::suspect);
  REQUIRE(then.front().what.evidence.size() == 1);
  CHECK(then.front().what.evidence.front() == "rank 5 on h0: waits in futex_wait");
  CHECK(then.back().what.stall == StallKind::hung);
  CHECK(then.back().what.evidence.size() == 1);
}

TEST_CASE("where the store does not answer nobody is blamed for a hang") {
  RunPlan plan = with_fault(5, Doing::quiet);
  StallWorld world(plan, 20);
  REQUIRE(!world.run(11 * minute_s).empty());
  world.watch().seen(RankId{5}, {"waits in request_wait_answer"}, "storage: no answer");
  const auto then = world.run(10 * minute_s);
  REQUIRE(!then.empty());
  for (const auto& told : then) {
    CHECK(!told.what.rank);
    CHECK(!told.what.blamed);
    CHECK_THAT(told.what.sentence, ContainsSubstring("storage: no answer"));
  }
  CHECK(then.back().what.stall == StallKind::hung);
}

TEST_CASE("an odd run is not told of for ever, and its last telling is that all is well") {
  StallWatch watch = watch_of(2);
  int tellings = 0;
  StallKind last = StallKind::over;
  for (int t = 0; t < 20'000'000; t += 500) {
    const bool is_stopped = t / 8000 % 2 == 1;  // eight seconds of every sixteen
    if (t % 8000 == 0) {
      watch.does({RankId{0}, is_stopped ? Doing::stopped : Doing::working, 0, ""}, Milliseconds{t});
    }
    const auto told = watch.look(Milliseconds{t});
    tellings += told ? 1 : 0;
    if (told) last = told->stall;
  }
  CHECK(tellings >= 99);
  CHECK(tellings <= 101);
  CHECK(last == StallKind::over);
}

TEST_CASE("a watch that takes over from another says when its stall is over") {
  StallSeen before;
  before.stall = StallKind::suspect;
  before.rank = RankId{0};
  StallWatch watch({JobId{"j"}, AttemptId{0}, {}, {NodeId{"h"}}, false, before}, Milliseconds{0});
  std::optional<StallSeen> told;
  int t = 0;
  for (; !told && t < 100'000; t += 500) {
    if (t % 1000 == 0) watch.stepped(RankId{0}, t, Milliseconds{t});
    told = watch.look(Milliseconds{t});
  }
  REQUIRE(told);
  CHECK(told->stall == StallKind::over);
  CHECK(t >= 60'000);
}

TEST_CASE("who lags is a straggler only where most ranks tell their steps") {
  const int telling = GENERATE(3, 4, 5, 8);
  CAPTURE(telling);
  StallWatch watch = watch_of(8);
  std::optional<StallSeen> told;
  for (int step = 0; step < 300 && !told; ++step) {
    for (int rank = 0; rank < telling; ++rank) {
      watch.stepped(RankId{rank}, rank == 1 ? step / 2 : step, Milliseconds{step * 1000});
    }
    told = watch.look(Milliseconds{step * 1000});
  }
  REQUIRE(told.has_value() == (telling > 4));
  if (told) CHECK(told->rank == RankId{1});
}

namespace {

// Two ranks on two nodes that fall silent after 40 steps.
struct SilentRun {
  StallWatch watch{{JobId{"j"}, AttemptId{0}, {}, {NodeId{"h1"}, NodeId{"h2"}}, false},
                   Milliseconds{0}};
  Milliseconds now{0};

  SilentRun() {
    for (int step = 0; step < 40; ++step, now += Seconds{1}) {
      for (int rank = 0; rank < 2; ++rank) watch.stepped(RankId{rank}, step, now);
    }
    for (int rank = 0; rank < 2; ++rank) watch.does({RankId{rank}, Doing::quiet, 0, ""}, now);
  }
  // How long it takes until it is called hung.
  Milliseconds hangs_after() {
    const Milliseconds begun = now;
    for (; now - begun < Seconds{3600}; now += Milliseconds{500}) {
      const auto told = watch.look(now);
      if (told && told->stall == StallKind::hung) break;
    }
    return now - begun;
  }
};

}  // namespace

TEST_CASE("while the network of any node moves, ranks that do nothing are not taken for dead") {
  SilentRun run;
  const NodeId h1{"h1"}, h2{"h2"};
  bool is_dead = true;
  SECTION("nothing is told of networks") {}
  SECTION("one moves") {
    run.watch.network(h1, true, run.now);
    is_dead = false;
  }
  SECTION("one has moved and stands still again") {
    run.watch.network(h1, true, run.now);
    run.watch.network(h1, false, run.now);
  }
  SECTION("one stands still, the other moves") {
    run.watch.network(h1, true, run.now);
    run.watch.network(h2, true, run.now);
    run.watch.network(h1, false, run.now);
    is_dead = false;
  }
  const Milliseconds taken = run.hangs_after();
  CHECK((taken <= Seconds{120}) == is_dead);
  CHECK((taken >= Seconds{1000}) == !is_dead);
}

TEST_CASE("looked at closely are the suspect, then those that got least far, four at most") {
  StallWatch watch = watch_of(6);
  const auto ids = [](std::initializer_list<int> numbers) {
    std::vector<RankId> ranks;
    for (const int number : numbers) ranks.push_back(RankId{number});
    return ranks;
  };
  Milliseconds now{0};
  const auto look_until_told = [&] {
    std::optional<StallSeen> told;
    for (const Milliseconds end = now + Seconds{30}; !told && now < end; now += Seconds{1}) {
      told = watch.look(now);
    }
    REQUIRE(told);
    REQUIRE(told->stall == StallKind::suspect);
  };
  for (int step = 0; step < 40; ++step, now += Seconds{1}) {
    for (int rank = 0; rank < 6; ++rank) {
      watch.stepped(RankId{rank}, rank == 2 ? std::min(step, 38) : step, now);
    }
  }
  CHECK(watch.suspects().empty());
  SECTION("a rank that is stopped") {
    watch.does({RankId{3}, Doing::stopped, 0, ""}, now);
    look_until_told();
    CHECK(watch.suspects() == ids({3, 2, 0, 1}));
  }
  SECTION("a rank that has ended is not looked at") {
    watch.ended(RankId{2}, now);
    watch.ended(RankId{0}, now);
    watch.does({RankId{3}, Doing::stopped, 0, ""}, now);
    look_until_told();
    CHECK(watch.suspects() == ids({3, 1, 4, 5}));
  }
  SECTION("nobody that can be named") {
    watch.stepped(RankId{2}, 39, now);
    for (int rank = 0; rank < 6; ++rank) watch.does({RankId{rank}, Doing::quiet, 0, ""}, now);
    look_until_told();
    CHECK(watch.suspects() == ids({0, 1, 2, 3}));
  }
}
