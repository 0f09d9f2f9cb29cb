#include "cli/job/cleaning.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "cli/job/report.h"
#include "launcher/os/fd.h"
#include "launcher/staging/blob_store.h"
#include "launcher/staging/trees_file.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

const Time now = from_ms(1'800'000'000'000);

Milliseconds old(int count) {
  return days(count);
}

RetentionLimits month_of_folders() {
  RetentionLimits keep = usual_retention;
  keep.job_folders = days(30);
  return keep;
}

// A state directory with jobs, each with one file of code.
class StateDirectory {
 public:
  StateDirectory() {
    auto opened = Store::open(folder_.path(), Store::Mode::read_write);
    REQUIRE(opened);
    store_ = std::move(*opened);
    auto blobs = BlobStore::open(home().blobs());
    REQUIRE(blobs);
    blobs_ = std::make_unique<BlobStore>(std::move(*blobs));
  }

  Home home() const { return {folder_.path()}; }
  const Store& store() const { return *store_; }
  bool has_folder(const std::string& job) const { return fs::exists(home().job(JobId{job})); }

  // The hash of its code.
  std::string job(const std::string& name, std::optional<Milliseconds> ended_ago) {
    JobSubmitted submitted;
    submitted.job = JobId{name};
    submitted.spec.name = name;
    std::vector<Record> records{{now - old(200), Observation{submitted}}};
    JobRow row;
    row.name = name;
    row.state = "Running";
    row.submitted_at = now - old(200);
    if (ended_ago) {
      row.ended_at = now - *ended_ago;
      row.state = "Failed";
      row.exit_code = 3;
      records.push_back(
          {*row.ended_at, Decision{JobEnded{JobId{name}, JobEndState::failed, 3, "it failed"}}});
    }
    REQUIRE(store_->append(records, {row}));
    const std::string hash = blob("code of " + name);
    Tree tree{"code", {}, true};
    tree.entries.push_back({TreeEntry::Kind::file, "main.py", 0644, 8, hash, ""});
    fs::create_directories(home().job(JobId{name}));
    REQUIRE(save_trees(home().trees(JobId{name}), {tree}));
    return hash;
  }

  std::string blob(const std::string& text) {
    const auto put = blobs_->put_bytes(text);
    REQUIRE(put);
    const timespec times[2] = {{to_ms(now - old(10)) / 1000, 0}, {0, UTIME_OMIT}};
    REQUIRE(::utimensat(AT_FDCWD, blobs_->path_of(put->hash).c_str(), times, 0) == 0);
    return put->hash;
  }
  bool has_blob(const std::string& hash) const { return fs::exists(blobs_->path_of(hash)); }

  std::vector<Removed> clean(bool dry_run = false,
                             const RetentionLimits& keep = usual_retention) const {
    return clean_state_directory({home(), keep, now, dry_run});
  }

 private:
  Folder folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<BlobStore> blobs_;
};

TEST_CASE("cleaning keeps the code of every job that may run again, and nothing else") {
  StateDirectory state;
  const std::string live = state.job("live", {});
  const std::string resumable = state.job("resumable", old(80));
  const std::string over = state.job("over", old(100));
  const std::string nobodys = state.blob("of a job that is gone");

  CHECK(state.clean(true).size() == 2);
  CHECK(state.has_blob(nobodys));
  CHECK(state.store().records_of({"over"})->size() == 2);

  const auto removed = state.clean();
  REQUIRE(removed.size() == 2);
  CHECK(removed[0].count == 1);
  CHECK(removed[1].count == 2);
  CHECK(state.has_blob(live));
  CHECK(state.has_blob(resumable));
  CHECK_FALSE(state.has_blob(over));
  CHECK_FALSE(state.has_blob(nobodys));
  CHECK(state.store().records_of({"over"})->empty());
  CHECK(state.store().records_of({"resumable"})->size() == 2);
  CHECK(state.clean().empty());
}

