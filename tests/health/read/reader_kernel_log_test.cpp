#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "health/read/kmsg.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

std::string record(int sequence, const std::string& text) {
  return "6," + std::to_string(sequence) + "," + std::to_string(1000 * sequence) + ",-;" + text +
         "\n";
}

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

}  // namespace

TEST_CASE("a log in a file is read to its end, and on when it grows") {
  const FakeRoot root;
  root.write("/kmsg", record(1, "one") + record(2, "two") + "6,3,3000,-;thr");
  KernelLog log(root.below("/kmsg"));
  CHECK(log.error().empty());
  CHECK(log.descriptor() == -1);
  auto lines = log.read();
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].text == "two");
  CHECK(log.read().empty());
  append(root.below("/kmsg"), "ee\n" + record(9, "nine"));
  lines = log.read();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].text == "three");
  CHECK(lines[1].sequence == 9);  // a gap is for whoever counts
  CHECK_FALSE(log.may_have_more());
}

TEST_CASE("a long log comes in parts") {
  const FakeRoot root;
  std::string text;
  for (int n = 0; n < 30'000; ++n) text += record(n, std::string(80, 'x'));
  root.write("/kmsg", text);
  KernelLog log(root.below("/kmsg"));
  std::size_t count = log.read().size();
  CHECK(log.may_have_more());
  CHECK(count < 20'000);
  while (log.may_have_more()) count += log.read().size();
  CHECK(count == 30'000);
}

TEST_CASE("a FIFO is read as it is written, and waits without a writer") {
  const FakeRoot root;
  const std::string path = root.below("/kmsg");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  KernelLog log(path);
  CHECK(log.error().empty());
  REQUIRE(log.descriptor() >= 0);
  CHECK_FALSE(is_readable(log.descriptor()));
  CHECK(log.read().empty());
  for (int round = 1; round < 3; ++round) {
    append(path, record(round, "written"));
    CHECK(is_readable(log.descriptor()));
    const auto lines = log.read();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].sequence == round);
    CHECK_FALSE(is_readable(log.descriptor()));  // nor hung up, though its writer is gone
  }
}

TEST_CASE("a log that cannot be read says why") {
  const FakeRoot root;
  KernelLog absent(root.below("/none"));
  CHECK(absent.error() == "No such file or directory");
  CHECK(absent.descriptor() == -1);
  CHECK(absent.read().empty());
  KernelLog directory(root.path());
  CHECK_FALSE(directory.error().empty());
  CHECK(directory.read().empty());
  CHECK_FALSE(KernelLog("").error().empty());
  root.write("/secret", record(1, "one"));
  ::chmod(root.below("/secret").c_str(), 0);
  const int may_read = ::open(root.below("/secret").c_str(), O_RDONLY);
  if (may_read >= 0) ::close(may_read);  // some users may read everything
  const KernelLog secret(root.below("/secret"));
  CHECK(secret.error() == (may_read >= 0 ? "" : "Permission denied"));
}

TEST_CASE("the machine's own log is read, or says why not") {
  KernelLog log("/dev/kmsg");
  std::uint64_t last = 0;
  for (const KernelLine& line : log.read()) {
    if (!line.sequence) continue;
    CHECK((last == 0 || *line.sequence > last));
    last = *line.sequence;
  }
  CHECK(log.error().empty() == (log.descriptor() >= 0));
}
