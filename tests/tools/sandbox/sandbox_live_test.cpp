// Real hosts of this machine; skipped where namespaces are not allowed.
#include <unistd.h>

#include <filesystem>

#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"
#include "tools/sandbox/account.h"
#include "tools/sandbox/files.h"
#include "tools/sandbox/host_processes.h"
#include "tools/sandbox/network.h"
#include "tools/sandbox/sandbox.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Taken away however the test ends.
class Box {
 public:
  explicit Box(int hosts) : layout(folder_.path() / "box") {
    fs::permissions(folder_.path(), fs::perms(0755));
    request.hosts = hosts;
    request.user = "sandboxtest";
  }
  ~Box() { (void)sandbox_down(layout); }

  Status up() {
    return sandbox_up(layout, request, [] { return false; });
  }
  std::string on(const std::string& host, const std::string& script) const {
    const auto command = inside_host(layout, host, {"sh", "-c", script});
    return command ? run_here(*command) : command.error().message;
  }
  bool is_gone() const {
    return hosts_with_network(layout).empty() && !has_bridge(layout) &&
           !fs::exists(layout.folder()) && !find_account(request.user);
  }

 private:
  TemporaryFolder folder_;

 public:
  SandboxLayout layout;
  SandboxRequest request;
};

TEST_CASE("a folder that is there keeps its mode, a new one gets the one asked for") {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(01777));
  REQUIRE(make_folder(folder.path(), 0755));
  REQUIRE(make_folder(folder.path() / "a" / "b", 0700));
  CHECK(fs::status(folder.path()).permissions() == fs::perms(01777));
  CHECK(fs::status(folder.path() / "a" / "b").permissions() == fs::perms(0700));
}

TEST_CASE("hosts have their own name, processes, /tmp and boot id, and reach each other") {
  if (!TestCluster::permitted()) return;
  Box box(2);
  REQUIRE(box.up());
  CHECK(box.on("h01", "uname -n") == "h01\n");
  CHECK(box.on("h01", "cat /proc/1/comm") == "sshd\n");
  box.on("h01", "echo mine > /tmp/mark");
  CHECK(box.on("h02", "ls /tmp/mark 2>&1 || true") != "/tmp/mark\n");
  const std::string boot = "cat /proc/sys/kernel/random/boot_id";
  CHECK(box.on("h01", boot) != box.on("h02", boot));
  CHECK(run_here({"ssh", "-F", box.layout.ssh_config().string(), "h02", "id", "-un"}) ==
        "sandboxtest\n");
  CHECK(sandbox_down(box.layout));
  CHECK(box.is_gone());
}

TEST_CASE("a crashed host is off and boots with another boot id") {
  if (!TestCluster::permitted()) return;
  Box box(2);
  REQUIRE(box.up());
  const std::string boot = "cat /proc/sys/kernel/random/boot_id";
  const std::string before = box.on("h02", boot);
  REQUIRE(crash_host(box.layout, "h02"));
  CHECK(sandbox_hosts(box.layout)->at(1).link == HostLink::off);
  CHECK(processes_of(box.layout, {"h02"}).empty());
  CHECK_FALSE(inside_host(box.layout, "h02", {"true"}));
  REQUIRE(boot_host(box.layout, "h02"));
  CHECK(sandbox_hosts(box.layout)->at(1).link == HostLink::on);
  CHECK(box.on("h02", boot) != before);
  CHECK_FALSE(boot_host(box.layout, "h02"));
}

TEST_CASE("a host without its cable is cut off and loses nothing") {
  if (!TestCluster::permitted()) return;
  Box box(1);
  REQUIRE(box.up());
  const std::string init = "cat /proc/1/stat | cut -d' ' -f22";
  const std::string before = box.on("h01", init);
  REQUIRE(partition_host(box.layout, "h01"));
  CHECK(sandbox_hosts(box.layout)->front().link == HostLink::cut_off);
  CHECK(box.on("h01", "cat /sys/class/net/eth0/carrier") == "0\n");
  REQUIRE(heal_host(box.layout, "h01"));
  CHECK(sandbox_hosts(box.layout)->front().link == HostLink::on);
  CHECK(box.on("h01", init) == before);
  CHECK_FALSE(partition_host(box.layout, "h02"));
}

TEST_CASE("a full disk takes not a byte, until it is emptied, and keeps its files over a crash") {
  if (!TestCluster::permitted()) return;
  Box box(1);
  REQUIRE(box.up());
  CHECK_FALSE(fill_disk(box.layout, "h01"));  // it would be this machine's
  REQUIRE(sandbox_down(box.layout));
  box.request.home_mib = 1;
  REQUIRE(box.up());
  const std::string write = "echo kept > ~sandboxtest/kept";
  CHECK(box.on("h01", write) == "");
  REQUIRE(fill_disk(box.layout, "h01"));
  const std::string more =
      "(echo more > ~sandboxtest/more) 2>/dev/null && echo written || echo full";
  CHECK(box.on("h01", more) == "full\n");
  REQUIRE(crash_host(box.layout, "h01"));
  REQUIRE(boot_host(box.layout, "h01"));
  CHECK(box.on("h01", more) == "full\n");
  REQUIRE(empty_disk(box.layout, "h01"));
  CHECK(box.on("h01", more) == "written\n");
  CHECK(box.on("h01", "cat ~sandboxtest/kept") == "kept\n");
  CHECK(sandbox_down(box.layout));
  CHECK(box.is_gone());
}

TEST_CASE("a sandbox that was half built is taken away") {
  if (!TestCluster::permitted()) return;
  Box box(3);
  int asked = 0;
  const auto stopped = sandbox_up(box.layout, box.request, [&] { return ++asked > 2; });
  CHECK_FALSE(stopped);
  CHECK(box.is_gone());
  const Status none = sandbox_down(box.layout);
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, ContainsSubstring("there is no sandbox in "));
}

TEST_CASE("down works when every file is gone, and up over what a crash left") {
  if (!TestCluster::permitted()) return;
  Box box(2);
  REQUIRE(box.up());
  CHECK_FALSE(box.up());  // it is in use
  fs::remove(box.layout.state());
  CHECK(sandbox_down(box.layout));
  CHECK(hosts_with_network(box.layout).empty());
  CHECK_FALSE(has_bridge(box.layout));
  fs::remove_all(box.layout.folder());
  REQUIRE(box.up());
  remove_network(box.layout);  // files without the names of networks, and hosts that still run
  const auto again = box.up();
  INFO((again ? "" : again.error().message));
  REQUIRE(again);
  CHECK(box.on("h02", "uname -n") == "h02\n");
}

TEST_CASE("a folder with somebody else's files is not written to") {
  if (!TestCluster::permitted()) return;
  Box box(1);
  fs::create_directories(box.layout.folder());
  REQUIRE(::chown(box.layout.folder().c_str(), 12345, 12345) == 0);
  const auto refused = box.up();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("somebody else") != std::string::npos);
  fs::remove_all(box.layout.folder());
}

}  // namespace
}  // namespace muster
