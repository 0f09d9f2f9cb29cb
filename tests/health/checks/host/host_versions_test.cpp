#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("a node tells its versions, and leaves out what it has not") {
  CHECK(versions_of(healthy_host()) == Facts{{"kernel", "5.15.0-1052-azure"},
                                             {"ofed", "23.10-0.5.5"},
                                             {"libcuda", "535.161.08"},
                                             {"nccl", "2.18.5"}});
  CHECK(versions_of(SourceFiles{}).empty());
  SourceFiles files;
  files.add("/usr/lib64/libcuda.so.1@", "/opt/driver/libcuda.so.550.54");
  files.add("/usr/lib64/libnccl.so.2@", "stub");
  CHECK(versions_of(files) == Facts{{"libcuda", "550.54"}});
}

TEST_CASE("interfaces that are up tell their MTU") {
  CHECK(mtus_of(healthy_host()) == Facts{{"mtu eth0", "1500"}, {"mtu ib0", "2044"}});
}

TEST_CASE("a node knows its peers, answers soon and has the port free") {
  const auto net = [](const NetFacts& facts) {
    return judged_one("host.net", SourceFiles{}, HealthProfile{}, {.net = facts});
  };
  CHECK_FALSE(net({}));
  CHECK(net({20ms, {}, true})->status == CheckStatus::pass);
  CHECK(net({5000ms, {}, true})->status == CheckStatus::fail);
  CHECK(net({{}, {"n17"}, true})->value == "n17 not resolved");
  CHECK(net({{}, {}, false})->value == "master port in use");
}

TEST_CASE("a helper that was killed and stays is unknown") {
  const auto helper = [](const HelperFacts& facts) {
    return judged_one("host.helper", SourceFiles{}, HealthProfile{}, {.helper = facts});
  };
  CHECK(helper({})->status == CheckStatus::pass);
  CHECK(helper({1s, 1})->status == CheckStatus::pass);
  CHECK(helper({3s, 1})->status == CheckStatus::unknown);
}
