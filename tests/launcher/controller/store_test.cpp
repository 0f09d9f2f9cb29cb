#include "launcher/controller/store.h"

#include <sqlite3.h>

#include <fstream>

#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

namespace muster {
namespace {

JobRow a_row(const std::string& name, std::int64_t submitted_ms) {
  JobRow row;
  row.name = name;
  row.state = "Running";
  row.compute = "lab";
  row.submitted_at = from_ms(submitted_ms);
  row.nodes = "h01,h02";
  row.tags = R"({"team":"vision"})";
  return row;
}

Record submitted(const std::string& name) {
  JobSubmitted record;
  record.job = {name};
  record.spec.name = name;
  return {from_ms(1), Observation{record}};
}

std::unique_ptr<Store> open_store(const Scratch& scratch, Store::Mode mode) {
  auto store = Store::open(scratch.path(), mode);
  REQUIRE(store);
  return std::move(*store);
}

void set_version(const Scratch& scratch, int version) {
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open((scratch.path() / "muster.db").c_str(), &handle) == SQLITE_OK);
  const std::string sql = "PRAGMA user_version=" + std::to_string(version);
  sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr);
  sqlite3_close(handle);
}

TEST_CASE("records and rows are there after the store is opened again") {
  Scratch scratch;
  {
    auto store = open_store(scratch, Store::Mode::read_write);
    REQUIRE(store->append({submitted("a")}, {a_row("a", 10)}));
  }
  auto store = open_store(scratch, Store::Mode::read_only);
  CHECK(store->records_of({"a"})->size() == 1);
  const auto row = store->job({"a"});
  REQUIRE(row);
  REQUIRE(*row);
  CHECK((*row)->compute == "lab");
  CHECK_FALSE((*row)->ended_at);
}

TEST_CASE("only jobs that have not ended are replayed") {
  Scratch scratch;
  auto store = open_store(scratch, Store::Mode::read_write);
  JobRow ended = a_row("old", 1);
  ended.ended_at = from_ms(5);
  REQUIRE(store->append({submitted("old")}, {ended}));
  REQUIRE(store->append({submitted("live")}, {a_row("live", 2)}));
  const auto drain = [](const char* node, bool drained) {
    return Record{from_ms(3), Observation{NodeDrainSet{{node}, drained, "why"}}};
  };
  REQUIRE(store->append({drain("h01", true), drain("h01", false), drain("h02", true)}, {}));
  const auto records = store->load_live();
  REQUIRE(records);
  REQUIRE(records->size() == 3);
  const auto& last = std::get<NodeDrainSet>(std::get<Observation>(records->back().what));
  CHECK(last.node.value == "h02");
}

TEST_CASE("jobs are filtered and come newest first") {
  Scratch scratch;
  auto store = open_store(scratch, Store::Mode::read_write);
  JobRow other = a_row("c", 30);
  other.compute = "local";
  other.nodes = "h011";
  other.tags = "{}";
  REQUIRE(store->append({}, {a_row("a", 10), a_row("b", 20), other}));
  JobFilter filter;
  auto rows = store->jobs(filter);
  REQUIRE(rows);
  REQUIRE(rows->size() == 3);
  CHECK(rows->front().name == "c");
  filter.compute = "LAB";
  CHECK(store->jobs(filter)->size() == 2);
  filter = {};
  filter.node = "h01";
  CHECK(store->jobs(filter)->size() == 2);
  filter = {};
  filter.tag = "team=vision";
  CHECK(store->jobs(filter)->size() == 2);
  filter.limit = 1;
  CHECK(store->jobs(filter)->size() == 1);
}

TEST_CASE("a prefix finds its jobs without wildcards") {
  Scratch scratch;
  auto store = open_store(scratch, Store::Mode::read_write);
  REQUIRE(store->append({}, {a_row("a_b", 1), a_row("axb", 2)}));
  CHECK(store->names_starting_with("a_", 5)->size() == 1);
  CHECK(store->names_starting_with("a", 5)->size() == 2);
}

TEST_CASE("a store of a newer muster is refused by readers and writers") {
  Scratch scratch;
  open_store(scratch, Store::Mode::read_write).reset();
  set_version(scratch, 99);
  for (const auto mode : {Store::Mode::read_only, Store::Mode::read_write}) {
    const auto store = Store::open(scratch.path(), mode);
    REQUIRE_FALSE(store);
    CHECK_THAT(store.error().message, ContainsSubstring("newer muster"));
  }
}

TEST_CASE("a file without tables is migrated to the current version") {
  Scratch scratch;
  std::ofstream(scratch.path() / "muster.db").close();
  CHECK(open_store(scratch, Store::Mode::read_only)->jobs({})->empty());
  auto store = open_store(scratch, Store::Mode::read_write);
  CHECK(store->append({submitted("a")}, {a_row("a", 1)}));
}

TEST_CASE("a file that is no database is named in the error") {
  Scratch scratch;
  std::ofstream(scratch.path() / "muster.db") << std::string(4096, 'x');
  const auto store = Store::open(scratch.path(), Store::Mode::read_write);
  REQUIRE_FALSE(store);
  CHECK_THAT(store.error().message, ContainsSubstring("muster.db"));
}

TEST_CASE("only ended jobs are archived") {
  Scratch scratch;
  auto store = open_store(scratch, Store::Mode::read_write);
  JobRow ended = a_row("old", 1);
  ended.ended_at = from_ms(5);
  REQUIRE(store->append({}, {ended, a_row("live", 2)}));
  CHECK(store->set_archived({"old"}, true));
  CHECK_FALSE(store->set_archived({"live"}, true));
  CHECK(store->jobs({})->size() == 1);
}

}  // namespace
}  // namespace muster