TEST_CASE("the summary of an old job has its end and the hashes of all it was made of") {
  StateDirectory state;
  const std::string code = state.job("over", old(100));
  state.clean();
  const auto kept = state.store().summary_of({"over"});
  REQUIRE(kept);
  REQUIRE(*kept);
  const Document summary = Document::parse(**kept);
  CHECK(summary["report"]["exit_code"] == 3);
  CHECK(summary["report"]["name"] == "over");
  CHECK(summary["trees"][0]["place"] == "code");
  CHECK(summary["trees"][0]["content"]["main.py"] == code);
  CHECK(summary["trees"][0]["hash"].get<std::string>().size() == 64);
}

TEST_CASE("no file of a job goes while a list of what jobs need cannot be read") {
  StateDirectory state;
  state.job("live", {});
  const std::string nobodys = state.blob("of a job that is gone");
  std::ofstream(state.home().trees(JobId{"live"})) << "{";
  CHECK_THROWS_AS(clean_state_directory({state.home(), usual_retention, now, false}), VerbEnd);
  CHECK(state.has_blob(nobodys));
}

TEST_CASE("a job whose outputs are left on nodes keeps its records") {
  StateDirectory state;
  state.job("over", old(100));
  AttemptEnded ended{JobId{"over"}, AttemptId{0}, {}, {}};
  ended.cause.left_behind = "outputs of h01";
  auto store = Store::open(state.home().root, Store::Mode::read_write);
  REQUIRE(store);
  REQUIRE((*store)->append({{now - old(100), Decision{ended}}}, {}));
  CHECK(state.clean().empty());
  CHECK(state.store().records_of({"over"})->size() == 3);
}

TEST_CASE("logs and outputs go only where the settings say so, and checkpoints never") {
  StateDirectory state;
  for (const char* name : {"live", "late", "over", "saved"}) {
    fs::create_directories(state.home().outputs(JobId{name}));
    fs::create_directories(state.home().attempt(JobId{name}, AttemptId{0}));
  }
  state.job("live", {});
  const std::string code = state.job("late", old(60));
  state.job("over", old(100));
  state.job("saved", old(100));
  const auto has = [&](const std::string& job, const char* what) {
    return fs::exists(state.home().job(JobId{job}) / what);
  };
  fs::create_directories(state.home().job(JobId{"saved"}) / "ckpt/s1");
  fs::create_directories(state.home().job(JobId{"over"}) / "ckpt");
  state.clean();
  for (const char* name : {"live", "late", "over", "saved"}) CHECK(has(name, "outputs"));

  RetentionLimits keep = month_of_folders();
  CHECK(state.clean(true, keep).size() == 1);
  CHECK(has("late", "outputs"));
  const auto removed = state.clean(false, keep);
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].count == 3);
  CHECK(has("live", "outputs"));
  CHECK_FALSE(has("late", "outputs"));
  CHECK_FALSE(has("late", "attempt-0"));
  CHECK(has("late", "trees.json"));
  CHECK(state.has_blob(code));
  CHECK_FALSE(state.has_folder("over"));
  CHECK(has("saved", "ckpt/s1"));
  CHECK_FALSE(has("saved", "trees.json"));
  CHECK(*state.store().job({"over"}));
  CHECK(state.clean(false, keep).empty());
}

