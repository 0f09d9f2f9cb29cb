#include "launcher/controller/store/store.h"

#include <sqlite3.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "scheduler/apply/apply.h"
#include "scheduler/model/record.h"
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
  row.nodes_min = 2;
  row.nodes_max = 4;
  row.tags = R"({"team":"vision"})";
  return row;
}

Record submitted(const std::string& name) {
  JobSubmitted record;
  record.job = {name};
  record.spec.name = name;
  return {from_ms(1), Observation{record}};
}

Record link_up(const std::string& node, const std::string& agent) {
  LinkUp up;
  up.node = {node};
  up.agent_id = agent;
  return {from_ms(1), Observation{up}};
}

std::unique_ptr<Store> open_store(const Scratch& scratch, Store::Mode mode) {
  auto store = Store::open(scratch.path(), mode);
  REQUIRE(store);
  return std::move(*store);
}

struct OpenStore {
  Scratch scratch;
  std::unique_ptr<Store> store = open_store(scratch, Store::Mode::read_write);
};

TEST_CASE("a home that is no directory is an error, an absent one is an empty store") {
  Scratch scratch;
  std::ofstream(scratch.path() / "file") << "text";
  const auto refused = Store::open(scratch.path() / "file", Store::Mode::read_only);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("file/muster.db: Not a directory"));
  CHECK_THAT(refused.error().message, ContainsSubstring("MUSTER_HOME"));
  CHECK(Store::open(scratch.path() / "absent", Store::Mode::read_only));
  CHECK(Store::open(scratch.path(), Store::Mode::read_only));
  std::filesystem::permissions(scratch.path(), std::filesystem::perms::all);
  CHECK_FALSE(Store::open(scratch.path(), Store::Mode::read_only));
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
  CHECK((*row)->nodes_min == 2);
  CHECK((*row)->nodes_max == 4);
  CHECK_FALSE((*row)->ended_at);
}

TEST_CASE_METHOD(OpenStore, "only jobs that have not ended are replayed") {
  JobRow ended = a_row("old", 1);
  ended.ended_at = from_ms(5);
  REQUIRE(store->append({submitted("old")}, {ended}));
  REQUIRE(store->append({submitted("live")}, {a_row("live", 2)}));
  const auto drain = [](const char* node, bool drained) {
    return Record{from_ms(3), Observation{NodeDrainSet{{node}, drained, "why"}}};
  };
  REQUIRE(store->append({drain("h01", true), drain("h02", true)}, {}));
  const auto records = store->load_live();
  REQUIRE(records);
  REQUIRE(records->size() == 3);
  const auto& last = std::get<NodeDrainSet>(std::get<Observation>(records->back().what));
  CHECK(last.node.value == "h02");
}

TEST_CASE_METHOD(OpenStore,
                 "without live jobs only the newest record of each kind about a node is replayed") {
  REQUIRE(store->append({link_up("h01", "a1"), link_up("h01", "a2"), link_up("h02", "b1")}, {}));
  const auto records = store->load_live();
  REQUIRE(records);
  REQUIRE(records->size() == 2);
  CHECK(std::get<LinkUp>(std::get<Observation>(records->front().what)).agent_id == "a2");
}

TEST_CASE_METHOD(
    OpenStore,
    "the agent that started a job's ranks is replayed, however often others answered since") {
  REQUIRE(store->append({link_up("h01", "a0"), link_up("h01", "a1")}, {}));
  REQUIRE(store->append({submitted("live"), link_up("h01", "a1")}, {a_row("live", 2)}));
  REQUIRE(store->append({link_up("h01", "a2"), link_up("h01", "a2")}, {}));
  const auto records = store->load_live();
  REQUIRE(records);
  std::string agents;
  for (const Record& record : *records) {
    if (const auto* up = record_as<LinkUp>(record)) agents += up->agent_id + " ";
  }
  CHECK(agents == "a1 a1 a2 a2 ");
}

