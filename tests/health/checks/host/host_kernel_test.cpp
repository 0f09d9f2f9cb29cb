#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

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
  const std::string path = "/proc/sys/kernel/tainted";
  check_spoilt("host.taint",
               {{path, "0\n", CheckStatus::pass, "0"},
                {path, "12289\n", CheckStatus::pass},  // proprietary, out of tree, unsigned
                {path, "16\n", CheckStatus::fail, "machine check (M)", "reboot"},
                {path, "12417\n", CheckStatus::fail, "oops (D)", "reboot"},
                {path, "16384\n", CheckStatus::fail, "soft lockup (L)", "reboot"},
                {path, "512\n", CheckStatus::fail, "warning (W)", "warn"},
                {path, "640\n", CheckStatus::fail, "oops (D), warning (W)", "reboot"},
                {path, "\n", CheckStatus::unknown},
                {path, "-1\n", CheckStatus::unknown},
                {path, "99999999999999999999\n", CheckStatus::unknown},
                {path, "12289 x", CheckStatus::unknown}});
  SourceFiles files;
  files.add(path, "12417");
  CHECK(judged_one("host.taint", files, {})->evidence.at(0) == "tainted 12417");
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