TEST_CASE("the folder of an interrupted submission goes after a day, if nobody holds it") {
  StateDirectory state;
  const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  for (const char* name : {"killed", "held", "today"}) {
    const fs::path folder = state.home().job(JobId{name});
    fs::create_directories(folder);
    std::ofstream(folder / "spec.yml") << "text";
    if (name == std::string("today")) continue;
    REQUIRE(::utimensat(AT_FDCWD, folder.c_str(), times, 0) == 0);
  }
  const Fd held(::open(state.home().job(JobId{"held"}).c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(held.get(), LOCK_EX | LOCK_NB) == 0);
  const timespec today[2] = {{to_ms(now) / 1000 - 60, 0}, {to_ms(now) / 1000 - 60, 0}};
  REQUIRE(::utimensat(AT_FDCWD, state.home().job(JobId{"today"}).c_str(), today, 0) == 0);
  CHECK(state.clean(true).size() == 1);
  CHECK(state.has_folder("killed"));
  CHECK(state.clean().size() == 1);
  CHECK_FALSE(state.has_folder("killed"));
  CHECK(state.has_folder("held"));
  CHECK(state.has_folder("today"));
}

TEST_CASE("cleaning leaves what is no submission's, and follows no link") {
  StateDirectory state;
  const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  const fs::path jobs = state.home().root / "jobs";
  const fs::path of_agent = jobs / "controller-id";  // its home is the same directory
  fs::create_directories(of_agent / "n1/train/ckpt/s1");
  REQUIRE(::utimensat(AT_FDCWD, of_agent.c_str(), times, 0) == 0);
  const Folder elsewhere;
  fs::create_directory_symlink(elsewhere.path(), jobs / "link");
  fs::create_directory_symlink(elsewhere.path(), jobs / ".trash-link");
  std::ofstream(elsewhere.path() / "file") << "text";
  REQUIRE(::utimensat(AT_FDCWD, elsewhere.path().c_str(), times, 0) == 0);
  CHECK(state.clean().empty());
  CHECK(fs::exists(of_agent / "n1/train/ckpt/s1"));
  CHECK(fs::exists(elsewhere.path() / "file"));
}

TEST_CASE("a cleaning that was killed is carried on by the next") {
  StateDirectory state;
  state.job("over", old(100));
  const fs::path jobs = state.home().root / "jobs";
  fs::create_directories(jobs / ".trash-over/outputs");
  RetentionLimits keep = month_of_folders();
  state.clean(true, keep);
  CHECK(fs::exists(jobs / ".trash-over"));
  CHECK(fs::exists(jobs / "over"));
  state.clean(false, keep);
  CHECK_FALSE(fs::exists(jobs / ".trash-over"));
  CHECK_FALSE(fs::exists(jobs / "over"));
}

TEST_CASE("what cannot be set aside is removed in its place, and only what is gone counts") {
  StateDirectory state;
  const Folder elsewhere;
  RetentionLimits keep = month_of_folders();
  const std::string longest(255, 'n');  // no room for a mark before it
  for (const std::string& name : {longest, std::string("file"), std::string("link")}) {
    state.job(name, old(60));
    fs::create_directories(state.home().outputs(JobId{name}));
  }
  std::ofstream(state.home().job(JobId{".trash-file"})) << "in the way";
  fs::create_directory_symlink(elsewhere.path(), state.home().job(JobId{".trash-link"}));
  const auto removed = state.clean(false, keep);
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].count == 3);
  for (const std::string& name : {longest, std::string("file"), std::string("link")}) {
    CHECK_FALSE(fs::exists(state.home().outputs(JobId{name})));
  }
  CHECK(fs::is_empty(elsewhere.path()));
  CHECK(state.clean(false, keep).empty());
}

TEST_CASE("an old job that may not be done with keeps what it has") {
  StateDirectory state;
  const std::string code = state.job("unclean", old(100));
  JobRow row = **state.store().job({"unclean"});
  row.unclean = true;
  auto store = Store::open(state.home().root, Store::Mode::read_write);
  REQUIRE(store);
  REQUIRE((*store)->append({}, {row}));
  fs::create_directories(state.home().outputs(JobId{"unclean"}));
  RetentionLimits keep = month_of_folders();
  state.clean(false, keep);
  CHECK(fs::exists(state.home().outputs(JobId{"unclean"})));

  state.job("odd", old(100));
  std::ofstream(state.home().trees(JobId{"odd"})) << "{";
  keep.blobs.reset();
  state.clean(false, keep);
  CHECK(state.store().records_of({"odd"})->size() == 2);
}

