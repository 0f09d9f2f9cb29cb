// A reader that lets go of what it reads while somebody else has it.
#include <sys/wait.h>

#include <memory>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/read/reader_fixture.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

std::string read_a(NodeReader& reader, const FakeRoot& root) {
  NodeReadRequest request;
  request.root = root.path();
  request.sources = {"/a"};
  const NodeReadings readings = read_node(reader, request);
  const auto& reading = readings.files.reading("/a");
  return reading.ok() ? reading.text : reading.error;
}

}  // namespace

TEST_CASE("a reader that is paused has no helper until it is resumed") {
  const FakeRoot root;
  root.write("/a", "1");
  auto options = reader_options();
  options.wants_events = true;
  NodeReader reader(options);
  CHECK(read_a(reader, root) == "1");
  REQUIRE(own_children().size() == 1);
  reader.pause();
  CHECK(own_children().empty());
  CHECK(reader.is_idle());
  CHECK_FALSE(reader.wake_at());
  reader.advance();
  CHECK(own_children().empty());
  CHECK_THAT(read_a(reader, root), ContainsSubstring("not read"));
  CHECK(own_children().empty());
  reader.resume();
  CHECK(read_a(reader, root) == "1");
  CHECK(reader.facts().restarts == 0);
}

TEST_CASE("a helper that does not end when its reader is paused gets no second one beside it") {
  const FakeRoot root;
  root.write("/a", "1");
  auto options = reader_options();
  options.limits.reaping = 50ms;
  const auto is_stuck = std::make_shared<bool>(true);
  options.wait = [is_stuck](pid_t pid, int* status, int flags) {
    return *is_stuck ? 0 : ::waitpid(pid, status, flags);
  };
  NodeReader reader(options);
  CHECK(read_a(reader, root) == "1");
  const pid_t helper = reader.helper();
  reader.pause();
  CHECK(reader.helper() == helper);
  CHECK(reader.facts().unreaped);
  reader.resume();
  CHECK_THAT(read_a(reader, root), ContainsSubstring("an earlier helper hangs"));
  CHECK(own_children().size() == 1);
  *is_stuck = false;
  CHECK(drive(reader, 5s, [&] { return !reader.facts().unreaped; }));
  CHECK(read_a(reader, root) == "1");
}