TEST_CASE_METHOD(
    OpenStore,
    "what is remembered of nodes and targets outlives jobs, and so does who cleared them") {
  const auto suspected = [](const char* node) {
    const std::vector<NodeEvidence> evidence{{{"a"}, from_ms(1), "was lost"}};
    return Record{from_ms(1), Decision{NodeSuspected{{node}, evidence}}};
  };
  const auto aside = [](const char* node) {
    return Record{from_ms(1), Decision{NodeSetAside{{node}, "why", from_ms(1'000'000'000)}}};
  };
  const auto drain = [](const char* node, bool drained) {
    return Record{from_ms(2), Observation{NodeDrainSet{{node}, drained, "why"}}};
  };
  REQUIRE(store->append({suspected("h01"), aside("h01"), suspected("h02"), aside("h02")}, {}));
  REQUIRE(store->append({drain("h02", false), drain("h02", true), drain("h02", true)}, {}));
  const Decision one{BreakerOpened{"lab", "storage"}}, other{BreakerOpened{"farm", "power"}};
  REQUIRE(store->append({{from_ms(3), one}, {from_ms(3), other}}, {}));
  REQUIRE(store->append({{from_ms(4), Observation{BreakerReset{"farm"}}}}, {}));
  const auto records = store->load_live();
  REQUIRE(records);
  State state;
  for (const Record& record : *records) apply(state, record);
  CHECK(state.nodes.at({"h01"}).evidence.size() == 1);
  CHECK(state.nodes.at({"h01"}).set_aside->until == from_ms(1'000'000'000));
  CHECK(state.nodes.at({"h02"}).drained);
  CHECK(state.nodes.at({"h02"}).evidence.empty());
  CHECK(state.nodes.at({"h02"}).set_aside->until == from_ms(2));
  CHECK(state.breakers.at("lab").open_since);
  CHECK_FALSE(state.breakers.at("farm").open_since);
  CHECK(state.breakers.at("farm").reset_at == from_ms(4));
}

// The core gives nodes that share a fault time to report it, from when each did first.
TEST_CASE_METHOD(OpenStore, "since when faults are told is the same after a restart") {
  const auto seen = [](std::int64_t ms, const char* node, std::vector<std::string> ids) {
    NodeFaultsSeen record{{node}, {}, true};
    for (const std::string& id : ids) record.faults.emplace_back().id = id;
    return Record{from_ms(ms), Observation{record}};
  };
  std::vector<Record> journal{submitted("old")};
  const std::vector<Record> told{
      seen(1, "h01", {"a"}),      seen(2, "h02", {"a", "b"}), seen(3, "h01", {}),
      seen(4, "h01", {"b"}),      seen(5, "h01", {"a", "b"}), seen(6, "h02", {"b"}),
      seen(7, "h01", {"b", "a"}), seen(8, "h02", {"b", "a"}), seen(9, "h01", {"c", "a", "b"}),
      seen(10, "h03", {"a"})};
  journal.insert(journal.end(), told.begin(), told.end());
  JobRow ended = a_row("old", 1);
  ended.ended_at = from_ms(11);
  const bool has_live_job = GENERATE(false, true);
  REQUIRE(store->append(journal, {ended}));
  if (has_live_job) {
    const Record later = seen(13, "h03", {"b", "a"});
    REQUIRE(store->append({submitted("live"), later}, {a_row("live", 12)}));
    journal.insert(journal.end(), {submitted("live"), later});
  }
  State before, after;
  for (const Record& record : journal) apply(before, record);
  const auto records = store->load_live();
  REQUIRE(records);
  for (const Record& record : *records) apply(after, record);
  using Told = std::map<std::string, Time>;
  CHECK(before.nodes.at({"h01"}).faults_told ==
        Told{{"a", from_ms(5)}, {"b", from_ms(4)}, {"c", from_ms(9)}});
  CHECK(before.nodes.at({"h02"}).faults_told == Told{{"a", from_ms(8)}, {"b", from_ms(2)}});
  for (const char* node : {"h01", "h02", "h03"}) {
    CAPTURE(node);
    CHECK(after.nodes.at({node}).faults_told == before.nodes.at({node}).faults_told);
  }
}

// What boards called for, also in warnings that no later record of the node tells of any more.
TEST_CASE_METHOD(OpenStore, "remedies are remembered over a restart as if there had been none") {
  const auto warning = [](const char* board, std::int64_t ms) {
    NodeFault fault;
    fault.id = board;
    fault.serial = board;
    fault.check = "gpu.xid";
    fault.code = "32";
    fault.remedy = Remedy::warn;
    fault.on_recurrence = Remedy::reset;
    fault.since = from_ms(ms);
    return fault;
  };
  NodeFault mild = warning("b7", 1);
  mild.on_recurrence.reset();
  NodeFault worse = warning("b3", 5);
  worse.remedy = Remedy::reboot;
  const auto seen = [](std::int64_t ms, std::vector<NodeFault> faults, const char* owner) {
    NodeFaultsSeen record{{"h01"}, std::move(faults), true};
    if (*owner != 0) record.owner = JobId{owner};
    return Record{from_ms(ms), Observation{record}};
  };
  std::vector<Record> journal{submitted("old")};
  journal.push_back({from_ms(1), Decision{AttemptPlaced{{"old"}, {0}, {{"h01"}}, ""}}});
  journal.push_back(seen(2, {warning("b1", 2), mild}, "old"));
  journal.push_back(seen(3, {warning("b2", 3), warning("b1", 2)}, "other"));
  journal.push_back({from_ms(5), Decision{NodeFaulted{{"h01"}, worse, "muster:x", JobId{"old"}}}});
  journal.push_back(seen(6, {mild}, ""));
  journal.push_back(seen(7, {}, ""));
  journal.push_back({from_ms(8), Decision{JobEnded{{"old"}, JobEndState::completed, 0, ""}}});
  JobRow ended = a_row("old", 1);
  ended.ended_at = from_ms(8);
  REQUIRE(store->append(journal, {ended}));
  State before, after;
  for (const Record& record : journal) apply(before, record);
  const auto records = store->load_live();
  REQUIRE(records);
  CHECK(records->size() == 4);  // those of warnings that count, the drain and the newest
  for (const Record& record : *records) apply(after, record);
  const auto text = [](const State& state) {
    std::string all;
    for (const RemedyTaken& taken : state.remedies) {
      all += taken.serial + " " + std::to_string(to_ms(taken.at)) + " " + taken.job + " " +
             std::to_string(static_cast<int>(taken.remedy)) + "\n";
    }
    return all;
  };
  CHECK(text(before) == "b1 2 old 0\nb2 3 other 0\nb3 5 old 3\n");
  CHECK(text(after) == text(before));
}

TEST_CASE_METHOD(OpenStore, "an ended job that still holds nodes is replayed") {
  JobRow ended = a_row("stuck", 1);
  ended.ended_at = from_ms(5);
  ended.unclean = true;
  REQUIRE(store->append({submitted("stuck")}, {ended}));
  CHECK(store->load_live()->size() == 1);
  ended.unclean = false;
  REQUIRE(store->append({}, {ended}));
  CHECK(store->load_live()->empty());
}

TEST_CASE_METHOD(OpenStore,
                 "tags and the archive mark are people's: a row that is written again keeps them") {
  JobRow ended = a_row("old", 1);
  ended.ended_at = from_ms(5);
  REQUIRE(store->append({}, {ended}));
  auto people = open_store(scratch, Store::Mode::annotate);
  const auto speech = [](const std::string&) -> Result<std::string> {
    return std::string(R"({"team":"speech"})");
  };
  REQUIRE(people->change_tags({"old"}, speech));
  REQUIRE(people->set_archived({"old"}, true));
  ended.reason = "again";
  REQUIRE(store->append({}, {ended}));
  const auto row = store->job({"old"});
  CHECK((*row)->tags == R"({"team":"speech"})");
  CHECK((*row)->archived);
  CHECK((*row)->reason == "again");
  CHECK_FALSE(people->change_tags({"unknown"}, speech));
  REQUIRE(store->append({}, {a_row("live", 2)}));
  REQUIRE(people->change_tags({"live"}, speech));
  REQUIRE(store->append({}, {a_row("live", 2)}));
  CHECK((*store->job({"live"}))->tags == R"({"team":"speech"})");
}

TEST_CASE_METHOD(OpenStore, "of tags that many change at once none is lost") {
  REQUIRE(store->append({}, {a_row("live", 2)}));
  REQUIRE(open_store(scratch, Store::Mode::annotate)->change_tags({"live"}, [](const auto&) {
    return Result<std::string>(std::string());
  }));
  constexpr int at_once = 8;
  std::atomic<int> done = 0;
  std::vector<std::thread> people;
  for (int i = 0; i < at_once; ++i) {
    people.emplace_back([&] {
      const auto own = Store::open(scratch.path(), Store::Mode::annotate);
      if (!own) return;
      const auto longer = [](const std::string& tags) { return Result<std::string>(tags + "x"); };
      for (int n = 0; n < 10; ++n) done += (*own)->change_tags({"live"}, longer) ? 1 : 0;
    });
  }
  for (std::thread& person : people) person.join();
  CHECK(done == 10 * at_once);
  CHECK((*store->job({"live"}))->tags.size() == 10 * at_once);
}

TEST_CASE_METHOD(OpenStore, "tags stay where the change of them is refused") {
  REQUIRE(store->append({}, {a_row("live", 2)}));
  const auto no = [](const std::string&) { return Result<std::string>(Error{"no"}); };
  CHECK(store->change_tags({"live"}, no).error().message == "no");
  CHECK((*store->job({"live"}))->tags == R"({"team":"vision"})");
  CHECK(store->append({}, {a_row("next", 3)}));
}

TEST_CASE_METHOD(OpenStore, "of all that jobs are requested by, each leaves out the others") {
  JobRow odd = a_row("odd", 20);
  odd.state = "Completed";
  odd.experiment = "sweep";
  odd.user = "ann";
  odd.compute = "farm";
  odd.nodes = "h07";
  odd.tags = R"({"team":"speech","rush":"yes"})";
  odd.ended_at = from_ms(30);
  REQUIRE(store->append({}, {a_row("a", 10), odd, a_row("b", 15)}));
  const auto names = [&](const JobFilter& filter) {
    std::string all;
    const auto rows = store->jobs(filter);
    REQUIRE(rows);
    for (const JobRow& row : *rows) all += row.name + " ";
    return all;
  };
  const auto with = [](auto member, const auto& value) {
    JobFilter filter;
    filter.*member = value;
    return filter;
  };
  using Text = std::string;
  CHECK(names({}) == "odd b a ");
  CHECK(names(with(&JobFilter::state, Text("completed"))) == "odd ");
  CHECK(names(with(&JobFilter::experiment, Text("Sweep"))) == "odd ");
  CHECK(names(with(&JobFilter::user, Text("ann"))) == "odd ");
  CHECK(names(with(&JobFilter::compute, Text("FARM"))) == "odd ");
  CHECK(names(with(&JobFilter::node, Text("h02"))) == "b a ");
  CHECK(names(with(&JobFilter::node, Text("h0"))).empty());
  CHECK(names(with(&JobFilter::tag, Text("rush"))) == "odd ");
  CHECK(names(with(&JobFilter::tag, Text("team"))) == "odd b a ");
  CHECK(names(with(&JobFilter::tag, Text("team=speech"))) == "odd ");
  CHECK(names(with(&JobFilter::tag, Text("rush=no"))).empty());
  CHECK(names(with(&JobFilter::since, from_ms(15))) == "odd b ");
  CHECK(names(with(&JobFilter::limit, 2)) == "odd b ");
  JobFilter both = with(&JobFilter::tag, Text("team=vision"));
  both.node = "h01";
  both.state = "Running";
  CHECK(names(both) == "b a ");

  CHECK_FALSE(store->set_archived({"a"}, true));  // it has not ended
  REQUIRE(store->set_archived({"odd"}, true));
  CHECK(names({}) == "b a ");
  CHECK(names(with(&JobFilter::archived, true)) == "odd ");
  CHECK(names(with(&JobFilter::include_archived, true)) == "odd b a ");
}

TEST_CASE_METHOD(OpenStore, "a prefix finds its jobs without wildcards") {
  REQUIRE(store->append({}, {a_row("a_b", 1), a_row("axb", 2)}));
  CHECK(store->names_starting_with("a_", 5)->size() == 1);
  CHECK(store->names_starting_with("a", 5)->size() == 2);
}

TEST_CASE("a file that is no database is named in the error") {
  Scratch scratch;
  std::ofstream(scratch.path() / "muster.db") << std::string(4096, 'x');
  const auto store = Store::open(scratch.path(), Store::Mode::read_write);
  REQUIRE_FALSE(store);
  CHECK_THAT(store.error().message, ContainsSubstring("muster.db"));
}

// Counts how often SQLite has the disk keep what was written to the WAL.
class CountingDisk {
 public:
  CountingDisk() {
    usual_ = sqlite3_vfs_find(nullptr);
    disk_ = *usual_;
    disk_.zName = "counting";
    disk_.xOpen = open;
    REQUIRE(sqlite3_vfs_register(&disk_, 1) == SQLITE_OK);
  }
  ~CountingDisk() {
    sqlite3_vfs_unregister(&disk_);
    sqlite3_vfs_register(usual_, 1);
  }
  static inline int syncs = 0;

 private:
  // The usual file, whose methods are replaced by a copy that counts.
  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    const int done = usual_->xOpen(usual_, name, file, flags, out);
    if (done != SQLITE_OK || (flags & SQLITE_OPEN_WAL) == 0) return done;
    static sqlite3_io_methods counting;
    static const sqlite3_io_methods* original;
    original = file->pMethods;
    counting = *original;
    counting.xSync = [](sqlite3_file* each, int how) {
      ++syncs;
      return original->xSync(each, how);
    };
    file->pMethods = &counting;
    return done;
  }
  static inline sqlite3_vfs* usual_ = nullptr;
  sqlite3_vfs disk_{};
};

TEST_CASE("what was appended is on the disk before anything is done about it") {
  const CountingDisk disk;
  Scratch scratch;
  auto store = open_store(scratch, Store::Mode::read_write);
  for (int i = 0; i < 3; ++i) {
    const int before = CountingDisk::syncs;
    REQUIRE(store->append({submitted("a")}, {a_row("a", 10)}));
    CHECK(CountingDisk::syncs > before);
  }
}

TEST_CASE_METHOD(OpenStore,
                 "of a batch that cannot be stored whole nothing is stored, and the next one is") {
  sqlite3* other = nullptr;
  REQUIRE(sqlite3_open((scratch.path() / "muster.db").c_str(), &other) == SQLITE_OK);
  for (const char* table : {"record", "job"}) {
    const std::string refuse = "CREATE TRIGGER no BEFORE INSERT ON " + std::string(table) +
                               " WHEN new." + (table[0] == 'r' ? "job" : "name") +
                               " = 'bad' BEGIN SELECT RAISE(ABORT, 'no room'); END";
    REQUIRE(sqlite3_exec(other, refuse.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    const Status refused = store->append({submitted("good"), submitted("bad"), submitted("good")},
                                         {a_row("good", 1), a_row("bad", 2), a_row("good", 1)});
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, ContainsSubstring("no room"));
    CHECK(store->records_of({"good"})->empty());
    CHECK_FALSE(*store->job({"good"}));
    REQUIRE(sqlite3_exec(other, "DROP TRIGGER no", nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  sqlite3_close(other);
  REQUIRE(store->append({submitted("good"), submitted("good")}, {a_row("good", 1)}));
  CHECK(store->records_of({"good"})->size() == 2);
  CHECK(*store->job({"good"}));
}

JobRow an_ended_row(const std::string& name, std::int64_t ended_ms) {
  JobRow row = a_row(name, 1);
  row.state = "Completed";
  row.ended_at = from_ms(ended_ms);
  row.exit_code = 0;
  return row;
}

TEST_CASE_METHOD(OpenStore,
                 "the records of a job that ended long ago give way to a summary, all or none") {
  JobRow unclean = an_ended_row("unclean", 10);
  unclean.unclean = true;
  REQUIRE(store->append(
      {submitted("old"), submitted("new"), submitted("live"), submitted("unclean")},
      {an_ended_row("old", 10), an_ended_row("new", 1000), a_row("live", 5), unclean}));
  const auto old = store->ended_before(from_ms(100));
  REQUIRE(old);
  REQUIRE(old->size() == 1);
  CHECK(old->front().name == "old");

  for (const char* kept : {"new", "live", "unclean"}) {
    CHECK_FALSE(*store->reduce({kept}, from_ms(100), "{}"));
    CHECK(store->records_of({kept})->size() == 1);
    CHECK_FALSE(*store->summary_of({kept}));
  }
  CHECK(*store->reduce({"old"}, from_ms(100), R"({"version":1})"));
  CHECK(store->records_of({"old"})->empty());
  CHECK(*store->summary_of({"old"}) == R"({"version":1})");
  CHECK((*store->job({"old"}))->exit_code == 0);
  CHECK(store->ended_before(from_ms(100))->empty());
}

TEST_CASE_METHOD(OpenStore,
                 "a job whose records were removed since somebody looked is not resumed") {
  REQUIRE(store->append({submitted("old"), submitted("other")},
                        {an_ended_row("old", 10), an_ended_row("other", 10)}));
  REQUIRE(*store->reduce({"old"}, from_ms(100), "{}"));
  const auto resume = [&](const std::string& name) {
    ResumeRequested requested;
    requested.job = JobId{name};
    return store->append({{from_ms(200), Observation{requested}}}, {a_row(name, 1)});
  };
  const Status refused = resume("old");
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("its records were removed"));
  CHECK(store->records_of({"old"})->empty());
  CHECK((*store->job({"old"}))->ended_at);
  CHECK(resume("other"));
}

TEST_CASE_METHOD(OpenStore,
                 "what is done to an ended job is not done to one that was resumed meanwhile") {
  REQUIRE(
      store->append({}, {an_ended_row("old", 10), an_ended_row("new", 1000), a_row("live", 5)}));
  int acted = 0;
  const auto act = [&] { return ++acted > 0; };
  CHECK(*store->while_ended({"old"}, from_ms(100), act));
  for (const char* kept : {"new", "live", "unknown"}) {
    CHECK_FALSE(*store->while_ended({kept}, from_ms(100), act));
  }
  CHECK(acted == 1);
  CHECK(store->append({submitted("next")}, {a_row("next", 1)}));
}

TEST_CASE_METHOD(
    OpenStore,
    "of how nodes were reached long ago the newest is kept, and all since a live job came") {
  REQUIRE(store->append({link_up("h01", "one"), link_up("h01", "two"), link_up("h02", "one")}, {}));
  CHECK(store->forget_links(from_ms(100)));
  const auto known = store->load_live();
  REQUIRE(known);
  CHECK(known->size() == 2);
  REQUIRE(store->append({submitted("live")}, {a_row("live", 5)}));
  REQUIRE(store->append({link_up("h01", "three"), link_up("h01", "four")}, {}));
  CHECK(store->forget_links(from_ms(100)));
  CHECK(store->load_live()->size() == 5);
}

TEST_CASE_METHOD(OpenStore,
                 "how nodes were reached stays as long as a job of that time may be resumed") {
  REQUIRE(store->append({submitted("late")}, {an_ended_row("late", 1000)}));
  REQUIRE(store->append({link_up("h01", "one"), link_up("h01", "two")}, {}));
  CHECK(store->forget_links(from_ms(100)));
  REQUIRE(store->append({}, {a_row("late", 5)}));
  CHECK(store->load_live()->size() == 3);
}

}  // namespace
}  // namespace muster