TEST_CASE("what is cleaned is told with the bytes that it had on the disk") {
  StateDirectory state;
  state.job("over", old(60));
  const fs::path log = state.home().attempt(JobId{"over"}, AttemptId{0}) / "rank-0.log";
  fs::create_directories(log.parent_path());
  std::ofstream(log) << std::string(300'000, 'x');
  fs::create_directory_symlink("/usr", log.parent_path() / "elsewhere");
  RetentionLimits keep;
  keep.job_folders = days(30);
  for (const bool dry_run : {true, false}) {
    const auto removed = state.clean(dry_run, keep);
    REQUIRE(removed.size() == 1);
    CHECK(removed[0].count == 1);
    CHECK(removed[0].bytes >= 300'000);
    CHECK(removed[0].bytes < 400'000);
  }
  CHECK_FALSE(fs::exists(log));
  CHECK(fs::exists("/usr"));
}

TEST_CASE("a directory without a store is none to clean, nor does it become one") {
  const Folder folder;
  fs::create_directories(folder.path() / "jobs/.trash-a");
  CHECK(clean_state_directory({{folder.path()}, usual_retention, now, false}).empty());
  CHECK(fs::exists(folder.path() / "jobs/.trash-a"));
  CHECK_FALSE(fs::exists(folder.path() / "muster.db"));
  fs::permissions(folder.path(), fs::perms::all);
  CHECK_THROWS_WITH(clean_state_directory({{folder.path()}, usual_retention, now, false}),
                    ContainsSubstring("may be written to by others"));
}

TEST_CASE("how long things are kept is read where the user's settings are") {
  const Folder folder;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::optional<std::string>() : std::optional<std::string>(value);
  };
  const auto config = variable("XDG_CONFIG_HOME");
  const auto home = variable("HOME");
  ::setenv("XDG_CONFIG_HOME", folder.path().c_str(), 1);
  const auto without = user_retention();
  folder.append("muster/retention.yml", "journal: 10d\n");
  const auto given = user_retention();
  folder.append("muster/retention.yml", "blob: 3d\n");
  const auto wrong = user_retention();
  ::unsetenv("XDG_CONFIG_HOME");
  ::setenv("HOME", folder.path().c_str(), 1);
  folder.append(".config/muster/retention.yml", "journal: 11d\n");
  const auto at_home = user_retention();
  // Settings are those of the user, not of whoever owns the current directory.
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  folder.append("muster/retention.yml", "");
  for (const char* relative : {"", ".", "muster/.."}) {
    ::setenv("XDG_CONFIG_HOME", relative, 1);
    const auto kept = user_retention();
    CHECK((kept && kept->journal == days(11)));
  }
  ::setenv("HOME", ".", 1);
  const auto elsewhere = user_retention();
  CHECK_FALSE((elsewhere && elsewhere->journal == days(11)));
  fs::current_path(before);
  ::setenv("XDG_CONFIG_HOME", folder.path().c_str(), 1);
  fs::remove(folder.path() / "muster/retention.yml");
  fs::create_symlink("/nonexistent/retention.yml", folder.path() / "muster/retention.yml");
  CHECK_FALSE(user_retention());
  ::unsetenv("XDG_CONFIG_HOME");
  if (config) ::setenv("XDG_CONFIG_HOME", config->c_str(), 1);
  if (home)
    ::setenv("HOME", home->c_str(), 1);
  else
    ::unsetenv("HOME");

  REQUIRE(without);
  CHECK(*without == usual_retention);
  REQUIRE(given);
  CHECK(given->journal == days(10));
  REQUIRE_FALSE(wrong);
  CHECK_THAT(wrong.error().message, ContainsSubstring("did you mean 'blobs'"));
  REQUIRE(at_home);
  CHECK(at_home->journal == days(11));
}

}  // namespace
}  // namespace muster
