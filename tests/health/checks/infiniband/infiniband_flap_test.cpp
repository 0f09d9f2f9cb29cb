#include "health/checks/infiniband/infiniband_checks.h"
#include "tests/catch.h"
#include "tests/health/fake_infiniband.h"
#include "tests/health/status_words.h"

using namespace muster;
using namespace muster::status_words;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::milliseconds watch_start = std::chrono::hours(480000);

struct WatchedLinks {
  FakeInfiniband node;
  HealthProfile profile = FakeInfiniband::profile();
  LinkFlaps flaps;

  void down(int n, std::chrono::milliseconds at, std::chrono::seconds since_boot = 24h) {
    flaps.observe_down(FakeInfiniband::pci_address(n), node.files(), profile, watch_start + at,
                       since_boot);
  }
  HealthFinding finding(std::chrono::milliseconds at, const std::string& log_error = "") const {
    const CounterHistory counters;
    const InfinibandFacts facts{.files = node.files(),
                                .counters = counters,
                                .flaps = flaps,
                                .now = watch_start + at,
                                .log_error = log_error};
    const InfinibandLook look{facts, judged_ports(node.files(), profile)};
    CheckInput input{node.files(), profile, find_check("ib.flap")};
    input.ib = &look;
    return flaps.judge(input).at(3);
  }
  CheckStatus status(std::chrono::milliseconds at) const { return finding(at).status; }
};

}  // namespace

TEST_CASE("a link that went down three times in a day flaps") {
  WatchedLinks links;
  CHECK(links.status(0s) == pass);
  links.down(3, 0h);
  links.down(3, 20h);
  CHECK(links.status(20h) == pass);
  CHECK(links.finding(20h).value == "2");
  links.down(3, 23h);
  const HealthFinding flapping = links.finding(23h);
  CHECK(flapping.status == fail);
  CHECK(text_of(flapping.severity) == "drain");
  CHECK(flapping.value == "3");
  CHECK(flapping.expected == "< 3");
  CHECK(flapping.device == "mlx5_3:1");
}

TEST_CASE("three times in more than a day are no flapping") {
  WatchedLinks links;
  for (int n = 0; n < 20; ++n) links.down(3, n * 13h);
  CHECK(links.status(20 * 13h) == pass);
}

TEST_CASE("a link that flapped is clear after a clean day") {
  WatchedLinks links;
  for (int n = 0; n < 3; ++n) links.down(3, n * 1h);
  CHECK(links.status(25h) == fail);
  CHECK(links.status(26h) == pass);
}

TEST_CASE("old flaps do not count once the link was clean") {
  WatchedLinks links;
  for (int n = 0; n < 3; ++n) links.down(3, n * 1h);
  links.down(3, 30h);
  CHECK(links.status(30h) == pass);
  CHECK(links.finding(30h).value == "1");
}

TEST_CASE("what is no flap of a port is not counted") {
  WatchedLinks links;
  for (int n = 0; n < 5; ++n) {
    links.down(3, n * 1min, 299s);  // links come up after boot
    links.flaps.observe_down("0000:ff:00.0", links.node.files(), links.profile, watch_start, 24h);
    links.down(4, n * 1min);
  }
  CHECK(links.status(1h) == pass);
  CHECK(links.flaps.state().size() == 1);
}

TEST_CASE("without the kernel log nobody knows of flaps, but those that were seen count") {
  WatchedLinks links;
  CHECK(links.finding(0s, "Operation not permitted").status == CheckStatus::unknown);
  for (int n = 0; n < 3; ++n) links.down(3, n * 1h);
  CHECK(links.finding(3h, "Operation not permitted").status == fail);
}

TEST_CASE("limits of flapping are the profile's") {
  WatchedLinks links;
  links.profile.checks["ib.flap"].limits = {{"drain_per_window", 2}, {"window_h", 1}};
  links.down(3, 0s);
  links.down(3, 30min);
  CHECK(links.status(1h) == fail);
}

TEST_CASE("flaps are saved, bounded, and damaged ones left out") {
  WatchedLinks links;
  for (int n = 0; n < 500; ++n) links.down(3, n * 1min);
  REQUIRE(links.flaps.state().size() == 1);
  CHECK(links.flaps.state().front().downs.size() == 64);
  CHECK(LinkFlaps(links.flaps.state()).state() == links.flaps.state());
  const std::vector<LinkFlapTrack> damaged = {{"a", {2s, 1s}}, {"b", {}}, {"c", {-1s}}};
  CHECK(LinkFlaps(damaged).state().empty());
}

TEST_CASE("a clock that was set back clears what is known") {
  WatchedLinks links;
  links.down(3, 10h);
  links.down(3, 11h);
  links.down(3, 1h);
  CHECK(links.status(1h) == pass);
}
