// What a keeper lets go of: pipes whose names are gone.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "launcher/agent/keeper/keeper.h"
#include "tests/catch.h"

using namespace muster;

namespace {

namespace fs = std::filesystem;

using PipeNames = std::set<std::string>;

// An agent's home, and the pipes of its ranks in it.
struct PipesOfRanks {
  PipesOfRanks() {
    char pattern[] = "/tmp/muster-kept-pipes.XXXXXX";
    REQUIRE(::mkdtemp(pattern) != nullptr);
    home = fs::canonical(pattern);
  }
  ~PipesOfRanks() { fs::remove_all(home); }

  Fd add(const std::string& name) const {
    REQUIRE(::mkfifo((home / name).c_str(), 0600) == 0);
    return Fd(::open((home / name).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  }
  // Those that the process has open, once they are these.
  PipeNames await(pid_t process, const PipeNames& wanted) const {
    PipeNames open;
    for (int i = 0; i < 1000 && (i == 0 || open != wanted); ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds{5});
      open = open_in(process);
    }
    return open;
  }

  fs::path home;

 private:
  PipeNames open_in(pid_t process) const {
    PipeNames names;
    std::error_code failed;
    const std::string files = "/proc/" + std::to_string(process) + "/fd";
    for (const auto& file : fs::directory_iterator(files, failed)) {
      const std::string target = fs::read_symlink(file.path(), failed).string();
      const std::string below = home.string() + "/pipe-";
      if (target.starts_with(below)) names.insert(target.substr(below.size()));
    }
    return names;
  }
};

}  // namespace

TEST_CASE("a keeper lets go of pipes whose names are gone, and of nothing else") {
  const PipesOfRanks ranks;
  const auto run = open_run_directory(ranks.home, "c", NodeId{"n"});
  REQUIRE(run);
  auto lease = Lease::create();
  REQUIRE(lease);
  lease->grant(BootTime::max() / 2);
  ForkedKeeper keeper(*run, *lease);
  const Fd a = ranks.add("pipe-a");
  const Fd b = ranks.add("pipe-b");
  const Fd c = ranks.add("pipe-c");
  REQUIRE(keeper.ensure({a.get(), b.get()}));
  const pid_t pid = keeper.pid().value();
  keeper.hold({c.get()});
  CHECK(ranks.await(pid, {"a", "b", "c"}) == PipeNames{"a", "b", "c"});

  fs::remove(ranks.home / "pipe-a");
  fs::remove(ranks.home / "pipe-c");
  const Fd d = ranks.add("pipe-d");
  keeper.hold({d.get()});
  CHECK(ranks.await(pid, {"b", "d"}) == PipeNames{"b", "d"});
  keeper.dismiss();
  CHECK(::waitpid(pid, nullptr, 0) == pid);
  CHECK(keeper.reaped(pid));
}
