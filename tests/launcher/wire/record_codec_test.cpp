#include "launcher/wire/record_codec.h"

#include "tests/catch.h"

namespace muster {
namespace {

JobSubmitted a_submission() {
  JobSubmitted submitted;
  submitted.job = {"brave_otter"};
  submitted.spec.name = "brave_otter";
  submitted.spec.command = "python3 train.py";
  submitted.spec.environment_variables["A"] = "1";
  submitted.spec.distribution.type = DistributionType::pytorch;
  submitted.spec.timeout = Seconds{900};
  submitted.spec.muster.rules.push_back({});
  submitted.spec.muster.rules.back().signals = {9};
  submitted.target.name = "lab";
  NodeAddress node;
  node.id = {"h01"};
  node.transport = TransportKind::ssh;
  submitted.target.nodes.push_back(node);
  return submitted;
}

Record round_trip(const Record& record) {
  const RecordText text = encode_record(record);
  auto decoded = decode_record(text.kind, text.payload, record.at);
  REQUIRE(decoded);
  return *decoded;
}

TEST_CASE("a submitted job reads back from the journal as it was") {
  const Record read = round_trip({from_ms(5), Observation{a_submission()}});
  const auto& submitted = std::get<JobSubmitted>(std::get<Observation>(read.what));
  CHECK(to_ms(read.at) == 5);
  CHECK(submitted.spec.command == "python3 train.py");
  CHECK(submitted.spec.distribution.type == DistributionType::pytorch);
  REQUIRE(submitted.spec.timeout);
  CHECK(submitted.spec.timeout->count() == 900);
  REQUIRE(submitted.spec.muster.rules.size() == 1);
  CHECK(submitted.spec.muster.rules[0].signals == std::vector<int>{9});
  REQUIRE(submitted.target.nodes.size() == 1);
  CHECK(submitted.target.nodes[0].transport == TransportKind::ssh);
}

TEST_CASE("a node's GPUs and the ranks that they get read back from the journal") {
  LinkUp up;
  up.node = {"h01"};
  up.gpus = 8;
  const Record link = round_trip({from_ms(1), Observation{up}});
  CHECK(std::get<LinkUp>(std::get<Observation>(link.what)).gpus == 8);
  LaunchBegun launch;
  launch.job = {"a"};
  launch.processes = {8, 4};
  const Record begun = round_trip({from_ms(2), Decision{launch}});
  const std::vector<int> processes{8, 4};
  CHECK(std::get<LaunchBegun>(std::get<Decision>(begun.what)).processes == processes);
}

TEST_CASE("a rule that older journals name says itself that it casts doubt on what was saved") {
  const auto doubts = [](const std::string& id, const std::string& more) {
    const std::string rules = R"("rules":{"rule":{"id":")" + id + R"(","advice":"")" + more + "}}";
    const auto exit = decode_record("rank_exited", R"({"job":"a",)" + rules + "}", from_ms(1));
    REQUIRE(exit);
    const auto end =
        decode_record("attempt_ended", R"({"job":"a","cause":{)" + rules + "}}", from_ms(1));
    REQUIRE(end);
    const bool by_exit = record_as<RankExited>(*exit)->rules.rule->doubts_state;
    CHECK(record_as<AttemptEnded>(*end)->cause.rules.rule->doubts_state == by_exit);
    return by_exit;
  };
  CHECK(doubts("gpu-ecc", ""));
  CHECK(doubts("gpu-xid-memory", R"(,"origin":"default")"));
  CHECK_FALSE(doubts("gpu-ecc", R"(,"origin":"site")"));
  CHECK_FALSE(doubts("gpu-ecc", R"(,"doubts_state":false)"));
  CHECK_FALSE(doubts("gpu-xid", ""));
  const auto none =
      decode_record("rank_exited", R"({"job":"a","rules":{"rule":null}})", from_ms(1));
  REQUIRE(none);
  CHECK_FALSE(record_as<RankExited>(*none)->rules.rule);
}

TEST_CASE("nodes and launches of a journal that knew no GPUs have none") {
  const auto link = decode_record("link_up", R"({"node":"h01","boot_id":"b"})", from_ms(1));
  REQUIRE(link);
  CHECK(std::get<LinkUp>(std::get<Observation>(link->what)).gpus == 0);
  const auto launch = decode_record("launch_begun", R"({"job":"a","attempt":1})", from_ms(1));
  REQUIRE(launch);
  CHECK(std::get<LaunchBegun>(std::get<Decision>(launch->what)).processes.empty());
}

TEST_CASE("the newest certified checkpoint of a node reads back from the journal") {
  const CheckpointRef certified{400, "/ckpt/s000000400-g1"};
  const NodeChecked checked{{"a"}, AttemptId{1}, {"h01"}, {}, {}, certified};
  const Record gate = round_trip({from_ms(1), Observation{checked}});
  const auto& found = std::get<NodeChecked>(std::get<Observation>(gate.what));
  REQUIRE(found.newest_certified);
  CHECK(found.newest_certified->step == 400);
  CHECK(!found.newest_checkpoint);
  const Record end = round_trip(
      {from_ms(1), Observation{NodeClean{{"a"}, AttemptId{1}, {"h01"}, {}, {}, certified}}});
  const auto& clean = std::get<NodeClean>(std::get<Observation>(end.what));
  REQUIRE(clean.newest_certified);
  CHECK(clean.newest_certified->directory == certified.directory);
  ResumeRequested resume;
  resume.job = {"a"};
  resume.certified_because = "it was requested";
  const Record asked = round_trip({from_ms(1), Observation{resume}});
  CHECK(std::get<ResumeRequested>(std::get<Observation>(asked.what)).certified_because ==
        "it was requested");
}

TEST_CASE("nodes of a journal that knew no certificates have no certified checkpoint") {
  const auto checked = decode_record(
      "node_checked",
      R"({"job":"a","attempt":1,"node":"h","newest_checkpoint":{"step":9,"directory":"/c"}})",
      from_ms(1));
  REQUIRE(checked);
  const auto& gate = std::get<NodeChecked>(std::get<Observation>(checked->what));
  CHECK(gate.newest_checkpoint->step == 9);
  CHECK(!gate.newest_certified);
  const auto clean = decode_record("node_clean", R"({"job":"a","attempt":1})", from_ms(1));
  REQUIRE(clean);
  CHECK(!std::get<NodeClean>(std::get<Observation>(clean->what)).newest_certified);
  const auto resume = decode_record("resume_requested", R"({"job":"a"})", from_ms(1));
  REQUIRE(resume);
  CHECK(!std::get<ResumeRequested>(std::get<Observation>(resume->what)).certified_because);
  CHECK_FALSE(decode_record("node_checked", R"({"job":"a","newest_certified":7})", from_ms(1)));
}

TEST_CASE("a fault reads back with its owner and cause, and without them from older journals") {
  NodeFaultsSeen seen;
  seen.node = {"h01"};
  seen.owner = JobId{"a"};
  seen.faults.emplace_back().shared_cause = true;
  const Record told = round_trip({from_ms(1), Observation{seen}});
  const auto& read = std::get<NodeFaultsSeen>(std::get<Observation>(told.what));
  CHECK(read.owner == JobId{"a"});
  CHECK(read.faults.at(0).shared_cause);
  const Record opened =
      round_trip({from_ms(1), Decision{BreakerOpened{"ib.phys", "why", true, Seconds{60}}}});
  CHECK(std::get<BreakerOpened>(std::get<Decision>(opened.what)).window == Seconds{60});
  const Record at_target = round_trip(
      {from_ms(1), Decision{BreakerOpened{"ib.phys@lab", "why", true, Seconds{60}, {{"h1"}}}}});
  CHECK(std::get<BreakerOpened>(std::get<Decision>(at_target.what)).nodes.size() == 1);
  // As version 9 wrote them.
  const auto old_seen = decode_record(
      "node_faults_seen",
      R"({"node":"h01","faults":[{"id":"6f","check":"gpu.xid","device":"gpu3","serial":"165",)"
      R"("class":"node","code":"79","remedy":"reboot","on_recurrence":"rma","stops_job":true,)"
      R"("in_doubt":false,"enforced":true,"since":5,"what":"w","evidence":[]}],"settled":true})",
      from_ms(9));
  REQUIRE(old_seen);
  const auto& old = std::get<NodeFaultsSeen>(std::get<Observation>(old_seen->what));
  CHECK_FALSE(old.owner);
  CHECK(old.faults.at(0).on_recurrence == Remedy::rma);
  CHECK_FALSE(old.faults.at(0).shared_cause);
  const auto drained = decode_record(
      "node_faulted", R"({"node":"h01","fault":{"id":"6f","remedy":"drain"},"reason":"r"})",
      from_ms(9));
  REQUIRE(drained);
  CHECK_FALSE(std::get<NodeFaulted>(std::get<Decision>(drained->what)).owner);
  const auto breaker = decode_record(
      "breaker_opened", R"({"target":"ib.phys","reason":"why","is_check":true})", from_ms(9));
  REQUIRE(breaker);
  CHECK(std::get<BreakerOpened>(std::get<Decision>(breaker->what)).window == Seconds{600});
  CHECK(std::get<BreakerOpened>(std::get<Decision>(breaker->what)).nodes.empty());
}

TEST_CASE("a record that an older journal wrote without a field reads with its default") {
  const auto record = decode_record("job_ended", R"({"job":"a","state":"Failed"})", from_ms(1));
  REQUIRE(record);
  const auto& ended = std::get<JobEnded>(std::get<Decision>(record->what));
  CHECK(ended.state == JobEndState::failed);
  CHECK(ended.exit_code == 0);
}

TEST_CASE("a record of an unknown kind says that the journal is newer") {
  const auto record = decode_record("moon_phase", "{}", from_ms(1));
  REQUIRE_FALSE(record);
  CHECK_THAT(record.error().message, ContainsSubstring("newer muster"));
}

TEST_CASE("a field of a newer muster in a record is named, not dropped") {
  const auto record =
      decode_record("rank_exited", R"({"job":"a","status":{"code":1,"moon":true}})", from_ms(1));
  REQUIRE_FALSE(record);
  CHECK_THAT(record.error().message, ContainsSubstring("rank_exited"));
  CHECK_THAT(record.error().message, ContainsSubstring("status.moon"));
  CHECK_THAT(record.error().message, ContainsSubstring("newer muster"));
}

TEST_CASE("a rule of a version that knew one number for each condition is read as it was meant") {
  const auto record = decode_record(
      "resume_requested",
      R"({"job":"a","spec":{"muster":{"rules":[{"exit_code":3,"action":"retry","enforce":true},)"
      R"({"signal":9,"xid":79}]}}})",
      from_ms(1));
  REQUIRE(record);
  const auto& observation = std::get<Observation>(record->what);
  const auto& rules = std::get<ResumeRequested>(observation).spec.muster.rules;
  REQUIRE(rules.size() == 2);
  CHECK(rules[0].exit_codes.at(0).low == 3);
  CHECK(rules[0].exit_codes.at(0).high == 3);
  CHECK(rules[0].action == Reaction::retry);
  CHECK(rules[1].exit_codes.empty());
  CHECK(rules[1].signals == std::vector<int>{9});
  CHECK(rules[1].xids.at(0).holds(79));
}

TEST_CASE("hang settings of a version that did not act on them are not acted on now") {
  const auto hang = [](const std::string& other) {
    auto record = decode_record(
        "job_submitted", R"({"job":"a","spec":{"muster":{"other":{)" + other + "}}}}", from_ms(1));
    REQUIRE(record);
    const auto& muster = std::get<JobSubmitted>(std::get<Observation>(record->what)).spec.muster;
    CHECK(!muster.other.contains("hang.timeout"));
    return muster.hang;
  };
  CHECK(hang(R"("hang.timeout":"off")").off);
  CHECK(hang(R"("hang.timeout":"2h","hang.watch":"output")").off);
  CHECK(!hang(R"("hang.timeout":"auto")").off);
  CHECK(!hang(R"("checkpoint.keep":"3")").off);
}

TEST_CASE("what changes the members of an attempt reads back from the journal") {
  MembersChanged changed{{"a"}, {1}, 3, {{0}, {5}, {4}}, "h04 comes"};
  const Record read = round_trip({from_ms(1), Decision{changed}});
  const auto& members = std::get<MembersChanged>(std::get<Decision>(read.what));
  CHECK(members.members_epoch == 3);
  CHECK(members.ranks == changed.ranks);
  CHECK(members.why == "h04 comes");
  NodeLeaves leaves{{"a"}, {1}, {"h02"}, StopReason::preempted, "told to leave", Milliseconds{5}};
  const Record gone = round_trip({from_ms(2), Decision{leaves}});
  const auto& left = std::get<NodeLeaves>(std::get<Decision>(gone.what));
  CHECK(left.node == NodeId{"h02"});
  CHECK(left.reason == StopReason::preempted);
  CHECK(left.grace == Milliseconds{5});
  const Record told =
      round_trip({from_ms(3), Observation{MembersTold{{"a"}, {1}, {"h02"}, 3, "disk full"}}});
  CHECK(std::get<MembersTold>(std::get<Observation>(told.what)).error == "disk full");
}

TEST_CASE("every record of an attempt that changes its nodes has a kind that is read") {
  const std::vector<Record> records{
      {from_ms(1), Decision{NodeTaken{{"a"}, {1}, {"h04"}, "is free"}}},
      {from_ms(1), Decision{JoinBegun{{"a"}, {1}, {"h04"}, 2}}},
      {from_ms(1), Decision{NodeReleased{{"a"}, {1}, {"h04"}, "outputs of h04"}}},
      {from_ms(1), Observation{NodeReady{{"a"}, {1}, {"h04"}}}}};
  for (const Record& record : records) {
    const RecordText written = encode_record(record);
    const RecordText again = encode_record(round_trip(record));
    CHECK(again.kind == written.kind);
    CHECK(again.payload == written.payload);
  }
}

TEST_CASE("a job as people see it is JSON with a line for each setting") {
  JobSpec spec;
  spec.name = "brave_otter";
  spec.command = "echo \xff";
  const std::string text = encode_spec(spec);
  CHECK_THAT(text, ContainsSubstring("\n  \"name\": \"brave_otter\""));
  CHECK_THAT(text, ContainsSubstring("\n  \"command\": \"echo \xef\xbf\xbd\""));
  CHECK(text.starts_with("{\n"));
  CHECK(text.ends_with("\n}\n"));
}

TEST_CASE("tags are one JSON object, of whatever text") {
  CHECK(encode_tags({}) == "{}");
  CHECK(encode_tags({{"team", "vision"}, {"a \"b\"", ""}}) == R"({"a \"b\"":"","team":"vision"})");
  CHECK_THAT(encode_tags({{"k", "\xff"}}), ContainsSubstring("\"k\""));
}

TEST_CASE("what an older muster kept as text of a job's settings leaves its other settings alone") {
  const auto spec = [](const char* kind, const std::string& muster) {
    const auto record =
        decode_record(kind, R"({"job":"a","spec":{"muster":)" + muster + "}}", from_ms(1));
    REQUIRE(record);
    const auto& seen = std::get<Observation>(record->what);
    if (const auto* submitted = std::get_if<JobSubmitted>(&seen)) return submitted->spec.muster;
    return std::get<ResumeRequested>(seen).spec.muster;
  };
  for (const char* kind : {"job_submitted", "resume_requested"}) {
    const auto old = spec(kind, R"({"other":{"hang.timeout":"1h","hang.first_step":"2h",)"
                                R"("hang.watch":"output","health.run":"false"}})");
    CHECK(old.hang.off);
    CHECK(old.other == std::map<std::string, std::string>{{"health.run", "false"}});
    CHECK_FALSE(spec(kind, R"({"other":{"hang.timeout":"auto"}})").hang.off);
    CHECK_FALSE(spec(kind, "{}").hang.off);
    CHECK(spec(kind, R"({"rules":[{"signal":9}]})").rules.at(0).signals == std::vector<int>{9});
  }
  CHECK_FALSE(
      decode_record("job_submitted", R"({"job":"a","spec":{"muster":{"other":7}}})", from_ms(1)));
}

TEST_CASE("an unknown field is named by its path, an absent value is none") {
  const auto problem = [](const std::string& payload) {
    const auto record = decode_record("node_faults_seen", payload, from_ms(1));
    return record ? "" : record.error().message;
  };
  CHECK(problem(R"({"node":"h","moon":null})") == "");
  CHECK_THAT(problem(R"({"node":"h","moon":0})"), ContainsSubstring("'moon'"));
  CHECK_THAT(problem(R"({"node":"h","faults":[{"id":"a"},{"id":"b","moon":{"x":1}}]})"),
             ContainsSubstring("'faults.1.moon'"));
  CHECK(problem(R"({"node":"h","faults":[{"id":"a"},{"id":"b"}]})") == "");
}

TEST_CASE("last words that are not UTF-8 are kept readable") {
  RankExited exited;
  exited.job = {"a"};
  exited.last_lines = {"bad \xff\xfe bytes"};
  const Record read = round_trip({from_ms(1), Observation{exited}});
  const auto& lines = std::get<RankExited>(std::get<Observation>(read.what)).last_lines;
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], ContainsSubstring("bytes"));
}

}  // namespace
}  // namespace muster
