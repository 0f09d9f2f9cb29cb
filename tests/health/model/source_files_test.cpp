#include "health/model/source_files.h"

#include "tests/catch.h"

using namespace muster;

TEST_CASE("what was not read is missing, and no number") {
  SourceFiles files;
  files.add("/proc/a", " 12\n");
  files.add("/proc/b", "0x1f");
  files.add("/proc/c", "12x");
  files.add("/proc/d", FileReading{{}, "Permission denied", false});
  CHECK(files.text("/proc/a") == "12");
  CHECK(files.number("/proc/a") == 12);
  CHECK(files.number("/proc/b") == 31);
  CHECK_FALSE(files.number("/proc/c"));
  CHECK_FALSE(files.text("/proc/d"));
  CHECK_FALSE(files.reading("/proc/d").is_missing);
  CHECK(files.reading("/proc/e").is_missing);
  CHECK_FALSE(files.text("/proc/e"));
}

TEST_CASE("names below a directory") {
  SourceFiles files;
  for (const char* path : {"/s/b/x", "/s/b/y", "/s/a", "/s2/c", "/s"}) files.add(path, "");
  CHECK(files.names_below("/s") == std::vector<std::string>{"a", "b"});
  CHECK(files.names_below("/none").empty());
}
