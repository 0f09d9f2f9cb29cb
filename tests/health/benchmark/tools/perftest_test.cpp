#include "health/benchmark/tools/tools.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "health/read/tool_process.h"
#include "tests/health/benchmark/tools/tool_output.h"
#include "tests/health/ended_tool.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

// Synthetic, in the form of perftest 4.5's print formats.
const std::string bandwidth_table = R"(
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 Number of qps   : 1		Transport type : IB
 Connection type : RC		Using SRQ      : OFF
 Mtu             : 4096[B]
 Link type       : IB
 local address: LID 0x01 QPN 0x0127 PSN 0xc15f4f RKey 0x1ff0bb VAddr 0x007f4c8a400000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 2400.000000 != 1873.463000. CPU Frequency is not max.
 1048576    232540           0.00               390.12 		     0.046506
---------------------------------------------------------------------------------------
)";

const std::string latency_table =
    std::string(R"(
                    RDMA_Write Latency Test
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec])") +
    R"(    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       20000          1.02           6.12         1.05                1.06      )" +
    R"(      0.06            1.88                    3.12
---------------------------------------------------------------------------------------
)";

std::optional<double> read_write_bandwidth(std::string_view output) {
  return read_perftest(PerftestKind::write_bandwidth, output);
}

std::optional<double> read_write_latency(std::string_view output) {
  return read_perftest(PerftestKind::write_latency, output);
}

PerftestCall call() {
  PerftestCall made;
  made.device = "mlx5_3";
  return made;
}

ToolRun run_tool(const std::vector<std::string>& argv, std::chrono::milliseconds limit = 20s) {
  return ToolProcess(argv).wait(std::chrono::steady_clock::now() + limit);
}

}  // namespace

TEST_CASE("a bandwidth is measured for a time, of a device's port, to the memory of a GPU") {
  PerftestCall made = call();
  made.port = 2;
  made.tcp_port = 7001;
  made.server = "n2";
  made.gpu = 3;
  CHECK(perftest_argv(made) == std::vector<std::string>{"ib_write_bw", "-d", "mlx5_3", "-i", "2",
                                                        "-p", "7001", "-F", "-s", "1048576",
                                                        "--report_gbits", "-f", "1", "-D", "7",
                                                        "--use_cuda=3", "n2"});
}

TEST_CASE("a latency is measured by rounds, since a time gives no percentiles") {
  PerftestCall made = call();
  made.kind = PerftestKind::write_latency;
  CHECK(perftest_argv(made) == std::vector<std::string>{"ib_write_lat", "-d", "mlx5_3", "-i", "1",
                                                        "-p", "18515", "-F", "-s", "2", "-n",
                                                        "20000"});
}

TEST_CASE("the average bandwidth and the 99th percentile are read") {
  CHECK(read_write_bandwidth(bandwidth_table) == 390.12);
  CHECK(read_write_latency(latency_table) == 1.88);
  CHECK(read_write_bandwidth("#bytes BW average[Gb/sec]\n2 5 1 1.5 1\n8 5 1 2.5 1\n") == 2.5);
}

TEST_CASE("a table in another unit, without a result, or of another test gives no number") {
  CHECK_FALSE(read_write_bandwidth(""));
  CHECK_FALSE(read_write_bandwidth(latency_table));
  CHECK_FALSE(read_write_latency(bandwidth_table));
  CHECK_FALSE(read_write_bandwidth(with(bandwidth_table, "average[Gb/sec]", "average[MB/sec]")));
  CHECK_FALSE(read_write_bandwidth(with(bandwidth_table, "390.12", "-nan")));
  CHECK_FALSE(read_write_bandwidth(with(bandwidth_table, "390.12", "0.00")));
  CHECK_FALSE(read_write_bandwidth(with(bandwidth_table, "390.12", "-390.12")));
  CHECK_FALSE(read_write_bandwidth(with(bandwidth_table, "390.12", "")));
  const std::size_t numbers = bandwidth_table.find(" 1048576");
  CHECK_FALSE(read_write_bandwidth(bandwidth_table.substr(0, numbers)));
  // A table without percentiles, as with a duration.
  CHECK_FALSE(read_write_latency(" #bytes        #iterations       t_avg[usec]\n 2  100  1.06\n"));
}

TEST_CASE("no bytes make the readers of tables fail") {
  std::mt19937 random(20260402);
  for (const std::string& base : {bandwidth_table, latency_table}) {
    for (int round = 0; round < 3000; ++round) {
      const std::string text = garbled(base, random);
      REQUIRE(read_write_bandwidth(text).value_or(1) > 0);
      REQUIRE(read_write_latency(text).value_or(1) > 0);
    }
  }
  CHECK_FALSE(read_write_bandwidth("#bytes BW average[Gb/sec]\n" + std::string(1 << 20, '1')));
}

