#include "health/checks/infiniband/port.h"

#include <algorithm>
#include <set>

#include "health/checks/infiniband/infiniband_checks.h"
#include "scheduler/text/pattern.h"
#include "tests/catch.h"
#include "tests/health/fake_infiniband.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> names(const std::vector<InfinibandPort>& ports) {
  std::vector<std::string> names;
  for (const InfinibandPort& port : ports) names.push_back(port.name());
  return names;
}

HealthProfile with_ports(std::vector<std::string> patterns) {
  HealthProfile profile = FakeInfiniband::profile();
  profile.ib.ports = std::move(patterns);
  return profile;
}

}  // namespace

TEST_CASE("the ports of a node carry the name of the tools and their device's GUID") {
  const FakeInfiniband node;
  const auto ports = judged_ports(node.files(), FakeInfiniband::profile());
  REQUIRE(ports.size() == 8);
  CHECK(ports[3].name() == "mlx5_3:1");
  CHECK(ports[3].guid == "b83f:d203:00c5:0004");
  CHECK(ports[3].path("state") == "/sys/class/infiniband/mlx5_3/ports/1/state");
}

TEST_CASE("only ports that the profile names are judged") {
  const FakeInfiniband node;
  CHECK(judged_ports(node.files(), with_ports({})).empty());
  CHECK(names(judged_ports(node.files(), with_ports({"mlx5_[02]:1"}))) ==
        std::vector<std::string>{"mlx5_0:1", "mlx5_2:1"});
  CHECK(judged_ports(node.files(), with_ports({"mlx5_*"})).size() == 8);
  CHECK(judged_ports(node.files(), with_ports({"mlx5_[0-7]:2"})).empty());
}

TEST_CASE("virtual functions are not judged") {
  FakeInfiniband node;
  node.make_virtual_function(2);
  CHECK(judged_ports(node.files(), FakeInfiniband::profile()).size() == 7);
  node.break_file(FakeInfiniband::device_path(3, "device/physfn/vendor"),
                  "No such file or directory", true);
  CHECK(judged_ports(node.files(), FakeInfiniband::profile()).size() == 7);
}

TEST_CASE("a device that the default route leaves by is for management") {
  struct Row {
    const char* route;
    const char* members;  // of bond0
    std::size_t judged;
  };
  const Row rows[] = {{"eth0", "", 8},         {"ib4", "", 7},         {"ib4.8001", "", 7},
                      {"bond0", "ib2 ib4", 6}, {"bond0.12", "ib2", 7}, {"ib40", "", 8}};
  for (const Row& row : rows) {
    INFO(row.route);
    FakeInfiniband node;
    node.default_route_by(row.route);
    node.write("/sys/class/net/bond0/bonding/slaves", std::string(row.members) + "\n");
    CHECK(judged_ports(node.files(), with_ports({"mlx5_*:1"})).size() == row.judged);
  }
}

TEST_CASE("a management device that the profile names outright is judged") {
  FakeInfiniband node;
  node.default_route_by("ib4");
  CHECK(judged_ports(node.files(), FakeInfiniband::profile()).size() == 8);
}

TEST_CASE("a device whose driver objects to being read is left alone") {
  const FakeInfiniband node;
  CHECK(judged_ports(node.files(), FakeInfiniband::profile(), {"mlx5_1"}).size() == 7);
}

TEST_CASE("checks are left out by device or by port, or turned off") {
  HealthProfile profile = FakeInfiniband::profile();
  profile.exclude = {{"ib.rate", "mlx5_1", "slow by design"}, {"ib.*", "mlx5_2:1", "spare"}};
  profile.checks["ib.lid"].mode = CheckMode::off;
  CHECK_FALSE(is_judged(profile, "ib.rate", {"mlx5_1", "1", ""}));
  CHECK(is_judged(profile, "ib.state", {"mlx5_1", "1", ""}));
  CHECK_FALSE(is_judged(profile, "ib.state", {"mlx5_2", "1", ""}));
  CHECK_FALSE(is_judged(profile, "ib.lid", {"mlx5_3", "1", ""}));
}

TEST_CASE("the names that a pattern stands for") {
  CHECK(names_of_pattern("mlx5_[0-2]:1") ==
        std::vector<std::string>{"mlx5_0:1", "mlx5_1:1", "mlx5_2:1"});
  CHECK(names_of_pattern("[ab][1-2]")->size() == 4);
  CHECK(names_of_pattern("mlx5_0") == std::vector<std::string>{"mlx5_0"});
  for (const char* pattern : {"mlx5_*", "mlx5_[", "mlx5_[]", "[0-9][0-9][0-9]"}) {
    INFO(pattern);
    CHECK_FALSE(names_of_pattern(pattern));
  }
}

TEST_CASE("uptime and boot id") {
  FakeInfiniband node;
  CHECK(uptime_of(node.files()) == 86400s);
  CHECK(boot_id_of(node.files()).starts_with("6f1d"));
  for (const char* text : {"", "x", "-5.0 1", "99999999999999999999"}) {
    INFO(text);
    node.write("/proc/uptime", text);
    CHECK_FALSE(uptime_of(node.files()));
  }
}

