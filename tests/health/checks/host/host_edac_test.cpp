#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

struct Counts {
  std::string uncorrected;
  std::string corrected;
  Milliseconds at = 24h;
  std::string boot = "b1";

  SourceFiles files() const {
    const std::string folder = "/sys/devices/system/edac/mc/mc0/";
    SourceFiles files;
    files.add("/proc/sys/kernel/random/boot_id", boot);
    if (!uncorrected.empty()) files.add(folder + "ue_count", uncorrected);
    if (!corrected.empty()) files.add(folder + "ce_count", corrected);
    return files;
  }
};

std::vector<HealthFinding> judged_edac(const EdacSample& before, const SourceFiles& now,
                                       Milliseconds at, const HealthProfile& profile = {}) {
  return judged("host.edac", now, profile, {.now = Time(at), .edac_before = before});
}

std::vector<HealthFinding> grown(const Counts& before, const Counts& now,
                                 const HealthProfile& profile = {}) {
  return judged_edac(edac_sample_of(before.files(), Time(before.at)), now.files(), now.at, profile);
}

}  // namespace

TEST_CASE("counts of the memory controllers are read from their files") {
  SourceFiles files = healthy_host();
  files.add("/sys/devices/system/edac/mc/mc1/ue_count", "many");
  files.add("/sys/devices/system/edac/mc/mc1/ce_count", "-1");
  const EdacSample read = edac_sample_of(files, Time(5s));
  CHECK(read.boot_id == "6f1d0f3c-2f7f-4f46-8e0b-5c9b8a1f0001");
  REQUIRE(read.by_controller.size() == 2);
  CHECK(read.by_controller.at("mc0").corrected == 3);
  CHECK_FALSE(read.by_controller.at("mc1").uncorrected);
  CHECK_FALSE(read.by_controller.at("mc1").corrected);
}

TEST_CASE("one uncorrected error stops the job and restarts the node") {
  CHECK(status_of(grown({"7", "0"}, {"7", "0"}), "host.edac", "mc0") == CheckStatus::pass);
  const auto findings = grown({"7", "0"}, {"8", "4"});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].status == CheckStatus::fail);
  CHECK(findings[0].value == "1 uncorrected");
  CHECK(text_of(findings[0].severity) == "!reboot>rma");
}

TEST_CASE("corrected errors are only written down, from ten a day on") {
  CHECK(grown({"0", "0"}, {"0", "9"})[0].status == CheckStatus::pass);
  const auto many = grown({"0", "0"}, {"0", "10"});
  CHECK(many[0].status == CheckStatus::fail);
  CHECK(many[0].severity == CheckSeverity{Remedy::warn, {}, false});
  CHECK(grown({"0", "0", 0h}, {"0", "18", 48h})[0].status == CheckStatus::pass);
  CHECK(grown({"0", "0", 0h}, {"0", "19", 48h})[0].status == CheckStatus::fail);
  CHECK(grown({"0", "0", 0h}, {"0", "1", 1min})[0].status == CheckStatus::pass);
}

TEST_CASE("the limit of corrected errors is the profile's, where it has one") {
  HealthProfile profile;
  profile.checks["host.edac"].limits["ce_per_day"] = 2;
  CHECK(grown({"0", "0"}, {"0", "3"}, profile)[0].status == CheckStatus::fail);
}

TEST_CASE("a start of the node or a reset counter begins anew") {
  CHECK(grown({"0", "0"}, {"5", "50", 25h, "b2"}).empty());
  CHECK(grown({"9", "9"}, {"5", "50"}).empty());
  CHECK(grown({"1", "9"}, {"2", "0"}).empty());
  CHECK(grown({"", "", 1h}, {"5", "5"}).empty());
  CHECK(grown({"0", "0", 25h}, {"5", "50", 24h}).empty());
}

TEST_CASE("counts that cannot be read are unknown, and do not hide an error") {
  CHECK(grown({"0", "0"}, {"0", "x"})[0].status == CheckStatus::unknown);
  CHECK(grown({"0", "0"}, {"1", "x"})[0].status == CheckStatus::fail);
  SourceFiles hung;
  hung.add("/sys/devices/system/edac/mc", FileReading{{}, "no answer within 5 s"});
  const auto findings = judged_edac({}, hung, 1h);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].status == CheckStatus::unknown);
  CHECK_THAT(findings[0].evidence.at(0), ContainsSubstring("no answer within 5 s"));
}

TEST_CASE("where the kernel knows no memory controller there is nothing to judge") {
  CHECK(grown({}, {}).empty());
  HealthProfile profile;
  profile.required = {"host.*"};
  const auto missed = grown({}, {}, profile);
  REQUIRE(missed.size() == 1);
  CHECK(missed[0].status == CheckStatus::unknown);
  CHECK_THAT(missed[0].evidence.at(0), ContainsSubstring("knows no memory controller"));
}
