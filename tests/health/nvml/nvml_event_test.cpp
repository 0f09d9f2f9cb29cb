#include "health/nvml/library.h"
#include "tests/catch.h"
#include "tests/health/nvml_fixture.h"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("events come in order, with their GPU, and not again") {
  for (const bool is_old : {false, true}) {
    FakeNvml fake(health_data("nvml-h100-8.txt"));
    fake.add("event 0 2 0x1 0\nevent 0 3 0x8 79\nevent 5 6 0x8000 1\nevent 600000 1 0x8 13");
    const auto library = NvmlLibrary::load(fake_nvml_path(is_old));
    REQUIRE(library);
    auto source = GpuEventSource::open(*library, gpu_event_usual);
    REQUIRE(source);
    auto event = source->wait(1000ms);
    REQUIRE(event);
    CHECK(*event == GpuEvent{3, gpu_event_xid, 79});  // nobody asked for the first
    event = source->wait(1000ms);
    REQUIRE(event);
    CHECK(*event == GpuEvent{6, gpu_event_recovery_action, 1});
    event = source->wait(1ms);
    REQUIRE(event);
    CHECK_FALSE(*event);
  }
}

TEST_CASE("a node without events says why") {
  FakeNvml fake("count 2\n");
  const auto library = NvmlLibrary::load(fake_nvml_path());
  REQUIRE(library);
  const auto silent = GpuEventSource::open(*library, gpu_event_usual);
  REQUIRE_FALSE(silent);
  CHECK_THAT(silent.error().message, ContainsSubstring("no GPU reports events"));
  fake.add("nvmlEventSetCreate.rc 4");
  const auto refused = GpuEventSource::open(*library, gpu_event_usual);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("no permission (4)"));
  CHECK_FALSE(GpuEventSource::open(NvmlLibrary(), gpu_event_usual));
}

TEST_CASE("a failing wait is an error, not silence") {
  FakeNvml fake(health_data("nvml-h100-8.txt"));
  const auto library = NvmlLibrary::load(fake_nvml_path());
  REQUIRE(library);
  auto source = GpuEventSource::open(*library, gpu_event_usual);
  REQUIRE(source);
  fake.add("nvmlEventSetWait.rc 15");
  const auto event = source->wait(1ms);
  REQUIRE_FALSE(event);
  CHECK_THAT(event.error().message, ContainsSubstring("the GPU is lost (15)"));
}
