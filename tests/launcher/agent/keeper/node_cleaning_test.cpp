
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "launcher/agent/keeper/files.h"
#include "launcher/os/fd.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

struct CleanedHome {
  std::string file(const std::string& name, int days_old, const std::string& text = "text") const {
    const fs::path whole = path / name;
    fs::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
    const std::time_t then = ::time(nullptr) - days_old * 24L * 3600;
    const timespec times[2] = {{then, 0}, {then, 0}};
    REQUIRE(::utimensat(AT_FDCWD, whole.c_str(), times, 0) == 0);
    return whole.string();
  }
  bool has(const std::string& name) const { return fs::exists(path / name); }

  std::vector<Removed> clean(const RetentionLimits& keep = usual_retention) const {
    const Time now = from_ms(::time(nullptr) * 1000LL);
    return clean_node_home({path, path / "run/me/n1", path / "bin/muster-own"}, keep, now);
  }

  FakeRoot folder;
  const fs::path path = folder.path();
};

void make_old(const std::string& path) {
  const timespec times[2] = {{1'600'000'000, 0}, {1'600'000'000, 0}};
  ::utimensat(AT_FDCWD, path.c_str(), times, 0);
}

// bin/muster-running, which nobody has touched for years, and a process that it is.
class RunningBuild {
 public:
  explicit RunningBuild(const CleanedHome& home) {
    const std::string file = home.file("bin/muster-running", 9);
    fs::copy_file("/bin/sleep", file, fs::copy_options::overwrite_existing);
    child_ = ::fork();
    if (child_ == 0) {
      ::execl(file.c_str(), "sleep", "1000", nullptr);
      ::_exit(1);
    }
    while (fs::read_symlink("/proc/" + std::to_string(child_) + "/exe") != file) ::usleep(1000);
    make_old(file);
  }
  ~RunningBuild() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  RunningBuild(const RunningBuild&) = delete;

 private:
  pid_t child_ = 0;
};

RunDirectory run_of(const CleanedHome& home) {
  RunDirectory run;
  run.home = home.path;
  run.controller = "me";
  run.node = NodeId{"n1"};
  run.path = home.path / "run/me/n1";
  return run;
}

}  // namespace

TEST_CASE("builds of muster that nobody has used for days are removed, but none that runs") {
  CleanedHome home;
  home.file("bin/muster-old", 9);
  home.file("bin/muster-lately", 2);
  home.file("bin/notes", 9);
  const RunningBuild running(home);

  const auto removed = home.clean();
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].count == 1);
  CHECK_FALSE(home.has("bin/muster-old"));
  for (const char* kept : {"bin/muster-running", "bin/muster-lately", "bin/notes"}) {
    CHECK(home.has(kept));
  }
}

TEST_CASE("a build that runs is kept by whatever name the home is reached") {
  CleanedHome home;
  std::optional<RunningBuild> running(home);
  const fs::path other_name = home.path.string() + ".link";
  fs::create_directory_symlink(home.path, other_name);
  const Time now = from_ms(::time(nullptr) * 1000LL);
  const NodeHome node{other_name, other_name / "run/me/n1", ""};
  CHECK(clean_node_home(node, usual_retention, now).empty());
  running.reset();
  CHECK(home.has("bin/muster-running"));
  CHECK(clean_node_home(node, usual_retention, now).size() == 1);
  fs::remove(other_name);
}

TEST_CASE("a link in the place of a folder is not followed when a home is cleaned") {
  CleanedHome elsewhere;
  elsewhere.file("n1/agent.lock", 40);
  elsewhere.file("muster-old", 40);
  const std::string hash(64, 'a');
  elsewhere.file("aa/" + hash, 40);
  elsewhere.file("tmp/unfinished", 0);
  CleanedHome home;
  home.file("run/gone/agent.lock", 0);
  fs::create_directory_symlink(elsewhere.path, home.path / "run/other");
  fs::create_directory_symlink(elsewhere.path / "n1", home.path / "run/gone/n1");
  fs::create_directory_symlink(elsewhere.path, home.path / "bin");
  fs::create_directory_symlink(elsewhere.path, home.path / "blobs");
  CHECK(home.clean().empty());
  for (const std::string kept : {"n1/agent.lock", "muster-old"}) CHECK(elsewhere.has(kept));
  CHECK(elsewhere.has("aa/" + hash));
  fs::remove(home.path / "blobs");
  home.file("blobs/tmp/unfinished", 0);
  fs::create_directory_symlink(elsewhere.path / "aa", home.path / "blobs/aa");
  CHECK(home.clean().empty());
  CHECK(elsewhere.has("aa/" + hash));

  const RunDirectory run = run_of(home);
  const AttemptLayout layout = layout_of(run, {JobId{"train"}, AttemptId{0}});
  fs::create_directories(fs::path(layout.job).parent_path());
  fs::create_directory_symlink(elsewhere.path, layout.job);
  CHECK(disposable_parts(layout.job, true).empty());
  CHECK(jobs_with_folders(run).empty());
}

TEST_CASE("a home that is a state directory too keeps the files that its jobs are made of") {
  CleanedHome home;
  const std::string blob = "blobs/aa/" + std::string(64, 'a');
  home.file(blob, 40);
  home.file("blobs/tmp/unfinished", 0);
  home.file("muster.db", 0);
  CHECK(home.clean().empty());
  CHECK(home.has(blob));
  fs::remove(home.path / "muster.db");
  CHECK(home.clean().size() == 1);
  CHECK_FALSE(home.has(blob));
}

