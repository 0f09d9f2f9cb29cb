#include "health/model/gpu_readings.h"

#include <random>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("readings are written as they are read") {
  GpuReadings readings;
  readings.add("count", {0, "8"});
  readings.add("gpu3.name", {0, "NVIDIA H100 80GB HBM3"});
  readings.add("gpu3.remap.pending", {15, ""});
  readings.add("gpu3.serial", {0, ""});
  readings.complete();
  const GpuReadings again = parse_gpu_readings(write_gpu_readings(readings));
  CHECK(again.all() == readings.all());
  CHECK(again.is_complete());
  CHECK(again.count() == 8);
}

TEST_CASE("readings that ended before their end come back with where and why") {
  GpuReadings readings;
  readings.add("init", {0, "ok"});
  readings.begin_call("gpu0.nvmlDeviceGetName");
  readings.stop("the helper died of\nsignal 11");
  const GpuReadings again = parse_gpu_readings(write_gpu_readings(readings));
  CHECK_FALSE(again.is_complete());
  CHECK(again.all() == readings.all());
  CHECK(again.calling() == "gpu0.nvmlDeviceGetName");
  CHECK(again.stopped() == "the helper died of?signal 11");
}

TEST_CASE("a value that was cut short is no value") {
  const GpuReadings readings =
      parse_gpu_readings("gpu0.field.4 0\ncalling gpu0.x\ngpu0.field.6 12");
  CHECK(readings.number("gpu0.field.4") == 0);
  CHECK(readings.find("gpu0.field.6") == nullptr);
  CHECK_FALSE(readings.is_complete());
  CHECK(readings.calling() == "gpu0.x");
}

TEST_CASE("numbers are whole and fit") {
  const GpuReadings readings = parse_gpu_readings(
      "a 12\nb 0xff\nc -3\nd 12x\ne 18446744073709551615\nf\ng.rc 3\ncount 1000\n");
  CHECK(readings.number("a") == 12);
  CHECK(readings.number("b") == 255);
  CHECK(readings.number("c") == -3);
  for (const char* key : {"d", "e", "f", "g", "h"}) CHECK_FALSE(readings.number(key));
  CHECK(readings.text("f") == "");
  CHECK_FALSE(readings.text("g"));
  CHECK(readings.count() == 64);
}

TEST_CASE("lines that are none are skipped") {
  const GpuReadings readings =
      parse_gpu_readings("\n# c\n\xff\xfe 1\na.rc x\nb.rc 0\nc.rc -1\n" + std::string(200, 'k') +
                         " 1\nv " + std::string(5000, 'v') + "\n ok\n");
  CHECK(readings.all().empty());
}

TEST_CASE("a value stays on its line") {
  GpuReadings readings;
  readings.add("gpu0.name", {0, "a\nb.rc 15\x01"});
  CHECK(parse_gpu_readings(write_gpu_readings(readings)).text("gpu0.name") == "a?b.rc 15?");
}

TEST_CASE("any bytes are read without harm") {
  std::mt19937 random(7);
  const std::string alphabet = "gpu0.field.rc 123x\n\n\t#\xff";
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += alphabet[random() % alphabet.size()];
    const GpuReadings once = parse_gpu_readings(text);
    CHECK(parse_gpu_readings(write_gpu_readings(once)).all().size() == once.all().size());
  }
}
