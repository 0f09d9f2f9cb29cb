#include "launcher/controller/clients/requests.h"

#include "scheduler/apply/apply.h"
#include "tests/catch.h"
#include "tests/scheduler/builders.h"

namespace muster {
namespace {

const JobId watched_job{"train"};
const NodeId watched_node{"h01"};

struct Seen {
  State state;
  Time now = from_ms(1'000'000);

  Seen() {
    take(Observation{JobSubmitted(test::a_job().on_nodes(1))});
    take(Observation{LinkUp{watched_node, "boot", "agent", "h01", "10.0.0.1"}});
    take(Decision{AttemptPlaced{watched_job, AttemptId{0}, {watched_node}, ""}});
  }
  void launch() {
    take(Decision{StagingBegun{watched_job, AttemptId{0}}});
    take(Decision{LaunchBegun{watched_job, AttemptId{0}, {}, "", false, {}}});
  }
  void lose_link() { take(Observation{LinkDown{watched_node, {LinkFailureKind::lost, "silent"}}}); }
  void take(auto what) { apply(state, Record{now, std::move(what)}); }
  std::optional<LinkSilence> after(Milliseconds silent) const {
    return link_silence(state, state.nodes.at(watched_node), silent);
  }
};

}  // namespace

TEST_CASE("a silent node of a running job shows within 5 s, and until when it is waited for") {
  Seen one;
  one.launch();
  CHECK(!one.after(Milliseconds{2500}));
  const auto silence = one.after(Milliseconds{4500});
  REQUIRE(silence);
  CHECK(silence->silent == Milliseconds{4500});
  const Milliseconds patience = one.state.jobs.at(watched_job).target.unreachable;
  CHECK(silence->lost_at == patience);

  SECTION("also after its link was lost, by the same clock") {
    one.lose_link();
    one.now += Seconds{5};
    const auto later = one.after(Seconds{16});
    REQUIRE(later);
    CHECK(later->lost_at == patience);
  }
}

TEST_CASE("of a node on which nothing runs only the loss of its link is awaited") {
  Seen one;
  REQUIRE(one.after(Seconds{6}));
  CHECK(one.after(Seconds{6})->lost_at == Seconds{10});
  one.lose_link();
  CHECK(!one.after(Seconds{6}));
}

}  // namespace muster
