// Stores of other versions of muster. `store_v1.sql` was written by one that knew only version 1,
// `store_v2.sql` by one that knew version 2; `store_v6.sql` is as version 6 would have written it.
#include <sqlite3.h>

#include <fstream>
#include <sstream>

#include "launcher/controller/store/schema.h"
#include "launcher/controller/store/store.h"
#include "scheduler/apply/apply.h"
#include "scheduler/model/record.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"
#include "tests/sim/model/dump.h"

namespace muster {
namespace {

// A store that is looked at from outside.
class Database {
 public:
  explicit Database(const Scratch& scratch) {
    REQUIRE(sqlite3_open((scratch.path() / "muster.db").c_str(), &handle_) == SQLITE_OK);
  }
  ~Database() { sqlite3_close(handle_); }
  void run(const std::string& sql) {
    REQUIRE(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  std::string text(const std::string& sql) {
    std::string all;
    const auto add = [](void* out, int count, char** values, char**) {
      for (int i = 0; i < count; ++i) *static_cast<std::string*>(out) += values[i];
      *static_cast<std::string*>(out) += "\n";
      return 0;
    };
    REQUIRE(sqlite3_exec(handle_, sql.c_str(), add, &all, nullptr) == SQLITE_OK);
    return all;
  }

 private:
  sqlite3* handle_ = nullptr;
};

// Takes a current file back to what one of version 13 had, before its version is set.
const std::string without_later =
    "DROP TABLE summary; ALTER TABLE record DROP COLUMN keep;"
    " ALTER TABLE record DROP COLUMN keep_key; ";

constexpr const char* all_records =
    "SELECT seq || at_ms || job || node || kind || payload FROM record ORDER BY seq";

void write_version(int version, const Scratch& scratch) {
  std::ostringstream sql;
  sql << std::ifstream(MUSTER_SOURCE_DIR "/tests/launcher/controller/store_v" +
                       std::to_string(version) + ".sql")
             .rdbuf();
  Database(scratch).run(sql.str());
}

// The file becomes a current one, and none of its records is lost or changed.
std::unique_ptr<Store> migrate(const Scratch& scratch) {
  const std::string before = Database(scratch).text(all_records);
  auto store = Store::open(scratch.path(), Store::Mode::read_write);
  REQUIRE(store);
  CHECK(Database(scratch).text("PRAGMA user_version") == std::to_string(store_version) + "\n");
  CHECK(Database(scratch).text(all_records) == before);
  return std::move(*store);
}

State state_from(const std::vector<Record>& records) {
  State state;
  for (const Record& record : records) apply(state, record);
  return state;
}

State live_state(const Store& store) {
  const auto records = store.load_live();
  REQUIRE(records);
  return state_from(*records);
}

TEST_CASE("readers read a store of version 1 as it is") {
  Scratch scratch;
  write_version(1, scratch);
  auto store = Store::open(scratch.path(), Store::Mode::read_only);
  REQUIRE(store);
  const auto rows = (*store)->jobs({});
  REQUIRE(rows);
  REQUIRE(rows->size() == 3);
  CHECK(rows->front().name == "running");
  CHECK(rows->front().nodes_max == 0);
  CHECK((*store)->records_of({"failed"})->size() == 27);
  CHECK((*store)->load_live());
  CHECK(Database(scratch).text("PRAGMA user_version") == "1\n");
}

TEST_CASE("a store of version 1 becomes a current one and its job goes on") {
  Scratch scratch;
  write_version(1, scratch);
  const auto store = migrate(scratch);
  const auto row = store->job({"finished"});
  REQUIRE(row);
  CHECK((*row)->tags == R"({"team":"vision"})");
  CHECK_FALSE((*row)->unclean);
  CHECK((*row)->nodes_min == 0);
  const State state = live_state(*store);
  REQUIRE(state.jobs.size() == 1);
  const Attempt* attempt = active_attempt(state.jobs.at({"running"}));
  REQUIRE(attempt != nullptr);
  CHECK(std::holds_alternative<Running>(attempt->phase));
  CHECK(attempt->nodes.at(0).agent);
  CHECK(state.nodes.at({"local"}).drained);
  const LinkUp* agent = last_agent(state.nodes.at(attempt->nodes.at(0).id));
  REQUIRE(agent != nullptr);
  CHECK(agent->gpus == 0);
}

TEST_CASE("an ended job of version 1 whose processes did not die is unclean after the migration") {
  Scratch scratch;
  write_version(1, scratch);
  Database(scratch).run(
      "INSERT INTO record(at_ms, job, node, kind, payload) VALUES(1, 'failed', 'local', "
      "'node_clean', '{\"job\":\"failed\",\"attempt\":1,\"unkillable\":[\"7 dd\"]}')");
  const auto store = migrate(scratch);
  CHECK((*store->job({"failed"}))->unclean);
  CHECK_FALSE((*store->job({"finished"}))->unclean);
}

TEST_CASE("a migration that fails leaves the file as it was") {
  Scratch scratch;
  write_version(1, scratch);
  Database(scratch).run("DROP INDEX job_live");  // the migration wants to drop it, after its column
  CHECK_FALSE(Store::open(scratch.path(), Store::Mode::read_write));
  CHECK(Database(scratch).text("PRAGMA user_version") == "1\n");
  CHECK(Database(scratch).text("SELECT count(*) FROM pragma_table_info('job')") == "18\n");
}

TEST_CASE("a store of version 2 is read as it is, and its rules as they were meant") {
  Scratch scratch;
  write_version(2, scratch);
  auto store = Store::open(scratch.path(), Store::Mode::read_only);
  REQUIRE(store);
  const auto records = (*store)->records_of({"failed"});
  REQUIRE(records);
  const auto& rules = record_as<JobSubmitted>(records->front())->spec.muster.rules;
  REQUIRE(rules.size() == 4);
  REQUIRE(rules[1].exit_codes.size() == 1);
  CHECK(rules[1].exit_codes[0].low == 42);
  CHECK(rules[1].exit_codes[0].high == 42);
  CHECK(rules[1].stderr_regex == "no tokens");
  CHECK(rules[1].enforce);
  CHECK(rules[2].signals == std::vector<int>{9});
  REQUIRE(rules[3].xids.size() == 1);
  CHECK(rules[3].xids[0].holds(79));
  CHECK(Database(scratch).text("PRAGMA user_version") == "2\n");
}

TEST_CASE("a store of version 2 becomes a current one and its job goes on") {
  Scratch scratch;
  write_version(2, scratch);
  const auto store = migrate(scratch);
  const State state = live_state(*store);
  CHECK(state.jobs.at({"running"}).spec.muster.rules.size() == 1);
  CHECK(active_attempt(state.jobs.at({"running"})));
}

TEST_CASE("a store of version 6 becomes a current one and its fixed job goes on as one") {
  Scratch scratch;
  write_version(6, scratch);
  const auto store = migrate(scratch);
  const State state = live_state(*store);
  const Job& job = state.jobs.at({"running"});
  CHECK_FALSE(is_elastic(job.spec));
  const Attempt* attempt = active_attempt(job);
  REQUIRE(attempt != nullptr);
  CHECK(std::holds_alternative<Running>(attempt->phase));
  CHECK(attempt->ranks.size() == 3);
  CHECK_FALSE(attempt->has_members());
  for (const AttemptNode& node : attempt->nodes) CHECK(is_active(node));
}

// Tables are those of version 10; records lack what came with it.
TEST_CASE("a store of version 9 becomes a current one and what its nodes had goes on") {
  Scratch scratch;
  REQUIRE(Store::open(scratch.path(), Store::Mode::read_write));
  Database(scratch).run(without_later + R"sql(PRAGMA user_version=9;
INSERT INTO record(at_ms, job, node, kind, payload) VALUES
 (5, '', 'h01', 'node_faults_seen', '{"node":"h01","settled":true,"faults":[{"id":"6f",
  "check":"gpu.xid","device":"gpu3","serial":"165","class":"node","code":"32","remedy":"warn",
  "on_recurrence":"reset","stops_job":false,"in_doubt":false,"enforced":true,"since":4,
  "what":"XID 32","evidence":[]}]}'),
 (6, '', 'h01', 'node_faults_seen', '{"node":"h01","settled":true,"faults":[]}'),
 (7, '', 'h02', 'node_faulted', '{"node":"h02","reason":"muster:node:ib.phys:p 6a","fault":
  {"id":"6a","check":"ib.phys","device":"p","class":"node","remedy":"drain","since":7}}'),
 (8, '', '', 'breaker_opened', '{"target":"ib.phys","reason":"why","is_check":true}'))sql");
  const auto store = migrate(scratch);
  const State state = live_state(*store);
  CHECK(state.nodes.at({"h02"}).fault_drain);
  CHECK(state.nodes.at({"h01"}).faults.empty());
  CHECK(state.breakers.at("ib.phys").open_since);
  REQUIRE(state.remedies.size() == 1);  // the breaker's ten minutes made the other void
  CHECK(state.remedies.front().serial == "165");
}

// Tables are those of version 11; records lack what came with it.
TEST_CASE("a store of version 10 becomes a current one, and what is reset then is remembered") {
  Scratch scratch;
  REQUIRE(Store::open(scratch.path(), Store::Mode::read_write));
  Database(scratch).run(without_later + R"sql(PRAGMA user_version=10;
INSERT INTO record(at_ms, job, node, kind, payload) VALUES
 (7, '', 'h02', 'node_faulted', '{"node":"h02","reason":"muster:node:gpu.xid:gpu3 6a","fault":
  {"id":"6a","check":"gpu.xid","device":"gpu3","serial":"165","class":"node","code":"95",
  "remedy":"reset","since":7,"what":"XID 95"}}'))sql");
  const auto store = migrate(scratch);
  RemedyBegun begun;
  begun.node = {"h02"};
  begun.id = "6a.8";
  begun.fault.id = "6a";
  begun.fault.since = from_ms(7);
  begun.argv = {"smi", "-i", "3"};
  begun.before = {{from_ms(1), "5b", RemedyStep::reboot, "its command exited with code 1"}};
  REQUIRE(store->append({{from_ms(8), Decision{begun}}}, {}));
  State state = live_state(*store);
  REQUIRE(state.nodes.at({"h02"}).remedy);
  CHECK(state.nodes.at({"h02"}).remedy->what.argv == begun.argv);
  CHECK(state.nodes.at({"h02"}).remedies.size() == 2);
  CHECK(state.nodes.at({"h02"}).fault_drain);
  RemedyOver over;
  over.node = begun.node;
  over.id = begun.id;
  over.failure = "it is in use";
  REQUIRE(store->append(
      {{from_ms(9), Observation{RemedyEnded{begun.node, begun.id, {3, 0}, "", {"in use"}}}},
       {from_ms(10), Decision{over}}},
      {}));
  state = live_state(*store);
  CHECK_FALSE(state.nodes.at({"h02"}).remedy);
  CHECK(state.nodes.at({"h02"}).remedies.back().failure == "it is in use");
}

// Tables are those of version 12; records lack what came with it.
TEST_CASE("a store of version 11 becomes a current one, and what a check drains no more is kept") {
  Scratch scratch;
  REQUIRE(Store::open(scratch.path(), Store::Mode::read_write));
  Database(scratch).run(without_later + R"sql(PRAGMA user_version=11;
INSERT INTO record(at_ms, job, node, kind, payload) VALUES
 (7, '', 'h02', 'node_faulted', '{"node":"h02","reason":"muster:node:ib.phys:p 6a","fault":
  {"id":"6a","check":"ib.phys","device":"p","serial":"165","class":"node","remedy":"drain",
  "since":7}}'),
 (8, '', '', 'breaker_opened', '{"target":"ib.phys","reason":"why","is_check":true,
  "window":600000}'))sql");
  const auto store = migrate(scratch);
  CHECK(checks_withheld(live_state(*store), "lab") == std::vector<std::string>{"ib.phys"});
  CHECK(live_state(*store).remedies.empty());
  const Decision opened{BreakerOpened{"gpu.xid@lab", "why", true, Seconds{600}, {{"h02"}}}};
  REQUIRE(store->append({{from_ms(9), opened}}, {}));
  REQUIRE(store->append({{from_ms(10), Observation{BreakerReset{"ib.phys"}}}}, {}));
  CHECK(checks_withheld(live_state(*store), "lab") == std::vector<std::string>{"gpu.xid"});
  CHECK(checks_withheld(live_state(*store), "farm").empty());
}

TEST_CASE("people's notes wait until a controller has migrated the file") {
  Scratch scratch;
  write_version(1, scratch);
  const auto store = Store::open(scratch.path(), Store::Mode::annotate);
  REQUIRE_FALSE(store);
  CHECK_THAT(store.error().message, ContainsSubstring("older muster"));
}

TEST_CASE("a store of a newer muster is refused by readers and writers, and not touched") {
  Scratch scratch;
  write_version(1, scratch);
  Database(scratch).run("PRAGMA user_version=99");
  for (const auto mode : {Store::Mode::read_only, Store::Mode::read_write, Store::Mode::annotate}) {
    const auto store = Store::open(scratch.path(), mode);
    REQUIRE_FALSE(store);
    CHECK_THAT(store.error().message, ContainsSubstring("newer muster"));
    CHECK_THAT(store.error().message, ContainsSubstring("99"));
    CHECK_THAT(store.error().message, ContainsSubstring("muster.db"));
  }
  CHECK(Database(scratch).text("PRAGMA user_version") == "99\n");
}

TEST_CASE("a record of a newer muster in the journal is refused, not left out") {
  Scratch scratch;
  write_version(1, scratch);
  Database(scratch).run(
      "INSERT INTO record(at_ms, job, node, kind, payload) "
      "VALUES(1, 'running', '', 'moon_phase', '{}')");
  auto store = Store::open(scratch.path(), Store::Mode::read_write);
  REQUIRE(store);
  const auto records = (*store)->load_live();
  REQUIRE_FALSE(records);
  CHECK_THAT(records.error().message, ContainsSubstring("moon_phase"));
  Database(scratch).run(
      "UPDATE record SET kind = 'job_waits', payload = '{\"job\":\"running\",\"moon\":1}' "
      "WHERE kind = 'moon_phase'");
  const auto again = (*store)->load_live();
  REQUIRE_FALSE(again);
  CHECK_THAT(again.error().message, ContainsSubstring("moon"));
}

TEST_CASE("a file without tables is migrated to the current version") {
  Scratch scratch;
  std::ofstream(scratch.path() / "muster.db").close();
  auto reader = Store::open(scratch.path(), Store::Mode::read_only);
  REQUIRE(reader);
  CHECK((*reader)->jobs({})->empty());
  CHECK(Store::open(scratch.path(), Store::Mode::read_write));
}

TEST_CASE("an empty store beside jobs is no new one: it is refused and left as it is") {
  Scratch scratch;
  const auto file = scratch.path() / "muster.db";
  std::filesystem::create_directories(scratch.path() / "jobs" / "lost");
  std::ofstream(file).close();
  for (const auto mode : {Store::Mode::read_only, Store::Mode::read_write}) {
    const auto store = Store::open(scratch.path(), mode);
    REQUIRE_FALSE(store);
    CHECK_THAT(store.error().message, ContainsSubstring("is empty, and there are jobs in"));
  }
  CHECK(std::filesystem::file_size(file) == 0);
  // One that is gone is none either, where a job ran.
  std::filesystem::remove(file);
  std::filesystem::create_directories(scratch.path() / "jobs" / "lost" / "attempt-0");
  for (const auto mode : {Store::Mode::read_only, Store::Mode::read_write}) {
    const auto store = Store::open(scratch.path(), mode);
    REQUIRE_FALSE(store);
    CHECK_THAT(store.error().message, ContainsSubstring("is missing, and there are jobs in"));
  }
  CHECK_FALSE(std::filesystem::exists(file));
  std::filesystem::remove(scratch.path() / "jobs" / "lost" / "attempt-0");
  // Before the first controller a job's directory is there without a store.
  CHECK(Store::open(scratch.path(), Store::Mode::read_only));
  CHECK(Store::open(scratch.path(), Store::Mode::read_write));
  CHECK_FALSE(std::filesystem::exists(scratch.path() / "muster.db.new"));
}

TEST_CASE("a store that a killed controller was about to make is made by the next one") {
  Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "jobs" / "first");
  std::ofstream(scratch.path() / "muster.db.new") << "half";
  std::ofstream(scratch.path() / "muster.db.new-journal") << "half";
  CHECK(Store::open(scratch.path(), Store::Mode::read_write));
  CHECK(Store::open(scratch.path(), Store::Mode::read_only));
}

TEST_CASE("a store from before summaries is read as it is, and migrated keeps all its records") {
  Scratch scratch;
  write_version(1, scratch);
  REQUIRE(Store::open(scratch.path(), Store::Mode::read_write));
  Database(scratch).run(without_later + "PRAGMA user_version=13");
  const auto reader = Store::open(scratch.path(), Store::Mode::read_only);
  REQUIRE(reader);
  CHECK_FALSE(*(*reader)->summary_of({"finished"}));
  CHECK((*reader)->ended_before(from_ms(4'000'000'000'000))->empty());

  const auto store = migrate(scratch);
  const auto ended = store->ended_before(from_ms(4'000'000'000'000));
  REQUIRE(ended);
  REQUIRE_FALSE(ended->empty());
  const JobId oldest{ended->front().name};
  CHECK(*store->reduce(oldest, from_ms(4'000'000'000'000), "{}"));
  CHECK(store->records_of(oldest)->empty());
}

std::vector<Record> a_life_of_nodes() {
  const NodeId h01{"h01"}, h02{"h02"};
  std::vector<Record> journal;
  const auto add = [&](int hour, auto what) {
    const Time at = from_ms(hour * 3'600'000LL);
    if constexpr (std::is_constructible_v<Observation, decltype(what)>) {
      journal.push_back({at, Observation{std::move(what)}});
    } else {
      journal.push_back({at, Decision{std::move(what)}});
    }
  };
  const auto fault = [](const char* id, int hour, Remedy remedy) {
    NodeFault made;
    made.id = made.serial = id;
    made.check = "gpu.xid";
    made.code = "32";
    made.remedy = remedy;
    made.on_recurrence = Remedy::reset;
    made.since = from_ms(hour * 3'600'000LL);
    return made;
  };
  const auto begun = [&](const char* id, int hour) {
    RemedyBegun record;
    record.node = h01;
    record.id = id;
    record.fault = fault("b3", hour, Remedy::reset);
    return record;
  };
  const auto over = [&](const char* id) {
    RemedyOver record;
    record.node = h01;
    record.id = id;
    record.failure = "it is in use";
    return record;
  };
  JobSubmitted old;
  old.job = {"old"};
  add(0, old);
  add(0, JobEnded{{"old"}, JobEndState::completed, 0, ""});
  add(1, LinkUp{h01, "boot1", "agent1", "h01", "10.0.0.1"});
  add(1, LinkUp{h01, "boot1", "agent2", "h01", "10.0.0.1"});
  add(1, LinkUp{h02, "boot7", "agent7", "h02", "10.0.0.2"});
  add(2, NodeDrainSet{h01, true, "a fan"});
  add(3, NodeDrainSet{h01, false, ""});
  add(4, NodeDrainSet{h02, false, ""});
  add(5, NodeDrainSet{h02, true, "a disk"});
  add(6, NodeFaultsSeen{h01, {fault("b1", 6, Remedy::warn)}, true});
  add(7, NodeFaulted{h02, fault("b2", 7, Remedy::reboot), "muster:x"});
  add(8, NodeFaultOver{h02, "muster:x"});
  add(9, NodeFaultsSeen{h01, {}, true});
  add(800, NodeFaultsSeen{h01, {fault("b3", 800, Remedy::reset)}, true});
  add(801, NodeFaultsSeen{h01, {fault("b4", 801, Remedy::warn), fault("b3", 800, Remedy::reset)}});
  add(802, NodeFaultsSeen{h01, {fault("b3", 800, Remedy::reset)}, true});
  add(802, NodeFaulted{h01, fault("b3", 800, Remedy::reset), "muster:y"});
  for (const auto& [id, hour] : {std::pair("b3.1", 803), std::pair("b3.2", 805)}) {
    add(hour, begun(id, hour));
    add(hour, RemedyEnded{h01, id, {3, 0}, "", {"in use"}});
    add(hour + 1, over(id));
  }
  add(807, NodeSuspected{h02, {{{"old"}, from_ms(1), "was lost"}}});
  add(807, NodeSetAside{h02, "why", from_ms(4'000'000'000)});
  add(808, BreakerOpened{"lab", "storage"});
  add(808, BreakerOpened{"farm", "power"});
  add(809, BreakerReset{"farm"});
  add(809, BreakerOpened{"ib.phys@lab", "a switch", true, Seconds{600}, {h02}});
  add(810, NodeNotice{h01, Seconds{60}, "the host", false, "boot1", "agent2"});
  add(811, LinkDown{h02, {LinkFailureKind::lost, "gone"}});
  return journal;
}

// Of nodes and breakers.
std::string state_of(const std::vector<Record>& records) {
  State state = state_from(records);
  state.next_order = 0;  // which counts ended jobs, too
  return describe(state);
}

std::string read_back(const Scratch& scratch, Store::Mode mode) {
  const auto store = Store::open(scratch.path(), mode);
  REQUIRE(store);
  const auto records = (*store)->load_live();
  REQUIRE(records);
  CHECK(records->size() < a_life_of_nodes().size());
  return state_of(*records);
}

// A file as it was before records said how long they are read back, and the same one migrated.
TEST_CASE(
    "what is read back is the same before and after records say so, and the whole journal's") {
  Scratch scratch;
  const std::vector<Record> journal = a_life_of_nodes();
  {
    const auto store = Store::open(scratch.path(), Store::Mode::read_write);
    REQUIRE(store);
    JobRow ended;
    ended.name = "old";
    ended.ended_at = from_ms(50);
    REQUIRE((*store)->append(journal, {ended}));
  }
  const std::string written =
      Database(scratch).text("SELECT seq || keep || keep_key FROM record ORDER BY seq");
  CHECK(written == Database(scratch).text("SELECT seq || " + std::string(keep_by_kind) + " || " +
                                          keep_key_by_kind + " FROM record ORDER BY seq"));
  const std::string whole = state_of(journal);
  CHECK(read_back(scratch, Store::Mode::read_only) == whole);
  Database(scratch).run(without_later + "PRAGMA user_version=13");
  CHECK(read_back(scratch, Store::Mode::read_only) == whole);
  CHECK(read_back(scratch, Store::Mode::read_write) == whole);
  CHECK(Database(scratch).text("SELECT seq || keep || keep_key FROM record ORDER BY seq") ==
        written);
}

}  // namespace
}  // namespace muster
