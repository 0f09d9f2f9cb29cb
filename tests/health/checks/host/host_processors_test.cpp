#include <random>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;

namespace {

// A source that cannot be read is unknown.
void check_rows(std::string_view check, const std::vector<SpoiltFile>& rows) {
  CHECK(judged_one(check, healthy_host(), fake_profile())->status == CheckStatus::pass);
  check_spoilt(check, rows);
  for (const SpoiltFile& row : rows) {
    INFO(row.path);
    SourceFiles files = healthy_host();
    files.add(row.path, refused());
    CHECK(judged_one(check, files, fake_profile())->status == CheckStatus::unknown);
  }
}

// What host.cpu finds of a list; empty: it is not understood.
std::string counted(const std::string& list) {
  SourceFiles files;
  files.add("/sys/devices/system/cpu/online", list);
  HealthProfile profile;
  profile.host.cpus = 96;
  return judged_one("host.cpu", files, profile)->value;
}

}  // namespace

TEST_CASE("a kernel's list of numbers is counted") {
  CHECK(counted("0-95") == "96 processors");
  CHECK(counted("0-3,8,10-11") == "7 processors");
  CHECK(counted("0") == "1 processors");
  for (const char* broken :
       {"", "-", "3-1", "1,", ",1", "0-", "a", "0-99999999999", "-1", "1 2", "0-9999999", "\xff"})
    CHECK(counted(broken).empty());
  std::string many = "0-1048575";
  for (int at = 0; at < 10'000; ++at) many += ",0-1048575";
  CHECK(counted(many).empty());
}

TEST_CASE("processors are all there, at their full speed") {
  const std::vector<SpoiltFile> rows{
      {"/sys/devices/system/cpu/online", "0-94\n", CheckStatus::fail},
      {"/sys/devices/system/cpu/online", "0-47,49-95\n", CheckStatus::fail},
      {"/sys/devices/system/cpu/online", "x\n", CheckStatus::unknown},
      {"/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave\n",
       CheckStatus::fail},
      {"/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "\n", CheckStatus::unknown},
      {"/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n", CheckStatus::fail},
      {"/sys/devices/system/cpu/intel_pstate/no_turbo", "2\n", CheckStatus::unknown},
  };
  check_rows("host.cpu", rows);
  SourceFiles files = healthy_host();
  files.add("/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave");
  CHECK(judged_one("host.cpu", files, fake_profile())->value == "governor powersave x 1");
  files.add("/sys/devices/system/cpu/intel_pstate/no_turbo", FileReading{{}, "none", true});
  files.add("/sys/devices/system/cpu/cpufreq/boost", "0");
  CHECK(judged_one("host.cpu", files, fake_profile())->value ==
        "governor powersave x 1, turbo off");
}

TEST_CASE("memory nodes are all there, and pages stay where they are") {
  const std::vector<SpoiltFile> rows{
      {"/sys/devices/system/node/online", "0\n", CheckStatus::fail},
      {"/proc/sys/kernel/numa_balancing", "1\n", CheckStatus::fail},
      {"/proc/sys/kernel/numa_balancing", "2\n", CheckStatus::fail},
      {"/proc/sys/kernel/numa_balancing", "-1\n", CheckStatus::unknown},
  };
  check_rows("host.numa", rows);
}

TEST_CASE("ranks start with locked memory and many files") {
  const std::vector<SpoiltFile> rows{
      {"rlimit:memlock", "soft 65536\nhard unlimited\n", CheckStatus::fail},
      {"rlimit:nofile", "soft 1024\nhard 1048576\n", CheckStatus::fail},
      {"rlimit:nofile", "soft 65536\nhard 65536\n", CheckStatus::pass},
      {"rlimit:nofile", "soft unlimited\nhard unlimited\n", CheckStatus::pass},
      {"rlimit:nofile", "hard 65536\n", CheckStatus::unknown},
      {"rlimit:memlock", "", CheckStatus::unknown},
  };
  check_rows("host.rlimit", rows);
  HealthProfile profile;
  CHECK_FALSE(judged_one("host.rlimit", healthy_host(), profile));
  profile.ib.ports = {"mlx5_0:1"};
  CHECK(judged_one("host.rlimit", healthy_host(), profile)->status == CheckStatus::pass);
}

TEST_CASE("without a profile processors are not judged") {
  CHECK_FALSE(judged_one("host.cpu", healthy_host(), HealthProfile{}));
  CHECK_FALSE(judged_one("host.numa", healthy_host(), HealthProfile{}));
}

TEST_CASE("lists of any bytes are counted or refused") {
  std::mt19937 random(9);
  for (int round = 0; round < 5000; ++round) {
    std::string list;
    for (std::uint32_t size = random() % 16; size > 0; --size)
      list += "0123456789,,--x"[random() % 15];
    CHECK_FALSE(counted(list).starts_with('0'));
  }
}
