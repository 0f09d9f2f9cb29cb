// ipmitool as a source: a script of its name in PATH, a file in place of the device.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>

#include "health/host/bmc.h"
#include "health/read/files.h"
#include "tests/catch.h"
#include "tests/health/fake_board.h"
#include "tests/health/reader_fixture.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

SourceFiles read(const FakeBoard& board, const std::vector<std::string>& sources) {
  ReadRequest request;
  request.root = board.root().path();
  request.sources = sources;
  return read_files(request);
}
FileReading read(const FakeBoard& board, const std::string& source) {
  return read(board, std::vector<std::string>{source}).reading(source);
}

}  // namespace

TEST_CASE("ipmitool is asked without a country's words, and what it says is read") {
  const FakeBoard board(R"(
case "$*" in
  "sel time get") echo "11/23/26 11:49:42 UTC";;
  "-c sel list") echo "SEL has no entries" >&2;;
  "-c sdr list full") echo "CPU0 Temp,45,degrees C,ok"; echo "$LC_ALL,1,$TZ,ok";;
  *) exit 3;;
esac)");
  const SourceFiles files = read(board, bmc_sources());
  CHECK(files.text("ipmi:time") == "11/23/26 11:49:42 UTC");
  CHECK(files.text("ipmi:sel") == "SEL has no entries");
  CHECK(files.text("ipmi:sdr") == "CPU0 Temp,45,degrees C,ok\nC,1,UTC0,ok");
  const auto finding = judge_bmc(files, nullptr, HealthProfile{});
  REQUIRE(finding);
  CHECK(finding->status == CheckStatus::pass);
}

TEST_CASE("without a device or a tool there is nothing to be told") {
  const FakeBoard board("exit 127");
  CHECK(read(board, "ipmi:sel").is_missing);
  CHECK(read(board, "ipmi:sel").error == "ipmitool is not installed");
  std::filesystem::remove(board.root().below("/dev/ipmi0"));
  CHECK(read(board, "ipmi:sel").is_missing);
  CHECK(read(board, "ipmi:sel").error.starts_with("no /dev/ipmi0"));
  CHECK(read(board, "ipmi:lan").is_missing);
}

TEST_CASE("a tool that fails or says nothing is no answer") {
  const FakeBoard fails("echo 'Could not open device' >&2; exit 1");
  CHECK(read(fails, "ipmi:sel").error == "ipmitool ended with 1: Could not open device");
  CHECK_FALSE(read(fails, "ipmi:sel").is_missing);
  const FakeBoard silent("exit 0");
  CHECK(read(silent, "ipmi:sel").error == "ipmitool said nothing");
  const FakeBoard broken_off(
      "echo '1,a,b,c,d,Asserted'; echo 'Get SEL Entry 2 command failed' >&2");
  CHECK(read(broken_off, "ipmi:sel").error.starts_with("ipmitool did not read to the end"));
}

TEST_CASE("a tool that hangs is killed at its limit, and the board is not asked more") {
  const FakeBoard board("echo $$ >> $(dirname $0)/pids; exec sleep 60");
  const auto began = std::chrono::steady_clock::now();
  const SourceFiles files = read(board, bmc_sources());
  CHECK(since(began) < 6s);
  CHECK(files.reading("ipmi:time").error == "no answer within 3 s");
  CHECK(did_not_answer(files.reading("ipmi:time")));
  CHECK(files.reading("ipmi:sel").error == "not asked: ipmi:time: no answer within 3 s");
  CHECK(files.reading("ipmi:sdr").error == "not asked: ipmi:time: no answer within 3 s");
  const std::string pids = text_of_file(board.root().path() + "/bin/pids");
  CHECK(std::ranges::count(pids, '\n') == 1);
  CHECK(process_fields(pids.substr(0, pids.find('\n'))).empty());
  CHECK(judge_bmc(files, nullptr, HealthProfile{})->status == CheckStatus::unknown);
}

TEST_CASE("no second tool is started while one has not ended") {
  const FakeBoard board("echo $$ >> $(dirname $0)/pids; echo '11/23/26 11:49:42'");
  // As one that was killed and that the kernel does not give up: it has the device open.
  const int held = ::open(board.root().below("/dev/ipmi0").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  CHECK(read(board, "ipmi:time").error == "not asked: another ipmitool has not ended");
  CHECK(text_of_file(board.root().path() + "/bin/pids").empty());
  ::close(held);
  CHECK(read(board, "ipmi:time").ok());
}

TEST_CASE("a tool holds the device's lock for as long as it lives, and its reader does not") {
  const FakeBoard board(R"(echo '11/23/26 11:49:42'
flock -n "$(dirname $0)/../dev/ipmi0" true && echo free)");
  CHECK(read(board, "ipmi:time").text == "11/23/26 11:49:42\n");
  const int after = ::open(board.root().below("/dev/ipmi0").c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(::flock(after, LOCK_EX | LOCK_NB) == 0);
  ::close(after);
}

TEST_CASE("a reader with little patience waits for a tool that has its own limit") {
  const FakeBoard board("sleep 2; echo '11/23/26 11:49:42'");
  NodeReader::Options options = reader_options();
  options.limits.source = 800ms;
  NodeReader reader(std::move(options));
  const NodeReadings read = read_node(reader, {board.root().path(), {"ipmi:time"}, {}, {}});
  CHECK(read.files.text("ipmi:time") == "11/23/26 11:49:42");
}

TEST_CASE("a helper that is killed takes its tool along") {
  const FakeBoard board("echo $$ > $(dirname $0)/pid; exec sleep 60");
  const std::string pid_file = board.root().path() + "/bin/pid";
  NodeReader reader(reader_options());
  reader.begin({board.root().path(), {"ipmi:sdr"}, {}, {}});
  CHECK(drive(reader, 10s, [&] { return text_of_file(pid_file).ends_with('\n'); }));
  const std::string pid = text_of_file(pid_file);
  const auto is_gone = [&] {
    const auto fields = process_fields(pid.substr(0, pid.find('\n')));
    return fields.empty() || fields.front() == "Z";
  };
  CHECK_FALSE(is_gone());
  reader.pause();
  CHECK(drive(reader, 10s, is_gone));
}

TEST_CASE("a recorded root tells what the board told") {
  const FakeBoard board("exit 1");
  FakeRoot recorded;
  SourceFiles files;
  files.add("ipmi:sel", "SEL has no entries\n");
  recorded.write(files);
  ReadRequest request;
  request.root = recorded.path();
  request.sources = bmc_sources();
  const SourceFiles read = read_files(request);
  CHECK(read.text("ipmi:sel") == "SEL has no entries");
  CHECK(read.reading("ipmi:sdr").is_missing);
}
