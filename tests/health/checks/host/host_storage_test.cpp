#include <random>
#include <tuple>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;

namespace {

constexpr std::int64_t gib = 1ll << 30;

std::vector<HealthFinding> disks_with_tmp(const std::string& text) {
  SourceFiles files = healthy_host();
  files.add("statvfs:/tmp", text);
  return judged("host.disk", files, fake_profile());
}

SourceFiles with_shared_file(const std::string& name, std::int64_t uid) {
  SourceFiles files = healthy_host();
  files.add("stat:/dev/shm/" + name, "uid " + std::to_string(uid) + "\nbytes 10\nmodified_s 1\n");
  return files;
}

}  // namespace

TEST_CASE("a disk needs a tenth and 500 MiB free, and inodes") {
  const std::tuple<std::string, CheckStatus, const char*> rows[] = {
      {space_text(100 * gib, 10 * gib), CheckStatus::pass, "10.0 % (10240 MiB), 90.0 % of inodes"},
      {space_text(100 * gib, 9 * gib), CheckStatus::fail, "9.0 % (9216 MiB)"},
      {space_text(4 * gib, gib / 4), CheckStatus::fail, "6.2 % (256 MiB)"},
      {space_text(gib, gib / 4), CheckStatus::fail, "25.0 % (256 MiB)"},
      {"bytes 100000000000\nbytes_available 50000000000\ninodes 100\ninodes_available 9\n",
       CheckStatus::fail, "9.0 % of inodes"},
      {"bytes 100000000000\nbytes_available 50000000000\ninodes 0\ninodes_available 0\n",
       CheckStatus::pass, "50.0 % (47683 MiB)"},
      {"bytes 100000000000\nbytes_available 50000000000\n"
       "inodes 18446744073709551615\ninodes_available 18446744073709551615\n",
       CheckStatus::pass, "50.0 % (47683 MiB)"},
      {"bytes 0\nbytes_available 0\ninodes 0\ninodes_available 0\n", CheckStatus::unknown, ""},
      {"bytes_available 5\n", CheckStatus::unknown, ""},
      {"bytes x\nbytes_available 5\n", CheckStatus::unknown, ""},
      {"", CheckStatus::unknown, ""},
  };
  for (const auto& [text, status, value] : rows)
    check_spoilt("host.disk", {{"statvfs:/tmp", text, status, value, "", "/tmp"},
                               {"statvfs:/tmp", text, CheckStatus::pass, "", "", "/"}});
}

TEST_CASE("a disk that cannot be looked at is unknown") {
  SourceFiles files = healthy_host();
  files.add("statvfs:/", FileReading{{}, "no answer within 5 s", false});
  const auto findings = judged("host.disk", files, fake_profile());
  CHECK(status_of(findings, "host.disk", "/") == CheckStatus::unknown);
  CHECK(findings[0].evidence.at(0) == "statvfs:/: no answer within 5 s");
}

TEST_CASE("NVMe disks are live, and as many as they should be") {
  const HealthProfile profile = fake_profile();
  SourceFiles files = healthy_host();
  CHECK(status_of(judged("host.nvme", files, profile), "host.nvme") == CheckStatus::pass);
  CHECK(status_of(judged("host.nvme", files, profile), "host.nvme", "nvme1") == CheckStatus::pass);
  files.add("/sys/class/nvme/nvme2/transport", "tcp\n");
  files.add("/sys/class/nvme/nvme2/state", "connecting\n");
  CHECK(status_of(judged("host.nvme", files, profile), "host.nvme") == CheckStatus::pass);
  CHECK_FALSE(status_of(judged("host.nvme", files, profile), "host.nvme", "nvme2"));
  for (const char* state : {"dead", "resetting", "deleting", "live?"}) {
    files.add("/sys/class/nvme/nvme1/state", std::string(state));
    CHECK(status_of(judged("host.nvme", files, profile), "host.nvme", "nvme1") ==
          CheckStatus::fail);
  }
  files.add("/sys/class/nvme/nvme1/state", refused());
  CHECK(status_of(judged("host.nvme", files, profile), "host.nvme", "nvme1") ==
        CheckStatus::unknown);
}

TEST_CASE("a lost NVMe disk fails the count; a class that was not read to its end is unknown") {
  HealthProfile profile = fake_profile();
  profile.host.nvmes = 3;
  SourceFiles files = healthy_host();
  const auto findings = judged("host.nvme", files, profile);
  CHECK(status_of(findings, "host.nvme") == CheckStatus::fail);
  CHECK(findings.back().value == "2");
  files.add("/sys/class/nvme", FileReading{{}, "not reached: no answer within 5 s", false});
  CHECK(status_of(judged("host.nvme", files, profile), "host.nvme") == CheckStatus::unknown);
  CHECK(status_of(judged("host.nvme", SourceFiles{}, profile), "host.nvme") ==
        CheckStatus::unknown);
  profile.host.nvmes.reset();
  CHECK(judged("host.nvme", SourceFiles{}, profile).empty());
}

TEST_CASE("shared memory has the profile's size") {
  HealthProfile profile = fake_profile();
  SourceFiles files = healthy_host();
  CHECK(status_of(judged("host.shm", files, profile), "host.shm") == CheckStatus::pass);
  files.add("statvfs:/dev/shm", space_text(64 << 20, 64 << 20));
  const auto findings = judged("host.shm", files, profile);
  CHECK(status_of(findings, "host.shm") == CheckStatus::fail);
  CHECK(findings[0].value == "65536 kB");
  CHECK(findings[0].severity.remedy == Remedy::drain);
  CHECK(findings[0].fault_class == FaultClass::setup);
  files.add("statvfs:/dev/shm", refused());
  CHECK(status_of(judged("host.shm", files, profile), "host.shm") == CheckStatus::unknown);
  CHECK(judged("host.shm", files, HealthProfile{}).empty());
}

TEST_CASE("files of libraries that an ended user left are told, others' are not") {
  const HealthProfile profile = fake_profile();
  struct Row {
    const char* name;
    std::int64_t uid;
    bool is_left;
  };
  const Row rows[] = {{"nccl-a1B2c3", 1000, true},
                      {"torch_77_1_2", 1000, true},
                      {"sem.mp-x", 1000, true},
                      {"nccl-a1B2c3", 1001, false},
                      {"database", 1000, false}};
  for (const Row& row : rows) {
    INFO(row.name << " " << row.uid);
    const SourceFiles files = with_shared_file(row.name, row.uid);
    const auto findings = judged("host.shm", files, profile, {.ended_uids = {1000}});
    REQUIRE(findings.size() == 1);
    CHECK((findings[0].status == CheckStatus::fail) == row.is_left);
    if (!row.is_left) continue;
    CHECK(findings[0].severity == CheckSeverity{Remedy::warn, {}, false});
    CHECK(findings[0].evidence.at(0) == "/dev/shm/" + std::string(row.name));
  }
  CHECK(judged_one("host.shm", with_shared_file("nccl-x", 1000), profile)->status ==
        CheckStatus::pass);
}

TEST_CASE("texts of space with any bytes are judged or unknown") {
  std::mt19937 random(5);
  const std::string good = space_text(100 * gib, 50 * gib);
  for (int round = 0; round < 1000; ++round) {
    std::string text = good.substr(0, random() % (good.size() + 1));
    for (std::uint32_t times = random() % 5; times > 0 && !text.empty(); --times)
      text[random() % text.size()] = "0189- \n\xff"[random() % 8];
    CHECK(disks_with_tmp(text).size() == 2);
  }
}