TEST_CASE("every file that checks read is among the sources of a reader") {
  const auto component_count = [](std::string_view path) { return std::ranges::count(path, '/'); };
  const auto is_source = [&](const auto& sources, std::string_view path) {
    return std::ranges::any_of(sources, [&](std::string_view source) {
      return component_count(source) == component_count(path) && fits_pattern(source, path);
    });
  };
  const std::set<std::string_view> spared{"counters", "hw_counters"};  // more than is judged
  const FakeInfiniband node;
  for (const auto& [path, reading] : node.files().all()) {
    if (path.starts_with("/dev/")) {
      CHECK(is_source(infiniband_device_nodes(), path));
      continue;
    }
    const std::string folder = path.substr(0, path.rfind('/'));
    if (spared.contains(std::string_view(folder).substr(folder.rfind('/') + 1))) continue;
    INFO(path);
    CHECK(is_source(infiniband_sources(), path));
  }
}

TEST_CASE("parts of the sources tell ports as well") {
  for (const auto& part : {infiniband_state_sources(), infiniband_counter_sources()}) {
    CHECK(part.size() < infiniband_sources().size());
    for (const char* needed : {"/proc/uptime", "/proc/sys/kernel/random/boot_id", "/proc/net/route",
                               "/sys/class/infiniband/*/device/physfn/vendor",
                               "/sys/class/infiniband/*/ports/*/link_layer"}) {
      INFO(needed);
      CHECK(std::ranges::find(part, needed) != part.end());
    }
  }
}

TEST_CASE("devices and ports are told by what both the states and the counters begin with") {
  const auto devices = infiniband_device_sources();
  const auto states = infiniband_state_sources();
  const auto counters = infiniband_counter_sources();
  const auto has = [](const auto& part, std::string_view source) {
    return std::ranges::find(part, source) != part.end();
  };
  for (const std::string_view source : infiniband_sources()) {
    INFO(source);
    CHECK(has(devices, source) == (has(states, source) && has(counters, source)));
    const bool is_counter = source.find("counters/") != source.npos;
    if (is_counter) CHECK((has(counters, source) && !has(states, source)));
  }
  for (const std::string_view source : infiniband_link_sources()) {
    INFO(source);
    CHECK((has(states, source) && !has(devices, source)));
  }
  CHECK(devices.size() < states.size());
}

namespace {

SourceFiles links_of(const FakeInfiniband& node) {
  SourceFiles links;
  for (const auto& [path, reading] : node.files().all()) {
    const std::string leaf = path.substr(path.rfind('/') + 1);
    const bool is_link = path.find("/ports/") != path.npos &&
                         (leaf == "state" || leaf == "phys_state" || leaf == "rate");
    if (is_link) links.add(path, reading);
  }
  return links;
}

}  // namespace

TEST_CASE("devices that are known complete what their links tell") {
  FakeInfiniband node(3);
  node.make_virtual_function(1);
  KnownDevices known;
  CHECK(known.empty());
  known.remember(node.files());
  const SourceFiles files = known.with_links(links_of(node));
  CHECK(judged_ports(files, FakeInfiniband::profile()) ==
        judged_ports(node.files(), FakeInfiniband::profile()));
  CHECK(pci_address(files, "mlx5_2") == FakeInfiniband::pci_address(2));
  CHECK(uptime_of(files) == uptime_of(node.files()));
  CHECK_FALSE(known.empty());
}

TEST_CASE("known ports are read without being listed, and a device may have fewer than another") {
  FakeInfiniband node(2);
  SourceFiles files = node.files();
  files.add("/sys/class/infiniband/mlx5_0/ports/2/link_layer", "InfiniBand\n");
  KnownDevices known;
  CHECK(known.link_sources().empty());
  known.remember(files);
  CHECK(known.link_sources() ==
        std::vector<std::string>{
            "/sys/class/infiniband/*/ports/1/state", "/sys/class/infiniband/*/ports/2/state",
            "/sys/class/infiniband/*/ports/1/phys_state",
            "/sys/class/infiniband/*/ports/2/phys_state", "/sys/class/infiniband/*/ports/1/rate",
            "/sys/class/infiniband/*/ports/2/rate"});
  SourceFiles links = links_of(node);
  links.add("/sys/class/infiniband/mlx5_0/ports/2/state", "4: ACTIVE\n");
  links.add("/sys/class/infiniband/mlx5_1/ports/2/state",
            FileReading{{}, "No such file or directory", true});
  CHECK(names(find_ports(known.with_links(links))) ==
        std::vector<std::string>{"mlx5_0:1", "mlx5_0:2", "mlx5_1:1"});
}

TEST_CASE("a known device that is gone is not told, and a new one makes all be read again") {
  FakeInfiniband node(3);
  KnownDevices known;
  known.remember(node.files());
  node.remove_device(1);
  CHECK(names(find_ports(known.with_links(links_of(node)))) ==
        std::vector<std::string>{"mlx5_0:1", "mlx5_2:1"});
  CHECK_FALSE(known.empty());
  const FakeInfiniband larger(4);
  CHECK(names(find_ports(known.with_links(links_of(larger)))) ==
        std::vector<std::string>{"mlx5_0:1", "mlx5_1:1", "mlx5_2:1"});
  CHECK(known.empty());
}

TEST_CASE("what could not be read makes no device known") {
  FakeInfiniband node(2);
  node.break_file(FakeInfiniband::device_path(1, "node_guid"), "no answer within 2 s");
  KnownDevices known;
  known.remember(node.files());
  CHECK(known.empty());
}
