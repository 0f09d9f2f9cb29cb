#include "health/checks/host/edac.h"

#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

EdacSample sample(std::int64_t uncorrected, std::int64_t corrected, Milliseconds at = 24h,
                  const std::string& boot = "b1") {
  return {boot, Time(at), {{"mc0", {uncorrected, corrected}}}, {}};
}

std::vector<HealthFinding> judged(const EdacSample& before, const EdacSample& now,
                                  const HealthProfile& profile = {}) {
  return judge_edac(before, now, CheckInput{SourceFiles{}, profile, find_check("host.edac")});
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
  CHECK(status_of(judged(sample(7, 0), sample(7, 0)), "host.edac", "mc0") == CheckStatus::pass);
  const auto findings = judged(sample(7, 0), sample(8, 4));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].status == CheckStatus::fail);
  CHECK(findings[0].value == "1 uncorrected");
  CHECK(text_of(findings[0].severity) == "!reboot>rma");
}

TEST_CASE("corrected errors are only written down, from ten a day on") {
  CHECK(judged(sample(0, 0), sample(0, 9))[0].status == CheckStatus::pass);
  const auto many = judged(sample(0, 0), sample(0, 10));
  CHECK(many[0].status == CheckStatus::fail);
  CHECK(many[0].severity == CheckSeverity{Remedy::warn, {}, false});
  CHECK(judged(sample(0, 0, 0h), sample(0, 18, 48h))[0].status == CheckStatus::pass);
  CHECK(judged(sample(0, 0, 0h), sample(0, 19, 48h))[0].status == CheckStatus::fail);
  CHECK(judged(sample(0, 0, 0h), sample(0, 1, 1min))[0].status == CheckStatus::pass);
}

TEST_CASE("the limit of corrected errors is the profile's, where it has one") {
  HealthProfile profile;
  profile.checks["host.edac"].limits["ce_per_day"] = 2;
  CHECK(judged(sample(0, 0), sample(0, 3), profile)[0].status == CheckStatus::fail);
}

TEST_CASE("a start of the node or a reset counter begins anew") {
  CHECK(judged(sample(0, 0), sample(5, 50, 25h, "b2")).empty());
  CHECK(judged(sample(9, 9), sample(5, 50)).empty());
  CHECK(judged(sample(1, 9), sample(2, 0)).empty());
  CHECK(judged({"b1", Time(1h), {}, {}}, sample(5, 5)).empty());
  CHECK(judged(sample(0, 0, 25h), sample(5, 50, 24h)).empty());
}

TEST_CASE("counts that cannot be read are unknown, and do not hide an error") {
  EdacSample now = sample(0, 0);
  now.by_controller["mc0"].corrected.reset();
  CHECK(judged(sample(0, 0), now)[0].status == CheckStatus::unknown);
  now.by_controller["mc0"].uncorrected = 1;
  CHECK(judged(sample(0, 0), now)[0].status == CheckStatus::fail);

  SourceFiles hung;
  hung.add("/sys/devices/system/edac/mc", FileReading{{}, "no answer within 5 s"});
  const auto findings = judged({}, edac_sample_of(hung, Time(1h)));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].status == CheckStatus::unknown);
  CHECK_THAT(findings[0].evidence.at(0), ContainsSubstring("no answer within 5 s"));
}

TEST_CASE("where the kernel knows no memory controller there is nothing to judge") {
  EdacSample none = edac_sample_of(SourceFiles{}, Time(1h));
  none.boot_id = "b1";
  CHECK(judged({}, none).empty());
  HealthProfile profile;
  profile.required = {"host.*"};
  REQUIRE(judged({}, none, profile).size() == 1);
  CHECK(judged({}, none, profile)[0].status == CheckStatus::unknown);
  CHECK_THAT(judged({}, none, profile)[0].evidence.at(0),
             ContainsSubstring("knows no memory controller"));
}
