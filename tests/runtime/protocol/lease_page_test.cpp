// The lease of a rank as its agent grants it and others see it.
#include "runtime/protocol/lease.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "tests/catch.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

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
  for (const char* text : {"", "MUSTRLS1", "MUSTRLS1 7 byte"}) {
    std::ofstream(folder / "short") << text;
    CHECK_FALSE(Lease::open(folder / "short"));
  }
  CHECK_FALSE(Lease::open(folder.path()));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(Lease::open(folder / "pipe"));  // nor waits for who writes to it
}

TEST_CASE("a lease that is moved keeps what it has, and is let go once") {
  auto granted = Lease::create();
  REQUIRE(granted);
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = open_files();
  {
    auto seen = Lease::open(granted->path());
    REQUIRE(seen);
    CHECK(seen->path() != granted->path());
    Lease moved = std::move(*seen);
    seen.reset();
    granted->grant(BootTime{7});
    CHECK(moved.until() == BootTime{7});
    auto other = Lease::create();
    REQUIRE(other);
    moved = std::move(*other);
    other.reset();
    CHECK(moved.until() == BootTime{0});
    CHECK(open_files() == before + 1);
  }
  CHECK(open_files() == before);
  CHECK_FALSE(Lease::open("/proc/self/mem"));
  CHECK(open_files() == before);
}
