// What a rank does when its lease is over.
#include "runtime/train/step/stop_request.h"

#include <chrono>

#include "runtime/protocol/lease.h"
#include "runtime/train/save/save.h"
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
  CHECK_THAT(late.reason(), ContainsSubstring("the lease of this process has expired"));
  held.lease.grant(boot_time() + std::chrono::hours{1});
  CHECK_FALSE(lease_is_over());
  const auto in_time = commit();  // there is no checkpoint, and that is told
  CHECK(in_time.reason().find("lease") == std::string::npos);
  CHECK_FALSE(is_durable);
}
