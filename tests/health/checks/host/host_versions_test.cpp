#include "health/checks/host/versions.h"

#include "health/read/liveness.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("a node tells its versions, and leaves out what it has not") {
  CHECK(versions_of(healthy_host(), "ab12") == Facts{{"kernel", "5.15.0-1052-azure"},
                                                     {"ofed", "23.10-0.5.5"},
                                                     {"libcuda", "535.161.08"},
                                                     {"nccl", "2.18.5"},
                                                     {"muster", "ab12"}});
  CHECK(versions_of(SourceFiles{}, "").empty());
  SourceFiles files;
  files.add("/usr/lib64/libcuda.so.1@", "/opt/driver/libcuda.so.550.54");
  files.add("/usr/lib64/libnccl.so.2@", "stub");
  CHECK(versions_of(files, "") == Facts{{"libcuda", "550.54"}});
}

TEST_CASE("interfaces that are up tell their MTU") {
  CHECK(mtus_of(healthy_host()) == Facts{{"mtu eth0", "1500"}, {"mtu ib0", "2044"}});
}

TEST_CASE("a node knows its peers, answers soon and has the port free") {
  const HealthProfile profile;
  CHECK_FALSE(judge_net({}, profile));
  CHECK(judge_net({20ms, {}, true}, profile)->status == CheckStatus::pass);
  CHECK(judge_net({5000ms, {}, true}, profile)->status == CheckStatus::fail);
  CHECK(judge_net({{}, {"n17"}, true}, profile)->value == "n17 not resolved");
  CHECK(judge_net({{}, {}, false}, profile)->value == "master port in use");
}

TEST_CASE("an agent that is silent is unknown, and then fails") {
  const HealthProfile profile;
  CHECK(judge_agent({}, profile).status == CheckStatus::unknown);
  CHECK(judge_agent(15s, profile).status == CheckStatus::pass);
  CHECK(judge_agent(16s, profile).status == CheckStatus::unknown);
  CHECK(judge_agent(45s, profile).status == CheckStatus::unknown);
  CHECK(judge_agent(46s, profile).status == CheckStatus::fail);
}

TEST_CASE("a helper that was killed and stays is unknown") {
  const HealthProfile profile;
  CHECK(judge_helper({}, profile).status == CheckStatus::pass);
  CHECK(judge_helper({1s, 1}, profile).status == CheckStatus::pass);
  CHECK(judge_helper({3s, 1}, profile).status == CheckStatus::unknown);
}
