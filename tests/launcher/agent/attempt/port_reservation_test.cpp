// Which ports of this machine an attempt is given, whatever other users put in the way.
#include "launcher/agent/attempt/port_reservation.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tuple>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/skip.h"

using namespace muster;

namespace {

struct LockFolders {
  FakeRoot directory;
  const std::string own = directory.path() + "/own";
  const std::string shared = directory.path() + "/ports";
  operator PortDirectories() const { return {own, shared}; }
};

// A port at which somebody listens; nothing: this machine has no such addresses.
std::optional<std::pair<Fd, int>> a_taken_port(int family) {
  Fd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int only = 1;
  if (family == AF_INET6) {
    ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  if (::listen(listener.get(), 1) != 0) return {};
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const auto port = family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                       : reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  return std::pair(std::move(listener), static_cast<int>(ntohs(port)));
}

// What is in `shared` belongs to another user from here on; only root can do that.
bool give_away(const std::string& path) {
  return ::geteuid() == 0 && ::lchown(path.c_str(), 65534, 65534) == 0;
}

}  // namespace

TEST_CASE("a pipe in the place of a port's lock holds nobody up") {
  FakeRoot directory;
  const std::string shared = directory.path() + "/ports";
  REQUIRE(::mkdir(shared.c_str(), 0700) == 0);
  REQUIRE(::chmod(shared.c_str(), 01777) == 0);
  REQUIRE(::mkfifo((shared + "/16990").c_str(), 0644) == 0);
  auto held = reserve_ports(1, 16990, 16999, 0, {directory.path() + "/own", shared});
  REQUIRE(held);
  CHECK(held->ports.size() == 1);
}

TEST_CASE("a port at which somebody listens is not given, by whichever protocol") {
  LockFolders locks;
  for (const int family : {AF_INET, AF_INET6}) {
    auto taken = a_taken_port(family);
    if (!taken) continue;
    const int port = taken->second;
    const auto refused = reserve_ports(1, port, port, 0, locks);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, ContainsSubstring("only 0 of 1 ports wanted are free in " +
                                                          std::to_string(port) + "-"));
    taken->first.reset();
    CHECK(reserve_ports(1, port, port, 0, locks));
  }
}

TEST_CASE("ports are looked for round the range from the first choice, within what there is") {
  LockFolders locks;
  const auto held = reserve_ports(3, 16870, 16872, 2, locks);
  REQUIRE(held);
  CHECK(held->ports == std::vector<int>{16872, 16870, 16871});
  CHECK(held->locks.size() == 3);
  CHECK(reserve_ports(0, 16870, 16872, 0, locks)->ports.empty());
  for (const auto& [count, least, most] :
       {std::tuple{-1, 16990, 16999}, {1, 0, 10}, {1, 65530, 65536}, {1, 16999, 16990}}) {
    const auto refused = reserve_ports(count, least, most, 0, locks);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, ContainsSubstring("cannot reserve"));
  }
}

TEST_CASE("reserved ports are not given again until they are let go") {
  LockFolders locks;
  auto first = reserve_ports(2, 16990, 16999, 7, locks);
  REQUIRE(first);
  auto second = reserve_ports(2, 16990, 16999, 7, locks);
  REQUIRE(second);
  CHECK(first->ports != second->ports);
  const auto ports = first->ports;
  *first = {};
  auto third = reserve_ports(2, 16990, 16999, 7, locks);
  REQUIRE(third);
  CHECK(third->ports == ports);
}

TEST_CASE("a file or folder of another user in the place of the port locks stops nobody") {
  LockFolders locks;
  SECTION("a file") {
    locks.directory.write("/ports", "x");
  }
  SECTION("a folder that only its owner may write to") {
    REQUIRE(::mkdir(locks.shared.c_str(), 0755) == 0);
  }
  SECTION("a link") { REQUIRE(::symlink("/nonexistent", locks.shared.c_str()) == 0); }
  give_away(locks.shared);
  const auto held = reserve_ports(2, 16990, 16999, 0, locks);
  REQUIRE(held);
  CHECK(held->ports.size() == 2);
  CHECK_THAT(held->remark, ContainsSubstring(locks.shared + " is "));
  CHECK_THAT(held->remark, ContainsSubstring("mode 0"));
  CHECK_THAT(held->remark, ContainsSubstring("held in " + locks.own + " instead"));
  const auto more = reserve_ports(8, 16990, 16999, 0, locks);  // not those again
  REQUIRE(more);
  CHECK_FALSE(reserve_ports(1, 16990, 16999, 0, locks));
}

TEST_CASE("another user who locks every port keeps nobody from having one") {
  LockFolders locks;
  auto hoarded = reserve_ports(10, 16990, 16999, 0, locks);
  REQUIRE(hoarded);
  CHECK(hoarded->remark.empty());
  CHECK_FALSE(reserve_ports(1, 16990, 16999, 0, locks));
  for (const int port : hoarded->ports) {
    if (!give_away(locks.shared + "/" + std::to_string(port))) {
      skip_test("only root can make files another user's");
      return;
    }
  }
  const auto held = reserve_ports(1, 16990, 16999, 0, locks);
  REQUIRE(held);
  CHECK_THAT(held->remark, ContainsSubstring("files of other users lock ports"));
  CHECK_FALSE(reserve_ports(10, 16990, 16999, 0, locks));  // one is this user's
}

TEST_CASE("ports whose files another user has made are given once all the same") {
  LockFolders locks;
  REQUIRE(reserve_ports(10, 16860, 16869, 0, locks));  // and let go
  for (int port = 16860; port < 16870; ++port) {
    if (give_away(locks.shared + "/" + std::to_string(port))) continue;
    skip_test("only root can make files another user's");
    return;
  }
  auto held = reserve_ports(10, 16860, 16869, 0, locks);
  REQUIRE(held);
  CHECK(held->ports.size() == 10);
  CHECK(held->remark.empty());
  CHECK_FALSE(reserve_ports(1, 16860, 16869, 0, locks));
  *held = {};
  CHECK(reserve_ports(10, 16860, 16869, 0, locks));
}
