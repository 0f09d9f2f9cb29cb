#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

std::optional<HealthFinding> taint(const std::string& text) {
  SourceFiles files;
  files.add("/proc/sys/kernel/tainted", text);
  return judged_one("host.taint", files, HealthProfile{});
}

std::optional<HealthFinding> clock_of(const std::string& text, std::optional<Milliseconds> offset) {
  SourceFiles files;
  files.add("adjtimex:", text);
  return judged_one("host.clock", files, HealthProfile{}, {offset});
}

std::optional<HealthFinding> reboots(std::span<const BootSeen> history, Time now) {
  return judged_one("host.reboots", SourceFiles{}, HealthProfile{}, {.now = now, .boots = history});
}

}  // namespace

TEST_CASE("a taint of the hardware or of an oops restarts the node") {
  struct Row {
    const char* text;
    CheckStatus status;
    Remedy remedy;
  };
  const Row rows[] = {
      {"0\n", CheckStatus::pass, Remedy::reboot},
      {"12289\n", CheckStatus::pass, Remedy::reboot},  // proprietary, out of tree, unsigned
      {"16\n", CheckStatus::fail, Remedy::reboot},     // machine check
      {"12417\n", CheckStatus::fail, Remedy::reboot},  // and an oops
      {"16384\n", CheckStatus::fail, Remedy::reboot},  // soft lockup
      {"512\n", CheckStatus::fail, Remedy::warn},      // a warning
      {"640\n", CheckStatus::fail, Remedy::reboot},    // a warning and an oops
      {"\n", CheckStatus::unknown, Remedy::reboot},
      {"-1\n", CheckStatus::unknown, Remedy::reboot},
      {"99999999999999999999\n", CheckStatus::unknown, Remedy::reboot},
      {"12289 x", CheckStatus::unknown, Remedy::reboot},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto finding = taint(row.text);
    CHECK(finding->status == row.status);
    CHECK(finding->severity.remedy == row.remedy);
  }
  CHECK(taint("12417")->value == "oops (D)");
  CHECK(taint("12417")->evidence.at(0) == "tainted 12417");
}

TEST_CASE("a clock is synchronised and near") {
  struct Row {
    const char* text;
    std::optional<Milliseconds> offset;
    CheckStatus status;
  };
  const Row rows[] = {
      {"status 8193\n", {}, CheckStatus::pass},
      {"status 64\n", {}, CheckStatus::fail},
      {"status 8257\n", 1ms, CheckStatus::fail},
      {"status 8193\n", 49ms, CheckStatus::pass},
      {"status 8193\n", -49ms, CheckStatus::pass},
      {"status 8193\n", 50ms, CheckStatus::fail},
      {"status 8193\n", -3600s, CheckStatus::fail},
      {"status 8193\noffset_us 49999\n", {}, CheckStatus::pass},
      {"status 8193\noffset_us 50000\n", {}, CheckStatus::fail},
      {"status 8193\noffset_us -350000\n", {}, CheckStatus::fail},
      {"status x\n", 1ms, CheckStatus::unknown},
      {"", {}, CheckStatus::unknown},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(clock_of(row.text, row.offset)->status == row.status);
  }
  CHECK(judged_one("host.clock", SourceFiles{}, HealthProfile{}, {60ms})->status ==
        CheckStatus::fail);
  CHECK(judged_one("host.clock", SourceFiles{}, HealthProfile{})->status == CheckStatus::unknown);
}

TEST_CASE("three starts of a node within a day are too many") {
  const std::vector<BootSeen> history{
      {"a", Time(1h)}, {"b", Time(20h)}, {"b", Time(21h)}, {"c", Time(30h)}, {"d", Time(40h)}};
  CHECK_FALSE(reboots({}, Time(1h)));
  CHECK(reboots(std::span(history).first(1), Time(2h))->value == "0");
  CHECK(reboots(std::span(history).first(4), Time(41h))->value == "2");
  const auto often = reboots(history, Time(41h));
  CHECK(often->status == CheckStatus::fail);
  CHECK(often->severity.remedy == Remedy::rma);
  CHECK(reboots(history, Time(45h))->status == CheckStatus::pass);
}
