#include "health/nvml/reader.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/catch.h"
#include "tests/health/nvml_fixture.h"

using namespace muster;

namespace {

// Runs the reader in a child that is killed when it says nothing for the time.
std::string read_in_child(int silence_ms) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto say = [&](const std::string& line) {
      if (::write(ends[1], line.data(), line.size()) < 0) ::_exit(2);
    };
    const auto library = NvmlLibrary::load(fake_nvml_path());
    if (!library) ::_exit(3);
    read_gpus(*library, {},
              {[&](const std::string& call) { say("calling " + call + "\n"); },
               [&](const std::string& key, const GpuReading& one) { say(line_of(key, one)); }});
    say("complete 1\n");
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  pollfd waiting{ends[0], POLLIN, 0};
  while (::poll(&waiting, 1, silence_ms) > 0) {
    char buffer[4096];
    const ssize_t count = ::read(ends[0], buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  return text;
}

}  // namespace

TEST_CASE("the reader asks a node of eight GPUs everything") {
  const FakeNvml fake(health_data("nvml-h100-8.txt"));
  const GpuReadings readings = fake.read();
  CHECK(readings.is_complete());
  CHECK(readings.count() == 8);
  CHECK(readings.text("driver") == "570.133.20");
  CHECK(readings.text("gpu3.name") == "NVIDIA H100 80GB HBM3");
  CHECK(readings.text("gpu0.bdf") == "00000000:19:00.0");
  CHECK(readings.number("gpu7.field.164.17") == 26562);
  CHECK(readings.number("gpu7.field.230") == 0);
  CHECK(readings.number("gpu7.field.193") == -8);
  CHECK(readings.number("gpu2.link.17.state") == 1);
  CHECK(readings.find("gpu2.link.18.state") == nullptr);
  CHECK(readings.number("gpu2.fabric.summary") == 1);
  CHECK(readings.text("gpu2.fabric.cluster") == std::string(32, '0'));
  CHECK(readings.number("gpu2.memory.used") == 4521984);
  CHECK(readings.number("gpu2.temp.margin") == 56);
  CHECK(readings.text("gpu2.procs") == "none");
  CHECK(readings.find("gpu2.retired.dbe")->rc == 3);  // not of this generation
}

TEST_CASE("all that a library has to report a GPU is asked for") {
  for (const char* name : {"nvml-h100-8.txt", "nvml-a100-8.txt"}) {
    const std::string script = health_data(name);
    const GpuReadings readings = FakeNvml(script).read();
    std::istringstream lines(script);
    std::vector<std::string> not_asked;
    for (std::string line; std::getline(lines, line);) {
      std::string key = line.substr(0, line.find(' '));
      if (!key.starts_with("gpu*.") || key == "gpu*.events") continue;  // those are waited for
      key.replace(3, 1, "2");
      const std::size_t links = key.find(".*");
      if (links != key.npos) key.replace(links + 1, 1, "3");
      const GpuReading* reading = readings.find(key);
      if (reading == nullptr || reading->rc != 0) not_asked.push_back(key);
    }
    CAPTURE(name);
    CHECK(not_asked == std::vector<std::string>{});
  }
}

TEST_CASE("a recorded host replays as itself") {
  for (const char* name : {"nvml-h100-8.txt", "nvml-a100-8.txt"}) {
    const FakeNvml fake(health_data(name));
    const GpuReadings recorded = fake.read();
    const FakeNvml again(write_gpu_readings(recorded));
    CHECK(again.read().all() == recorded.all());
    CHECK(recorded.all().size() > 1000);
  }
}

TEST_CASE("a driver that knows older structs alone is asked with those") {
  const FakeNvml fake(health_data("nvml-a100-8.txt") +
                      "gpu*.fabric.state 3\ngpu*.fabric.mask 0x2\n");
  const GpuReadings readings = fake.read();
  CHECK(readings.number("gpu0.fabric.state") == 3);
  CHECK(readings.number("gpu0.fabric.mask") == 2);
  CHECK(readings.find("gpu0.fabric.summary") == nullptr);
}

TEST_CASE("an old library lacks functions and has older ones") {
  const FakeNvml fake(health_data("nvml-a100-8.txt") + "gpu0.procs 41:1048576\n" +
                      "gpu*.retired.sbe 2\ngpu*.retired.dbe 0\ngpu*.fabric.state 3\n");
  const GpuReadings readings = fake.read({}, true);
  CHECK(readings.is_complete());
  CHECK(readings.find("gpu0.temp.margin")->rc == 13);
  CHECK(readings.find("gpu0.sram.exceeded")->rc == 13);
  CHECK(readings.find("gpu0.memory.reserved")->rc == 13);
  CHECK(readings.number("gpu0.memory.used") == 2097152);
  CHECK(readings.text("gpu0.procs") == "41:1048576");
  CHECK(readings.number("gpu0.temp.gpu") == 29);
  CHECK(readings.number("gpu0.clocks.reasons") == 1);
  CHECK(readings.number("gpu0.retired.sbe") == 2);
  CHECK(readings.number("gpu0.fabric.state") == 3);
  CHECK(readings.find("gpu0.fabric.mask") == nullptr);
}

TEST_CASE("lists that grow between the calls are collected again") {
  FakeNvml fake(health_data("nvml-h100-8.txt"));
  fake.add("gpu1.procs 41:1073741824 42:0 43:7");
  const GpuReadings readings = fake.read();
  CHECK(readings.text("gpu1.procs") == "41:1073741824 42:0 43:7");
}

TEST_CASE("codes of calls and of single fields are told") {
  FakeNvml fake(health_data("nvml-h100-8.txt"));
  fake.add("gpu3.nvmlDeviceGetSerial.rc 4\ngpu3.field.230.rc 999\nnvmlDeviceGetEccMode.rc 17");
  fake.add("gpu4.nvmlDeviceGetFieldValues.rc 999");
  const GpuReadings readings = fake.read();
  CHECK(readings.find("gpu3.serial")->rc == 4);
  CHECK(readings.find("gpu2.serial")->rc == 0);
  CHECK(readings.find("gpu3.field.230")->rc == 999);
  CHECK(readings.find("gpu3.field.4")->rc == 0);
  CHECK(readings.find("gpu5.ecc.pending")->rc == 17);
  CHECK(readings.find("gpu4.field.230")->rc == 999);
  CHECK(readings.find("gpu4.field.164.3")->rc == 999);
}

TEST_CASE("a GPU that is lost stays lost and is asked no more") {
  FakeNvml fake(health_data("nvml-h100-8.txt"));
  fake.add("gpu5.nvmlDeviceGetSerial.rc 15");
  const auto library = NvmlLibrary::load(fake_nvml_path());
  REQUIRE(library);
  NvmlDevice device = nullptr;
  REQUIRE(library->call(nvml_handle, 5u, &device) == 0);
  char text[64];
  const auto ask = [&](const char* name) { return library->call(name, device, +text, 64u); };
  CHECK(ask("nvmlDeviceGetName") == 0);
  CHECK(ask("nvmlDeviceGetSerial") == nvml_gpu_is_lost);
  CHECK(ask("nvmlDeviceGetName") == nvml_gpu_is_lost);
  const GpuReadings readings = fake.read();
  CHECK(readings.find("gpu5.handle")->rc == 15);
  CHECK(readings.find("gpu5.name") == nullptr);
  CHECK(readings.find("gpu6.name")->rc == 0);
}

TEST_CASE("a GPU that is lost half way is asked no further") {
  FakeNvml fake(health_data("nvml-h100-8.txt"));
  fake.add("gpu5.nvmlDeviceGetPersistenceMode.rc 15");
  const GpuReadings readings = fake.read();
  CHECK(readings.find("gpu5.name")->rc == 0);
  CHECK(readings.find("gpu5.persistence")->rc == 15);
  CHECK(readings.find("gpu5.temp.gpu") == nullptr);
  CHECK(readings.find("gpu5.procs") == nullptr);
  CHECK(readings.find("gpu6.procs")->rc == 0);
}

TEST_CASE("a struct of a version not known is refused") {
  const FakeNvml fake(health_data("nvml-h100-8.txt"));
  const auto library = NvmlLibrary::load(fake_nvml_path());
  REQUIRE(library);
  NvmlDevice device = nullptr;
  REQUIRE(library->call(nvml_handle, 0u, &device) == 0);
  NvmlMemoryV2 memory{};
  memory.version = nvml_version_word(sizeof memory, 3);
  CHECK(library->call("nvmlDeviceGetMemoryInfo_v2", device, &memory) == nvml_version_mismatch);
  memory.version = nvml_memory_v2;
  CHECK(library->call("nvmlDeviceGetMemoryInfo_v2", device, &memory) == 0);
  CHECK(memory.total == 85520809984);
}

TEST_CASE("a library that is not there, and a driver that does not start") {
  CHECK_FALSE(NvmlLibrary::load("/nowhere/libnvidia-ml.so.1"));
  FakeNvml fake(health_data("nvml-h100-8.txt"));
  fake.add("nvmlInit.rc 9");
  CHECK(fake.read().find("init")->rc == 9);
  CHECK(fake.read().find("count") == nullptr);
}

TEST_CASE("what came before a call that hangs or crashes is kept") {
  FakeNvml fake(health_data("nvml-h100-8.txt"));
  fake.add("gpu3.nvmlDeviceGetEccMode.hang 1");
  const GpuReadings hung = parse_gpu_readings(read_in_child(1000));
  CHECK_FALSE(hung.is_complete());
  CHECK(hung.calling() == "gpu3.nvmlDeviceGetEccMode");
  CHECK(hung.number("gpu2.field.230") == 0);
  CHECK(hung.find("gpu3.name")->rc == 0);
  CHECK(hung.find("gpu3.ecc.current") == nullptr);
  fake.add("gpu3.nvmlDeviceGetEccMode.hang 0\ngpu4.nvmlDeviceGetEccMode.crash 1");
  const GpuReadings crashed = parse_gpu_readings(read_in_child(30'000));
  CHECK(crashed.calling() == "gpu4.nvmlDeviceGetEccMode");
  CHECK(crashed.number("gpu3.field.230") == 0);
  fake.add("gpu4.nvmlDeviceGetEccMode.crash 0\ngpu4.nvmlDeviceGetEccMode.sleep_ms 20");
  CHECK(parse_gpu_readings(read_in_child(30'000)).is_complete());
}
