#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <limits>
#include <memory>

#include "health/read/files.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/read/reader_fixture.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

NodeReadRequest request_of(const FakeRoot& root, std::vector<std::string> sources) {
  NodeReadRequest request;
  request.root = root.path();
  request.sources = std::move(sources);
  return request;
}

// Opening it for reading waits for a writer, as a dead mount waits for its server.
void add_hung(const FakeRoot& root, const std::string& path) {
  std::filesystem::create_directories(root.below(path).parent_path());
  REQUIRE(::mkfifo(root.below(path).c_str(), 0600) == 0);
}

// Whether somebody waits for it; a writer that says nothing keeps him waiting.
bool is_at_hung(const FakeRoot& root, const std::string& path, int& writer) {
  writer = ::open(root.below(path).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  return writer >= 0;
}

std::string word_behind(const std::string& text, const std::string& key) {
  const std::size_t begin = text.find_first_not_of("\t ", text.find(key) + key.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

NodeReader::Options impatient(std::chrono::milliseconds source) {
  auto options = reader_options();
  options.limits.source = source;
  return options;
}

// A process that a reader's helper cannot be reaped from, until it can.
struct StuckWait {
  std::shared_ptr<bool> is_stuck = std::make_shared<bool>(true);
  pid_t operator()(pid_t pid, int* status, int flags) const {
    return *is_stuck ? 0 : ::waitpid(pid, status, flags);
  }
};

}  // namespace

TEST_CASE("a healthy root is read as read_files reads it, twice by one helper") {
  const FakeRoot root;
  const SourceFiles host = healthy_host();
  root.write(host);
  NodeReadRequest request = request_of(root, {"/no/such", "/sys/class/net/*/mtu"});
  for (const auto& [path, reading] : host.all()) request.sources.push_back(path);
  const SourceFiles direct = read_files({root.path(), request.sources});
  NodeReader reader(reader_options());
  for (int round = 0; round < 2; ++round) {
    const NodeReadings readings = read_node(reader, request);
    CHECK_FALSE(readings.gpus);
    REQUIRE(readings.files.all().size() == direct.all().size());
    for (const auto& [path, reading] : direct.all()) {
      INFO(path);
      CHECK(readings.files.reading(path).text == reading.text);
      CHECK(readings.files.reading(path).error == reading.error);
      CHECK(readings.files.reading(path).is_missing == reading.is_missing);
    }
  }
  CHECK(reader.facts().restarts == 0);
  CHECK(own_children().size() == 1);
}

TEST_CASE("nothing asked is nothing said, without a helper") {
  NodeReader reader(reader_options());
  const NodeReadings readings = read_node(reader, {});
  CHECK(readings.files.all().empty());
  CHECK_FALSE(readings.gpus);
  CHECK(own_children().empty());
  CHECK_FALSE(reader.take());
  CHECK_FALSE(reader.wake_at());
  CHECK(reader.descriptor() == -1);
}

TEST_CASE("a source that hangs is unknown at its deadline") {
  const FakeRoot root;
  root.write("/a", "1");
  add_hung(root, "/hung");
  NodeReader reader(impatient(300ms));
  auto latest = std::chrono::milliseconds::max();
  // The machine may be busy, but not each time.
  for (int round = 0; round < 5 && latest > 400ms; ++round) {
    CHECK(read_node(reader, request_of(root, {"/a"})).files.text("/a") == "1");
    const auto began = std::chrono::steady_clock::now();
    const NodeReadings readings = read_node(reader, request_of(root, {"/a", "/hung"}));
    latest = std::min(latest, since(began));
    CHECK(since(began) >= 300ms);
    CHECK(readings.files.text("/a") == "1");
    CHECK(readings.files.reading("/hung").error == "no answer within 300 ms");
    CHECK(readings.files_took >= 300ms);
  }
  CHECK(latest <= 400ms);
}

TEST_CASE("several hung sources cost their deadlines, and all others are read") {
  const FakeRoot root;
  for (const char* path : {"/a", "/p/1/x", "/p/3/x", "/p/1/y", "/p/2/y", "/q", "/z"})
    root.write(path, path);
  add_hung(root, "/p/2/x");
  add_hung(root, "/r");
  NodeReader reader(impatient(400ms));
  const auto began = std::chrono::steady_clock::now();
  const NodeReadings readings =
      read_node(reader, request_of(root, {"/a", "/p/*/x", "/p/*/y", "/q", "/r", "/z"}));
  CHECK(since(began) >= 800ms);
  CHECK(since(began) < 10s);
  for (const char* path : {"/a", "/p/1/x", "/p/3/x", "/p/1/y", "/p/2/y", "/q", "/z"})
    CHECK(readings.files.text(path) == path);
  CHECK(readings.files.reading("/p").ok());
  CHECK(did_not_answer(readings.files.reading("/p/2/x")));
  CHECK(did_not_answer(readings.files.reading("/r")));
  CHECK(reader.facts().restarts == 2);
  CHECK(own_children().size() == 1);
}

TEST_CASE("a read ends in its time, however much hangs") {
  const FakeRoot root;
  for (int n = 10; n < 30; ++n) add_hung(root, "/h/" + std::to_string(n));
  root.write("/z", "z");
  auto options = impatient(200ms);
  options.limits.run = 1000ms;
  NodeReader reader(options);
  read_node(reader, request_of(root, {"/z"}));  // its helper is started
  const auto began = std::chrono::steady_clock::now();
  NodeReadRequest request = request_of(root, {"/h/*", "/z"});
  request.gpus.emplace();
  const NodeReadings readings = read_node(reader, request);
  CHECK(since(began) >= 1000ms);
  CHECK(since(began) < 3s);
  CHECK(did_not_answer(readings.files.reading("/h/10")));
  CHECK_FALSE(readings.files.reading("/h").ok());
  CHECK_FALSE(readings.files.reading("/z").ok());
  CHECK_FALSE(readings.files.reading("/z").is_missing);
  CHECK_FALSE(did_not_answer(readings.files.reading("/z")));
  REQUIRE(readings.gpus);
  CHECK_FALSE(readings.gpus->is_complete());
  CHECK_THAT(readings.gpus->stopped(), ContainsSubstring("not read"));
  // And the next one begins anew.
  CHECK(read_node(reader, request_of(root, {"/z"})).files.text("/z") == "z");
}

TEST_CASE("a helper that is never reaped is the last one, until it is gone") {
  const FakeRoot root;
  root.write("/a", "1");
  root.write("/z", "26");
  add_hung(root, "/hung");
  auto options = impatient(500ms);
  options.limits.reaping = 100ms;
  const StuckWait wait;
  options.wait = wait;
  NodeReader reader(options);
  const auto began = std::chrono::steady_clock::now();
  NodeReadings readings = read_node(reader, request_of(root, {"/a", "/hung", "/z"}));
  CHECK(since(began) < 10s);
  CHECK(readings.files.text("/a") == "1");
  CHECK(did_not_answer(readings.files.reading("/hung")));
  CHECK(readings.files.reading("/z").error == "not reached: /hung: no answer within 500 ms");
  CHECK(reader.stuck_in() == "/hung");
  CHECK(reader.facts().unreaped);
  CHECK(reader.descriptor() == -1);

  for (int round = 0; round < 3; ++round) {
    const auto again = std::chrono::steady_clock::now();
    NodeReadRequest request = request_of(root, {"/a", "/p/*/x"});
    request.gpus.emplace();
    readings = read_node(reader, request);
    CHECK(since(again) < 1s);
    CHECK_THAT(readings.files.reading("/a").error,
               ContainsSubstring("not read: an earlier helper hangs in /hung since 20"));
    CHECK_THAT(readings.files.reading("/p").error, ContainsSubstring("an earlier helper"));
    CHECK_THAT(readings.gpus->stopped(), ContainsSubstring("an earlier helper"));
    reader.advance();
    CHECK(own_children().size() == 1);
  }

  *wait.is_stuck = false;
  readings = read_node(reader, request_of(root, {"/a"}));
  CHECK(readings.files.text("/a") == "1");
  CHECK(reader.stuck_in().empty());
  CHECK_FALSE(reader.facts().unreaped);
  CHECK(own_children().size() == 1);
}

TEST_CASE("an abandoned helper that ends is noticed between reads") {
  const FakeRoot root;
  add_hung(root, "/hung");
  auto options = impatient(50ms);
  options.limits.reaping = 50ms;
  const StuckWait wait;
  options.wait = wait;
  NodeReader reader(options);
  read_node(reader, request_of(root, {"/hung"}));
  REQUIRE(reader.facts().unreaped);
  *wait.is_stuck = false;
  CHECK(drive(reader, 5s, [&] { return !reader.facts().unreaped; }));
  CHECK(own_children().empty());
}

TEST_CASE("a helper that was killed between reads is replaced") {
  const FakeRoot root;
  root.write("/a", "1");
  NodeReader reader(reader_options());
  for (int round = 1; round < 4; ++round) {
    CHECK(read_node(reader, request_of(root, {"/a"})).files.text("/a") == "1");
    const auto children = own_children();
    REQUIRE(children.size() == 1);
    ::kill(children[0], SIGKILL);
    CHECK(read_node(reader, request_of(root, {"/a"})).files.text("/a") == "1");
    CHECK(reader.facts().restarts == round);
  }
}

TEST_CASE("somebody else may reap the helper") {
  const FakeRoot root;
  root.write("/a", "1");
  NodeReader reader(reader_options());
  CHECK(read_node(reader, request_of(root, {"/a"})).files.text("/a") == "1");
  const auto children = own_children();
  REQUIRE(children.size() == 1);
  ::kill(children[0], SIGKILL);
  REQUIRE(::waitpid(children[0], nullptr, 0) == children[0]);
  CHECK(read_node(reader, request_of(root, {"/a"})).files.text("/a") == "1");
  CHECK(own_children().size() == 1);
}

TEST_CASE("a helper that is killed while it reads costs what was at hand") {
  const FakeRoot root;
  root.write("/a", "1");
  add_hung(root, "/hung");
  root.write("/z", "26");
  NodeReader reader(reader_options());
  read_node(reader, request_of(root, {"/a"}));
  const auto children = own_children();
  REQUIRE(children.size() == 1);
  reader.begin(request_of(root, {"/a", "/hung", "/z"}));
  int writer = -1;
  REQUIRE(drive(reader, 5s, [&] { return is_at_hung(root, "/hung", writer); }));
  ::kill(children[0], SIGTERM);
  REQUIRE(drive(reader, 5s, [&] { return reader.is_idle(); }));
  ::close(writer);
  const auto readings = reader.take();
  REQUIRE(readings);
  CHECK(readings->files.text("/a") == "1");
  CHECK(readings->files.text("/z") == "26");
  CHECK(readings->files.reading("/hung").error == "the helper died of signal 15");
  CHECK_FALSE(did_not_answer(readings->files.reading("/hung")));
}

TEST_CASE("a reader that is gone leaves no process, busy or not") {
  const FakeRoot root;
  root.write("/a", "1");
  add_hung(root, "/hung");
  {
    NodeReader reader(reader_options());
    reader.begin(request_of(root, {"/a", "/hung"}));
    reader.advance();
    CHECK_FALSE(reader.is_idle());
    CHECK(own_children().size() == 1);
  }
  CHECK(own_children().empty());
  {
    NodeReader reader(reader_options());
    read_node(reader, request_of(root, {"/a"}));
  }
  CHECK(own_children().empty());
}

TEST_CASE("an owner that dies takes a helper that hangs with it") {
  const FakeRoot root;
  add_hung(root, "/hung");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    NodeReader reader(reader_options());
    reader.begin(request_of(root, {"/hung"}));
    const auto children = own_children();
    const pid_t helper = children.empty() ? -1 : children[0];
    if (::write(ends[1], &helper, sizeof helper) == sizeof helper)
      drive(reader, 60s, [] { return false; });
    ::_exit(1);
  }
  pid_t helper = -1;
  REQUIRE(::read(ends[0], &helper, sizeof helper) == sizeof helper);
  ::close(ends[0]);
  ::close(ends[1]);
  REQUIRE(helper > 0);
  int writer = -1;
  auto began = std::chrono::steady_clock::now();
  while (!is_at_hung(root, "/hung", writer) && since(began) < 5s) ::poll(nullptr, 0, 5);
  REQUIRE(writer >= 0);
  ::kill(owner, SIGKILL);
  REQUIRE(::waitpid(owner, nullptr, 0) == owner);
  const auto is_gone = [helper] {
    const auto fields = process_fields(std::to_string(helper));
    return fields.empty() || fields[0] == "Z" || fields[0] == "X";
  };
  began = std::chrono::steady_clock::now();
  while (!is_gone() && since(began) < 5s) ::poll(nullptr, 0, 5);
  CHECK(is_gone());
  ::close(writer);
}

TEST_CASE("a helper has its socket and nothing else of its owner's") {
  const FakeRoot place;
  place.write("/kept", "x");
  const int kept = ::open(place.below("/kept").c_str(), O_RDONLY);  // passed on, but for care
  REQUIRE(kept >= 0);
  sigset_t usr1;
  sigset_t before;
  ::sigemptyset(&usr1);
  ::sigaddset(&usr1, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &usr1, &before);
  const auto ignored = ::signal(SIGUSR2, SIG_IGN);
  NodeReader reader(reader_options());
  NodeReadRequest request;
  request.sources = {"/proc/self/fd/*@", "/proc/self/status", "/proc/self/stat"};
  const NodeReadings readings = read_node(reader, request);
  ::signal(SIGUSR2, ignored);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::close(kept);

  for (const char* standard : {"0", "1", "2"})
    CHECK(readings.files.text("/proc/self/fd/" + std::string(standard) + "@") == "/dev/null");
  CHECK(readings.files.reading("/proc/self/fd/3@").text.starts_with("socket:"));
  for (const auto& [path, reading] : readings.files.all())
    CHECK(reading.text != place.below("/kept").string());
  const std::string status = readings.files.reading("/proc/self/status").text;
  CHECK_THAT(status, ContainsSubstring("SigBlk:\t0000000000000000"));
  // Those of the C library itself are left as they are.
  const std::uint64_t ignored_here = std::stoull(word_behind(status, "SigIgn:"), nullptr, 16);
  CHECK((ignored_here & 1ull << (SIGUSR2 - 1)) == 0);
}

TEST_CASE("helpers that are ill or absent make everything unreadable, soon, and leave nothing") {
  const FakeRoot root;
  root.write("/a", "1");
  std::vector<std::vector<std::string>> ways{{"leave"}, {"silent"}, {"lie"},
                                             {"half"},  {"flood"},  {"scribble"}};
  for (int seed = 0; seed < 10; ++seed) ways.push_back({"noise", std::to_string(seed)});
  for (const auto& way : ways) {
    INFO(way[0]);
    auto options = reader_options(way);
    options.limits.source = 100ms;
    options.limits.run = 1s;
    NodeReader reader(options);
    const auto began = std::chrono::steady_clock::now();
    const NodeReadings readings = read_node(reader, request_of(root, {"/a", "/b/*"}));
    CHECK(since(began) < 10s);
    if (way[0] != "flood") CHECK_FALSE(readings.files.reading("/a").ok());
    CHECK_FALSE(readings.files.reading("/a").is_missing);
    CHECK_FALSE(readings.files.reading("/b").is_missing);
    CHECK(own_children().size() <= 1);
  }
  CHECK(own_children().empty());
  NodeReader::Options options;
  options.helper = {"/no/such/program"};
  NodeReader reader(options);
  const NodeReadings readings = read_node(reader, request_of(root, {"/a"}));
  CHECK(readings.files.reading("/a").error ==
        "not read: cannot start the helper /no/such/program: No such file or directory");
  CHECK(own_children().empty());
}

TEST_CASE("ten thousand files are read in seconds, and after a hang in the midst not again") {
  const FakeRoot root;
  for (int n = 0; n < 10'000; ++n)
    root.write("/p/" + std::to_string(100 + n / 100) + "/" + std::to_string(n), "text\n");
  NodeReader reader(impatient(1s));
  NodeReadings readings = read_node(reader, request_of(root, {"/p/*/*"}));
  CHECK(readings.files.all().size() == 10'000 + 100 + 1);
  CHECK(readings.files_took < 10s);
  add_hung(root, "/p/150/hung");
  readings = read_node(reader, request_of(root, {"/p/*/*"}));
  CHECK(readings.files.all().size() == 10'000 + 100 + 2);
  CHECK(did_not_answer(readings.files.reading("/p/150/hung")));
  CHECK(readings.files.text("/p/199/9999") == "text");
}
