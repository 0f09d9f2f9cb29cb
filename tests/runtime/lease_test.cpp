// The lease of a rank: what its agent grants, and what a rank does when it is over.
#include "runtime/protocol/lease.h"

#include <chrono>
#include <fstream>

#include "runtime/train/lease_watch.h"
#include "runtime/train/save_parts.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

// Of this test's process; none is held after it.
struct HeldLease {
  HeldLease() { REQUIRE(hold_lease(lease.path())); }
  ~HeldLease() { hold_lease(""); }
  Lease lease = std::move(*Lease::create());
};

}  // namespace

TEST_CASE("a lease is seen as its agent grants it, and by nobody renewed after it") {
  auto granted = Lease::create();
  REQUIRE(granted);
  const auto seen = Lease::open(granted->path());
  REQUIRE(seen);
  CHECK(seen->until() == BootTime{0});
  granted->grant(BootTime{123'456'789'012});
  CHECK(seen->until() == BootTime{123'456'789'012});
  std::ifstream file(granted->path(), std::ios::binary);
  std::string bytes(16, '\0');
  file.read(bytes.data(), 16);
  CHECK(bytes.substr(0, 8) == "MUSTRLS1");
  CHECK(bytes.substr(8) == std::string("\x14\x1a\x99\xbe\x1c\0\0\0", 8));
  granted.reset();
  CHECK(seen->until() == BootTime{123'456'789'012});
}

TEST_CASE("what is no lease is not taken for one") {
  Folder folder;
  CHECK_FALSE(Lease::open(folder / "none"));
  std::ofstream(folder / "other") << "MUSTRLS2 and some more bytes";
  CHECK_FALSE(Lease::open(folder / "other"));
  std::ofstream(folder / "short") << "MUSTRLS1";
  CHECK_FALSE(Lease::open(folder / "short"));
}

TEST_CASE("a rank without a lease is never over it") {
  CHECK_FALSE(lease_is_over());
  CHECK_FALSE(hold_lease("/nonexistent"));
  CHECK_FALSE(lease_is_over());
}

TEST_CASE("who watches the lease of a process ends with it at once, as long as the lease lasts") {
  HeldLease held;
  held.lease.grant(boot_time() + std::chrono::hours{1});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) EndWithLease watch;
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{20});
  CHECK_FALSE(lease_is_over());
}

TEST_CASE("no checkpoint is committed after the end of the lease") {
  HeldLease held;
  Folder folder;
  SaveContext context;
  context.root = folder / "ckpt";
  bool is_durable = false;
  const auto commit = [&] {
    return commit_and_collect(context, Manifest{}, [&] { is_durable = true; });
  };
  held.lease.grant(boot_time() - std::chrono::milliseconds{1});
  CHECK(lease_is_over());
  const auto late = commit();
  REQUIRE_FALSE(late);
  CHECK_THAT(late.reason(), ContainsSubstring("the lease of this process is over"));
  held.lease.grant(boot_time() + std::chrono::hours{1});
  CHECK_FALSE(lease_is_over());
  const auto in_time = commit();  // there is no checkpoint, and that is told
  CHECK(in_time.reason().find("lease") == std::string::npos);
  CHECK_FALSE(is_durable);
}