TEST_CASE("the folder of an agent goes when nobody has it, for a month, and it holds no output") {
  CleanedHome home;
  home.file("run/gone/n1/agent.lock", 40);
  home.file("run/gone/n1/agent.log", 40);
  home.file("run/gone/n2/agent.lock", 40);
  home.file("run/gone/n2/attempts/job/0/rank-0.out", 40);
  home.file("run/lately/n1/agent.lock", 20);
  home.file("run/me/n1/agent.lock", 40);
  const std::string held = home.file("run/busy/n1/agent.lock", 40);
  const Fd lock(::open(held.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(lock.get(), LOCK_EX | LOCK_NB) == 0);

  const auto removed = home.clean();
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].count == 1);
  CHECK_FALSE(home.has("run/gone/n1"));
  for (const char* kept : {"run/gone/n2", "run/lately/n1", "run/me/n1", "run/busy/n1"}) {
    CHECK(home.has(kept));
  }
}

TEST_CASE("what the settings keep for ever is not removed") {
  CleanedHome home;
  home.file("bin/muster-old", 900);
  home.file("run/gone/n1/agent.lock", 900);
  CHECK(home.clean({}).empty());
  CHECK(home.has("bin/muster-old"));
  CHECK(home.has("run/gone/n1"));
}

TEST_CASE("of many folders a greeting names first what holds more than outputs, then the oldest") {
  CleanedHome home;
  const RunDirectory run = run_of(home);
  const auto below = [&](const std::string& job) {
    return fs::relative(layout_of(run, {JobId{job}, AttemptId{0}}).job, home.path).string();
  };
  for (const std::string name : {"a-new", "b-old"}) home.file(below(name) + "/outputs/model", 0);
  home.file(below("c-code") + "/code-0/main.py", 0);
  home.file(below("d-saved") + "/ckpt/s1/manifest", 0);
  make_old(layout_of(run, {JobId{"b-old"}, AttemptId{0}}).job);
  CHECK(jobs_with_folders(run) == std::vector<JobId>{{"c-code"}, {"b-old"}, {"a-new"}});
}

TEST_CASE("of a job's folder all but checkpoints may go, and outputs when they are not needed") {
  CleanedHome home;
  const RunDirectory run = run_of(home);
  const AttemptLayout layout = layout_of(run, {JobId{"train"}, AttemptId{0}});
  const std::string below = fs::relative(layout.job, home.path).string();
  for (const char* name : {"/code-0/a", "/inputs/data/b", "/outputs/model", "/ckpt/s1/manifest"}) {
    home.file(below + name, 0);
  }
  fs::create_directories(layout.logs);
  using Names = std::set<std::string>;
  const auto parts = [&](bool outputs_too) {
    Names names;
    for (const std::string& part : disposable_parts(layout.job, outputs_too)) {
      names.insert(fs::path(part).filename().string());
    }
    return names;
  };
  CHECK(parts(false) == Names{"code-0", "inputs", "logs"});
  CHECK(parts(true) == Names{"code-0", "inputs", "logs", "outputs"});
  CHECK(jobs_with_folders(run) == std::vector<JobId>{{"train"}});

  for (const std::string& part : disposable_parts(layout.job, true)) fs::remove_all(part);
  remove_if_empty(layout);
  CHECK(fs::exists(layout.checkpoints + "/s1/manifest"));
  CHECK(jobs_with_folders(run).empty());
  fs::remove_all(layout.checkpoints + "/s1");
  CHECK(jobs_with_folders(run).size() == 1);
  remove_if_empty(layout);
  CHECK_FALSE(fs::exists(layout.job));
}

TEST_CASE("an agent marks what it uses, and cleans its home a minute later and every six hours") {
  using std::chrono::hours;
  using std::chrono::seconds;
  CleanedHome home;
  const std::string lock = home.file("run/me/n1/agent.lock", 40);
  const std::string own = home.file("bin/muster-own", 1);  // not what runs here, but for its name
  const auto age_s = [](const fs::path& path) {
    struct stat facts {};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    return ::time(nullptr) - facts.st_mtim.tv_sec;
  };
  boost::asio::io_context io;
  ChildTasks tasks(io);
  const BootTime begun = boot_time();
  NodeCleaning cleaning({home.path, home.path / "run/me/n1", own}, tasks, begun);
  CHECK(age_s(lock) < 60);
  cleaning.keep(usual_retention);
  const auto cleans = [&](BootTime now) {
    home.file("bin/muster-old", 9);
    cleaning.poll(now);
    const pid_t child = ::waitpid(-1, nullptr, 0);  // none at all where nothing is to be done
    if (child > 0) tasks.reaped(child);
    io.run_for(std::chrono::milliseconds(200));
    io.restart();
    return !home.has("bin/muster-old");
  };
  CHECK_FALSE(cleans(begun + seconds(59)));
  CHECK(cleans(begun + seconds(60)));
  CHECK_FALSE(cleans(begun + hours(6)));
  home.file("run/me/n1/agent.lock", 40);
  CHECK(cleans(begun + hours(6) + seconds(60)));
  CHECK(age_s(lock) < 60);
  CHECK(age_s(own) > 3600);
}

TEST_CASE("an agent that knows no limits removes nothing") {
  CleanedHome home;
  home.file("bin/muster-old", 900);
  boost::asio::io_context io;
  ChildTasks tasks(io);
  NodeCleaning cleaning({home.path, home.path / "run/me/n1", ""}, tasks, BootTime{0});
  cleaning.poll(BootTime{0} + std::chrono::hours(1));
  const pid_t child = ::waitpid(-1, nullptr, 0);
  CHECK(child > 0);
  tasks.reaped(child);
  io.run_for(std::chrono::milliseconds(200));
  CHECK(home.has("bin/muster-old"));
}

}  // namespace muster
