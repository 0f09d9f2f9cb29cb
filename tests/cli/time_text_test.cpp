#include "scheduler/text/duration.h"

#include "tests/catch.h"

using namespace muster;

TEST_CASE("durations are told in two units at most") {
  CHECK(elapsed_text(Milliseconds{0}) == "0.0s");
  CHECK(elapsed_text(Milliseconds{1440}) == "1.4s");
  CHECK(elapsed_text(Seconds{42}) == "42s");
  CHECK(elapsed_text(Seconds{187}) == "3m 07s");
  CHECK(elapsed_text(Seconds{7500}) == "2h 05m");
  CHECK(elapsed_text(Seconds{4 * 86400 + 3 * 3600}) == "4d 03h");
  CHECK(elapsed_text(Milliseconds{-5}) == "0.0s");
}

TEST_CASE("times for machines are UTC with milliseconds") {
  CHECK(utc_text(from_ms(1795240591250)) == "2026-11-21T05:56:31.250Z");
  CHECK(ago_text(from_ms(0), from_ms(60000)) == "1m 00s ago");
  CHECK(ago_text(from_ms(60000), from_ms(0)) == "in 1m 00s");
}

TEST_CASE("amounts have a unit") {
  CHECK(bytes_text(12) == "12 B");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(3ull << 30) == "3.0 GiB");
  CHECK(count_text(950) == "950");
  CHECK(count_text(123456) == "123.5k");
  CHECK(count_text(1.5e6) == "1.50M");
}
