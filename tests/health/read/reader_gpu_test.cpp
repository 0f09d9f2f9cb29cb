#include <sys/wait.h>

#include <csignal>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/nvml_fixture.h"
#include "tests/health/read/reader_fixture.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

// A node with files and eight GPUs, and a reader of both.
struct GpuNode {
  FakeRoot root;
  FakeNvml nvml{health_data("nvml-h100-8.txt")};

  GpuNode() { root.write("/a", "1"); }

  NodeReadRequest request(bool is_old = false) const {
    NodeReadRequest request;
    request.root = root.path();
    request.sources = {"/a"};
    request.gpus.emplace();
    request.nvml_library = fake_nvml_path(is_old);
    return request;
  }
};

NodeReader::Options patient_for(std::chrono::milliseconds gpu_call) {
  auto options = reader_options();
  options.limits.gpu_call = gpu_call;
  return options;
}

NodeReader::Options watching(std::chrono::milliseconds gpu_call = 10s) {
  auto options = patient_for(gpu_call);
  options.wants_events = true;
  options.nvml_library = fake_nvml_path();
  return options;
}

std::vector<GpuEvent> next_events(NodeReader& reader, std::chrono::milliseconds most) {
  std::vector<GpuEvent> events;
  drive(reader, most, [&] { return !(events = reader.take_events()).empty(); });
  return events;
}

// Of all children, in ticks.
long processor_time() {
  long ticks = 0;
  for (const pid_t child : own_children()) {
    const auto fields = process_fields(std::to_string(child));
    if (fields.size() > 12) ticks += std::stol(fields[11]) + std::stol(fields[12]);
  }
  return ticks;
}

}  // namespace

TEST_CASE("the driver is asked by the helper as it is asked directly") {
  const GpuNode node;
  NodeReader reader(reader_options());
  for (const bool is_old : {false, true, false}) {
    const NodeReadings readings = read_node(reader, node.request(is_old));
    CHECK(readings.files.text("/a") == "1");
    REQUIRE(readings.gpus);
    CHECK(readings.gpus->is_complete());
    CHECK(readings.gpus->all() == node.nvml.read({}, is_old).all());
  }
  CHECK(reader.facts().restarts == 0);
}

TEST_CASE("a node without the library says so") {
  const GpuNode node;
  NodeReader reader(reader_options());
  NodeReadRequest request = node.request();
  request.nvml_library = "/no/such/libnvidia-ml.so.1";
  const NodeReadings readings = read_node(reader, request);
  REQUIRE(readings.gpus);
  CHECK(readings.gpus->is_complete());
  CHECK(readings.gpus->find("init")->rc == nvml_library_not_found);
}

TEST_CASE("a call that hangs costs its deadline, and names itself") {
  GpuNode node;
  NodeReader reader(patient_for(2000ms));
  read_node(reader, node.request());
  node.nvml.add("gpu3.nvmlDeviceGetEccMode.hang 1");
  const auto began = std::chrono::steady_clock::now();
  NodeReadings readings = read_node(reader, node.request());
  CHECK(since(began) >= 2000ms);
  CHECK(since(began) < 8s);
  CHECK(readings.files.text("/a") == "1");
  REQUIRE(readings.gpus);
  CHECK_FALSE(readings.gpus->is_complete());
  CHECK(readings.gpus->calling() == "gpu3.nvmlDeviceGetEccMode");
  CHECK(readings.gpus->stopped().empty());
  CHECK(readings.gpus->find("gpu2.ecc.current") != nullptr);
  CHECK(readings.gpus_took >= 2000ms);
  CHECK(readings.files_took < 2000ms);
  node.nvml.add("gpu3.nvmlDeviceGetEccMode.hang 0");
  readings = read_node(reader, node.request());
  CHECK(readings.gpus->is_complete());
  CHECK(reader.facts().restarts == 1);
}

TEST_CASE("a call that crashes the helper is told with its signal") {
  GpuNode node;
  NodeReader reader(reader_options());
  for (const char* call : {"nvmlInit", "gpu4.nvmlDeviceGetEccMode"}) {
    node.nvml.add(std::string(call) + ".crash 1");
    const NodeReadings readings = read_node(reader, node.request());
    CHECK(readings.files.text("/a") == "1");
    REQUIRE(readings.gpus);
    CHECK_FALSE(readings.gpus->is_complete());
    CHECK(readings.gpus->calling() == call);
    CHECK(readings.gpus->stopped() == "the helper died of signal 11 in " + std::string(call));
    node.nvml.add(std::string(call) + ".crash 0");
  }
  CHECK(read_node(reader, node.request()).gpus->is_complete());
}

TEST_CASE("a slow driver is waited for, call by call") {
  GpuNode node;
  NodeReader reader(patient_for(2s));
  node.nvml.add("nvmlDeviceGetUUID.sleep_ms 300");
  const NodeReadings readings = read_node(reader, node.request());
  CHECK(readings.gpus->is_complete());
  CHECK(readings.gpus_took >= 2400ms);  // longer than one call may take
}