TEST_CASE("a run's outcome is a sample of the port") {
  const auto good = perftest_sample(call(), "ib_write_bw_gbps", ended(0, bandwidth_table));
  CHECK(good.device == "mlx5_3:1");
  CHECK(good.value == 390.12);

  const auto none = perftest_sample(call(), "ib_write_bw_gbps", not_installed());
  CHECK(none.is_absent);
  CHECK(none.error == "ib_write_bw is not installed (package perftest)");

  const auto failed = perftest_sample(call(), "ib_write_bw_gbps",
                                      ended(1, bandwidth_table, "one\n Unable to open device\n"));
  CHECK_FALSE(failed.value);
  CHECK_FALSE(failed.is_absent);
  CHECK(failed.error == "ib_write_bw ended with 1:  Unable to open device");

  const auto late = perftest_sample(call(), "ib_write_bw_gbps", {});
  CHECK_THAT(late.error, ContainsSubstring("did not end in time"));
}

TEST_CASE("a tool's output and code are taken, and one that is not there is told") {
  const ToolRun said = run_tool({"sh", "-c", "echo out; echo err >&2; exit 3"});
  CHECK(said.is_found);
  CHECK(said.exit_code == 3);
  CHECK(said.output == "out\n");
  CHECK(said.errors == "err\n");
  const ToolRun none = run_tool({"muster-no-such-tool"});
  CHECK_FALSE(none.is_found);
  const ToolRun killed = run_tool({"sh", "-c", "kill -9 $$"});
  CHECK(killed.exit_code == 137);
}

// To root every folder is open: its child is an ordinary user there.
TEST_CASE("a folder of PATH that may not be searched makes no tool of one that is nowhere") {
  const std::string closed = "/tmp/muster-closed-" + std::to_string(::getpid());
  const bool is_root = ::geteuid() == 0;
  REQUIRE(::mkdir(closed.c_str(), is_root ? 0700 : 0) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("PATH", (closed + ":/usr/bin:/bin").c_str(), 1);
    const bool is_shut = !is_root || ::setuid(65534) == 0;
    const bool is_right = is_shut && !run_tool({"muster-no-such-tool"}).is_found &&
                          run_tool({"sh", "-c", "exit 0"}).is_found;
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::rmdir(closed.c_str());
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a tool that takes too long is killed, and what it said is kept") {
  const auto begun = std::chrono::steady_clock::now();
  const ToolRun late = run_tool({"sh", "-c", "echo soon; exec sleep 60"}, 300ms);
  CHECK_FALSE(late.exit_code);
  CHECK(late.is_found);
  CHECK(late.output == "soon\n");
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
}

TEST_CASE("a tool may be asked to end before it is killed") {
  const auto stopped = [](const std::string& on_term, std::chrono::milliseconds grace) {
    const std::string script = "trap '" + on_term + "' TERM; echo on; while :; do sleep 0.05; done";
    const auto began = std::chrono::steady_clock::now();
    const ToolRun ran = ToolProcess({"/bin/sh", "-c", script}).wait(began + 3s, grace);
    CHECK(std::chrono::steady_clock::now() - began < 30s);
    CHECK_FALSE(ran.exit_code);
    return ran.output;
  };
  CHECK(stopped("echo asked; exit 0", 10s) == "on\nasked\n");
  CHECK(stopped("echo asked", 5s) == "on\nasked\n");
  CHECK(stopped("echo asked", 0ms) == "on\n");
}

TEST_CASE("what a tool started ends with it, and does not hold it up") {
  const auto is_gone = [](const std::string& pid) {
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (::kill(std::stoi(pid), 0) == 0 && std::chrono::steady_clock::now() < limit) {
      // An orphan that nobody reaps is gone too.
      std::ifstream stat("/proc/" + pid + "/stat");
      std::string text;
      std::getline(stat, text);
      if (text.find(") Z ") != text.npos) return true;
      std::this_thread::sleep_for(5ms);
    }
    return ::kill(std::stoi(pid), 0) != 0;
  };
  const auto begun = std::chrono::steady_clock::now();
  const ToolRun ended = run_tool({"sh", "-c", "sleep 1000 & echo $!"});
  CHECK(ended.exit_code == 0);
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  CHECK(is_gone(ended.output));
  const ToolRun killed = run_tool({"sh", "-c", "sleep 1000 & echo $!; wait"}, 300ms);
  CHECK_FALSE(killed.exit_code);
  CHECK(is_gone(killed.output));
}

TEST_CASE("a tool that floods is read to its end, and the surplus is thrown away") {
  const ToolRun flood = run_tool({"sh", "-c", "head -c 3000000 /dev/zero; echo done >&2"});
  CHECK(flood.exit_code == 0);
  CHECK(flood.output.size() == tool_output_max);
  CHECK(flood.errors == "done\n");
}

TEST_CASE("names of HCAs are checked before they are words of a command") {
  CHECK(read_hca_port("mlx5_0")->port == 1);
  CHECK(read_hca_port("mlx5_ib7:2")->device == "mlx5_ib7");
  CHECK(read_hca_port("mlx5_ib7:2")->port == 2);
  for (const char* bad : {"", ":1", "-d", "mlx5_0:", "mlx5_0:0", "mlx5_0:x", "mlx5_0:1:1", "a b",
                          "mlx5_0;ls", "mlx5_0:256"}) {
    INFO(bad);
    CHECK_FALSE(read_hca_port(bad));
  }
}
