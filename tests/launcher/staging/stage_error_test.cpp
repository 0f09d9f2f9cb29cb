#include "launcher/staging/blob_store.h"

#include <cerrno>

#include "launcher/staging/beneath.h"
#include "tests/catch.h"

namespace muster {

TEST_CASE("a full disk is reported with the free space and what to do") {
  const std::string message = stage_error("write", "/tmp/none/x", ENOSPC).message;
  CHECK_THAT(message, ContainsSubstring("cannot write '/tmp/none/x': the file system is full ("));
  CHECK_THAT(message, ContainsSubstring("free); make room and try again"));
}

TEST_CASE("a failing disk is called that") {
  CHECK_THAT(stage_error("read", "/data/f", EIO).message,
             ContainsSubstring("cannot read '/data/f': the disk reported an input/output error"));
}

TEST_CASE("sizes are readable") {
  CHECK(readable_bytes(0) == "0 bytes");
  CHECK(readable_bytes(1) == "1 byte");
  CHECK(readable_bytes(1023) == "1023 bytes");
  CHECK(readable_bytes(1536) == "1.5 KiB");
  CHECK(readable_bytes(std::int64_t{3} << 30) == "3.0 GiB");
  CHECK(readable_bytes(std::int64_t{5000} << 40) == "5000.0 TiB");
}

TEST_CASE("paths that could leave a directory are recognised") {
  for (const char* bad : {"", "/a", "..", "../a", "a/..", "a/../b", ".", "./a", "a//b", "a/"}) {
    INFO(bad);
    CHECK_FALSE(unsafe_path_reason(bad).empty());
  }
  CHECK_FALSE(unsafe_path_reason(std::string("a\0b", 3)).empty());
  for (const char* good : {"a", "a/b", "..a", "a..", "a/...", ".hidden", "a b/\xff"}) {
    INFO(good);
    CHECK(unsafe_path_reason(good).empty());
  }
}

}  // namespace muster