TEST_CASE("a driver that hangs unreaped is said to hang still") {
  GpuNode node;
  auto options = patient_for(2s);
  options.limits.reaping = 50ms;
  bool is_stuck = true;
  options.wait = [&is_stuck](pid_t pid, int* status, int flags) {
    return is_stuck ? 0 : ::waitpid(pid, status, flags);
  };
  NodeReader reader(options);
  node.nvml.add("nvmlInit.hang 1");
  NodeReadings readings = read_node(reader, node.request());
  CHECK(readings.files.text("/a") == "1");
  CHECK(readings.gpus->calling() == "nvmlInit");
  CHECK(reader.stuck_in() == "nvmlInit");
  readings = read_node(reader, node.request());
  CHECK_FALSE(readings.files.reading("/a").ok());
  CHECK_FALSE(readings.gpus->is_complete());
  CHECK_THAT(readings.gpus->stopped(), ContainsSubstring("an earlier helper hangs in nvmlInit"));
  CHECK(own_children().size() == 1);
  is_stuck = false;
}

TEST_CASE("events come within a second, also after reads") {
  GpuNode node;
  NodeReader reader(watching());
  CHECK_FALSE(reader.has_events());
  REQUIRE(drive(reader, 10s, [&] { return reader.has_events(); }));
  auto least = std::chrono::milliseconds::max();
  // The machine may be busy, but not each time.
  for (int round = 0; round < 3; ++round) {
    const auto began = std::chrono::steady_clock::now();
    node.nvml.add("event 0 3 0x8 79");
    CHECK(next_events(reader, 10s) == std::vector<GpuEvent>{{3, gpu_event_xid, 79}});
    least = std::min(least, since(began));
  }
  CHECK(least < 1s);
  const NodeReadings readings = read_node(reader, node.request());
  CHECK(readings.gpus->is_complete());
  CHECK(reader.has_events());
  node.nvml.add("event 0 6 0x8000 2");
  CHECK(next_events(reader, 10s) == std::vector<GpuEvent>{{6, gpu_event_recovery_action, 2}});
  CHECK(own_children().size() == 1);
}

TEST_CASE("waiting for events delays a read little") {
  const GpuNode node;
  NodeReader reader(watching());
  REQUIRE(drive(reader, 10s, [&] { return reader.has_events(); }));
  NodeReadRequest request = node.request();
  request.gpus.reset();
  auto least = std::chrono::milliseconds::max();
  for (int round = 0; round < 5; ++round) {
    const auto began = std::chrono::steady_clock::now();
    CHECK(read_node(reader, request).files.text("/a") == "1");
    least = std::min(least, since(began));
  }
  CHECK(least < 250ms);
}

TEST_CASE("a node that tells no events is not asked in a loop, and is read") {
  const GpuNode node;
  auto options = watching();
  options.nvml_library = "/no/such/libnvidia-ml.so.1";
  NodeReader reader(options);
  CHECK_FALSE(drive(reader, 500ms, [&] { return reader.has_events(); }));
  const long before = processor_time();
  CHECK_FALSE(drive(reader, 1s, [&] { return reader.has_events(); }));
  CHECK(processor_time() - before <= 5);
  CHECK(read_node(reader, node.request()).gpus->is_complete());
  CHECK(own_children().size() == 1);
}

TEST_CASE("a driver that hangs when asked for events is left alone, and files are read") {
  GpuNode node;
  node.nvml.add("nvmlEventSetCreate.hang 1");
  NodeReader reader(watching(2s));
  REQUIRE(drive(reader, 10s, [&] { return !own_children().empty(); }));
  REQUIRE(drive(reader, 10s, [&] { return own_children().empty(); }));
  NodeReadRequest request = node.request();
  const NodeReadings readings = read_node(reader, request);
  CHECK(readings.files.text("/a") == "1");
  CHECK(readings.gpus->is_complete());
  CHECK_FALSE(reader.has_events());
}

TEST_CASE("a wait for events that hangs is found by the next read, which continues without") {
  GpuNode node;
  NodeReader reader(watching(2s));
  REQUIRE(drive(reader, 10s, [&] { return reader.has_events(); }));
  node.nvml.add("nvmlEventSetWait.hang 1");
  drive(reader, 2500ms, [] { return false; });
  CHECK(own_children().size() == 1);
  const NodeReadings readings = read_node(reader, node.request());
  CHECK(readings.files.text("/a") == "1");
  CHECK(readings.gpus->is_complete());
  CHECK_FALSE(reader.has_events());
  CHECK(reader.facts().restarts == 1);
}

TEST_CASE("a helper that dies between reads is started again for events, not at once") {
  const GpuNode node;
  NodeReader reader(watching());
  REQUIRE(drive(reader, 10s, [&] { return reader.has_events(); }));
  const auto children = own_children();
  REQUIRE(children.size() == 1);
  ::kill(children[0], SIGKILL);
  REQUIRE(drive(reader, 5s, [&] { return own_children().empty(); }));
  CHECK_FALSE(reader.has_events());
  REQUIRE(reader.wake_at());
  CHECK(*reader.wake_at() > std::chrono::steady_clock::now() + 500ms);
  CHECK(read_node(reader, node.request()).gpus->is_complete());
  CHECK(drive(reader, 10s, [&] { return reader.has_events(); }));
}
