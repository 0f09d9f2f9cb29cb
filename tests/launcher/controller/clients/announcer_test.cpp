// What followers of a job are told of the tries to find it nodes.
#include "launcher/controller/clients/requests.h"

#include "scheduler/apply/apply.h"
#include "tests/launcher/controller/agents.h"
#include "tests/launcher/controller/paired_client.h"

namespace muster {
namespace {

const JobId followed_job{"train"};

struct Followed {
  boost::asio::io_context io;
  PairedClient client{io};
  Watchers watchers;
  State state;
  JobRows rows;

  Followed() {
    JobSubmitted submitted = a_job("train", "a");
    submitted.target.nodes.push_back(address_of("n2", "b"));
    apply(state, {from_ms(1), Observation{submitted}});
    watchers.add(followed_job, client.session);
  }
  // The sentences that a follower hears of it.
  std::vector<std::string> told(const Decision& what) {
    announce({{from_ms(2), what}}, state, rows, watchers);
    std::vector<std::string> sentences;
    for (const JobEvent& event : client.take<JobEvent>()) {
      if (!event.sentence.empty()) sentences.push_back(event.sentence);
    }
    return sentences;
  }
  Job& job() { return state.jobs.at(followed_job); }
};

const Decision try_begins{AttemptPlaced{followed_job, {0}, {{"n1"}}, "it is free", {}}};
const Decision try_goes_on{NodeReplaced{followed_job, {0}, {"n1"}, {"n2"}, "n1 is ill"}};
const Decision try_fails{PlacementAbandoned{followed_job, {0}, "n1 does not answer", {}}};

TEST_CASE("the first try to start a job is told: where, and why it came to nothing") {
  Followed one;
  CHECK_FALSE(one.told(try_begins).empty());
  CHECK_FALSE(one.told(try_goes_on).empty());
  CHECK_FALSE(one.told(try_fails).empty());
}

TEST_CASE("later tries are told only when they end otherwise than the one before") {
  Followed one;
  one.job().abandoned = 2;
  one.job().abandoned_alike = 1;
  CHECK(one.told(try_begins).empty());
  CHECK(one.told(try_goes_on).empty());
  CHECK_FALSE(one.told(try_fails).empty());
  one.job().abandoned_alike = 2;
  CHECK(one.told(try_fails).empty());
  CHECK_FALSE(one.told(JobPending{followed_job, "for healthy nodes"}).empty());
}

TEST_CASE("of a rank's end the step is told that its own attempt reached, not the job's last one") {
  Followed one;
  const auto hear = [&](std::optional<std::int64_t> step, std::int64_t of_attempt = 2) {
    Attempt attempt;
    attempt.id = {2};
    attempt.last_step = step;
    one.job().phase = Active{attempt};
    RankExited exited;
    exited.job = followed_job;
    exited.attempt = {of_attempt};
    exited.node = {"n1"};
    exited.status = {0, 15};
    announce({{from_ms(2), Observation{exited}}}, one.state, one.rows, one.watchers);
    return one.client.take<JobEvent>().front().sentence;
  };
  JobRow row;
  row.name = "train";
  row.step = 25;
  one.rows.restore(row);
  for (const std::int64_t id : {0, 1}) {
    PastAttempt before;
    before.id = {id};
    before.last_step = 10 + id;
    one.job().past.push_back(before);
  }
  CHECK(hear({}, 1) == "rank 0 on n1 was killed by SIGTERM after step 11");
  CHECK(hear({}) == "rank 0 on n1 was killed by SIGTERM");
  CHECK(hear(21) == "rank 0 on n1 was killed by SIGTERM after step 25");  // told meanwhile
}

TEST_CASE("of a job that ends with its last try the end says why, and its followers are let go") {
  Followed one;
  one.state.jobs.clear();
  CHECK(one.told(try_fails).empty());
  CHECK_FALSE(one.client.is_over());
  const Decision end{JobEnded{followed_job, JobEndState::failed, 4, "no nodes"}};
  announce({{from_ms(3), end}}, one.state, one.rows, one.watchers);
  const auto ended = one.client.take<Ended>();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].state == "Failed");
  CHECK(ended[0].exit_code == 4);
  CHECK(ended[0].reason == "no nodes");
  CHECK(one.client.is_over());
  CHECK_FALSE(one.watchers.has(followed_job));
}

TEST_CASE("a job that nobody follows, and another one's follower, are told nothing") {
  Followed one;
  const JobId other{"other"};
  CHECK(one.told(AttemptPlaced{other, {0}, {{"n1"}}, "it is free", {}}).empty());
  JobEvent event;
  event.sentence = "hello";
  one.watchers.tell(other, event);
  CHECK(one.client.take<JobEvent>().empty());
  one.watchers.tell(followed_job, event);
  CHECK(one.client.take<JobEvent>().size() == 1);
}

}  // namespace
}  // namespace muster
