#include "cli/health/state.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "launcher/wire/json_fields.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

HealthState full_state() {
  HealthState state;
  state.host = "n17";
  state.profile = "ND96isr_H100_v5";
  state.judged_boot_id = "6f";
  state.judged_at = SinceBoot(12'345'678);
  state.monitor.boot_id = "6f";
  state.monitor.gpu_names = {{"0000:19:00.0", "gpu0"}};
  state.monitor.kernel.sequence = 4711;
  state.monitor.kernel.seen["gpu.xid 0000:19:00.0 79"] = SeenEvent{SinceBoot(5), 2, 3, {}, 1};
  state.monitor.counters.push_back(
      {{"6f", "mlx5_3:1", "symbol_error"}, {{Milliseconds{1000}, 18'000'000'000'000'000'000u}}});
  state.monitor.look_files["/sys/config"] = "\xde\x10";
  Streak streak;
  streak.check = "ib.state";
  streak.device = "mlx5_3:1";
  streak.bad = 2;
  streak.fault.emplace();
  streak.fault->finding.check = "ib.state";
  streak.fault->severity = {Remedy::reboot, Remedy::rma, true};
  streak.fault->since = from_ms(1'800'000'000'000);
  state.health.boot_id = "6f";
  state.health.streaks.by_key["ib.state\x1fmlx5_3:1"] = streak;
  return state;
}

}  // namespace

TEST_CASE("what is remembered reads back as it was written") {
  const HealthState state = full_state();
  const auto read =
      read_versioned_json<HealthState>(versioned_json(state, state_version), state_version);
  REQUIRE(read);
  CHECK(read->host == "n17");
  CHECK(read->judged_at == SinceBoot(12'345'678));
  CHECK(read->monitor.kernel == state.monitor.kernel);
  CHECK(read->monitor.counters == state.monitor.counters);
  CHECK(read->monitor.gpu_names == state.monitor.gpu_names);
  const Streak& streak = read->health.streaks.by_key.at("ib.state\x1fmlx5_3:1");
  CHECK(streak.bad == 2);
  REQUIRE(streak.fault);
  CHECK(streak.fault->severity == CheckSeverity{Remedy::reboot, Remedy::rma, true});
  CHECK(streak.fault->since == from_ms(1'800'000'000'000));
}

TEST_CASE("a state that is broken, foreign or of another version is an error, never a crash") {
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"version": 2})", R"({"version": "1"})",
                           R"({"version": 1, "host": 3})", R"({"version": 1, "monitor": []})",
                           R"({"version": 1, "judged_at": 99999999999999999999})",
                           R"({"version": 1, "health": {"streaks": {"by_key": {"a": 1}}}})",
                           R"({"version": 1, "health": {"streaks": {"by_key": {"a":
                               {"last": "maybe"}}}}})",
                           "\xff\xfe\x01"}) {
    CAPTURE(text);
    CHECK_FALSE(read_versioned_json<HealthState>(text, state_version));
  }
  std::string text = versioned_json(full_state(), state_version);
  for (std::size_t size = 0; size + 1 < text.size(); size += 7) {
    CHECK_FALSE(read_versioned_json<HealthState>(text.substr(0, size), state_version));
  }
}

TEST_CASE("the file is its owner's alone, and so is the directory that is made for it") {
  const Folder folder;
  const auto path = folder.path() / "new" / "health.state";
  CHECK(remembered_health(path, "n17", {}).profile.empty());
  remember(path, full_state(), {});
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  REQUIRE(::stat(path.parent_path().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
  CHECK(remembered_health(path, "n17", {}).profile == "ND96isr_H100_v5");
}

TEST_CASE("what stands in the place of a state and is none is said by name") {
  const Folder folder;
  folder.append("broken", "{\"version\": 1,");
  const CommandSite site;
  const auto said_of = [&](const std::filesystem::path& path) {
    return site.caught([&] { return remembered_health(path, "n17", {}), 0; }).err;
  };
  CHECK_THAT(said_of(folder.path() / "broken"), ContainsSubstring("broken: it is broken"));
  CHECK_THAT(said_of(folder.path()), ContainsSubstring("is no file"));
  REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  CHECK_THAT(said_of(folder.path() / "fifo"), ContainsSubstring("is no file"));
  const auto save = [&] { return remember(folder.path() / "broken" / "x", HealthState{}, {}), 0; };
  CHECK_THAT(site.caught(save).err, ContainsSubstring("broken/x: Not a directory"));
}

TEST_CASE("each host has its own state in the state directory; a name cannot leave it") {
  ::setenv("MUSTER_HOME", "/somewhere", 1);
  CHECK(usual_state_file("n17") == std::filesystem::path("/somewhere/health-n17.state"));
  CHECK(usual_state_file("../x") == std::filesystem::path("/somewhere/health-.._x.state"));
  ::unsetenv("MUSTER_HOME");
}

TEST_CASE("without a home the state of root lies where only root writes, others have none") {
  const char* home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  for (const char* name : {"MUSTER_HOME", "XDG_STATE_HOME", "HOME"}) ::unsetenv(name);
  const auto place = usual_state_file("n17");
  if (!before.empty()) ::setenv("HOME", before.c_str(), 1);
  if (::geteuid() == 0) {
    CHECK(place == std::filesystem::path("/var/lib/muster/health-n17.state"));
  } else {
    CHECK_FALSE(place);
  }
}
