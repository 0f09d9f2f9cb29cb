#include "launcher/controller/store/job_leavings.h"

#include "launcher/controller/store/store.h"
#include "scheduler/state/lookup.h"
#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

namespace muster {
namespace {

const JobId train{"train"};
const NodeId h01{"h01"};

class Known {
 public:
  Known() {
    auto opened = Store::open(scratch_.path(), Store::Mode::read_write);
    REQUIRE(opened);
    store_ = std::move(*opened);
  }

  void row(std::int64_t attempts, std::optional<Time> ended_at) {
    JobRow row;
    row.name = train.value;
    row.submitted_at = from_ms(1);
    row.ended_at = ended_at;
    row.attempts = attempts;
    REQUIRE(store_->append({}, {row}));
  }
  bool is_over(std::int64_t attempt) const {
    return muster::is_over(state, *store_, h01, train, AttemptId{attempt});
  }

  State state;

 private:
  Scratch scratch_;
  std::unique_ptr<Store> store_;
};

TEST_CASE("attempts of a job that has ended are over, and none that it never had") {
  Known known;
  known.row(2, from_ms(100));
  CHECK(known.is_over(0));
  CHECK(known.is_over(1));
  CHECK_FALSE(known.is_over(2));
  CHECK_FALSE(known.is_over(-1));
}

TEST_CASE("an attempt is not over because the journal does not know how its job goes on") {
  Known known;
  CHECK_FALSE(known.is_over(0));
  known.row(2, std::nullopt);
  CHECK_FALSE(known.is_over(0));
}

TEST_CASE("of a live job the attempts before the running one are over") {
  Known known;
  known.row(3, from_ms(100));  // of an earlier life
  Job& job = known.state.jobs[train];
  job.id = train;
  job.next_attempt = 3;
  SECTION("between two attempts") {
    CHECK(known.is_over(2));
    CHECK_FALSE(known.is_over(3));
  }
  SECTION("while one runs, and for a node that has left it") {
    Attempt attempt;
    attempt.id = AttemptId{2};
    attempt.nodes.resize(2);
    attempt.nodes[0].id = h01;
    attempt.nodes[1].id = NodeId{"h02"};
    attempt.phase = Running{};
    job.phase = Active{attempt};
    CHECK(known.is_over(1));
    CHECK_FALSE(known.is_over(2));
    CHECK_FALSE(known.is_over(3));
    std::get<Active>(job.phase).attempt.nodes[0].departure.emplace().is_released = true;
    CHECK(known.is_over(2));
  }
}

TEST_CASE("an attempt whose processes do not die is not over") {
  Known known;
  known.row(2, from_ms(100));
  Node& node = known.state.nodes[h01];
  node.unclean = StopBegun{train, AttemptId{1}, StopReason::canceled, ""};
  CHECK(known.is_over(0));
  CHECK_FALSE(known.is_over(1));
}

}  // namespace
}  // namespace muster
