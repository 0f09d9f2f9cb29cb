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

TEST_CASE("what a record says is in the journal under its name, and reads back from it") {
  const CheckpointRef certified{400, "/ckpt/s000000400-g1"};
  const std::string checkpoint =
      R"("newest_certified":{"changed_ms":0,"directory":"/ckpt/s000000400-g1","kind":"",)"
      R"("step":400})";
  LinkUp up;
  up.gpus = 8;
  LaunchBegun launch;
  launch.processes = {8, 4};
  ResumeRequested resume;
  resume.certified_because = "it was requested";
  NodeFaultsSeen faults;
  faults.owner = JobId{"a"};
  faults.faults.emplace_back().shared_cause = true;
  const NodeLeaving leaves{{"a"}, {1}, {"h02"}, StopReason::preempted, "is told", Milliseconds{5}};
  struct Case {
    std::variant<Observation, Decision> what;
    std::vector<std::string> says;
  };
  for (const auto& [what, says] : std::vector<Case>{
           {Observation{up}, {R"("gpus":8)"}},
           {Decision{launch}, {R"("processes":[8,4])"}},
           {Observation{NodeChecked{{"a"}, {1}, {"h01"}, {}, {}, certified}}, {checkpoint}},
           {Observation{NodeClean{{"a"}, {1}, {"h01"}, {}, {}, certified}}, {checkpoint}},
           {Observation{resume}, {R"("certified_because":"it was requested")"}},
           {Observation{faults}, {R"("owner":"a")", R"("shared_cause":true)"}},
           {Decision{BreakerOpened{"ib.phys@lab", "why", true, Seconds{60}, {{"h1"}}}},
            {R"("window":60000)", R"("nodes":["h1"])"}},
           {Decision{MembersChanged{{"a"}, {1}, 3, {{0}, {5}, {4}}, "h04 comes"}},
            {R"("members_epoch":3)", R"("ranks":[0,5,4])", R"("why":"h04 comes")"}},
           {Decision{leaves}, {R"("node":"h02")", R"("reason":"preempted")", R"("grace":5)"}},
           {Observation{MembersTold{{"a"}, {1}, {"h02"}, 3, "disk full"}},
            {R"("error":"disk full")"}},
           {Decision{NodeAdded{{"a"}, {1}, {"h04"}, "is free"}}, {R"("why":"is free")"}},
           {Decision{JoinBegun{{"a"}, {1}, {"h04"}, 2}}, {R"("processes":2)"}},
           {Decision{NodeReleased{{"a"}, {1}, {"h04"}, "outputs of h04"}},
            {R"("left_behind":"outputs of h04")"}},
           {Observation{NodeReady{{"a"}, {1}, {"h04"}}}, {R"("node":"h04")"}}}) {
    const Record record{from_ms(1), what};
    const RecordText written = encode_record(record);
    INFO(written.kind << " " << written.payload);
    for (const std::string& each : says) CHECK_THAT(written.payload, ContainsSubstring(each));
    const RecordText again = encode_record(round_trip(record));
    CHECK(again.kind == written.kind);
    CHECK(again.payload == written.payload);
  }
}

TEST_CASE("what a journal of before has not is read as what was meant then") {
  struct Case {
    const char* kind;
    const char* payload;
    std::vector<std::string> says;
    std::vector<std::string> says_not;
  };
  for (
      const auto& [kind, payload, says, says_not] : std::vector<Case>{
          {"link_up", R"({"node":"h01","boot_id":"b"})", {R"("gpus":0)"}, {}},
          {"launch_begun", R"({"job":"a","attempt":1})", {R"("processes":[])"}, {}},
          {"node_checked",
           R"({"job":"a","attempt":1,"node":"h","newest_checkpoint":{"step":9,"directory":"/c"}})",
           {R"("newest_checkpoint":{"changed_ms":0,"directory":"/c","kind":"","step":9})"},
           {"newest_certified"}},
          {"node_clean", R"({"job":"a","attempt":1})", {}, {"newest_certified"}},
          {"resume_requested", R"({"job":"a"})", {}, {"certified_because"}},
          {"node_faults_seen",  // as version 9 wrote them, and the two below
           R"({"node":"h01","faults":[{"id":"6f","check":"gpu.xid","device":"gpu3","serial":"165",)"
           R"("class":"node","code":"79","remedy":"reboot","on_recurrence":"rma","stops_job":true,)"
           R"("in_doubt":false,"enforced":true,"since":5,"what":"w","evidence":[]}],)"
           R"("settled":true})",
           {R"("on_recurrence":"rma")", R"("shared_cause":false)"},
           {"owner"}},
          {"node_faulted",
           R"({"node":"h01","fault":{"id":"6f","remedy":"drain"},"reason":"r"})",
           {},
           {"owner"}},
          {"breaker_opened",
           R"({"target":"ib.phys","reason":"why","is_check":true})",
           {R"("window":600000)", R"("nodes":[])"},
           {}},
          {"job_ended",
           R"({"job":"a","state":"Failed"})",
           {R"("state":"Failed")", R"("exit_code":0)"},
           {}}}) {
    INFO(kind);
    const auto record = decode_record(kind, payload, from_ms(1));
    REQUIRE(record);
    const std::string now = encode_record(*record).payload;
    for (const std::string& each : says) CHECK_THAT(now, ContainsSubstring(each));
    for (const std::string& each : says_not) CHECK_THAT(now, !ContainsSubstring(each));
  }
  CHECK_FALSE(decode_record("node_checked", R"({"job":"a","newest_certified":7})", from_ms(1)));
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
    CHECK(spec(kind, R"({"other":{"hang.timeout":"off"}})").hang.off);
    const auto learned = spec(kind, R"({"other":{"hang.timeout":"auto"}})");
    CHECK_FALSE(learned.hang.off);
    CHECK(learned.other.empty());
    CHECK_FALSE(spec(kind, R"({"other":{"checkpoint.keep":"3"}})").hang.off);
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
