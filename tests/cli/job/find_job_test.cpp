#include "cli/client/find.h"

#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

void add_job(Store& store, const std::string& name) {
  JobRow row;
  row.name = name;
  row.state = "Completed";
  row.tags = "{}";
  REQUIRE(store.append({}, {row}));
}

std::string answer(const Store& store, const std::string& typed) {
  const auto row = find_job(store, typed);
  return row ? row->name : "error: " + row.error().message;
}

}  // namespace

TEST_CASE("a job is found by its name or by a beginning that fits no other") {
  Folder home;
  auto store = Store::open(home.path(), Store::Mode::read_write);
  REQUIRE(store);
  for (const char* name : {"calm_kite_1", "calm_kite_12", "brave_otter"}) add_job(**store, name);
  CHECK(answer(**store, "calm_kite_1") == "calm_kite_1");
  CHECK(answer(**store, "calm_kite_12") == "calm_kite_12");
  CHECK(answer(**store, "br") == "brave_otter");
  CHECK_THAT(answer(**store, "calm"), ContainsSubstring("is an ambiguous job name"));
  CHECK_THAT(answer(**store, "brave_oter"), ContainsSubstring("did you mean 'brave_otter'"));
  CHECK_THAT(answer(**store, "zzz"), ContainsSubstring("job 'zzz' not found"));
  CHECK_THAT(answer(**store, ""), ContainsSubstring("job '' not found"));
}

TEST_CASE("a job that is not there ends with 1, a store that cannot be read with 99") {
  Folder home;
  const CommandSite site;
  const auto exit_code = [&](const Home& place) {
    return site.caught([&] { return job_or_end(place, "x"), 0; }).code;
  };
  CHECK(exit_code({home.path() / "none"}) == 1);
  REQUIRE(Store::open(home.path(), Store::Mode::read_write));
  CHECK(exit_code({home.path()}) == 1);
  Folder broken;
  broken.append("muster.db", "this is no database at all, and long enough to be looked at\n");
  CHECK(exit_code({broken.path()}) == 99);
}

TEST_CASE("of more jobs than fit a line five are named, and that there are more") {
  Folder home;
  auto store = Store::open(home.path(), Store::Mode::read_write);
  REQUIRE(store);
  for (int i = 1; i <= 5; ++i) add_job(**store, "calm_" + std::to_string(i));
  CHECK(answer(**store, "calm").ends_with("calm_5"));
  add_job(**store, "calm_6");
  CHECK(answer(**store, "calm").ends_with("calm_5, …"));
}

TEST_CASE("an empty state directory has no jobs and stays empty") {
  Folder home;
  CHECK_THAT(open_job({home.path() / "none"}, "x").error().message,
             ContainsSubstring("job 'x' not found"));
  CHECK_FALSE(std::filesystem::exists(home.path() / "none"));
}
