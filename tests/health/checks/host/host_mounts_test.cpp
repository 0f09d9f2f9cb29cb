#include <random>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;

namespace {

SourceFiles with_mounts(const std::string& text) {
  SourceFiles files = healthy_host();
  files.add("/proc/self/mountinfo", text);
  return files;
}

}  // namespace

// The first two lines are from a Debian 12 host.
TEST_CASE("mounts are read from the kernel's table") {
  const SourceFiles files = with_mounts(
      "25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684092k\n"
      "26 24 0:24 / /dev/pts rw,relatime - devpts devpts rw,mode=600,ptmxmode=000\n"
      "31 22 0:51 /sub /share\\040d rw shared:1 master:2 - nfs4 host:/a\\134b ro\n"
      "no mount\n"
      "1 2 3 4 5\n"
      "- \n"
      "36 35 98:0 / relative rw - ext4 /dev/sda1 rw\n"
      "37 35 98:0 / /la\\040st rw - ext4 /dev/a\\134b ro");
  HealthProfile profile;
  profile.host.mounts = {"/dev/shm", "/dev/pts", "/share d", "/la st", "relative", "/sub"};
  const auto findings = judged("host.mounts", files, profile);
  REQUIRE(findings.size() == 6);
  for (std::size_t at = 0; at < 6; ++at) {
    INFO(findings[at].device);
    CHECK(findings[at].status == (at < 4 ? CheckStatus::pass : CheckStatus::fail));
  }
  CHECK(judged("host.ro", files, profile)[0].evidence ==
        std::vector<std::string>{"/la st ext4 /dev/a\\b rw ro"});
}

TEST_CASE("a file system that the kernel made read-only fails, one that a person did passes") {
  const std::string mountinfo = "/proc/self/mountinfo";
  const std::vector<SpoiltFile> rows{
      {mountinfo, "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 ro,errors=remount-ro",
       CheckStatus::fail, "/", "!reboot"},
      {mountinfo, "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,emergency_ro", CheckStatus::fail,
       "", "!reboot"},
      {mountinfo, "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro",
       CheckStatus::pass},
      {mountinfo, "22 1 8:1 / /boot ro,relatime - ext4 /dev/sda1 ro", CheckStatus::pass},
      {mountinfo, "22 1 8:1 / /bind ro,relatime - ext4 /dev/sda1 rw", CheckStatus::pass},
      {mountinfo, "22 1 7:1 / /snap rw,relatime - squashfs /dev/loop1 ro", CheckStatus::pass},
      {mountinfo, "22 1 0:9 / /x rw,relatime - overlay overlay ro", CheckStatus::pass},
      {mountinfo, "", CheckStatus::unknown},
      {mountinfo, "\xff\xfe - - -", CheckStatus::unknown},
  };
  check_spoilt("host.ro", rows);
  CHECK(judged("host.ro", with_mounts(rows[0].text), fake_profile())[0].evidence.size() == 1);
}

TEST_CASE("a file system that the profile leaves out may be read-only") {
  const std::string one = "22 1 8:1 / /scratch rw - ext4 /dev/sda1 ro\n";
  HealthProfile profile;
  profile.exclude = {{"host.ro", "/scratch", "worn out"}};
  CHECK(judged("host.ro", with_mounts(one), profile)[0].status == CheckStatus::pass);
  const std::string another = "23 1 8:2 / /data rw - ext4 /dev/sdb1 ro\n";
  const auto findings = judged("host.ro", with_mounts(one + another), profile);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].value == "/data");
}

TEST_CASE("a table of mounts that was cut off still tells what it shows") {
  SourceFiles files;
  files.add("/proc/self/mountinfo",
            FileReading{"22 1 8:1 / / rw - ext4 /dev/sda1 ro\n", "longer than 262144 bytes"});
  CHECK(judged("host.ro", files, fake_profile())[0].status == CheckStatus::fail);
  files.add("/proc/self/mountinfo",
            FileReading{"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "longer than 262144 bytes"});
  CHECK(judged("host.ro", files, fake_profile())[0].status == CheckStatus::unknown);
}

TEST_CASE("mounts of the profile are there or not") {
  const HealthProfile profile = fake_profile();
  auto findings = judged("host.mounts", healthy_host(), profile);
  CHECK(findings.size() == 2);
  CHECK(status_of(findings, "host.mounts", "/share d") == CheckStatus::pass);
  findings =
      judged("host.mounts", with_mounts("30 22 0:50 / /data rw - nfs4 a:/data rw\n"), profile);
  CHECK(status_of(findings, "host.mounts", "/data") == CheckStatus::pass);
  CHECK(status_of(findings, "host.mounts", "/share d") == CheckStatus::fail);
  SourceFiles unreadable = healthy_host();
  unreadable.add("/proc/self/mountinfo", refused());
  findings = judged("host.mounts", unreadable, profile);
  CHECK(status_of(findings, "host.mounts", "/data") == CheckStatus::unknown);
  CHECK(judged("host.mounts", healthy_host(), HealthProfile{}).empty());
}

TEST_CASE("a mount that does not answer fails, one that cannot be looked at is unknown") {
  const HealthProfile profile = fake_profile();
  struct Row {
    FileReading reading;
    CheckStatus status;
  };
  const Row rows[] = {
      {{"", "no answer within 5 s", false}, CheckStatus::fail},
      {{"", "Stale file handle", false}, CheckStatus::fail},
      {{"", "Transport endpoint is not connected", false}, CheckStatus::fail},
      {{"", "Permission denied", false}, CheckStatus::unknown},
      {{"", "not reached: /x: no answer within 5 s", false}, CheckStatus::unknown},
      {{"", "No such file or directory", true}, CheckStatus::unknown},
      {{}, CheckStatus::pass},
  };
  for (const Row& row : rows) {
    INFO(row.reading.error);
    for (const char* path : {"/data", "statvfs:/data"}) {
      SourceFiles files = healthy_host();
      files.add(path, row.reading);
      const auto findings = judged("host.mount_stall", files, profile);
      CHECK(status_of(findings, "host.mount_stall", "/data") == row.status);
      CHECK(status_of(findings, "host.mount_stall", "/share d") == CheckStatus::pass);
    }
  }
}

TEST_CASE("a spoilt table of mounts is no crash") {
  const SourceFiles host = healthy_host();
  const std::string good = host.reading("/proc/self/mountinfo").text;
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good.substr(random() % good.size());
    for (std::uint32_t times = random() % 8; times > 0; --times)
      text[random() % text.size()] = " \n\\04-/\xff"[random() % 8];
    for (const HealthFinding& finding : judged("host.ro", with_mounts(text), fake_profile()))
      if (finding.status == CheckStatus::fail) CHECK(finding.value.starts_with('/'));
    judged("host.mounts", with_mounts(text), fake_profile());
  }
}
