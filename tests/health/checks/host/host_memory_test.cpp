#include <random>
#include <tuple>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;

namespace {

SourceFiles with_meminfo(const std::string& text) {
  SourceFiles files = healthy_host();
  files.add("/proc/meminfo", text);
  return files;
}

std::string total(const std::string& kb) {
  return "MemTotal: " + kb + " kB\nSwapTotal: 0 kB\nHugePages_Total: 0\n";
}

}  // namespace

TEST_CASE("memory that is missing fails, memory within the tolerance passes") {
  const std::tuple<const char*, CheckStatus, const char*> rows[] = {
      {"1961032704", CheckStatus::pass, ""},
      {"1862981069", CheckStatus::pass, ""},
      {"1862981068", CheckStatus::fail, "drain>rma"},
      {"1838468160", CheckStatus::fail, "drain>rma"},
      {"2059084339", CheckStatus::pass, ""},
      {"2059084341", CheckStatus::fail, "drain>rma"},
      {"0", CheckStatus::unknown, ""},
      {"99999999999999999999", CheckStatus::unknown, ""},
      {"999999999999999", CheckStatus::fail, "drain>rma"},
      {"x", CheckStatus::unknown, ""},
  };
  for (const auto& [kb, status, severity] : rows)
    check_spoilt("host.mem", {{"/proc/meminfo", total(kb), status, "", severity}});
  const auto lost = judged_one("host.mem", with_meminfo(total("1838468160")), fake_profile());
  CHECK(lost->value == "1838468160 kB");
  CHECK(lost->expected == "1961032704 kB +- 98051635 kB");
}

TEST_CASE("memory is not judged without a profile, and unknown without a source") {
  HealthProfile profile;
  CHECK_FALSE(judged_one("host.mem", healthy_host(), profile));
  CHECK_FALSE(judged_one("host.swap", healthy_host(), profile));
  CHECK_FALSE(judged_one("host.hugepages", healthy_host(), profile));
  profile = fake_profile();
  SourceFiles files = healthy_host();
  files.add("/proc/meminfo", refused());
  CHECK(judged_one("host.mem", files, profile)->status == CheckStatus::unknown);
  CHECK(judged_one("host.mem", files, profile)->evidence ==
        std::vector<std::string>{"/proc/meminfo: Permission denied"});
  CHECK(judged_one("host.swap", files, profile)->status == CheckStatus::unknown);
  CHECK(judged_one("host.hugepages", files, profile)->status == CheckStatus::unknown);
}

TEST_CASE("swap space is what the profile says") {
  HealthProfile profile = fake_profile();
  const SourceFiles files = with_meminfo("SwapTotal:  2097148 kB\n");
  CHECK(judged_one("host.swap", healthy_host(), profile)->status == CheckStatus::pass);
  CHECK(judged_one("host.swap", files, profile)->status == CheckStatus::fail);
  CHECK(judged_one("host.swap", files, profile)->fault_class == FaultClass::setup);
  profile.host.swap_kb = 2097148;
  CHECK(judged_one("host.swap", files, profile)->status == CheckStatus::pass);
  CHECK(judged_one("host.swap", with_meminfo("SwapFree: 0 kB\n"), profile)->status ==
        CheckStatus::unknown);
}

TEST_CASE("huge pages have a count and a mode") {
  const HealthProfile profile = fake_profile();
  CHECK(judged_one("host.hugepages", healthy_host(), profile)->value ==
        "0 pages, transparent madvise");
  SourceFiles files = healthy_host();
  files.add("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  CHECK(judged_one("host.hugepages", files, profile)->value == "transparent always");
  files.add("/proc/meminfo", "HugePages_Total: 512\n");
  CHECK(judged_one("host.hugepages", files, profile)->value == "512 pages, transparent always");
  files = healthy_host();
  for (const char* broken : {"always madvise never", "]always[", "[", ""}) {
    files.add("/sys/kernel/mm/transparent_hugepage/enabled", std::string(broken));
    CHECK(judged_one("host.hugepages", files, profile)->status == CheckStatus::unknown);
  }
}

TEST_CASE("a spoilt meminfo is judged or unknown, never a crash") {
  const HealthProfile profile = fake_profile();
  const SourceFiles host = healthy_host();
  const std::string good = host.reading("/proc/meminfo").text;
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good.substr(0, random() % good.size());
    for (std::uint32_t times = random() % 8; times > 0 && !text.empty(); --times)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    const SourceFiles files = with_meminfo(text);
    CHECK(judged_one("host.mem", files, profile));
    CHECK(judged_one("host.swap", files, profile));
    CHECK(judged_one("host.hugepages", files, profile));
  }
}
